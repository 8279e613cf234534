"""Parts of a labelled array, read the shortest way that its storage allows.

An array of this package is asked for the bytes of one frame. Of any other lazy array, the
decoded chunk is kept, so that playing decodes each chunk once; dask computes only what is
no plain view of a file.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Protocol

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import get_scheduler
from numpy.typing import NDArray

KEPT_BYTES = 32 * 1024 * 1024
"""A decoded chunk is kept if it has no more bytes than this."""

_OURS = "binref_sci."
_WRAPPERS = ("array", "_array")  # what xarray's and our adapters call the array inside

Key = tuple[int | slice, ...]


class Reader(Protocol):
    """Reads parts of one array."""

    def read(self, key: Key) -> NDArray[Any]:
        """Return ``array[key]``, with one integer or slice an axis."""

    def series(self, key: Key) -> NDArray[Any]:
        """Return what a key with one slice, along the frames, selects."""

    @property
    def runs(self) -> tuple[int, ...] | None:
        """Lengths of the chunks along the frames if they are decoded whole, else None."""


def reader_of(obj: xr.DataArray, dim: str) -> Reader:
    """Return a reader of an array.

    Parameters
    ----------
    obj
        In memory, over dask, or lazy in xarray's own way.
    dim
        Along which it is played.
    """
    axis = obj.dims.index(dim)
    data = obj.variable._data
    data = getattr(data, "magnitude", data)  # numbers of a quantity of pint
    if isinstance(data, da.Array):
        source = file_under(data)
        if source is None:
            return Chunked(_computed(data), data.shape, axis, data.chunks[axis], data.dtype)
        if inside(source) is not None:
            return Plain(source)
        return Chunked(source.__getitem__, data.shape, axis, data.chunks[axis], data.dtype)
    if isinstance(data, np.ndarray):
        return Plain(data)
    variable = obj.variable

    def load(key: Key) -> Any:
        return variable[key].values

    if inside(data) is not None:
        return Plain(_Called(load))
    runs = _runs(obj, dim)
    return Chunked(load, obj.shape, axis, runs, obj.dtype)


def file_under(array: da.Array) -> Any:
    """Return what a dask array is a plain view of, or None if it computes anything."""
    layers = array.dask.layers
    original = layers.get(f"original-{array.name}")
    if original is None or len(layers) != 2 or array.name not in layers:
        return None
    (source,) = original.values()
    source = getattr(source, "value", source)  # newer dask wraps what is no task
    shape = getattr(source, "shape", None)
    return source if shape == array.shape and hasattr(source, "__getitem__") else None


def inside(data: Any) -> Any:
    """Return the array of this package that others are wrapped around, or None."""
    for _ in range(8):
        if type(data).__module__.startswith(_OURS):
            return data
        data = next((getattr(data, name) for name in _WRAPPERS if hasattr(data, name)), None)
        if data is None:
            return None
    return None


def whole_of(obj: xr.DataArray) -> Any:
    """Return the array on disk that a labelled array is, all of it and as it is; else None."""
    data = obj.variable._data
    if isinstance(data, da.Array):
        data = file_under(data)
    for _ in range(8):
        if data is None or getattr(data, "shape", None) != obj.shape:
            return None
        deeper = next((getattr(data, name) for name in _WRAPPERS if hasattr(data, name)), None)
        if deeper is None:
            return data if type(data).__module__.startswith(_OURS) else None
        data = deeper
    return None


def _runs(obj: xr.DataArray, dim: str) -> tuple[int, ...]:
    """Return the chunks that a file without dask says it has."""
    preferred = obj.encoding.get("preferred_chunks", {})
    length = preferred.get(dim, 1) if isinstance(preferred, dict) else 1
    if isinstance(length, tuple):
        return length if sum(length) == obj.sizes[dim] else (1,) * obj.sizes[dim]
    return (length,) * (-(-obj.sizes[dim] // max(length, 1)))


def _computed(array: da.Array) -> Callable[[Key], Any]:
    def load(key: Key) -> Any:
        # A cluster, if there is one, holds what it was told to keep; else no thread is
        # worth its start for the chunk or two under a frame.
        part = array[key]
        scheduler = get_scheduler(collections=[part])
        cluster = getattr(scheduler, "__self__", None) is not None
        return part.compute(scheduler=None if cluster else "synchronous")

    return load


class _Called:
    """A function of a key, spelt with brackets."""

    def __init__(self, load: Callable[[Key], Any]) -> None:
        self._load = load

    def __getitem__(self, key: Key) -> Any:
        return self._load(key)


class Plain:
    """An array of which any part costs what its bytes cost."""

    runs = None

    def __init__(self, source: Any) -> None:
        self._source = source

    def read(self, key: Key) -> NDArray[Any]:
        """Return ``array[key]``."""
        return np.asarray(self._source[key])

    series = read


class Chunked:
    """An array that is decoded chunk by chunk; the last chunk is kept.

    Parameters
    ----------
    load
        Reads a part.
    shape
        Of the array.
    axis
        Of the frames.
    runs
        Lengths of the chunks along it.
    dtype
        Element type.
    """

    def __init__(
        self,
        load: Callable[[Key], Any],
        shape: tuple[int, ...],
        axis: int,
        runs: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._load = load
        self._shape = shape
        self._axis = axis
        self._runs = runs
        self._itemsize = dtype.itemsize
        self._stops = np.cumsum(runs).tolist()
        self._lock = threading.Lock()
        self._kept: tuple[Any, NDArray[Any]] | None = None

    @property
    def runs(self) -> tuple[int, ...] | None:
        """Lengths of the chunks along the frames."""
        return self._runs

    def read(self, key: Key) -> NDArray[Any]:
        """Return ``array[key]``; the whole chunk is decoded if it is small enough to keep."""
        frame = key[self._axis]
        if isinstance(frame, slice):
            return np.asarray(self._load(key))
        number = bisect_right(self._stops, frame)
        count = self._runs[number]
        start = self._stops[number] - count
        # Other axes whole, so that another window or stride finds the chunk again.
        place = tuple(
            slice(start, start + count)
            if axis == self._axis
            else part
            if not isinstance(part, slice)
            else slice(None)
            for axis, part in enumerate(key)
        )
        points = [
            length
            for axis, length in enumerate(self._shape)
            if axis != self._axis and isinstance(key[axis], slice)
        ]
        if count < 2 or int(np.prod(points)) * count * self._itemsize > KEPT_BYTES:
            return np.asarray(self._load(key))
        name = tuple((p.start, p.stop) if isinstance(p, slice) else p for p in place)
        with self._lock:
            kept = self._kept
            if kept is None or kept[0] != name:
                kept = name, np.asarray(self._load(place))
                self._kept = kept
        inner = tuple(
            frame - start if axis == self._axis else part
            for axis, part in enumerate(key)
            if isinstance(part, slice) or axis == self._axis
        )
        return kept[1][inner]

    def series(self, key: Key) -> NDArray[Any]:
        """Return what a key with one slice along the frames selects; nothing is kept."""
        return np.asarray(self._load(key))


def real(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as float32 or float64 in the machine's order, exact up to 53 bits.

    Examples
    --------
    >>> real(np.array([1, 2], ">i2")).dtype
    dtype('float32')
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    small = (kind == "f" and size <= 4) or (kind in "biu" and size <= 2)
    return values.astype("f4" if small else "f8", copy=False)
