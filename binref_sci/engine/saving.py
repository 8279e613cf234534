"""`to_binref`: save a Dataset, in parallel, as what `open_dataset` opens."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import optimize
from dask.delayed import delayed

from binref_sci.engine.encoding import Encoded, Part, check_same, datasets_of, encode
from binref_sci.engine.job import Job
from binref_sci.engine.manifest import Group, Manifest, new_manifest, read_manifest
from binref_sci.engine.regions import resolve_region
from binref_sci.engine.saved import decoded, saved_variables
from binref_sci.engine.target import BufferTarget
from binref_sci.engine.text import TextArray
from binref_sci.engine.variables import Made, to_variable
from binref_sci.errors import BufferNotFoundError, DatasetExistsError, WriterError
from binref_sci.journal import Journal, read_journal
from binref_sci.storage import hidden_beside, local_folder, made_folder

Mode = Literal["w-", "w", "a", "r+"]
Durability = Literal["process", "power"]


def to_binref(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    mode: Mode | None = None,
    region: Mapping[str, slice | str] | str | None = None,
    append_dim: str | None = None,
    compute: bool = True,
    encoding: Mapping[Any, Any] | None = None,
    durability: Durability = "process",
) -> Any:
    """Save labelled arrays as a folder of plain buffers that `open_dataset` opens.

    Chunks of dask arrays are written where they are computed, by threads, processes or the
    workers of a cluster, each to its own bytes of a file, without locks; all variables
    are computed together, so that what they share is computed once. Nothing can be seen
    before all has been written: then it appears in one step.

    Parameters
    ----------
    obj
        A DataArray, Dataset, DataTree, or a dask or NumPy array (saved as ``data``).
    path
        Local folder. All workers must see it under this path.
    mode
        ``"w-"``, the default: make it; what exists is an error. ``"w"``: replace what
        `to_binref` saved there before (it may be the source of what is written). ``"a"``:
        add variables, and replace those of the same names; dimensions keep their lengths.
        ``"r+"``: write into variables that are there, whose shape stays. `region` implies ``"r+"``, `append_dim` ``"a"``.
    region
        Where the data belongs in what is there: slices by dimension, or ``"auto"``, which
        finds them by coordinates, for one dimension or for all. Bytes are written in place.
    append_dim
        Dimension along which the data is added at the end. It must be the first one of each
        variable that has it, and all of these must be given.
    compute
        False: return a Delayed; the folder appears when that has been computed. NumPy
        arrays are written now.
    encoding
        Settings by variable, over those in each variable's ``encoding``; of a DataTree by
        group, then by variable: ``dtype``, ``scale_factor``, ``add_offset``, ``_FillValue``,
        ``units``, ``calendar`` as in xarray, and ``compression="lz4"``, which takes effect
        for variables of two dimensions or more: one frame for each index of the first. What
        is continued or written into stays encoded as it is.
    durability
        ``"process"``: a crash of the process loses nothing that was published.
        ``"power"``: nor does a loss of power; each chunk waits for the disk.

    Returns
    -------
    None or dask.delayed.Delayed
        The latter with ``compute=False``.

    Raises
    ------
    DatasetExistsError
        If there is something that `mode` does not replace (a FileExistsError).
    BufferNotFoundError
        If there is nothing to write into (a FileNotFoundError).
    WriterError
        If the data does not fit what is there, or another has saved in between (a ValueError).
    UnsupportedDTypeError
        If a variable cannot be stored (a TypeError); before a byte is written.
    FormatError
        If `path` is a URL, or empty, or lies in a file (a ValueError).

    Examples
    --------
    >>> import tempfile, xarray as xr
    >>> from binref_sci.engine import open_dataset
    >>> folder = tempfile.TemporaryDirectory()
    >>> ds = xr.Dataset({"heat": (("time", "x"), np.eye(3))}, {"time": [0.0, 0.5, 1.0]})
    >>> to_binref(ds.chunk(time=1), f"{folder.name}/copy")
    >>> later = ds.assign_coords(time=[1.5, 2.0, 2.5])
    >>> to_binref(later, f"{folder.name}/copy", append_dim="time")
    >>> open_dataset(f"{folder.name}/copy").heat.sel(time=2.0).values
    array([0., 1., 0.])
    >>> folder.cleanup()
    """
    mode = _mode(mode, region, append_dim)
    if durability not in ("process", "power"):
        raise ValueError(f'durability must be "process" or "power", got {durability!r}')
    groups = datasets_of(obj)
    target = local_folder(path)
    if Path(target).is_symlink():
        target = os.path.realpath(target)  # what it leads to is saved, the link stays
    if encoding is not None and not isinstance(encoding, Mapping):
        raise TypeError(f"encoding must be a dict of settings by variable, got {encoding!r}")
    settings = dict(encoding or {}) if isinstance(obj, xr.DataTree) else {"/": encoding or {}}
    unknown = set(settings) - set(groups)
    if unknown:
        raise ValueError(
            f"encoding names groups {sorted(map(str, unknown))}; there are {sorted(groups)}"
        )
    before = _before(target, mode)
    saving = _Saving(target, before, sync=durability == "power")
    if region is not None or mode == "r+":
        saving.into(groups, {} if region is None else region, explicit=region is not None)
    else:
        saving.add(groups, settings, append_dim, replaces=mode == "w")
    return saving.run(compute=compute)


def _mode(mode: Any, region: Any, append_dim: Any) -> Mode:
    if region is not None and append_dim is not None:
        raise ValueError("region= writes into what is there, append_dim= behind it: give one")
    if mode is None:
        return "r+" if region is not None else "a" if append_dim is not None else "w-"
    if mode not in ("w-", "w", "a", "r+"):
        raise ValueError(f'mode must be "w-", "w", "a" or "r+", got {mode!r}')
    if region is not None and mode not in ("a", "r+"):
        raise ValueError(f'region= writes into what is there: mode must be "r+", got {mode!r}')
    if append_dim is not None and mode != "a":
        raise ValueError(f'append_dim= adds to what is there: mode must be "a", got {mode!r}')
    checked: Mode = mode
    return checked


def _before(target: str, mode: Mode) -> Manifest | None:
    """Return what has been saved there, if it is to stay or to be replaced."""
    place = Path(target)
    if not place.exists():
        if mode == "r+":
            raise BufferNotFoundError(f"there is no saved dataset {target!r} to write into")
        return None
    if not place.is_dir():
        raise DatasetExistsError(f"{target!r} is a file; a dataset is saved as a folder")
    if mode != "r+" and next(place.iterdir(), None) is None:
        if place.is_mount() or place.samefile("."):
            raise DatasetExistsError(
                f"{target!r} is the working directory or a mount point, which a new folder cannot "
                "take the place of; save to a folder in it"
            )
        return None
    if mode == "w-":
        raise DatasetExistsError(
            f"{target!r} exists; mode='w' replaces a saved dataset, mode='a' adds to it"
        )
    manifest = read_manifest(target)
    if manifest is None:
        raise DatasetExistsError(
            f"{target!r} holds something that to_binref has not saved, and is left as it is; "
            "save to another path"
        )
    return manifest


@dataclass
class _Before:
    """A group that is there: its variables as they lie on disk, and as they open."""

    group: Group
    directory: str
    made: dict[str, Made] = field(init=False)
    raw: dict[str, xr.Variable] = field(init=False)

    def __post_init__(self) -> None:
        self.made = {one.name: one for one in saved_variables(self.group, self.directory)}
        self.raw = {name: to_variable(one) for name, one in self.made.items()}

    def journal(self, name: str) -> Journal:
        return read_journal(Path(self.directory, self.group.variables[name]))

    def continues(self, name: str, dims: tuple[Any, ...], append_dim: str | None) -> bool:
        """Tell whether new data of these dims is added to a variable; an empty one is replaced."""
        return append_dim in dims and name in self.raw and self.raw[name].sizes.get(append_dim) != 0

    @property
    def widths(self) -> dict[str, int]:
        return {
            name: one.data.codes.shape[-1]
            for name, one in self.made.items()
            if isinstance(one.data, TextArray) and one.data.size
        }


class _Saving:
    """One call: what goes where."""

    def __init__(self, target: str, before: Manifest | None, *, sync: bool) -> None:
        self._target = target
        self._before = before
        self._sync = sync
        self._work: list[tuple[Any, Any, tuple[slice, ...] | None]] = []
        self._job = Job(target, None, before, None, sync)

    def add(
        self,
        groups: Mapping[str, xr.Dataset],
        encoding: Mapping[str, Any],
        append_dim: str | None,
        *,
        replaces: bool,
    ) -> None:
        """Save new variables, or new parts of them."""
        there = None if replaces else self._before
        old = (
            {path: _Before(group, self._target) for path, group in there.groups.items()}
            if (there is not None)
            else {}
        )
        encoded: dict[str, Encoded] = {}
        if (
            append_dim is not None
            and old
            and all(append_dim not in ds.dims for ds in groups.values())
        ):
            raise WriterError(f"append_dim is {append_dim!r}, but no variable has it")
        for path, ds in groups.items():
            mine = old.get(path) if append_dim is not None else None
            like = None if mine is None else _like(mine, append_dim)
            encoded[path] = encode(
                ds, encoding.get(path), like, None if mine is None else mine.widths
            )
            self._check(path, encoded[path], old.get(path), append_dim)
        after = new_manifest({}) if there is None else there
        self._begin(after)
        made = dict(after.groups)
        try:
            for path, one in encoded.items():
                made[path] = self._group(path, one, old.get(path), append_dim, after.run)
        except BaseException:
            self._job.discard()
            raise
        made.setdefault("/", Group())
        self._job.after = replace(after, groups=made)

    def _begin(self, after: Manifest) -> None:
        if self._before is not None:
            return
        place = Path(self._target)
        made_folder(place.parent)
        partial = hidden_beside(place)  # to be renamed
        partial.mkdir()
        self._job = Job(os.fspath(partial), self._target, None, after, self._sync)

    def _group(
        self, path: str, new: Encoded, old: _Before | None, append_dim: str | None, run: str
    ) -> Group:
        variables = {} if old is None else dict(old.group.variables)
        attrs = {} if old is None else dict(old.group.attrs)
        coords = set() if old is None else set(old.group.coords) - set(new.parts)
        both = " ".join({**_names(attrs), **_names(new.attrs)})
        for name, part in new.parts.items():
            if old is not None and old.continues(name, part.dims, append_dim):
                journal = old.journal(name)
                part = _rechunked(replace(part, compression=journal.header.compression))
                variables[name], target = self._job.extend(part, journal)
            else:
                part = _rechunked(part)
                variables[name], target = self._job.begin(path, part, run)
            self._put(part.data, target, None)
        attrs |= new.attrs | ({"coordinates": both} if both else {})
        return Group(attrs, variables, tuple(sorted(coords | set(new.coords))))

    def _check(self, path: str, new: Encoded, old: _Before | None, append_dim: str | None) -> None:
        """Check, before a byte is written, that all will fit together."""
        lengths: dict[str, tuple[int, str]] = {}
        for name, dims, shape in _shapes(new, old, append_dim):
            for dim, length in zip(dims, shape, strict=True):
                known, other = lengths.setdefault(dim, (length, name))
                if known != length:
                    # The variable that is left out is the one to be named.
                    if name in new.parts and other not in new.parts:
                        name, other, length, known = other, name, known, length
                    raise WriterError(
                        f"dimension {dim!r} of {path!r} would have length {length} in variable "
                        f"{name!r} and {known} in {other!r}; save all variables along it together"
                    )
        if old is not None:
            _check_lengths(path, new, old, append_dim)

    def into(self, groups: Mapping[str, xr.Dataset], region: Any, *, explicit: bool) -> None:
        """Write into variables that are there."""
        assert self._before is not None  # mode "r+"
        for path, ds in groups.items():
            group = self._before.groups.get(path)
            if group is None:
                raise WriterError(f"{self._target!r} has no group {path!r} to write into")
            old = _Before(group, self._target)
            self._into(ds, old, region, explicit=explicit)

    def _into(self, ds: xr.Dataset, old: _Before, region: Any, *, explicit: bool) -> None:
        whole = decoded(old.raw, old.group)
        spans = resolve_region(region, ds, whole)
        named = set(ds.dims) if region == "auto" else set(region)
        found = [
            dim
            for dim in map(str, ds.dims)
            if region == "auto" or (isinstance(region, Mapping) and region.get(dim) == "auto")
        ]
        # What the region was found by is there already.
        ds = ds.drop_vars([dim for dim in found if dim in ds.variables])
        for name in ds.variables:
            if name not in old.raw:
                raise WriterError(
                    f"there is no variable {name!r} to write into; mode='a' adds variables"
                )
            if explicit and not named & set(ds.variables[name].dims):
                raise WriterError(
                    f"variable {name!r} has dimensions {ds.variables[name].dims}, none of which is "
                    f"in the region; leave it out with .drop_vars({name!r})"
                )
        opened = {str(name): one for name, one in whole.variables.items()}
        new = encode(ds, None, opened, old.widths)
        plans = []
        for name, part in new.parts.items():
            check_same(name, old.raw[name], part)
            journal = old.journal(name)
            if journal.header.compression is not None:
                raise WriterError(
                    f"variable {name!r} is compressed: its parts differ in size and cannot be "
                    "written in place; save all of it again with mode='a', or without compression"
                )
            plans.append((part, journal, tuple(spans[dim] for dim in part.dims)))
        for part, journal, key in plans:
            self._put_into(part, journal, key)

    def _put_into(self, part: Part, journal: Journal, key: tuple[slice, ...]) -> None:
        if part.form.text is not None:
            key = (*key, slice(0, part.data.shape[-1]))
        for line, count in journal.filled:
            path = os.fspath(Path(self._target, line.buffer))
            if part.form.scalar:
                target = BufferTarget(
                    path, line.offset, line.shape, line.dtype, name=part.name, sync=self._sync
                )
                self._put(part.data, target, key or None)
                continue
            shape = (count, *line.shape)
            target = BufferTarget(
                path, line.offset, shape, line.dtype, name=part.name, sync=self._sync
            )
            start = max(key[0].start, line.start)
            stop = min(key[0].stop, line.start + count)
            if start >= stop:
                continue
            data = part.data[start - key[0].start : stop - key[0].start]
            self._put(data, target, (slice(start - line.start, stop - line.start), *key[1:]))

    def _put(self, data: Any, target: Any, region: tuple[slice, ...] | None) -> None:
        self._work.append((data, target, region))

    def run(self, *, compute: bool) -> Any:
        """Write; or return what does."""
        job = self._job
        lazily = [one for one in self._work if isinstance(one[0], da.Array)]
        try:
            for data, target, region in self._work:
                if not isinstance(data, da.Array) and data.size:
                    target[region if region is not None else (slice(None),) * data.ndim] = data
            if compute:
                if lazily:
                    _store(lazily, compute=True)
                job.publish()
                return None
            stored = _store(lazily, compute=False) if lazily else ()
            return delayed(_finish, pure=False)(job, list(optimize(*stored)))
        except BaseException:
            job.discard()
            raise


def _finish(job: Job, _stored: Sequence[Any]) -> None:
    """Publish, once all chunks have been written."""
    try:
        job.publish()
    except BaseException:
        job.discard()
        raise


def _store(work: Sequence[tuple[Any, Any, Any]], *, compute: bool) -> tuple[Any, ...]:
    sources, targets, regions = zip(*work, strict=True)
    stored = da.store(
        list(sources),
        list(targets),
        lock=False,
        regions=[region or () for region in regions],
        compute=compute,
        return_stored=False,
    )
    return () if stored is None else stored if isinstance(stored, tuple) else (stored,)


def _like(old: _Before, append_dim: str | None) -> dict[str, xr.Variable]:
    """Return the variables that will be continued, as they open."""
    opened = decoded(old.raw, old.group).variables
    return {
        str(name): one
        for name, one in opened.items()
        if old.continues(str(name), one.dims, append_dim)
    }


def _names(attrs: Mapping[str, Any]) -> dict[str, None]:
    """Return the coordinates that CF's attribute of a Dataset names, in order."""
    return dict.fromkeys(str(attrs.get("coordinates", "")).split())


def _check_lengths(path: str, new: Encoded, old: _Before, append_dim: str | None) -> None:
    """Refuse variables that would shorten or lengthen a dimension that is there."""
    there = {str(dim): n for one in old.raw.values() for dim, n in one.sizes.items()}
    for name, part in new.parts.items():
        for dim, length in zip(part.dims, part.shape, strict=True):
            if dim != append_dim and there.get(dim, length) != length:
                raise WriterError(
                    f"Unable to update size for existing dimension {dim!r} of {path!r}: it has "
                    f"{there[dim]}, and {length} in variable {name!r} that is to be saved; mode='w' "
                    "replaces all that is there"
                )


def _shapes(
    new: Encoded, old: _Before | None, append_dim: str | None
) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """Return name, dims and shape of each variable, as it will be."""
    made = []
    for name, part in new.parts.items():
        shape = part.shape
        if old is not None and old.continues(name, part.dims, append_dim):
            before = old.raw[name]
            check_same(name, before, part)
            if part.dims[0] != append_dim:
                raise WriterError(
                    f"variable {name!r} has dims {part.dims}: only along the first can it grow, "
                    f"not along {append_dim!r}; transpose what is there and save it again with "
                    "mode='w', or append along another dimension"
                )
            if before.shape[1:] != shape[1:]:
                raise WriterError(
                    f"variable {name!r} was saved with shape {before.shape}, the new data has "
                    f"{shape}; they may differ along {append_dim!r} alone"
                )
            shape = (before.shape[0] + shape[0], *shape[1:])
        made.append((name, part.dims, shape))
    if old is not None:
        kept = {name: one for name, one in old.raw.items() if name not in new.parts}
        made += [(name, tuple(map(str, one.dims)), one.shape) for name, one in kept.items()]
    return made


def _rechunked(part: Part) -> Part:
    """Return a variable whose chunks can be written; compressed ones hold whole rows."""
    data = part.data
    if not isinstance(data, da.Array):
        return part
    if any(np.isnan(length) for lengths in data.chunks for length in lengths):
        raise WriterError(
            f"variable {part.name!r} has dask chunks of unknown size; "
            "call .compute_chunk_sizes() on it first"
        )
    if part.compression is not None and data.ndim > 1:
        data = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    return replace(part, data=data)
