"""A run that has been looked at: its variables, before they are decoded and grouped."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import xarray as xr
from dask.base import tokenize

from binref_sci.engine.assembly import Axes, assembled
from binref_sci.engine.dataset import variables
from binref_sci.engine.encoding import NO_NAME
from binref_sci.engine.joining import joined
from binref_sci.engine.journals import RunState
from binref_sci.engine.manifest import Manifest, manifest_of
from binref_sci.engine.saved import no_group, saved_group, saved_variables
from binref_sci.engine.source import Source, find
from binref_sci.engine.steps import in_step
from binref_sci.engine.variables import Made, group_of, name_in_tree, to_variable, token_of
from binref_sci.errors import BinrefError, FormatError

_ABOUT = ("component", "version", "run_id")
"""What a Dataset takes over from ``run.json`` as attributes."""


@dataclass(eq=False)
class Prepared(os.PathLike[str]):
    """What lies at a path, as of one moment; a path-like for xarray.

    Its dask token is that of the files: xarray names chunks by it, so nothing computed
    from files that were rewritten since is ever taken for theirs.

    Parameters
    ----------
    path
        What was opened.
    made
        Variables; of nested results with their group.
    attrs
        Text outputs by path.
    about
        Attributes of the whole.
    state
        Of the run; None if there is none.
    asked
        Chunks that are asked for. Where they are given by length xarray is not told which
        ones are preferred: it would warn that others cost, which here they do not.
    saved
        What `to_binref` has saved here, if that is what it is.
    is_remote
        Whether it lies in a store.
    refused
        Errors of what is no variable, by path: for whoever does not leave it out.
    """

    path: str
    made: list[Made]
    attrs: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    state: RunState | None = None
    asked: Any = None
    saved: Manifest | None = None
    is_remote: bool = False
    refused: Mapping[str, BinrefError] = field(default_factory=dict)
    in_memory: dict[Hashable, xr.Variable] = field(default_factory=dict, init=False)
    preferred: dict[Hashable, dict[str, Any]] = field(default_factory=dict, init=False)

    def __fspath__(self) -> str:
        return self.path

    @cached_property
    def token(self) -> str:
        """What changes when the files do."""
        made: str = tokenize(self.path, [token_of(one) for one in self.made])
        return made

    def __dask_tokenize__(self) -> Any:
        return "binref_sci", self.token

    def dataset(
        self, group: str | None = None, *, drop: frozenset[str], mmap: bool, **decoders: Any
    ) -> xr.Dataset:
        """Return the Dataset of a group, or of everything by path."""
        self._check(mmap=mmap)
        made, attrs = self.made, dict(self.attrs)
        if self.saved is not None:
            return self._saved_dataset(group, drop, mmap=mmap, decoders=decoders)
        if group is None:
            self.require(drop)
        else:
            wanted = _parts(group)
            self.require(drop, wanted)
            self._check_group(wanted)
            made = self._within(wanted)
            attrs = _attrs_of(attrs, wanted)
        return self._decoded(made, attrs, None, drop, mmap=mmap, decoders=decoders)[0]

    def groups(
        self, group: str | None = None, *, drop: frozenset[str], mmap: bool, **decoders: Any
    ) -> dict[str, xr.Dataset]:
        """Return the Datasets of all groups below one, by path."""
        self._check(mmap=mmap)
        if self.saved is not None:
            root = saved_group(self.saved, group, self.path)[0].rstrip("/")
            return {
                path[len(root) :] or "/": self._saved_dataset(
                    path, drop, mmap=mmap, decoders=decoders
                )
                for path in self.saved.groups
                if path == (root or "/") or path.startswith(f"{root}/")
            }
        above = _parts(group or "")
        self.require(drop, above, below=True)
        self._check_group(above)
        paths = [path for path in self._groups if path[: len(above)] == above]
        found: dict[str, xr.Dataset] = {}
        axes: dict[tuple[str, ...], Axes] = {}
        inherited: dict[tuple[str, ...], set[Hashable]] = {}
        for path in sorted(paths, key=lambda path: (len(path), path)):
            ds, axes[path] = self._decoded(
                self._within(path),
                _attrs_of(self.attrs, path),
                axes.get(path[:-1]) if path else None,
                drop,
                mmap=mmap,
                decoders=decoders,
            )
            below = {each[len(path) :] for each in paths if each[: len(path)] == path != each}
            ds = _apart(ds, inherited.get(path[:-1], set()) if path != above else set(), below)
            own = {name for name in ds.coords if ds.variables[name].dims == (name,)}
            inherited[path] = inherited.get(path[:-1], set()) | own
            found["/" + "/".join(path[len(above) :])] = ds
        return found

    def _within(self, group: tuple[str, ...]) -> list[Made]:
        """Return the variables of a group under names of their own, which no group below has."""
        depth = len(group)
        taken = {one.group[depth] for one in self.made if one.group[:depth] == group != one.group}
        made = []
        for one in self.made:
            if one.group == group:
                made.append(_short(one, taken))
                taken.add(made[-1].name)
        return made

    def require(
        self,
        drop: frozenset[str] = frozenset(),
        group: tuple[str, ...] | None = None,
        *,
        below: bool = False,
    ) -> None:
        """Raise the error of what is no variable, unless it is dropped or of another group.

        Parameters
        ----------
        drop
            By path; where there is a group, by the name within it.
        group
            The one that is opened; None: all of them, flat.
        below
            Also those below it.
        """
        for path, error in self.refused.items():
            *above, name = path.split(".")
            if group is None:
                wanted = path not in drop
            else:
                here = tuple(above[: len(group)] if below else above)
                wanted = here == group and name not in drop
            if wanted:
                raise error

    @property
    def _groups(self) -> set[tuple[str, ...]]:
        """Groups in which something lies, and those above them."""
        ends = [one.group for one in self.made]
        ends += [group_of(path) for path in (*self.attrs, *self.refused)]
        return {()} | {end[:depth] for end in ends for depth in range(1, len(end) + 1)}

    def _check_group(self, wanted: tuple[str, ...]) -> None:
        if wanted not in self._groups:
            known = sorted("/".join(path) for path in self._groups if path)
            is_variable = any(one.name == ".".join(wanted) for one in self.made)
            raise no_group(self.path, "/".join(wanted), known, is_variable=is_variable)

    def _check(self, *, mmap: bool) -> None:
        if mmap and self.is_remote:
            raise ValueError(
                f"mmap=True maps files of this machine, and {self.path!r} is a URL; leave it out, or "
                "copy the run to a disk first"
            )

    def _saved_dataset(
        self, path: str | None, drop: frozenset[str], *, mmap: bool, decoders: dict[str, Any]
    ) -> xr.Dataset:
        assert self.saved is not None  # the caller looked
        at, group = saved_group(self.saved, path, self.path)
        made = [one for one in self.made if one.group == _parts_of(at)]
        found: dict[Hashable, xr.Variable] = {
            None if one.name == NO_NAME else one.name: to_variable(one, mmap=mmap)
            for one in made
            if one.name not in drop
        }
        coordinates = set(group.coords) if decoders["decode_coords"] else set()
        return self._of(found, coordinates, group.attrs, drop, decoders)

    def _decoded(
        self,
        made: list[Made],
        attrs: Mapping[str, Any],
        parent: Axes | None,
        drop: frozenset[str],
        *,
        mmap: bool,
        decoders: dict[str, Any],
    ) -> tuple[xr.Dataset, Axes]:
        """Return variables of a run whose dimensions have been made to agree."""
        found, coordinates, axes = assembled(
            made, parent, drop=drop, mmap=mmap and self.state == "complete"
        )
        return self._of(found, coordinates, attrs, drop, decoders), axes

    def _of(
        self,
        found: Mapping[Any, xr.Variable],
        coordinates: set[str],
        attrs: Mapping[str, Any],
        drop: frozenset[str],
        decoders: dict[str, Any],
    ) -> xr.Dataset:
        """Return variables as xarray's own engines do: decoded, lazy, without an index."""
        for name, one in found.items():
            preferred = self.preferred[name] = one.encoding.get("preferred_chunks", {})
            if preferred:
                one.encoding["preferred_chunks"] = _not_asked(preferred, self.asked)
        eager = {name for name, one in found.items() if one._in_memory}
        decoded, attributes, named = xr.conventions.decode_cf_variables(
            dict(found), dict(attrs), drop_variables=drop, **decoders
        )
        within = {
            name
            for name, one in decoded.items()
            if name in coordinates or name in named or one.dims == (name,)
        }
        ds = xr.Dataset(
            {name: one for name, one in decoded.items() if name not in within},
            coords=xr.Coordinates({n: decoded[n] for n in decoded if n in within}, indexes={}),
            attrs={**self.about, **attributes},
        )
        self.in_memory = {
            name: one.copy(deep=False) for name, one in ds.variables.items() if name in eager
        }
        ds.set_close(_close)
        ds.encoding = {"source": self.path}
        if self.state is not None:
            ds.encoding["binref_state"] = self.state
        return ds


def _close() -> None:
    """Close a Dataset: no file is kept open, but xarray calls what each of many has to close it."""


def prepare(
    source: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Prepared:
    """Look at what lies at a path or URL; reads journals, times and the response's JSON.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `open_dataset`.
    """
    return prepare_place(find(source, storage_options))


def prepare_place(place: Source) -> Prepared:
    """Look at a place that has been found.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `open_dataset`.
    """
    manifest = manifest_of(place.run, place.directory)
    if manifest is not None:
        made = [
            replace(one, group=_parts_of(path))
            for path, group in manifest.groups.items()
            for one in saved_variables(group, place.directory)
        ]
        return Prepared(
            place.path, made, {}, {}, "complete", saved=manifest, is_remote=place.is_remote
        )
    refused: dict[str, BinrefError] = {}
    made, attrs, state = variables(place, refused=refused)
    if state != "complete":
        made, ahead = in_step(made, lambda: variables(place, refused={})[0])
        if ahead and state == "interrupted":
            warnings.warn(
                f"the run in {place.path!r} was interrupted between two writes: the last snapshot "
                f"of {', '.join(map(repr, ahead))} has none of the other variables beside it and is "
                "left out; open the variable's journal to see it",
                RuntimeWarning,
                stacklevel=2,
            )
    elif not made and place.run.get("output_format") in ("json", "json+base64"):
        warnings.warn(
            f"the run in {place.path!r} answered in {place.run['output_format']}: what it returned went "
            "into the response, and nothing is here to be opened; lazy=True or "
            "output_format='json+binref' leaves it here",
            RuntimeWarning,
            stacklevel=2,
        )
    about = {key: place.run[key] for key in _ABOUT if place.run.get(key) is not None}
    return Prepared(
        place.path, made, attrs, about, state, is_remote=place.is_remote, refused=refused
    )


def prepare_joined(
    sources: Sequence[str | os.PathLike[str]], storage_options: Mapping[str, Any] | None = None
) -> Prepared:
    """Look at the runs of one simulation that was restarted, in order of time.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `prepare`; also if the runs are no parts of one simulation.
    """
    runs = [prepare(source, storage_options) for source in sources]
    if not runs:
        raise FormatError("there is no run to open: the list of paths is empty")
    for run in runs:
        if run.saved is not None:
            raise FormatError(
                f"{run.path!r} was saved by to_binref and is no run that goes on; open each, and "
                "put them together with xarray.concat"
            )
    last = runs[-1]
    made = joined([(run.path, run.made) for run in runs])
    refused = {path: error for run in runs for path, error in run.refused.items()}
    return replace(last, made=made, refused=refused)


def prepare_any(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    storage_options: Mapping[str, Any] | None = None,
) -> Prepared:
    """Look at a path or URL, or at the runs of one simulation that a list of them names.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `open_dataset`.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return prepare_joined(source, storage_options)
    return prepare(source, storage_options)


def _parts_of(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _parts(group: str) -> tuple[str, ...]:
    return tuple(part for part in group.replace(".", "/").split("/") if part)


def _not_asked(preferred: dict[str, Any], asked: Any) -> dict[str, Any]:
    """Return the preferred chunks of the dimensions for which no length is asked."""
    if isinstance(asked, int):
        return {}
    if not isinstance(asked, Mapping):
        return preferred
    return {dim: lengths for dim, lengths in preferred.items() if asked.get(dim) in (None, "auto")}


def _short(one: Made, taken: Collection[str]) -> Made:
    """Return a variable under its name within its group."""
    name = name_in_tree(one.name.rsplit(".", 1)[-1] if one.group else one.name)
    while name in taken:
        name += "_"
    prefix = f"{one.name}_dim_"
    dims = tuple(f"{name}_dim_{d[len(prefix) :]}" if d.startswith(prefix) else d for d in one.dims)
    return replace(one, name=name, dims=dims)


def _apart(
    ds: xr.Dataset, above: Collection[Hashable], below: Collection[tuple[str, ...]]
) -> xr.Dataset:
    """Return the Dataset of a group without names that a tree takes for something else.

    Parameters
    ----------
    above
        Coordinates that it inherits, and shows in place of a variable of the same name.
    below
        Its groups, by path: a tree has no variable of the same name as one, and no coordinate
        that a group inherits beside one.
    """
    groups, ends = {path[0] for path in below}, {path[-1] for path in below}
    taken = {*ds.variables, *above, *groups, *ends}
    names = {}
    for name, one in ds.variables.items():
        if name in groups or name in (ends if one.dims == (name,) else above):
            names[name] = f"{name}_"
            while names[name] in taken:
                names[name] += "_"
            taken.add(names[name])
    if names:
        ds = ds.rename_vars(names)
        ds.set_close(_close)
    return ds


def _attrs_of(attrs: Mapping[str, Any], group: tuple[str, ...]) -> dict[str, Any]:
    """Return the text outputs of a group, under their own names."""
    return {path.rsplit(".", 1)[-1]: attrs[path] for path in attrs if group_of(path) == group}
