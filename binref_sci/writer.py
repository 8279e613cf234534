"""`BinrefWriter`: stream snapshots to buffers, get references back.

What is promised, and by which means:

- ``write`` returns after the bytes are handed to the system: one ``pwrite`` of the
  snapshot, one of its time. Then, and only then, one assignment makes it count. A write
  that fails or is interrupted before changes nothing, and the next one overwrites it.
- a reader learns the number of snapshots from the sizes of the files (see `journal`),
  so that a killed solver loses nothing it had been given a reference for.
- no two writers share a buffer: names are random, files are created exclusively. A
  forked child finds its inherited writers empty and starts buffers of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import errno
import fcntl
import os
import re
import struct
import threading
import time
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from binref_sci.array import BinrefArray, Layout
from binref_sci.call import output_path as running_output_path
from binref_sci.call import running_call
from binref_sci.codec import compress
from binref_sci.dtypes import DTYPES, checked_count, to_stored
from binref_sci.errors import BufferNotFoundError, JournalError, WriterError
from binref_sci.journal import (
    RECORD,
    RECORD_BYTES,
    SUFFIX,
    Header,
    Journal,
    SegmentLine,
    TimeBuffer,
    block_of,
    count_line,
    end_line,
    read_journal,
    run_id_of,
)
from binref_sci.labels import Labels
from binref_sci.progress import ProgressBar
from binref_sci.reference import checked_compression
from binref_sci.storage import create_buffer, sync_directory, write_at
from binref_sci.trajectory import Trajectory

DEFAULT_MAX_FILE_SIZE = 1024**3
"""Bytes after which a writer begins another buffer."""

_WATCH_SECONDS = 0.002
_WATCH_BYTES = 64 * 1024
"""How often a writer makes sure that its buffer still has a name: at each snapshot of
64 KiB or more, otherwise every 2 ms. ``fstat`` costs as much as writing 2 KiB does."""

_TIME_UNITS = "nanoseconds since 1970-01-01"

_NO_DTYPE: Any = object()  # what no array's dtype is: sends every write the long way

_pwrite = os.pwrite
_monotonic = time.monotonic
_new = object.__new__
_ndarray = np.ndarray
_pack = struct.Struct("<d").pack
_FAR = 2**63


class BinrefWriter:
    """Append snapshots to buffers; each write returns a reference.

    With a name it holds one variable: every snapshot has the shape and dtype of the
    first. Without, arrays of any shape are packed one after another. Safe from many
    threads, across forks, and to be killed at any time. A context manager; also closed
    at the end of the running call, and by the garbage collector.

    Parameters
    ----------
    name
        Of the variable.
    dims
        Name of each axis of the trajectory, the one along the snapshots first.
    coords
        Coordinates by name, as in `Labels`. For the axis along the snapshots give
        attributes alone, ``{"time": {"units": "s"}}``: its values come with each write.
    attrs
        Attributes of the variable: ``{"units": "K"}``.
    total
        Number of snapshots to come; shows progress and helps who follows the run.
    output_path
        Directory to write into; default: the running call's. Made if it is missing.
    max_file_size
        Bytes after which another buffer begins; None never rotates. No snapshot lies
        in two buffers.
    compression
        ``"lz4"``, one frame a snapshot, or None.
    durability
        ``"process"``: a crash of the process loses nothing that was returned.
        ``"power"``: neither does a loss of power; each write waits for the disk.
    mode
        ``"w"`` begins a new trajectory beside what is there; ``"a"`` goes on with the
        newest one of this name, after its last complete snapshot.
    block, shape
        Slices of the part of the field that this writer streams, and the shape of the
        whole field: one writer a rank or worker of a parallel solver.
    run_id
        Name of the run outside a call; ranks of one parallel run give the same.

    Raises
    ------
    NoOutputPathError
        If there is no running call and no `output_path`.
    WriterError
        If the arguments do not go together.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with BinrefWriter("heat", dims=("time", "x"), output_path=folder.name) as writer:
    ...     for step in range(3):
    ...         ref = writer.write(np.full(4, step, "f8"), time=0.5 * step)
    >>> ref[:2]
    array([2., 2.])
    >>> writer.trajectory().times
    array([0. , 0.5, 1. ])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        dims: tuple[str, ...] | list[str] | None = None,
        coords: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        total: int | None = None,
        output_path: str | os.PathLike[str] | None = None,
        max_file_size: int | None = DEFAULT_MAX_FILE_SIZE,
        compression: str | None = None,
        durability: Literal["process", "power"] = "process",
        mode: Literal["w", "a"] = "w",
        block: tuple[slice, ...] | None = None,
        shape: tuple[int, ...] | None = None,
        run_id: str | None = None,
    ) -> None:
        self._closed = True  # until it is made: __del__ may come earlier
        if name is not None and (not isinstance(name, str) or not name):
            raise WriterError(f"name must be a non-empty string or None, got {name!r}")
        if durability not in ("process", "power"):
            raise WriterError(f"durability must be 'process' or 'power', got {durability!r}")
        if mode not in ("w", "a"):
            raise WriterError(f"mode must be 'w' or 'a', got {mode!r}")
        if mode == "a" and name is None:
            raise WriterError("mode='a' needs the name of the variable to go on with")
        if max_file_size is not None and checked_count(max_file_size, "max_file_size") < 1:
            raise WriterError("max_file_size must be at least 1 byte, or None")
        self.name = name
        self.total = None if total is None else checked_count(total, "total")
        self._max_file_size = max_file_size
        self._compression = checked_compression(compression)
        self._sync = durability == "power"
        self._block = block_of(block, shape)
        self._labels, self._time_attrs = _labels(dims, coords, attrs)
        call = running_call()
        if output_path is None:
            self.directory = os.fspath(running_output_path())
        else:
            self.directory = os.path.abspath(output_path)
            os.makedirs(self.directory, exist_ok=True)
        if run_id is None:
            inside = call is not None and os.fspath(call.run_directory) == self.directory
            run_id = (
                call.run_id
                if call is not None and inside
                else _runs.join(self.directory, name, self._block)
            )
        self._run_id = run_id
        self._forked_from: str | None = None
        self._lock = threading.Lock()
        self._progress = ProgressBar(name or "snapshots", self.total) if self.total else None
        self._reset()
        self._closed = False
        if mode == "a":
            self._reopen()
        _living.add(self)
        if call is not None:
            call.resources.append(self)

    def _reset(self) -> None:
        """Forget all files: what a new writer, and a forked child's, knows."""
        self._id = uuid.uuid4().hex[:12]
        self._journal_fd = -1
        self._journal_end = 0
        self._time_fd = -1
        self._header: Header | None = None
        self._lines: list[SegmentLine] = []
        self._park()
        self._fd = -1
        self._table_fd = -1
        self._tip = (0, 0)  # compressed: end of the last frame, snapshots in all

    def _park(self) -> None:
        """Leave the fast path: the next write takes the long way."""
        self._dtype: Any = _NO_DTYPE

    # What the fast path uses. `_next` alone says how much of an uncompressed segment
    # counts: a single assignment, so that no interrupt can come between two.
    _shape: tuple[int, ...] = ()
    _nbytes = 0
    _first = 0  # offset of the segment
    _next = 0  # offset of the snapshot to come
    _last = -1  # offsets up to here have room in this buffer
    _time_type: type = type(None)
    _time_base = 0  # place of the time of the segment's first snapshot
    _watch_at = 0.0
    _layout: Layout

    def write(self, array: ArrayLike, *, time: Any = None) -> BinrefArray:
        """Append a snapshot; returns when its bytes are handed to the system.

        Parameters
        ----------
        array
            The snapshot; converted to little-endian, C order, and copied.
        time
            Its time: a number, or a date and time. Given always or never.

        Raises
        ------
        UnsupportedDTypeError
            Before a byte is written.
        WriterError
            If a named writer gets another shape or dtype, if times come and go, or if
            the writer is closed.
        OSError
            As the system reports it. Nothing counts, and later writes are right.
        """
        with self._lock:
            if (
                type(array) is _ndarray
                and array.dtype is self._dtype
                and array.shape == self._shape
                and type(time) is self._time_type
                and self._next <= self._last
                and array.flags.c_contiguous
            ):
                if _monotonic() >= self._watch_at:
                    self._watch()
                offset = self._next
                nbytes = self._nbytes
                done = _pwrite(self._fd, array, offset)
                if done != nbytes:
                    write_at(self._fd, array.reshape(-1).view(np.uint8)[done:], offset + done)
                if time is not None:
                    place = self._time_base + (offset - self._first) // nbytes * 8
                    write_at(self._time_fd, _pack(time), place)
                self._next = offset + nbytes
                ref = _new(BinrefArray)
                ref.layout = self._layout
                ref.offset = offset
                ref.compressed_size = None
                return ref
            return self._write(array, time)

    def _write(self, array: ArrayLike, time_: Any) -> BinrefArray:
        if self._closed:
            raise WriterError(f"the writer of {self._what} is closed")
        data = to_stored(array)
        dtype = DTYPES[data.dtype.name]
        if self._lines:
            self._check_snapshot(data, time_)
        elif self._block is not None and data.shape != self._block.extent:
            raise WriterError(
                f"{self._what}: the block has shape {self._block.extent}, the array {data.shape}"
            )
        stamp = None if time_ is None else self._stamp(time_)
        stored = data if self._compression is None else compress(data)
        size = stored.nbytes if isinstance(stored, np.ndarray) else len(stored)
        if self._header is None:
            self._begin(stamp)
        if size >= _WATCH_BYTES or _monotonic() >= self._watch_at:
            self._watch()
        if not self._fits(data.shape, dtype, size):
            self._begin_segment(data.shape, dtype, size)
        # From here on the segment is open, and nothing counts before the last line.
        count = self._count
        offset = self._position
        write_at(self._fd, stored, offset)
        if self._compression is not None:
            record = np.array([offset, size], dtype=RECORD)
            place = count - self._lines[-1].start + self._lines[-1].first_record
            write_at(self._table_fd, record, place * RECORD_BYTES)
        if stamp is not None:
            write_at(self._time_fd, stamp, count * stamp.itemsize)
        if self._sync:
            for fd in (self._fd, self._table_fd, self._time_fd):
                if fd >= 0:
                    os.fdatasync(fd)
        if self._compression is not None:
            self._tip = (offset + size, count + 1)
        elif size:
            self._next = offset + size
        else:
            self._append_line(count_line(count + 1))
            self._tip = (offset, count + 1)
        if self._progress is not None:
            self._progress.update(count + 1)
        compressed_size = None if self._compression is None else size
        return BinrefArray.at(self._layout, offset, compressed_size)

    @property
    def _count(self) -> int:
        """Snapshots that count, in all segments."""
        if self._compression is not None or not self._nbytes:
            return self._tip[1]
        if not self._lines:
            return 0
        return self._lines[-1].start + (self._next - self._first) // self._nbytes

    @property
    def _position(self) -> int:
        """Offset of the next byte in the buffer."""
        return self._tip[0] if self._compression is not None else self._next

    @property
    def _what(self) -> str:
        return repr(self.name) if self.name else "unnamed snapshots"

    def _check_snapshot(self, data: NDArray[Any], time_: Any) -> None:
        """Refuse what does not go with the snapshots before."""
        first = self._lines[0]
        if self.name is not None and (data.shape, data.dtype) != (first.shape, first.dtype):
            raise WriterError(
                f"snapshot has shape {data.shape} and dtype {data.dtype.name}, but "
                f"{self.name!r} holds snapshots of shape {first.shape} and dtype "
                f"{first.dtype.name}; use another writer, or one without a name"
            )
        assert self._header is not None  # comes before any segment
        if (time_ is not None) != (self._header.time is not None):
            given = "has a time, but the ones before have none"
            missing = "has no time, but the ones before have one"
            raise WriterError(
                f"{self._what}: snapshot {self._count} {missing if time_ is None else given}; "
                "give time= always or never"
            )

    def _stamp(self, value: Any) -> NDArray[Any]:
        """Return a time as the number that is stored."""
        if isinstance(value, datetime.datetime | np.datetime64):
            if isinstance(value, datetime.datetime) and value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            number = np.asarray(np.datetime64(value, "ns")).astype("<i8")
        else:
            found = np.asarray(value)
            if found.ndim or found.dtype.kind not in "iuf":
                raise WriterError(f"time must be a number or a date and time, got {value!r}")
            number = found.astype("<f8")
        known = self._header.time if self._header is not None else None
        if known is not None and known.dtype != number.dtype:
            raise WriterError(
                f"{self._what}: time {value!r} is not of the kind of the times before; "
                "give numbers only, or dates only"
            )
        return number

    def _fits(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> bool:
        """Tell whether a snapshot of `size` stored bytes goes on with the segment."""
        if self._fd < 0 or not self._lines:
            return False
        line = self._lines[-1]
        position = self._position
        limit = self._max_file_size
        return (
            line.shape == shape
            and line.dtype == dtype
            and (limit is None or position + size <= limit)
        )

    def _begin(self, stamp: NDArray[Any] | None) -> None:
        """Create the journal, locked before it can be seen."""
        time_buffer, time_fd = None, -1
        made: list[str] = []
        journal_fd = -1
        try:
            if stamp is not None:
                buffer, time_fd = create_buffer(self.directory)
                made.append(buffer)
                attrs = dict(self._time_attrs)
                if stamp.dtype.kind == "i":
                    attrs |= {"units": _TIME_UNITS, "calendar": "proleptic_gregorian"}
                time_buffer = TimeBuffer(buffer, DTYPES[stamp.dtype.name], attrs)
            header = Header(
                run=self._run_id,
                id=self._id,
                created_ns=time.time_ns(),
                name=self.name,
                labels=self._labels,
                total=self.total,
                compression=self._compression,
                time=time_buffer,
                block=self._block,
                forked_from=self._forked_from,
            )
            line = header.to_line(self.directory)
            journal_fd = self._publish(line)
        except BaseException:
            for fd in (time_fd, journal_fd):
                if fd >= 0:
                    os.close(fd)
            for buffer in made:
                self._remove(buffer)
            raise
        self._journal_fd, self._journal_end = journal_fd, len(line)
        self._time_fd = time_fd
        self._header = header

    @property
    def journal_path(self) -> str:
        """Absolute path of the journal; it exists from the first write on."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.name or "").strip("-")[:48] or "snapshots"
        return os.path.join(self.directory, f"{slug}-{self._id}{SUFFIX}")

    def _publish(self, content: bytes) -> int:
        """Put a journal in place of the old one, if any; return its locked descriptor."""
        path = self.journal_path
        partial = f"{path}.partial"
        fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            write_at(fd, content, 0)
            if self._sync:
                os.fsync(fd)
            os.replace(partial, path)
            if self._sync:
                sync_directory(self.directory)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
        return fd

    def _append_line(self, line: bytes) -> None:
        try:
            write_at(self._journal_fd, line, self._journal_end)
            if self._sync:
                os.fdatasync(self._journal_fd)
        except BaseException:
            # A torn line would be glued to the next one.
            with contextlib.suppress(OSError):
                os.ftruncate(self._journal_fd, self._journal_end)
            raise
        self._journal_end += len(line)

    def _begin_segment(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
        """Open a segment: in the same buffer if its first `size` bytes have room there."""
        count = self._count
        position = self._position
        limit = self._max_file_size
        created: list[tuple[str, int]] = []
        try:
            if self._fd >= 0 and (limit is None or position + size <= limit):
                before = self._lines[-1]
                record = before.first_record + count - before.start
                line = replace(
                    before,
                    start=count,
                    offset=position,
                    shape=shape,
                    dtype=dtype,
                    first_record=record if before.table else 0,
                )
            else:
                created.append(create_buffer(self.directory))
                if self._compression is not None:
                    created.append(create_buffer(self.directory))
                if self._sync:
                    sync_directory(self.directory)
                table = created[1][0] if self._compression is not None else None
                line = SegmentLine(count, created[0][0], 0, shape, dtype, table)
            self._append_line(line.to_line())
        except BaseException:
            for name, fd in created:
                os.close(fd)
                self._remove(name)
            raise
        if created:
            self._close_buffers()
            self._fd = created[0][1]
            self._table_fd = created[1][1] if line.table is not None else -1
        self._lines.append(line)
        self._enter(line)

    def _enter(self, line: SegmentLine) -> None:
        """Set what `write` uses, for the segment of `line`."""
        self._layout = Layout(
            self.directory, line.buffer, line.shape, line.dtype, self._compression
        )
        self._shape, self._nbytes = line.shape, line.nbytes
        self._first = self._next = line.offset
        self._tip = (line.offset, line.start)
        limit = self._max_file_size
        self._last = _FAR if limit is None else limit - self._nbytes
        assert self._header is not None  # comes before any segment
        times = self._header.time
        self._time_type = float if times is not None else type(None)
        self._time_base = line.start * 8
        plain = self._compression is None and not self._sync and self._progress is None
        dated = times is not None and times.dtype.kind == "i"
        self._dtype = line.dtype if plain and self._nbytes and not dated else _NO_DTYPE
        if self._nbytes >= _WATCH_BYTES:
            self._watch_at = 0.0

    def _watch(self) -> None:
        """Notice a buffer whose directory was removed: writes to it go nowhere."""
        large = self._nbytes >= _WATCH_BYTES
        self._watch_at = 0.0 if large else _monotonic() + _WATCH_SECONDS
        if self._fd >= 0 and not os.fstat(self._fd).st_nlink:
            lost, buffer = self._count, self._lines[-1].buffer
            self._close_files()
            self._reset()
            raise BufferNotFoundError(
                errno.ENOENT,
                f"buffer {buffer!r} of {self._what} was removed while it was written; {lost} "
                "snapshots are gone, the next write begins anew",
                self.directory,
            )

    def trajectory(self) -> Trajectory:
        """Return what has been written so far, as a lazy trajectory.

        Raises
        ------
        WriterError
            If nothing has been written, or the snapshots differ in shape or dtype.
        """
        with self._lock:
            journal = self._pinned()
        try:
            return Trajectory.from_journal(journal)
        except JournalError as error:
            raise WriterError(f"no trajectory of {self._what}: {error}") from error

    def _pinned(self) -> Journal:
        if self._header is None or not self._lines:
            raise WriterError(f"no snapshot of {self._what} has been written yet")
        starts = [line.start for line in self._lines]
        counts = tuple(b - a for a, b in zip(starts, [*starts[1:], self._count], strict=True))
        return Journal(Path(self.journal_path), self._header, tuple(self._lines), counts, "writing")

    def stack(self) -> BinrefArray:
        """Return what has been written as one array of shape ``(n, *snapshot)``.

        Raises
        ------
        WriterError
            If it is not one byte range: several buffers, shapes or frames.
        """
        with self._lock:
            journal = self._pinned()
            if self._compression is not None or len(journal.segments) > 1:
                found = (
                    "each is compressed on its own"
                    if self._compression
                    else (f"they lie in {len(journal.segments)} segments")
                )
                raise WriterError(
                    f"cannot stack {journal.count} snapshots of {self._what} into one byte range: "
                    f"{found}; use trajectory(), or max_file_size=None without compression"
                )
            if self._block is not None:
                raise WriterError(
                    f"{self._what} is one block of a field of shape {self._block.shape}; open the "
                    "run directory, which lays the blocks side by side"
                )
            line = journal.segments[0]
            layout = replace(self._layout, shape=(journal.count, *line.shape))
            return BinrefArray.at(layout, line.offset)

    def close(self) -> None:
        """Write the final count and let go of all files; again is harmless."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._park()
            _living.discard(self)
            try:
                if self._progress is not None:
                    self._progress.close(self._count)
                if self._header is not None:
                    self._finish()
            finally:
                self._close_files()

    def _finish(self) -> None:
        """Cut torn tails, then publish the journal with its last line by a rename."""
        count = self._count
        self._watch()
        if self._fd >= 0:
            os.ftruncate(self._fd, self._position)
            if self._table_fd >= 0:
                line = self._lines[-1]
                os.ftruncate(
                    self._table_fd, (line.first_record + count - line.start) * RECORD_BYTES
                )
        if self._time_fd >= 0:
            os.ftruncate(self._time_fd, count * 8)
        if self._sync:
            for fd in (self._fd, self._table_fd, self._time_fd):
                if fd >= 0:
                    os.fsync(fd)
        content = os.pread(self._journal_fd, self._journal_end, 0) + end_line(count)
        os.close(self._publish(content))

    def _close_buffers(self) -> None:
        for fd in (self._fd, self._table_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._table_fd = -1

    def _close_files(self) -> None:
        self._close_buffers()
        for fd in (self._time_fd, self._journal_fd):
            if fd >= 0:
                os.close(fd)
        self._time_fd = self._journal_fd = -1

    def _remove(self, name: str) -> None:
        """Remove a file of a step that failed; the failure is what is reported."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.directory, name))

    def _reopen(self) -> None:
        """Go on with the newest journal of this name, after its last complete snapshot."""
        journal = _newest(self.directory, self.name, self._block)
        if journal is None:
            return
        if journal.state == "writing":
            raise WriterError(
                f"{self._what} in {self.directory!r} is being written by a living writer; "
                "mode='a' goes on with a trajectory that has ended"
            )
        header = journal.header
        if header.compression != self._compression:
            raise WriterError(
                f"{self._what} in {self.directory!r} has compression {header.compression!r}, "
                f"not {self._compression!r}; mode='a' cannot change it"
            )
        self._id = header.id
        self._lines = list(journal.segments)
        total = self.total if self.total is not None else header.total
        self._header = replace(
            header, run=self._run_id, created_ns=time.time_ns(), total=total, labels=header.labels
        )
        content = self._header.to_line(self.directory)
        content += b"".join(line.to_line() for line in self._lines)
        if self._lines and not self._lines[-1].nbytes:
            content += count_line(journal.count)
        self._journal_fd, self._journal_end = self._publish(content), len(content)
        if header.time is not None:
            path = os.path.join(self.directory, header.time.buffer)
            self._time_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            os.ftruncate(self._time_fd, journal.count * header.time.dtype.itemsize)
        if self._lines:
            # The next write begins a segment of its own; until then, only the count matters.
            self._nbytes = 0
            self._tip = (0, journal.count)

    def _forget(self) -> None:
        """In a forked child: the files are the parent's; begin anew at the next write."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._forked_from = self._forked_from or self._id
        self._progress = None
        self._close_files()
        self._reset()

    def __enter__(self) -> BinrefWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            # A finalizer cannot raise; the journal then says "interrupted", which is true.
            with contextlib.suppress(OSError):
                self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a BinrefWriter cannot be sent to another process; make one there, with "
            f"output_path={self.directory!r}"
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return (
            f"BinrefWriter({self.name!r}, {self._count} snapshots, {state}, in {self.directory!r})"
        )


class _Runs:
    """Which writers made outside a call belong together.

    Those of one directory do, as long as their names differ: a name that comes again
    is a rerun, and begins the next run. Blocks of one name are one variable.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, set[tuple[str | None, Any]]]] = {}

    def join(self, directory: str, name: str | None, block: Any) -> str:
        """Return the run id for a new writer."""
        running = run_id_of(directory)
        if running is not None:
            return running
        with self._lock:
            run, members = self._known.get(directory, ("", set()))
            if not run or (name is not None and (name, block) in members):
                run, members = uuid.uuid4().hex, set()
                self._known[directory] = (run, members)
            members.add((name, block))
            return run


_runs = _Runs()
_living: weakref.WeakSet[BinrefWriter] = weakref.WeakSet()


def _forget_all() -> None:
    for writer in list(_living):
        writer._forget()


def _close_all() -> None:
    for writer in list(_living):
        with contextlib.suppress(OSError):
            writer.close()


os.register_at_fork(after_in_child=_forget_all)
# While the interpreter is still whole: later, `__del__` might find modules gone.
atexit.register(_close_all)


def _labels(
    dims: tuple[str, ...] | list[str] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any] | None,
) -> tuple[Labels, dict[str, Any]]:
    """Return the labels, and the attributes of the times apart from them."""
    given = dict(coords or {})
    along = dims[0] if dims else "time"
    time_attrs: dict[str, Any] = {}
    if isinstance(given.get(along), Mapping):
        time_attrs = dict(given.pop(along))
    wrong = [key for key, value in given.items() if isinstance(value, Mapping)]
    if wrong:
        raise WriterError(
            f"coordinate {wrong[0]!r} has attributes but no values; only {along!r}, whose values "
            "come with each write, may"
        )
    try:
        return Labels(dims, given, **dict(attrs or {})), time_attrs
    except ValueError as error:
        raise WriterError(str(error)) from error


def _newest(directory: str, name: str | None, block: Any) -> Journal | None:
    """Return the newest journal of a variable."""
    found = [
        journal
        for path in Path(directory).glob(f"*{SUFFIX}")
        if (journal := read_journal(path)).header.name == name and journal.header.block == block
    ]
    return max(found, key=lambda journal: journal.header.created_ns, default=None)
