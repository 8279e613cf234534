"""Products made from a Jacobian: what a component adopts in one line.

Blocks on disk are multiplied as they are read, and thrown away afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.errors import ComponentError
from binref_sci.matrix import Matrix
from binref_sci.messages import shown
from binref_sci.runtime.probing import calling, scratch, throwaway


def jvp_from_jacobian(
    jacobian_fn: Callable[..., Any],
    inputs: BaseModel,
    jvp_inputs: Iterable[str],
    jvp_outputs: Iterable[str],
    tangent_vector: Mapping[str, Any],
) -> dict[str, NDArray[Any]]:
    """Return the Jacobian-vector product by way of the Jacobian, which may be on disk.

    Parameters
    ----------
    jacobian_fn
        The component's ``jacobian``. Blocks on disk are multiplied as they are read.
    inputs
        Where to differentiate.
    jvp_inputs, jvp_outputs
        Paths.
    tangent_vector
        Arrays by input path.

    Raises
    ------
    ComponentError
        If the Jacobian lacks a block or a block has another shape.
    """
    made: dict[str, NDArray[Any]] = {}
    with _blocks_of(jacobian_fn, inputs, jvp_inputs, jvp_outputs) as blocks:
        for output, path, block in blocks:
            tangent = np.asarray(tangent_vector[path])
            split = _split(block.ndim - tangent.ndim, block, tangent.shape, -1, output, path)
            part = Matrix(block, split).times(tangent.reshape(-1)).reshape(block.shape[:split])
            made[output] = made[output] + part if output in made else part
    return made


def vjp_from_jacobian(
    jacobian_fn: Callable[..., Any],
    inputs: BaseModel,
    vjp_inputs: Iterable[str],
    vjp_outputs: Iterable[str],
    cotangent_vector: Mapping[str, Any],
) -> dict[str, NDArray[Any]]:
    """Return the vector-Jacobian product by way of the Jacobian, which may be on disk.

    Parameters
    ----------
    jacobian_fn
        The component's ``jacobian``. Blocks on disk are multiplied as they are read.
    inputs
        Where to differentiate.
    vjp_inputs, vjp_outputs
        Paths.
    cotangent_vector
        Arrays by output path.

    Raises
    ------
    ComponentError
        If the Jacobian lacks a block or a block has another shape.
    """
    made: dict[str, NDArray[Any]] = {}
    with _blocks_of(jacobian_fn, inputs, vjp_inputs, vjp_outputs) as blocks:
        for output, path, block in blocks:
            cotangent = np.asarray(cotangent_vector[output])
            split = _split(cotangent.ndim, block, cotangent.shape, 0, output, path)
            part = Matrix(block, split).transposed_times(cotangent.reshape(-1))
            part = part.reshape(block.shape[split:])
            made[path] = made[path] + part if path in made else part
    return made


@contextmanager
def _blocks_of(
    jacobian_fn: Callable[..., Any],
    inputs: BaseModel,
    wrt: Iterable[str],
    of: Iterable[str],
) -> Iterator[Iterator[tuple[str, str, Any]]]:
    """Give output, input and block of a Jacobian; those on disk last as long."""
    chosen, outputs = sorted(wrt), sorted(of)
    with scratch() as folder, calling(throwaway(folder)):
        jacobian = jacobian_fn(inputs=inputs, jac_inputs=set(chosen), jac_outputs=set(outputs))
        yield (
            (output, path, _block_at(jacobian, output, path))
            for output in outputs
            for path in chosen
        )


def _block_at(jacobian: Any, output: str, path: str) -> Any:
    try:
        block = jacobian[output][path]
    except (KeyError, TypeError) as error:
        raise ComponentError(
            f"the Jacobian lacks the block [{shown(output)}][{shown(path)}]"
        ) from error
    return block if isinstance(block, BinrefArray) else np.asarray(block)


def _split(
    split: int, block: Any, shape: tuple[int, ...], side: int, output: str, path: str
) -> int:
    """Return how many axes of a block are the output's."""
    found = block.shape[split:] if side else block.shape[:split]
    if split < 0 or found != shape:
        raise ComponentError(
            f"the block [{shown(output)}][{shown(path)}] of the Jacobian has shape {block.shape}, and the "
            f"vector for it shape {shape}: the block's shape must "
            f"{'end' if side else 'begin'} with it"
        )
    return split
