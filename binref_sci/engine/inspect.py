"""Facts about a run for ``binref-sci show``: what is there, without reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from binref_sci.array import BinrefArray
from binref_sci.dtypes import nbytes_of
from binref_sci.engine import journals
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.dataset import variables
from binref_sci.engine.indexing import LazyData
from binref_sci.engine.manifest import manifest_of
from binref_sci.engine.source import Source, find
from binref_sci.engine.text import TextArray
from binref_sci.engine.variables import Data, Made, preferred_chunks
from binref_sci.html import Section, facts_html, size_text, sizes_text
from binref_sci.journal import Journal
from binref_sci.trajectory import Trajectory


@dataclass(frozen=True)
class Times:
    """The coordinate along the snapshots.

    Parameters
    ----------
    name
        Of the coordinate.
    first, last
        As numbers, or as text where `units` name a date; None without snapshots.
    units
        As written, or None.
    """

    name: str
    first: float | str | None
    last: float | str | None
    units: str | None


@dataclass(frozen=True)
class VariableFacts:
    """One variable.

    Parameters
    ----------
    name, dims, shape, dtype
        As in the Dataset.
    nbytes
        Once loaded.
    chunks
        Elements along each axis that are read at once.
    buffers
        Files it lies in; 0 if it lies within the response.
    compression
        Codec, or None.
    blocks
        Ranks that wrote it, or None.
    times
        Along its first axis.
    units
        Attribute of this name.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    chunks: tuple[int, ...]
    buffers: int
    compression: str | None
    blocks: int | None
    times: Times | None
    units: str | None


@dataclass(frozen=True)
class StreamFacts:
    """One journal of the run: how far its writer has come."""

    name: str
    state: str
    count: int
    total: int | None


@dataclass(frozen=True)
class RunFacts:
    """A run.

    Parameters
    ----------
    path
        What was opened.
    state
        ``writing``, ``complete`` or ``interrupted``.
    run
        What ``run.json`` says of the call.
    variables
        Output fields, then journals.
    streams
        Journals of the newest run.
    attrs
        Text among the outputs.
    older
        Journals of older runs in the same folder, the newest first; each opens by itself.
    """

    path: str
    state: str
    run: dict[str, Any]
    variables: tuple[VariableFacts, ...]
    streams: tuple[StreamFacts, ...]
    attrs: dict[str, Any]
    older: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all variables once loaded."""
        return sum(variable.nbytes for variable in self.variables)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that plain JSON can hold."""
        return asdict(self) | {"nbytes": self.nbytes}

    def _repr_html_(self) -> str:
        return run_html("Run", self)


_TOLD = ("component", "version", "endpoint", "run_id", "started", "ended", "state", "error")


def inspect(
    source: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> RunFacts:
    """Return what lies at a path or URL; journals, times and the response are read, no data.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `open_dataset`, but ragged lists are told in parts.
    """
    return inspect_place(find(source, storage_options))


def inspect_place(place: Source) -> RunFacts:
    """Return what lies at a place that has been found; as `inspect`."""
    made, attrs, state = variables(place, ragged=True)
    heads = journals.heads(place)
    members = journals.newest_run(heads, place)
    streams = [_stream(journals.read(head)) for head in members]
    others = sorted(
        (head for head in heads if head not in members),
        key=lambda head: (head.created_ns, head.path.name),
        reverse=True,
    )
    older = () if manifest_of(place.run, place.directory) else (head.path.name for head in others)
    run = {key: place.run[key] for key in _TOLD if place.run.get(key) is not None}
    facts = tuple(_variable(one) for one in made)
    return RunFacts(place.path, state, run, facts, tuple(streams), attrs, tuple(older))


def run_html(kind: str, facts: RunFacts) -> str:
    """Return facts about a run as HTML, under the name of the class that shows them."""
    told = [("folder", os.fspath(facts.path))]
    told += [(key, str(facts.run[key])) for key in _TOLD if key in facts.run and key != "state"]
    for stream in facts.streams:
        of = "" if stream.total is None else f" of {stream.total}"
        told.append((stream.name, f"{stream.count}{of} snapshots, {stream.state}"))
    rows = [
        (
            one.name,
            sizes_text(one.dims, one.shape) if one.dims else "scalar",
            one.dtype,
            size_text(one.nbytes),
            one.units or "",
            "" if one.times is None or one.times.first is None else times_text(one.times),
        )
        for one in facts.variables
    ]
    if facts.older:
        told.append(("older runs", older_text(facts.older)))
    attrs = [(str(key), str(value)) for key, value in facts.attrs.items()]
    count = len(rows)
    return facts_html(
        kind,
        f"{count} variable{'s' * (count != 1)}, {size_text(facts.nbytes)}",
        told,
        [
            Section("Variables", ("name", "dims", "dtype", "size", "units", "first axis"), rows),
            Section("Attributes", ("name", "value"), attrs, folded=True),
        ],
        state=facts.state,
    )


def older_text(journals: Sequence[str]) -> str:
    """Return how the journals of older runs are seen, in one line.

    Examples
    --------
    >>> older_text(["u-2a04.binref.jsonl"])
    '1 journal beside this run; open it by its name: u-2a04.binref.jsonl'
    """
    many = len(journals) != 1
    return (
        f"{len(journals)} journal{'s' * many} beside this run; open {'one' if many else 'it'} by its "
        f"name: {journals[0]}"
    )


def times_text(times: Times) -> str:
    """Return the range of times in one line.

    Examples
    --------
    >>> times_text(Times("time", 0.0, 2.5, "s"))
    '0 to 2.5 s'
    """
    if times.first is None or times.last is None:
        return "none yet"
    if isinstance(times.first, str):
        return f"{times.first} to {times.last}"
    return f"{times.first:g} to {times.last:g}" + (f" {times.units}" if times.units else "")


def _stream(journal: Journal) -> StreamFacts:
    header = journal.header
    name = header.name or journals.UNNAMED
    return StreamFacts(name, journal.state, journal.count, header.total)


def _variable(made: Made) -> VariableFacts:
    data = made.data
    inline = isinstance(data, np.ndarray)
    chunks = data.shape if isinstance(data, np.ndarray) else _largest(data)
    units = made.attrs.get("units")
    return VariableFacts(
        made.name,
        made.dims,
        tuple(data.shape),
        data.dtype.name,
        nbytes_of(tuple(data.shape), data.dtype),
        chunks,
        0 if inline else len(_buffers(data)),
        None if isinstance(data, np.ndarray | BlockArray) else data.compression,
        len(data.blocks) if isinstance(data, BlockArray) else None,
        _times(made),
        None if units is None else str(units),
    )


def _largest(data: LazyData) -> tuple[int, ...]:
    return tuple(max(lengths) for lengths in preferred_chunks(data))


def _buffers(data: Data) -> set[str]:
    if isinstance(data, Trajectory):
        return {segment.path for segment in data.segments}
    if isinstance(data, BlockArray):
        return set().union(*(_buffers(part) for part in data.parts))
    if isinstance(data, TextArray):
        return _buffers(data.codes)
    return {data.path} if isinstance(data, BinrefArray) else set()


def _times(made: Made) -> Times | None:
    coordinate = made.coords.get(made.dims[0]) if made.dims else None
    if coordinate is None or coordinate[1].dtype.kind not in "iuf":
        return None
    dims, values, attrs = coordinate
    units = attrs.get("units")
    if not len(values):
        return Times(made.dims[0], None, None, units)
    ends = values[[0, -1]]
    if isinstance(units, str) and " since " in units:
        try:
            ends = xr.conventions.decode_cf_variable(
                made.dims[0], xr.Variable(dims, ends, attrs), decode_timedelta=False
            ).values
        except ValueError:  # a date that none of the calendars has is shown as the number it is
            pass
        else:
            return Times(made.dims[0], str(ends[0]), str(ends[1]), units)
    return Times(made.dims[0], float(ends[0]), float(ends[1]), units)
