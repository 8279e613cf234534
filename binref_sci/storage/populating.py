"""Mapped bytes that are there before they are used."""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
from typing import Any, Final

from numpy.typing import NDArray

_POPULATE_READ: Final = 22  # MADV_POPULATE_READ of Linux 5.14, which Python does not name
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def populated(mapped: NDArray[Any]) -> bool:
    """Bring mapped bytes into memory; False if they cannot be had, as where a disk fails.

    Who touches such bytes is killed, where reading them is an error that can be told. A
    system that knows no such call (before Linux 5.14, or another) says True to everything.

    Parameters
    ----------
    mapped
        C-contiguous, within what `map_range` has returned.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryFile() as file:
    ...     _ = file.truncate(mmap.PAGESIZE)
    ...     view = np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    >>> populated(view)
    True
    """
    if sys.platform != "linux":
        return True
    first = mapped.__array_interface__["data"][0]
    start = first - first % mmap.PAGESIZE
    # not `mmap.madvise`, which keeps the interpreter's lock while the disk is waited for
    failed: int = _LIBC.madvise(
        ctypes.c_void_p(start), ctypes.c_size_t(first + mapped.nbytes - start), _POPULATE_READ
    )
    return not failed or ctypes.get_errno() == errno.EINVAL
