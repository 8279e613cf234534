"""Blocks of a Jacobian on their way to disk: rows appended, or columns by position.

A block is one array of the output's shape followed by the input's, in a buffer of its
own. Seen as a matrix it has a row for each element of the output and a column for each
element of the input. It is never in memory as a whole.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.call import output_path as running_output_path
from binref_sci.dtypes import checked_dtype
from binref_sci.errors import ComponentError
from binref_sci.folders import made_folder
from binref_sci.naming import SCRATCH_PREFIX
from binref_sci.reference import ArrayRef
from binref_sci.storage import OpenBuffer, create_buffer, read_into, write_at

_TURNED: Final = 4 * 1024 * 1024  # bytes of a panel turned at a time
_SHORT_ROW: Final = 8 * 1024  # bytes up to which writing a row costs less than a system call


def folder_of(output_path: str | os.PathLike[str] | None) -> Path:
    """Return the absolute path of the folder that blocks are written into.

    Parameters
    ----------
    output_path
        The folder, which is made if it is missing; None: the running call's.

    Raises
    ------
    FormatError
        If it cannot be a local folder.
    NoOutputPathError
        If there is neither.
    """
    return running_output_path() if output_path is None else Path(made_folder(output_path))


class Block:
    """One block being written; a context manager that removes it unless it is finished.

    Parameters
    ----------
    outer, inner
        Shapes of output and input.
    dtype
        Element type.
    output_path
        Directory; default: the running call's.
    what
        Names the block in messages.

    Raises
    ------
    FormatError
        If the directory is a URL, or there is a file in its place.
    """

    def __init__(
        self,
        outer: tuple[int, ...],
        inner: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        what: str,
        output_path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.outer, self.inner = outer, inner
        self.dtype = checked_dtype(dtype)
        self.what = what
        self.rows, self.columns = math.prod(outer), math.prod(inner)
        self._directory = folder_of(output_path)
        # Unfinished it lies among what goes when the process is killed.
        self._scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self._directory))
        self._name, self._fd = create_buffer(self._scratch)
        self._end = 0

    def __enter__(self) -> Block:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def append(self, row: Any) -> None:
        """Write the next row, of the input's shape.

        Raises
        ------
        ComponentError
            If it has another shape, or numbers that those before have no room for.
        """
        data = self.fitted(row, self.inner)
        write_at(self._fd, data, self._end)
        self._end += data.nbytes

    def write_columns(self, first: int, panel: NDArray[Any]) -> None:
        """Write columns by position.

        Parameters
        ----------
        first
            Number of the first.
        panel
            A column in each row, C-contiguous, shape ``(count, rows)``.
        """
        count, itemsize = len(panel), self.dtype.itemsize
        if not self._end:
            self._end = self.rows * self.columns * itemsize
            os.ftruncate(self._fd, self._end)  # a gap costs nothing until it is written
        if count < self.columns and self.columns * itemsize <= _SHORT_ROW:
            self._fill_in(first, panel)
            return
        step = max(1, _TURNED // max(1, count * itemsize))
        for start in range(0, self.rows, step):
            turned = np.ascontiguousarray(panel[:, start : start + step].T)
            if count == self.columns:
                write_at(self._fd, turned, start * count * itemsize)
                continue
            place = (start * self.columns + first) * itemsize
            for row in turned:
                write_at(self._fd, row, place)
                place += self.columns * itemsize

    def _fill_in(self, first: int, panel: NDArray[Any]) -> None:
        """Write columns of short rows: whole rows are read, filled in and written back."""
        row_bytes = self.columns * self.dtype.itemsize
        step = max(1, _TURNED // row_bytes)
        whole = np.zeros((min(step, self.rows), self.columns), self.dtype)
        buffer = OpenBuffer.of(self._fd, self._name)
        for start in range(0, self.rows, step):
            rows = whole[: min(step, self.rows - start)]
            if first:
                read_into(buffer, start * row_bytes, rows)
            rows[:, first : first + len(panel)] = panel[:, start : start + len(rows)].T
            write_at(self._fd, rows, start * row_bytes)

    def fitted(self, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a row or column as it is stored.

        Raises
        ------
        ComponentError
            If it has another shape, or numbers that those before have no room for.
        """
        array = np.asarray(value)
        if array.shape != shape:
            raise ComponentError(f"{self.what} has shape {array.shape}, expected {shape}")
        if array.dtype != self.dtype:
            rule: Any = "safe" if array.dtype.kind in "fc" else "same_kind"  # no digits are lost
            if not np.can_cast(array.dtype, self.dtype, rule):
                raise ComponentError(
                    f"{self.what} has dtype {array.dtype.name} after {self.dtype.name} before"
                )
            array = array.astype(self.dtype)
        return np.ascontiguousarray(array)

    def finish(self) -> BinrefArray:
        """Return the whole block as a reference."""
        self._close()  # where a network file system tells of a full disk
        (self._scratch / self._name).rename(self._directory / self._name)
        self._scratch.rmdir()
        ref = ArrayRef(self._name, 0, (*self.outer, *self.inner), self.dtype)
        return BinrefArray.from_ref(ref, self._directory)

    def abandon(self) -> None:
        """Remove what has been written, unless the block is finished."""
        try:
            self._close()
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1  # also of a close that fails the number is another's
        if fd >= 0:
            os.close(fd)


@contextmanager
def all_or_none(made: Mapping[str, Mapping[str, BinrefArray]]) -> Iterator[None]:
    """Remove the blocks that are finished if a later one fails."""
    try:
        yield
    except BaseException:
        for row in made.values():
            for block in row.values():
                Path(block.directory, block.path).unlink(missing_ok=True)
        raise
