"""Labels and times for output fields, from the journals whose bytes they refer to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.engine import journals
from binref_sci.journal import SUFFIX, Journal, SegmentLine, TimeBuffer, read_records
from binref_sci.labels import Labels
from binref_sci.plan import Segment, Stored, fold_offsets
from binref_sci.storage import Root, place_of
from binref_sci.storage.remote import RemotePath
from binref_sci.trajectory import Trajectory


@dataclass(frozen=True)
class Lent:
    """What journals know of a field.

    Parameters
    ----------
    labels
        With the dims of the field itself.
    times
        Values and attributes of the coordinate along its first axis.
    along
        Name of that axis, if the field has one along the snapshots.
    """

    labels: Labels
    times: tuple[NDArray[Any], dict[str, Any]] | None
    along: str | None


class Lenders:
    """The journals of a folder, found by the buffers they describe.

    Parameters
    ----------
    directory
        What references are relative to.
    newest
        Journals of the newest run, already read.
    older
        Other journals there; read only if a field refers to none of the newest.
    """

    def __init__(
        self, directory: Root, newest: Iterable[Journal], older: Iterable[journals.Head]
    ) -> None:
        self._directory = directory
        self._older = list(older)
        self._by_buffer: dict[str, Journal] = {}
        self._seen: set[str] = set()
        self._lent: set[Path | RemotePath] = set()
        self._singles: dict[Path | RemotePath, set[int]] = {}
        for journal in newest:
            self._add(journal, "")

    def _add(self, journal: Journal, folder: str) -> None:
        for line in journal.segments:
            self._by_buffer.setdefault(posixpath.join(folder, line.buffer), journal)

    def _journal_of(self, path: str) -> Journal | None:
        found = self._by_buffer.get(path)
        if found is not None:
            return found
        for head in self._older:
            self._keep(head, "")
        self._older.clear()
        folder = posixpath.dirname(path)
        if folder not in self._seen and ".." not in folder.split("/"):
            self._seen.add(folder)
            for place in (place_of(self._directory) / folder).glob(f"*{SUFFIX}"):
                self._keep(journals.Head(place, "", 0), folder)
        return self._by_buffer.get(path)

    def _keep(self, head: journals.Head, folder: str) -> None:
        journal = journals.read_if_possible(head)
        if journal is not None:
            self._add(journal, folder)

    def of_trajectory(self, field: Trajectory) -> Lent | None:
        """Return what is known of a list of snapshots."""
        found: list[tuple[Journal, NDArray[np.int64]]] = []
        for segment in field.segments:
            journal = self._journal_of(segment.path)
            places = None if journal is None else _places(journal, segment, field)
            if journal is None or places is None:
                return None
            found.append((journal, places))
        if not found:
            return None
        self._lent |= {journal.path for journal, _ in found}
        first = found[0][0].header
        times = None
        if first.time is not None and all(_same_times(j.header.time, first.time) for j, _ in found):
            times = np.concatenate([_times(j, places) for j, places in found])
        given = None if times is None or first.time is None else (times, dict(first.time.attrs))
        return Lent(first.labels, given, along(found[0][0]))

    def times_of(self, field: Trajectory) -> Stored | None:
        """Return where the times of a list of snapshots lie, one after another."""
        segments: list[Segment] = []
        first: TimeBuffer | None = None
        directory: Root = ""
        for segment in field.segments:
            journal = self._journal_of(segment.path)
            places = None if journal is None else _places(journal, segment, field)
            time = None if journal is None else journal.header.time
            if journal is None or places is None or time is None:
                return None
            if not segments:
                first, directory = time, journal.directory
            if first is None or not _same_times(time, first) or journal.directory != directory:
                return None
            nbytes = time.dtype.itemsize
            segments += fold_offsets(time.buffer, places * nbytes, nbytes)
        return None if first is None else Stored(directory, tuple(segments), (), first.dtype)

    def of_array(self, field: BinrefArray) -> Lent | None:
        """Return what is known of one array: a snapshot, or many in one byte range."""
        journal = self._journal_of(field.path)
        if journal is None:
            return None
        labels, time = journal.header.labels, journal.header.time
        (segment,) = field.stored.segments
        for line, count in _lines(journal, field.path, field.dtype):
            if field.shape == line.shape:
                place = _within(journal, line, count, segment, field.compression)
                if place is not None:
                    self._singles.setdefault(journal.path, set()).add(int(place[0]))
                    dims = None if labels.dims is None else labels.dims[1:]
                    return Lent(labels.replace(dims=dims), None, None)
            elif field.compression is None and field.shape[1:] == line.shape and field.size:
                run = Segment(field.path, field.offset, field.shape[0], line.nbytes)
                places = _within(journal, line, count, run, None)
                if places is not None:
                    self._lent.add(journal.path)
                    given = None if time is None else (_times(journal, places), dict(time.attrs))
                    return Lent(labels, given, along(journal))
        return None

    def shows(self, journal: Journal) -> bool:
        """Tell whether a journal has something that no field shows.

        A run that returns its last snapshot alone has a trajectory to show all the same.
        """
        if journal.path in self._lent:
            return False
        singles = self._singles.get(journal.path)
        if singles is None:
            return True
        return journal.header.name is not None and len(singles) < journal.count


def along(journal: Journal) -> str:
    """Return the name of the axis along the snapshots of a journal."""
    dims = journal.header.labels.dims
    return dims[0] if dims else "time"


def _same_times(one: TimeBuffer | None, other: TimeBuffer) -> bool:
    return one is not None and one.dtype == other.dtype and one.attrs == other.attrs


def _times(journal: Journal, places: NDArray[np.int64]) -> NDArray[Any]:
    stored = journal.times()
    assert stored is not None  # the header has a time
    times: NDArray[Any] = stored.read((slice(None),))
    return times[places]


def _lines(journal: Journal, path: str, dtype: np.dtype[Any]) -> Iterator[tuple[SegmentLine, int]]:
    """Yield the segments of a journal in a buffer, with their counts."""
    buffer = posixpath.basename(path)
    for line, count in zip(journal.segments, journal.counts, strict=True):
        if line.buffer == buffer and line.dtype == dtype:
            yield line, count


def _places(journal: Journal, segment: Segment, field: Trajectory) -> NDArray[np.int64] | None:
    """Return which snapshots of a journal a run of references names, if it is of its making."""
    for line, count in _lines(journal, segment.path, field.dtype):
        if line.shape == field.shape[1:]:
            places = _within(journal, line, count, segment, field.compression)
            if places is not None:
                return places
    return None


def _within(
    journal: Journal, line: SegmentLine, count: int, segment: Segment, compression: str | None
) -> NDArray[np.int64] | None:
    """Return the snapshots' places in the journal, if all lie in this segment of it."""
    if compression != journal.header.compression:
        return None
    offsets = segment.offsets
    if offsets is None:
        offsets = segment.offset + segment.stride * np.arange(segment.count, dtype=np.int64)
    if not count:
        return None
    if line.table is not None:
        known = read_records(journal.directory, line.table, line.first_record, count)[:, 0]
        places = np.searchsorted(known, offsets).clip(max=count - 1)
        return line.start + places if np.array_equal(known[places], offsets) else None
    if not line.nbytes:  # nothing tells them apart
        same = segment.count == count and bool((offsets == line.offset).all())
        return line.start + np.arange(count) if same else None
    places, rest = np.divmod(offsets - line.offset, line.nbytes)
    inside = not rest.any() and places.min() >= 0 and places.max() < count
    return line.start + places if inside else None
