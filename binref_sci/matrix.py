"""Products with a matrix on disk, in bounded memory.

The matrix is read once from front to back, in blocks small enough to stay in the
processor's cache between being read and being multiplied. A few threads do both, each with
blocks of its own: copying from the page cache costs as much as multiplying. They multiply one at
a time, since BLAS has threads of its own, and several callers at once wait for each other. A
mapped matrix saves the copy, and is gone through in windows, so that only a few of them ever
count as this process's memory.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.codec import FrameReader
from binref_sci.dtypes import nbytes_of
from binref_sci.memory import page_aligned
from binref_sci.ranges import together
from binref_sci.storage import (
    Buffer,
    kept_whole,
    map_range,
    open_buffer,
    populated,
    read_into,
    require,
)

BLOCK_BYTES: Final = 2 * 1024 * 1024
"""What is read at a time, in bytes; see `benchmarks/jacobian.py`."""

MAPPED_BYTES: Final = 4 * BLOCK_BYTES
"""What is multiplied at a time of a mapped matrix, in bytes."""

WINDOW_BYTES: Final = 32 * BLOCK_BYTES
"""What is mapped at a time, in bytes; two windows may be there at once."""

FEW_VECTORS: Final = 16
"""With more, a matrix is not mapped unless that is asked for."""

READERS: Final = min(4, os.cpu_count() or 1)
"""Threads that read and multiply."""

Multiply = Callable[[NDArray[Any], int, int, NDArray[Any]], None]
"""Adds the product with a block to a sum: (sum, first row, first column, block)."""


class _Source(Protocol):
    """Bytes of an array from front to back."""

    readers: int

    def read_into(self, offset: int, target: NDArray[Any]) -> None:
        """Fill a C-contiguous array from a byte on; called in order if there is one reader."""


class _Plain:
    readers = READERS

    def __init__(self, buffer: Buffer, start: int) -> None:
        self._buffer = buffer
        self._start = start

    def read_into(self, offset: int, target: NDArray[Any]) -> None:
        read_into(self._buffer, self._start + offset, target)


class _Compressed:
    readers = 1

    def __init__(self, buffer: Buffer, start: int, size: int, nbytes: int) -> None:
        self._buffer = buffer
        self._next = start
        self._stop = start + size
        self._frame = FrameReader(self._more, nbytes, f"buffer {buffer.name!r}, byte {start}")

    def _more(self, size: int) -> bytes:
        piece = np.empty(min(size, self._stop - self._next), np.uint8)
        read_into(self._buffer, self._next, piece)
        self._next += len(piece)
        return piece.tobytes()

    def read_into(self, offset: int, target: NDArray[Any]) -> None:
        self._frame.read_into(target.reshape(-1).view(np.uint8))


@dataclass(frozen=True)
class Matrix:
    """An array as a matrix: its first axes are the rows, the others the columns.

    Parameters
    ----------
    array
        On disk or in memory.
    row_axes
        How many axes count as rows.
    mmap
        Map raw bytes instead of reading them; None: where the system keeps others from
        cutting the file meanwhile. Compressed ones are read all the same.

    Examples
    --------
    >>> block = np.arange(12.0).reshape(2, 3, 2)
    >>> Matrix(block, 2).shape
    (6, 2)
    >>> Matrix(block, 2).times(np.array([1.0, 1.0]))
    array([ 1.,  5.,  9., 13., 17., 21.])
    """

    array: BinrefArray | NDArray[Any]
    row_axes: int
    mmap: bool | None = False

    def __post_init__(self) -> None:
        if not 0 <= self.row_axes <= self.array.ndim:
            raise ValueError(
                f"an array of shape {self.array.shape} has no {self.row_axes} axes of rows"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        lengths = self.array.shape
        return math.prod(lengths[: self.row_axes]), math.prod(lengths[self.row_axes :])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.array.dtype

    def times(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the product with a vector or matrix of ``shape[1]`` rows."""

        def multiply(total: NDArray[Any], row: int, column: int, block: NDArray[Any]) -> None:
            rows, columns = block.shape
            total[row : row + rows] += block @ right[column : column + columns]

        return self._summed(self.shape[0], right, multiply, apart=True)

    def transposed_times(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the transpose's product with what has ``shape[0]`` rows."""

        def multiply(total: NDArray[Any], row: int, column: int, block: NDArray[Any]) -> None:
            rows, columns = block.shape
            total[column : column + columns] += block.T @ right[row : row + rows]

        return self._summed(self.shape[1], right, multiply, apart=False)

    def adjoint_times(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the conjugate transpose's product with what has ``shape[0]`` rows."""
        if self.dtype.kind != "c":
            return self.transposed_times(right)
        # the vectors are conjugated, instead of the matrix
        return self.transposed_times(right.conj()).conj()

    def _summed(
        self, length: int, right: NDArray[Any], multiply: Multiply, *, apart: bool
    ) -> NDArray[Any]:
        """Return the sum over all blocks, the same to the last bit each time.

        Parameters
        ----------
        length
            Number of its rows.
        right
            What the blocks are multiplied with.
        multiply
            Adds the product with one of them.
        apart
            Blocks of whole rows add to different rows of the sum.
        """
        rows, columns = self.shape
        total = np.zeros((length, *right.shape[1:]), np.result_type(self.dtype, right.dtype))
        if not rows or not columns:
            return total
        if not isinstance(self.array, BinrefArray):
            multiply(total, 0, 0, np.asarray(self.array).reshape(rows, columns))
            return total
        if self._is_to_be_mapped(self.array, right):
            with _mappable(self.array, leased=self.mmap is None) as (buffer, is_kept):
                if is_kept():
                    blocks = _blocks(rows, columns, max(1, MAPPED_BYTES // self.dtype.itemsize))
                    for row, column, block in _mapped(self.array, buffer, blocks, columns, is_kept):
                        multiply(total, row, column, block)
                    return total
        self._read(self.array, multiply, total, apart=apart)
        return total

    def _is_to_be_mapped(self, array: BinrefArray, right: NDArray[Any]) -> bool:
        if array.compressed_size is not None:
            return False
        if self.mmap is None:
            # To ask for a lease takes as long as to copy a block. And with many vectors it is not
            # the copy that takes time, while who would write has to wait for a block's product.
            return array.nbytes > BLOCK_BYTES and right.size <= FEW_VECTORS * len(right)
        return self.mmap

    def _read(
        self, array: BinrefArray, multiply: Multiply, total: NDArray[Any], *, apart: bool
    ) -> None:
        """Read and multiply in several threads; arguments as of `_summed`."""
        rows, columns = self.shape
        most = min(max(1, BLOCK_BYTES // self.dtype.itemsize), rows * columns)
        multiplying = threading.Lock()
        with _source(array) as source:
            threads = 1 if most == rows * columns else source.readers
            by_columns = columns > most and not apart
            if by_columns:  # as many parts of a row for each thread
                parts = threads * math.ceil(columns / most / threads)
                most = math.ceil(columns / parts)
            # Where threads do not add to different rows or columns, each adds to a sum of its
            # own, in the same order each time.
            shared = by_columns or (apart and columns <= most)
            sums = [total, *(total if shared else np.zeros_like(total) for _ in range(1, threads))]

            def work(thread: int, going: Callable[[], bool]) -> None:
                room = page_aligned((most,), self.dtype)
                for number, block in enumerate(_blocks(rows, columns, most)):
                    row, column, height, width = block
                    if (column // most if by_columns else number) % threads != thread:
                        continue
                    if not going():
                        return
                    data = room[: height * width].reshape(height, width)
                    source.read_into((row * columns + column) * self.dtype.itemsize, data)
                    with multiplying:
                        multiply(sums[thread], row, column, data)

            together(work, threads)
        if not shared:
            for other in sums[1:]:
                total += other


def _blocks(rows: int, columns: int, most: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield first row, first column, height and width of blocks that lie in one piece."""
    step = most // columns
    if not step:  # a row does not fit
        for row in range(rows):
            for column in range(0, columns, most):
                yield row, column, 1, min(most, columns - column)
        return
    for row in range(0, rows, step):
        yield row, 0, min(step, rows - row), columns


@contextmanager
def _mappable(array: BinrefArray, *, leased: bool) -> Iterator[tuple[Buffer, Callable[[], bool]]]:
    """Open the file; give it with what tells whether it may be mapped, now and later on."""
    layout = array.layout
    with (
        open_buffer(layout.directory, layout.path) as buffer,
        kept_whole(buffer) if leased else nullcontext(lambda: True) as is_kept,
    ):
        yield buffer, is_kept


def _mapped(
    array: BinrefArray,
    buffer: Buffer,
    blocks: Iterator[tuple[int, int, int, int]],
    columns: int,
    is_kept: Callable[[], bool],
) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield first row, first column and what is there, mapped a window at a time.

    What is left when the file is kept no more is read, and so is what cannot be mapped.
    """
    layout, itemsize = array.layout, array.dtype.itemsize
    end = nbytes_of(layout.shape, layout.dtype)
    require(buffer, array.offset, end)  # now, and not when the last window is reached
    window = _Window(buffer, array.offset, end)
    for row, column, height, width in blocks:
        first, nbytes = (row * columns + column) * itemsize, height * width * itemsize
        if is_kept() and (mapped := window.moved_to(first, nbytes)) is not None:
            yield row, column, mapped.view(array.dtype).reshape(height, width)
            continue
        piece = page_aligned((height, width), array.dtype)
        read_into(buffer, array.offset + first, piece)
        yield row, column, piece


class _Window:
    """The part of an array's bytes that is mapped.

    Parameters
    ----------
    buffer
        Open as long as this is used.
    start
        Where the array begins in it.
    size
        Bytes of the array.
    """

    def __init__(self, buffer: Buffer, start: int, size: int) -> None:
        self._buffer = buffer
        self._start = start
        self._size = size
        self._first = 0
        self._mapped = np.empty(0, np.uint8)

    def moved_to(self, first: int, nbytes: int) -> NDArray[np.uint8] | None:
        """Return some bytes of the array, or None if they cannot be mapped."""
        if first + nbytes > self._first + len(self._mapped):
            length = min(max(WINDOW_BYTES, nbytes), self._size - first)
            try:
                self._mapped = map_range(self._buffer, self._start + first, length)
            except OSError:  # no room, as where addresses are limited
                return None
            self._first = first
        piece = self._mapped[first - self._first :][:nbytes]
        return piece if populated(piece) else None


@contextmanager
def _source(array: BinrefArray) -> Iterator[_Source]:
    layout = array.layout
    nbytes = nbytes_of(layout.shape, layout.dtype)
    with open_buffer(layout.directory, layout.path) as buffer:
        if array.compressed_size is None:
            require(buffer, array.offset, nbytes)
            yield _Plain(buffer, array.offset)
        else:
            require(buffer, array.offset, array.compressed_size)
            yield _Compressed(buffer, array.offset, array.compressed_size, nbytes)
