"""From an index to byte ranges: the one planner.

A stored array is a run of equal snapshots along axis 0, in one or more buffers. A key
(anything NumPy indexing takes) becomes a list of *boxes*: regular grids of elements in
one buffer. A box is read with as few ``preadv`` calls as its gaps allow, straight into
the result where its elements are neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.codec import decompress
from binref_sci.dtypes import nbytes_of
from binref_sci.errors import BufferNotFoundError, CorruptBufferError, InvalidReferenceError
from binref_sci.frames import FRAMES
from binref_sci.ranges import read_ranges
from binref_sci.storage import Buffer, Root, opened_buffer, read_into, require, status_of
from binref_sci.storage.fetching import Fetching
from binref_sci.storage.remote import RemotePath

MERGE_GAP = 8 * 1024
"""Neighbouring ranges closer than this, in bytes, are read as one: on a warm page cache
copying 8 KiB costs about what another system call does."""

MERGE_LIMIT = 1024 * 1024
"""Ranges with gaps are merged up to this size, in bytes: as long as the scratch memory
stays in the processor's cache, what lies between costs least."""

ON_DISK = "on disk"
"""State of what is there, as far as the sizes of its files tell."""

REMOTE = "in a store"
"""State of what lies elsewhere: to look would take as long as to read."""

_LOOKED_AT = 64  # segments at either end whose files are looked at
_COLD_SCRATCH = 8 * MERGE_LIMIT  # where the disk is waited for, so that many threads wait


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

    def end(self, snapshot_bytes: int) -> int:
        """Return the byte after the last one that belongs to a snapshot."""
        if not self.count:
            return 0
        if self.offsets is None:
            return max(self.offset, self.offset + (self.count - 1) * self.stride) + snapshot_bytes
        sizes = snapshot_bytes if self.sizes is None else self.sizes
        return int((self.offsets + sizes).max())

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
        Directory that segment paths are relative to: absolute, or of a store.
    segments
        In order along axis 0.
    inner
        Shape of one snapshot.
    dtype
        Element type, little-endian.
    compression
        Codec of every snapshot, or None.
    """

    root: Root
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
    def snapshot_bytes(self) -> int:
        """Bytes of one snapshot, once decoded."""
        return nbytes_of(self.inner, self.dtype)

    @property
    def inner_strides(self) -> tuple[int, ...]:
        """Bytes from one element of a snapshot to the next, along each of its axes."""
        return tuple(_strides(self.inner, self.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, *inner)``."""
        return (len(self), *self.inner)

    @property
    def state(self) -> str:
        """``"on disk"``, or what is wrong with a buffer; of many the first and last are looked at.

        The sizes of files are compared, no data is read; of a store nothing is asked.
        """
        if isinstance(self.root, RemotePath):
            return REMOTE
        ends: dict[str, int] = {}
        looked = self.segments
        if len(looked) > 2 * _LOOKED_AT:
            looked = looked[:_LOOKED_AT] + looked[-_LOOKED_AT:]
        for segment in looked:
            ends[segment.path] = max(ends.get(segment.path, 0), segment.end(self.snapshot_bytes))
        for path, end in ends.items():
            try:
                found = status_of(self.root, path).st_size
            except BufferNotFoundError:
                return f"missing: {path}"
            except InvalidReferenceError:
                return f"outside of its folder: {path}"
            if found < end:
                return f"incomplete: {path} lacks {end - found} bytes"
        return ON_DISK

    def locate(self, index: int) -> tuple[Segment, int]:
        """Return the segment that holds snapshot `index`, and its place there."""
        if len(self.segments) == 1:
            return self.segments[0], index
        number = int(self.starts.searchsorted(index, side="right")) - 1
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
        if type(key) is tuple and key and type(key[0]) is int and self._is_whole(key[1:]):
            index = key[0] + len(self) if key[0] < 0 else key[0]
            if self._whole and self.compression is None and 0 <= index < len(self):
                made = self._room(self.inner)
                for opened in _passes(self.root):
                    with opened as buffers:
                        self._read_snapshot(buffers, index, made)
                return made
        return self._read(resolve(key, self.shape), key)

    def _is_whole(self, parts: tuple[Any, ...]) -> bool:
        # Slices first: an index array would compare element by element.
        return all(type(part) is slice for part in parts) and parts == self._whole

    @cached_property
    def _whole(self) -> tuple[slice, ...]:
        """The index of all of a snapshot: what a player asks for, with nothing to plan."""
        return (slice(None),) * len(self.inner)

    def read_outer(self, key: tuple[Any, ...]) -> Any:
        """Return the outer product of one integer, slice or 1-D integer array an axis.

        Raises
        ------
        IndexError, TruncatedBufferError, BufferNotFoundError, CorruptBufferError
            As `read`.
        """
        return self._read(resolve_outer(key, self.shape), ...)

    def read_vectorized(self, key: tuple[Any, ...]) -> Any:
        """Return what `read` does, the common axes of index arrays always first.

        An integer at axis 0 is no index array here: it chooses the snapshot.

        Raises
        ------
        IndexError, TruncatedBufferError, BufferNotFoundError, CorruptBufferError
            As `read`.
        """
        if key and isinstance(key[0], int):
            selection = resolve(key[1:], self.inner).inside(key[0])
        else:
            selection = resolve(key, self.shape)
        return self._read(replace(selection, order=None), ...)

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
        for opened in _passes(self.root):
            with opened as buffers:
                if selection.points is None and self._is_snapshot(selection):
                    at = selection.axes[0]
                    assert isinstance(at, Grid)  # _is_snapshot has looked
                    self._read_snapshot(buffers, at.start, made)
                elif selection.points is None:
                    self._read_outer(buffers, selection.axes, made)
                else:
                    self._read_points(buffers, selection, made)
        made = selection.finish(made)
        # As in NumPy, integers alone give a number, and an Ellipsis a 0-d array.
        keeps = (
            isinstance(key, tuple) and any(part is Ellipsis for part in key)
        ) or key is Ellipsis
        return made if made.ndim or keeps else made[()]

    def _is_snapshot(self, selection: Selection) -> bool:
        """Tell whether exactly one uncompressed snapshot is asked for, all of it."""
        return (
            selection.read_shape == (1, *self.inner)
            and self.compression is None
            and all(type(axis) is Grid and axis.step == 1 for axis in selection.axes)
        )

    def _read_snapshot(self, buffers: _Buffers, index: int, out: NDArray[Any]) -> None:
        """Read all of one uncompressed snapshot."""
        if not out.size:
            return
        segment, local = self.locate(index)
        offset, _ = segment.place(local)
        buffer = buffers.open(segment.path)
        require(buffer, offset, out.nbytes)
        read_into(buffer, offset, out)

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
        for opened in _passes(self.root):
            with opened as buffers:
                self._read_grid(buffers, [Grid(0, 1, length) for length in self.shape], out)

    def _read_outer(self, buffers: _Buffers, axes: list[Grid | _Picks], out: NDArray[Any]) -> None:
        """Read the outer product of one selection an axis."""
        grids = [axis for axis in axes if isinstance(axis, Grid)]
        if len(grids) == len(axes):
            self._read_grid(buffers, grids, out)
            return
        first = axes[0]
        if isinstance(first, _Picks) and self.snapshot_bytes > MERGE_GAP:
            # Snapshots far from each other: another array on disk, of those alone.
            chosen, order = np.unique(first.positions, return_inverse=True)
            some = replace(self, segments=tuple(self._chosen(chosen)))
            rest = [Grid(0, 1, len(chosen)), *axes[1:]]
            if len(chosen) == len(order) and (np.diff(order) > 0).all():
                some._read_outer(buffers, rest, out)
                return
            scratch = np.empty((len(chosen), *out.shape[1:]), self.dtype)
            some._read_outer(buffers, rest, scratch)
            np.take(scratch, order.reshape(-1), axis=0, out=out)
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

    def _chosen(self, positions: NDArray[np.intp]) -> Iterator[Segment]:
        """Yield the snapshots at ascending positions."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for mine in np.split(np.arange(len(positions)), edges):
            if not len(mine):
                continue
            segment = self.segments[numbers[mine[0]]]
            local = positions[mine] - self.starts[numbers[mine[0]]]
            if segment.offsets is None:
                yield Segment(
                    segment.path, 0, len(mine), 0, segment.offset + local * segment.stride
                )
            else:
                sizes = None if segment.sizes is None else segment.sizes[local]
                yield Segment(segment.path, 0, len(mine), 0, segment.offsets[local], sizes)

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
            ranges = list(_merged(offsets, itemsize))
            if len(ranges) == len(offsets):
                require(buffer, int(offsets[0]), int(offsets[-1]) + itemsize - int(offsets[0]))
                found = np.empty(len(offsets), self.dtype)
                read_ranges(buffer, offsets, itemsize, found.view(np.uint8))
                out[mine] = found
                continue
            for first, last in ranges:
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
                if self.compression is None:
                    _read_boxes(buffer, piece.offsets + inner_base, counts, steps, target)
                    continue
                for index in range(piece.count):
                    offset, size = piece.place(index)
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
            for opened in _passes(self.root):
                with opened as buffers:
                    for segment in self.segments:
                        self._require(buffers.open(segment.path), segment)
            raise

    def _require(self, buffer: Buffer, segment: Segment) -> None:
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


class _Buffers:
    """The buffers of one read plan, one descriptor each while neighbours use it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path: str | None = None
        self._open: Buffer | None = None

    def __enter__(self) -> _Buffers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()

    def open(self, path: str) -> Buffer:
        if self._open is None or path != self._path:
            # At most one is open: a thousand buffers need one descriptor.
            if self._open is not None:
                self._open.close()
                self._open = None
            self._open = opened_buffer(self._root, path)
            self._path = path
        return self._open

    def decoded(self, buffer: Buffer, offset: int, size: int | None, nbytes: int) -> bytearray:
        """Return what a frame holds, which nobody may change."""
        assert size is not None  # compressed segments carry their sizes
        key = (*buffer.identity, offset, size, nbytes)
        frame = FRAMES.get(key)
        if frame is None:
            require(buffer, offset, size)
            encoded = np.empty(size, np.uint8)
            read_into(buffer, offset, encoded)
            frame = self._frame(encoded, nbytes, f"buffer {buffer.name!r} at byte {offset}", key)
        return frame

    def _frame(
        self, encoded: NDArray[np.uint8], nbytes: int, where: str, key: Hashable
    ) -> bytearray:
        frame = decompress(encoded.data, nbytes, where)
        FRAMES.put(key, frame)
        return frame


class _StoreBuffers(_Buffers):
    """The buffers of one pass over a plan at a store."""

    def __init__(self, fetching: Fetching, *, planning: bool) -> None:
        super().__init__("")
        self._fetching = fetching
        self._planning = planning

    def __enter__(self) -> _Buffers:
        self._fetching.planning = self._planning
        return self

    def open(self, path: str) -> Buffer:
        return self._fetching.buffer(path)

    def _frame(
        self, encoded: NDArray[np.uint8], nbytes: int, where: str, key: Hashable
    ) -> bytearray:
        if self._planning:
            return bytearray(nbytes)  # nothing has been read yet
        return super()._frame(encoded, nbytes, where, key)


def _passes(root: Root) -> tuple[_Buffers, ...]:
    """Return the buffers of each pass over a plan: one on disk, at a store two."""
    if not isinstance(root, RemotePath):
        return (_Buffers(root),)
    fetching = Fetching(root)
    return _StoreBuffers(fetching, planning=True), _StoreBuffers(fetching, planning=False)


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


def resolve_outer(key: tuple[Any, ...], shape: tuple[int, ...]) -> Selection:
    """Turn one integer, slice or 1-D array an axis into what to read along each.

    Raises
    ------
    IndexError
        If the key does not fit `shape`.
    """
    if len(key) != len(shape):
        raise IndexError(f"{len(key)} indices for {len(shape)} axes")
    axes: list[Grid | _Picks] = []
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


def _even(positions: NDArray[np.intp]) -> Grid | _Picks:
    """Return evenly spaced positions as a grid."""
    if len(positions) == 1:
        return Grid(int(positions[0]), 1, 1)
    if len(positions):
        steps = np.diff(positions)
        step = int(steps[0])
        if step and (steps == step).all():
            return Grid(int(positions[0]), step, len(positions))
    return _Picks(positions)


def _expanded(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return an int, slice, integer array, None (a new axis) or Ellipsis (no axis) an entry."""
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
    # An Ellipsis that stands for no axis still comes between two index arrays.
    parts[at:at] = fill if fill or ellipsis_at is None else [Ellipsis]
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
    axes: list[Grid | _Picks] = []
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
    buffer: Buffer, base: int, counts: list[int], steps: list[int], out: NDArray[Any]
) -> None:
    """Read a grid of elements with ascending byte steps into `out`, of shape `counts`."""
    itemsize = out.dtype.itemsize
    last = base + sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    require(buffer, base, last + itemsize - base)
    run = _Run(counts, steps, out)
    together = run.together()
    if together:
        axis = run.split - 1
        for first in range(0, counts[axis], together):
            some = min(together, counts[axis] - first)
            part = out[(slice(None),) * axis + (slice(first, first + some),)]
            fewer = [*counts[:axis], some, *counts[axis + 1 :]]
            _read_box(buffer, base + first * steps[axis], fewer, steps, part)
        return
    run.read(buffer, np.array([base], np.int64), out)


def _read_boxes(
    buffer: Buffer,
    bases: NDArray[np.int64],
    counts: list[int],
    steps: list[int],
    out: NDArray[Any],
) -> None:
    """Read a grid of elements at each of `bases`, byte offsets in any order."""
    reach = sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    first, last = int(bases.min()), int(bases.max())
    require(buffer, first, last + reach + out.dtype.itemsize - first)
    run = _Run(counts, steps, out[0, ...])
    if run.together():
        for number, base in enumerate(bases.tolist()):
            _read_box(buffer, base, counts, steps, out[number, ...])
        return
    run.read(buffer, bases, out)


class _Run:
    """The inner axes of a grid that are read as one range, whole or with small gaps.

    `split` axes are left, each of their places a range of `extent` bytes; it is `packed`
    if all its bytes are wanted, in the order of the file.
    """

    def __init__(self, counts: list[int], steps: list[int], out: NDArray[Any]) -> None:
        self.counts, self.steps = counts, steps
        self.extent, self.packed, self.split = out.dtype.itemsize, True, len(counts)
        # From the innermost axis outwards: what is near enough becomes one range.
        while self.split:
            axis = self.split - 1
            count, step = counts[axis], steps[axis]
            if count > 1:
                reach = (count - 1) * step + self.extent
                touching = self.packed and step == self.extent and out.strides[axis] == step
                if not touching and (step - self.extent > MERGE_GAP or reach > MERGE_LIMIT):
                    break
                self.extent, self.packed = reach, touching
            self.split = axis

    def together(self) -> int:
        """Return how many places of the next axis are read at once, if not all can be.

        0 where that is not the question: all are, or the gaps are wide.
        """
        if not self.split:
            return 0
        count, step = self.counts[self.split - 1], self.steps[self.split - 1]
        wide = step - self.extent > MERGE_GAP
        some = 0 if wide or (self.packed and step == self.extent) else MERGE_LIMIT // max(step, 1)
        return some if 1 < some < count else 0

    def read(self, buffer: Buffer, bases: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Read the grid at each of `bases`; `out` has an axis for them if there are many."""
        outer, inner = self.counts[: self.split], self.counts[self.split :]
        offsets = bases
        for count, step in zip(outer, self.steps, strict=False):
            offsets = np.add.outer(offsets, np.arange(count) * step)
        shape = offsets.shape if out.ndim > len(self.counts) else offsets.shape[1:]
        offsets = offsets.reshape(-1)
        if self.packed and out.flags.c_contiguous:
            read_ranges(buffer, offsets, self.extent, out.reshape(-1).view(np.uint8))
            return
        batch = max(MERGE_LIMIT // self.extent, 1)
        room = np.empty(min(batch, len(offsets)) * self.extent, np.uint8)
        first = 0
        while first < len(offsets):
            some = offsets[first : first + batch]
            waited = read_ranges(buffer, some, self.extent, room[: len(some) * self.extent])
            steps = [self.extent, *self.steps[self.split :]]
            taken = _strided(room, out.dtype, 0, [len(some), *inner], steps)
            if not shape:
                out[...] = taken[0]
            elif len(shape) == 1:
                out[first : first + len(some)] = taken
            else:
                out[np.unravel_index(np.arange(first, first + len(some)), shape)] = taken
            first += len(some)
            if waited and batch * self.extent < _COLD_SCRATCH:
                batch = max(_COLD_SCRATCH // self.extent, 1)
                room = np.empty(min(batch, len(offsets)) * self.extent, np.uint8)


def _strided(
    buffer: Any, dtype: np.dtype[Any], offset: int, counts: list[int], steps: list[int]
) -> NDArray[Any]:
    return np.ndarray(tuple(counts), dtype, buffer, offset, tuple(steps))
