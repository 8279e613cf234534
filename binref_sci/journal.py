"""The journal: one small text file that makes a writer's buffers self-describing.

JSON lines. The first is the header; then one line a segment; on close, the end::

    {"binref_journal": 1, "run": "7f3c", "id": "5c1e", "created_ns": 1790000000000000000,
     "name": "temperature", "labels": {"dims": ["time", "y", "x"], "attrs": {"units": "K"}},
     "total": 2000, "compression": null, "time": {"buffer": "9a.bin", "dtype": "float64"}}
    {"segment": {"start": 0, "buffer": "3f2c.bin", "offset": 0, "shape": [64, 64],
     "dtype": "float64"}}
    {"end": {"count": 2000}}

No line is written per snapshot. How many are complete follows from the sizes of the
files: the least of data, times and, for compressed buffers, records of the table. A
record is two little-endian int64: offset and compressed size of one snapshot.
(Snapshots without elements have no bytes to count; they get a ``{"count": n}`` line.)
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from binref_sci.dtypes import DTYPES, checked_dtype, checked_shape, nbytes_of
from binref_sci.errors import BufferNotFoundError, InvalidReferenceError, JournalError
from binref_sci.labels import Labels, attrs_from_json, attrs_to_json
from binref_sci.plan import Segment, Stored
from binref_sci.storage import create_buffer, status_of, write_at

SUFFIX = ".binref.jsonl"
VERSION = 1
MAGIC = "binref_journal"
RECORD = np.dtype("<i8")
RECORD_BYTES = 2 * RECORD.itemsize

State = Literal["writing", "complete", "interrupted"]

INLINE_COORDINATE = 256
"""Coordinates with more elements than this lie in a buffer, not in the header."""


@dataclass(frozen=True, slots=True)
class TimeBuffer:
    """Where the times of the snapshots lie: one number each, without a gap."""

    buffer: str
    dtype: np.dtype[Any]
    attrs: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the header's ``time`` entry."""
        made = {"buffer": self.buffer, "dtype": self.dtype.name}
        return made | ({"attrs": attrs_to_json(self.attrs)} if self.attrs else {})


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a field that one writer streams.

    Parameters
    ----------
    start, stop
        Of the block along each axis of the field.
    shape
        Of the whole field.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """Shape of the block."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the header's ``block`` entry."""
        return {"start": self.start, "stop": self.stop, "shape": self.shape}


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a journal; see the module for the keys."""

    run: str
    id: str
    created_ns: int
    name: str | None
    labels: Labels
    total: int | None = None
    compression: str | None = None
    time: TimeBuffer | None = None
    block: Block | None = None
    forked_from: str | None = None

    def to_line(self, directory: str) -> bytes:
        """Return the line; long coordinates are written to a buffer of their own."""
        made: dict[str, Any] = {
            MAGIC: VERSION,
            "run": self.run,
            "id": self.id,
            "created_ns": self.created_ns,
            "name": self.name,
            "labels": _labels_to_json(self.labels, directory),
            "total": self.total,
            "compression": self.compression,
        }
        for key, part in (("time", self.time), ("block", self.block)):
            if part is not None:
                made[key] = part.to_json()
        if self.forked_from is not None:
            made["forked_from"] = self.forked_from
        return orjson.dumps(made) + b"\n"


@dataclass(frozen=True, slots=True)
class SegmentLine:
    """From this buffer and offset on, equal snapshots follow without a gap.

    Parameters
    ----------
    start
        Number of snapshots before this segment.
    buffer, offset
        Where its first snapshot lies.
    shape, dtype
        Of each snapshot.
    table
        Buffer of records, for compressed snapshots; as long as their buffer.
    first_record
        Place of the segment's first record in `table`.
    """

    start: int
    buffer: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    table: str | None = None
    first_record: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of one snapshot in memory."""
        return nbytes_of(self.shape, self.dtype)

    def to_line(self) -> bytes:
        """Return the line."""
        made: dict[str, Any] = {
            "start": self.start,
            "buffer": self.buffer,
            "offset": self.offset,
            "shape": self.shape,
            "dtype": self.dtype.name,
        }
        if self.table is not None:
            made |= {"table": self.table, "first_record": self.first_record}
        return orjson.dumps({"segment": made}) + b"\n"


def count_line(count: int) -> bytes:
    """Return the line that counts snapshots without bytes."""
    return orjson.dumps({"count": count}) + b"\n"


def end_line(count: int) -> bytes:
    """Return the last line of a closed journal."""
    return orjson.dumps({"end": {"count": count}}) + b"\n"


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal, as read at one moment: a pinned view.

    Parameters
    ----------
    path
        Absolute path of the file.
    header
        Its first line.
    segments
        In order.
    counts
        Complete snapshots of each segment.
    state
        Of its writer.
    """

    path: Path
    header: Header
    segments: tuple[SegmentLine, ...]
    counts: tuple[int, ...]
    state: State

    @property
    def count(self) -> int:
        """Number of complete snapshots."""
        return sum(self.counts)

    @property
    def directory(self) -> str:
        """Absolute directory of the journal and its buffers."""
        return os.fspath(self.path.parent)

    @property
    def uniform(self) -> bool:
        """Whether all snapshots have one shape and dtype."""
        return len({(line.shape, line.dtype) for line in self.segments}) <= 1

    def stored(self) -> Stored:
        """Return the snapshots as one stored array.

        Raises
        ------
        JournalError
            If they differ in shape or dtype, or there are none yet to tell.
        """
        if not self.segments:
            raise JournalError(f"journal {self.path.name!r} has no segment yet")
        first = self.segments[0]
        for number, line in enumerate(self.segments):
            if (line.shape, line.dtype) != (first.shape, first.dtype):
                raise JournalError(
                    f"journal {self.path.name!r}: snapshots from {line.start} on (segment {number}) "
                    f"have shape {line.shape} and dtype {line.dtype.name}, the first "
                    f"{first.shape} and {first.dtype.name}; open them one by one with "
                    "binref_sci.open_references(directory)"
                )
        segments = tuple(
            self._segment(line, count)
            for line, count in zip(self.segments, self.counts, strict=True)
            if count
        )
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


def read_records(directory: str, table: str, first: int, count: int) -> NDArray[np.int64]:
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
    place = Path(os.path.abspath(path))
    try:
        content = place.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise BufferNotFoundError(f"there is no journal {os.fspath(place)!r}") from error
    lines = content.split(b"\n")
    torn = lines.pop()  # empty after a whole line; else cut short by a crash
    if not lines:
        raise JournalError(
            f"{place.name!r} is not a journal: it has no complete line ({torn[:40]!r})"
        )
    parsed = [_parse_line(place, number, line) for number, line in enumerate(lines, start=1)]
    try:
        header = _header(parsed[0], place)
        segments = tuple(_segment_line(p["segment"]) for p in parsed[1:] if "segment" in p)
        ends = [int(p["end"]["count"]) for p in parsed[1:] if "end" in p]
        counted = max([int(p["count"]) for p in parsed[1:] if "count" in p], default=0)
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(f"journal {os.fspath(place)!r} is malformed: {error!r}") from error
    # The lock is looked at first: a writer that closes in between has written its end line
    # only after that, and is then still called writing, never interrupted.
    state: State = "complete" if ends else _unfinished(place)
    if state == "interrupted" and not ends:
        again = place.read_bytes()
        if again != content:
            return read_journal(place)
    counts = _counts(header, segments, ends[-1] if ends else None, counted, place)
    return Journal(place, header, segments, counts, state)


RUN_FILE = "run.json"


def run_id_of(directory: str | os.PathLike[str]) -> str | None:
    """Return the id of the call that is running in a directory, as its ``run.json`` says."""
    try:
        content = orjson.loads(Path(directory, RUN_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("state") != "running":
        return None
    run = content.get("run_id")
    return run if isinstance(run, str) else None


def locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether a living writer holds the journal."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _unfinished(place: Path) -> State:
    return "writing" if locked(place) else "interrupted"


def _parse_line(place: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise JournalError(
            f"journal {os.fspath(place)!r}, line {number}: not JSON ({error})"
        ) from error
    if not isinstance(parsed, dict):
        raise JournalError(f"journal {os.fspath(place)!r}, line {number}: not a JSON object")
    return parsed


def _header(parsed: Mapping[str, Any], place: Path) -> Header:
    version = parsed.get(MAGIC)
    if version != VERSION:
        found = "no journal header" if version is None else f"journal version {version!r}"
        raise JournalError(
            f"{os.fspath(place)!r} has {found} in its first line; this release reads version {VERSION}"
        )
    time = parsed.get("time")
    block = parsed.get("block")
    return Header(
        run=str(parsed.get("run", "")),
        id=str(parsed.get("id", place.name.removesuffix(SUFFIX))),
        created_ns=int(parsed.get("created_ns", 0)),
        name=parsed.get("name"),
        labels=_labels_from_json(parsed.get("labels", {}), os.fspath(place.parent)),
        total=parsed.get("total"),
        compression=parsed.get("compression"),
        time=None
        if time is None
        else TimeBuffer(
            time["buffer"],
            checked_dtype(time.get("dtype", "float64")),
            attrs_from_json(time.get("attrs", {})),
        ),
        block=None
        if block is None
        else Block(
            checked_shape(block["start"]),
            checked_shape(block["stop"]),
            checked_shape(block["shape"]),
        ),
        forked_from=parsed.get("forked_from"),
    )


def _segment_line(made: Mapping[str, Any]) -> SegmentLine:
    return SegmentLine(
        start=int(made.get("start", 0)),
        buffer=made["buffer"],
        offset=int(made.get("offset", 0)),
        shape=checked_shape(made["shape"]),
        dtype=checked_dtype(made["dtype"]),
        table=made.get("table"),
        first_record=int(made.get("first_record", 0)),
    )


def _counts(
    header: Header,
    segments: tuple[SegmentLine, ...],
    end: int | None,
    counted: int,
    place: Path,
) -> tuple[int, ...]:
    """Return the complete snapshots of each segment."""
    if not segments:
        return ()
    starts = [line.start for line in segments]
    total = end if end is not None else _whole(header, segments[-1], counted, place)
    counts = tuple(b - a for a, b in zip(starts, [*starts[1:], total], strict=True))
    if starts[0] != 0 or min(counts) < 0:
        raise JournalError(
            f"journal {os.fspath(place)!r}: segments start at {starts} and end at {total}; "
            "they must begin at 0 and not go back"
        )
    return counts


def _whole(header: Header, last: SegmentLine, counted: int, place: Path) -> int:
    """Return how many snapshots of an unfinished journal are complete, by its files."""
    directory = os.fspath(place.parent)
    size = _size(directory, last.buffer)
    if last.table is not None:
        made = _size(directory, last.table) // RECORD_BYTES - last.first_record
        while made > 0:  # a record may have reached the disk before its frame
            ((offset, length),) = read_records(
                directory, last.table, last.first_record + made - 1, 1
            )
            if offset + length <= size:
                break
            made -= 1
    elif last.nbytes:
        made = max(size - last.offset, 0) // last.nbytes
    else:
        made = max(counted - last.start, 0)
    total = last.start + max(made, 0)
    if header.time is not None:
        total = min(total, _size(directory, header.time.buffer) // header.time.dtype.itemsize)
    return max(total, last.start)


def _size(directory: str, buffer: str) -> int:
    return status_of(directory, buffer).st_size


def _labels_to_json(labels: Labels, directory: str) -> dict[str, Any]:
    short = {n: c for n, c in labels.coords.items() if _is_short(c[1])}
    made = labels.replace(coords=short).to_json()
    for name, (dims, values, attrs) in labels.coords.items():
        if name in short:
            continue
        buffer, fd = create_buffer(directory)
        try:
            write_at(fd, values, 0)
        finally:
            os.close(fd)
        made.setdefault("coords", {})[name] = {
            "dims": list(dims),
            "buffer": buffer,
            "shape": list(values.shape),
            "dtype": values.dtype.name,
            "attrs": attrs_to_json(attrs),
        }
    return made


def _is_short(values: NDArray[Any]) -> bool:
    return values.size <= INLINE_COORDINATE or values.dtype.name not in DTYPES


def _labels_from_json(made: Mapping[str, Any], directory: str) -> Labels:
    coords = dict(made.get("coords", {}))
    long = {name: coords.pop(name) for name, c in made.get("coords", {}).items() if "buffer" in c}
    labels = Labels.from_json({**made, "coords": coords})
    if not long:
        return labels
    read = {
        name: (tuple(c["dims"]), _read_coordinate(c, directory), attrs_from_json(c["attrs"]))
        for name, c in long.items()
    }
    return labels.replace(coords={**labels.coords, **read})


def _read_coordinate(made: Mapping[str, Any], directory: str) -> NDArray[Any]:
    shape, dtype = checked_shape(made["shape"]), checked_dtype(made["dtype"])
    segment = Segment(made["buffer"], 0, 1, math.prod(shape) * dtype.itemsize)
    values: NDArray[Any] = Stored(directory, (segment,), shape, dtype).read_snapshot(0, ())
    return values


def block_of(block: tuple[slice, ...] | None, shape: tuple[int, ...] | None) -> Block | None:
    """Return where a block of slices lies in a field of `shape`.

    Raises
    ------
    InvalidReferenceError
        If only one is given, a slice has a step, or it does not fit the field.
    """
    if block is None and shape is None:
        return None
    if block is None or shape is None:
        raise InvalidReferenceError(
            "block= (slices of the field) and shape= (of the whole field) must be given together"
        )
    whole = checked_shape(shape)
    if len(block) != len(whole):
        raise InvalidReferenceError(
            f"block has {len(block)} slices, but the field has {len(whole)} axes {whole}"
        )
    for axis, (part, length) in enumerate(zip(block, whole, strict=True)):
        inside = 0 <= (part.start or 0) <= (length if part.stop is None else part.stop) <= length
        if part.step not in (None, 1) or not inside:
            raise InvalidReferenceError(
                f"block[{axis}] is {part}, but must lie in 0 to {length} with step 1"
            )
    bounds = [part.indices(length) for part, length in zip(block, whole, strict=True)]
    return Block(tuple(b[0] for b in bounds), tuple(b[1] for b in bounds), whole)
