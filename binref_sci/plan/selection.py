"""From a key, anything that NumPy indexing takes, to positions along each axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Grid:
    """``count`` positions along an axis, ``step`` apart (negative to go back)."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, eq=False, slots=True)
class Picks:
    """Positions along an axis in any order, repeats allowed."""

    positions: NDArray[np.intp]


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """A key, resolved against a shape.

    Parameters
    ----------
    axes
        What is read along each axis of the array.
    points
        Paired positions by axis, flattened, where two or more index arrays meet.
    read_shape
        Shape that is read: ``(points, …)`` or one length an axis.
    final_shape
        Shape of the result before its axes are moved.
    order
        Order of the axes of the result, or None if they are in place.
    picked
        Axis of the only index array; it is read in place and then goes to the front.
    """

    axes: list[Grid | Picks]
    points: dict[int, NDArray[np.intp]] | None
    read_shape: tuple[int, ...]
    final_shape: tuple[int, ...]
    order: tuple[int, ...] | None
    picked: int | None = None

    def inside(self, index: int) -> Selection:
        """Return this selection of one snapshot as one of the whole stored array."""
        points = None
        if self.points is not None:
            points = {axis + 1: positions for axis, positions in self.points.items()}
            if len(points) == len(self.axes):  # single elements: all indices as a table
                points[0] = np.full(self.read_shape[0], index)
        return replace(
            self,
            axes=[Grid(index, 1, 1), *self.axes],
            points=points,
            read_shape=self.read_shape if points else (1, *self.read_shape),
            picked=None if self.picked is None else self.picked + 1,
        )

    def finish(self, made: NDArray[Any]) -> NDArray[Any]:
        """Give what was read the shape that NumPy would."""
        if self.picked is not None:
            made = np.moveaxis(made, self.picked, 0)
        made = made.reshape(self.final_shape)
        return made if self.order is None else np.ascontiguousarray(made.transpose(self.order))


def resolve(key: Any, shape: tuple[int, ...]) -> Selection:
    """Turn a NumPy key into what to read along each axis.

    Raises
    ------
    IndexError
        If the key does not fit `shape`, in NumPy's words where it has them.
    """
    parts = _expanded(key, shape)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if not arrays:
        return _resolve_basic(parts, shape)
    return _resolve_advanced(parts, shape)


def resolve_outer(key: tuple[Any, ...], shape: tuple[int, ...]) -> Selection:
    """Turn one integer, slice or 1-D array an axis into what to read along each.

    Raises
    ------
    IndexError
        If the key does not fit `shape`.
    """
    if len(key) != len(shape):
        raise IndexError(f"{len(key)} indices for {len(shape)} axes")
    axes: list[Grid | Picks] = []
    final: list[int] = []
    for axis, (part, length) in enumerate(zip(key, shape, strict=True)):
        if isinstance(part, np.ndarray) and part.dtype == np.bool_:
            part = np.flatnonzero(part)
        if isinstance(part, np.ndarray) and part.ndim:
            axes.append(_even(_checked_positions(part.astype(np.intp), length, axis)))
            final.append(part.size)
            continue
        grid = _grid(part if isinstance(part, slice) else int(part), length, axis)
        axes.append(grid)
        if isinstance(part, slice):
            final.append(grid.count)
    read = tuple(a.count if isinstance(a, Grid) else len(a.positions) for a in axes)
    return Selection(axes, None, read, tuple(final), None)


def _even(positions: NDArray[np.intp]) -> Grid | Picks:
    """Return evenly spaced positions as a grid."""
    if len(positions) == 1:
        return Grid(int(positions[0]), 1, 1)
    if len(positions):
        steps = np.diff(positions)
        step = int(steps[0])
        if step and (steps == step).all():
            return Grid(int(positions[0]), step, len(positions))
    return Picks(positions)


def _expanded(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return an int, slice, integer array, None (a new axis) or Ellipsis (no axis) an entry."""
    parts: list[Any] = []
    masks: list[tuple[int, tuple[int, ...]]] = []  # where, among `parts`, and of which shape
    ellipsis_at: int | None = None
    for entry in key if isinstance(key, tuple) else (key,):
        if entry is Ellipsis:
            if ellipsis_at is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis_at = len(parts)
            continue
        made, mask = _parts(entry)
        if mask is not None:
            masks.append((len(parts), mask))
        parts += made
    used = _axes_of(parts)
    if used > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} axes, {used} were indexed")
    fill = [slice(None)] * (len(shape) - used)
    at = len(parts) if ellipsis_at is None else ellipsis_at
    for place, mask in masks:
        axis = _axes_of(parts[:place]) + (len(fill) if place >= at else 0)
        covered = shape[axis : axis + len(mask)]
        if covered != mask:
            raise IndexError(
                f"boolean index has shape {mask}, but the axes it covers have shape {covered}"
            )
    # An Ellipsis that stands for no axis still comes between two index arrays.
    parts[at:at] = fill if fill or ellipsis_at is None else [Ellipsis]
    return parts


def _parts(entry: Any) -> tuple[list[Any], tuple[int, ...] | None]:
    """Return what an entry asks of each axis it covers, and its shape if it is a mask."""
    if entry is None or isinstance(entry, slice):
        return [entry], None
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool | np.bool_):
        return [int(entry)], None
    array = np.asarray(entry)
    if array.dtype == np.bool_:
        if array.ndim == 0:
            raise IndexError("a single bool is not an index here; use a slice")
        return list(np.nonzero(array)), array.shape
    if array.dtype.kind in "iu" or not array.size:
        return [array.astype(np.intp)], None
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
        f"integer or boolean arrays are valid indices, got {entry!r}"
    )


def _axes_of(parts: list[Any]) -> int:
    return sum(part is not None for part in parts)


def _grid(part: Any, length: int, axis: int) -> Grid:
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        count = len(range(start, stop, step))
        return Grid(start if count else 0, step, count)
    index = part + length if part < 0 else part
    if not 0 <= index < length:
        raise IndexError(f"index {part} is out of bounds for axis {axis} with size {length}")
    return Grid(index, 1, 1)


def _resolve_basic(parts: list[Any], shape: tuple[int, ...]) -> Selection:
    axes: list[Grid | Picks] = []
    final: list[int] = []
    for part in parts:
        if part is Ellipsis:
            continue
        if part is None:
            final.append(1)
            continue
        grid = _grid(part, shape[len(axes)], len(axes))
        axes.append(grid)
        if isinstance(part, slice):
            final.append(grid.count)
    read = tuple(grid.count for grid in axes if isinstance(grid, Grid))
    return Selection(axes, None, read, tuple(final), None)


def _resolve_advanced(parts: list[Any], shape: tuple[int, ...]) -> Selection:
    # Beside an index array, an integer counts as one too: NumPy broadcasts them together
    # and puts their common axes where the first stands, or in front if a slice is between.
    advanced = [n for n, part in enumerate(parts) if isinstance(part, int | np.ndarray)]
    try:
        common = np.broadcast_shapes(*(np.shape(parts[n]) for n in advanced))
    except ValueError as error:
        raise IndexError(f"indexing arrays could not be broadcast together: {error}") from error
    together = advanced == list(range(advanced[0], advanced[-1] + 1))
    axes: list[Grid | Picks] = []
    index_arrays: dict[int, NDArray[np.intp]] = {}
    basic: list[int] = []  # lengths of the result's other axes, in order
    before = 0  # how many of them stand before the common axes
    for n, part in enumerate(parts):
        if n == advanced[0]:
            before = len(basic) if together else 0
        if part is Ellipsis:
            continue
        if part is None:
            basic.append(1)
            continue
        axis = len(axes)
        if isinstance(part, np.ndarray):
            index_arrays[axis] = _checked_positions(part, shape[axis], axis)
            axes.append(Grid(0, 1, 1))
            continue
        grid = _grid(part, shape[axis], axis)
        axes.append(grid)
        if isinstance(part, slice):
            basic.append(grid.count)
    final = (*common, *basic)
    order = None
    if before:
        lead = len(common)
        moved = range(lead, lead + before)
        order = (*moved, *range(lead), *range(lead + before, len(final)))
    if len(index_arrays) == 1:
        ((picked, positions),) = index_arrays.items()
        axes[picked] = _even(np.broadcast_to(positions, common).reshape(-1))
        read = tuple(a.count if isinstance(a, Grid) else len(a.positions) for a in axes)
        return Selection(axes, None, read, final, order, picked)
    points = {
        axis: np.broadcast_to(positions, common).reshape(-1)
        for axis, positions in index_arrays.items()
    }
    rest = [a.count for n, a in enumerate(axes) if isinstance(a, Grid) and n not in points]
    return Selection(axes, points, (math.prod(common), *rest), final, order)


def _checked_positions(positions: NDArray[Any], length: int, axis: int) -> NDArray[np.intp]:
    wrapped: NDArray[np.intp] = np.where(positions < 0, positions + length, positions)
    outside = (wrapped < 0) | (wrapped >= length)
    if outside.any():
        culprit = positions[outside].flat[0]
        raise IndexError(f"index {culprit} is out of bounds for axis {axis} with size {length}")
    return wrapped
