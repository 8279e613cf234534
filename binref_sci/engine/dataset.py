"""What a run has written: its variables, how they are labelled, and its state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.engine import journals
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.joining import without_replaced
from binref_sci.engine.lending import Lenders, Lent, along
from binref_sci.engine.manifest import manifest_of
from binref_sci.engine.results import Leaf, read_results
from binref_sci.engine.saved import all_variables, saved_variable
from binref_sci.engine.source import Source
from binref_sci.engine.variables import Data, Made, group_of, labelled
from binref_sci.errors import BinrefError, JournalError
from binref_sci.journal import Journal
from binref_sci.labels import Labels
from binref_sci.trajectory import Trajectory


def variables(
    place: Source, *, ragged: bool = False, refused: dict[str, BinrefError] | None = None
) -> tuple[list[Made], dict[str, Any], journals.RunState]:
    """Return the variables of a run, its text outputs, and its state; reads no data.

    Parameters
    ----------
    place
        Where the run lies.
    ragged
        Give what does not fit into one variable in parts, instead of refusing it.
    refused
        Takes the errors of what is no variable, by name, instead of the first being raised.
    """
    manifest = manifest_of(place.run, place.directory)
    if manifest is not None:
        return all_variables(manifest, place.directory), {}, "complete"
    heads = journals.heads(place)
    members = journals.newest_run(heads, place)
    newest = [journals.read(head) for head in members]
    state = journals.state_of(newest, place)
    made: list[Made] = []
    attrs: dict[str, Any] = {}
    hidden = Lenders(place.directory, newest, [head for head in heads if head not in members])
    schema = SchemaLabels(place.run.get("labels"))
    if place.results is not None and journals.follows_results(members, place):
        for path, leaf in read_results(
            place.results, place.directory, ragged=ragged, refused=refused
        ):
            if isinstance(leaf, str | list):
                attrs[path] = leaf
            else:
                one = _field(path, leaf, hidden, schema)
                made.append(replace(one, group=group_of(path)))
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
            try:
                made.append(_streamed(free, group, heads, schema))
            except JournalError as error:
                if refused is None:
                    raise
                refused[free] = error
    return made, attrs, state


def fields(
    leaves: Iterable[tuple[str, Leaf]], directory: str, labels: Mapping[str, Any]
) -> tuple[list[Made], dict[str, Any]]:
    """Return variables and text of output fields that are there already.

    Parameters
    ----------
    leaves
        Path and value of each.
    directory
        Absolute directory that the buffers of lazy ones are relative to.
    labels
        Of the output schema, as ``run.json`` has them.
    """
    lenders, schema = Lenders(directory, (), ()), SchemaLabels(labels)
    made: list[Made] = []
    attrs: dict[str, Any] = {}
    for path, leaf in leaves:
        if isinstance(leaf, str | list):
            attrs[path] = leaf
        else:
            made.append(_field(path, leaf, lenders, schema))
    return made, attrs


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


def _streamed(
    name: str, group: list[Journal], heads: list[journals.Head], schema: SchemaLabels
) -> Made:
    """Return what a writer streamed, or several their blocks of.

    A run that is going, or was killed, has no output fields yet: what the schema says of the
    field that the writer is named after labels its trajectory.
    """
    first = group[0]
    data: Data
    times: NDArray[Any] | None
    if first.header.form is not None:
        return saved_variable(name, first)
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
    meant = schema.of(name, len(data.shape))
    if meant.dims is not None and len(meant.dims) != len(data.shape):
        meant = meant.replace(dims=None, coords={})
    labels = merged(labels, meant)
    time = first.header.time
    given = None if time is None or times is None else (times, dict(time.attrs))
    made = labelled(name, data, labels, times=given, along=along(first))
    return without_replaced(made, [line.start for line in first.segments])


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
        self._exact: Mapping[str, Any] = made if isinstance(made, Mapping) else {}
        self._patterns: list[tuple[re.Pattern[str], Labels]] = []
        for path, labels in self._exact.items():
            if "[]" in path or "{}" in path:
                pattern = re.escape(path).replace(r"\[\]", r"\[\d+\]").replace(r"\{\}", ".+")
                self._patterns.append((re.compile(pattern), Labels.from_json(labels)))

    def of(self, path: str, ndim: int) -> Labels:
        """Return the labels of a field; those of a list's elements lack its first axis."""
        if path in self._exact:  # there may be thousands: one for each block of a Jacobian
            return Labels.from_json(self._exact[path])
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
