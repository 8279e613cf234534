"""Shapes and dtypes of derivatives."""

from __future__ import annotations

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
