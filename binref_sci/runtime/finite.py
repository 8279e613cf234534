"""Finite differences: gradients for those who have none, and to check those of others.

**The step.** Unless a step is given, the elements of an input are moved by ``r`` times the
largest of them (``r`` if all are zero; infinities and NaN do not count), where ``r`` is the
square root (forward) or the cube root (central) of the rounding unit of the coarser of the dtypes
involved: for float64 about 1.5e-8 and 6e-6, for float32 3.5e-4 and 5e-3. That balances what
rounding and what curvature spoil; where the outputs change by their own size when the inputs do,
the error that is left is about ``r`` (forward) or ``r**2`` (central). An input whose elements
differ by orders of magnitude wants a step of its own: ``eps`` is taken as it is. Differences are
divided by the distance between the two points as they were rounded.

**Batches.** Points are made ``batch_size`` at a time and handed to ``mapper``, which may
evaluate them at once: the ``map`` of a thread or process pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.errors import ComponentError
from binref_sci.messages import shown
from binref_sci.runtime import paths
from binref_sci.runtime.blocks import folder_of
from binref_sci.runtime.columns import PANEL_BYTES, jacobian_by_columns
from binref_sci.runtime.gradients.arrays import derivative_dtype
from binref_sci.runtime.stepping import Algorithm, Eps, Mapper, Stepping, Values


def finite_difference_jacobian(
    apply_fn: Callable[[Any], Any],
    inputs: BaseModel,
    jac_inputs: Iterable[str],
    jac_outputs: Iterable[str],
    *,
    algorithm: Algorithm = "central",
    eps: Eps = None,
    batch_size: int = 1,
    mapper: Mapper = map,
    memory: int = PANEL_BYTES,
    output_path: str | os.PathLike[str] | None = None,
) -> dict[str, dict[str, BinrefArray]]:
    """Return the Jacobian by moving each element of the inputs, written to disk as it comes.

    Parameters
    ----------
    apply_fn
        The component's ``apply``; what it writes is thrown away.
    inputs
        Where to differentiate.
    jac_inputs, jac_outputs
        Paths.
    algorithm
        ``"central"``, two evaluations for each element, or ``"forward"``, one, and one in
        all.
    eps
        Step, or one for each input path; default: see the module.
    batch_size, mapper
        How many elements are moved at a time, and what evaluates them; see the module.
    memory
        For columns that wait to be written, in bytes.
    output_path
        Directory to write into; default: the running call's.

    Returns
    -------
    dict
        Blocks by output and input, references to arrays of the output's shape followed by
        the input's.

    Raises
    ------
    ComponentError
        If an input holds whole numbers, which cannot be moved a little, or the outputs
        change their shape.
    ValueError
        If `eps` does not name the inputs, or `algorithm` is unknown.
    NoOutputPathError
        If there is no running call and no `output_path`.
    """
    directory = folder_of(output_path)
    chosen, outputs = sorted(jac_inputs), sorted(jac_outputs)
    steps = Stepping.of(apply_fn, inputs, chosen, outputs, algorithm, eps, batch_size, mapper)

    def columns(path: str, point: NDArray[Any]) -> Iterator[Values]:
        return steps.columns(path) if point.size else iter([steps.nothing()])

    return jacobian_by_columns(columns, inputs, chosen, outputs, directory, memory)


def finite_difference_jvp(
    apply_fn: Callable[[Any], Any],
    inputs: BaseModel,
    jvp_inputs: Iterable[str],
    jvp_outputs: Iterable[str],
    tangent_vector: Mapping[str, Any],
    *,
    algorithm: Algorithm = "central",
    eps: Eps = None,
) -> Values:
    """Return the Jacobian-vector product by moving all inputs along the tangent vector.

    Takes two evaluations (forward: one, and one in all) for each input, or in all if `eps`
    is a number.

    Parameters
    ----------
    apply_fn, inputs, algorithm
        As of `finite_difference_jacobian`.
    jvp_inputs, jvp_outputs
        Paths.
    tangent_vector
        Arrays by input path.
    eps
        The inputs are moved by `eps` times the tangent vector. Default: each so far that
        the largest movement of an element is the step that the module tells.

    Raises
    ------
    ComponentError, ValueError
        As `finite_difference_jacobian`.
    """
    outputs, chosen = sorted(jvp_outputs), sorted(jvp_inputs)
    steps = Stepping.of(apply_fn, inputs, chosen, outputs, algorithm, eps, 1, map)
    groups = [chosen] if isinstance(eps, float | int) else [[path] for path in chosen]
    made: Values = {}
    for group in groups:
        part = steps.along({path: np.asarray(tangent_vector[path]) for path in group})
        made = {output: made[output] + part[output] for output in made} or part
    return made


def finite_difference_vjp(
    apply_fn: Callable[[Any], Any],
    inputs: BaseModel,
    vjp_inputs: Iterable[str],
    vjp_outputs: Iterable[str],
    cotangent_vector: Mapping[str, Any],
    *,
    algorithm: Algorithm = "central",
    eps: Eps = None,
    batch_size: int = 1,
    mapper: Mapper = map,
) -> Values:
    """Return the vector-Jacobian product by moving each element of the inputs.

    Takes as many evaluations as `finite_difference_jacobian`, and no disk.

    Parameters
    ----------
    apply_fn, inputs, algorithm, eps, batch_size, mapper
        As of `finite_difference_jacobian`.
    vjp_inputs, vjp_outputs
        Paths.
    cotangent_vector
        Arrays by output path.

    Raises
    ------
    ComponentError, ValueError
        As `finite_difference_jacobian`.
    """
    outputs, chosen = sorted(vjp_outputs), sorted(vjp_inputs)
    steps = Stepping.of(apply_fn, inputs, chosen, outputs, algorithm, eps, batch_size, mapper)
    cotangents = {path: np.asarray(cotangent_vector[path]) for path in outputs}
    made: Values = {}
    for path in chosen:
        point = np.asarray(paths.get(inputs, path))
        dtype = np.result_type(derivative_dtype(point.dtype), *cotangents.values())
        flat = np.zeros(point.size, dtype)
        for number, column in enumerate(steps.columns(path)):
            for output, cotangent in cotangents.items():
                if cotangent.shape != column[output].shape:
                    raise ComponentError(
                        f"the cotangent vector of {shown(output)} has shape {cotangent.shape}, but the "
                        f"output has shape {column[output].shape}"
                    )
                flat[number] += np.sum(cotangent * column[output])
        made[path] = flat.reshape(point.shape)
    return made
