"""Read what is selected of a series of snapshots, with few calls and no byte twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.memory import empty
from binref_sci.plan.boxes import MERGE_GAP, merged, read_box, read_boxes, strided
from binref_sci.plan.buffers import Buffers
from binref_sci.plan.selection import Grid, Picks, Selection
from binref_sci.plan.series import Series
from binref_sci.ranges import read_range, read_ranges
from binref_sci.storage import read_into, require


def read_snapshot(series: Series, buffers: Buffers, index: int, out: NDArray[Any]) -> None:
    """Read all of one uncompressed snapshot."""
    if not out.size:
        return
    segment, local = series.locate(index)
    offset, _ = segment.place(local)
    buffer = buffers.open(segment.path)
    require(buffer, offset, out.nbytes)
    read_range(buffer, offset, out)


def read_outer(
    series: Series, buffers: Buffers, axes: list[Grid | Picks], out: NDArray[Any]
) -> None:
    """Read the outer product of one selection an axis."""
    grids = [axis for axis in axes if isinstance(axis, Grid)]
    if len(grids) == len(axes):
        read_grid(series, buffers, grids, out)
        return
    first = axes[0]
    if isinstance(first, Picks) and series.snapshot_bytes > MERGE_GAP:
        # Snapshots far from each other: another array on disk, of those alone.
        chosen, order = np.unique(first.positions, return_inverse=True)
        some = replace(series, segments=tuple(series.chosen(chosen)))
        rest = [Grid(0, 1, len(chosen)), *axes[1:]]
        if len(chosen) == len(order) and (np.diff(order) > 0).all():
            read_outer(some, buffers, rest, out)
            return
        scratch = empty((len(chosen), *out.shape[1:]), series.dtype)
        read_outer(some, buffers, rest, scratch)
        np.take(scratch, order.reshape(-1), axis=0, out=out)
        return
    pitches = [series.snapshot_bytes, *series.inner_strides]
    runs: list[list[tuple[Grid, Any, Any]]] = [
        [(axis, slice(None), slice(None))]
        if isinstance(axis, Grid)
        else list(_runs(axis.positions, pitch))
        for axis, pitch in zip(axes, pitches, strict=True)
    ]
    for combination in itertools.product(*runs):
        grids = [grid for grid, _, _ in combination]
        scratch = empty(tuple(grid.count for grid in grids), series.dtype)
        read_grid(series, buffers, grids, scratch)
        taken = scratch[_open_mesh([take for _, take, _ in combination], scratch.shape)]
        out[_open_mesh([target for _, _, target in combination], out.shape)] = taken


def read_points(series: Series, buffers: Buffers, selection: Selection, out: NDArray[Any]) -> None:
    """Read paired positions: `out` is ``(points, *grids)``."""
    points = selection.points
    assert points is not None  # the caller looked
    table = np.stack([points[axis] for axis in sorted(points)], axis=-1)
    if not len(table):
        return
    # Unique and in file order: a point asked for twice is read once.
    table, order = np.unique(table, axis=0, return_inverse=True)
    scratch = np.empty((len(table), *out.shape[1:]), series.dtype)
    if len(points) == len(series.shape) and series.compression is None:
        _read_elements(series, buffers, table, scratch)
    else:
        axes = list(selection.axes)
        for number, row in enumerate(table):
            for axis, index in zip(sorted(points), row, strict=True):
                axes[axis] = Grid(int(index), 1, 1)
            grids = [grid for grid in axes if isinstance(grid, Grid)]
            # The Ellipsis keeps a view where every axis is a point.
            target = scratch[number, ...].reshape([grid.count for grid in grids])
            read_grid(series, buffers, grids, target)
    out[...] = scratch[order.reshape(-1)]


def _read_elements(
    series: Series, buffers: Buffers, table: NDArray[np.intp], out: NDArray[Any]
) -> None:
    """Read single elements, given by sorted full indices of shape ``(points, ndim)``."""
    inner = table[:, 1:] @ np.array(series.inner_strides, dtype=np.int64)
    numbers = np.searchsorted(series.starts, table[:, 0], side="right") - 1
    itemsize = series.dtype.itemsize
    for number in np.unique(numbers):
        segment = series.segments[number]
        mine = np.flatnonzero(numbers == number)
        local = table[mine, 0] - series.starts[number]
        offsets = segment.offsets_of(local) + inner[mine]
        by_offset = np.argsort(offsets, kind="stable")
        offsets, mine = offsets[by_offset], mine[by_offset]
        buffer = buffers.open(segment.path)
        ranges = list(merged(offsets, itemsize))
        if len(ranges) == len(offsets):
            require(buffer, int(offsets[0]), int(offsets[-1]) + itemsize - int(offsets[0]))
            found = np.empty(len(offsets), series.dtype)
            read_ranges(buffer, offsets, itemsize, found.view(np.uint8))
            out[mine] = found
            continue
        for first, last in ranges:
            start, stop = int(offsets[first]), int(offsets[last - 1]) + itemsize
            require(buffer, start, stop - start)
            scratch = empty((stop - start,), np.uint8)
            read_into(buffer, start, scratch)
            spots = (offsets[first:last] - start)[:, None] + np.arange(itemsize)
            out[mine[first:last]] = scratch[spots].reshape(-1).view(series.dtype)


def read_grid(series: Series, buffers: Buffers, grids: list[Grid], out: NDArray[Any]) -> None:
    """Read a regular grid over all axes into `out`, whose shape is the grids' counts."""
    if not out.size:
        return
    strides = series.inner_strides
    inner_base = 0
    steps = []
    counts = []
    for axis, (grid, stride) in enumerate(zip(grids[1:], strides, strict=True), start=1):
        start, step = grid.start, grid.step
        if step < 0:
            start, step = start + step * (grid.count - 1), -step
            out = np.flip(out, axis)
        inner_base += start * stride
        steps.append(step * stride)
        counts.append(grid.count)
    snapshots = grids[0]
    for position, piece in series.pieces(snapshots.start, snapshots.step, snapshots.count):
        target = out[position : position + piece.count]
        buffer = buffers.open(piece.path)
        if piece.offsets is not None:
            if series.compression is None:
                read_boxes(buffer, piece.offsets + inner_base, counts, steps, target)
                continue
            for index in range(piece.count):
                offset, size = piece.place(index)
                whole = buffers.decoded(buffer, offset, size, series.snapshot_bytes)
                target[index] = strided(whole, series.dtype, inner_base, counts, steps)
            continue
        base, step = piece.offset, piece.stride
        if step < 0:
            base, step = base + step * (piece.count - 1), -step
            target = target[::-1]
        read_box(buffer, base + inner_base, [piece.count, *counts], [step, *steps], target)


def _runs(
    positions: NDArray[np.intp], pitch: int
) -> Iterator[tuple[Grid, NDArray[np.intp], NDArray[np.intp]]]:
    """Group positions whose neighbours are near; yield (read, take from it, put where)."""
    order = np.argsort(positions, kind="stable")
    ascending = positions[order]
    apart = (np.diff(ascending) - 1) * pitch > MERGE_GAP
    for members in np.split(np.arange(len(ascending)), np.flatnonzero(apart) + 1):
        if not len(members):
            continue
        first, last = int(ascending[members[0]]), int(ascending[members[-1]])
        yield Grid(first, 1, last - first + 1), ascending[members] - first, order[members]


def _open_mesh(takes: list[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    return np.ix_(
        *(
            np.arange(length) if isinstance(take, slice) else take
            for take, length in zip(takes, shape, strict=True)
        )
    )
