"""The two axes of a picture: where its edges lie, what it is labelled, which data a cell shows.

A picture has cells of one size. Coordinates that are evenly spaced give one cell a value;
of those that are not, each cell of the picture shows the value in whose cell its centre
lies, with the edges halfway between neighbours, as xarray infers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.notebook.naming import label_of, text_of, unit_of
from binref_sci.notebook.times import Times

_EVEN = 0.02  # of a cell: deviation from even spacing that nobody sees
_MOST_CELLS = 1024  # of an axis whose coordinate is uneven, unless it has more values itself
_TICKS = 6  # of an axis of dates or of text


@dataclass(frozen=True)
class Axis:
    """One axis of a picture.

    Parameters
    ----------
    name
        Of the coordinate.
    dim
        Dimension of the data.
    label
        With its unit.
    unit
        Of the coordinate.
    lo, hi
        Values at the left and right, or bottom and top edge.
    places
        Index into the data of each cell, from left to right or from top to bottom.
    even
        Whether `places` counts up or down by one.
    values
        The coordinate along the data.
    ticks
        Position from `lo` to `hi` as 0 to 1, and text, where values are no numbers.
    """

    name: str
    dim: str
    label: str
    unit: str
    lo: float
    hi: float
    places: NDArray[np.intp]
    even: bool
    values: NDArray[Any]
    ticks: list[tuple[float, str]] | None = None

    @property
    def size(self) -> int:
        """Number of cells of the picture."""
        return len(self.places)

    def cell_of(self, value: Any) -> int:
        """Return the cell that shows what is nearest to a value of the coordinate."""
        values = self.values
        if values.dtype.kind in "US":
            nearest = int(np.flatnonzero(values == value)[0])
        elif values.dtype.kind == "M":
            nearest = int(np.abs(values - np.datetime64(value)).argmin())
        else:
            nearest = int(np.abs(values - value).argmin())
        cells = np.flatnonzero(self.places == nearest)
        return int(cells[len(cells) // 2]) if len(cells) else 0

    def text(self, index: int) -> str:
        """Return name and value at an index into the data."""
        return f"{self.name} = {text_of(self.values[index], self.unit)}"

    def to_json(self) -> dict[str, Any]:
        """Return what the browser is told."""
        return {
            "name": self.name,
            "label": self.label,
            "lo": self.lo,
            "hi": self.hi,
            "ticks": None if self.ticks is None else [list(tick) for tick in self.ticks],
        }


def axis_of(
    coordinate: xr.DataArray | None,
    dim: str,
    size: int,
    *,
    increase: bool | None,
    downwards: bool = False,
) -> Axis:
    """Return the axis of a 1-D coordinate.

    Parameters
    ----------
    coordinate
        Along `dim`; None: cells are numbered.
    dim, size
        Dimension of the data, and its length.
    increase
        As ``xincrease`` and ``yincrease`` of xarray: values increase to the right or
        upwards; False: the other way; None: the first value comes first, at the left or
        at the top.
    downwards
        Whether this is the axis from top to bottom.
    """
    values = np.arange(size) if coordinate is None else coordinate.values
    name = dim if coordinate is None else str(coordinate.name)
    label = dim if coordinate is None else label_of(coordinate)
    unit = "" if coordinate is None else unit_of(coordinate)
    numbers, ticks = _numbers(values, coordinate, dim)
    if numbers is None:  # in no order: drawn by index
        numbers, label, unit = np.arange(size, dtype="f8"), f"{label} (index)", ""
    first, last, places = _placed(numbers)
    # `places` count from `first`, the outer edge of the first value, to `last`.
    keep = increase is None or increase == (first > last if downwards else first <= last)
    if not keep:
        first, last, places = last, first, places[::-1]
    hi, lo = (first, last) if downwards else (last, first)
    even = bool((np.abs(np.diff(places)) == 1).all())
    made_ticks = None if ticks is None else _placed_ticks(ticks, numbers, float(lo), float(hi))
    return Axis(name, dim, label, unit, float(lo), float(hi), places, even, values, made_ticks)


def _numbers(
    values: NDArray[Any], coordinate: xr.DataArray | None, dim: str
) -> tuple[NDArray[np.float64] | None, list[tuple[int, str]] | None]:
    """Return values as numbers, None if they are in no order; and ticks if they were none."""
    kind = values.dtype.kind
    if kind in "biuf":
        numbers = values.astype("f8")
        ticks = None
    elif kind in "Mm" or (kind == "O" and len(values) and hasattr(values[0], "isoformat")):
        times = Times(dim, len(values), coordinate)
        numbers = np.array([times.time(i) for i in range(len(values))], dtype="f8")
        ticks = [(i, times.text(i)) for i in _spread(len(values))]
    else:
        numbers = np.arange(len(values), dtype="f8")
        ticks = [(i, str(values[i])) for i in _spread(len(values), most=24)]
    with np.errstate(all="ignore"):
        steps = np.diff(numbers)
        reach = 2 * (numbers.max(initial=0.0) - numbers.min(initial=0.0))  # to the outer edges
    if not np.isfinite(reach) or not ((steps > 0).all() or (steps < 0).all()):
        return None, None
    return numbers, ticks


def _spread(size: int, most: int = _TICKS) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, size - 1, min(size, most))})


def _placed_ticks(
    ticks: list[tuple[int, str]], numbers: NDArray[np.float64], lo: float, hi: float
) -> list[tuple[float, str]]:
    width = hi - lo
    return [(float((numbers[i] - lo) / width), text) for i, text in ticks]


def _placed(numbers: NDArray[np.float64]) -> tuple[float, float, NDArray[np.intp]]:
    """Return the outer edges of the first and last value, and the value of each even cell."""
    size = len(numbers)
    if size < 2:
        half = 0.1  # as imshow of xarray draws one value
        value = float(numbers[0]) if size else 0.0
        return value - half, value + half, np.arange(size)
    step = (numbers[-1] - numbers[0]) / (size - 1)
    if np.abs(numbers - (numbers[0] + step * np.arange(size))).max() <= _EVEN * abs(step):
        half = (numbers[1] - numbers[0]) / 2  # of the first pair, as in xarray
        return float(numbers[0] - half), float(numbers[-1] + half), np.arange(size)
    edges = edges_of(numbers)
    span = abs(edges[-1] - edges[0])
    finest = float(np.abs(np.diff(edges)).min())
    cells = int(min(max(np.ceil(span / finest), size), max(size, _MOST_CELLS)))
    centres = edges[0] + (edges[-1] - edges[0]) * (np.arange(cells) + 0.5) / cells
    sign = 1.0 if step > 0 else -1.0
    places = np.searchsorted(sign * edges, sign * centres, side="right") - 1
    return float(edges[0]), float(edges[-1]), places.clip(0, size - 1)


def edges_of(values: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
    """Return edges halfway between neighbours, the outer ones as far out as the first in.

    Parameters
    ----------
    values
        At least two along `axis`.
    axis
        That gets one longer.

    Examples
    --------
    >>> edges_of(np.array([0.0, 1.0, 3.0]))
    array([-0.5,  0.5,  2. ,  4. ])
    """
    half = 0.5 * np.diff(values, axis=axis)
    first = np.take(values, [0], axis) - np.take(half, [0], axis)
    last = np.take(values, [-1], axis) + np.take(half, [-1], axis)
    inner = np.take(values, range(values.shape[axis] - 1), axis) + half
    return np.concatenate([first, inner, last], axis)
