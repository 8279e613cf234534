"""The fourteen element types, and arrays made ready to be stored.

Stored bytes are little-endian and in C order; names on the wire are NumPy's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from binref_sci.errors import InvalidReferenceError, UnsupportedDTypeError
from binref_sci.messages import shown

DTypeName = Literal[
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
]
"""Element types of the wire format, by name."""

NAMES: Final[tuple[DTypeName, ...]] = get_args(DTypeName)

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    # through `.str`, since `newbyteorder` alone leaves a dtype that prints as '<f8'
    name: np.dtype(np.dtype(name).newbyteorder("<").str)
    for name in NAMES
}
"""Name on the wire -> little-endian dtype."""


_MOST_ELEMENTS = (2**63 - 1) // 16  # of the largest type


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the stored form of a dtype: little-endian, one of the fourteen.

    Raises
    ------
    UnsupportedDTypeError
        If the wire format has no such element type.

    Examples
    --------
    >>> checked_dtype(">f4")
    dtype('float32')
    """
    try:
        if dtype is None:  # NumPy would take it for float64
            raise TypeError("no dtype is given")
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise UnsupportedDTypeError(f"dtype {shown(dtype)} is not a NumPy dtype") from error
    # `names` guards against structured types, whose `name` is "void…" anyway;
    # long double is "float128"/"float96", or equals float64 where they are one.
    stored = DTYPES.get(found.name)
    if stored is None:
        raise UnsupportedDTypeError(
            f"dtype {found.name!r} cannot be stored; the wire format has {', '.join(NAMES)}"
        )
    return stored


def dtype_on_disk(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype of bytes that are there already, which are little-endian.

    Raises
    ------
    UnsupportedDTypeError
        As `checked_dtype`; also if it is big-endian: numbers would be taken for others.

    Examples
    --------
    >>> dtype_on_disk("<f4")
    dtype('float32')
    """
    stored = checked_dtype(dtype)
    if np.dtype(dtype) != stored:
        raise UnsupportedDTypeError(
            f"dtype {np.dtype(dtype).str!r} is big-endian, and the bytes of buffers are "
            "little-endian: write them so, or swap them once with NumPy's byteswap"
        )
    return stored


def checked_count(value: Any, what: str) -> int:
    """Return a size or offset as a Python integer.

    Parameters
    ----------
    value
        Anything with ``__index__``; NumPy integers of any width included.
    what
        Name of the quantity, for the message.

    Raises
    ------
    InvalidReferenceError
        If it is negative, fractional, a bool or not a number.
    """
    if isinstance(value, bool | np.bool_):
        raise InvalidReferenceError(f"{what} must be a whole number, got {shown(value)}")
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidReferenceError(f"{what} must be a whole number, got {shown(value)}") from error
    if number < 0:
        raise InvalidReferenceError(f"{what} must not be negative, got {number}")
    return number


def checked_shape(shape: Iterable[Any] | int) -> tuple[int, ...]:
    """Return a shape as a tuple of Python integers.

    Raises
    ------
    InvalidReferenceError
        If a length is negative, fractional or not a number, or there are more elements
        than an array can have.

    Examples
    --------
    >>> checked_shape((np.uint8(200), 2))
    (200, 2)
    """
    if isinstance(shape, str | bytes):
        raise InvalidReferenceError(
            f"shape must be a sequence of whole numbers, got {shown(shape)}"
        )
    try:
        lengths = tuple(shape)  # type: ignore[arg-type]  # of an integer: see below
    except TypeError:
        lengths = (shape,)
    checked = tuple(checked_count(length, f"shape[{axis}]") for axis, length in enumerate(lengths))
    if len(checked) > 64:
        raise InvalidReferenceError(f"shape has {len(checked)} axes; NumPy holds at most 64")
    # Empty axes aside, as NumPy counts.
    if math.prod(length or 1 for length in checked) > _MOST_ELEMENTS:
        raise InvalidReferenceError(f"shape {checked} has more elements than an array can have")
    return checked


def nbytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array, in Python integers, which never wrap.

    Examples
    --------
    >>> nbytes_of((2**40, 2**40), DTYPES["float64"]) == 2**83
    True
    """
    return math.prod(shape) * dtype.itemsize


def to_stored(array: ArrayLike) -> NDArray[Any]:
    """Return an array as its stored bytes: C order, little-endian, shape kept.

    The result shares memory with `array` where that is possible; it never has
    more than `array`'s axes or fewer (a 0-d array stays 0-d).

    Raises
    ------
    UnsupportedDTypeError
        For object, string, date, structured, long double and masked arrays.

    Examples
    --------
    >>> to_stored(np.array([1.0, 2.0], ">f8")).tobytes()[:8].hex()
    '000000000000f03f'
    """
    if _is_masked(array):
        raise UnsupportedDTypeError(
            "a masked array cannot be stored: its mask would be lost; "
            "pass array.filled(value) instead"
        )
    found = np.asarray(array)
    stored = checked_dtype(found.dtype)
    # order="C" leaves 0-d arrays 0-d, which np.ascontiguousarray does not.
    return np.asarray(found, dtype=stored, order="C")


def _is_masked(array: Any) -> bool:
    """Tell whether NumPy would drop a mask: also that of a part of a list."""
    if isinstance(array, list | tuple):
        return any(_is_masked(item) for item in array)
    return isinstance(array, np.ma.MaskedArray)
