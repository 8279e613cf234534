"""Whether variables that are saved, and those that are there, make up one dataset."""

from __future__ import annotations

import numpy as np
import xarray as xr

from binref_sci.engine.before import Before
from binref_sci.engine.encoding import Encoded, check_same
from binref_sci.errors import WriterError


def check_fit(path: str, new: Encoded, old: Before | None, append_dim: str | None) -> None:
    """Check, before a byte is written, that new variables and those that stay fit together.

    Raises
    ------
    WriterError
        Naming the variable that does not.
    """
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


def check_labels(path: str, new: xr.Dataset, old: xr.Dataset, append_dim: str | None) -> None:
    """Check that what is appended has the coordinates that are there, along other dimensions.

    Raises
    ------
    WriterError
        Naming the coordinate, which would give other labels to what is there.
    """
    for dim in (set(new.indexes) & set(old.indexes)) - {append_dim}:
        there, given = old.indexes[dim], new.indexes[dim]
        if there.dtype.kind == given.dtype.kind == "f":
            given = given.astype(there.dtype)  # it may be kept in less than it is given in
        if len(there) == len(given) and not there.equals(given):
            same = (there == given) | (there.isna() & given.isna())
            place = int(np.argmin(same))
            raise WriterError(
                f"coordinate {str(dim)!r} of {path!r} is {there[place]} at {place} in what is there "
                f"and {given[place]} in what is to be appended; leave it out with "
                f".drop_vars({str(dim)!r}) if it means the same, or replace it first with mode='a'"
            )


def _check_lengths(path: str, new: Encoded, old: Before, append_dim: str | None) -> None:
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
    new: Encoded, old: Before | None, append_dim: str | None
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
