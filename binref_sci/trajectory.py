"""`Trajectory`: many equal references as one lazy array."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from binref_sci import lazy
from binref_sci.array import BinrefArray, Layout, equals_list
from binref_sci.dtypes import nbytes_of
from binref_sci.html import Section, facts_html, size_text, sizes_text
from binref_sci.journal import Block, Journal
from binref_sci.labels import Labels
from binref_sci.plan import ON_DISK, REMOTE, Segment, Stored
from binref_sci.storage import identity, place_of
from binref_sci.storage.remote import RemotePath
from binref_sci.unread import Unread

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr


class Trajectory(Unread):
    """Snapshots of one shape and dtype: a lazy array with one more axis in front.

    It holds runs of references, not one object a snapshot. ``len()``, iteration and an
    integer index give `BinrefArray` objects, a slice gives a trajectory; any other key
    reads, by NumPy's rules. Read-only and picklable; keeps no file open.

    Made by `BinrefWriter.trajectory`, `Trajectory.from_refs` or a lazy result.
    """

    __slots__ = ("_layouts", "_times", "block", "labels", "name", "owner", "stored", "time_attrs")

    def __init__(
        self,
        stored: Stored,
        *,
        name: str | None = None,
        labels: Labels | None = None,
        times: Stored | None = None,
        time_attrs: dict[str, Any] | None = None,
        block: Block | None = None,
        owner: object = None,
    ) -> None:
        if not isinstance(stored, Stored):
            raise TypeError(
                f"a Trajectory is not made of a {type(stored).__name__}; use "
                "Trajectory.from_refs(references), BinrefWriter.trajectory() or a lazy result"
            )
        self.stored = stored
        self.name = name
        self.labels = labels or Labels()
        self.block = block
        self.owner = owner
        self._times = times
        self.time_attrs = time_attrs or {}
        self._layouts: dict[str, Layout] = {}

    @classmethod
    def from_refs(cls, refs: Iterable[BinrefArray], **kwargs: Any) -> Trajectory:
        """Fold references of one shape, dtype, codec and directory.

        Parameters
        ----------
        refs
            At least one, in order.
        **kwargs
            `name`, `labels`, `times`, `owner`.

        Raises
        ------
        ValueError
            If there are none, or they differ; names the first odd one.
        """
        items = list(refs)
        if not items:
            raise ValueError(
                "a trajectory needs at least one reference: none has no shape or dtype"
            )
        first = items[0].layout
        segments: list[Segment] = []
        number = 0
        for layout, group in itertools.groupby(items, key=_layout_of):
            members = list(group)
            if layout is not first and _kind(layout) != _kind(first):
                raise ValueError(
                    f"reference {number} has shape {layout.shape}, dtype {layout.dtype.name} and "
                    f"codec {layout.compression} in {layout.directory!r}; the first has "
                    f"{first.shape}, {first.dtype.name} and {first.compression} "
                    f"in {first.directory!r}"
                )
            number += len(members)
            segments += fold(layout.path, members, nbytes_of(layout.shape, layout.dtype))
        stored = Stored(
            first.directory, tuple(segments), first.shape, first.dtype, first.compression
        )
        kwargs.setdefault("owner", first.owner)
        return cls(stored, **kwargs)

    @classmethod
    def from_journal(cls, journal: Journal, *, owner: object = None) -> Trajectory:
        """Return what a journal describes, as of the moment it was read.

        Raises
        ------
        JournalError
            If its snapshots differ in shape or dtype.
        """
        return cls(
            journal.stored(),
            name=journal.header.name,
            labels=journal.header.labels,
            times=journal.times(),
            time_attrs=journal.header.time.attrs if journal.header.time else None,
            block=journal.header.block,
            owner=owner,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, *snapshot shape)``."""
        return self.stored.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.stored.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.stored.inner) + 1

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes once loaded."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def compression(self) -> str | None:
        """Codec of each snapshot, or None."""
        return self.stored.compression

    @property
    def directory(self) -> Path | RemotePath:
        """Absolute directory that buffers are relative to, or a folder of a store."""
        return place_of(self.stored.root)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of snapshots, in order."""
        return self.stored.segments

    @property
    def stored_times(self) -> Stored | None:
        """Where the times lie, one after another; None if none were given."""
        return self._times

    @property
    def times(self) -> NDArray[Any] | None:
        """Time of each snapshot, shape ``(n,)``, read now; None if none were given.

        Numbers, as they are stored: dates and times as int64 nanoseconds since 1970.
        """
        return None if self._times is None else self._times.load()

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[BinrefArray]:
        for segment in self.stored.segments:
            layout = self.layout_of(segment.path)
            for index in range(segment.count):
                yield BinrefArray.at(layout, *segment.place(index))

    def layout_of(self, path: str) -> Layout:
        """Return what the snapshots in one buffer share."""
        layout = self._layouts.get(path)
        if layout is None:
            stored = self.stored
            layout = Layout(
                stored.root,
                path,
                stored.inner,
                stored.dtype,
                stored.compression,
                self.owner,
                None if self.block is None else self.block.shape,
            )
            self._layouts[path] = layout
        return layout

    def __getitem__(self, key: Any) -> Any:
        """Return a `BinrefArray` for an integer, a `Trajectory` for a slice; else read."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            count = len(range(start, stop, step))
            times = self._times
            return Trajectory(
                self.stored.cut(start, step, count),
                name=self.name,
                labels=self._labels_at(key),
                times=None if times is None else times.cut(start, step, count),
                time_attrs=self.time_attrs,
                block=self.block,
                owner=self.owner,
            )
        if isinstance(key, int | np.integer) and not isinstance(key, bool | np.bool_):
            index = int(key)
            found = index + len(self) if index < 0 else index
            if not 0 <= found < len(self):
                raise IndexError(
                    f"index {index} is out of bounds for a trajectory of {len(self)} snapshots"
                )
            segment, local = self.stored.locate(found)
            return BinrefArray.at(self.layout_of(segment.path), *segment.place(local))
        return self.stored.read(key)

    def _labels_at(self, key: slice) -> Labels:
        dims = self.labels.dims
        along = {
            name: coordinate
            for name, coordinate in self.labels.coords.items()
            if dims and dims[0] in coordinate[0]
        }
        if not along or not dims:
            return self.labels
        cut = {
            name: (
                coord_dims,
                values[tuple(key if d == dims[0] else slice(None) for d in coord_dims)],
                attrs,
            )
            for name, (coord_dims, values, attrs) in along.items()
        }
        return self.labels.replace(coords={**self.labels.coords, **cut})

    def __eq__(self, other: object) -> Any:
        """With a list of the same shape, as with an array: compare element by element."""
        return equals_list(self, other) if isinstance(other, list | tuple) else NotImplemented

    __hash__ = object.__hash__

    def load(self) -> NDArray[Any]:
        """Read everything into memory: new, writable, private."""
        return self.stored.load()

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001  # NumPy's protocol
    ) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a Trajectory is on disk: making a NumPy array of it reads a copy")
        made = self.load()
        return made if dtype is None else made.astype(dtype, copy=False)

    def to_dask(self, chunks: Any = None) -> da.Array:
        """Return a dask array that reads when computed; nothing is read now.

        Parameters
        ----------
        chunks
            As for `dask.array.from_array`; default: whole snapshots in blocks of
            about 16 MiB, none across two buffers.
        """
        runs = tuple(
            sum(segment.count for segment in group)
            for _, group in itertools.groupby(self.segments, key=lambda segment: segment.path)
        )
        return lazy.to_dask(self, chunks, lazy.preferred_chunks(self.shape, self.dtype, runs))

    def to_xarray(
        self, labels: Labels | None = None, *, name: str | None = None, chunks: Any = None
    ) -> xr.DataArray:
        """Return a labelled DataArray over `to_dask`; times are read, data is not.

        Parameters
        ----------
        labels
            Instead of the trajectory's own.
        name
            Instead of the trajectory's own.
        chunks
            As for `to_dask`.
        """
        labels = labels or self.labels
        dims = labels.dims or ("time", *(f"dim_{axis}" for axis in range(1, self.ndim)))
        labels = labels.replace(dims=dims)
        times, attrs = self.times, self.time_attrs
        if times is not None and times.dtype.kind == "i":
            # Dates: xarray wants them as values, not in the units.
            times = times.view("<M8[ns]")
            attrs = {key: attrs[key] for key in attrs if key not in ("units", "calendar")}
        coords = {} if times is None else {dims[0]: (dims[:1], times, attrs)}
        return lazy.to_xarray(
            self, self.to_dask(chunks), name=name or self.name, labels=labels, coords=coords
        )

    def __dask_tokenize__(self) -> Any:
        stored = self.stored
        parts: list[bytes] = []
        files: dict[str, tuple[Any, ...]] = {}
        for segment in stored.segments:
            path = segment.path
            if path not in files:
                files[path] = (*identity(stored.root, path),)
            place = (path, segment.offset, segment.count, segment.stride)
            parts.append(repr(place).encode())
            if segment.offsets is not None:
                parts.append(segment.offsets.tobytes())
        parts.append(repr(files).encode())
        # One text, not a list a segment: dask would look at each of their items.
        return (
            "Trajectory",
            stored.root,
            stored.inner,
            stored.dtype.name,
            stored.compression,
            lazy.digest(parts),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            self.stored,
            self.name,
            self.labels,
            self._times,
            self.time_attrs,
            self.block,
            self.owner,
        )

    def __copy__(self) -> Trajectory:
        return self  # read-only, and a copy would not keep `owner`

    def __deepcopy__(self, memo: dict[int, Any]) -> Trajectory:
        return self

    @property
    def state(self) -> str:
        """``"on disk"``, or what is wrong with a buffer; no data is read."""
        return self.stored.state

    @property
    def _buffers(self) -> str:
        buffers = len({segment.path for segment in self.segments})
        return f"{buffers} buffer{'s' * (buffers != 1)}"

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        dims = f"dims={self.labels.dims}, " if self.labels.dims else ""
        codec = "" if self.compression is None else f", {self.compression}"
        state = self.state
        wrong = "" if state in (ON_DISK, REMOTE) else f", {state}"
        return (
            f"Trajectory({name}shape={self.shape}, {dims}dtype={self.dtype.name}, "
            f"{size_text(self.nbytes)}, {self._buffers} in {os.fspath(self.directory)!r}"
            f"{codec}{wrong})"
        )

    def _repr_html_(self) -> str:
        sizes = sizes_text(self.labels.dims, self.shape)
        facts = [
            ("snapshots", str(len(self))),
            ("shape", sizes),
            ("dtype", self.dtype.name),
            (
                "size",
                f"{size_text(self.nbytes)}, {size_text(self.stored.snapshot_bytes)} a snapshot",
            ),
            ("buffers", self._buffers),
            ("folder", os.fspath(self.directory)),
        ]
        if self.compression is not None:
            facts.append(("compression", self.compression))
        if self._times is not None:
            unit = self.time_attrs.get("units", "")
            facts.append(("times", f"one a snapshot {f'[{unit}]' if unit else ''}".strip()))
        coords = [
            (name, sizes_text(dims, values.shape), values.dtype.name, str(attrs.get("units", "")))
            for name, (dims, values, attrs) in self.labels.coords.items()
        ]
        attrs = [(key, str(value)) for key, value in self.labels.attrs.items()]
        named = f"{self.name} " if self.name else ""
        return facts_html(
            "Trajectory",
            f"{named}{sizes} {self.dtype.name} {size_text(self.nbytes)}",
            facts,
            [
                Section("Coordinates", ("name", "dims", "dtype", "units"), coords, folded=True),
                Section("Attributes", ("name", "value"), attrs, folded=True),
            ],
            state=self.state,
        )


def fold(path: str, members: list[BinrefArray], nbytes: int) -> list[Segment]:
    """Return references into one buffer as few segments."""
    count = len(members)
    offsets = np.fromiter((m.offset for m in members), dtype=np.int64, count=count)
    if members[0].compressed_size is not None:
        sizes = np.fromiter((m.compressed_size for m in members), dtype=np.int64, count=count)
        return [Segment(path, 0, count, 0, offsets, sizes)]
    return fold_offsets(path, offsets, nbytes)


def fold_offsets(path: str, offsets: NDArray[np.int64], nbytes: int) -> list[Segment]:
    """Return uncompressed snapshots of `nbytes` at `offsets` as few segments."""
    count = len(offsets)
    if count == 1:
        return [Segment(path, int(offsets[0]), 1, nbytes)]
    steps = np.diff(offsets)
    turns = np.flatnonzero(np.diff(steps)) + 1
    if not len(turns):
        return [Segment(path, int(offsets[0]), count, int(steps[0]))]
    if len(turns) > count // 8:
        # Scattered: a column of offsets is smaller than a segment for each pair.
        return [Segment(path, 0, count, 0, offsets)]
    segments: list[Segment] = []
    start = 0
    for turn in [*turns.tolist(), count - 1]:
        if turn < start:
            continue  # the gap between two runs is no run of its own
        stop = turn + 1
        stride = int(steps[start]) if stop - start > 1 else nbytes
        segments.append(Segment(path, int(offsets[start]), stop - start, stride))
        start = stop
    return segments


def _layout_of(ref: BinrefArray) -> Layout:
    return ref.layout


def _kind(layout: Layout) -> tuple[Any, ...]:
    return layout.directory, layout.shape, layout.dtype, layout.compression


def _rebuild(
    stored: Stored,
    name: str | None,
    labels: Labels,
    times: Stored | None,
    time_attrs: dict[str, Any],
    block: Block | None,
    owner: object,
) -> Trajectory:
    return Trajectory(
        stored,
        name=name,
        labels=labels,
        times=times,
        time_attrs=time_attrs,
        block=block,
        owner=owner,
    )
