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

import errno
import fcntl
import itertools
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from binref_sci.dtypes import (
    DTYPES,
    checked_count,
    checked_dtype,
    checked_shape,
    nbytes_of,
)
from binref_sci.errors import BufferNotFoundError, InvalidReferenceError, JournalError
from binref_sci.labels import Labels, attrs_from_json, attrs_to_json
from binref_sci.naming import RUN_FILE
from binref_sci.plan import Segment, Stored
from binref_sci.reference import checked_compression
from binref_sci.storage import Root, create_buffer, root_of, size_of, write_at
from binref_sci.storage.remote import RemotePath

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


Text = Literal["U", "S", "O"]


@dataclass(frozen=True, slots=True)
class Form:
    """How snapshots make up a variable that was saved as a whole, not streamed.

    Its first axis is an axis like any other, not one of steps in time.

    Parameters
    ----------
    scalar
        There is one snapshot, and it is the variable: a single number or text.
    text
        The last axis holds characters: ``"U"`` Unicode code points, as NumPy has them,
        ``"O"`` the same, to be given back as Python objects, ``"S"`` bytes.
    """

    scalar: bool = False
    text: Text | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the header's ``variable`` entry."""
        made: dict[str, Any] = {"scalar": True} if self.scalar else {}
        return made | ({"text": self.text} if self.text else {})


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
    form: Form | None = None

    def to_line(self, directory: str, made_buffers: list[str]) -> bytes:
        """Return the line; long coordinates are written to buffers, named in `made_buffers`."""
        made: dict[str, Any] = {
            MAGIC: VERSION,
            "run": self.run,
            "id": self.id,
            "created_ns": self.created_ns,
            "name": self.name,
            "labels": _labels_to_json(self.labels, directory, made_buffers),
            "total": self.total,
            "compression": self.compression,
        }
        for key, part in (("time", self.time), ("block", self.block), ("variable", self.form)):
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

    def record(self, count: int) -> int:
        """Return the place in the table, in bytes, of the record of snapshot `count`."""
        return (self.first_record + count - self.start) * RECORD_BYTES

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
    made = _lines(place, content)
    if not made:
        raise JournalError(
            f"{place.name!r} is not a journal: it has no complete line ({content[:40]!r})"
        )
    try:
        header = _header(made[0], place)
        segments = tuple(_segment_line(p["segment"], header) for p in made[1:] if "segment" in p)
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


def _lines(place: Path | RemotePath, content: bytes) -> list[dict[str, Any]]:
    lines = content.split(b"\n")
    made = [
        _parse_line(place, number, line)
        for number, line in enumerate(lines[:-1], start=1)
        if line.strip()
    ]
    # Behind the last newline is what a crash has cut short, or a line written by hand:
    # only the latter is a whole object.
    try:
        last = orjson.loads(lines[-1])
    except orjson.JSONDecodeError:
        return made
    return [*made, last] if isinstance(last, dict) else made


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


def take_lock(fd: int, *, shared: bool = False) -> bool:
    """Take a file's lock if it is free; where a file system has no locks, all are free."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether a living writer holds the journal, or a living call its ``run.json``.

    In a store nobody can tell; then it is as if there were none.
    """
    if isinstance(path, RemotePath):
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not take_lock(fd, shared=True)
    finally:
        os.close(fd)


def hold(path: str | os.PathLike[str]) -> int | None:
    """Lock a journal or ``run.json`` that nobody holds; return a descriptor, None if one does."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(50):  # one who asks whether it is locked holds it for a moment
            if take_lock(fd):
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
                break
            time.sleep(0.002)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _parse_line(place: Path | RemotePath, number: int, line: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise JournalError(
            f"journal {os.fspath(place)!r}, line {number}: not JSON ({error})"
        ) from error
    if not isinstance(parsed, dict):
        raise JournalError(f"journal {os.fspath(place)!r}, line {number}: not a JSON object")
    return parsed


def _header(parsed: Mapping[str, Any], place: Path | RemotePath) -> Header:
    version = parsed.get(MAGIC)
    if version != VERSION:
        found = "no journal header" if version is None else f"journal version {version!r}"
        raise JournalError(
            f"{os.fspath(place)!r} has {found} in its first line; this release reads version {VERSION}"
        )
    name, total = parsed.get("name"), parsed.get("total")
    if not isinstance(name, str | None):
        raise TypeError(f"name is {name!r}")
    times, block, form = parsed.get("time"), parsed.get("block"), parsed.get("variable")
    return Header(
        run=str(parsed.get("run", "")),
        id=str(parsed.get("id", place.name.removesuffix(SUFFIX))),
        created_ns=checked_count(parsed.get("created_ns", 0), "created_ns"),
        name=name,
        labels=_labels_from_json(parsed.get("labels", {}), root_of(place.parent)),
        total=None if total is None else checked_count(total, "total"),
        compression=checked_compression(parsed.get("compression")),
        time=None if times is None else _time_buffer(times),
        block=None if block is None else _block(block),
        forked_from=parsed.get("forked_from"),
        form=None if form is None else _form(form),
    )


def _form(made: Mapping[str, Any]) -> Form:
    text = made.get("text")
    if text not in (None, "U", "S", "O"):
        raise ValueError(f"text is {text!r}")
    return Form(bool(made.get("scalar", False)), text)


def _time_buffer(made: Mapping[str, Any]) -> TimeBuffer:
    dtype = checked_dtype(made.get("dtype", "float64"))
    return TimeBuffer(_path(made["buffer"]), dtype, attrs_from_json(made.get("attrs", {})))


def _block(made: Mapping[str, Any]) -> Block:
    parts = [slice(a, b) for a, b in zip(made["start"], made["stop"], strict=True)]
    block = block_of(tuple(parts), checked_shape(made["shape"]))
    assert block is not None  # both were given
    return block


def _segment_line(made: Mapping[str, Any], header: Header) -> SegmentLine:
    table = made.get("table")
    if (table is None) != (header.compression is None):
        raise ValueError(f"compression {header.compression!r}, but table {table!r}")
    return SegmentLine(
        start=checked_count(made.get("start", 0), "start"),
        buffer=_path(made["buffer"]),
        offset=checked_count(made.get("offset", 0), "offset"),
        shape=checked_shape(made["shape"]),
        dtype=checked_dtype(made["dtype"]),
        table=None if table is None else _path(table),
        first_record=checked_count(made.get("first_record", 0), "first_record"),
    )


def _path(made: Any) -> str:
    if not isinstance(made, str):
        raise TypeError(f"a buffer is named by text, not {made!r}")
    return made


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


def _labels_to_json(labels: Labels, directory: str, made_buffers: list[str]) -> dict[str, Any]:
    short = {n: c for n, c in labels.coords.items() if _is_short(c[1])}
    made = labels.replace(coords=short).to_json()
    for name, (dims, values, attrs) in labels.coords.items():
        if name in short:
            continue
        buffer, fd = create_buffer(directory)
        made_buffers.append(buffer)
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


def _labels_from_json(made: Mapping[str, Any], directory: Root) -> Labels:
    coords = dict(made.get("coords", {}))
    long = {name: coords.pop(name) for name in [*coords] if "buffer" in coords[name]}
    labels = Labels.from_json({**made, "coords": coords})
    if not long:
        return labels
    read = {
        name: (c["dims"], _read_coordinate(c, directory), attrs_from_json(c.get("attrs", {})))
        for name, c in long.items()
    }
    return labels.replace(coords={**labels.coords, **read})


def _read_coordinate(made: Mapping[str, Any], directory: Root) -> NDArray[Any]:
    shape, dtype = checked_shape(made["shape"]), checked_dtype(made["dtype"])
    segment = Segment(_path(made["buffer"]), 0, 1, math.prod(shape) * dtype.itemsize)
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
    parts = tuple(block) if isinstance(block, tuple | list) else (block,)
    if len(parts) != len(whole):
        raise InvalidReferenceError(
            f"block has {len(parts)} slices, but the field has {len(whole)} axes {whole}"
        )
    bounds = []
    for axis, (part, length) in enumerate(zip(parts, whole, strict=True)):
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InvalidReferenceError(f"block[{axis}] must be a slice of step 1, got {part!r}")
        start = 0 if part.start is None else checked_count(part.start, f"block[{axis}].start")
        stop = length if part.stop is None else checked_count(part.stop, f"block[{axis}].stop")
        if not start <= stop <= length:
            raise InvalidReferenceError(f"block[{axis}] is {part}, but must lie in 0 to {length}")
        bounds.append((start, stop))
    return Block(tuple(a for a, _ in bounds), tuple(b for _, b in bounds), whole)
