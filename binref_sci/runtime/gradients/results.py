"""What a component returns, held against what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.dtypes import checked_dtype
from binref_sci.errors import BinrefError, ComponentError
from binref_sci.messages import listed, shown
from binref_sci.runtime import paths
from binref_sci.runtime.gradients.arrays import derivative_dtype, fits, fitting, holding, told
from binref_sci.runtime.gradients.kinds import Asked, Point
from binref_sci.runtime.schema import ArrayType
from binref_sci.trajectory import Trajectory


def checked_result(
    asked: Asked, made: Any, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return a component's result in the order asked for; nothing on disk is read.

    Parameters
    ----------
    asked
        What was asked for.
    made
        What the component returned.
    inputs, outputs
        The component's schemas.

    Raises
    ------
    ComponentError
        Naming the key whose array is missing, too many, or does not fit.
    """
    gradient = asked.gradient
    if gradient.endpoint == "jacobian":
        rows = _keyed(made, asked.outputs, "", gradient.outputs)
        return {
            output: {
                path: _block(block, outputs, output, asked.points[path], path)
                for path, block in _keyed(
                    rows[output], asked.inputs, f"[{shown(output)}]", gradient.inputs
                ).items()
            }
            for output in asked.outputs
        }
    if gradient.takes_outputs:
        return {
            path: _product(
                array, _differentiable(inputs, path), f"[{shown(path)}]", asked.points[path]
            )
            for path, array in _keyed(made, asked.inputs, "", gradient.inputs).items()
        }
    return {
        path: _product(array, _differentiable(outputs, path), f"[{shown(path)}]", None)
        for path, array in _keyed(made, asked.outputs, "", gradient.outputs).items()
    }


def _differentiable(schema: type[BaseModel], path: str) -> list[ArrayType]:
    return [each for each in paths.declared(schema, path) if each.differentiable]


def _keyed(made: Any, wanted: tuple[str, ...], where: str, which: str) -> dict[str, Any]:
    """Return what a result has by path, if it is exactly what was asked for."""
    if isinstance(made, BaseModel):
        made = dict(made)
    if not isinstance(made, Mapping):
        raise ComponentError(
            f"{where or 'it'} is of type {type(made).__name__}, expected a dict with an entry for "
            f"each of {which}"
        )
    missing = [path for path in wanted if path not in made]
    if missing:
        raise ComponentError(f"{where or 'it'} lacks {listed(missing)} of {which}")
    known = set(wanted)
    extra = [path for path in made if path not in known]
    if extra:
        raise ComponentError(
            f"{where or 'it'} holds {listed(map(str, extra))}, which is not among {which}"
        )
    return {path: made[path] for path in wanted}


def _numbers(value: Any, where: str) -> Any:
    """Return a result as an array of the wire; one on disk as it is."""
    if isinstance(value, BinrefArray):
        return value
    if value is None or isinstance(value, Trajectory | Mapping | str | np.ma.MaskedArray):
        raise ComponentError(
            f"{where} is of type {type(value).__name__}, expected one array"
            + ("; BinrefWriter.stack() makes one of it" if isinstance(value, Trajectory) else "")
        )
    try:
        array = np.asarray(value)
        return array.astype(checked_dtype(array.dtype), copy=False)
    except (BinrefError, TypeError, ValueError) as error:
        raise ComponentError(f"{where} is no array: {error}") from error


def _block(value: Any, outputs: type[BaseModel], output: str, point: Point, path: str) -> Any:
    where = f"[{shown(output)}][{shown(path)}]"
    array = _numbers(value, where)
    inner = point.shape
    split = len(array.shape) - len(inner)
    outer = array.shape[:split] if split >= 0 else ()
    fields = _differentiable(outputs, output)
    if split < 0 or array.shape[split:] != inner or not any(fits(field, outer) for field in fields):
        raise ComponentError(
            f"{where} has shape {array.shape}, expected that of the output ({told(fields)}) followed "
            f"by that of the input, {inner}"
        )
    return array


def _product(value: Any, fields: list[ArrayType], where: str, point: Point | None) -> Any:
    array = _numbers(value, where)
    if point is not None and array.shape != point.shape:
        raise ComponentError(
            f"{where} has shape {array.shape}, but the input has shape {point.shape}"
        )
    field = fitting(fields, array.shape, array.dtype) if point is None else holding(fields, point)
    if field is None:
        raise ComponentError(f"{where} has shape {array.shape}, expected {told(fields)}")
    if field.expected_dtype is None:
        return array
    dtype = derivative_dtype(field.expected_dtype)
    if array.dtype == dtype:
        return array
    if isinstance(array, BinrefArray):
        raise ComponentError(
            f"{where} has dtype {array.dtype.name}, and an array on disk is never cast: write it as "
            f"{dtype.name}"
        )
    try:
        return wire.cast(array, dtype)
    except BinrefError as error:
        raise ComponentError(f"{where} does not fit {field!r}: {error}") from error
