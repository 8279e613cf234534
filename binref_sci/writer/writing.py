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

import contextlib
import os
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from binref_sci.array import BinrefArray, folder_to_write
from binref_sci.call import Closeable, running_call
from binref_sci.errors import JournalError, WriterError
from binref_sci.journal import Journal
from binref_sci.progress import ProgressBar
from binref_sci.storage import write_at
from binref_sci.trajectory import Trajectory
from binref_sci.writer.going_on import newest_held
from binref_sci.writer.living import living
from binref_sci.writer.options import (
    DEFAULT_MAX_FILE_SIZE,
    check_mode,
    check_name,
    checked_options,
)
from binref_sci.writer.runs import known_runs, run_of_call
from binref_sci.writer.stacking import stacked
from binref_sci.writer.stream import Stream
from binref_sci.writer.tail import NO_DTYPE

_pwrite = os.pwrite
_monotonic = time.monotonic
_new = object.__new__
_ndarray = np.ndarray
_pack = struct.Struct("<d").pack


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
        attributes alone, ``{"time": {"units": "s"}}``: its values come with each write. Values
        may be given where no write has a time.
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
        check_name(run_id, "run_id")
        options = checked_options(
            name,
            dims=dims,
            coords=coords,
            attrs=attrs,
            total=total,
            max_file_size=max_file_size,
            compression=compression,
            durability=durability,
            block=block,
            shape=shape,
        )
        check_mode(mode, name)
        self.name = name
        self.total = options.total
        self.directory = folder_to_write(output_path)
        self._lock = threading.Lock()
        progress = ProgressBar(name or "snapshots", self.total) if self.total else None
        self._stream = Stream(self.directory, options, progress)
        self._stream.run = run_id or run_of_call(self.directory)
        if mode == "a":
            self._go_on()
        self._stream.run = self._stream.run or known_runs.join(self.directory, name, options.block)
        self._closed = False
        living.add(self)
        call = running_call()
        self._resources: list[Closeable] = [] if call is None else call.resources
        self._resources.append(self)

    def _go_on(self) -> None:
        stream = self._stream
        options = stream.options
        with newest_held(self.directory, options) as journal:
            if journal is not None:
                stream.run = stream.run or known_runs.join(
                    self.directory, options.name, options.block, going_on=journal.header.run
                )
                stream.go_on(journal)

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
            If a named writer gets another shape or dtype, if times come and go or are in
            ``coords`` too, or if the writer is closed.
        OSError
            As the system reports it. Nothing counts, and later writes are right.
        """
        with self._lock:
            stream = self._stream
            tail = stream.tail
            try:
                if (
                    type(array) is _ndarray
                    and array.dtype is tail.dtype
                    and array.shape == tail.shape
                    and type(time) is tail.time_type
                    and tail.next <= tail.last
                    and array.flags.c_contiguous
                ):
                    # The short way: what `Stream.put` does where nothing is new.
                    if _monotonic() >= stream.watch_at:
                        stream.watch()
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
                if self._closed:
                    raise WriterError(f"the writer of {stream.options.what} is closed")
                return stream.put(array, time)
            except BaseException:
                stream.cut()
                raise

    @property
    def journal_path(self) -> str:
        """Absolute path of the journal; it exists from the first write on."""
        return self._stream.journal_path

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
            raise WriterError(f"no trajectory of {self._stream.options.what}: {error}") from error

    def stack(self) -> BinrefArray:
        """Return what has been written as one array of shape ``(n, *snapshot)``.

        Raises
        ------
        WriterError
            If it is not one byte range: several buffers, shapes or frames.
        """
        return stacked(self._pinned(), self._stream.options.what)

    def _pinned(self) -> Journal:
        with self._lock:
            return self._stream.pinned()

    def close(self) -> None:
        """Write the final count and let go of all files; again is harmless."""
        self._close(whole=True)

    def _close(self, *, whole: bool) -> None:
        """Let go of all files; a journal that is not `whole` stays without its last line."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            stream = self._stream
            stream.tail.dtype = NO_DTYPE  # a write that comes now goes to where it is refused
            living.discard(self)
            with contextlib.suppress(ValueError):
                self._resources.remove(self)
            try:
                if stream.progress is not None:
                    stream.progress.close(stream.tail.count)
                stream.finish(whole=whole)
            finally:
                stream.close()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._stream.begin_anew()

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
        count = self._stream.tail.count
        return f"BinrefWriter({self.name!r}, {count} snapshots, {state}, in {self.directory!r})"
