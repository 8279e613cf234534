"""A stored array: equal snapshots along axis 0, in one or more buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.dtypes import nbytes_of
from binref_sci.errors import BufferNotFoundError, CorruptBufferError, InvalidReferenceError
from binref_sci.memory import empty
from binref_sci.plan.boxes import MERGE_GAP, merged, read_box, read_boxes, strided
from binref_sci.plan.buffers import Buffers, passes
from binref_sci.plan.segment import Segment
from binref_sci.plan.selection import Grid, Picks, Selection, resolve, resolve_outer
from binref_sci.ranges import read_range, read_ranges
from binref_sci.storage import Buffer, Root, read_into, require, status_of
from binref_sci.storage.remote import RemotePath

ON_DISK = "on disk"
"""State of what is there, as far as the sizes of its files tell."""

REMOTE = "in a store"
"""State of what lies elsewhere: to look would take as long as to read."""

_LOOKED_AT = 64  # segments at either end whose files are looked at
_ALL = slice(None)
_DENSEST = 256  # bytes that one byte of an lz4 frame can stand for, rounded up


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
        return self._count

    @cached_property
    def _count(self) -> int:
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
        index = self._snapshot_asked(key)
        if index is None or isinstance(self.root, RemotePath):
            return self._read(resolve(key, self.shape), key)
        made = self._room(self.inner)
        with Buffers(self.root) as buffers:
            self._read_snapshot(buffers, index, made)
        return made

    def _snapshot_asked(self, key: Any) -> int | None:
        """Return the number of the snapshot that alone is asked for, all of it: nothing to plan."""
        if type(key) is not tuple or len(key) <= 1 or type(key[0]) is not int:
            return None
        # Types first: an index array would compare element by element.
        for part in key[1:]:
            if type(part) is not slice or part != _ALL:
                return None
        index = key[0] + len(self) if key[0] < 0 else key[0]
        plain = self.compression is None and len(key) == 1 + len(self.inner)
        return index if plain and 0 <= index < len(self) else None

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
        for opened in passes(self.root):
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

    def _read_snapshot(self, buffers: Buffers, index: int, out: NDArray[Any]) -> None:
        """Read all of one uncompressed snapshot."""
        if not out.size:
            return
        segment, local = self.locate(index)
        offset, _ = segment.place(local)
        buffer = buffers.open(segment.path)
        require(buffer, offset, out.nbytes)
        read_range(buffer, offset, out)

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
        for opened in passes(self.root):
            with opened as buffers:
                self._read_grid(buffers, [Grid(0, 1, length) for length in self.shape], out)

    def _read_outer(self, buffers: Buffers, axes: list[Grid | Picks], out: NDArray[Any]) -> None:
        """Read the outer product of one selection an axis."""
        grids = [axis for axis in axes if isinstance(axis, Grid)]
        if len(grids) == len(axes):
            self._read_grid(buffers, grids, out)
            return
        first = axes[0]
        if isinstance(first, Picks) and self.snapshot_bytes > MERGE_GAP:
            # Snapshots far from each other: another array on disk, of those alone.
            chosen, order = np.unique(first.positions, return_inverse=True)
            some = replace(self, segments=tuple(self._chosen(chosen)))
            rest = [Grid(0, 1, len(chosen)), *axes[1:]]
            if len(chosen) == len(order) and (np.diff(order) > 0).all():
                some._read_outer(buffers, rest, out)
                return
            scratch = empty((len(chosen), *out.shape[1:]), self.dtype)
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
            scratch = empty(tuple(grid.count for grid in grids), self.dtype)
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

    def _read_points(self, buffers: Buffers, selection: Selection, out: NDArray[Any]) -> None:
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

    def _read_elements(self, buffers: Buffers, table: NDArray[np.intp], out: NDArray[Any]) -> None:
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
            ranges = list(merged(offsets, itemsize))
            if len(ranges) == len(offsets):
                require(buffer, int(offsets[0]), int(offsets[-1]) + itemsize - int(offsets[0]))
                found = np.empty(len(offsets), self.dtype)
                read_ranges(buffer, offsets, itemsize, found.view(np.uint8))
                out[mine] = found
                continue
            for first, last in ranges:
                start, stop = int(offsets[first]), int(offsets[last - 1]) + itemsize
                require(buffer, start, stop - start)
                scratch = empty((stop - start,), np.uint8)
                read_into(buffer, start, scratch)
                spots = (offsets[first:last] - start)[:, None] + np.arange(itemsize)
                out[mine[first:last]] = scratch[spots].reshape(-1).view(self.dtype)

    def _read_grid(self, buffers: Buffers, grids: list[Grid], out: NDArray[Any]) -> None:
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
                    read_boxes(buffer, piece.offsets + inner_base, counts, steps, target)
                    continue
                for index in range(piece.count):
                    offset, size = piece.place(index)
                    whole = buffers.decoded(buffer, offset, size, nbytes_of(self.inner, self.dtype))
                    target[index] = strided(whole, self.dtype, inner_base, counts, steps)
                continue
            base, step = piece.offset, piece.stride
            if step < 0:
                base, step = base + step * (piece.count - 1), -step
                target = target[::-1]
            read_box(buffer, base + inner_base, [piece.count, *counts], [step, *steps], target)

    def _room(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return an array to read into; if it is too large, it may well be a false claim."""
        try:
            return empty(shape, self.dtype)
        except MemoryError:
            for opened in passes(self.root):
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


def _strides(inner: tuple[int, ...], dtype: np.dtype[Any]) -> list[int]:
    """Return the bytes from one element to the next, along each axis of a snapshot."""
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
