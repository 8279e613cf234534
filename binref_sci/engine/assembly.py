"""Variables whose dimensions agree, ready for xarray to decode."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
import xarray as xr

from binref_sci.engine.variables import Coordinate, Made, to_variable


def assembled(
    made: list[Made],
    parent: Axes | None = None,
    *,
    drop: frozenset[str] = frozenset(),
    mmap: bool = False,
) -> tuple[dict[str, xr.Variable], set[str], Axes]:
    """Return lazy variables, which of them are coordinates, and their dimensions.

    Dimensions of one name that do not agree are told apart.

    Parameters
    ----------
    made
        Variables of one group.
    parent
        Dimensions of the group above.
    drop
        Variables that are left out; their buffers may be missing. All else is as with them.
    mmap
        Map finished, uncompressed buffers into memory.
    """
    lengths: dict[str, set[int]] = {}
    for one in made:
        for dim, length in zip(one.dims, one.shape, strict=True):
            lengths.setdefault(dim, set()).add(length)
    made = [_along_itself(one, lengths.get(one.name, ())) for one in made]
    axes = Axes({one.name: one.shape for one in made}, parent)
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
        if one.name not in drop:
            data[one.name] = to_variable(agreed, mmap=mmap)
    found = {
        name: xr.Variable(dims, values, attrs)
        for name, (dims, values, attrs) in coords.items()
        if name not in data
    }
    return {**found, **data}, set(found), axes


def _along_itself(one: Made, wanted: Collection[int]) -> Made:
    """Return an unlabelled field ``x`` as the coordinate that the dimension ``x`` of others asks for.

    Parameters
    ----------
    one
        The field.
    wanted
        Lengths of the dimensions that are called like it.
    """
    unlabelled = one.dims == (f"{one.name}_dim_0",)
    return replace(one, dims=(one.name,)) if unlabelled and one.shape[0] in wanted else one


class Axes:
    """The dimensions so far: name -> length, and coordinate along it if there is one.

    Parameters
    ----------
    fields
        Shapes of all variables by name. A dimension has the name of one only if that
        can be its coordinate.
    parent
        Dimensions of the group above, which a group must agree with.
    """

    def __init__(self, fields: Mapping[str, tuple[int, ...]], parent: Axes | None = None) -> None:
        self._fields = fields
        self._known: dict[str, tuple[int, Coordinate | None]] = (
            {} if parent is None else dict(parent._known)
        )

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
