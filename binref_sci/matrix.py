"""Products with a matrix on disk, in bounded memory.

The matrix is read once from front to back, in blocks small enough to stay in the
processor's cache between being read and being multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.codec import FrameReader
from binref_sci.dtypes import nbytes_of
from binref_sci.storage import OpenBuffer, open_buffer, read_into, require

BLOCK_BYTES: Final = 512 * 1024
"""What is read at a time, in bytes; see `benchmarks/jacobian.py`."""


class _Source(Protocol):
    """Bytes from front to back."""

    def read_into(self, target: NDArray[Any]) -> None:
        """Fill a C-contiguous array with the next bytes."""


class _Plain:
    def __init__(self, buffer: OpenBuffer, offset: int) -> None:
        self._buffer = buffer
        self._offset = offset

    def read_into(self, target: NDArray[Any]) -> None:
        read_into(self._buffer, self._offset, target)
        self._offset += target.nbytes


class _Compressed:
    def __init__(self, buffer: OpenBuffer, offset: int, size: int, nbytes: int) -> None:
        self._buffer = buffer
        self._offset = offset
        self._stop = offset + size
        self._frame = FrameReader(self._more, nbytes, f"buffer {buffer.name!r}, byte {offset}")

    def _more(self, size: int) -> bytes:
        piece = np.empty(min(size, self._stop - self._offset), np.uint8)
        read_into(self._buffer, self._offset, piece)
        self._offset += len(piece)
        return piece.tobytes()

    def read_into(self, target: NDArray[Any]) -> None:
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
        most = max(1, BLOCK_BYTES // self.dtype.itemsize)
        scratch = np.empty(min(most, rows * columns), self.dtype)
        with _source(self.array) as source:
            if columns > most:  # a row does not fit: in pieces
                for row in range(rows):
                    for column in range(0, columns, most):
                        piece = scratch[: min(most, columns - column)]
                        source.read_into(piece)
                        yield row, column, piece.reshape(1, -1)
                return
            step = most // columns
            for row in range(0, rows, step):
                count = min(step, rows - row)
                piece = scratch[: count * columns]
                source.read_into(piece)
                yield row, 0, piece.reshape(count, columns)


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
