"""A field brought down to the size of the screen, block by block."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HOW: Final = ("stride", "mean", "max", "min", "absmax")


def reduced(field: NDArray[Any], factors: tuple[int, int], how: str) -> NDArray[Any]:
    """Return one value for each block of ``factors`` rows and columns.

    NaN counts for nothing, unless it is all of a block. Blocks at the lower and right edge
    may be smaller.

    Parameters
    ----------
    field
        Real numbers, shape ``(rows, columns)``.
    factors
        Size of a block.
    how
        ``"mean"``, ``"max"``, ``"min"`` or ``"absmax"``, the value farthest from zero.

    Examples
    --------
    >>> reduced(np.array([[1.0, 3.0, np.nan], [5.0, 7.0, -9.0]]), (2, 2), "mean")
    array([[ 4., -9.]])
    """
    if factors == (1, 1):
        return field
    if not field.size:
        rows, columns = (-(-n // factor) for n, factor in zip(field.shape, factors, strict=True))
        return np.empty((rows, columns), field.dtype)
    if how == "mean":
        return _mean(field, factors)
    if how == "max":
        return _blocks(np.fmax, field, factors)
    if how == "min":
        return _blocks(np.fmin, field, factors)
    if how != "absmax":
        raise ValueError(f"reduce={how!r}: use one of {HOW[1:]}")
    high, low = _blocks(np.fmax, field, factors), _blocks(np.fmin, field, factors)
    return np.where(np.abs(low) > np.abs(high), low, high)


def _blocks(function: np.ufunc, field: NDArray[Any], factors: tuple[int, int]) -> NDArray[Any]:
    made = field
    for axis, factor in enumerate(factors):
        if factor > 1:
            made = function.reduceat(made, range(0, made.shape[axis], factor), axis=axis)
    return made


def _mean(field: NDArray[Any], factors: tuple[int, int]) -> NDArray[Any]:
    there = ~np.isnan(field)
    if there.all():
        counts: Any = np.outer(
            *(
                np.diff([*range(0, length, factor), length])
                for length, factor in zip(field.shape, factors, strict=True)
            )
        )
        filled = field
    else:
        counts = _blocks(np.add, there.astype("f4"), factors)
        filled = np.where(there, field, 0)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # infinities, empty blocks
        made: NDArray[Any] = _blocks(np.add, filled, factors) / counts.astype(field.dtype)
    return made
