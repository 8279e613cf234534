"""Which data goes to which place on disk when a dataset is saved, and its way there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import optimize
from dask.delayed import delayed

from binref_sci.engine.before import Before
from binref_sci.engine.encoding import Encoded, Part, check_same, encode
from binref_sci.engine.fit import check_fit, check_labels
from binref_sci.engine.job import Job
from binref_sci.engine.manifest import Group, Manifest, new_manifest
from binref_sci.engine.regions import resolve_region
from binref_sci.engine.target import BufferTarget, FrameTarget
from binref_sci.errors import WriterError
from binref_sci.folders import made_folder
from binref_sci.journal import Journal
from binref_sci.storage import hidden_beside


class Saving:
    """One call of `to_binref`: `add` or `into`, then `run`.

    Parameters
    ----------
    target
        Absolute path of the folder.
    before
        What has been saved there; None: nothing that stays or is to be replaced.
    sync
        Whether each write waits for the disk.
    template
        Whether what dask would compute is left to be written later.
    """

    def __init__(
        self, target: str, before: Manifest | None, *, sync: bool, template: bool = False
    ) -> None:
        self._target = target
        self._before = before
        self._sync = sync
        self._template = template
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
        stays = {} if there is None else there.groups
        old = {path: Before(group, self._target) for path, group in stays.items()}
        appends = append_dim is not None and bool(old)
        if appends and all(append_dim not in ds.dims for ds in groups.values()):
            raise WriterError(f"append_dim is {append_dim!r}, but no variable has it")
        encoded: dict[str, Encoded] = {}
        for path, ds in groups.items():
            mine = old.get(path) if append_dim is not None else None
            like = None if mine is None else mine.continued(append_dim)
            encoded[path] = encode(
                ds, encoding.get(path), like, None if mine is None else mine.widths
            )
            check_fit(path, encoded[path], old.get(path), append_dim)
            if mine is not None and like:
                check_labels(path, ds, mine.opened, append_dim)
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
        self, path: str, new: Encoded, old: Before | None, append_dim: str | None, run: str
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
            if self._template and isinstance(target, FrameTarget):
                raise WriterError(
                    f"variable {name!r} is compressed: its parts differ in size and cannot be "
                    "written into a template; save it without compression"
                )
            self._put(part.data, target, None)
        attrs |= new.attrs | ({"coordinates": both} if both else {})
        return Group(attrs, variables, tuple(sorted(coords | set(new.coords))))

    def into(self, groups: Mapping[str, xr.Dataset], region: Any, *, explicit: bool) -> None:
        """Write into variables that are there."""
        assert self._before is not None  # mode "r+"
        for path, ds in groups.items():
            group = self._before.groups.get(path)
            if group is None:
                raise WriterError(f"{self._target!r} has no group {path!r} to write into")
            old = Before(group, self._target)
            self._into(ds, old, region, explicit=explicit)

    def _into(self, ds: xr.Dataset, old: Before, region: Any, *, explicit: bool) -> None:
        whole = old.opened
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
        if not self._template or not isinstance(data, da.Array):
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


def _names(attrs: Mapping[str, Any]) -> dict[str, None]:
    """Return the coordinates that CF's attribute of a Dataset names, in order."""
    return dict.fromkeys(str(attrs.get("coordinates", "")).split())


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
