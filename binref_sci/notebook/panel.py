"""One panel of the player: a variable, the even cells of its picture, how to read them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.notebook.axes import Axis, axis_of
from binref_sci.notebook.choosing import Dims
from binref_sci.notebook.curvilinear import continued, nearest_cells
from binref_sci.notebook.fields import Reader, reader_of
from binref_sci.notebook.grid import Grid
from binref_sci.notebook.naming import label_of, unit_of
from binref_sci.notebook.times import Times

_DEGREES = ("degrees_east", "degree_east", "degrees", "degree", "deg", "°")  # that go round
_WIDEST, _TALLEST = 4.0, 0.25  # a picture in scale is at most so wide or so tall


@dataclass(frozen=True)
class Look:
    """How a picture is to be drawn; as the arguments of `Scene.of`."""

    x: Hashable | None = None
    y: Hashable | None = None
    xincrease: bool | None = True
    yincrease: bool | None = True
    aspect: float | str | None = None


@dataclass(frozen=True)
class Panel:
    """One picture or diagram.

    Parameters
    ----------
    data
        All of its frames.
    title
        Above it.
    label, unit
        Of the values.
    colour
        Which of the colour scales it has; panels of one variable share one.
    grid
        Cells of the picture, or, of lines, one row a line.
    lines
        Names of the lines; empty for a picture.
    aspect
        Width over height, or None: as the page has room.
    """

    data: xr.DataArray
    title: str
    label: str
    unit: str
    colour: int
    grid: Grid
    lines: tuple[str, ...]
    aspect: float | None
    reader: Reader
    axes: tuple[int, int | None, int]  # of the data: frames, rows, columns
    fixed: dict[int, int]  # axis -> position of col=, within `data`

    @property
    def x(self) -> Axis:
        """From left to right."""
        return self.grid.x

    @property
    def y(self) -> Axis:
        """From bottom to top; of lines it numbers them."""
        return self.grid.y

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.grid.shape

    def parts_at(self, at: dict[str, Any]) -> tuple[float, float]:
        """Return the middle of the cell nearest to coordinates, as parts of width and height.

        Raises
        ------
        TypeError
            If the names are not those of the axes.
        """
        names = [self.x.name] if self.lines else [self.x.name, self.y.name]
        if set(at) != set(names):
            raise TypeError(f"expected a value of each of {names}, got {sorted(at)}")
        rows, columns = self.shape
        if self.grid.places is not None:
            far = np.hypot(self.x.values - at[self.x.name], self.y.values - at[self.y.name])
            hits = np.argwhere(self.grid.places == int(far.argmin()))
            row, column = hits[len(hits) // 2] if len(hits) else (0, 0)
        else:
            column = self.x.cell_of(at[self.x.name])
            row = 0 if self.lines else self.y.cell_of(at[self.y.name])
        return (float(column) + 0.5) / columns, (float(row) + 0.5) / rows

    def key(self, frame: int | slice, rows: Any, columns: Any, at: dict[str, int]) -> Any:
        """Return an index into the data: a frame or several, and a part of the picture."""
        time, down, right = self.axes
        made: list[Any] = [
            self.fixed.get(axis, at.get(str(dim), 0)) for axis, dim in enumerate(self.data.dims)
        ]
        made[time], made[right] = frame, columns
        if down is not None:
            made[down] = rows
        return tuple(made)

    def turned(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what a key of slices read with rows first."""
        _, down, right = self.axes
        if down is None:
            return values[None]
        return values.T if down > right else values

    def to_json(self) -> dict[str, Any]:
        """Return what the browser is told."""
        return {
            "title": self.title,
            "rows": self.shape[0],
            "columns": self.shape[1],
            "colour": self.colour,
            "aspect": self.aspect,
            "x": self.x.to_json(),
            "y": self.y.to_json() | ({"label": self.label} if self.lines else {}),
            "lines": list(self.lines),
        }


def panels_of(
    one: xr.DataArray,
    its: Dims,
    colour: int,
    look: Look,
    *,
    title: str,
) -> list[Panel]:
    """Return the panels of one variable: one, or one for each position of ``col=``."""
    grid = _grid(one, its, look)
    lines: tuple[str, ...] = ()
    if its.lines:
        names = Times(its.y, one.sizes[its.y], one.coords.get(its.y)) if its.y else None
        lines = (
            tuple(names.title(i) for i in range(names.size))
            if names
            else ("" if one.name is None else str(one.name),)
        )
    reader = reader_of(one, its.time)
    order = {str(dim): axis for axis, dim in enumerate(one.dims)}
    titles = [title]
    fixed: list[dict[int, int]] = [{}]
    if its.col is not None:
        along = Times(its.col, one.sizes[its.col], one.coords.get(its.col))
        titles = [along.title(i) for i in range(along.size)]
        fixed = [{order[its.col]: i} for i in range(along.size)]
    axes = order[its.time], None if its.y is None else order[its.y], order[its.x]
    return [
        Panel(
            one,
            title,
            label_of(one),
            unit_of(one),
            colour,
            grid,
            lines,
            None if its.lines else _aspect(grid, look.aspect),
            reader,
            axes,
            place,
        )
        for title, place in zip(titles, fixed, strict=True)
    ]


def _grid(
    one: xr.DataArray,
    its: Dims,
    look: Look,
) -> Grid:
    x_coordinate = one.coords.get(its.x if look.x is None else look.x)
    across = axis_of(None, its.x, one.sizes[its.x], increase=True)
    if its.lines:
        count = 1 if its.y is None else one.sizes[its.y]
        rows = axis_of(None, its.y or "line", count, increase=None, downwards=True)
        return Grid(axis_of(x_coordinate, its.x, across.size, increase=look.xincrease), rows)
    assert its.y is not None  # of a picture
    y_coordinate = one.coords.get(its.y if look.y is None else look.y)
    flat = [c for c in (x_coordinate, y_coordinate) if c is not None and c.ndim == 2]
    if not flat:
        return Grid(
            axis_of(x_coordinate, its.x, across.size, increase=look.xincrease),
            axis_of(y_coordinate, its.y, one.sizes[its.y], increase=look.yincrease, downwards=True),
        )
    return _curvilinear(one, its, x_coordinate, y_coordinate, look)


def _curvilinear(
    one: xr.DataArray,
    its: Dims,
    x: xr.DataArray | None,
    y: xr.DataArray | None,
    look: Look,
) -> Grid:
    both: list[xr.DataArray] = []
    for coordinate, dim in ((x, its.x), (y, its.y)):
        made = one[dim] if coordinate is None else coordinate
        plane = {its.y: one.sizes[its.y], its.x: one.sizes[its.x]}
        both.append(
            made.reset_coords(drop=True)
            .expand_dims({d: s for d, s in plane.items() if d not in made.dims})
            .transpose(its.y, its.x)
        )
    values = [c.values.astype("f8") for c in both]
    drawn = [
        continued(v) if unit_of(c) in _DEGREES else v for c, v in zip(both, values, strict=True)
    ]
    try:
        places, x_edges, y_edges = nearest_cells(drawn[0], drawn[1])
    except ValueError as error:
        raise ValueError(f"coordinates {both[0].name!r} and {both[1].name!r}: {error}") from None
    if look.xincrease is False:
        places, x_edges = places[:, ::-1], x_edges[::-1]
    if look.yincrease is False:
        places, y_edges = places[::-1], y_edges[::-1]
    axes = [
        Axis(
            str(c.name),
            dim,
            label_of(c),
            unit_of(c),
            edges[0],
            edges[1],
            np.arange(one.sizes[dim]),
            True,
            v,
        )
        for c, dim, edges, v in zip(
            both, (its.x, str(its.y)), (x_edges, y_edges), values, strict=True
        )
    ]
    return Grid(axes[0], axes[1], np.ascontiguousarray(places))


def _aspect(grid: Grid, asked: float | str | None) -> float | None:
    if asked == "auto":
        return None
    if isinstance(asked, str) and asked != "equal":
        raise ValueError(f"aspect={asked!r}: use a number, 'equal' or 'auto'")
    if asked is not None and not isinstance(asked, str):
        if not 0 < asked < np.inf:
            raise ValueError(f"aspect={asked!r}: a number must be above 0, and finite")
        return float(asked)
    if asked is None and grid.x.unit != grid.y.unit:
        return None
    wide, tall = abs(grid.x.hi - grid.x.lo), abs(grid.y.hi - grid.y.lo)
    ratio = wide / tall if tall else 1.0
    return ratio if asked == "equal" or _TALLEST <= ratio <= _WIDEST else None
