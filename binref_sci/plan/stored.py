"""A stored array: what may be asked of equal snapshots on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from binref_sci.errors import BufferNotFoundError, CorruptBufferError, InvalidReferenceError
from binref_sci.memory import empty
from binref_sci.plan.buffers import Buffers, passes
from binref_sci.plan.reading import read_grid, read_outer, read_points, read_snapshot
from binref_sci.plan.segment import Segment
from binref_sci.plan.selection import Grid, Selection, resolve, resolve_outer
from binref_sci.plan.series import Series
from binref_sci.storage import Buffer, require, status_of
from binref_sci.storage.remote import RemotePath

ON_DISK = "on disk"
"""State of what is there, as far as the sizes of its files tell."""

REMOTE = "in a store"
"""State of what lies elsewhere: to look would take as long as to read."""

_LOOKED_AT = 64  # segments at either end whose files are looked at
_ALL = slice(None)
_DENSEST = 256  # bytes that one byte of an lz4 frame can stand for, rounded up


@dataclass(frozen=True, eq=False)
class Stored(Series):
    """Equal snapshots on disk, to be indexed as NumPy does."""

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
            read_snapshot(self, buffers, index, made)
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
                    read_snapshot(self, buffers, at.start, made)
                elif selection.points is None:
                    read_outer(self, buffers, selection.axes, made)
                else:
                    read_points(self, buffers, selection, made)
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
                read_grid(self, buffers, [Grid(0, 1, length) for length in self.shape], out)

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
        nbytes = self.snapshot_bytes
        for index in {0, segment.count - 1} if segment.offsets is None else range(segment.count):
            offset, size = segment.place(index)
            require(buffer, offset, nbytes if self.compression is None else size or 0)
            if self.compression is not None and nbytes > _DENSEST * (size or 0):
                raise CorruptBufferError(
                    f"buffer {buffer.name!r} at byte {offset}: no lz4 frame of {size} bytes holds "
                    f"the {nbytes} bytes that are expected"
                )
