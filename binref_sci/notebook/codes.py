"""A field as bytes: 0 bad, 1 under, 2 to 254 in range, 255 over.

The norm comes before the rounding, so logarithmic data keep their decades. For a value in
range the code is at most half a level off: ``(vmax - vmin) / 504`` on a linear scale.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.colors import BoundaryNorm, LogNorm, Normalize, SymLogNorm
from numpy.typing import NDArray

BAD: Final = 0
UNDER: Final = 1
FIRST: Final = 2
LAST: Final = 254
OVER: Final = 255
LEVELS: Final = LAST - FIRST + 1

Codes = NDArray[np.uint8]

_BLOCK: Final = 1 << 17  # elements at a time: what lies between two passes stays in the cache
_FEW: Final = 32  # boundaries up to which counting one by one is faster than a search
_EXACT: Final = 2.0**16  # product up to which float32 rounds by less than 1/100 of a level
_SMALL: Final = 1e-30
_LARGE: Final = 1e30  # beyond these a step between two passes may leave float32


@dataclass
class Ends:
    """What a field holds: its finite ends, and how many values no colour of the bar stands for.

    Parameters
    ----------
    lo, hi
        Smallest and largest finite value; infinite, and `lo` above `hi`, if there is none.
    bad, under, over
        Values that are none, and those outside of the limits.
    """

    lo: float = math.inf
    hi: float = -math.inf
    bad: int = 0
    under: int = 0
    over: int = 0

    def take(self, values: NDArray[Any], there: NDArray[np.bool_]) -> None:
        """Widen the ends to values, of those that are there."""
        if values.size:
            self.lo = min(self.lo, float(np.where(there, values, math.inf).min()))
            self.hi = max(self.hi, float(np.where(there, values, -math.inf).max()))


class Encoder(ABC):
    """Turns fields into codes."""

    def __call__(self, field: NDArray[Any]) -> tuple[Codes, Ends]:
        """Return the codes of a field, in its shape, and what it holds.

        Raises
        ------
        TypeError
            If the dtype is not one of real numbers.
        """
        values = _numbers(field)
        # In the order of the memory, a part at a time; a picture's rows often lie upside down.
        turns = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in values.strides)
        upright = values[turns]
        if not (upright.flags.c_contiguous or upright.flags.f_contiguous):
            upright = np.ascontiguousarray(upright)
        codes = np.empty_like(upright, np.uint8)
        flat, out = upright.ravel(order="K"), codes.ravel(order="K")
        ends = Ends()
        with np.errstate(all="ignore"):  # of NaN, infinity, the logarithm of zero: they are bad
            for start in range(0, flat.size, _BLOCK):
                self._encode(flat[start : start + _BLOCK], out[start : start + _BLOCK], ends)
        return codes[turns], ends

    @abstractmethod
    def _encode(self, values: NDArray[Any], codes: Codes, ends: Ends) -> None:
        """Fill in the codes of a part, and tell `ends` of it."""


def encoder(norm: Normalize) -> Encoder:
    """Return what turns a field into codes, for a norm with limits.

    Examples
    --------
    >>> encode = encoder(Normalize(0.0, 252.0))
    >>> codes, ends = encode(np.array([np.nan, -0.1, 0.0, 1.4, 252.0, 252.1, np.inf]))
    >>> codes
    array([  0,   1,   2,   3, 254, 255,   0], dtype=uint8)
    >>> ends
    Ends(lo=-0.1, hi=252.1, bad=2, under=1, over=1)
    """
    if isinstance(norm, BoundaryNorm):
        return _Boundaries(norm)
    if type(norm) is Normalize and not norm.clip:
        return _Linear(limits_of(norm))
    if type(norm) is LogNorm and not norm.clip:
        return _Linear(limits_of(norm), np.log)
    if type(norm) is SymLogNorm and not norm.clip:
        return _Linear(limits_of(norm), _symlog(norm))
    return _AnyNorm(norm)


def _numbers(field: NDArray[Any]) -> NDArray[Any]:
    """Return a field as native numbers."""
    field = np.ma.filled(field.astype(float), np.nan) if np.ma.isMaskedArray(field) else field
    if field.dtype.kind == "b":
        field = field.astype(np.uint8)
    if field.dtype.kind not in "iuf":
        way = ": plot its real part, its imag or its abs" if field.dtype.kind == "c" else ""
        raise TypeError(f"a colour scale needs real numbers, found dtype {field.dtype}{way}")
    return np.asarray(field, field.dtype.newbyteorder("="))


class _Linear(Encoder):
    """Codes on a scale that is linear, after `transform` if there is one."""

    def __init__(
        self, limits: tuple[float, float], transform: Callable[..., Any] | None = None
    ) -> None:
        self._limits = low, high = limits
        self._transform = transform
        if transform is not None:
            low, high = (float(transform(np.float64(limit))) for limit in limits)
        # Two numbers may lie further apart than a number can say.
        self._shrink = 1.0 if math.isfinite(high - low) else 0.5
        low, high = low * self._shrink, high * self._shrink
        self._low, self._range = low, (high - low) or 1.0  # one value: the lowest level
        top = max(abs(low), abs(high))
        self._single = (
            self._range > _SMALL
            and max(map(abs, limits)) < _LARGE
            and top * (LEVELS - 1) < _EXACT * self._range
        )

    def _encode(self, values: NDArray[Any], codes: Codes, ends: Ends) -> None:
        short = values.itemsize <= (4 if values.dtype.kind == "f" else 2)
        kind: Any = np.float32 if short and self._single else np.float64
        values = values.astype(kind, copy=False)
        low, high = _cuts(self._limits, kind)
        lo, hi = float(values.min()), float(values.max())  # NaN if one of them is
        scaled = np.empty(values.size, kind)
        source = values if self._transform is None else self._transform(values, out=scaled)
        # Mostly all are there, and in range: then nothing more is to be looked at.
        whole = math.isfinite(lo) and math.isfinite(hi) and (source is values or lo >= low)
        finite = None if whole else np.isfinite(source)
        self._place(source, scaled)
        if not (lo >= low and hi <= high):
            np.clip(scaled, FIRST, LAST, out=scaled)
        np.copyto(codes, scaled, casting="unsafe")
        # Outside is told from the value itself, which the rounding may have brought inside.
        if not lo >= low:
            outside = values < low
            np.subtract(codes, outside.view(np.uint8), out=codes)
            ends.under += int(np.count_nonzero(outside if finite is None else outside & finite))
        if not hi <= high:
            outside = values > high
            np.add(codes, outside.view(np.uint8), out=codes)
            ends.over += int(np.count_nonzero(outside if finite is None else outside & finite))
        if finite is None:
            ends.lo, ends.hi = min(ends.lo, lo), max(ends.hi, hi)
            return
        np.multiply(codes, finite.view(np.uint8), out=codes)
        ends.bad += values.size - int(np.count_nonzero(finite))
        ends.take(values, finite if source is values else np.isfinite(values))

    def _place(self, source: NDArray[Any], scaled: NDArray[Any]) -> None:
        """Lay values onto the levels, the lowest one at ``FIRST + 0.5``."""
        if scaled.itemsize == 4:  # two passes, exact enough as `_single` has found
            scale = (LEVELS - 1) / self._range
            np.multiply(source, np.float32(scale), out=scaled)
            np.add(scaled, np.float32(FIRST + 0.5 - self._low * scale), out=scaled)
            return
        if self._shrink != 1.0:
            source = np.multiply(source, self._shrink, out=scaled)
        np.subtract(source, self._low, out=scaled)
        np.divide(scaled, self._range, out=scaled)
        np.multiply(scaled, LEVELS - 1, out=scaled)
        np.add(scaled, FIRST + 0.5, out=scaled)


class _Counted(Encoder):
    """An encoder whose codes tell what lies outside."""

    def _encode(self, values: NDArray[Any], codes: Codes, ends: Ends) -> None:
        self._fill(values, codes)
        ends.bad += int(np.count_nonzero(codes == BAD))
        ends.under += int(np.count_nonzero(codes == UNDER))
        ends.over += int(np.count_nonzero(codes == OVER))
        ends.take(values, np.isfinite(values))

    @abstractmethod
    def _fill(self, values: NDArray[Any], codes: Codes) -> None:
        """Fill in the codes of a part."""


class _Boundaries(_Counted):
    """Codes of intervals: spread evenly over the levels, as a colour bar draws them."""

    def __init__(self, norm: BoundaryNorm) -> None:
        self._edges = np.asarray(norm.boundaries, dtype=float)
        count = len(self._edges) - 1
        middle = FIRST + (np.arange(count) + 0.5) * LEVELS / count
        self._table = np.array([UNDER, *middle.astype(np.uint8), OVER], dtype=np.uint8)

    def _fill(self, values: NDArray[Any], codes: Codes) -> None:
        kind: Any = np.float32 if values.dtype == np.float32 else np.float64
        values = values.astype(kind, copy=False)
        edges = [_at_least(edge, kind) for edge in self._edges.tolist()]
        if len(edges) <= _FEW:
            passed = np.zeros(values.shape, np.uint8)
            for edge in edges:
                passed += (values >= edge).view(np.uint8)
            here = self._table[passed]
        else:
            here = self._table[np.searchsorted(np.array(edges), values, side="right")]
        np.multiply(here, np.isfinite(values).view(np.uint8), out=codes)


class _AnyNorm(_Counted):
    """Codes of a norm that is only known by calling it."""

    def __init__(self, norm: Normalize) -> None:
        self._norm = norm

    def _fill(self, values: NDArray[Any], codes: Codes) -> None:
        normed = self._norm(np.ma.masked_invalid(values.astype(float), copy=False))
        place = np.ma.filled(normed.astype(float), np.nan)
        codes[:] = np.clip(place * (LEVELS - 1) + (FIRST + 0.5), FIRST, LAST).astype(np.uint8)
        codes[place < 0] = UNDER
        codes[place > 1] = OVER
        codes[np.isnan(place)] = BAD


def limits_of(norm: Normalize) -> tuple[float, float]:
    """Return the limits that a norm must have by now."""
    assert norm.vmin is not None
    assert norm.vmax is not None
    return float(norm.vmin), float(norm.vmax)


def _symlog(norm: SymLogNorm) -> Callable[..., Any]:
    """Return the place on the bar as a function of values, without branches."""
    linear = float(norm.linthresh)
    origin, edge, beyond = norm(np.array([0.0, linear, linear * math.e])).tolist()
    slope, rise = (edge - origin) / linear, beyond - edge

    def place(values: Any, out: Any = None) -> Any:
        size = np.abs(values)
        far = np.log(np.maximum(size, linear) / linear) * rise
        near = np.minimum(size, linear) * slope
        return np.add(np.copysign(near + far, values), origin, out=out)

    return place


def _at_least(limit: float, kind: type[np.floating[Any]]) -> Any:
    """Return the smallest number of a type that is not below `limit`."""
    with np.errstate(over="ignore"):
        number = kind(limit)
    return np.nextafter(number, kind(np.inf)) if float(number) < limit else number


def _cuts(limits: tuple[float, float], kind: type[np.floating[Any]]) -> tuple[Any, Any]:
    """Return limits of a type that part the numbers of that type as `limits` do."""
    return _at_least(limits[0], kind), -_at_least(-limits[1], kind)
