"""Whether what a run has written holds together: ``binref-sci check``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import orjson

from binref_sci.array import BinrefArray
from binref_sci.dtypes import nbytes_of
from binref_sci.engine.dataset import variables
from binref_sci.engine.results import read_results
from binref_sci.engine.source import (
    AnyPath,
    Source,
    entries,
    find,
    first_line,
    is_run_directory,
    place_at,
    run_directory,
)
from binref_sci.errors import BinrefError, FormatError, JournalError, TruncatedBufferError
from binref_sci.journal import (
    RECORD_BYTES,
    SUFFIX,
    Journal,
    SegmentLine,
    locked,
    read_journal,
    read_records,
)
from binref_sci.naming import RESULTS_FILE, RUN_FILE
from binref_sci.plan import Segment
from binref_sci.storage import Root, place_of, root_of, size_of, truncated
from binref_sci.trajectory import Trajectory


@dataclass
class Report:
    """What a check has found.

    Parameters
    ----------
    path
        What was checked.
    problems
        What is wrong: data that is missing, or that contradicts itself.
    notes
        What is worth knowing: interrupted runs, files that nothing refers to.
    runs, journals, references, buffers
        How many were looked at.
    """

    path: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runs: int = 0
    journals: int = 0
    references: int = 0
    buffers: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return a dict that plain JSON can hold."""
        return asdict(self)


def check(
    source: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Report:
    """Check a run directory, all of an output path, a response or a journal.

    Every reference must lie within its buffer; every journal must agree with itself and
    with its files. Sizes are compared, tables of compressed snapshots and times are read;
    the data is not.

    Raises
    ------
    BufferNotFoundError, FormatError
        If there is nothing to check at this path.
    """
    place = find(source, storage_options)
    given = place_at(os.fspath(source), storage_options)
    if given.is_dir() and not is_run_directory(given):
        places = [
            run_directory(entry)
            for entry in entries(given)
            if entry.is_dir() and is_run_directory(entry)
        ]
    else:
        places = [place]
    report = Report(os.fspath(given))
    for place in places:
        _Check(report, place, named=len(places) > 1).run()
    return report


class _Check:
    """The check of one run directory, or of a single file."""

    def __init__(self, report: Report, place: Source, *, named: bool) -> None:
        self._report = report
        self._place = place
        self._prefix = f"{place_of(place.directory).name}: " if named else ""
        self._known: set[str] = set()  # buffers that something refers to
        self._ranges: dict[str, str] = {}  # buffer -> its journal

    def run(self) -> None:
        """Check all there is."""
        self._report.runs += 1
        folder = place_of(self._place.directory)
        whole = self._place.path == os.fspath(self._place.directory)
        for result in self._results(folder, whole=whole):
            self._check_results(result)
        readable = [journal for path in self._place.journals if (journal := self._journal(path))]
        if len(readable) == len(self._place.journals):
            self._check_whole()
        if whole or self._place.run:
            self._check_run_file(folder)
        if whole:
            self._orphans(folder)
        self._report.buffers += len(self._known)

    def _problem(self, message: str) -> None:
        self._report.problems.append(f"{self._prefix}{message}")

    def _note(self, message: str) -> None:
        self._report.notes.append(f"{self._prefix}{message}")

    def _results(self, folder: AnyPath, *, whole: bool) -> Iterator[AnyPath]:
        if self._place.results is not None:
            yield self._place.results
        if whole:  # those that a newer run has moved aside
            yield from entries(folder, "results-*.json")

    def _check_results(self, path: AnyPath) -> None:
        try:
            fields = read_results(path, self._place.directory, ragged=True)
        except FormatError as error:
            # A result need not have arrays; that it is JSON, it must.
            if "without any" not in str(error):
                self._problem(str(error))
            return
        except BinrefError as error:
            self._problem(f"{path.name}: {error}")
            return
        for name, leaf in fields:
            where = f"{path.name}: field {name!r}"
            if isinstance(leaf, Trajectory):
                self._references(where, leaf.segments, nbytes_of(leaf.shape[1:], leaf.dtype))
                self._report.references += len(leaf)
            elif isinstance(leaf, BinrefArray):
                self._references(where, leaf.stored.segments, leaf.nbytes)
                self._report.references += 1

    def _references(self, where: str, segments: Iterable[Segment], nbytes: int) -> None:
        """Check that references lie inside their buffers; each buffer is complained of once."""
        bad: dict[str, list[str]] = {}
        for segment in segments:
            self._known.add(segment.path)
            try:
                size = size_of(self._place.directory, segment.path)
            except BinrefError as error:
                bad.setdefault(segment.path, []).append(str(error))
                continue
            stops = _stops(segment, nbytes)
            beyond = np.flatnonzero(stops > size)
            if len(beyond):
                stop = int(stops[beyond[0]])
                offset, length = segment.place(int(beyond[0]))
                assert offset + (nbytes if length is None else length) == stop
                fault = truncated(segment.path, offset, stop - offset, size)
                bad.setdefault(segment.path, []).append(f"{len(beyond)} references: {fault}")
        for faults in bad.values():
            more = f" (and {len(faults) - 1} more runs of references)" if len(faults) > 1 else ""
            self._problem(f"{where}: {faults[0]}{more}")

    def _journal(self, path: AnyPath) -> Journal | None:
        self._report.journals += 1
        try:
            journal = read_journal(path)
            self._check_journal(journal)
        except BinrefError as error:
            self._problem(str(error) if path.name in str(error) else f"{path.name}: {error}")
            return None
        return journal

    def _check_journal(self, journal: Journal) -> None:
        where, total = f"journal {journal.path.name!r}", journal.header.total
        for buffer in {line.buffer for line in journal.segments}:
            other = self._ranges.setdefault(buffer, journal.path.name)
            if other != journal.path.name:
                self._problem(f"{where} and {other!r} both claim buffer {buffer!r}")
        self._known |= coordinate_buffers(journal.path)
        for buffer, stop in self._check_segments(journal, where).items():
            extra = size_of(journal.directory, buffer) - stop
            if extra and journal.state != "writing":
                self._note(f"{where}: {extra} bytes of a torn snapshot at the end of {buffer!r}")
        self._check_times(journal, where)
        if journal.state == "interrupted" or (total is not None and journal.count < total):
            of = "" if total is None else f" of {total}"
            self._note(f"{where} is {journal.state} with {journal.count}{of} snapshots")

    def _check_segments(self, journal: Journal, where: str) -> dict[str, int]:
        """Check that each segment lies in its buffer, behind the last; return where they end."""
        directory = journal.directory
        ends: dict[str, int] = {}
        for number, (line, count) in enumerate(zip(journal.segments, journal.counts, strict=True)):
            self._known |= {line.buffer} if line.table is None else {line.buffer, line.table}
            size = size_of(directory, line.buffer)
            start, stop = _extent(directory, line, count, number, where)
            if stop > size:
                raise truncated(os.path.join(directory, line.buffer), start, stop - start, size)  # noqa: PTH118  # as in the other messages
            if count and start < ends.get(line.buffer, 0):
                raise JournalError(
                    f"{where}, segment {number} begins at byte {start} of {line.buffer!r}, before "
                    f"the one before ends at byte {ends[line.buffer]}"
                )
            ends[line.buffer] = max(stop, ends.get(line.buffer, 0))
        return ends

    def _check_times(self, journal: Journal, where: str) -> None:
        time = journal.header.time
        if time is None:
            return
        self._known.add(time.buffer)
        wanted = journal.count * time.dtype.itemsize
        held = size_of(journal.directory, time.buffer)
        if held < wanted:
            raise TruncatedBufferError(
                f"{where}: time buffer {time.buffer!r} holds {held} bytes, but {journal.count} "
                f"snapshots need {wanted}"
            )
        stored = journal.times()
        assert stored is not None  # the header has a time
        times = stored.read((slice(None),))
        if times.dtype.kind == "f" and not np.isfinite(times).all():
            at = int(np.flatnonzero(~np.isfinite(times))[0])
            self._note(f"{where}: snapshot {at} has time {times[at]}")
        back = np.flatnonzero(np.diff(times) <= 0)
        if len(back):
            at = int(back[0])
            self._note(
                f"{where}: times do not increase: {times[at]} at snapshot {at}, then "
                f"{times[at + 1]}"
            )

    def _check_whole(self) -> None:
        """Check what spans journals: blocks, labels that fit."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                variables(self._place, ragged=True)
            except BinrefError as error:
                # What the response lacks has been told already.
                if isinstance(error, JournalError):
                    self._problem(str(error))
        for warning in caught:
            self._note(str(warning.message))

    def _check_run_file(self, folder: AnyPath) -> None:
        path = folder / RUN_FILE
        if not path.exists():
            return
        try:
            said = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            self._problem(f"{RUN_FILE} is not valid JSON: {error}")
            return
        if not isinstance(said, dict):
            self._problem(f"{RUN_FILE} is not a JSON object")
        elif said.get("state") == "failed":
            self._note(f"the call failed: {said.get('error', 'no reason given')}")
        elif said.get("state") == "running":
            ended = "" if locked(path) else ", but its process has ended"
            self._note(f"{RUN_FILE} says that the call is still running{ended}")

    def _orphans(self, folder: AnyPath) -> None:
        """Note files that nothing refers to."""
        count = nbytes = 0
        first = ""
        for path in entries(folder):
            name = path.name
            if not path.is_file() or name in self._known or name in (RESULTS_FILE, RUN_FILE):
                continue
            if name.endswith(SUFFIX) or (name.startswith("results-") and path.suffix == ".json"):
                continue
            count, nbytes = count + 1, nbytes + size_of(root_of(folder), name)
            first = first or name
        if count:
            more = "" if count == 1 else f" and {count - 1} more"
            self._note(f"nothing refers to {first!r}{more} ({nbytes} bytes)")


def _stops(segment: Segment, nbytes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if segment.offsets is not None:
        return segment.offsets + (nbytes if segment.sizes is None else segment.sizes)
    return segment.offset + segment.stride * np.arange(segment.count, dtype=np.int64) + nbytes


def _extent(
    directory: Root, line: SegmentLine, count: int, number: int, where: str
) -> tuple[int, int]:
    """Return the bytes that the snapshots of a segment cover, each after the one before."""
    if line.table is None:
        return line.offset, line.offset + count * line.nbytes
    table, first = line.table, line.first_record
    held = size_of(directory, table) // RECORD_BYTES
    if held < first + count:
        raise JournalError(
            f"{where}, segment {number}: table {table!r} holds {held} records, "
            f"but {first + count} are needed"
        )
    if not count:
        return line.offset, 0
    records = read_records(directory, table, first, count)
    stops = records.sum(axis=1)
    wrong = np.flatnonzero((records < 0).any(axis=1))
    if not len(wrong):
        wrong = np.flatnonzero(records[1:, 0] < stops[:-1]) + 1
    if len(wrong):
        at = int(wrong[0])
        raise JournalError(
            f"{where}: record {first + at} of table {table!r} says offset {records[at, 0]} and "
            f"size {records[at, 1]}, which is not after the record before"
        )
    return int(records[0, 0]), int(stops[-1])


def coordinate_buffers(journal: AnyPath) -> set[str]:
    """Return the buffers of a journal's long coordinates, as its first line names them."""
    header = orjson.loads(first_line(journal))
    coords = header.get("labels", {}).get("coords") or {}
    return {made["buffer"] for made in coords.values() if "buffer" in made}
