"""A lazy array as xarray indexes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from dask.base import tokenize
from numpy.typing import DTypeLike
from xarray.backends import BackendArray
from xarray.core import indexing

from binref_sci.engine.indexing import Readable, read_basic, read_outer, read_vectorized
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    CorruptBufferError,
    InvalidReferenceError,
    TruncatedBufferError,
)

STORAGE_ERRORS: Final = (
    BufferNotFoundError,
    TruncatedBufferError,
    CorruptBufferError,
    InvalidReferenceError,
)


_READ: Final[Mapping[type, Callable[[Any, tuple[Any, ...]], Any]]] = {
    indexing.BasicIndexer: read_basic,
    indexing.OuterIndexer: read_outer,
    indexing.VectorizedIndexer: read_vectorized,
}


def with_name(name: str, error: BinrefError, way_out: str = "") -> BinrefError:
    """Return the same error, naming the variable too."""
    return type(error)(f"variable {name!r}: {error}{way_out}")


class Backend(BackendArray):
    """A lazy array that xarray can read: every kind of index is planned, none is cut down.

    It knows which variable it is, so that a failed read can tell. It looks at each buffer's
    status when it is made: its token is that of this moment. xarray's own adapter is not
    used: it cannot cut an empty slice that goes back.

    Parameters
    ----------
    name
        Of the variable.
    array
        What is read.
    """

    def __init__(self, name: str, array: Readable) -> None:
        self._name = name
        self._array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype
        self.token: str = tokenize(name, array)
        self.whole = (slice(None),) * len(self.shape)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        try:
            return np.asarray(_READ[type(key)](self._array, key.tuple))
        except BufferNotFoundError as error:
            way_out = "; if this was moved or saved again since it was opened, open it again"
            raise with_name(self._name, error, way_out) from error
        except STORAGE_ERRORS as error:
            raise with_name(self._name, error) from error

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """Read in a thread, for ``Dataset.load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)

    def __dask_tokenize__(self) -> Any:
        return self.token


class LazyArray(indexing.LazilyIndexedArray):
    """xarray's lazily indexed array, with a short way to one snapshot.

    That is what a loop over time and a player ask for. xarray's arithmetic of keys and its
    checks take as long there as reading 256 KiB does.
    """

    __slots__ = ()

    def __getitem__(self, indexer: indexing.ExplicitIndexer) -> Any:
        key, array = indexer.tuple, self.array
        if (
            type(indexer) is type(self.key) is indexing.BasicIndexer  # no arrays to compare
            and self.key.tuple == array.whole
            and key[1:] == array.whole[1:]
            and key
            and type(key[0]) is int
        ):
            made = LazyArray.__new__(LazyArray)
            made.array, made.key, made._shape = array, indexer, array.shape[1:]
            return made
        return super().__getitem__(indexer)

    def _updated_key(self, new_key: Any) -> Any:
        """Combine keys; xarray alone takes a start in front of the first for the last element."""
        parts = new_key.tuple
        if any(_starts_in_front(part, n) for part, n in zip(parts, self.shape, strict=False)):
            cut = (
                slice(0) if _starts_in_front(part, n) else part
                for part, n in zip(parts, self.shape, strict=True)
            )
            new_key = type(new_key)(tuple(cut))
        return super()._updated_key(new_key)

    def __array__(self, dtype: DTypeLike | None = None, /, *, copy: bool | None = None) -> Any:
        """Read what has been selected, without xarray's look at the version of NumPy each time."""
        return np.asarray(self.get_duck_array(), dtype=dtype, copy=copy)

    def get_duck_array(self) -> Any:
        """Read what has been selected."""
        return self.array[self.key]


def _starts_in_front(part: Any, length: int) -> bool:
    """Tell whether a slice goes back from in front of the first element: it is empty."""
    return (
        isinstance(part, slice)
        and (part.step or 1) < 0
        and part.start is not None
        and part.start < -length
    )
