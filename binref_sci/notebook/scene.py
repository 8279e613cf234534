"""What is played: an object and arguments become panels, sliders and frames."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.notebook.choosing import Dims, choose, moving
from binref_sci.notebook.fields import reader_of, real
from binref_sci.notebook.grid import Box, Window
from binref_sci.notebook.naming import label_of, text_of, unit_of
from binref_sci.notebook.panel import Look, Panel, panels_of
from binref_sci.notebook.times import Times


@dataclass(frozen=True)
class Slider:
    """A dimension that is neither time nor drawn."""

    dim: str
    size: int
    label: str
    values: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what the browser is told."""
        return {
            "dim": self.dim,
            "size": self.size,
            "label": self.label,
            "values": list(self.values),
        }


@dataclass(frozen=True)
class Scene:
    """Panels on one clock. Immutable, and safe to use from several threads.

    Made by `Scene.of`.

    Examples
    --------
    >>> import numpy as np
    >>> field = xr.DataArray(np.arange(12.0).reshape(3, 2, 2), dims=("time", "y", "x"), name="T")
    >>> scene = Scene.of(field)
    >>> scene.n, scene.dim, scene.kind, scene.label(1)
    (3, 'time', 'image', 'step = 1')
    >>> scene.field(scene.panels[0], 1)  # y grows upwards
    array([[6., 7.],
           [4., 5.]])
    """

    dim: str
    n: int
    kind: str
    panels: tuple[Panel, ...]
    sliders: tuple[Slider, ...]
    times: Times
    name: str
    title: str
    columns: int
    positions: tuple[int, ...]

    @classmethod
    def of(
        cls,
        obj: Any,
        dim: Hashable | None = None,
        *,
        names: str | Sequence[str] | None = None,
        x: Hashable | None = None,
        y: Hashable | None = None,
        hue: Hashable | None = None,
        col: Hashable | None = None,
        col_wrap: int | None = None,
        xincrease: bool | None = True,
        yincrease: bool | None = True,
        aspect: float | str | None = None,
    ) -> Scene:
        """Return what is to be played.

        Parameters
        ----------
        obj
            DataArray or Dataset; lazily, no data is read.
        dim
            Along which it is played. Default: the one that is like time (its coordinate
            holds dates or time differences, has ``axis: T``, or it is called time, t or
            step); else the one that is neither `x` nor `y`.
        names
            Variables of a Dataset, a panel each; default: all that can be played together.
        x, y
            Dimensions, or coordinates along them, of one or two dimensions. Default: the
            last and the last but one; of one dimension beside `dim` lines are drawn.
        hue
            Dimension of lines in one diagram.
        col
            Dimension with a panel for each position.
        col_wrap
            Panels side by side.
        xincrease, yincrease
            As in `xarray.DataArray.plot.imshow`.
        aspect
            Width over height of a picture; ``"equal"``: one unit is as long along both
            axes; ``"auto"``: as there is room. Default: equal if both axes have one unit.

        Raises
        ------
        TypeError, ValueError
            Naming the argument or the dimension.
        """
        if col_wrap is not None and (not isinstance(col_wrap, int | np.integer) or col_wrap < 1):
            raise ValueError(f"col_wrap must be a whole number above 0, got {col_wrap!r}")
        variables = choose(obj, names)
        dims = [moving(one, dim, x=x, y=y, hue=hue, col=col) for one in variables]
        first = dims[0]
        for one, other in zip(variables, dims, strict=True):
            if (other.time, other.lines) != (first.time, first.lines) or (
                one.sizes[other.time] != variables[0].sizes[first.time]
            ):
                raise ValueError(
                    f"variable {one.name!r} with dimensions {one.dims} cannot be played beside "
                    f"{variables[0].name!r} with {variables[0].dims}: give one of them as names="
                )
        sliders = _sliders(variables, dims)
        look = Look(x, y, xincrease, yincrease, aspect)
        titles = _titles(variables)
        panels: list[Panel] = []
        for colour, (one, its) in enumerate(zip(variables, dims, strict=True)):
            panels += panels_of(one, its, colour, look, title=titles[colour])
        return cls(
            dim=first.time,
            n=variables[0].sizes[first.time],
            kind="line" if first.lines else "image",
            panels=tuple(panels),
            sliders=sliders,
            times=Times(
                first.time, variables[0].sizes[first.time], _time_of(variables, first.time)
            ),
            name=", ".join(str(one.name) for one in variables if one.name is not None),
            title=_title(variables[0]),
            columns=min(len(panels), int(col_wrap or (len(panels) if len(panels) < 5 else 4))),
            positions=(0,) * len(sliders),
        )

    @property
    def colours(self) -> int:
        """Number of colour scales."""
        return self.panels[-1].colour + 1

    def at(self, positions: Sequence[int]) -> Scene:
        """Return the scene with its sliders at other positions.

        Raises
        ------
        ValueError
            If there is not one for each slider.
        IndexError
            If one lies beyond its slider's end.
        """
        if len(positions) != len(self.sliders):
            raise ValueError(
                f"expected {len(self.sliders)} positions, one each of "
                f"{[s.dim for s in self.sliders]}, got {list(positions)}"
            )
        for slider, position in zip(self.sliders, positions, strict=True):
            if not 0 <= position < slider.size:
                raise IndexError(
                    f"position {position} of {slider.dim!r} is not in 0 to {slider.size - 1}"
                )
        return replace(self, positions=tuple(int(position) for position in positions))

    def continued(self, ds: xr.Dataset) -> Scene:
        """Return the scene of the same variables, of which there are more frames now.

        Raises
        ------
        KeyError, ValueError
            If a variable is no longer there, or has got another shape.
        """
        panels: list[Panel] = []
        seen: dict[Hashable, Panel] = {}
        for panel in self.panels:
            old, new = panel.data, ds[panel.data.name]
            kept = {dim: size for dim, size in old.sizes.items() if dim != self.dim}
            if old.dims != new.dims or any(new.sizes[dim] != kept[dim] for dim in kept):
                raise ValueError(
                    f"variable {old.name!r} had the sizes {dict(old.sizes)}, now {dict(new.sizes)}"
                )
            like = seen.get(old.name)
            if like is None:
                like = replace(panel, data=new, reader=reader_of(new, self.dim))
                seen[old.name] = like
            panels.append(replace(panel, data=like.data, reader=like.reader))
        first = panels[0].data
        n = first.sizes[self.dim]
        times = Times(self.dim, n, _time_of([first], self.dim))
        return replace(self, panels=tuple(panels), n=n, times=times)

    def unlabelled(self) -> Scene:
        """Return the scene without labels of axes, titles and names; times stay."""
        panels = tuple(
            replace(
                panel,
                title="",
                label="",
                grid=replace(
                    panel.grid, x=replace(panel.x, label=""), y=replace(panel.y, label="")
                ),
            )
            for panel in self.panels
        )
        return replace(self, panels=panels, name="", title="")

    @property
    def where(self) -> dict[str, int]:
        """Position of each slider, by dimension."""
        return {s.dim: p for s, p in zip(self.sliders, self.positions, strict=True)}

    def field(
        self, panel: Panel, i: int, *, window: Window | None = None, step: int = 1
    ) -> NDArray[Any]:
        """Read one frame of a panel as it is shown.

        Parameters
        ----------
        panel
            Of this scene.
        i
            Number of the frame.
        window
            Part of the picture; cells at its edges are read as a whole.
        step
            Every which row and column.

        Returns
        -------
        ndarray of float32 or float64, shape (rows, columns)
            Row 0 at the top, column 0 at the left; NaN where a curvilinear grid has no cell.
        """
        return self.cells(panel, i, panel.grid.box(window), step)

    def cells(self, panel: Panel, i: int, box: Box, step: int = 1) -> NDArray[Any]:
        """Read the cells of a box of rows and columns, every `step`-th."""
        if self.kind == "line":
            # Each line is whole: it is the row of a box that is cut.
            box, steps = (0, panel.shape[0], box[2], box[3]), (1, step)
        else:
            steps = (step, step)
        cut = panel.grid.cut(box, steps)
        values = panel.reader.read(panel.key(self.checked(i), cut.rows, cut.columns, self.where))
        return cut.finish(panel.turned(values))

    def raw(self, panel: Panel, i: int, strides: tuple[int, ...] = ()) -> NDArray[Any]:
        """Read one frame as it lies in the data, every so many rows and columns."""
        down, right = strides or (1, 1)
        key = panel.key(
            self.checked(i), slice(None, None, down), slice(None, None, right), self.where
        )
        return real(panel.turned(panel.reader.read(key)))

    def raw_shape(self, panel: Panel) -> tuple[int, int]:
        """Shape of one frame as it lies in the data, rows first."""
        _, down, right = panel.axes
        shape = panel.data.shape
        return (1 if down is None else shape[down]), shape[right]

    def value(self, panel: Panel, i: int, row: int, column: int) -> tuple[Any, str]:
        """Return the exact value of one cell, None outside of all, and where it lies as text."""
        cell = panel.grid.cell(row, column)
        if cell is None:
            return None, ""
        key = panel.key(self.checked(i), cell[0], cell[1], self.where)
        return panel.reader.read(key)[()], self.place(panel, row, column)

    def place(self, panel: Panel, row: int, column: int) -> str:
        """Return the coordinates of one cell as text."""
        cell = panel.grid.cell(row, column)
        if cell is None:
            return ""
        down, right = cell
        if panel.lines:
            text = panel.x.text(right)
            return f"{panel.lines[down]}, {text}" if len(panel.lines) > 1 else text
        if panel.grid.places is not None:
            return ", ".join(
                f"{axis.name} = {text_of(axis.values[down, right], axis.unit)}"
                for axis in (panel.x, panel.y)
            )
        return f"{panel.x.text(right)}, {panel.y.text(down)}"

    def label(self, i: int) -> str:
        """Return the time of a frame as text."""
        return self.times.label(i)

    def time(self, i: int) -> float:
        """Return the time of a frame as a number."""
        return self.times.time(i)

    def checked(self, i: int) -> int:
        """Return a frame's number, counted from the start.

        Raises
        ------
        TypeError
            If it is no whole number.
        IndexError
            If there is no such frame.
        """
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"a frame of {self.dim!r} is a whole number, got {i!r}") from None
        found = i + self.n if i < 0 else i
        if not 0 <= found < self.n:
            raise IndexError(f"frame {i} of {self.dim!r} is not among {self.n} frames")
        return found

    def frame(self, i: int) -> xr.DataArray | list[xr.DataArray]:
        """Return one frame as DataArray, lazily, with sliders in place; several panels: a list."""
        index = {self.dim: self.checked(i), **self.where}
        seen: list[xr.DataArray] = []
        for panel in self.panels:
            if not any(panel.data is one for one in seen):
                seen.append(panel.data)
        made = [one.isel({d: p for d, p in index.items() if d in one.dims}) for one in seen]
        return made[0] if len(made) == 1 else made

    def to_json(self) -> dict[str, Any]:
        """Return what the browser is told."""
        return {
            "dim": self.dim,
            "n": self.n,
            "kind": self.kind,
            "name": self.name,
            "panels": [panel.to_json() for panel in self.panels],
            "columns": self.columns,
            "sliders": [slider.to_json() for slider in self.sliders],
            "title": self.title,
            "pace": self.times.pace_of(range(self.n)),
        }


def _time_of(variables: list[xr.DataArray], dim: str) -> xr.DataArray | None:
    """Return the coordinate of the frames: of the dimension's name, else the only one along it."""
    one = variables[0]
    if dim in one.coords:
        named: xr.DataArray = one.coords[dim]
        return named
    along = [c for c in one.coords.values() if c.dims == (dim,)]
    return along[0] if len(along) == 1 else None


def _titles(variables: list[xr.DataArray]) -> list[str]:
    """Return what tells variables apart: their labels without units, or else their names."""
    if len(variables) == 1:
        return [""]
    labels = [label_of(one).partition(" [")[0] for one in variables]
    return labels if len(set(labels)) == len(labels) else [str(one.name) for one in variables]


def _title(obj: xr.DataArray) -> str:
    """Return the scalar coordinates as text, as xarray does above a plot."""
    scalars = [c for c in obj.coords.values() if not c.dims]
    return ", ".join(f"{c.name} = {text_of(c.values[()], unit_of(c))}" for c in scalars)


def _sliders(variables: list[xr.DataArray], dims: list[Dims]) -> tuple[Slider, ...]:
    made: dict[str, Slider] = {}
    for one, its in zip(variables, dims, strict=True):
        for dim in its.sliders:
            coordinate = one.coords.get(dim)
            texts = Times(dim, one.sizes[dim], coordinate)
            label = dim if coordinate is None else label_of(coordinate)
            values = tuple(texts.text(i).strip() for i in range(one.sizes[dim]))
            made.setdefault(dim, Slider(dim, one.sizes[dim], label, values))
    return tuple(made.values())
