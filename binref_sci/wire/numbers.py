"""Plain numbers as arrays, and arrays as those of another dtype: nothing is lost unnoticed."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import PayloadError
from binref_sci.messages import shown
from binref_sci.wire.messages import first_line
from binref_sci.wire.places import LARGEST

_EXACT_FLOAT: Final = 2**53  # floats are whole numbers' exact stand-ins up to here
_SPECIAL: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def numbers(values: Any, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """Return plain numbers, alone or in nested lists, as an array.

    JSON does not tell 1 from 1.0: a float that is a whole number up to 2**53 may stand
    in an integer array. Nothing else changes its kind, and no integer ever passes
    through a float.

    Parameters
    ----------
    values
        From JSON, so with ``None`` for NaN and the infinities as text, or from Python.
    dtype
        What they are declared as; None infers int64, uint64, float64, bool.

    Raises
    ------
    PayloadError
        If the lists are ragged, hold something else than numbers, or numbers that
        `dtype` cannot hold.

    Examples
    --------
    >>> numbers([2**64 - 1, 1]).tolist() == [2**64 - 1, 1]
    True
    """
    try:
        found = np.array(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise PayloadError(f"not an array of numbers: {first_line(error)}") from error
    kind = found.dtype.kind
    wanted = "" if dtype is None else dtype.kind
    if found.size == 0:  # no number, so none of a wrong kind
        return found.astype(np.float64 if dtype is None else dtype)
    exact = kind in "biu" or kind == "c"
    if kind == "f":
        # NumPy makes floats of integers that fit no common type: look at those again.
        exact = wanted in ("f", "c") or (wanted == "" and not _beyond_exact(found))
    if not exact:
        found = _one_by_one(values, dtype)
    if found.dtype.kind not in "biufc":
        raise PayloadError(f"not an array of numbers: found {found.dtype.name}")
    return found if dtype is None else cast(found, dtype)


def _beyond_exact(found: NDArray[Any]) -> bool:
    finite = found[np.isfinite(found)]
    return bool(finite.size) and bool(np.abs(finite).max() >= _EXACT_FLOAT)


def _one_by_one(values: Any, dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Convert numbers singly: exact for all integers, and able to name the wrong one."""
    try:
        held = np.array(values, dtype=object)
    except ValueError as error:
        raise PayloadError(f"nested lists are ragged: {first_line(error)}") from error
    leaves = held.reshape(-1).tolist()
    for leaf in leaves:
        if isinstance(leaf, str) and leaf in _SPECIAL:
            continue
        if leaf is not None and not isinstance(leaf, bool | int | float | np.number | np.bool_):
            what = "nested lists are ragged at" if isinstance(leaf, list) else "not a number:"
            raise PayloadError(f"{what} {shown(leaf)}")
    kind = "" if dtype is None else dtype.kind
    floats = [
        leaf for leaf in leaves if leaf is None or isinstance(leaf, str | float | np.floating)
    ]
    if kind == "b":
        strange = next(leaf for leaf in leaves if not isinstance(leaf, bool | np.bool_))
        raise PayloadError(f"{shown(strange)} is not a bool")
    if kind in ("f", "c") or (kind == "" and floats):
        # as Python floats; whoever asked for a narrower dtype casts, and is told what is lost
        return np.array([_as_float(leaf) for leaf in leaves], np.float64).reshape(held.shape)
    whole = [_as_whole(leaf, dtype) for leaf in leaves]
    low, high = min(whole, default=0), max(whole, default=0)
    held_by = np.dtype(np.uint64 if high > LARGEST else np.int64)
    info = np.iinfo(dtype if dtype is not None else held_by)
    if low < info.min or high > info.max:
        strange = low if low < info.min else high
        raise PayloadError(f"value {strange} does not fit {info.dtype.name}")
    return np.array(whole, dtype=dtype if dtype is not None else held_by).reshape(held.shape)


def _as_float(leaf: Any) -> float:
    if leaf is None:
        return math.nan
    try:
        return _SPECIAL[leaf] if isinstance(leaf, str) else float(leaf)
    except OverflowError as error:
        raise PayloadError(f"value {shown(leaf)} does not fit float64") from error


def _as_whole(leaf: Any, dtype: np.dtype[Any] | None) -> int:
    name = "integer" if dtype is None else dtype.name
    if leaf is None:
        raise PayloadError(f"null in an array of {name}, which has no NaN")
    if isinstance(leaf, float | np.floating):
        number = float(leaf)
        if not number.is_integer():
            raise PayloadError(f"value {leaf} is not a whole number, expected {name}")
        if abs(number) > _EXACT_FLOAT:
            raise PayloadError(
                f"value {leaf} is a float beyond 2**53, where whole numbers are not told apart; "
                f"expected {name}"
            )
    if isinstance(leaf, str):
        raise PayloadError(f"value {leaf} does not fit {name}")
    return int(leaf)


def cast(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array with another dtype of the same kind, if no value is lost.

    Floats may be rounded to fewer digits, as always; a finite one never becomes
    infinite. Integers keep their value. The result shares memory if nothing changes.

    Raises
    ------
    PayloadError
        Naming the dtype and one value that it cannot hold.

    Examples
    --------
    >>> cast(np.array([300]), np.dtype("int8"))
    Traceback (most recent call last):
        ...
    binref_sci.errors.PayloadError: value 300 does not fit int8
    """
    found = array.dtype
    if found == dtype:
        return array
    if found.kind in "iu" and dtype.kind in "iu":
        return _cast_whole(array, dtype)
    if not np.can_cast(found, dtype, "same_kind"):
        if array.size == 0:
            return array.astype(dtype)
        raise PayloadError(_misfit(array, dtype))
    if np.can_cast(found, dtype, "safe"):
        return array.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        made = array.astype(dtype)
    if np.isinf(made).any():
        lost = _infinite_parts(made) & ~_infinite_parts(array)
        if lost.any():
            value = array[lost.any(axis=0)].reshape(-1)[0].item()
            raise PayloadError(f"value {value} does not fit {dtype.name}")
    return made


def _infinite_parts(array: NDArray[Any]) -> NDArray[np.bool_]:
    return np.stack([np.isinf(array.real), np.isinf(array.imag)])


def _cast_whole(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if array.size and not np.can_cast(array.dtype, dtype, "safe"):
        info = np.iinfo(dtype)
        # as Python integers: comparing int64 with uint64 inside NumPy goes through float
        for value in (int(array.min()), int(array.max())):
            if not info.min <= value <= info.max:
                raise PayloadError(f"value {value} does not fit {dtype.name}")
    return array.astype(dtype)


def _misfit(array: NDArray[Any], dtype: np.dtype[Any]) -> str:
    """Say why an array of another kind is refused, with a value that shows it."""
    flat = array.reshape(-1)
    value = flat[0]
    if array.dtype.kind == "f" and dtype.kind in "iu":
        odd = flat != np.trunc(flat)
        value = flat[int(odd.argmax())] if odd.any() else value
    elif array.dtype.kind == "c":
        odd = flat.imag != 0
        value = flat[int(odd.argmax())] if odd.any() else value
    return (
        f"{array.dtype.name} values cannot become {dtype.name} "
        f"(e.g. value {value.item()}); convert them before sending"
    )
