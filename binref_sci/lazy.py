"""Any lazy array of this package as a dask array or an xarray object.

dask and xarray are imported inside the functions: a solver imports the arrays that
offer these methods, and must not pay for two libraries it never calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from binref_sci.labels import Labels

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr

CHUNK_BYTES = 16 * 1024 * 1024
"""Size that chunks of many snapshots are grouped to, in bytes.

Memory of this size is used again by the next chunk; of 32 MiB and more the system takes
it back each time and clears it, which costs more than reading.
"""

_ARRAY_TAG = "binref"


class LazyArray(Protocol):
    """What `to_dask` and `to_xarray` need of an array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""

    def __getitem__(self, key: Any) -> Any:
        """Read a part."""

    def __dask_tokenize__(self) -> Any:
        """What changes when the data does."""


def digest(parts: Iterable[bytes]) -> str:
    """Return what tells these bytes from others, the same in every process."""
    import hashlib  # loads OpenSSL, which a solver does not need

    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part)
    return state.hexdigest()


def preferred_chunks(
    shape: tuple[int, ...], dtype: np.dtype[Any], runs: tuple[int, ...] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return chunks of whole snapshots, none across two buffers.

    Parameters
    ----------
    shape
        Of the array; axis 0 is the one that is cut.
    dtype
        Element type.
    runs
        Lengths along axis 0 that lie in one buffer each; default: one run.

    Returns
    -------
    tuple
        Chunk lengths along each axis.

    Examples
    --------
    >>> preferred_chunks((10, 1024, 1024), np.dtype("f8"), runs=(9, 1))
    ((2, 2, 2, 2, 1, 1), (1024,), (1024,))
    """
    if not shape:
        return ()
    snapshot = max(math.prod(shape[1:]) * dtype.itemsize, 1)
    group = max(CHUNK_BYTES // snapshot, 1)
    lengths: list[int] = []
    for run in runs or (shape[0],):
        whole, rest = divmod(run, group)
        lengths += [group] * whole + ([rest] if rest else [])
    return (tuple(lengths) or (0,), *((length,) for length in shape[1:]))


class _Reader:
    """The array as dask may see it: sliceable, and nothing it could copy."""

    ndim: int

    def __init__(self, array: LazyArray) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.ndim = len(array.shape)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        # A tuple, so that a trajectory reads instead of returning another trajectory.
        return np.asarray(self._array[key if isinstance(key, tuple) else (key,)])

    def __dask_tokenize__(self) -> Any:
        return self._array.__dask_tokenize__()


def to_dask(array: LazyArray, chunks: Any, preferred: tuple[tuple[int, ...], ...]) -> da.Array:
    """Return a dask array that reads when it is computed.

    Parameters
    ----------
    array
        What to read from; pickled into the graph, without data.
    chunks
        As for `dask.array.from_array`; ``None`` or ``{}`` takes `preferred`.
    preferred
        Chunks that follow how the data lies.
    """
    import dask.array as da
    from dask.array.core import normalize_chunks
    from dask.base import tokenize

    if not array.shape:
        chunks = ()
    elif chunks is None or chunks == {}:
        chunks = preferred
    # As lengths, so that the name tells chunks apart: keys of one name mean the same data.
    chunks = normalize_chunks(chunks, array.shape, dtype=array.dtype)
    made: da.Array = da.from_array(
        _Reader(array),
        chunks=chunks,
        name=f"{_ARRAY_TAG}-{tokenize(array, chunks)}",
        asarray=False,
        # Not `inline_array`: the reader then crosses to each worker once, not in each task.
        meta=np.empty((0,) * len(array.shape), array.dtype),
    )
    return made


def to_xarray(
    array: LazyArray,
    data: da.Array,
    *,
    name: str | None,
    labels: Labels,
    coords: Mapping[str, Any] | None = None,
) -> xr.DataArray:
    """Return a labelled DataArray over a dask array.

    Parameters
    ----------
    array
        What `data` was made of.
    data
        Result of `to_dask`.
    name
        Of the DataArray.
    labels
        Dimension names (default ``dim_0, …``), coordinates, attributes. Coordinates
        along dimensions that the array does not have are left out.
    coords
        Instead of those of the same name in `labels`: ``(dims, values, attrs)``.

    Raises
    ------
    ValueError
        If the labels do not fit the shape.
    """
    import xarray as xr

    dims = labels.dims or tuple(f"dim_{axis}" for axis in range(len(array.shape)))
    if len(dims) != len(array.shape):
        raise ValueError(
            f"{name or 'array'} has {len(array.shape)} axes of shape {array.shape}, "
            f"but dims {dims!r} name {len(dims)}"
        )
    variables = {
        key: xr.Variable(*coordinate)
        for key, coordinate in {**labels.coords, **(coords or {})}.items()
        if set(coordinate[0]) <= set(dims)
    }
    made = xr.DataArray(data, coords=variables, dims=dims, attrs=labels.attrs)
    made.name = name  # the constructor would take None for dask's own name
    return made
