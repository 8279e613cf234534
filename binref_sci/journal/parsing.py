"""From the lines of a journal, as they were read, to objects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from binref_sci.dtypes import checked_count, checked_shape, dtype_on_disk
from binref_sci.errors import JournalError
from binref_sci.journal.block import Block, block_of
from binref_sci.journal.coordinates import checked_path, labels_from_json
from binref_sci.journal.lines import MAGIC, SUFFIX, VERSION, Form, Header, SegmentLine, TimeBuffer
from binref_sci.labels import attrs_from_json
from binref_sci.reference import checked_compression
from binref_sci.storage import root_of
from binref_sci.storage.remote import RemotePath


def parsed_lines(place: Path | RemotePath, content: bytes) -> list[dict[str, Any]]:
    """Return the complete lines of a journal; `JournalError` if one is no object."""
    lines = content.split(b"\n")
    made = [
        _parsed_line(place, number, line)
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


def _parsed_line(place: Path | RemotePath, number: int, line: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise JournalError(
            f"journal {os.fspath(place)!r}, line {number}: not JSON ({error})"
        ) from error
    if not isinstance(parsed, dict):
        raise JournalError(f"journal {os.fspath(place)!r}, line {number}: not a JSON object")
    return parsed


def header_of(parsed: Mapping[str, Any], place: Path | RemotePath) -> Header:
    """Return the header that a first line holds; raises as its values do."""
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
        labels=labels_from_json(parsed.get("labels", {}), root_of(place.parent)),
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
    dtype = dtype_on_disk(made.get("dtype", "float64"))
    return TimeBuffer(checked_path(made["buffer"]), dtype, attrs_from_json(made.get("attrs", {})))


def _block(made: Mapping[str, Any]) -> Block:
    parts = [slice(a, b) for a, b in zip(made["start"], made["stop"], strict=True)]
    block = block_of(tuple(parts), checked_shape(made["shape"]))
    assert block is not None  # both were given
    return block


def segment_line_of(made: Mapping[str, Any], header: Header) -> SegmentLine:
    """Return the segment that a line holds; raises as its values do."""
    table = made.get("table")
    if (table is None) != (header.compression is None):
        raise ValueError(f"compression {header.compression!r}, but table {table!r}")
    return SegmentLine(
        start=checked_count(made.get("start", 0), "start"),
        buffer=checked_path(made["buffer"]),
        offset=checked_count(made.get("offset", 0), "offset"),
        shape=checked_shape(made["shape"]),
        dtype=dtype_on_disk(made["dtype"]),
        table=None if table is None else checked_path(table),
        first_record=checked_count(made.get("first_record", 0), "first_record"),
    )
