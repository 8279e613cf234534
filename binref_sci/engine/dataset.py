"""`open_dataset`: a run directory, a response or a journal as one lazy Dataset."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.engine import journals
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.lending import Lenders, Lent, along
from binref_sci.engine.results import Leaf, read_results
from binref_sci.engine.source import Source, find
from binref_sci.engine.variables import Coordinate, Data, Made, labelled, to_variable
from binref_sci.errors import JournalError
from binref_sci.journal import Journal
from binref_sci.labels import Labels
from binref_sci.trajectory import Trajectory

_ABOUT = ("component", "version", "run_id")
"""What a Dataset takes over from ``run.json`` as attributes."""


def open_dataset(
    source: str | os.PathLike[str],
    *,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
) -> xr.Dataset:
    """Open what a run has written as a lazy, labelled Dataset.

    Nothing is read but journals, times, coordinates and the response's JSON. Buffers are
    only looked for: one that is missing is an error now, one that is too short is an
    error when the part that is not there is read.

    Parameters
    ----------
    source
        A run directory, an output path (its newest run opens), a ``results.json`` or any
        other file with a ``json+binref`` response, or a journal.
    chunks
        ``{}``, the default: dask arrays with chunks of whole snapshots, about 64 MiB, none
        across two buffers. A dict by dimension, an integer, ``"auto"`` or ``-1``: as in
        xarray. None: lazy without dask.

    Returns
    -------
    xarray.Dataset
        A pinned view; open again to see what a running solver has added. Its variables
        are the output fields of ``results.json`` (nested ones by their path,
        ``flow.velocity``), then journals that no field stands for. A list of equal arrays
        is one variable with a leading dimension. Text is found in ``attrs``.

        ``encoding["source"]`` is the folder that was opened, ``encoding["binref_state"]``
        is ``"writing"``, ``"complete"`` or ``"interrupted"``. Of the last and the first
        all complete snapshots are there.

        Where variables disagree about the length or coordinates of a dimension, the first
        keeps its name; for the others it is called ``<variable>_<dimension>``: ``energy_time``
        of a variable that is written more often, or is a step ahead in a run still going.

    Raises
    ------
    BufferNotFoundError
        If there is nothing at this path, or a buffer is missing (a FileNotFoundError).
    FormatError
        If it is something else, or a list of arrays is ragged (a ValueError).
    JournalError
        If blocks of a parallel run are missing or overlap (a ValueError).

    Examples
    --------
    >>> import tempfile
    >>> from binref_sci.writer import BinrefWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> with BinrefWriter("heat", dims=("time", "x"), output_path=folder.name) as writer:
    ...     for step in range(3):
    ...         ref = writer.write(np.full(4, step, "f8"), time=0.5 * step)
    >>> ds = open_dataset(folder.name)
    >>> ds.heat.sel(time=0.5).values
    array([1., 1., 1., 1.])
    >>> folder.cleanup()
    """
    place = find(source)
    made, attrs, state = variables(place)
    ds = _assembled(made, chunks)
    ds.attrs = {key: place.run[key] for key in _ABOUT if place.run.get(key) is not None} | attrs
    ds.encoding = {"source": place.path, "binref_state": state}
    return ds


def variables(
    place: Source, *, ragged: bool = False
) -> tuple[list[Made], dict[str, Any], journals.RunState]:
    """Return the variables of a run, its text outputs, and its state; reads no data.

    Parameters
    ----------
    place
        Where the run lies.
    ragged
        Give what does not fit into one variable in parts, instead of refusing it.
    """
    heads = journals.heads(place)
    members = journals.newest_run(heads, place)
    newest = [journals.read(head) for head in members]
    state = journals.state_of(newest, place)
    made: list[Made] = []
    attrs: dict[str, Any] = {}
    hidden = Lenders(place.directory, newest, [head for head in heads if head not in members])
    if place.results is not None and journals.follows_results(members, place):
        schema = SchemaLabels(place.run.get("labels"))
        for path, leaf in read_results(place.results, place.directory, ragged=ragged):
            if isinstance(leaf, str | list):
                attrs[path] = leaf
            else:
                made.append(_field(path, leaf, hidden, schema))
    taken = {one.name for one in made}
    for name, group in journals.named(
        [journal for journal in newest if hidden.shows(journal)]
    ).items():
        if not any(journal.segments for journal in group):
            continue  # begun, and without a snapshot yet
        free = name if name not in taken else f"{name}_journal"
        if ragged and not all(journal.uniform for journal in group):
            parts = [stored for journal in group for stored in journal.each_segment()]
            made += [
                labelled(f"{free}.[{number}]", Trajectory(stored), Labels())
                for number, stored in enumerate(parts)
            ]
        else:
            made.append(_streamed(free, group, heads))
    return made, attrs, state


def dataset_of(
    fields: Iterable[tuple[str, Leaf]],
    directory: str,
    labels: Mapping[str, Any],
    *,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
) -> xr.Dataset:
    """Return a Dataset of output fields that are there already, as `open_dataset` would.

    Parameters
    ----------
    fields
        Path and value of each.
    directory
        Absolute directory that the buffers of lazy ones are relative to.
    labels
        Of the output schema, as ``run.json`` has them.
    chunks
        As for `open_dataset`.

    Raises
    ------
    BufferNotFoundError
        If a buffer is missing.
    """
    lenders, schema = Lenders(directory, (), ()), SchemaLabels(labels)
    made: list[Made] = []
    attrs: dict[str, Any] = {}
    for path, leaf in fields:
        if isinstance(leaf, str | list):
            attrs[path] = leaf
        else:
            made.append(_field(path, leaf, lenders, schema))
    ds = _assembled(made, chunks)
    ds.attrs = attrs
    return ds


def _field(name: str, leaf: Leaf, lenders: Lenders, schema: SchemaLabels) -> Made:
    """Return an output field, labelled by its journal, and by its schema where that is silent."""
    assert not isinstance(leaf, str | list)  # text is no variable
    lent: Lent | None = None
    if isinstance(leaf, Trajectory):
        lent = lenders.of_trajectory(leaf)
    elif isinstance(leaf, BinrefArray):
        lent = lenders.of_array(leaf)
    labels = schema.of(name, leaf.ndim)
    if lent is None:
        return labelled(name, leaf, labels)
    labels = merged(lent.labels, labels)
    return labelled(name, leaf, labels, times=lent.times, along=lent.along)


def merged(own: Labels, schema: Labels) -> Labels:
    """Return a journal's labels, and the schema's where it is silent."""
    return Labels.of(
        own.dims or schema.dims, {**schema.coords, **own.coords}, {**schema.attrs, **own.attrs}
    )


def _streamed(name: str, group: list[Journal], heads: list[journals.Head]) -> Made:
    """Return what a writer streamed, or several their blocks of."""
    first = group[0]
    data: Data
    times: NDArray[Any] | None
    if first.header.block is None:
        trajectory = Trajectory.from_journal(first)
        data, times, labels = trajectory, trajectory.times, trajectory.labels
    else:
        empty = [j for j in group if not j.segments]
        try:
            blocks = BlockArray(name, [Trajectory.from_journal(j) for j in group if j not in empty])
        except JournalError as error:
            raise _with_other_runs(error, first, heads) from error
        data, times, labels = blocks, blocks.times, blocks.labels()
    time = first.header.time
    given = None if time is None or times is None else (times, dict(time.attrs))
    return labelled(name, data, labels, times=given, along=along(first))


def _with_other_runs(
    error: JournalError, first: Journal, heads: list[journals.Head]
) -> JournalError:
    others = {head.run for head in heads} - {first.header.run}
    if "missing" not in str(error) or not others:
        return error
    return JournalError(
        f"{error}. There are journals of {len(others)} other runs beside it: ranks that write one "
        "field outside of a call must give BinrefWriter the same run_id="
    )


class SchemaLabels:
    """Labels of the output schema, by path: ``layers.[].weight``, ``named.{}``."""

    def __init__(self, made: Any) -> None:
        self._patterns: list[tuple[re.Pattern[str], Labels]] = []
        if isinstance(made, Mapping):
            for path, labels in made.items():
                pattern = re.escape(path).replace(r"\[\]", r"\[\d+\]").replace(r"\{\}", ".+")
                self._patterns.append((re.compile(pattern), Labels.from_json(labels)))

    def of(self, path: str, ndim: int) -> Labels:
        """Return the labels of a field; those of a list's elements lack its first axis."""
        for pattern, labels in self._patterns:
            if pattern.fullmatch(path):
                return labels
        for pattern, labels in self._patterns:
            if pattern.fullmatch(f"{path}.[0]"):
                dims = labels.dims
                if dims is not None and len(dims) == ndim - 1:
                    return labels.replace(dims=("time", *dims))
                return labels
        return Labels()


def _assembled(made: list[Made], chunks: Any) -> xr.Dataset:
    """Return the Dataset; dimensions that do not agree are told apart."""
    made = [_along_itself(one, made) for one in made]
    axes = _Axes({one.name: one.shape for one in made})
    data: dict[str, xr.Variable] = {}
    coords: dict[str, Coordinate] = {}
    agreements = [axes.agree(one) for one in made]
    along = {dim for agreed, _ in agreements for dim in agreed.dims}
    for one, (agreed, renamed) in zip(made, agreements, strict=True):
        for key, (dims, values, attrs) in one.coords.items():
            there = tuple(renamed[dim] for dim in dims)
            name = renamed.get(key, key)
            known = coords.get(name)
            probed = not there and name in along  # one point of what is an axis elsewhere
            if probed or (known is not None and not _same(known, (there, values, attrs))):
                name = f"{one.name}_{key}"
            if known is None or name not in coords:
                coords[name] = (there, values, attrs)
        data[one.name] = to_variable(agreed, chunks)
    _check_chunks(chunks, {dim for one in data.values() for dim in one.dims})
    found = {
        name: xr.Variable(dims, values, attrs)
        for name, (dims, values, attrs) in coords.items()
        if name not in data
    }
    # Only "<unit> since <date>" makes a date; "s" and "days" stay numbers.
    decoded, _, coord_names = xr.conventions.decode_cf_variables(
        {**found, **data}, {}, decode_timedelta=False
    )
    ds = xr.Dataset(decoded)
    return ds.set_coords([name for name in {*found, *coord_names} if name in ds.variables])


def _along_itself(one: Made, made: list[Made]) -> Made:
    """Return an unlabelled field ``x`` as the coordinate that the dimension ``x`` of others asks for."""
    wanted = {
        length
        for other in made
        for dim, length in zip(other.dims, other.shape, strict=True)
        if dim == one.name
    }
    unlabelled = one.dims == (f"{one.name}_dim_0",)
    return replace(one, dims=(one.name,)) if unlabelled and one.shape[0] in wanted else one


def _check_chunks(chunks: Any, dims: set[Any]) -> None:
    unknown = set(chunks) - dims if isinstance(chunks, Mapping) else set()
    if unknown:
        raise ValueError(
            f"chunks names {sorted(map(str, unknown))}, but the dimensions are "
            f"{sorted(map(str, dims))}"
        )


class _Axes:
    """The dimensions so far: name -> length, and coordinate along it if there is one.

    Parameters
    ----------
    fields
        Shapes of all variables by name. A dimension has the name of one only if that
        can be its coordinate.
    """

    def __init__(self, fields: Mapping[str, tuple[int, ...]]) -> None:
        self._fields = fields
        self._known: dict[str, tuple[int, Coordinate | None]] = {}

    def agree(self, made: Made) -> tuple[Made, dict[str, str]]:
        """Return a variable with dimensions that agree with the ones before, and their new names."""
        renamed: dict[str, str] = {}
        for dim, length in zip(made.dims, made.shape, strict=True):
            coordinate = made.coords.get(dim)
            for name in self._candidates(dim, made.name):
                known = self._known.get(name)
                if self._fields.get(name, (length,)) != (length,):
                    continue
                if known is None or (known[0] == length and _fits(known[1], coordinate)):
                    before = None if known is None else known[1]
                    self._known[name] = (length, before or coordinate)
                    renamed[dim] = name
                    break
        dims = tuple(renamed[dim] for dim in made.dims)
        return replace(made, dims=dims), renamed

    def _candidates(self, dim: str, variable: str) -> Iterator[str]:
        yield dim
        # One that another variable had to be given for this dimension may do here too.
        yield from [name for name in self._known if name.endswith(f"_{dim}")]
        own = f"{variable}_{dim}"
        yield own
        while True:
            own += "_"
            yield own


def _fits(known: Coordinate | None, given: Coordinate | None) -> bool:
    return known is None or given is None or _same(known, given)


def _same(one: Coordinate, other: Coordinate) -> bool:
    values, others = one[1], other[1]
    return (
        len(one[0]) == len(other[0])
        and values.shape == others.shape
        and one[2].get("units") == other[2].get("units")
        and np.array_equal(
            values, others, equal_nan=values.dtype.kind in "fc" and others.dtype.kind in "fc"
        )
    )
