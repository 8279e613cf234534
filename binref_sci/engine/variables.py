"""One variable of a Dataset in the making: lazy data, and how it is labelled."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from binref_sci import lazy
from binref_sci.array import BinrefArray
from binref_sci.engine.blocks import BlockArray
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    CorruptBufferError,
    InvalidReferenceError,
    TruncatedBufferError,
)
from binref_sci.labels import Labels
from binref_sci.trajectory import Trajectory

Coordinate = tuple[tuple[str, ...], NDArray[Any], dict[str, Any]]
Data = Trajectory | BinrefArray | BlockArray | NDArray[Any]

_STORAGE_ERRORS = (
    BufferNotFoundError,
    TruncatedBufferError,
    CorruptBufferError,
    InvalidReferenceError,
)

_MANY_CHUNKS = 2**20
"""More chunks than this are not listed: 64 TiB, at 64 MiB each."""


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
    """

    name: str
    data: Data
    dims: tuple[str, ...]
    coords: dict[str, Coordinate] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self.data.shape


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
            continue
        if not axes and key in sizes:
            _complain(f"coordinate {key!r} of variable {name!r} is one value, but also a dimension")
            continue
        wanted = tuple(sizes[axis] for axis in axes)
        if axes[:1] == dims[:1] and len(values) > wanted[0]:
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


class NamedArray:
    """A lazy array that knows which variable it is, so that a failed read can tell."""

    def __init__(self, name: str, array: Trajectory | BinrefArray | BlockArray) -> None:
        self._name = name
        self._array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._array[key if isinstance(key, tuple) else (key,)]
        except _STORAGE_ERRORS as error:
            raise with_name(self._name, error) from error

    def __dask_tokenize__(self) -> Any:
        return "variable", self._name, self._array.__dask_tokenize__()


def with_name(name: str, error: BinrefError) -> BinrefError:
    """Return the same error, naming the variable too."""
    return type(error)(f"variable {name!r}: {error}")


def to_variable(made: Made, chunks: Any) -> xr.Variable:
    """Return a lazy xarray variable; looks at each buffer's status once, reads nothing.

    Parameters
    ----------
    made
        The variable; its dims are final.
    chunks
        As for `open_dataset`.

    Raises
    ------
    BufferNotFoundError
        Naming file and variable.
    """
    data = made.data
    if isinstance(data, np.ndarray):
        return xr.Variable(made.dims, data, made.attrs)
    array = NamedArray(made.name, data)
    preferred = preferred_chunks(data)
    encoding = {
        "preferred_chunks": {
            dim: lengths[0]
            if len(set(lengths[:-1])) <= 1 and lengths[-1] <= lengths[0]
            else lengths
            for dim, lengths in zip(made.dims, preferred, strict=True)
        },
        "dtype": data.dtype,
    }
    try:
        if chunks is None:
            array.__dask_tokenize__()  # looks whether the buffers are there
            lazily: Any = indexing.LazilyIndexedArray(_Backend(array))
            return xr.Variable(made.dims, indexing.CopyOnWriteArray(lazily), made.attrs, encoding)
        if isinstance(chunks, Mapping) and chunks:
            chunks = tuple(
                chunks.get(dim, lengths) for dim, lengths in zip(made.dims, preferred, strict=True)
            )
        lazy_data: da.Array = lazy.to_dask(array, chunks, preferred)
    except _STORAGE_ERRORS as error:
        raise with_name(made.name, error) from error
    return xr.Variable(made.dims, lazy_data, made.attrs, encoding)


def preferred_chunks(data: Trajectory | BinrefArray | BlockArray) -> tuple[tuple[int, ...], ...]:
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


class _Backend(BackendArray):
    """The array as xarray indexes it when there is no dask."""

    def __init__(self, array: NamedArray) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read
        )

    def _read(self, key: tuple[Any, ...]) -> Any:
        # An integer beside an index array would count as one for NumPy: read it as a slice.
        integers = tuple(n for n, part in enumerate(key) if isinstance(part, int | np.integer))
        spans = tuple(
            slice(int(part), int(part) + 1) if n in integers else part for n, part in enumerate(key)
        )
        return np.asarray(self._array[spans]).squeeze(integers)
