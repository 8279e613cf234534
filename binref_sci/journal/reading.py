"""A journal, as it is at one moment."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from binref_sci.dtypes import checked_count
from binref_sci.errors import BufferNotFoundError, JournalError
from binref_sci.journal.lines import RECORD, RECORD_BYTES, Header, SegmentLine
from binref_sci.journal.locks import locked
from binref_sci.journal.parsing import header_of, parsed_lines, segment_line_of
from binref_sci.plan import Segment, Stored
from binref_sci.storage import Root, root_of, size_of
from binref_sci.storage.remote import RemotePath

State = Literal["writing", "complete", "interrupted"]


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal, as read at one moment: a pinned view.

    Parameters
    ----------
    path
        Absolute path of the file, or its place in a store.
    header
        Its first line.
    segments
        In order.
    counts
        Complete snapshots of each segment.
    state
        Of its writer.
    """

    path: Path | RemotePath
    header: Header
    segments: tuple[SegmentLine, ...]
    counts: tuple[int, ...]
    state: State

    @property
    def count(self) -> int:
        """Number of complete snapshots."""
        return sum(self.counts)

    @property
    def directory(self) -> Root:
        """Directory of the journal and its buffers."""
        return root_of(self.path.parent)

    @property
    def filled(self) -> list[tuple[SegmentLine, int]]:
        """The segments that hold snapshots, and how many."""
        pairs = zip(self.segments, self.counts, strict=True)
        return [(line, count) for line, count in pairs if count]

    @property
    def uniform(self) -> bool:
        """Whether all snapshots have one shape and dtype."""
        return len({(line.shape, line.dtype) for line, _ in self.filled}) <= 1

    def stored(self) -> Stored:
        """Return the snapshots as one stored array.

        Raises
        ------
        JournalError
            If they differ in shape or dtype, or there are none yet to tell.
        """
        if not self.segments:
            raise JournalError(f"journal {self.path.name!r} has no segment yet")
        filled = self.filled
        first = filled[0][0] if filled else self.segments[-1]
        for line, _ in filled:
            if (line.shape, line.dtype) != (first.shape, first.dtype):
                raise JournalError(
                    f"journal {self.path.name!r}: snapshots from {line.start} on have shape "
                    f"{line.shape} and dtype {line.dtype.name}, the first {first.shape} and "
                    f"{first.dtype.name}; open them one by one with "
                    "binref_sci.open_references(directory)"
                )
        segments = tuple(self._segment(line, count) for line, count in filled)
        return Stored(self.directory, segments, first.shape, first.dtype, self.header.compression)

    def each_segment(self) -> list[Stored]:
        """Return each segment as a stored array of its own."""
        return [
            Stored(
                self.directory,
                (self._segment(line, count),),
                line.shape,
                line.dtype,
                self.header.compression,
            )
            for line, count in zip(self.segments, self.counts, strict=True)
        ]

    def times(self) -> Stored | None:
        """Return the times as a stored array of shape ``(n,)``, or None."""
        time = self.header.time
        if time is None:
            return None
        segment = Segment(time.buffer, 0, self.count, time.dtype.itemsize)
        return Stored(self.directory, (segment,), (), time.dtype)

    def _segment(self, line: SegmentLine, count: int) -> Segment:
        if line.table is None:
            return Segment(line.buffer, line.offset, count, line.nbytes)
        records = read_records(self.directory, line.table, line.first_record, count)
        return Segment(line.buffer, 0, count, 0, records[:, 0], records[:, 1])


def read_records(directory: Root, table: str, first: int, count: int) -> NDArray[np.int64]:
    """Return offsets and compressed sizes, shape ``(count, 2)``."""
    segment = Segment(table, first * RECORD_BYTES, count, RECORD_BYTES)
    records: NDArray[np.int64] = Stored(directory, (segment,), (2,), RECORD).read(())
    return records


def read_journal(path: str | os.PathLike[str]) -> Journal:
    """Read a journal and count its complete snapshots.

    Raises
    ------
    BufferNotFoundError
        If there is no such journal.
    JournalError
        If it is not one, or its lines contradict each other.
    """
    place = path if isinstance(path, RemotePath) else Path(os.path.abspath(path))
    content = _content(place)
    for attempt in itertools.count():
        # If it grows faster than it is read: what lies before the newest segment is certain.
        settled = attempt >= _PATIENCE
        journal = _read(place, content, settled=settled)
        again = _content(place)
        # One that seems to be interrupted may just have been closed: then it has changed.
        if again == content or (settled and journal.state == "writing"):
            break
        content = again
    return journal


_PATIENCE = 3


def _content(place: Path | RemotePath) -> bytes:
    try:
        return place.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise BufferNotFoundError(f"there is no journal {os.fspath(place)!r}") from error


def _read(place: Path | RemotePath, content: bytes, *, settled: bool = False) -> Journal:
    """Read the lines of a journal; counts its last segment by the files unless `settled`.

    The content may be older than the files: the caller looks whether it still holds.
    """
    made = parsed_lines(place, content)
    if not made:
        raise JournalError(
            f"{place.name!r} is not a journal: it has no complete line ({content[:40]!r})"
        )
    try:
        header = header_of(made[0], place)
        segments = tuple(segment_line_of(p["segment"], header) for p in made[1:] if "segment" in p)
        ends = [checked_count(p["end"]["count"], "count") for p in made[1:] if "end" in p]
        counted = [checked_count(p["count"], "count") for p in made[1:] if "count" in p]
    except JournalError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise JournalError(f"journal {os.fspath(place)!r} is malformed: {error!r}") from error
    state: State = "complete" if ends else "writing" if locked(place) else "interrupted"
    if not segments:
        return Journal(place, header, (), (), state)
    starts = [line.start for line in segments]
    if ends:
        total = ends[-1]
    elif settled:
        total = starts[-1]
    else:
        total = _whole(header, segments[-1], max(counted, default=0), place)
    if starts != sorted(starts) or starts[0] or (ends and total < starts[-1]):
        raise JournalError(
            f"journal {os.fspath(place)!r}: segments start at {starts} and end at {total}; "
            "they must begin at 0 and not go back"
        )
    # After a loss of power there may be fewer times than earlier segments have snapshots.
    stops = [min(stop, total) for stop in (*starts[1:], total)]
    counts = tuple(max(b - a, 0) for a, b in zip(starts, stops, strict=True))
    return Journal(place, header, segments, counts, state)


def _whole(header: Header, last: SegmentLine, counted: int, place: Path | RemotePath) -> int:
    """Return how many snapshots of an unfinished journal are complete, by its files."""
    directory = root_of(place.parent)
    size = size_of(directory, last.buffer)
    if last.table is not None:
        made = max(size_of(directory, last.table) // RECORD_BYTES - last.first_record, 0)
        # After a loss of power, records may have reached the disk and their frames not.
        if made and _ends(directory, last, made - 1, 1)[0] > size:
            made = int(np.searchsorted(_ends(directory, last, 0, made), size, side="right"))
    elif last.nbytes:
        made = max(size - last.offset, 0) // last.nbytes
    else:
        made = max(counted - last.start, 0)
    total = last.start + made
    if header.time is not None:
        total = min(total, size_of(directory, header.time.buffer) // header.time.dtype.itemsize)
    return total


def _ends(directory: Root, line: SegmentLine, first: int, count: int) -> NDArray[np.int64]:
    """Return where the frames of `count` records end."""
    assert line.table is not None  # the caller looked
    records = read_records(directory, line.table, line.first_record + first, count)
    ends: NDArray[np.int64] = records.sum(axis=1)
    return ends
