"""A dataset that `to_binref` has saved, opened again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import xarray as xr

from binref_sci.engine.manifest import ROOT, Group, Manifest
from binref_sci.engine.text import TextArray
from binref_sci.engine.variables import Data, Made
from binref_sci.errors import BufferNotFoundError, FormatError
from binref_sci.hints import meant
from binref_sci.journal import Journal, read_journal
from binref_sci.storage import Root, place_of
from binref_sci.trajectory import Trajectory


def saved_variable(name: str, journal: Journal) -> Made:
    """Return a variable whose journal has a `Form`, as it was saved: encoded."""
    form = journal.header.form
    assert form is not None  # the caller looked
    trajectory = Trajectory.from_journal(journal)
    data: Data = trajectory[0] if form.scalar else trajectory
    if form.text is not None:
        assert not isinstance(data, np.ndarray)  # both are lazy
        data = TextArray(trajectory[0] if form.scalar else trajectory, form.text)
    labels = journal.header.labels
    return Made(name, data, labels.dims or (), {}, dict(labels.attrs))


def saved_group(manifest: Manifest, path: str | None, directory: str) -> tuple[str, Group]:
    """Return one group of a saved tree, and its path.

    Raises
    ------
    FormatError
        If there is none of this name; lists the others.
    """
    wanted = "/" + (path or "").strip("/")
    group = manifest.groups.get(wanted)
    if group is None:
        above, _, name = wanted.rpartition("/")
        around = manifest.groups.get(above or ROOT)
        is_variable = around is not None and name in around.variables
        raise no_group(directory, path, sorted(manifest.groups), is_variable=is_variable)
    return wanted, group


def no_group(directory: str, group: object, known: list[str], *, is_variable: bool) -> FormatError:
    """Return the error of a group that is not there.

    Parameters
    ----------
    directory
        Where it was looked for.
    group
        What was asked for.
    known
        Paths of those that are there.
    is_variable
        Whether it is the path of a variable.
    """
    hint = "; that is a variable: open it without group= and take it from the Dataset"
    return FormatError(
        f"{directory!r} has no group {group!r}; its groups are {known or 'none'}"
        f"{hint if is_variable else meant(group, known)}"
    )


def saved_variables(group: Group, directory: Root) -> list[Made]:
    """Return the variables of a group, encoded; reads their journals, no data.

    Raises
    ------
    BufferNotFoundError, JournalError
        Naming the variable.
    """
    made = []
    for name, journal in group.variables.items():
        try:
            made.append(saved_variable(name, read_journal(place_of(directory) / journal)))
        except BufferNotFoundError as error:
            raise BufferNotFoundError(f"variable {name!r}: {error}") from error
    return made


def all_variables(manifest: Manifest, directory: Root) -> list[Made]:
    """Return the variables of all groups; those below the root are called by their path."""
    return [
        one if path == ROOT else replace(one, name=f"{path.lstrip('/')}/{one.name}")
        for path, group in manifest.groups.items()
        for one in saved_variables(group, directory)
    ]


def decoded(raw: Mapping[str, xr.Variable], group: Group) -> xr.Dataset:
    """Return encoded variables of a group as a Dataset."""
    variables, attrs, coords = xr.conventions.decode_cf_variables(
        dict(raw),
        dict(group.attrs),
        # "s" and "days" alone stay numbers: a timedelta says that it is one.
        decode_timedelta=xr.coders.CFTimedeltaCoder(decode_via_units=False),
    )
    ds = xr.Dataset(variables, attrs=attrs)
    return ds.set_coords([name for name in {*coords, *group.coords} if name in ds.variables])
