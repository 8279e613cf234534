"""The lines of a journal, as objects and as they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import orjson

from binref_sci.dtypes import nbytes_of
from binref_sci.journal.block import Block
from binref_sci.journal.coordinates import labels_to_json
from binref_sci.labels import Labels, attrs_to_json

SUFFIX = ".binref.jsonl"
VERSION = 1

MAGIC = "binref_journal"

RECORD = np.dtype("<i8")

RECORD_BYTES = 2 * RECORD.itemsize


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
            "labels": labels_to_json(self.labels, directory, made_buffers),
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
