"""What a writer refuses before a byte is written: labels and snapshots that do not fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import WriterError
from binref_sci.journal import Block, SegmentLine
from binref_sci.labels import Labels, attrs_to_json


def checked_labels(
    dims: tuple[str, ...] | list[str] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any] | None,
) -> tuple[Labels, dict[str, Any]]:
    """Return the labels, and the attributes of the times apart from them.

    Raises
    ------
    TypeError, WriterError
        If they cannot be kept.
    """
    if not isinstance(coords, Mapping | None):
        raise TypeError(f"coords must be a dict of names to values, got {coords!r}")
    given = dict(coords or {})
    time_attrs: dict[str, Any] = {}
    try:
        along = (Labels(dims).dims or ("time",))[0]
        if isinstance(given.get(along), Mapping):
            time_attrs = dict(given.pop(along))
            attrs_to_json(time_attrs)  # refused now, not at the first write
        wrong = [key for key, value in given.items() if isinstance(value, Mapping)]
        if wrong:
            raise WriterError(
                f"coordinate {wrong[0]!r} has attributes but no values; only {along!r}, whose "
                "values come with each write, may"
            )
        labels = Labels.of(dims, given, {} if attrs is None else attrs)
    except ValueError as error:
        raise WriterError(str(error)) from error
    for name, (axes, _, _) in labels.coords.items():
        for axis in axes:
            if labels.dims is not None and axis not in labels.dims:
                raise WriterError(
                    f"coordinate {name!r} lies along {axis!r}, but the dims are {labels.dims!r}"
                )
    return labels, time_attrs


def check_block(what: str, block: Block | None, shape: tuple[int, ...]) -> None:
    """Refuse a snapshot that is not the block it is said to be."""
    if block is not None and shape != block.extent:
        raise WriterError(f"{what}: the block has shape {block.extent}, the array {shape}")


def check_same(name: str, first: SegmentLine, data: NDArray[Any]) -> None:
    """Refuse a snapshot of another shape or dtype than the first of its variable."""
    if (data.shape, data.dtype) != (first.shape, first.dtype):
        castable = data.shape == first.shape and np.can_cast(data.dtype, first.dtype, "same_kind")
        cast = f"cast it with .astype({first.dtype.name!r}), or " if castable else ""
        raise WriterError(
            f"snapshot has shape {data.shape} and dtype {data.dtype.name}, but "
            f"{name!r} holds snapshots of shape {first.shape} and dtype "
            f"{first.dtype.name}; {cast}use another writer, or one without a name"
        )


def check_timed(what: str, number: int, *, timed: bool, before: bool) -> None:
    """Refuse times that come and go."""
    if timed != before:
        given = "has a time, but the ones before have none"
        missing = "has no time, but the ones before have one"
        raise WriterError(
            f"{what}: snapshot {number} {given if timed else missing}; give time= always or never"
        )


def check_times_once(what: str, labels: Labels) -> None:
    """Refuse times of writes beside a coordinate that has the times already."""
    along = (labels.dims or ("time",))[0]
    if along in labels.coords:
        raise WriterError(
            f"{what}: the snapshots have times of their own, from time= of each write, and others "
            f"from coords, as the values of {along!r}; leave time= out, or give coords the attributes "
            f'alone: coords={{{along!r}: {{"units": ...}}}}'
        )


def check_fit(what: str, labels: Labels, block: Block | None, shape: tuple[int, ...]) -> None:
    """Refuse labels that do not fit the snapshots, now and not when the run is opened."""
    dims = labels.dims
    if dims is None:
        return
    if len(dims) != len(shape) + 1:
        raise WriterError(
            f"{what}: dims {dims!r} name {len(dims)} {'axis' if len(dims) == 1 else 'axes'}, but a "
            f"trajectory of snapshots of shape {shape} has {len(shape) + 1}; the one along the snapshots "
            "comes first"
        )
    # Coordinates of a block may be the block's, or the whole field's.
    whole = shape if block is None else block.shape
    allowed = {dim: {own, all_} for dim, own, all_ in zip(dims[1:], shape, whole, strict=True)}
    for name, (axes, values, _) in labels.coords.items():
        if not axes and name in dims:
            raise WriterError(
                f"{what}: coordinate {name!r} is the single value {values}, but "
                f"{name!r} is a dimension; give a value for each of its points"
            )
        for axis, length in zip(axes, values.shape, strict=True):
            if length not in allowed.get(axis, {length}):
                raise WriterError(
                    f"{what}: coordinate {name!r} has {length} values along {axis!r}, "
                    f"but snapshots of shape {shape} have {min(allowed[axis])} there; dims are "
                    f"{dims!r}, of which {dims[0]!r} is along the snapshots"
                )


def check_order(what: str, labels: Labels) -> None:
    """Warn where the dimension along the snapshots seems to stand last, as in Fortran."""
    dims = labels.dims or ()
    if len(dims) > 1 and dims[-1] == "time":
        warnings.warn(
            f"{what}: the times of the snapshots are the coordinate {dims[0]!r}, for that stands first "
            f"in dims {dims!r}; is ('time', {', '.join(map(repr, dims[:-1]))}) meant?",
            RuntimeWarning,
            stacklevel=5,  # where write was called
        )
