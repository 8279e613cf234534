"""Whether an array fits what a field declares, by its shape and dtype alone."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import numpy as np
from pydantic_core import PydanticCustomError

from binref_sci.array import Layout
from binref_sci.messages import shown
from binref_sci.runtime.schema.annotation import ArrayType


def mismatch(field: ArrayType, shape: tuple[int, ...]) -> PydanticCustomError:
    """Return the complaint of a shape that does not fit."""
    return PydanticCustomError(
        "array_shape_mismatch",
        "shape {shape} does not fit; expected {field}",
        {"shape": shown(shape), "field": repr(field)},
    )


def check_shape(field: ArrayType, shape: tuple[int, ...]) -> None:
    """Check a shape that nothing will be broadcast to.

    Raises
    ------
    PydanticCustomError
        If it is not as declared.
    """
    expected = field.expected_shape
    if not isinstance(expected, EllipsisType) and (
        len(expected) != len(shape)
        or any(want is not None and want != got for want, got in zip(expected, shape, strict=True))
    ):
        raise mismatch(field, shape)


def check_layout(field: ArrayType, layout: Layout) -> None:
    """Check references by what they share, as `check_stored`; refuse blocks of a field.

    Raises
    ------
    PydanticCustomError
        If shape or dtype differ from what the field declares, or they are blocks.
    """
    if layout.part_of is not None:
        raise no_output(layout.part_of)
    check_stored(field, layout.shape, layout.dtype)


def no_output(whole: tuple[int, ...]) -> PydanticCustomError:
    """Return the complaint of one block of a field for an output."""
    return PydanticCustomError(
        "trajectory_block",
        "this is one block of a field of shape {whole}, and the blocks are no byte range, so it "
        "cannot be an output; open it from its run directory instead",
        {"whole": str(whole)},
    )


def check_stored(field: ArrayType, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check an array on disk by its metadata; nothing is read, nothing will be cast.

    Raises
    ------
    PydanticCustomError
        If shape or dtype differ from what the field declares.
    """
    check_shape(field, shape)
    if field.expected_dtype is not None and dtype != field.expected_dtype:
        raise PydanticCustomError(
            "array_dtype_mismatch",
            "dtype {dtype} does not fit, and an array on disk is never cast: write it as declared; "
            "expected {field}",
            {"dtype": dtype.name, "field": repr(field)},
        )


def broadcast_shape(field: ArrayType, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape an array takes on in a field, or None if it does not fit."""
    expected = field.expected_shape
    if isinstance(expected, EllipsisType):
        return shape
    if len(expected) != len(shape) or any(
        want is not None and got not in (1, want) for want, got in zip(expected, shape, strict=True)
    ):
        return None
    return tuple(got if want is None else want for want, got in zip(expected, shape, strict=True))


def castable(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Tell whether some values of `dtype` may become `wanted`: the same kind of number."""
    return np.can_cast(dtype, wanted, "same_kind") or (dtype.kind in "iu" and wanted.kind in "iu")
