"""Where dask stores chunks: each is written at its place, without a lock."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.codec import compress
from binref_sci.dtypes import nbytes_of, to_stored
from binref_sci.errors import BufferNotFoundError, UnsupportedDTypeError, WriterError
from binref_sci.journal import RECORD
from binref_sci.storage import BUFFER_SUFFIX, write_at


class BufferTarget:
    """An array in a buffer that is there already, to be filled from anywhere.

    Chunks are byte ranges of their own, so no two writers touch the same byte: threads
    and processes need no lock. A chunk of whole rows is one ``pwrite``; any other one is
    as many as it has rows.

    Parameters
    ----------
    path
        Buffer, absolute.
    offset
        First byte of the array.
    shape, dtype
        Of the array.
    name
        Of the variable, for messages.
    sync
        Wait for the disk after each chunk.
    """

    def __init__(
        self,
        path: str,
        offset: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        name: str,
        sync: bool = False,
    ) -> None:
        self.path = path
        self.offset = offset
        self.shape = shape
        self.dtype = dtype
        self._name = name
        self._sync = sync

    def __setitem__(self, key: Any, values: Any) -> None:
        """Write a chunk; `key` holds slices of step 1."""
        spans = _spans(key, self.shape)
        extent = tuple(stop - start for start, stop in spans)
        stored = _checked(self._name, values, extent, self.dtype)
        fd = _opened(self._name, self.path)
        try:
            self._write(fd, stored, spans, extent)
            if self._sync:
                os.fdatasync(fd)
        finally:
            os.close(fd)

    def __dask_tokenize__(self) -> Any:
        return "BufferTarget", self.path, self.offset, self.shape, self.dtype.str

    def _write(
        self,
        fd: int,
        stored: Any,
        spans: list[tuple[int, int]],
        extent: tuple[int, ...],
    ) -> None:
        if not stored.size:
            return
        # Behind the last axis that is cut all is one run of bytes.
        cut = max((n for n, length in enumerate(self.shape) if extent[n] != length), default=0)
        strides = [nbytes_of(self.shape[n + 1 :], self.dtype) for n in range(len(self.shape))]
        inner = self.offset + sum(spans[n][0] * strides[n] for n in range(cut, len(spans)))
        rows = stored.reshape(math.prod(extent[:cut]), -1)
        outer = itertools.product(*(range(*spans[n]) for n in range(cut)))
        for row, index in zip(rows, outer, strict=True):
            at = sum(i * stride for i, stride in zip(index, strides, strict=False))
            write_at(fd, row, inner + at)


def _opened(name: str, path: str, flags: int = 0) -> int:
    """Open a file that is there: a chunk that comes after a failure must leave nothing behind."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags)
    except FileNotFoundError as error:
        raise BufferNotFoundError(
            f"variable {name!r}: buffer {path!r} is not there any more: the dataset was published, "
            "replaced or removed since this call of to_binref began"
        ) from error


def _checked(name: str, values: Any, extent: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a chunk as it is stored, if it is what the dask array says."""
    try:
        stored = to_stored(values)
    except UnsupportedDTypeError as error:
        raise UnsupportedDTypeError(f"variable {name!r}: {error}") from error
    if stored.shape != extent:
        raise WriterError(
            f"variable {name!r}: a chunk has shape {stored.shape}, but the dask array says {extent}"
        )
    if stored.dtype == dtype:
        return stored
    if stored.dtype.kind in "iu" and dtype.kind in "iu":
        # xarray says the dtype that is asked for dates, and makes int64 of them.
        narrow = stored.astype(dtype)
        if np.array_equal(narrow, stored):
            return narrow
    raise UnsupportedDTypeError(
        f"variable {name!r}: a chunk has dtype {stored.dtype.name}, but the dask array says "
        f"{dtype.name}"
    )


def _spans(key: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    given = key if isinstance(key, tuple) else (key,)
    if given == (Ellipsis,):
        given = ()
    given = (*given, *[slice(None)] * (len(shape) - len(given)))
    spans = []
    for part, length in zip(given, shape, strict=True):
        start, stop, step = part.indices(length)
        if step != 1:
            raise IndexError(f"a chunk is written without steps, got {part!r}")
        spans.append((start, max(stop, start)))
    return spans


class FrameTarget:
    """A compressed array: each chunk has a buffer and a table of its own, which are there already.

    Parameters
    ----------
    stem
        Absolute path that the names of the files begin with.
    shape, dtype
        Of the array; chunks are cut along the first axis alone.
    name
        Of the variable, for messages.
    sync
        Wait for the disk after each chunk.
    """

    def __init__(
        self,
        stem: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        name: str,
        sync: bool = False,
    ) -> None:
        self.stem = stem
        self._name = name
        self.shape = shape
        self.dtype = dtype
        self._sync = sync

    @staticmethod
    def files(stem: str, start: int) -> tuple[str, str]:
        """Return buffer and table of the chunk that begins with row `start`."""
        return f"{stem}-{start}{BUFFER_SUFFIX}", f"{stem}-{start}-table{BUFFER_SUFFIX}"

    def __setitem__(self, key: Any, values: Any) -> None:
        """Write a chunk of whole rows."""
        (start, stop), *inner = _spans(key, self.shape)
        assert inner == [(0, length) for length in self.shape[1:]]  # it was rechunked
        extent = (stop - start, *self.shape[1:])
        stored = _checked(self._name, values, extent, self.dtype)
        frames = [compress(row) for row in stored]
        sizes = np.array([len(frame) for frame in frames], RECORD)
        records = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
        for path, content in zip(
            self.files(self.stem, start), (b"".join(frames), records.tobytes()), strict=True
        ):
            # Truncated: a worker that died may have begun it.
            fd = _opened(self._name, path, os.O_TRUNC)
            try:
                write_at(fd, content, 0)
                if self._sync:
                    os.fsync(fd)
            finally:
                os.close(fd)

    def __dask_tokenize__(self) -> Any:
        return "FrameTarget", self.stem, self.shape, self.dtype.str
