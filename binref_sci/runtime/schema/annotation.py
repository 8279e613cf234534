"""The type of array annotations: what shape and dtype a field declares."""

from __future__ import annotations

from functools import cache
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

from binref_sci.dtypes import DTYPES, checked_dtype
from binref_sci.errors import UnsupportedDTypeError

Shape: TypeAlias = tuple[int | None, ...] | EllipsisType


class ArrayType(type):
    """The type of array annotations: a class for each shape, dtype and flag."""

    expected_shape: Shape
    expected_dtype: np.dtype[Any] | None
    differentiable: bool

    def __repr__(cls) -> str:
        shape = "..." if cls.expected_shape is Ellipsis else repr(cls.expected_shape)
        dtype = None if cls.expected_dtype is None else _marker(cls.expected_dtype.name)
        text = f"Array[{shape}, {dtype}]"
        return f"Differentiable[{text}]" if cls.differentiable else text


def _marker(name: str) -> str:
    """Return the schema's name of a dtype: UInt8 for uint8."""
    return name.replace("u", "U", 1).replace("int", "Int").title().replace("Uint", "UInt")


@cache  # one class for each annotation, so that equal ones are identical
def array_type(base: type, shape: Shape, dtype: str | None, *, differentiable: bool) -> ArrayType:
    """Return an annotation; a field of pydantic's if `base` has the hooks."""
    return ArrayType(
        "Array",
        (base,),
        {
            "expected_shape": shape,
            "expected_dtype": None if dtype is None else DTYPES[dtype],
            "differentiable": differentiable,
            "__module__": "binref_sci.runtime",  # whence it is imported
        },
    )


def checked_key(name: str, key: Any) -> tuple[Shape, str | None]:
    """Return shape and dtype of ``name[key]``, or say how it is written.

    Raises
    ------
    TypeError
        If `key` is not a shape and a dtype.
    """
    form = f"write {name}[(None, 3), Float64], {name}[..., Float64] or {name}[..., None]"
    if not isinstance(key, tuple) or len(key) != 2:
        raise TypeError(f"{name}[...] takes a shape and a dtype, got {key!r}; {form}")
    shape, dtype = key
    if not isinstance(shape, tuple | EllipsisType):
        raise TypeError(f"the shape in {name}[shape, dtype] is {shape!r}, expected a tuple; {form}")
    if isinstance(shape, tuple):
        for length in shape:
            if length is not None and (
                not isinstance(length, int) or isinstance(length, bool) or length < 0
            ):
                raise TypeError(
                    f"the shape in {name}[shape, dtype] holds {length!r}, expected whole numbers "
                    f"and None; {form}"
                )
    if isinstance(dtype, ArrayType):
        dtype = dtype.expected_dtype
    if dtype is None:
        return shape, None
    try:
        return shape, checked_dtype(dtype).name
    except UnsupportedDTypeError as error:
        raise TypeError(f"the dtype in {name}[shape, dtype] is not valid: {error}") from error
