"""A field as bytes: 0 bad, 1 under, 2 to 254 in range, 255 over.

The norm comes before the rounding, so logarithmic data keep their decades. For a value in
range the code is at most half a level off: ``(vmax - vmin) / 504`` on a linear scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
Encode = Callable[[NDArray[Any]], Codes]

_BLOCK: Final = 1 << 17  # elements at a time: what lies between two passes stays in the cache
_FEW: Final = 32  # boundaries up to which counting one by one is faster than a search
_EXACT: Final = 2.0**16  # product up to which float32 rounds by less than 1/100 of a level
_SMALL: Final = 1e-30
_LARGE: Final = 1e30  # beyond these a step between two passes may leave float32


def encoder(norm: Normalize) -> Encode:
    """Return the function that turns a field into codes, for a norm with limits.

    Examples
    --------
    >>> encode = encoder(Normalize(0.0, 252.0))
    >>> encode(np.array([np.nan, -0.1, 0.0, 1.4, 252.0, 252.1, np.inf]))
    array([  0,   1,   2,   3, 254, 255,   0], dtype=uint8)
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
    """Return a field as native numbers in C order."""
    field = np.ma.filled(field.astype(float), np.nan) if np.ma.isMaskedArray(field) else field
    if field.dtype.kind == "b":
        field = field.astype(np.uint8)
    if field.dtype.kind not in "iuf":
        way = ": plot its real part, its imag or its abs" if field.dtype.kind == "c" else ""
        raise TypeError(f"a colour scale needs real numbers, found dtype {field.dtype}{way}")
    return np.asarray(field, field.dtype.newbyteorder("="), order="C")


class _Linear:
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

    def __call__(self, field: NDArray[Any]) -> Codes:
        values = _numbers(field)
        short = values.itemsize <= (4 if values.dtype.kind == "f" else 2)
        kind: Any = np.float32 if short and self._single else np.float64
        cuts = _cuts(self._limits, kind)
        codes = np.empty(values.shape, np.uint8)
        flat, out = values.reshape(-1), codes.reshape(-1)
        scaled = np.empty(min(_BLOCK, flat.size), kind)
        flags = np.empty(min(_BLOCK, flat.size), np.bool_)
        with np.errstate(all="ignore"):  # of NaN, infinity, the logarithm of zero: they are bad
            for start in range(0, flat.size, _BLOCK):
                block = flat[start : start + _BLOCK].astype(kind, copy=False)
                part = slice(0, block.size)
                here = out[start : start + _BLOCK]
                self._encode(block, cuts, scaled[part], flags[part], here)
        return codes

    def _encode(
        self,
        values: NDArray[Any],
        cuts: tuple[Any, Any],
        scaled: NDArray[Any],
        flags: NDArray[np.bool_],
        codes: Codes,
    ) -> None:
        source = values if self._transform is None else self._transform(values, out=scaled)
        finite = np.isfinite(source)
        if scaled.itemsize == 4:  # two passes, exact enough as `_single` has found
            scale = (LEVELS - 1) / self._range
            np.multiply(source, np.float32(scale), out=scaled)
            np.add(scaled, np.float32(FIRST + 0.5 - self._low * scale), out=scaled)
        else:
            if self._shrink != 1.0:
                source = np.multiply(source, self._shrink, out=scaled)
            np.subtract(source, self._low, out=scaled)
            np.divide(scaled, self._range, out=scaled)
            np.multiply(scaled, LEVELS - 1, out=scaled)
            np.add(scaled, FIRST + 0.5, out=scaled)
        np.clip(scaled, FIRST, LAST, out=scaled)
        np.copyto(codes, scaled, casting="unsafe")
        # Outside is told from the value itself, which the rounding may have brought inside.
        steps = flags.view(np.uint8)
        np.less(values, cuts[0], out=flags)
        np.subtract(codes, steps, out=codes)
        np.greater(values, cuts[1], out=flags)
        np.add(codes, steps, out=codes)
        np.multiply(codes, finite.view(np.uint8), out=codes)


class _Boundaries:
    """Codes of intervals: spread evenly over the levels, as a colour bar draws them."""

    def __init__(self, norm: BoundaryNorm) -> None:
        self._edges = np.asarray(norm.boundaries, dtype=float)
        count = len(self._edges) - 1
        middle = FIRST + (np.arange(count) + 0.5) * LEVELS / count
        self._table = np.array([UNDER, *middle.astype(np.uint8), OVER], dtype=np.uint8)

    def __call__(self, field: NDArray[Any]) -> Codes:
        values = _numbers(field)
        kind: Any = np.float32 if values.dtype == np.float32 else np.float64
        edges = [_at_least(edge, kind) for edge in self._edges.tolist()]
        codes = np.empty(values.shape, np.uint8)
        flat, out = values.reshape(-1), codes.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK].astype(kind, copy=False)
            if len(edges) <= _FEW:
                passed = np.zeros(block.shape, np.uint8)
                for edge in edges:
                    passed += (block >= edge).view(np.uint8)
                here = self._table[passed]
            else:
                here = self._table[np.searchsorted(np.array(edges), block, side="right")]
            np.multiply(here, np.isfinite(block).view(np.uint8), out=out[start : start + _BLOCK])
        return codes


class _AnyNorm:
    """Codes of a norm that is only known by calling it."""

    def __init__(self, norm: Normalize) -> None:
        self._norm = norm

    def __call__(self, field: NDArray[Any]) -> Codes:
        values = _numbers(field)
        codes = np.empty(values.shape, np.uint8)
        flat, out = values.reshape(-1), codes.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _BLOCK):
                block = flat[start : start + _BLOCK].astype(float)
                normed = self._norm(np.ma.masked_invalid(block, copy=False))
                place = np.ma.filled(normed.astype(float), np.nan)
                here = np.clip(place * (LEVELS - 1) + (FIRST + 0.5), FIRST, LAST).astype(np.uint8)
                here[place < 0] = UNDER
                here[place > 1] = OVER
                here[np.isnan(place)] = BAD
                out[start : start + _BLOCK] = here
        return codes


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
