"""Shapes and dtypes of derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from binref_sci.dtypes import DTYPES
from binref_sci.runtime.schema import ArrayType


def derivative_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of derivatives: that of the array, or float64 where it holds integers."""
    return DTYPES["float64"] if dtype.kind in "iub" else dtype


def fits(field: ArrayType, shape: tuple[int, ...]) -> bool:
    """Return whether an array of a shape is one that an annotation admits."""
    expected = field.expected_shape
    return isinstance(expected, EllipsisType) or (
        len(expected) == len(shape)
        and all(want in (None, got) for want, got in zip(expected, shape, strict=True))
    )


def fitting(
    fields: Iterable[ArrayType], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> ArrayType | None:
    """Return the annotation, of those in a union, that an array belongs to; None if to none.

    By its shape, and among several of this shape by its dtype.
    """
    found = [field for field in fields if fits(field, shape)]
    exact = [field for field in found if field.expected_dtype in (None, dtype)]
    return next(iter(exact or found), None)


def holding(fields: Sequence[ArrayType], value: Any) -> ArrayType | None:
    """Return the annotation of a union that a validated array is there by; None if by none."""
    return fields[0] if len(fields) == 1 else fitting(fields, value.shape, value.dtype)


def told(fields: Iterable[ArrayType]) -> str:
    """Return the annotations of a union for a message."""
    return " | ".join(dict.fromkeys(map(repr, fields)))
