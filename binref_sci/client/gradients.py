"""What a component's schema says of the arrays that its gradient endpoints returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from binref_sci.client.jacobian import Blocks
from binref_sci.client.result import Result
from binref_sci.runtime import paths
from binref_sci.runtime.gradients.kinds import GRADIENTS, Gradient
from binref_sci.runtime.gradients.labels import labels_of

_JACOBIAN = GRADIENTS["jacobian"]


def blocks_of(
    arrays: dict[str, Any],
    inputs: Mapping[str, Any] | BaseModel,
    openapi: Mapping[str, Any],
    *,
    folder: Path | None,
) -> Blocks:
    """Return the blocks of a reply with what the component's schema says of them.

    Parameters
    ----------
    arrays
        By output and input.
    inputs
        What the caller gave.
    openapi
        Document of the component, or of a server of another kind.
    folder
        Absolute output path that lazy ones lie in, or None.
    """
    outer, inner = _facts(openapi, "ApplyOutputSchema"), _facts(openapi, "ApplyInputSchema")
    ndims: dict[tuple[str, str], tuple[int, int]] = {}
    for output, row in arrays.items():
        for path, block in row.items():
            columns = _first(_declared(inner, path), _given(inputs, path))
            rows = _declared(outer, output)
            if columns is None and rows is not None:
                columns = block.ndim - rows
            if columns is not None and 0 <= columns <= block.ndim:
                ndims[output, path] = (block.ndim - columns, columns)
    chosen: Sequence[str] = list(next(iter(arrays.values()), ()))
    named = labels_of(_JACOBIAN, chosen, list(arrays), *_sides(openapi), ndims)
    return Blocks(arrays, ndims, named, folder)


def product_of(
    gradient: Gradient,
    arrays: Mapping[str, Any],
    wrt: Sequence[str],
    of: Sequence[str],
    openapi: Mapping[str, Any],
    *,
    folder: Path | None,
) -> Result:
    """Return the arrays of a reply to a product with the labels that the schema has for them.

    Parameters
    ----------
    gradient
        The endpoint.
    arrays
        By path.
    wrt, of
        Selected inputs and outputs.
    openapi, folder
        As of `blocks_of`.
    """
    return Result(arrays, folder=folder, labels=labels_of(gradient, wrt, of, *_sides(openapi), {}))


def _sides(openapi: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the labels of inputs and outputs."""
    labels = openapi.get("x-binref-labels", {})
    return labels.get("inputs", {}), labels.get("outputs", {})


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _facts(openapi: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    schema = openapi.get("components", {}).get("schemas", {}).get(name, {})
    found = schema.get("differentiable_arrays", {})
    return found if isinstance(found, Mapping) else {}


def _declared(facts: Mapping[str, Any], path: str) -> int | None:
    """Return the number of axes that a schema declares."""
    shape = facts.get(paths.pattern(path), {}).get("shape")
    return None if shape is None else len(shape)


def _given(inputs: Mapping[str, Any] | BaseModel, path: str) -> int | None:
    """Return the number of axes of what the caller gave, if it is there."""
    try:
        value = paths.get(inputs, path)
    except paths.PathError:
        return None
    if isinstance(value, Mapping):
        shape = value.get("shape")
        return len(shape) if isinstance(shape, Sequence) else None
    return int(np.ndim(value))
