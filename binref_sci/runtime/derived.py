"""Jacobians made from products: what a component adopts in one line.

::

    def jacobian(inputs, jac_inputs, jac_outputs):
        return jacobian_from_vjp(vector_jacobian_product, apply, inputs, jac_inputs, jac_outputs)

Names and order of arguments are tesseract-core's. Jacobians go to disk while they are
computed and come back as references; they are never in memory as a whole. What the
functions they are made from write on the way (a solver's snapshots, adjoint fields) is
thrown away.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.errors import ComponentError
from binref_sci.messages import shown
from binref_sci.progress import ProgressBar
from binref_sci.runtime import paths
from binref_sci.runtime.blocks import Block, all_or_none, folder_of
from binref_sci.runtime.columns import PANEL_BYTES, jacobian_by_columns
from binref_sci.runtime.gradients.arrays import derivative_dtype
from binref_sci.runtime.probing import arrays_of, calling, fresh, scratch, shapes_of, throwaway

Jacobian = dict[str, dict[str, BinrefArray]]
Folder = str | os.PathLike[str]


def jacobian_from_vjp(
    vjp_fn: Callable[..., Any],
    eval_fn: Callable[[Any], Any],
    inputs: BaseModel,
    jac_inputs: Iterable[str],
    jac_outputs: Iterable[str],
    *,
    output_path: Folder | None = None,
) -> Jacobian:
    """Return the Jacobian by a vector-Jacobian product for each element of the outputs.

    Each product is one row; rows are appended to one buffer for each block.

    Parameters
    ----------
    vjp_fn
        The component's ``vector_jacobian_product``.
    eval_fn
        Its ``abstract_eval``, or ``apply``: tells the outputs' shapes.
    inputs
        Where to differentiate.
    jac_inputs, jac_outputs
        Paths.
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
        If a product lacks a key or has another shape than the input, or is real for a complex
        output.
    NoOutputPathError
        If there is no running call and no `output_path`.
    """
    directory = folder_of(output_path)
    chosen = sorted(jac_inputs)
    made: Jacobian = {}
    shapes = shapes_of(eval_fn, inputs, sorted(jac_outputs))
    with all_or_none(made):
        for output, found in shapes.items():
            rows = _one_hot(found.shape, derivative_dtype(found.dtype))

            def product(cotangent: NDArray[Any], output: str = output) -> Any:
                return vjp_fn(
                    inputs=fresh(inputs),
                    vjp_inputs=set(chosen),
                    vjp_outputs={output},
                    cotangent_vector={output: cotangent},
                )

            made[output] = _rows(product, rows, output, found.shape, inputs, chosen, directory)
    return made


def _one_hot(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yield arrays with a single one in them, at each place in turn."""
    for place in range(math.prod(shape)):
        made = np.zeros(shape, dtype)
        made.reshape(-1)[place] = 1
        yield made


def _rows(
    product: Callable[[NDArray[Any]], Any],
    cotangents: Iterator[NDArray[Any]],
    output: str,
    outer: tuple[int, ...],
    inputs: BaseModel,
    chosen: list[str],
    directory: Folder,
) -> dict[str, BinrefArray]:
    points = {path: np.asarray(paths.get(inputs, path)) for path in chosen}
    blocks: dict[str, Block] = {}
    total = math.prod(outer)
    bar = ProgressBar(f"Jacobian of {output}", total)
    with ExitStack() as opened, scratch() as folder:
        first, others = throwaway(folder), throwaway(folder, quiet=True)
        for done, cotangent in enumerate(cotangents):
            with calling(others if done else first):
                rows = arrays_of(product(cotangent), chosen, "vector_jacobian_product")
            for path, row in rows.items():
                if path not in blocks:
                    _check_imaginary(cotangent, row, output, path)
                    blocks[path] = _block(outer, points[path], row.dtype, output, path, directory)
                    opened.enter_context(blocks[path])
                blocks[path].append(row)
            bar.update(done + 1)
        for path in set(chosen) - set(blocks):  # an output without elements
            blocks[path] = _block(outer, points[path], points[path].dtype, output, path, directory)
            opened.enter_context(blocks[path])
        bar.close(total)
        return {path: blocks[path].finish() for path in chosen}


def _check_imaginary(cotangent: NDArray[Any], row: NDArray[Any], output: str, path: str) -> None:
    if cotangent.dtype.kind == "c" and row.dtype.kind != "c":
        raise ComponentError(
            f"output {shown(output)} is {cotangent.dtype.name}, and its product for input {shown(path)} is "
            f"{row.dtype.name}: a row of the Jacobian would lack its imaginary part; use "
            "jacobian_from_jvp or finite differences"
        )


def _block(
    outer: tuple[int, ...],
    point: NDArray[Any],
    dtype: np.dtype[Any],
    output: str,
    path: str,
    directory: Folder,
) -> Block:
    what = f"the product for output {shown(output)} and input {shown(path)}"
    return Block(outer, point.shape, derivative_dtype(dtype), what=what, output_path=directory)


def jacobian_from_jvp(
    jvp_fn: Callable[..., Any],
    inputs: BaseModel,
    jac_inputs: Iterable[str],
    jac_outputs: Iterable[str],
    *,
    memory: int = PANEL_BYTES,
    output_path: Folder | None = None,
) -> Jacobian:
    """Return the Jacobian by a Jacobian-vector product for each element of the inputs.

    Each product is one column. Columns are gathered in memory, as many as `memory` holds,
    and then written to their places in the blocks.

    Parameters
    ----------
    jvp_fn
        The component's ``jacobian_vector_product``.
    inputs
        Where to differentiate.
    jac_inputs, jac_outputs
        Paths.
    memory
        For columns that wait to be written, in bytes: while one half is written in the
        background, the other is filled. Little memory makes many small writes: a piece of
        a row for as many columns as fit.
    output_path
        Directory to write into; default: the running call's.

    Returns
    -------
    dict
        As of `jacobian_from_vjp`.

    Raises
    ------
    ComponentError
        If a product lacks a key, or changes its shape from one to the next.
    NoOutputPathError
        If there is no running call and no `output_path`.
    """
    directory = folder_of(output_path)
    outputs = sorted(jac_outputs)

    def columns(path: str, point: NDArray[Any]) -> Iterator[dict[str, Any]]:
        dtype = derivative_dtype(point.dtype)
        # Of an input without elements, one product all the same: it tells the shapes.
        tangents = _one_hot(point.shape, dtype) if point.size else iter([point.astype(dtype)])
        with scratch() as folder:
            first, others = throwaway(folder), throwaway(folder, quiet=True)
            for done, tangent in enumerate(tangents):
                with calling(others if done else first):
                    product = jvp_fn(
                        inputs=fresh(inputs),
                        jvp_inputs={path},
                        jvp_outputs=set(outputs),
                        tangent_vector={path: tangent},
                    )
                    column = arrays_of(product, outputs, "jacobian_vector_product")
                yield column

    return jacobian_by_columns(columns, inputs, jac_inputs, outputs, directory, memory)
