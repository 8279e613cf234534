"""The even cells of a picture, and the part of the data that a window of them shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook.axes import Axis
from binref_sci.notebook.fields import real

Window = tuple[float, float, float, float]
"""Left, right, top and bottom edge as parts, 0 to 1, of the picture's width and height."""

Box = tuple[int, int, int, int]
"""First and one past the last row; first and one past the last column."""


@dataclass(frozen=True)
class Cut:
    """What to read for a part of a picture, and how to make the picture of it.

    Parameters
    ----------
    rows, columns
        Slices along the two axes of the data.
    finish
        From what was read to the picture.
    """

    rows: slice
    columns: slice
    finish: Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Grid:
    """Cells of a picture over a field of shape ``(m, n)``.

    Parameters
    ----------
    x, y
        Its axes.
    places
        Of curvilinear coordinates: flat index into the field of each cell, -1 outside.
    """

    x: Axis
    y: Axis
    places: NDArray[np.intp] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        if self.places is not None:
            return self.places.shape[0], self.places.shape[1]
        return self.y.size, self.x.size

    def box(self, window: Window | None) -> Box:
        """Return the cells that a window shows; those at its edges as a whole, at least one."""
        rows, columns = self.shape
        if window is None:
            return 0, rows, 0, columns
        left, right, top, bottom = window
        return (*_cells(top, bottom, rows), *_cells(left, right, columns))

    def window(self, box: Box) -> Window:
        """Return the window that these cells fill."""
        rows, columns = (max(length, 1) for length in self.shape)
        return box[2] / columns, box[3] / columns, box[0] / rows, box[1] / rows

    def cut(self, box: Box, steps: tuple[int, int]) -> Cut:
        """Return what to read for cells `box`, of which every so many rows and columns are wanted."""
        down, right = steps
        if self.places is not None:
            return self._gathered(self.places[box[0] : box[1] : down, box[2] : box[3] : right])
        rows, pick_rows = _along(self.y, box[0], box[1], down)
        columns, pick_columns = _along(self.x, box[2], box[3], right)

        def finish(values: NDArray[Any]) -> NDArray[Any]:
            made = values[pick_rows][:, pick_columns]
            return real(made)

        return Cut(rows, columns, finish)

    def cell(self, row: int, column: int) -> tuple[int, int] | None:
        """Return the index into the field of one cell, or None outside of all."""
        if self.places is None:
            return int(self.y.places[row]), int(self.x.places[column])
        place = int(self.places[row, column])
        width = len(self.x.places)
        return None if place < 0 else divmod(place, width)

    def _gathered(self, places: NDArray[np.intp]) -> Cut:
        width = len(self.x.places)
        there = places >= 0
        if not there.any():
            return Cut(slice(0, 0), slice(0, 0), lambda _: np.full(places.shape, np.nan, "f4"))
        i, j = np.divmod(places, width)
        low, high = int(i[there].min()), int(i[there].max()) + 1
        left, right = int(j[there].min()), int(j[there].max()) + 1
        flat = np.where(there, (i - low) * (right - left) + j - left, 0)

        def finish(values: NDArray[Any]) -> NDArray[Any]:
            made = real(values).ravel()[flat]
            made[~there] = np.nan
            return made

        return Cut(slice(low, high), slice(left, right), finish)


def _cells(low: float, high: float, count: int) -> tuple[int, int]:
    first = min(max(int(np.floor(low * count + 1e-9)), 0), max(count - 1, 0))
    return first, max(min(int(np.ceil(high * count - 1e-9)), count), min(first + 1, count))


def _along(axis: Axis, start: int, stop: int, step: int) -> tuple[slice, Any]:
    """Return the slice to read, and the index into what it gives."""
    wanted = axis.places[start:stop:step]
    if not len(wanted):
        return slice(0, 0), slice(None)
    low, high = int(wanted.min()), int(wanted.max())
    if axis.even:
        turn = slice(None, None, -1) if wanted[0] > wanted[-1] else slice(None)
        return slice(low, high + 1, step), turn
    return slice(low, high + 1), wanted - low
