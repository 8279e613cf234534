"""What arrays in one buffer share, held once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from binref_sci.dtypes import checked_shape, dtype_on_disk
from binref_sci.reference import checked_compression
from binref_sci.storage import Root


@dataclass(frozen=True, slots=True)
class Layout:
    """What equal arrays in one buffer share; a reference adds its offset.

    Parameters
    ----------
    directory
        Absolute directory that `path` is relative to, or a folder of a store.
    path
        Buffer, with ``/`` between folders.
    shape, dtype, compression
        As in `ArrayRef`.
    owner
        Kept alive with the arrays: a scratch folder that ends with them.
    part_of
        Shape of the whole field, where the arrays are one block of it.
    """

    directory: Root
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str | None = None
    owner: object = field(default=None, compare=False, repr=False)
    part_of: tuple[int, ...] | None = field(default=None, compare=False)


def checked_layout(
    directory: str, path: str, shape: Any, dtype: Any, compression: str | None
) -> Layout:
    """Return the layout of a caller's arguments; the same one for the same arguments.

    Raises
    ------
    InvalidReferenceError, UnsupportedDTypeError
        If no array can be so.
    """
    if _is_plain(shape, dtype):
        return _remembered(directory, path, shape, dtype, compression)
    return _made(directory, path, shape, dtype, compression)


def _is_plain(shape: Any, dtype: Any) -> bool:
    """Tell whether these can be a cache key: (True, 2) and (1.0, 2) equal (1, 2)."""
    return (
        type(shape) is tuple
        and _INT.issuperset(map(type, shape))
        and isinstance(dtype, _HASHABLE_DTYPES)
    )


_INT = frozenset([int])
_HASHABLE_DTYPES = (str, type, np.dtype)


def _made(directory: str, path: str, shape: Any, dtype: Any, compression: str | None) -> Layout:
    return Layout(
        directory,
        path,
        checked_shape(shape),
        dtype_on_disk(dtype),
        checked_compression(compression),
    )


_remembered = lru_cache(maxsize=256)(_made)
