"""Finished buffers mapped into memory: on request only.

A map of a file that shrinks kills the interpreter, and its pages count as memory of a
dask worker; in return nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.text import TextArray
from binref_sci.plan import Segment, Stored
from binref_sci.storage import map_buffer
from binref_sci.trajectory import Trajectory

_KEPT = 16  # maps an array: each holds a descriptor


class MappedArray:
    """A lazy array whose parts are views of its buffers, as long as they lie in one.

    Views are private: writing into one changes neither the file nor another view that
    was mapped in another process. Maps are made at the first index, once an array and
    process; they are not pickled.

    Parameters
    ----------
    array
        Uncompressed, of a run that is complete.
    """

    def __init__(self, array: Trajectory | BinrefArray) -> None:
        self._array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype
        self._single = isinstance(array, BinrefArray)
        self._views: dict[int, NDArray[Any]] = {}

    def __getitem__(self, key: Any) -> Any:
        """Return a view where all that is asked for lies in one buffer, else read."""
        stored = self._array.stored
        if self._single:
            return self._view(stored, 0)[0][key]
        if len(stored.segments) == 1:
            return self._view(stored, 0)[key]
        first = key[0] if isinstance(key, tuple) and key else key
        number = self._only_segment(stored, first)
        if number is None:
            return stored.read(key)
        start = int(stored.starts[number])
        rest = key[1:] if isinstance(key, tuple) else ()
        length = len(self)
        if isinstance(first, slice):
            low, high, step = first.indices(length)
            span = range(low, high, step)
            below = span.stop - start
            inner: Any = slice(span.start - start, None if below < 0 else below, step)
        else:
            inner = int(first) + (length if first < 0 else 0) - start
        return self._view(stored, number)[(inner, *rest)]

    def __len__(self) -> int:
        return self.shape[0]

    def _only_segment(self, stored: Stored, first: Any) -> int | None:
        """Return the segment that holds all that an index of axis 0 asks for."""
        length = len(self)
        if isinstance(first, slice):
            span = range(*first.indices(length))
            if not len(span):
                return None
            ends = (span[0], span[-1])
        elif isinstance(first, int | np.integer) and not isinstance(first, bool | np.bool_):
            index = int(first) + (length if first < 0 else 0)
            if not 0 <= index < length:
                return None
            ends = (index, index)
        else:
            return None
        numbers = np.searchsorted(stored.starts, ends, side="right") - 1
        return int(numbers[0]) if numbers[0] == numbers[1] else None

    def _view(self, stored: Stored, number: int) -> NDArray[Any]:
        view = self._views.get(number)
        if view is None:
            if len(self._views) >= _KEPT:
                self._views.clear()  # those in use stay until their users let them go
            view = self._views[number] = _mapped(stored, stored.segments[number])
        return view

    def __dask_tokenize__(self) -> Any:
        return self._array.__dask_tokenize__()

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedArray, (self._array,)


def mapped(
    data: Trajectory | BinrefArray | BlockArray | TextArray,
) -> Trajectory | BinrefArray | BlockArray | TextArray | MappedArray:
    """Return the array mapped, if it is of a kind that can be."""
    if not isinstance(data, Trajectory | BinrefArray) or data.compression is not None:
        return data
    if not data.size or any(segment.offsets is not None for segment in data.stored.segments):
        return data
    return MappedArray(data)


def _mapped(stored: Stored, segment: Segment) -> NDArray[Any]:
    """Return the snapshots of a segment as a private, writable view of its buffer."""
    nbytes = stored.snapshot_bytes
    last = segment.offset + (segment.count - 1) * segment.stride
    low, high = min(segment.offset, last), max(segment.offset, last) + nbytes
    buffer = map_buffer(stored.root, segment.path, low, high - low)
    shape = (segment.count, *stored.inner)
    # ndarray, not frombuffer: a segment's snapshots may lie apart, or backwards.
    return np.ndarray(
        shape, stored.dtype, buffer, segment.offset - low, (segment.stride, *stored.inner_strides)
    )
