"""What one cell did over all frames: coarse first, then finer, a little at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.notebook.fields import real
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.scene import Scene

FIRST: Final = 256
"""Frames, evenly spread, that the first look takes."""

_AT_ONCE = 2048  # frames of one read, at most
_FEWEST = 16
_PATIENCE = 0.03  # seconds of one read: what a frame that is wanted may have to wait for
_BETWEEN = 0.25  # seconds from one message to the next

Told = Callable[["Series"], None]


class Series:
    """Values of one cell, as far as they have been read.

    Parameters
    ----------
    scene
        What is shown, with its sliders in place.
    panel
        Number of the panel.
    row, column
        Cell of its picture.
    """

    def __init__(self, scene: Scene, panel: int, row: int, column: int) -> None:
        self.panel = panel
        self.row, self.column = row, column
        self._set(scene)
        # Both in one: other threads look while this one reads on.
        self._found = np.empty(0, dtype="i8"), np.empty(0)

    def _set(self, scene: Scene) -> None:
        self.scene = scene
        self._cell = scene.panels[self.panel].grid.cell(self.row, self.column)

    @property
    def done(self) -> float:
        """Share of the frames that have been read, 0 to 1."""
        return len(self.steps) / max(self.scene.n, 1)

    @property
    def found(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers of the frames that have been read, in order, and the value of each."""
        return self._found

    @property
    def steps(self) -> NDArray[np.int64]:
        """Numbers of the frames that have been read, in order."""
        return self._found[0]

    @property
    def values(self) -> NDArray[np.float64]:
        """Value at each of `steps`."""
        return self._found[1]

    @property
    def text(self) -> str:
        """Where it is."""
        return self.scene.place(self.scene.panels[self.panel], self.row, self.column)

    def grow(self, scene: Scene) -> None:
        """Go on with a scene that has got longer."""
        self._set(scene)

    def read(self, told: Told) -> Iterator[None]:
        """Read what is missing; each step is short.

        Parameters
        ----------
        told
            Called with this series now and then, and at the end.
        """
        said = -np.inf
        n = -1
        pace = _Pace()
        while n < self.scene.n:  # it may get longer meanwhile
            n = self.scene.n
            runs = self._panel.reader.runs
            for part in _paced(_parts(runs, n, self.steps), pace if runs is None else None):
                began = time.monotonic()
                steps, values = self._read(part)
                pace.took(time.monotonic() - began)
                had, known = self._found
                new = ~np.isin(steps, had)
                all_steps = np.concatenate([had, steps[new]])
                order = np.argsort(all_steps, kind="stable")
                self._found = all_steps[order], np.concatenate([known, values[new]])[order]
                if time.monotonic() - said > _BETWEEN:
                    told(self)
                    said = time.monotonic()
                yield
        told(self)

    @property
    def _panel(self) -> Panel:
        return self.scene.panels[self.panel]

    def _read(self, part: slice) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        steps = np.arange(self.scene.n)[part]
        if self._cell is None:
            return steps, np.full(len(steps), np.nan)
        panel = self._panel
        key = panel.key(part, *self._cell, self.scene.where)
        return steps, real(panel.reader.series(key)).astype("f8")

    def to_dataarray(self) -> xr.DataArray:
        """Return what has been read as a labelled array."""
        panel = self._panel
        data = panel.data
        steps, values = self._found
        coords: dict[str, Any] = {}
        index = {self.scene.dim: steps, **self.scene.where}
        if self._cell is not None:
            _, down, right = panel.axes
            index[str(data.dims[right])] = self._cell[1]
            if down is not None:
                index[str(data.dims[down])] = self._cell[0]
        for axis, position in panel.fixed.items():
            index[str(data.dims[axis])] = position
        for name, coordinate in data.coords.items():
            made = coordinate.isel({d: p for d, p in index.items() if d in coordinate.dims})
            if set(made.dims) <= {self.scene.dim}:
                coords[str(name)] = made.variable
        return xr.DataArray(
            values, dims=(self.scene.dim,), coords=coords, name=data.name, attrs=data.attrs
        )


class _Pace:
    """How many frames are read at once: as many as the storage gives in a short time."""

    def __init__(self) -> None:
        self.frames = 2 * _FEWEST

    def took(self, seconds: float) -> None:
        """Learn how long the last read took."""
        if seconds > _PATIENCE:
            self.frames = max(self.frames // 4, _FEWEST)
        elif seconds < _PATIENCE / 4:
            self.frames = min(self.frames * 2, _AT_ONCE)


def _paced(parts: Iterator[slice], pace: _Pace | None) -> Iterator[slice]:
    """Yield the same frames in smaller slices; chunks that are decoded whole stay whole."""
    for part in parts:
        start, stop, step = part.start, part.stop, part.step or 1
        count = 1 if pace is None else -(-len(range(start, stop, step)) // pace.frames)
        for number in reversed(range(max(count, 1))):  # each as spread as the whole
            yield slice(start + number * step, stop, step * max(count, 1))


def _parts(runs: tuple[int, ...] | None, n: int, have: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of frames: evenly spread ones first, then those between, until all are there."""
    if len(have):  # the start is there: what has been added since
        for start in range(int(have[-1]) + 1, n, _AT_ONCE):
            yield slice(start, min(start + _AT_ONCE, n))
        return
    if runs is not None:
        # Each chunk is decoded once, whatever is taken of it: they are spread.
        stops = np.cumsum(runs)
        for number in _spread(len(runs)):
            yield slice(int(stops[number] - runs[number]), min(int(stops[number]), n))
        return
    step = 1
    while n // step > FIRST:
        step *= 2
    yield slice(0, n, step)
    while step > 1:
        half = step // 2
        for start in range(half, n, step * _AT_ONCE):
            yield slice(start, min(start + step * _AT_ONCE, n), step)
        step = half


def _spread(count: int) -> Iterator[int]:
    """Yield numbers below `count`, each once, those far apart first."""
    step = 1
    while step < count:
        step *= 2
    yield from range(min(1, count))
    while step > 1:
        yield from range(step // 2, count, step)
        step //= 2
