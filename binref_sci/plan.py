"""From an index to byte ranges: the one planner.

A stored array is a run of equal snapshots along axis 0, in one or more buffers. A key
(anything NumPy indexing takes) becomes a list of *boxes*: regular grids of elements in
one buffer. A box is read with as few ``preadv`` calls as its gaps allow, straight into
the result where its elements are neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.codec import decompress
from binref_sci.dtypes import nbytes_of
from binref_sci.errors import CorruptBufferError
from binref_sci.storage import OpenBuffer, open_buffer, read_into, require

MERGE_GAP = 16 * 1024
"""Neighbouring ranges closer than this, in bytes, are read as one: on a warm page cache
copying 16 KiB costs about what another system call does."""

MERGE_LIMIT = 64 * 1024 * 1024
"""Ranges with gaps are merged up to this size, in bytes; bounds the scratch memory."""


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Snapshots at regular places in one buffer.

    Parameters
    ----------
    path
        Buffer, relative to the root.
    offset
        First byte of the first snapshot.
    count
        Number of snapshots.
    stride
        Bytes from one snapshot to the next; negative in a reversed trajectory.
    offsets, sizes
        Byte offset of each snapshot, int64, shape ``(count,)``, where they are scattered,
        and with it the size of each, where they are compressed. `offset` and `stride` then
        say nothing.
    """

    path: str
    offset: int
    count: int
    stride: int
    offsets: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None

    def cut(self, start: int, step: int, count: int) -> Segment:
        """Return every `step`-th snapshot from `start` on, `count` of them."""
        if self.offsets is not None:
            places = start + step * np.arange(count)
            sizes = None if self.sizes is None else self.sizes[places]
            return Segment(self.path, 0, count, 0, self.offsets[places], sizes)
        return Segment(self.path, self.offset + start * self.stride, count, self.stride * step)

    def place(self, index: int) -> tuple[int, int | None]:
        """Return offset and compressed size of one snapshot."""
        if self.offsets is not None:
            return int(self.offsets[index]), None if self.sizes is None else int(self.sizes[index])
        return self.offset + index * self.stride, None


@dataclass(frozen=True, eq=False)
class Stored:
    """Equal snapshots on disk: an array of shape ``(n, *inner)``.

    Parameters
    ----------
    root
        Directory that segment paths are relative to, absolute.
    segments
        In order along axis 0.
    inner
        Shape of one snapshot.
    dtype
        Element type, little-endian.
    compression
        Codec of every snapshot, or None.
    """

    root: str
    segments: tuple[Segment, ...]
    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str | None = None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Index of the first snapshot of each segment, and the total at the end."""
        return np.concatenate(
            ([0], np.cumsum([segment.count for segment in self.segments], dtype=np.int64))
        ).astype(np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, *inner)``."""
        return (len(self), *self.inner)

    def locate(self, index: int) -> tuple[Segment, int]:
        """Return the segment that holds snapshot `index`, and its place there."""
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.segments[number], index - int(self.starts[number])

    def cut(self, start: int, step: int, count: int) -> Stored:
        """Return every `step`-th snapshot from `start` on; nothing is read."""
        pieces = tuple(piece for _, piece in self._pieces(start, step, count))
        return Stored(self.root, pieces, self.inner, self.dtype, self.compression)

    def _pieces(self, start: int, step: int, count: int) -> Iterator[tuple[int, Segment]]:
        """Yield (position in the selection, part of a segment) in the selection's order."""
        position = 0
        while position < count:
            index = start + step * position
            segment, local = self.locate(index)
            room = (segment.count - 1 - local) // step if step > 0 else local // -step
            taken = min(count - position, room + 1)
            yield position, segment.cut(local, step, taken)
            position += taken

    def read(self, key: Any) -> Any:
        """Return the selected elements, as NumPy would, in a new writable array.

        Raises
        ------
        IndexError
            As NumPy raises it.
        TruncatedBufferError, BufferNotFoundError, CorruptBufferError
            If the bytes are not there.
        """
        return self._read(resolve(key, self.shape), key)

    def read_snapshot(self, index: int, key: Any) -> Any:
        """Return the selected elements of one snapshot; `key` indexes ``inner``.

        Raises
        ------
        IndexError, TruncatedBufferError, BufferNotFoundError, CorruptBufferError
            As `read`.
        """
        # Not read((index, *key)): beside an index array, an integer would count as one.
        return self._read(resolve(key, self.inner).inside(index), key)

    def _read(self, selection: Selection, key: Any) -> Any:
        made = self._room(selection.read_shape)
        with _Buffers(self.root) as buffers:
            if selection.points is None:
                self._read_outer(buffers, selection.axes, made)
            else:
                self._read_points(buffers, selection, made)
        made = selection.finish(made)
        # As in NumPy, integers alone give a number, and an Ellipsis a 0-d array.
        keeps = (
            isinstance(key, tuple) and any(part is Ellipsis for part in key)
        ) or key is Ellipsis
        return made if made.ndim or keeps else made[()]

    def load(self) -> NDArray[Any]:
        """Return everything, in a new writable array.

        Raises
        ------
        TruncatedBufferError, BufferNotFoundError, CorruptBufferError
            As `read`.
        """
        made = self._room(self.shape)
        self.read_all(made)
        return made

    def read_all(self, out: NDArray[Any]) -> None:
        """Fill a C-contiguous array of `shape` with everything."""
        with _Buffers(self.root) as buffers:
            self._read_grid(buffers, [Grid(0, 1, length) for length in self.shape], out)

    def _read_outer(self, buffers: _Buffers, axes: list[Grid | _Picks], out: NDArray[Any]) -> None:
        """Read the outer product of one selection an axis."""
        grids = [axis for axis in axes if isinstance(axis, Grid)]
        if len(grids) == len(axes):
            self._read_grid(buffers, grids, out)
            return
        pitches = [nbytes_of(self.inner, self.dtype), *_strides(self.inner, self.dtype)]
        runs: list[list[tuple[Grid, Any, Any]]] = [
            [(axis, slice(None), slice(None))]
            if isinstance(axis, Grid)
            else list(_runs(axis.positions, pitch))
            for axis, pitch in zip(axes, pitches, strict=True)
        ]
        for combination in itertools.product(*runs):
            grids = [grid for grid, _, _ in combination]
            scratch = np.empty([grid.count for grid in grids], self.dtype)
            self._read_grid(buffers, grids, scratch)
            taken = scratch[_open_mesh([take for _, take, _ in combination], scratch.shape)]
            out[_open_mesh([target for _, _, target in combination], out.shape)] = taken

    def _read_points(self, buffers: _Buffers, selection: Selection, out: NDArray[Any]) -> None:
        """Read paired positions: `out` is ``(points, *grids)``."""
        points, order = selection.points, None
        assert points is not None  # the caller looked
        table = np.stack([points[axis] for axis in sorted(points)], axis=-1)
        if not len(table):
            return
        # Unique and in file order: a point asked for twice is read once.
        table, order = np.unique(table, axis=0, return_inverse=True)
        scratch = np.empty((len(table), *out.shape[1:]), self.dtype)
        if len(points) == len(self.shape) and self.compression is None:
            self._read_elements(buffers, table, scratch)
        else:
            axes = list(selection.axes)
            for number, row in enumerate(table):
                for axis, index in zip(sorted(points), row, strict=True):
                    axes[axis] = Grid(int(index), 1, 1)
                grids = [grid for grid in axes if isinstance(grid, Grid)]
                # The Ellipsis keeps a view where every axis is a point.
                target = scratch[number, ...].reshape([grid.count for grid in grids])
                self._read_grid(buffers, grids, target)
        out[...] = scratch[order.reshape(-1)]

    def _read_elements(self, buffers: _Buffers, table: NDArray[np.intp], out: NDArray[Any]) -> None:
        """Read single elements, given by sorted full indices of shape ``(points, ndim)``."""
        inner = table[:, 1:] @ np.array(_strides(self.inner, self.dtype), dtype=np.int64)
        numbers = np.searchsorted(self.starts, table[:, 0], side="right") - 1
        itemsize = self.dtype.itemsize
        for number in np.unique(numbers):
            segment = self.segments[number]
            mine = np.flatnonzero(numbers == number)
            local = table[mine, 0] - self.starts[number]
            if segment.offsets is None:
                bases = segment.offset + local * segment.stride
            else:
                bases = segment.offsets[local]
            offsets = bases + inner[mine]
            by_offset = np.argsort(offsets, kind="stable")
            offsets, mine = offsets[by_offset], mine[by_offset]
            buffer = buffers.open(segment.path)
            for first, last in _merged(offsets, itemsize):
                start, stop = int(offsets[first]), int(offsets[last - 1]) + itemsize
                require(buffer, start, stop - start)
                scratch = np.empty(stop - start, np.uint8)
                read_into(buffer, start, scratch)
                spots = (offsets[first:last] - start)[:, None] + np.arange(itemsize)
                out[mine[first:last]] = scratch[spots].reshape(-1).view(self.dtype)

    def _read_grid(self, buffers: _Buffers, grids: list[Grid], out: NDArray[Any]) -> None:
        """Read a regular grid over all axes into `out`, whose shape is the grids' counts."""
        if not out.size:
            return
        strides = _strides(self.inner, self.dtype)
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
        for position, piece in self._pieces(snapshots.start, snapshots.step, snapshots.count):
            target = out[position : position + piece.count]
            buffer = buffers.open(piece.path)
            if piece.offsets is not None:
                for index in range(piece.count):
                    offset, size = piece.place(index)
                    if self.compression is None:
                        _read_box(buffer, offset + inner_base, counts, steps, target[index, ...])
                        continue
                    whole = buffers.decoded(buffer, offset, size, nbytes_of(self.inner, self.dtype))
                    target[index] = _strided(whole, self.dtype, inner_base, counts, steps)
                continue
            base, step = piece.offset, piece.stride
            if step < 0:
                base, step = base + step * (piece.count - 1), -step
                target = target[::-1]
            _read_box(buffer, base + inner_base, [piece.count, *counts], [step, *steps], target)

    def _room(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return an array to read into; if it is too large, it may well be a false claim."""
        try:
            return np.empty(shape, self.dtype)
        except MemoryError:
            with _Buffers(self.root) as buffers:
                for segment in self.segments:
                    self._require(buffers.open(segment.path), segment)
            raise

    def _require(self, buffer: OpenBuffer, segment: Segment) -> None:
        nbytes = nbytes_of(self.inner, self.dtype)
        for index in {0, segment.count - 1} if segment.offsets is None else range(segment.count):
            offset, size = segment.place(index)
            require(buffer, offset, nbytes if self.compression is None else size or 0)
            if self.compression is not None and nbytes > _DENSEST * (size or 0):
                raise CorruptBufferError(
                    f"buffer {buffer.name!r} at byte {offset}: no lz4 frame of {size} bytes holds "
                    f"the {nbytes} bytes that are expected"
                )


_DENSEST = 256  # bytes that one byte of an lz4 frame can stand for, rounded up


class _Buffers(ExitStack):
    """The buffers of one read plan, one descriptor each while neighbours use it."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        self._path: str | None = None
        self._open: OpenBuffer | None = None
        self._decoded: tuple[str, int, int | None, int] | None = None
        self._frame = bytearray()

    def open(self, path: str) -> OpenBuffer:
        if self._open is None or path != self._path:
            self.close()  # at most one is open: a thousand buffers need one descriptor
            self._open = self.enter_context(open_buffer(self._root, path))
            self._path = path
        return self._open

    def decoded(self, buffer: OpenBuffer, offset: int, size: int | None, nbytes: int) -> bytearray:
        """Return what a frame holds; the last one is kept, for the next point in it."""
        key = (buffer.name, offset, size, nbytes)
        if key != self._decoded:
            assert size is not None  # compressed segments carry their sizes
            require(buffer, offset, size)
            frame = np.empty(size, np.uint8)
            read_into(buffer, offset, frame)
            where = f"buffer {buffer.name!r} at byte {offset}"
            self._frame = decompress(frame.data, nbytes, where)
            self._decoded = key
        return self._frame


@dataclass(frozen=True, slots=True)
class Grid:
    """``count`` positions along an axis, ``step`` apart (negative to go back)."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, eq=False, slots=True)
class _Picks:
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

    axes: list[Grid | _Picks]
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


def _expanded(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return one int, slice, integer array or None (a new axis) an entry."""
    entries = list(key) if isinstance(key, tuple) else [key]
    parts: list[Any] = []
    masks: list[tuple[int, tuple[int, ...]]] = []  # where, among `parts`, and of which shape
    used = 0
    ellipsis_at: int | None = None
    for entry in entries:
        if entry is Ellipsis:
            if ellipsis_at is not None:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis_at = len(parts)
        elif entry is None or isinstance(entry, slice):
            parts.append(entry)
            used += entry is not None
        elif isinstance(entry, int | np.integer) and not isinstance(entry, bool | np.bool_):
            parts.append(int(entry))
            used += 1
        else:
            array = np.asarray(entry)
            if array.dtype == np.bool_:
                if array.ndim == 0:
                    raise IndexError("a single bool is not an index here; use a slice")
                masks.append((len(parts), array.shape))
                parts.extend(np.nonzero(array))
                used += array.ndim
            elif array.dtype.kind in "iu" or not array.size:
                parts.append(array.astype(np.intp))
                used += 1
            else:
                raise IndexError(
                    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
                    f"integer or boolean arrays are valid indices, got {entry!r}"
                )
    if used > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} axes, {used} were indexed")
    fill = [slice(None)] * (len(shape) - used)
    at = len(parts) if ellipsis_at is None else ellipsis_at
    for place, covered in masks:
        axis = sum(part is not None for part in parts[:place]) + (len(fill) if place >= at else 0)
        if shape[axis : axis + len(covered)] != covered:
            raise IndexError(
                f"boolean index has shape {covered}, but the axes it covers have shape "
                f"{shape[axis : axis + len(covered)]}"
            )
    parts[at:at] = fill
    return parts


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
    axes: list[Grid | _Picks] = []
    final: list[int] = []
    for part in parts:
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
    axes: list[Grid | _Picks] = []
    index_arrays: dict[int, NDArray[np.intp]] = {}
    basic: list[int] = []  # lengths of the result's other axes, in order
    before = 0  # how many of them stand before the common axes
    for n, part in enumerate(parts):
        if n == advanced[0]:
            before = len(basic) if together else 0
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
        axes[picked] = _Picks(np.broadcast_to(positions, common).reshape(-1))
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


def _strides(inner: tuple[int, ...], dtype: np.dtype[Any]) -> list[int]:
    strides = [dtype.itemsize]
    for length in reversed(inner[1:]):
        strides.append(strides[-1] * length)
    return strides[::-1][: len(inner)] if inner else []


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


def _merged(offsets: NDArray[np.int64], itemsize: int) -> Iterator[tuple[int, int]]:
    """Yield index ranges of sorted offsets that are near enough to be read as one."""
    breaks = np.flatnonzero(np.diff(offsets) > MERGE_GAP + itemsize) + 1
    edges = [0, *breaks.tolist(), len(offsets)]
    for first, last in itertools.pairwise(edges):
        start = first
        while start < last:  # and not larger than the scratch memory may be
            stop = int(np.searchsorted(offsets[start:last], offsets[start] + MERGE_LIMIT)) + start
            yield start, max(stop, start + 1)
            start = max(stop, start + 1)


def _read_box(
    buffer: OpenBuffer, base: int, counts: list[int], steps: list[int], out: NDArray[Any]
) -> None:
    """Read a grid of elements with ascending byte steps into `out`, of shape `counts`."""
    itemsize = out.dtype.itemsize
    last = base + sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    require(buffer, base, last + itemsize - base)
    # From the innermost axis outwards: what is near enough becomes one range.
    extent, packed, split = itemsize, True, len(counts)
    while split:
        count, step = counts[split - 1], steps[split - 1]
        if count > 1:
            reach = (count - 1) * step + extent
            touching = packed and step == extent
            if not touching and (step - extent > MERGE_GAP or reach > MERGE_LIMIT):
                break
            extent, packed = reach, touching
        split -= 1
    inner_counts, inner_steps = counts[split:], steps[split:]
    scratch = None if packed else np.empty(extent, np.uint8)
    for index in np.ndindex(*counts[:split]):
        offset = base + sum(i * step for i, step in zip(index, steps, strict=False))
        # The Ellipsis keeps a view where an index covers every axis.
        target = out[(*index, ...)]
        if scratch is None and target.flags.c_contiguous:
            read_into(buffer, offset, target)
            continue
        room = np.empty(extent, np.uint8) if scratch is None else scratch
        read_into(buffer, offset, room)
        target[...] = _strided(room, out.dtype, 0, inner_counts, inner_steps)


def _strided(
    buffer: Any, dtype: np.dtype[Any], offset: int, counts: list[int], steps: list[int]
) -> NDArray[Any]:
    return np.ndarray(tuple(counts), dtype, buffer, offset, tuple(steps))
