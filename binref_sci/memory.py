"""Memory that files are read into fast.

What `numpy.empty` returns begins 16 bytes after a page does, where `malloc` has taken pages for
it. Bytes of a file lie in pages too, most arrays at the beginning of one, and some processors
copy to a place just behind another's position in its page several times slower than to the
same position: on an AMD EPYC 1 MiB in 392 microseconds instead of 80, 1 GiB in 541 ms
instead of 209.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE: Final = 16 * 1024 * 1024
"""Below, in bytes, what is used once costs as much to align as it gains: pages are new."""

_PAGE: Final = 4096


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return a new array, not filled, to be read into once; aligned if it is large.

    Parameters
    ----------
    shape, dtype
        As for `numpy.empty`.

    Raises
    ------
    MemoryError, ValueError
        As `numpy.empty` raises it, if it is too large.
    """
    kind = np.dtype(dtype)
    if math.prod(shape) * kind.itemsize < LARGE:
        return np.empty(shape, kind)
    return page_aligned(shape, kind)


def page_aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return a new array, not filled, that begins with a page: to be read into many times.

    Arguments and errors are those of `empty`.

    Examples
    --------
    >>> page_aligned((512, 512), "float64").ctypes.data % 4096
    0
    """
    kind = np.dtype(dtype)
    pages = np.empty(math.prod(shape) * kind.itemsize + _PAGE, np.uint8)
    start = -pages.__array_interface__["data"][0] % _PAGE
    return np.ndarray(shape, kind, pages, start)
