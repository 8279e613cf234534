"""Blocks of a Jacobian on disk as what SciPy's solvers work on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from binref_sci.array import BinrefArray
from binref_sci.matrix import Matrix


class MatrixOperator(LinearOperator):  # type: ignore[misc]  # SciPy ships no types
    """A matrix, on disk as a rule, that is multiplied as it is read.

    ``matvec``, ``rmatvec``, ``matmat`` and ``rmatmat`` go once through the bytes, in
    blocks of 2 MiB; beside a few of those only vectors are in memory. So ``svds``, ``lsqr``,
    ``lsmr`` or ``cg`` work on a Jacobian larger than memory. Nothing is kept between two
    products, and no file is open: operators can be pickled, and used from many threads.

    Parameters
    ----------
    array
        On disk or in memory.
    row_axes
        How many of its axes, from the first on, number the rows.
    mmap
        Map the bytes, 64 MiB at a time, instead of copying them into blocks. None, the
        default: as long as the system keeps others from cutting the file meanwhile.

    Examples
    --------
    >>> block = np.arange(6.0).reshape(3, 2)
    >>> MatrixOperator(block, 1) @ np.array([1.0, 2.0])
    array([ 2.,  8., 14.])
    """

    def __init__(
        self, array: BinrefArray | NDArray[Any], row_axes: int, *, mmap: bool | None = None
    ) -> None:
        self._matrix = Matrix(array, row_axes, mmap)
        super().__init__(self._matrix.dtype, self._matrix.shape)

    @property
    def array(self) -> BinrefArray | NDArray[Any]:
        """The block, with the axes it has."""
        return self._matrix.array

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._matrix.times(np.asarray(x))

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._matrix.adjoint_times(np.asarray(x))

    def _matmat(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._matrix.times(np.asarray(x))

    def _rmatmat(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._matrix.adjoint_times(np.asarray(x))
