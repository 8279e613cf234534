"""Many byte ranges of one buffer at once.

A loop of `preadv` that asks not to wait tells pages in memory from pages on disk for
free. While all are in memory one thread is fastest; from the first that is not, many
ranges go to threads, which keep the disk busy. What is large goes to a thread for each
processor in any case: one alone cannot copy as fast as memory takes it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.storage import Buffer, OpenBuffer, read_into

MANY = 64
"""Fewer ranges than this that have to wait for the disk are read one after another."""

THREADS = 16

WIDE = 32 * 1024 * 1024
"""As many bytes are worth several threads, though all are in memory; dask's chunks are below."""

PIECE = 4 * 1024 * 1024
"""What a thread copies of them at a time, in bytes: all together go through the file once."""

COPIERS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)

_SCATTERED = 128 * 1024  # ranges up to this size do not want the system to read ahead
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_UNKNOWN = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}  # tmpfs, for one, always waits


def read_range(buffer: Buffer, offset: int, out: NDArray[Any]) -> None:
    """Fill a C-contiguous array from byte `offset` on.

    Raises
    ------
    TruncatedBufferError
        If the file ends first.
    """
    if out.nbytes < WIDE:
        read_into(buffer, offset, out)
    else:
        read_ranges(buffer, np.array([offset]), out.nbytes, out.reshape(-1).view(np.uint8))


def read_ranges(
    buffer: Buffer, offsets: NDArray[np.int64], nbytes: int, out: NDArray[np.uint8]
) -> bool:
    """Read `nbytes` at each of `offsets`; tell whether the disk was waited for.

    Parameters
    ----------
    buffer
        Checked to hold the ranges.
    offsets
        First byte of each range.
    nbytes
        Of each range; not 0.
    out
        Contiguous, of ``len(offsets) * nbytes`` bytes: the ranges one after another.

    Raises
    ------
    TruncatedBufferError
        If the file ends first.
    """
    view = memoryview(out).cast("B")
    if not isinstance(buffer, OpenBuffer):
        buffer.read(offsets, nbytes, view)
        return False
    places = offsets.tolist()
    if len(places) < MANY and len(view) >= WIDE and nbytes >= PIECE and COPIERS > 1:
        _read_wide(buffer, places, nbytes, view)
        return False
    if len(places) < MANY or not _NOWAIT:
        _read_all(buffer, places, nbytes, view)
        return False
    done = _read_warm(buffer, places, nbytes, view)
    if done == len(places):
        return False
    if done < 0:
        _read_all(buffer, places, nbytes, view)
        return False
    rest = view[done * nbytes :]
    if len(places) - done < MANY:
        _read_all(buffer, places[done:], nbytes, rest)
    else:
        _read_threaded(buffer, places[done:], nbytes, rest)
    return True


def _read_all(buffer: OpenBuffer, places: Sequence[int], nbytes: int, view: memoryview) -> None:
    fd, preadv = buffer.fd, os.preadv
    start = 0
    for place in places:
        stop = start + nbytes
        part = view[start:stop]
        if preadv(fd, [part], place) != nbytes:
            read_into(buffer, place, part)  # goes on after a short read, or says what is missing
        start = stop


def _read_warm(buffer: OpenBuffer, places: Sequence[int], nbytes: int, view: memoryview) -> int:
    """Read until a page is not in memory; return how many ranges, -1 if that is not told."""
    fd, preadv, nowait = buffer.fd, os.preadv, _NOWAIT
    start = 0
    try:
        for place in places:
            stop = start + nbytes
            if preadv(fd, [view[start:stop]], place, nowait) != nbytes:
                break
            start = stop
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return -1
    return start // nbytes


def _read_threaded(
    buffer: OpenBuffer, places: Sequence[int], nbytes: int, view: memoryview
) -> None:
    if nbytes <= _SCATTERED:
        os.posix_fadvise(buffer.fd, 0, 0, os.POSIX_FADV_RANDOM)
    starts = range(0, len(view), nbytes)
    pieces = [(place, view[n : n + nbytes]) for place, n in zip(places, starts, strict=True)]
    _read_together(buffer, pieces, THREADS)


def _read_wide(buffer: OpenBuffer, places: Sequence[int], nbytes: int, view: memoryview) -> None:
    pieces = [
        (
            place + start,
            view[number * nbytes + start : number * nbytes + min(start + PIECE, nbytes)],
        )
        for number, place in enumerate(places)
        for start in range(0, nbytes, PIECE)
    ]
    _read_together(buffer, pieces, COPIERS)


def _read_together(
    buffer: OpenBuffer, pieces: Sequence[tuple[int, memoryview]], threads: int
) -> None:
    def work(thread: int, going: Callable[[], bool]) -> None:
        # Every sixteenth of sixteen, so that all threads together go through the file once.
        for place, part in pieces[thread::threads]:
            if not going():
                return
            if os.preadv(buffer.fd, [part], place) != len(part):
                read_into(buffer, place, part)

    together(work, threads)


def together(work: Callable[[int, Callable[[], bool]], None], threads: int) -> None:
    """Call `work` in several threads, this one included, and wait for all.

    Parameters
    ----------
    work
        Called with a thread's number, and with a function that tells whether to go on: no
        other thread has failed.
    threads
        How many.

    Raises
    ------
    BaseException
        The first that any of them raised, an interruption included.
    """
    failed: list[BaseException] = []

    def attempt(thread: int) -> None:
        try:
            work(thread, lambda: not failed)
        except BaseException as error:  # raised again where it is waited for
            failed.append(error)

    others = [threading.Thread(target=attempt, args=(n,)) for n in range(1, threads)]
    for thread in others:
        thread.start()
    attempt(0)
    for thread in others:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:  # they end soon; until then they use what is open
                failed.append(error)
    if failed:
        raise failed[0]
