"""One variable of a Dataset in the making: lazy data, and how it is labelled."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from dask.base import tokenize
from numpy.typing import NDArray

from binref_sci import lazy
from binref_sci.array import BinrefArray
from binref_sci.engine.backend import STORAGE_ERRORS, Backend, LazyArray, with_name
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.indexing import LazyData
from binref_sci.engine.mapping import mapped
from binref_sci.labels import Labels
from binref_sci.trajectory import Trajectory

Coordinate = tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]
Data = LazyData | NDArray[Any]

_MANY_CHUNKS = 2**20
"""More chunks than this are not listed: 16 TiB, at 16 MiB each."""


@dataclass
class Made:
    """A variable, before its dimensions are made to agree with the others'.

    Parameters
    ----------
    name
        In the Dataset.
    data
        Lazy, or an array that was inline in the response.
    dims
        One name an axis.
    coords
        Along these dimensions.
    attrs
        Attributes.
    group
        Path of the nested result it is part of; its own name is the last part of `name`.
    """

    name: str
    data: Data
    dims: tuple[str, ...]
    coords: dict[str, Coordinate] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    group: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self.data.shape


def group_of(path: str) -> tuple[str, ...]:
    """Return the group that a nested result is part of, named as xarray's trees allow.

    Examples
    --------
    >>> group_of("flow.a/b.speed")
    ('flow', 'a_b')
    """
    return tuple(map(name_in_tree, path.split(".")[:-1]))


def name_in_tree(step: str) -> str:
    """Return a step of a path as a tree can have it: not empty, and without slashes."""
    return step.replace("/", "_") or "_"


def labelled(
    name: str,
    data: Data,
    labels: Labels,
    *,
    times: tuple[NDArray[Any], dict[str, Any]] | None = None,
    along: str | None = None,
) -> Made:
    """Return a variable with the labels that fit it.

    Parameters
    ----------
    name, data
        As in `Made`.
    labels
        Of this variable; coordinates along dimensions that it does not have are left out.
    times
        Values and attributes of the coordinate of axis 0.
    along
        Name of axis 0 if the labels name none.
    """
    shape = data.shape
    dims = labels.dims
    if dims is not None and len(dims) != len(shape):
        _complain(f"variable {name!r} has {len(shape)} axes of shape {shape}, but dims {dims!r}")
        dims = None
    if dims is None:
        dims = tuple(f"{name}_dim_{axis}" for axis in range(len(shape)))
        if along is not None and dims:
            dims = (along, *dims[1:])
    sizes = dict(zip(dims, shape, strict=True))
    coords: dict[str, Coordinate] = {}
    for key, (axes, values, attrs) in labels.coords.items():
        if not all(axis in dims for axis in axes):  # not a set: a journal may say anything
            if labels.dims is None:
                _complain(
                    f"coordinate {key!r} of variable {name!r} lies along {axes!r}, but no dims= say "
                    f"which of its {len(shape)} axes that is"
                )
            continue
        if not axes and key in sizes:
            _complain(f"coordinate {key!r} of variable {name!r} is one value, but also a dimension")
            continue
        wanted = tuple(sizes[axis] for axis in axes)
        if axes and axes[0] == dims[0] and len(values) > wanted[0]:
            values = values[: wanted[0]]  # of a run that stopped before its end
        if values.shape != wanted:
            _complain(
                f"coordinate {key!r} of variable {name!r} has shape {values.shape}, but its "
                f"dimensions {axes!r} have lengths {wanted}"
            )
            continue
        coords[key] = (axes, values, attrs)
    if times is not None:
        coords[dims[0]] = (dims[:1], *times)
    return Made(name, data, dims, coords, dict(labels.attrs))


def _complain(what: str) -> None:
    warnings.warn(f"{what}; this label is left out", stacklevel=2)


def to_variable(made: Made, *, mmap: bool = False) -> xr.Variable:
    """Return a lazy xarray variable; looks at each buffer's status once, reads nothing.

    Parameters
    ----------
    made
        The variable; its dims are final.
    mmap
        Map finished, uncompressed buffers into memory.

    Raises
    ------
    BufferNotFoundError
        Naming file and variable.
    """
    data = made.data
    if isinstance(data, np.ndarray):
        return xr.Variable(made.dims, data, made.attrs)
    encoding = {"preferred_chunks": _by_dim(made), "dtype": data.dtype}
    try:
        array = Backend(made.name, mapped(data) if mmap else data)
    except STORAGE_ERRORS as error:
        raise with_name(made.name, error) from error
    return xr.Variable(made.dims, LazyArray(array), made.attrs, encoding, fastpath=True)


def token_of(made: Made) -> Any:
    """Return what changes when a variable, or how it is decoded, does.

    One that is left out may have lost its buffer.
    """
    try:
        data = tokenize(made.data)
    except STORAGE_ERRORS as error:
        data = str(error)
    return made.name, made.dims, made.attrs, data


def _by_dim(made: Made) -> dict[str, int | tuple[int, ...]]:
    """Return the preferred chunks by dimension; one length where all but the last have it."""
    assert not isinstance(made.data, np.ndarray)  # the caller looked
    chunks: dict[str, int | tuple[int, ...]] = {}
    for dim, lengths in zip(made.dims, preferred_chunks(made.data), strict=True):
        even = len(set(lengths[:-1])) <= 1 and lengths[-1] <= lengths[0]
        chunks[dim] = lengths[0] if even else lengths
    return chunks


def preferred_chunks(data: LazyData) -> tuple[tuple[int, ...], ...]:
    """Return chunks that follow how the data lies."""
    snapshot = math.prod(data.shape[1:]) * data.dtype.itemsize
    if data.shape and data.shape[0] // max(lazy.CHUNK_BYTES // max(snapshot, 1), 1) > _MANY_CHUNKS:
        return tuple((length,) for length in data.shape)  # of a reference that nobody can mean
    if isinstance(data, Trajectory):
        groups = itertools.groupby(data.segments, key=lambda segment: segment.path)
        runs = tuple(sum(segment.count for segment in group) for _, group in groups)
        return lazy.preferred_chunks(data.shape, data.dtype, runs)
    if isinstance(data, BinrefArray) and data.compression is not None:
        return tuple((length,) for length in data.shape)
    whole = lazy.preferred_chunks(data.shape, data.dtype)
    if isinstance(data, BlockArray) and snapshot > lazy.CHUNK_BYTES:
        return (whole[0], *data.edges())
    return whole
