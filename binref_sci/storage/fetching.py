"""Byte ranges of a store, many at once.

A store answers late, and many questions as fast as one. So a read goes in two passes over
the same plan: the first is only told what will be asked for, and touches nothing; the
second is given it, fetched in few large requests side by side. Near ranges are merged, and
no more than a window of bytes is held at a time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from binref_sci.errors import BufferNotFoundError, TruncatedBufferError
from binref_sci.messages import shown
from binref_sci.storage.remote import RemotePath, asked, store_error

MERGE_GAP: Final = 256 * 1024
"""Ranges closer than this, in bytes, are one request: what lies between arrives sooner than
another request is made and answered."""

PART: Final = 8 * 1024 * 1024
"""Bytes of a request at most: longer ranges are fetched in parts, side by side."""

WINDOW: Final = 64 * 1024 * 1024
"""Bytes that are fetched at once at most, and held until they are handed out."""

_UNKNOWN: Final = 2**63 - 1  # size of a buffer: asking costs as much as reading


class _Asked(NamedTuple):
    """Ranges of equal length in one file."""

    path: str
    offsets: NDArray[np.int64]
    nbytes: int

    @property
    def total(self) -> int:
        return len(self.offsets) * self.nbytes

    def costs(self) -> NDArray[np.int64]:
        """Return the bytes that are fetched for the ranges up to each, with gaps."""
        gaps = np.diff(self.offsets) - self.nbytes
        gaps[(gaps < 0) | (gaps > MERGE_GAP)] = 0
        made: NDArray[np.int64] = np.cumsum(np.concatenate([[self.nbytes], gaps + self.nbytes]))
        return made

    @property
    def cost(self) -> int:
        return int(self.costs()[-1])

    def is_(self, other: _Asked) -> bool:
        return (
            self.path == other.path
            and self.nbytes == other.nbytes
            and np.array_equal(self.offsets, other.offsets)
        )


class _Blocks(NamedTuple):
    """What has been fetched of one file, in its order."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    contents: list[bytes]


class Fetching:
    """One read plan at a store; not for several threads.

    Parameters
    ----------
    root
        Folder that buffers are relative to.
    """

    def __init__(self, root: RemotePath) -> None:
        self.root = root
        self.planning = False  # then a range is fetched when it is asked for
        self._asked: list[_Asked] = []
        self._next = 0
        self._held: dict[str, _Blocks] = {}

    def buffer(self, relative: str) -> RemoteBuffer:
        """Return a buffer; whether it exists is seen when it is read."""
        return RemoteBuffer(self, self.root.within(relative))

    def read(self, path: str, offsets: NDArray[np.int64], nbytes: int, out: memoryview) -> None:
        """Fill `out` with ranges one after another; in the first pass, take note of them."""
        wanted = _Asked(path, offsets, nbytes)
        if self.planning:
            self._asked.append(wanted)
            return
        target = np.frombuffer(out, np.uint8)
        if wanted.cost > WINDOW:
            for part, start in _windows(wanted):
                self._held = self._fetched([part])
                self._hand_out(part, target[start : start + part.total])
            self._held = {}
        elif not self._hand_out(wanted, target):
            self._held = self._fetched(self._group(wanted))
            self._hand_out(wanted, target)

    def _group(self, wanted: _Asked) -> list[_Asked]:
        """Return what is asked for next, a window of it, from these ranges on."""
        found = (n for n in range(self._next, len(self._asked)) if self._asked[n].is_(wanted))
        first = next(found, None)
        if first is None:
            return [wanted]  # a frame that was kept while it was planned, and is no longer
        total = 0
        for stop in range(first, len(self._asked)):
            total += self._asked[stop].cost
            if total > WINDOW and stop > first:
                break
        else:
            stop = len(self._asked)
        self._next = stop
        return self._asked[first:stop]

    def _hand_out(self, wanted: _Asked, target: NDArray[np.uint8]) -> bool:
        """Copy ranges out of what is held; False if it is not."""
        held = self._held.get(wanted.path)
        if held is None:
            return False
        numbers = np.searchsorted(held.starts, wanted.offsets, side="right") - 1
        if (numbers < 0).any() or (wanted.offsets + wanted.nbytes > held.stops[numbers]).any():
            return False
        rows = target.reshape(-1, wanted.nbytes)
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            content = np.frombuffer(held.contents[number], np.uint8)
            places = wanted.offsets[mine] - held.starts[number]
            rows[mine] = sliding_window_view(content, wanted.nbytes)[places]
        return True

    def _fetched(self, group: list[_Asked]) -> dict[str, _Blocks]:
        """Fetch ranges of any files, side by side.

        Raises
        ------
        BufferNotFoundError, TruncatedBufferError
            If a file is missing or ends too early.
        StoreError
            If the store fails.
        """
        by_path: dict[str, list[_Asked]] = {}
        for one in group:
            by_path.setdefault(one.path, []).append(one)
        runs = [(path, run) for path, mine in by_path.items() for run in _merged(mine)]
        parts = [
            (path, start, min(start + PART, run[1]))
            for path, run in runs
            for start in range(run[0], run[1], PART)
        ]
        with asked(self.root):
            answers = iter(
                self.root.fs.cat_ranges(
                    [path for path, _, _ in parts],
                    [start for _, start, _ in parts],
                    [stop for _, _, stop in parts],
                    on_error="return",
                )
            )
        held: dict[str, _Blocks] = {}
        for path, some in itertools.groupby(runs, key=lambda run: run[0]):
            bounds = [run for _, run in some]
            contents = []
            for start, stop in bounds:
                pieces = list(itertools.islice(answers, -(-(stop - start) // PART)))
                self._check(path, pieces, stop - start, by_path[path])
                contents.append(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces))
            starts, stops = np.array(bounds, np.int64).T
            held[path] = _Blocks(starts, stops, contents)
        return held

    def _check(self, path: str, pieces: list[Any], nbytes: int, asked: list[_Asked]) -> None:
        """Refuse anything but the bytes that were asked for."""
        failed = next((piece for piece in pieces if isinstance(piece, BaseException)), None)
        if failed is None and sum(map(len, pieces)) == nbytes:
            return
        place = RemotePath(self.root.fs, path)  # to look at it anew
        exists = place.exists()
        if isinstance(failed, FileNotFoundError) or (failed is None and not exists):
            raise BufferNotFoundError(
                f"buffer {shown(os.fspath(place))} does not exist"
            ) from failed
        size = int(place.info()["size"]) if exists else _UNKNOWN
        for one in asked:
            short = one.offsets[one.offsets + one.nbytes > size]
            if len(short):
                first = int(short[0])
                raise TruncatedBufferError(
                    f"buffer {shown(os.fspath(place))} holds {size} bytes, but bytes {first} to "
                    f"{first + one.nbytes} are needed; was it copied while the run went on?"
                ) from failed
        if failed is not None:
            raise store_error(place, failed) from failed
        raise TruncatedBufferError(
            f"buffer {shown(os.fspath(place))}: {nbytes} bytes were asked for, and "
            f"{sum(map(len, pieces))} came; does the store know byte ranges?"
        )


class RemoteBuffer:
    """A buffer of one read plan; keeps nothing open."""

    size = _UNKNOWN

    def __init__(self, fetching: Fetching, place: RemotePath) -> None:
        self._fetching = fetching
        self._place = place

    @property
    def name(self) -> str:
        """Its URL."""
        return os.fspath(self._place)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells its content from any other."""
        return (self.name, *self._place.version)

    def read(self, offsets: NDArray[np.int64], nbytes: int, out: memoryview) -> None:
        """Fill `out` with `nbytes` at each of `offsets`, one after another.

        Raises
        ------
        BufferNotFoundError, TruncatedBufferError
            If there is no such buffer, or it ends first.
        StoreError
            If the store fails.
        """
        self._fetching.read(self._place.path, offsets, nbytes, out)

    def close(self) -> None:
        """Do nothing."""


def _windows(asked: _Asked) -> Iterator[tuple[_Asked, int]]:
    """Yield ranges in parts that cost at most a window, and where each begins in the result."""
    if asked.nbytes <= WINDOW:
        edges = np.flatnonzero(np.diff(asked.costs() // (WINDOW + 1))) + 1
        for first, last in itertools.pairwise([0, *edges.tolist(), len(asked.offsets)]):
            some = _Asked(asked.path, asked.offsets[first:last], asked.nbytes)
            yield some, first * asked.nbytes
        return
    for number, offset in enumerate(asked.offsets.tolist()):
        for start in range(0, asked.nbytes, WINDOW):
            some = _Asked(asked.path, np.array([offset + start]), min(WINDOW, asked.nbytes - start))
            yield some, number * asked.nbytes + start


def _merged(asked: list[_Asked]) -> Iterator[tuple[int, int]]:
    """Yield first and last byte of what is fetched as one, in the order of the file."""
    starts = np.concatenate([one.offsets for one in asked])
    stops = np.concatenate([one.offsets + one.nbytes for one in asked])
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    breaks = np.flatnonzero(starts[1:] - stops[:-1] > MERGE_GAP) + 1
    for first, last in itertools.pairwise([0, *breaks.tolist(), len(starts)]):
        yield int(starts[first]), int(stops[last - 1])
