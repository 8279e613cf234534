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
import errno
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
from binref_sci.call import Closeable, running_call
from binref_sci.call import output_path as running_output_path
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
    hold,
    read_journal,
    take_lock,
)
from binref_sci.labels import checked_text
from binref_sci.progress import ProgressBar
from binref_sci.reference import checked_compression
from binref_sci.storage import confine, create_buffer, made_folder, sync_directory, write_at
from binref_sci.trajectory import Trajectory
from binref_sci.writer.checks import (
    check_block,
    check_fit,
    check_order,
    check_same,
    check_timed,
    checked_labels,
)
from binref_sci.writer.runs import known_runs
from binref_sci.writer.stamps import TIME_UNITS, stamp_of
from binref_sci.writer.tail import NO_DTYPE, Files, Tail

DEFAULT_MAX_FILE_SIZE = 1024**3
"""Bytes after which a writer begins another buffer."""

_WATCH_SECONDS = 0.002
_WATCH_BYTES = 64 * 1024
"""How often a writer makes sure that its buffer still has a name: at each snapshot of
64 KiB or more, otherwise every 2 ms. ``fstat`` costs as much as writing 2 KiB does."""

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

    _closed = True  # until it is made: __del__ may come earlier

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
        if name is not None and (not isinstance(name, str) or not name):
            raise WriterError(f"name must be a non-empty string or None, got {name!r}")
        if run_id is not None and (not isinstance(run_id, str) or not run_id):
            raise WriterError(f"run_id must be a non-empty string or None, got {run_id!r}")
        try:
            for text, what in ((name, "name"), (run_id, "run_id")):
                checked_text(text or "", what)
        except ValueError as error:
            raise WriterError(str(error)) from None
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
        self._labels, self._time_attrs = checked_labels(dims, coords, attrs)
        call = running_call()
        if output_path is None:
            self.directory = os.fspath(running_output_path())
        else:
            self.directory = made_folder(output_path)
        if run_id is None and call is not None:
            inside = os.path.abspath(call.run_directory) == self.directory
            run_id = call.run_id if inside else None
        self._run_id = run_id or ""
        self._forked_from: str | None = None
        self._lock = threading.Lock()
        self._progress = ProgressBar(name or "snapshots", self.total) if self.total else None
        self._resources: list[Closeable] = [] if call is None else call.resources
        self._reset()
        if mode == "a":
            self._reopen()
        self._run_id = self._run_id or known_runs.join(self.directory, name, self._block)
        self._closed = False
        _living.add(self)
        self._resources.append(self)

    def _reset(self) -> None:
        """Forget all files: what a new writer, and a forked child's, knows."""
        self._id = uuid.uuid4().hex[:12]
        self._journal_name: str | None = None
        self._files: Files | None = None
        self._lines: list[SegmentLine] = []
        self._tail = Tail((0, 0, 0))
        self._watch_at = 0.0

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
            tail = self._tail
            try:
                if (
                    type(array) is _ndarray
                    and array.dtype is tail.dtype
                    and array.shape == tail.shape
                    and type(time) is tail.time_type
                    and tail.next <= tail.last
                    and array.flags.c_contiguous
                ):
                    if _monotonic() >= self._watch_at:
                        self._watch()
                    offset = tail.next
                    nbytes = tail.nbytes
                    done = _pwrite(tail.fd, array, offset)
                    if done != nbytes:
                        write_at(tail.fd, array.reshape(-1).view(np.uint8)[done:], offset + done)
                    if time is not None:
                        place = tail.time_base + (offset - tail.first) // nbytes * 8
                        write_at(tail.time_fd, _pack(time), place)
                    ref = _new(BinrefArray)
                    ref.layout = tail.layout
                    ref.offset = offset
                    ref.compressed_size = None
                    tail.next = offset + nbytes
                    return ref
                return self._write(array, time)
            except BaseException:
                # A reader goes by the sizes of the files: what failed must not seem to count.
                for fd, size in self._extents():
                    with contextlib.suppress(OSError):
                        os.ftruncate(fd, size)
                raise

    def _write(self, array: ArrayLike, time_: Any) -> BinrefArray:
        if self._closed:
            raise WriterError(f"the writer of {self._what} is closed")
        data = to_stored(array)
        dtype = DTYPES[data.dtype.name]
        self._check_snapshot(data, timed=time_ is not None)
        known = None if self._files is None else self._files.header.time
        stamp = None
        if time_ is not None:
            stamp = stamp_of(time_, self._what, None if known is None else known.dtype)
        stored = data if self._compression is None else compress(data)
        size = stored.nbytes if isinstance(stored, np.ndarray) else len(stored)
        if self._files is None:
            self._begin(stamp)
        if size >= _WATCH_BYTES or _monotonic() >= self._watch_at:
            self._watch()
        if not self._fits(data.shape, dtype, size):
            self._begin_segment(data.shape, dtype, size)
        # From here on the segment is open, and nothing counts before the last assignment.
        tail = self._tail
        count, offset, journal_end = tail.count, tail.position, tail.done[2]
        write_at(tail.fd, stored, offset)
        if self._compression is not None:
            record = np.array([offset, size], dtype=RECORD)
            write_at(tail.table_fd, record, self._lines[tail.lines - 1].record(count))
        elif not size:
            journal_end = self._append_line(count_line(count + 1), journal_end)
        if stamp is not None:
            write_at(tail.time_fd, stamp, count * stamp.itemsize)
        if self._sync:
            for fd in (tail.fd, tail.table_fd, tail.time_fd):
                if fd >= 0:
                    os.fdatasync(fd)
        if self._progress is not None:
            self._progress.update(count + 1)
        ref = BinrefArray.at(tail.layout, offset, None if self._compression is None else size)
        if tail.nbytes:
            tail.next = offset + size
        else:
            tail.done = (offset + size, count + 1, journal_end)
        return ref

    @property
    def _what(self) -> str:
        return repr(self.name) if self.name else "unnamed snapshots"

    def _check_snapshot(self, data: NDArray[Any], *, timed: bool) -> None:
        """Refuse what does not go with the labels, the block or the snapshots before."""
        count = self._tail.count
        check_block(self._what, self._block, data.shape)
        if self.name is not None and not count:
            check_fit(self._what, self._labels, self._block, data.shape)
            if timed:
                check_order(self._what, self._labels)
        elif self.name is not None:
            check_same(self.name, self._lines[self._tail.lines - 1], data)
        if self._files is not None:
            before = self._files.header.time is not None
            check_timed(self._what, count, timed=timed, before=before)

    def _fits(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> bool:
        """Tell whether a snapshot of `size` stored bytes goes on with the segment."""
        tail = self._tail
        if tail.fd < 0:
            return False
        line = self._lines[tail.lines - 1]
        return (line.shape, line.dtype) == (shape, dtype) and self._has_room(size)

    def _has_room(self, size: int) -> bool:
        limit = self._max_file_size
        return limit is None or self._tail.position + size <= limit

    def _begin(self, stamp: NDArray[Any] | None) -> None:
        """Create the journal, locked before it can be seen."""
        made: list[str] = []
        time_buffer, time_fd, journal_fd = None, -1, -1
        try:
            if stamp is not None:
                buffer, time_fd = create_buffer(self.directory)
                made.append(buffer)
                attrs = dict(self._time_attrs)
                if stamp.dtype.kind == "i":
                    attrs |= {"units": TIME_UNITS, "calendar": "proleptic_gregorian"}
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
            line = header.to_line(self.directory, made)
            made.append(os.path.basename(self.journal_path))
            journal_fd = self._publish(line)
            tail, files = Tail((0, 0, len(line))), Files(header, journal_fd, time_fd)
            self._tail, self._files = tail, files
        except BaseException:
            for fd in (time_fd, journal_fd):
                if fd >= 0:
                    os.close(fd)
            for buffer in made:
                self._remove(buffer)
            raise

    @property
    def journal_path(self) -> str:
        """Absolute path of the journal; it exists from the first write on."""
        if self._journal_name is None:
            slug = re.sub(r"[^A-Za-z0-9]+", "-", self.name or "").strip("-")[:48] or "snapshots"
            self._journal_name = f"{slug}-{self._id}{SUFFIX}"
        return os.path.join(self.directory, self._journal_name)

    def _publish(self, content: bytes) -> int:
        """Put a journal in place of the old one, if any; return its locked descriptor."""
        path = self.journal_path
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            take_lock(fd)
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

    def _append_line(self, line: bytes, end: int) -> int:
        """Write a line where the journal ends; return where it ends then."""
        assert self._files is not None  # the journal comes before all else
        fd = self._files.journal_fd
        write_at(fd, line, end)
        if self._sync:
            os.fdatasync(fd)
        return end + len(line)

    def _begin_segment(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
        """Open a segment: in the same buffer if its first `size` bytes have room there."""
        old = self._tail
        count = old.count
        del self._lines[old.lines :]  # of an attempt that failed
        created: list[tuple[str, int]] = []
        try:
            if old.fd >= 0 and self._has_room(size):
                before = self._lines[-1]
                record = before.record(count) // RECORD_BYTES if before.table else 0
                line = SegmentLine(
                    count, before.buffer, old.position, shape, dtype, before.table, record
                )
                fds = old.fd, old.table_fd
            else:
                created.append(create_buffer(self.directory))
                if self._compression is not None:
                    created.append(create_buffer(self.directory))
                if self._sync:
                    sync_directory(self.directory)
                table = created[1][0] if self._compression is not None else None
                line = SegmentLine(count, created[0][0], 0, shape, dtype, table)
                fds = created[0][1], created[1][1] if table is not None else -1
            end = self._append_line(line.to_line(), old.done[2])
            self._lines.append(line)
            tail = self._tail_of(line, *fds, end)
            self._tail = tail
        except BaseException:
            # First the line, then what it names.
            with contextlib.suppress(OSError):
                os.ftruncate(self._files.journal_fd, old.done[2])  # type: ignore[union-attr]
            for name, fd in created:
                os.close(fd)
                self._remove(name)
            raise
        if created:
            _close_all_of(old.fd, old.table_fd)

    def _tail_of(self, line: SegmentLine, fd: int, table_fd: int, journal_end: int) -> Tail:
        """Return an empty segment, and what `write` needs to know of it."""
        assert self._files is not None  # comes before any segment
        times = self._files.header.time
        tail = Tail((line.offset, line.start, journal_end), len(self._lines))
        tail.fd, tail.table_fd, tail.time_fd = fd, table_fd, self._files.time_fd
        tail.layout = Layout(
            self.directory,
            line.buffer,
            line.shape,
            line.dtype,
            self._compression,
            part_of=None if self._block is None else self._block.shape,
        )
        tail.shape = line.shape
        tail.start, tail.first, tail.next = line.start, line.offset, line.offset
        if self._compression is None:
            tail.nbytes = line.nbytes
        tail.last = _FAR if self._max_file_size is None else self._max_file_size - tail.nbytes
        if times is not None:
            tail.time_type = float
            tail.time_base = line.start * times.dtype.itemsize
        dated = times is not None and times.dtype.kind == "i"
        if tail.nbytes and not (self._sync or self._progress or dated):
            tail.dtype = line.dtype
        if line.nbytes >= _WATCH_BYTES:
            self._watch_at = 0.0
        return tail

    def _extents(self) -> list[tuple[int, int]]:
        """Return the open files, and how many of their bytes count."""
        tail, files = self._tail, self._files
        if files is None:
            return []
        count = tail.count
        made = [(files.journal_fd, tail.done[2]), (tail.fd, tail.position)]
        if tail.table_fd >= 0:
            made.append((tail.table_fd, self._lines[tail.lines - 1].record(count)))
        if files.header.time is not None:
            made.append((files.time_fd, count * files.header.time.dtype.itemsize))
        return [(fd, size) for fd, size in made if fd >= 0]

    def _watch(self) -> None:
        """Notice a buffer whose directory was removed: writes to it go nowhere."""
        tail = self._tail
        large = tail.nbytes >= _WATCH_BYTES
        self._watch_at = 0.0 if large else _monotonic() + _WATCH_SECONDS
        if tail.fd >= 0 and not os.fstat(tail.fd).st_nlink:
            buffer = self._lines[tail.lines - 1].buffer
            self._close_files()
            self._reset()
            raise BufferNotFoundError(
                errno.ENOENT,
                f"buffer {buffer!r} of {self._what} was removed while it was written; "
                f"{tail.count} snapshots are gone, the next write begins anew",
                self.directory,
            )

    def trajectory(self) -> Trajectory:
        """Return what has been written so far, as a lazy trajectory.

        Raises
        ------
        WriterError
            If nothing has been written, or the snapshots differ in shape or dtype.
        """
        journal = self._pinned()
        try:
            return Trajectory.from_journal(journal)
        except JournalError as error:
            raise WriterError(f"no trajectory of {self._what}: {error}") from error

    def _pinned(self) -> Journal:
        with self._lock:
            files, tail = self._files, self._tail
            lines = tuple(self._lines[: tail.lines])
            if files is None or not lines:
                raise WriterError(f"no snapshot of {self._what} has been written yet")
            stops = [*(line.start for line in lines[1:]), tail.count]
            path = Path(self.journal_path)
        counts = tuple(stop - line.start for stop, line in zip(stops, lines, strict=True))
        return Journal(path, files.header, lines, counts, "writing")

    def stack(self) -> BinrefArray:
        """Return what has been written as one array of shape ``(n, *snapshot)``.

        Raises
        ------
        WriterError
            If it is not one byte range: several buffers, shapes or frames.
        """
        journal = self._pinned()
        filled = [
            line for line, count in zip(journal.segments, journal.counts, strict=True) if count
        ] or journal.segments[-1:]
        if self._compression is not None or len(filled) > 1:
            found = (
                "each is compressed on its own"
                if self._compression
                else f"they lie in {len(filled)} segments"
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
        line = filled[0]
        layout = Layout(self.directory, line.buffer, (journal.count, *line.shape), line.dtype)
        return BinrefArray.at(layout, line.offset)

    def close(self) -> None:
        """Write the final count and let go of all files; again is harmless."""
        self._close(whole=True)

    def _close(self, *, whole: bool) -> None:
        """Let go of all files; a journal that is not `whole` stays without its last line."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            tail = self._tail
            tail.dtype = NO_DTYPE  # a write that comes now goes to where it is refused
            _living.discard(self)
            with contextlib.suppress(ValueError):
                self._resources.remove(self)
            try:
                if self._progress is not None:
                    self._progress.close(tail.count)
                if self._files is not None:
                    self._finish(whole=whole)
            finally:
                self._close_files()

    def _finish(self, *, whole: bool) -> None:
        """Cut torn tails, then publish the journal with its last line by a rename."""
        self._watch()
        assert self._files is not None  # the caller looked, and nothing was lost
        for fd, size in self._extents():
            os.ftruncate(fd, size)
            if self._sync:
                os.fsync(fd)
        if whole:
            content = os.pread(self._files.journal_fd, self._tail.done[2], 0)
            os.close(self._publish(content + end_line(self._tail.count)))

    def _close_files(self) -> None:
        tail, files = self._tail, self._files
        fds = [tail.fd, tail.table_fd]
        tail.fd = tail.table_fd = tail.time_fd = -1
        if files is not None:
            fds += [files.time_fd, files.journal_fd]
            self._files = files._replace(time_fd=-1, journal_fd=-1)
        _close_all_of(*fds)

    def _remove(self, name: str) -> None:
        """Remove a file of a step that failed; the failure is what is reported."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.directory, name))

    def _reopen(self) -> None:
        """Go on with the newest journal of this name, after its last complete snapshot."""
        journal = _newest(self.directory, self.name, self._block)
        if journal is None:
            return
        # Held until the new journal stands in its place, so that only one writer goes on.
        held = None if journal.state == "writing" else hold(journal.path)
        if held is None:
            raise WriterError(
                f"{self._what} in {self.directory!r} is being written by a living writer; "
                "mode='a' goes on with a trajectory that has ended"
            )
        try:
            self._go_on(read_journal(journal.path))
        except BaseException:
            self._close_files()
            raise
        finally:
            os.close(held)

    def _go_on(self, journal: Journal) -> None:
        header = journal.header
        if header.compression != self._compression:
            raise WriterError(
                f"{self._what} in {self.directory!r} has compression {header.compression!r}, "
                f"not {self._compression!r}; mode='a' cannot change it"
            )
        self._id, self._journal_name = header.id, journal.path.name
        self._labels = header.labels
        self._lines = list(journal.segments)
        run = self._run_id or known_runs.join(
            self.directory, self.name, self._block, going_on=header.run
        )
        total = header.total if self.total is None else journal.count + self.total
        header = replace(header, run=run, created_ns=time.time_ns(), total=total)
        self._run_id = run
        content = header.to_line(self.directory, [])
        content += b"".join(line.to_line() for line in self._lines)
        if self._lines and not self._lines[-1].nbytes:
            content += count_line(journal.count)
        time_fd = -1
        if header.time is not None:
            self._time_attrs = dict(header.time.attrs)
            path = confine(self.directory, header.time.buffer)
            time_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._files = Files(header, -1, time_fd)
        # The next write begins a segment of its own; until then, only the count matters.
        self._tail = Tail((0, journal.count, len(content)), len(self._lines))
        for fd, size in self._extents():
            os.ftruncate(fd, size)
        self._files = Files(header, self._publish(content), time_fd)

    def _forget(self) -> None:
        """In a forked child: the files are the parent's; begin anew at the next write."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._forked_from = self._forked_from or self._id
        self._progress = None
        self._close_files()
        self._reset()

    def __enter__(self) -> BinrefWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        # What an exception ended is not complete, though all that was written is there.
        self._close(whole=error is None)

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
        count = self._tail.count
        return f"BinrefWriter({self.name!r}, {count} snapshots, {state}, in {self.directory!r})"


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


def _close_all_of(*fds: int) -> None:
    """Close descriptors, all of them even if one fails; -1 is none."""
    with contextlib.ExitStack() as stack:
        for fd in fds:
            if fd >= 0:
                stack.callback(os.close, fd)


def _newest(directory: str, name: str | None, block: Any) -> Journal | None:
    """Return the newest journal of a variable."""
    found = [
        journal
        for path in Path(directory).glob(f"*{SUFFIX}")
        if (journal := read_journal(path)).header.name == name and journal.header.block == block
    ]
    return max(found, key=lambda journal: journal.header.created_ns, default=None)
