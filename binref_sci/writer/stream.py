"""The files of one writer: journal, buffers, times; and the snapshots that count in them."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from dataclasses import replace
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from binref_sci.array import BinrefArray, Layout
from binref_sci.codec import compress
from binref_sci.dtypes import DTYPES, to_stored
from binref_sci.errors import BufferNotFoundError, WriterError
from binref_sci.journal import (
    RECORD,
    RECORD_BYTES,
    Header,
    Journal,
    SegmentLine,
    TimeBuffer,
    count_line,
    end_line,
)
from binref_sci.progress import ProgressBar
from binref_sci.storage import confine, create_buffer, sync_directory, write_at
from binref_sci.writer.checks import (
    check_block,
    check_fit,
    check_order,
    check_same,
    check_timed,
    check_times_once,
)
from binref_sci.writer.journaling import append, journal_name, publish
from binref_sci.writer.options import Options
from binref_sci.writer.stamps import TIME_UNITS, stamp_of
from binref_sci.writer.tail import Files, Tail

_WATCH_SECONDS: Final = 0.002
_WATCH_BYTES: Final = 64 * 1024
"""How often a writer makes sure that its buffer still has a name: at each snapshot of
64 KiB or more, otherwise every 2 ms. ``fstat`` costs as much as writing 2 KiB does."""

_FAR: Final = 2**63


class Stream:
    """What a writer has on disk. Not for several threads: the writer holds its lock.

    Whatever fails leaves the snapshots that count as they are; `cut` then removes what was
    written after them.

    Parameters
    ----------
    directory
        Absolute directory of all files.
    options
        What the writer was made with.
    progress
        Told of each snapshot.
    """

    def __init__(self, directory: str, options: Options, progress: ProgressBar | None) -> None:
        self.directory = directory
        self.options = options
        self.progress = progress
        self.run = ""
        self.forked_from: str | None = None
        self._reset()

    def _reset(self) -> None:
        """Forget all files: what a new writer, and a forked child's, knows."""
        self._id = uuid.uuid4().hex[:12]
        self._journal_name: str | None = None
        self._files: Files | None = None
        self._lines: list[SegmentLine] = []
        self.tail = Tail((0, 0, 0))
        self.watch_at = 0.0

    def put(self, array: ArrayLike, time: Any) -> BinrefArray:
        """Append a snapshot of any kind; the first one makes the files."""
        data = to_stored(array)
        dtype = DTYPES[data.dtype.name]
        self._check_snapshot(data, timed=time is not None)
        stamp = None if time is None else stamp_of(time, self.options.what, self._time_dtype)
        stored = data if self.options.compression is None else compress(data)
        size = stored.nbytes if isinstance(stored, np.ndarray) else len(stored)
        if self._files is None:
            self._begin(stamp)
        if size >= _WATCH_BYTES or monotonic() >= self.watch_at:
            self.watch()
        if not self._fits(data.shape, dtype, size):
            self._begin_segment(data.shape, dtype, size)
        return self._append(stored, size, stamp)

    def _append(
        self, stored: NDArray[Any] | bytes, size: int, stamp: NDArray[Any] | None
    ) -> BinrefArray:
        """Write into the open segment; nothing counts before the last assignment."""
        tail = self.tail
        count, offset, journal_end = tail.count, tail.position, tail.done[2]
        compressed = self.options.compression is not None
        write_at(tail.fd, stored, offset)
        if compressed:
            record = np.array([offset, size], dtype=RECORD)
            write_at(tail.table_fd, record, self._lines[tail.lines - 1].record(count))
        elif not size:
            journal_end = self._append_line(count_line(count + 1), journal_end)
        if stamp is not None:
            write_at(tail.time_fd, stamp, count * stamp.itemsize)
        if self.options.sync:
            for fd in (tail.fd, tail.table_fd, tail.time_fd):
                if fd >= 0:
                    os.fdatasync(fd)
        if self.progress is not None:
            self.progress.update(count + 1)
        ref = BinrefArray.at(tail.layout, offset, size if compressed else None)
        if tail.nbytes:
            tail.next = offset + size
        else:
            tail.done = (offset + size, count + 1, journal_end)
        return ref

    @property
    def _time_dtype(self) -> np.dtype[Any] | None:
        """Of the times before; None if there are none."""
        times = None if self._files is None else self._files.header.time
        return None if times is None else times.dtype

    def _check_snapshot(self, data: NDArray[Any], *, timed: bool) -> None:
        """Refuse what does not go with the labels, the block or the snapshots before."""
        options, count = self.options, self.tail.count
        check_block(options.what, options.block, data.shape)
        if options.name is not None and not count:
            check_fit(options.what, options.labels, options.block, data.shape)
            if timed:
                check_order(options.what, options.labels)
        elif options.name is not None:
            check_same(options.name, self._lines[self.tail.lines - 1], data)
        if self._files is None:
            if timed:
                check_times_once(options.what, options.labels)
        else:
            before = self._time_dtype is not None
            check_timed(options.what, count, timed=timed, before=before)

    def _fits(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> bool:
        """Tell whether a snapshot of `size` stored bytes goes on with the segment."""
        tail = self.tail
        if tail.fd < 0:
            return False
        line = self._lines[tail.lines - 1]
        return (line.shape, line.dtype) == (shape, dtype) and self._has_room(size)

    def _has_room(self, size: int) -> bool:
        limit = self.options.max_file_size
        return limit is None or self.tail.position + size <= limit

    def _begin(self, stamp: NDArray[Any] | None) -> None:
        """Create the journal, locked before it can be seen."""
        options = self.options
        made: list[str] = []
        time_buffer, time_fd, journal_fd = None, -1, -1
        try:
            if stamp is not None:
                buffer, time_fd = create_buffer(self.directory)
                made.append(buffer)
                attrs = dict(options.time_attrs)
                if stamp.dtype.kind == "i":
                    attrs |= {"units": TIME_UNITS, "calendar": "proleptic_gregorian"}
                time_buffer = TimeBuffer(buffer, DTYPES[stamp.dtype.name], attrs)
            header = Header(
                run=self.run,
                id=self._id,
                created_ns=time_ns(),
                name=options.name,
                labels=options.labels,
                total=options.total,
                compression=options.compression,
                time=time_buffer,
                block=options.block,
                forked_from=self.forked_from,
            )
            line = header.to_line(self.directory, made)
            made.append(os.path.basename(self.journal_path))
            journal_fd = self._publish(line)
            tail, files = Tail((0, 0, len(line))), Files(header, journal_fd, time_fd)
            self.tail, self._files = tail, files
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
            self._journal_name = journal_name(self.options.name, self._id)
        return os.path.join(self.directory, self._journal_name)

    def _publish(self, content: bytes) -> int:
        return publish(self.journal_path, content, sync=self.options.sync)

    def _append_line(self, line: bytes, end: int) -> int:
        assert self._files is not None  # the journal comes before all else
        return append(self._files.journal_fd, line, end, sync=self.options.sync)

    def _begin_segment(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
        """Open a segment: in the same buffer if its first `size` bytes have room there."""
        old = self.tail
        count = old.count
        del self._lines[old.lines :]  # of an attempt that failed
        created: list[tuple[str, int]] = []
        try:
            if old.fd >= 0 and self._has_room(size):
                before, fds = self._lines[-1], (old.fd, old.table_fd)
                record = before.record(count) // RECORD_BYTES if before.table else 0
                place = before.buffer, old.position, before.table, record
            else:
                fds = self._create_buffers(created)
                names = [name for name, _ in created]
                place = names[0], 0, (names[1] if len(names) > 1 else None), 0
            buffer, offset, table, record = place
            line = SegmentLine(count, buffer, offset, shape, dtype, table, record)
            end = self._append_line(line.to_line(), old.done[2])
            self._lines.append(line)
            tail = self._tail_of(line, *fds, end)
            self.tail = tail
        except BaseException:
            # First the line, then what it names.
            with contextlib.suppress(OSError):
                # There are files by now: the line is written to one of them.
                os.ftruncate(self._files.journal_fd, old.done[2])  # type: ignore[union-attr]
            for name, fd in created:
                os.close(fd)
                self._remove(name)
            raise
        if created:
            _close(old.fd, old.table_fd)

    def _create_buffers(self, created: list[tuple[str, int]]) -> tuple[int, int]:
        """Create a buffer, and a table if it needs one; each is in `created` at once."""
        created.append(create_buffer(self.directory))
        if self.options.compression is not None:
            created.append(create_buffer(self.directory))
        if self.options.sync:
            sync_directory(self.directory)
        return created[0][1], (created[1][1] if len(created) > 1 else -1)

    def _tail_of(self, line: SegmentLine, fd: int, table_fd: int, journal_end: int) -> Tail:
        """Return an empty segment, and what `write` needs to know of it."""
        assert self._files is not None  # comes before any segment
        options, times = self.options, self._files.header.time
        tail = Tail((line.offset, line.start, journal_end), len(self._lines))
        tail.fd, tail.table_fd, tail.time_fd = fd, table_fd, self._files.time_fd
        tail.layout = Layout(
            self.directory,
            line.buffer,
            line.shape,
            line.dtype,
            options.compression,
            part_of=None if options.block is None else options.block.shape,
        )
        tail.shape = line.shape
        tail.start, tail.first, tail.next = line.start, line.offset, line.offset
        if options.compression is None:
            tail.nbytes = line.nbytes
        tail.last = _FAR if options.max_file_size is None else options.max_file_size - tail.nbytes
        if times is not None:
            tail.time_type = float
            tail.time_base = line.start * times.dtype.itemsize
        dated = times is not None and times.dtype.kind == "i"
        if tail.nbytes and not (options.sync or self.progress or dated):
            tail.dtype = line.dtype
        if line.nbytes >= _WATCH_BYTES:
            self.watch_at = 0.0
        return tail

    def cut(self) -> None:
        """After a write that failed: a reader goes by sizes, so it must not seem to count."""
        for fd, size in self._extents():
            with contextlib.suppress(OSError):
                os.ftruncate(fd, size)

    def _extents(self) -> list[tuple[int, int]]:
        """Return the open files, and how many of their bytes count."""
        tail, files = self.tail, self._files
        if files is None:
            return []
        count = tail.count
        made = [(files.journal_fd, tail.done[2]), (tail.fd, tail.position)]
        if tail.table_fd >= 0:
            made.append((tail.table_fd, self._lines[tail.lines - 1].record(count)))
        if files.header.time is not None:
            made.append((files.time_fd, count * files.header.time.dtype.itemsize))
        return [(fd, size) for fd, size in made if fd >= 0]

    def watch(self) -> None:
        """Notice a buffer whose directory was removed: writes to it go nowhere."""
        tail = self.tail
        large = tail.nbytes >= _WATCH_BYTES
        self.watch_at = 0.0 if large else monotonic() + _WATCH_SECONDS
        if tail.fd >= 0 and not os.fstat(tail.fd).st_nlink:
            buffer = self._lines[tail.lines - 1].buffer
            self.close()
            self._reset()
            raise BufferNotFoundError(
                errno.ENOENT,
                f"buffer {buffer!r} of {self.options.what} was removed while it was written; "
                f"{tail.count} snapshots are gone, the next write begins anew",
                self.directory,
            )

    def pinned(self) -> Journal:
        """Return what has been written, as of now.

        Raises
        ------
        WriterError
            If that is nothing.
        """
        files, tail = self._files, self.tail
        lines = tuple(self._lines[: tail.lines])
        if files is None or not lines:
            raise WriterError(f"no snapshot of {self.options.what} has been written yet")
        stops = [*(line.start for line in lines[1:]), tail.count]
        counts = tuple(stop - line.start for stop, line in zip(stops, lines, strict=True))
        return Journal(Path(self.journal_path), files.header, lines, counts, "writing")

    def finish(self, *, whole: bool) -> None:
        """Cut torn tails; publish a journal that is `whole` with its last line, by a rename."""
        if self._files is None:
            return
        self.watch()
        assert self._files is not None  # or nothing would have been watched
        for fd, size in self._extents():
            os.ftruncate(fd, size)
            if self.options.sync:
                os.fsync(fd)
        if whole:
            content = os.pread(self._files.journal_fd, self.tail.done[2], 0)
            os.close(self._publish(content + end_line(self.tail.count)))

    def close(self) -> None:
        """Let go of all files."""
        tail, files = self.tail, self._files
        fds = [tail.fd, tail.table_fd]
        tail.fd = tail.table_fd = tail.time_fd = -1
        if files is not None:
            fds += [files.time_fd, files.journal_fd]
            self._files = files._replace(time_fd=-1, journal_fd=-1)
        _close(*fds)

    def _remove(self, name: str) -> None:
        """Remove a file of a step that failed; the failure is what is reported."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.directory, name))

    def go_on(self, journal: Journal) -> None:
        """Continue a journal that is held, after its last complete snapshot.

        Raises
        ------
        WriterError
            If its snapshots have times, and the labels given other ones.
        """
        header = journal.header
        if header.time is not None:
            check_times_once(self.options.what, self.options.labels)
        self._id, self._journal_name = header.id, journal.path.name
        self._lines = list(journal.segments)
        total = self.options.total
        total = header.total if total is None else journal.count + total
        header = replace(header, run=self.run, created_ns=time_ns(), total=total)
        self.options = replace(self.options, labels=header.labels)
        content = header.to_line(self.directory, [])
        content += b"".join(line.to_line() for line in self._lines)
        if self._lines and not self._lines[-1].nbytes:
            content += count_line(journal.count)
        time_fd = -1
        if header.time is not None:
            self.options = replace(self.options, time_attrs=header.time.attrs)
            path = confine(self.directory, header.time.buffer)
            time_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._files = Files(header, -1, time_fd)
        # The next write begins a segment of its own; until then, only the count matters.
        self.tail = Tail((0, journal.count, len(content)), len(self._lines))
        try:
            for fd, size in self._extents():
                os.ftruncate(fd, size)
            self._files = Files(header, self._publish(content), time_fd)
        except BaseException:
            self.close()
            raise

    def begin_anew(self) -> None:
        """In a forked child: the files are the parent's; the next write makes others."""
        self.forked_from = self.forked_from or self._id
        self.progress = None
        self.close()
        self._reset()


def _close(*fds: int) -> None:
    """Close descriptors, all of them even if one fails; -1 is none."""
    with contextlib.ExitStack() as stack:
        for fd in fds:
            if fd >= 0:
                stack.callback(os.close, fd)
