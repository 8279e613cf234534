"""Products with a matrix on disk, in bounded memory.

The matrix goes by once from front to back, in blocks. Raw bytes are mapped into memory a
window at a time: reading them would copy each from the page cache first, which costs as
much as multiplying does. Bytes of a store are read, and compressed ones decoded, ahead of the block
that is multiplied.

That the bytes are there is checked at each window. As with any mapping, a file that another
program cuts off while it is multiplied ends the process with SIGBUS; buffers of this package
are never cut once they are finished.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.codec import FrameReader
from binref_sci.dtypes import nbytes_of
from binref_sci.storage import Buffer, OpenBuffer, map_range, open_buffer, read_into, require

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""What is multiplied at a time, in bytes; see `benchmarks/jacobian.py`."""

WINDOW_BYTES: Final = 16 * BLOCK_BYTES
"""What is mapped at a time, in bytes; two windows may be there at once."""

READERS: Final = 4
"""Threads that read blocks of a store ahead."""

_Block = tuple[int, int, int, int]  # first row, first column, height, width
_Piece = tuple[int, int, NDArray[Any]]  # first row, first column, what is there


@dataclass(frozen=True)
class Matrix:
    """An array as a matrix: its first axes are the rows, the others the columns.

    Parameters
    ----------
    array
        On disk or in memory.
    row_axes
        How many axes count as rows.

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
        made = self._zeros(self.shape[0], right)
        for row, column, piece in self._pieces():
            rows, columns = piece.shape
            part = piece @ right[column : column + columns]
            if columns == self.shape[1]:
                made[row : row + rows] = part
            else:
                made[row : row + rows] += part
        return made

    def transposed_times(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the transpose's product with what has ``shape[0]`` rows."""
        made = self._zeros(self.shape[1], right)
        for row, column, piece in self._pieces():
            rows, columns = piece.shape
            made[column : column + columns] += piece.T @ right[row : row + rows]
        return made

    def adjoint_times(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the conjugate transpose's product with what has ``shape[0]`` rows."""
        if self.dtype.kind != "c":
            return self.transposed_times(right)
        # the vectors are conjugated, instead of the matrix
        return self.transposed_times(right.conj()).conj()

    def _zeros(self, length: int, right: NDArray[Any]) -> NDArray[Any]:
        return np.zeros((length, *right.shape[1:]), np.result_type(self.dtype, right.dtype))

    def _pieces(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield first row, first column and what is there; valid until the next one."""
        rows, columns = self.shape
        if not rows or not columns:
            return
        if not isinstance(self.array, BinrefArray):
            yield 0, 0, np.asarray(self.array).reshape(rows, columns)
            return
        blocks = _blocks(rows, columns, max(1, BLOCK_BYTES // self.dtype.itemsize))
        layout = self.array.layout
        with open_buffer(layout.directory, layout.path) as buffer:
            if self.array.compressed_size is not None:
                require(buffer, self.array.offset, self.array.compressed_size)
                yield from _decoded(buffer, self.array, self.array.compressed_size, blocks)
                return
            require(buffer, self.array.offset, nbytes_of(layout.shape, layout.dtype))
            if isinstance(buffer, OpenBuffer):
                yield from _mapped(buffer, self.array, blocks, columns)
            else:
                yield from _read(buffer, self.array, blocks, columns)


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


def _mapped(
    buffer: OpenBuffer, array: BinrefArray, blocks: Iterator[_Block], columns: int
) -> Iterator[_Piece]:
    """Yield blocks of a file, mapped a window at a time."""
    itemsize = array.dtype.itemsize
    end = nbytes_of(array.shape, array.dtype)
    window = np.empty(0, np.uint8)
    opened = 0  # where the window begins in the array
    for row, column, height, width in blocks:
        first, nbytes = (row * columns + column) * itemsize, height * width * itemsize
        if first + nbytes > opened + len(window):
            opened = first
            length = min(max(WINDOW_BYTES, nbytes), end - first)
            now = OpenBuffer.of(buffer.fd, buffer.name)  # it may have been cut since it was opened
            window = map_range(now, array.offset + first, length)
        piece = window[first - opened : first - opened + nbytes].view(array.dtype)
        yield row, column, piece.reshape(height, width)


def _read(
    buffer: Buffer, array: BinrefArray, blocks: Iterator[_Block], columns: int
) -> Iterator[_Piece]:
    """Yield blocks of a store."""

    def fetched(row: int, column: int, height: int, width: int) -> _Piece:
        piece = np.empty((height, width), array.dtype)
        read_into(buffer, array.offset + (row * columns + column) * array.dtype.itemsize, piece)
        return row, column, piece

    return _ahead(fetched, blocks, READERS)


def _decoded(
    buffer: Buffer, array: BinrefArray, size: int, blocks: Iterator[_Block]
) -> Iterator[_Piece]:
    """Yield blocks of a compressed array."""
    place, stop = array.offset, array.offset + size

    def more(wanted: int) -> bytes:
        nonlocal place
        piece = np.empty(min(wanted, stop - place), np.uint8)
        read_into(buffer, place, piece)
        place += len(piece)
        return piece.tobytes()

    nbytes = nbytes_of(array.shape, array.dtype)
    frame = FrameReader(more, nbytes, f"buffer {buffer.name!r}, byte {array.offset}")

    def decoded(row: int, column: int, height: int, width: int) -> _Piece:
        piece = np.empty((height, width), array.dtype)
        frame.read_into(piece.reshape(-1).view(np.uint8))
        return row, column, piece

    return _ahead(decoded, blocks, 1)  # one thread: a frame is decoded in order


def _ahead(
    made: Callable[[int, int, int, int], _Piece], blocks: Iterator[_Block], threads: int
) -> Iterator[_Piece]:
    """Yield pieces in the order of their blocks; the next ones are made in the background."""
    with ThreadPoolExecutor(threads) as pool:
        coming = deque(pool.submit(made, *block) for block in islice(blocks, threads))
        while coming:
            found = coming.popleft().result()
            coming.extend(pool.submit(made, *block) for block in islice(blocks, 1))
            yield found
