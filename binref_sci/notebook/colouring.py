"""The one rule by which values become colours: of the player, of movies and of pictures.

It is xarray's (`xarray.DataArray.plot.imshow`), computed from a sample of the values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.colors import (
    BoundaryNorm,
    Colormap,
    ListedColormap,
    LogNorm,
    Normalize,
    SymLogNorm,
)
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from binref_sci.notebook import codes as coding
from binref_sci.notebook.colormaps import colormap, discrete
from binref_sci.notebook.ticks import bar_ticks

ROBUST_PERCENTILE: Final = 2.0
_MOST_LEVELS: Final = 1000  # more than anyone tells apart, and what a bar's ticks can be sought in
_NOTHING: Final = 1e-280  # a twentieth of it is still a number of full precision
_LINEAR_SHARE: Final = 1e-3  # of the largest value: where ``norm="symlog"`` begins to be linear


@dataclass(frozen=True)
class Colouring:
    """How values become colours; made by `colouring`.

    Parameters
    ----------
    cmap
        With its colours for bad values, and for those under and over the limits.
    norm
        With both limits.
    extend
        ``"neither"``, ``"min"``, ``"max"`` or ``"both"``: ends of the bar with an arrow.
    rule
        Where the limits come from: ``"given"``, ``"attribute"``, ``"sampled"``,
        ``"full"`` or ``"frame"``.
    label
        Of the colour bar.
    extend_given
        Whether `extend` was asked for, and stays as it is whatever the frames hold.
    """

    cmap: Colormap
    norm: Normalize
    extend: str
    rule: str
    label: str = ""
    extend_given: bool = False

    @property
    def vmin(self) -> float:
        """Lower limit."""
        return coding.limits_of(self.norm)[0]

    @property
    def vmax(self) -> float:
        """Upper limit."""
        return coding.limits_of(self.norm)[1]

    @cached_property
    def _encode(self) -> coding.Encoder:
        return coding.encoder(self.norm)

    def codes(self, field: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the colour of each value as a byte.

        Parameters
        ----------
        field
            Real numbers, of any shape.

        Returns
        -------
        uint8 array of the same shape
            0 bad (NaN, infinite, or what a logarithm lacks), 1 under, 2 to 254 in range,
            255 over.

        Raises
        ------
        TypeError
            If the dtype is not one of real numbers.
        """
        return self._encode(field)[0]

    def coded(self, field: NDArray[Any]) -> tuple[NDArray[np.uint8], coding.Ends]:
        """Return the codes of a field, and how far and how often it leaves the limits."""
        return self._encode(field)

    @cached_property
    def lut(self) -> NDArray[np.uint8]:
        """RGBA of each code, shape ``(256, 4)``."""
        table = np.empty((256, 4), np.uint8)
        if isinstance(self.norm, BoundaryNorm):
            edges = np.asarray(self.norm.boundaries, dtype=float)
            colours = self.cmap(self.norm(_middles(edges)), bytes=True)
            levels = np.arange(coding.LEVELS) * (len(edges) - 1) // coding.LEVELS
            inside = colours[levels]
            under, over = self.norm(np.array([-np.inf, np.inf]))
        else:
            inside = self.cmap(np.linspace(0.0, 1.0, coding.LEVELS), bytes=True)
            under, over = (0.0, 1.0) if self.norm.clip else (-np.inf, np.inf)
        table[coding.FIRST : coding.LAST + 1] = inside
        table[coding.BAD] = self.cmap(np.ma.masked, bytes=True)
        table[coding.UNDER] = self.cmap(under, bytes=True)
        table[coding.OVER] = self.cmap(over, bytes=True)
        return table

    @property
    def drawn(self) -> tuple[Normalize, Colormap]:
        """What matplotlib draws; of a single boundary, which its bars cannot show, both sides."""
        norm = copy.copy(self.norm)
        if not (isinstance(norm, BoundaryNorm) and norm.vmin == norm.vmax):
            return norm, self.cmap
        reach = abs(self.vmin) or 1.0
        under, over, bad = self.lut[[coding.UNDER, coding.OVER, coding.BAD]] / 255
        sides = ListedColormap([under, over], self.cmap.name).with_extremes(bad=bad)
        return BoundaryNorm([self.vmin - reach, self.vmin, self.vmin + reach], 2), sides

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Value in the middle of what each code stands for; NaN for bad, under and over."""
        found = np.full(256, np.nan)
        levels = slice(coding.FIRST, coding.LAST + 1)
        if isinstance(self.norm, BoundaryNorm):
            edges = np.asarray(self.norm.boundaries, dtype=float)
            places = np.arange(coding.LEVELS) * (len(edges) - 1) // coding.LEVELS
            found[levels] = _middles(edges)[places]
        else:
            with np.errstate(all="ignore"):
                found[levels] = self.norm.inverse(np.linspace(0.0, 1.0, coding.LEVELS))
        return found

    @cached_property
    def ticks(self) -> list[tuple[float, str]]:
        """Places from 0 to 1 along the bar, each with its label."""
        return bar_ticks(self.norm)

    def to_json(self) -> dict[str, Any]:
        """Return what the browser is told, but for the colours themselves."""
        return {
            "vmin": self.vmin,
            "vmax": self.vmax,
            "label": self.label,
            "extend": self.extend,
            "extend_given": self.extend_given,
            "ticks": [[place, text] for place, text in self.ticks],
            "norm": _norm_name(self.norm),
            "rule": self.rule,
            "about": self.rule == "sampled",
            "cmap": self.cmap.name,
        }

    def __repr__(self) -> str:
        about = "about " if self.rule == "sampled" else ""
        return (
            f"Colouring({self.cmap.name!r}, {_norm_name(self.norm)}, {about}{self.vmin:g} to "
            f"{self.vmax:g} ({self.rule}), extend={self.extend!r})"
        )


def colouring(
    sample: ArrayLike,
    *,
    vmin: float | None = None,
    vmax: float | None = None,
    cmap: str | Colormap | None = None,
    center: float | bool | None = None,
    robust: bool = False,
    norm: Normalize | str | None = None,
    levels: int | Iterable[float] | None = None,
    extend: str | None = None,
    rule: str = "sampled",
    label: str = "",
) -> Colouring:
    """Return how values become colours, by xarray's rules.

    Parameters
    ----------
    sample
        Values that stand for all; NaN and infinity count for nothing.
    vmin, vmax
        Limits. One of them alone fixes the other by symmetry if the data are on both
        sides of `center`.
    cmap
        Name or Colormap; default: `cmap_divergent` of `xarray.set_options` for data on
        both sides of zero, else its `cmap_sequential`.
    center
        Value in the middle of a diverging colormap; False: never diverging.
    robust
        Limits at the 2nd and 98th percentile, not at the extremes.
    norm
        A matplotlib norm, or ``"linear"``, ``"log"`` or ``"symlog"``. It is not changed;
        limits that a LogNorm lacks come from the positive values alone.
    levels
        Number of discrete levels, or their boundaries.
    extend
        Ends of the bar with an arrow; default: those that the sample goes beyond.
    rule
        Where the sample is from; ``"given"`` is noted instead if it was not needed.
    label
        Of the colour bar.

    Raises
    ------
    ValueError
        If limits contradict each other or the norm, or the colormap is not known.
    TypeError
        If the sample is not of real numbers.

    Examples
    --------
    >>> colouring([-1.0, 3.0], rule="full")
    Colouring('RdBu_r', linear, -3 to 3 (full), extend='neither')
    >>> colouring([250.0, 310.0], vmin=260, vmax=300)
    Colouring('viridis', linear, 260 to 300 (given), extend='both')
    """
    values = _finite(np.asarray(sample))
    made = _norm_of(norm, values, vmin, vmax)
    logarithmic = isinstance(made, LogNorm)
    if logarithmic:
        values = values[values > 0]
    vmin, vmax, given = _agreed(made, vmin, vmax)
    if not values.size:
        values = np.array([1.0, 10.0] if logarithmic else [0.0])
    levels = _checked_levels(levels)
    low, high, divergent = _limits(values, vmin, vmax, center=center, levels=levels, robust=robust)
    if made is not None:
        low = made.vmin = made.vmin if made.vmin is not None else low
        high = made.vmax = made.vmax if made.vmax is not None else high

    edges: NDArray[np.float64] | None = None
    if isinstance(made, BoundaryNorm):
        edges = np.asarray(made.boundaries, dtype=float)
    elif levels is not None:
        if logarithmic:
            _check_order(low, high, vmin, vmax, logarithmic=True)
        linspaced = vmin is not None or vmax is not None
        edges = _edges(levels, low, high, linspaced=linspaced, logarithmic=logarithmic)
        given = given or isinstance(levels, list)
    if edges is not None:
        low, high = float(edges[0]), float(edges[-1])
    _check_order(low, high, vmin, vmax, logarithmic=logarithmic)
    if low == high:
        low, high = _apart(low)
    ends = _extend(values, low, high) if extend is None else _checked_extend(extend)
    chosen = cmap if cmap is not None else _default(divergent=divergent)
    table, made = _discrete_or_not(chosen, made, edges, low, high, ends)
    return Colouring(table, made, ends, "given" if given else rule, label, extend is not None)


def _apart(value: float) -> tuple[float, float]:
    """Return limits on both sides of a value, as far from it as matplotlib's colour bar has them."""
    largest = float(np.finfo(float).max)
    width = 0.05 * abs(value) if abs(value) > _NOTHING else 0.05
    return max(value - width, -largest), min(value + width, largest)


def _discrete_or_not(
    cmap: str | Colormap,
    norm: Normalize | None,
    edges: NDArray[np.float64] | None,
    low: float,
    high: float,
    extend: str,
) -> tuple[Colormap, Normalize]:
    """Return the colormap, with a colour a level where there are levels, and the whole norm."""
    if isinstance(norm, BoundaryNorm):
        return colormap(cmap), norm
    if edges is None:
        table, own = colormap(cmap), Normalize(low, high)
    else:
        table, own = discrete(cmap, edges, extend)
    if norm is None:
        return table, own
    if norm.vmin == norm.vmax:
        norm.vmin, norm.vmax = low, high
    return table, norm


def _checked_levels(levels: Any) -> Any:
    """Return boundaries in order, as a list; a number of levels as it is."""
    if not isinstance(levels, Iterable):
        return levels
    made = sorted(float(level) for level in levels)
    if not made:
        raise ValueError("levels is empty: give a number of levels, or boundaries")
    if not np.isfinite(made).all():
        raise ValueError(f"levels must be finite, got {made}")
    return made


def _checked_extend(extend: str) -> str:
    if extend not in ("neither", "min", "max", "both"):
        raise ValueError(f"extend must be 'neither', 'min', 'max' or 'both', got {extend!r}")
    return extend


def _finite(sample: NDArray[Any]) -> NDArray[Any]:
    if sample.dtype.kind == "b":
        sample = sample.astype(np.uint8)
    if sample.dtype.kind not in "iuf":
        way = ": plot its real part, its imag or its abs" if sample.dtype.kind == "c" else ""
        raise TypeError(f"a colour scale needs real numbers, found dtype {sample.dtype}{way}")
    values = np.ravel(sample)
    finite: NDArray[Any] = values[np.isfinite(values)]
    return finite.astype(finite.dtype.newbyteorder("="), copy=False)


def _norm_of(
    norm: Normalize | str | None, values: NDArray[Any], vmin: Any, vmax: Any
) -> Normalize | None:
    if norm is None or norm == "linear":
        return None
    if norm == "log":
        return LogNorm()
    if norm == "symlog":
        known = [limit for limit in (vmin, vmax) if isinstance(limit, int | float)]
        reach = np.array(known, float) if len(known) == 2 else values.astype(float)
        largest = float(np.abs(reach).max(initial=0.0))
        return SymLogNorm(_LINEAR_SHARE * largest or 1.0)
    if isinstance(norm, Normalize):
        return copy.copy(norm)  # limits are set on it, and it is the caller's
    raise ValueError(f"norm must be a matplotlib norm, 'linear', 'log' or 'symlog', got {norm!r}")


def _agreed(
    norm: Normalize | None, vmin: float | None, vmax: float | None
) -> tuple[float | None, float | None, bool]:
    """Return the limits of the arguments, and whether these and the norm's leave none open."""
    fixed: list[float | None] = []
    given = True
    for name, value in (("vmin", vmin), ("vmax", vmax)):
        if value is not None:
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise TypeError(f"{name} must be a number, got {value!r}") from None
            if not np.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")
        own = None if norm is None else getattr(norm, name)
        if own is not None and value is not None and own != value:
            raise ValueError(f"{name}={value:g} contradicts the norm, which has {name}={own:g}")
        fixed.append(value)
        given = given and (own is not None or value is not None)
    return fixed[0], fixed[1], given


def _limits(
    values: NDArray[Any],
    vmin: float | None,
    vmax: float | None,
    *,
    center: float | bool | None,
    levels: Any,
    robust: bool,
) -> tuple[float, float, bool]:
    """Return lower and upper limit, and whether the colours diverge from the centre."""
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # as a rank, float16 ends at 2048
    middle = _centre(center)
    if robust:
        ends = np.percentile(values, [ROBUST_PERCENTILE, 100 - ROBUST_PERCENTILE])
        low, high = float(ends[0]), float(ends[1])
    else:
        low, high = float(values.min()), float(values.max())
    low = low if vmin is None else vmin
    high = high if vmax is None else vmax
    if center is False or (vmin is not None and vmax is not None):
        return low + middle, high + middle, False
    across = isinstance(levels, list) and levels[0] * levels[-1] < 0
    if not (low < 0 < high or center is not None or across):
        return low + middle, high + middle, False
    if vmax is not None:
        reach = abs(vmax - middle)
    elif vmin is not None:
        reach = abs(vmin - middle)
    else:
        reach = max(abs(low - middle), abs(high - middle))
    return middle - reach, middle + reach, True


def _centre(center: Any) -> float:
    try:
        middle = float(center or 0.0)
    except (TypeError, ValueError):
        raise TypeError(f"center must be a number or False, got {center!r}") from None
    if not np.isfinite(middle):
        raise ValueError(f"center must be finite, got {center}")
    return middle


def _check_order(
    low: float, high: float, vmin: float | None, vmax: float | None, *, logarithmic: bool
) -> None:
    if logarithmic and low <= 0:
        raise ValueError(f"a logarithmic scale begins above zero, got vmin={low:g}")
    if low > high:
        if vmin is not None and vmax is not None:
            raise ValueError(f"vmin={low:g} is above vmax={high:g}")
        given, other = ("vmin", "vmax") if vmin is not None else ("vmax", "vmin")
        side = "above the largest" if vmin is not None else "below the smallest"
        raise ValueError(
            f"{given}={low if vmin is not None else high:g} is {side} value of the sample, "
            f"{high if vmin is not None else low:g}: give {other} too"
        )


def _default(*, divergent: bool) -> str | Colormap:
    options: Any = xr.get_options()  # type: ignore[no-untyped-call]  # public, but not typed
    chosen: str | Colormap = options["cmap_divergent" if divergent else "cmap_sequential"]
    return chosen


def _edges(
    levels: Any, low: float, high: float, *, linspaced: bool, logarithmic: bool
) -> NDArray[np.float64]:
    """Return the boundaries of discrete levels."""
    if isinstance(levels, list):
        return np.asarray(levels, dtype=float)
    if levels != int(levels) or not 1 <= levels <= _MOST_LEVELS:
        raise ValueError(
            f"levels must be a whole number, at least 1 and at most {_MOST_LEVELS}, got {levels}"
        )
    levels = int(levels)
    if logarithmic and levels > 1:  # the norm stays logarithmic, so these have one colour each
        return np.geomspace(low, high, levels)
    if linspaced:
        return np.linspace(low, high, levels)
    if levels == 1:
        return np.array([low / 2 + high / 2])
    if not np.isfinite(high - low):  # too far apart for round numbers to be sought
        part = np.linspace(0.0, 1.0, levels)
        return low * (1 - part) + high * part
    return np.asarray(MaxNLocator(levels - 1).tick_values(low, high), dtype=float)


def _middles(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        sums = edges[:-1] + edges[1:]
    return np.where(np.isfinite(sums), sums / 2, edges[:-1] / 2 + edges[1:] / 2)


def _extend(values: NDArray[Any], low: float, high: float) -> str:
    under, over = bool(values.min() < low), bool(values.max() > high)
    return {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
        (under, over), "neither"
    )


def _norm_name(norm: Normalize) -> str:
    return _NAMES.get(type(norm).__name__, type(norm).__name__.removesuffix("Norm").lower())


_NAMES: Final = {
    "Normalize": "linear",
    "LogNorm": "log",
    "SymLogNorm": "symlog",
    "PowerNorm": "power",
    "BoundaryNorm": "boundary",
}
