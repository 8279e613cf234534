"""``region=``: which part of what is there is to be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr


def resolve_region(region: Any, new: xr.Dataset, old: xr.Dataset) -> dict[str, slice]:
    """Return a region as slices with start and stop.

    Parameters
    ----------
    region
        ``"auto"``, or a dict by dimension of slices or ``"auto"``.
    new
        What is to be written.
    old
        What is there.

    Raises
    ------
    ValueError
        If it does not fit; says which dimension, and how long it is.
    """
    if region == "auto":
        region = dict.fromkeys(map(str, new.dims), "auto")
    if not isinstance(region, Mapping):
        raise TypeError(f'region must be "auto" or a dict of slices by dimension, got {region!r}')
    unknown = set(region) - set(new.dims)
    if unknown:
        raise ValueError(
            f"region names {sorted(map(str, unknown))}, but the new data has dimensions "
            f"{sorted(map(str, new.dims))}"
        )
    made = {}
    for dim in map(str, new.dims):
        if dim not in old.dims:
            raise ValueError(
                f"dimension {dim!r} is not one of what was saved: {sorted(map(str, old.dims))}"
            )
        asked = region.get(dim, slice(None))
        if isinstance(asked, str) and asked == "auto":
            made[dim] = _found(dim, new, old)
        elif isinstance(asked, slice):
            made[dim] = _checked(dim, asked, new.sizes[dim], old.sizes[dim])
        else:
            raise TypeError(f'region[{dim!r}] must be a slice or "auto", got {asked!r}')
    return made


def _checked(dim: str, asked: slice, length: int, whole: int) -> slice:
    if asked.step not in (None, 1):
        raise ValueError(f"region[{dim!r}] must be a slice of step 1, got {asked}")
    start = 0 if asked.start is None else asked.start
    stop = whole if asked.stop is None else asked.stop
    if not 0 <= start <= stop <= whole:
        raise ValueError(f"region[{dim!r}] is {asked}, but must lie in 0 to {whole}")
    if stop - start != length:
        raise ValueError(
            f"region[{dim!r}] is {start}:{stop}, {stop - start} long, but the new data has "
            f"{length} along it"
        )
    return slice(int(start), int(stop))


def _found(dim: str, new: xr.Dataset, old: xr.Dataset) -> slice:
    if dim not in new.indexes or dim not in old.indexes:
        if new.sizes[dim] == old.sizes[dim]:
            return slice(0, old.sizes[dim])
        raise ValueError(
            f'region "auto" finds {dim!r} by its coordinate, which '
            f"{'the new data' if dim not in new.indexes else 'what was saved'} has not; "
            "give a slice"
        )
    for index, whose in ((old.indexes[dim], "what was saved"), (new.indexes[dim], "the new data")):
        if not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(
                f"coordinate {dim!r} of {whose} has {twice} more than once, so that no place is "
                f"found by it; give the region as a slice: {{{dim!r}: slice(start, stop)}}"
            )
    places = old.indexes[dim].get_indexer(new.indexes[dim])
    if (places < 0).any():
        odd = new.indexes[dim][int(np.flatnonzero(places < 0)[0])]
        raise ValueError(f"coordinate {dim!r} has {odd}, which what was saved has not")
    if len(places) and (np.diff(places) != 1).any():
        raise ValueError(
            f"the values of coordinate {dim!r} do not follow one another in what was saved; "
            "write it in parts"
        )
    first = int(places[0]) if len(places) else 0
    return slice(first, first + len(places))
