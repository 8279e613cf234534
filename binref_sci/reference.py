"""`ArrayRef`: where one array lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from binref_sci.dtypes import checked_count, checked_shape, dtype_on_disk, nbytes_of
from binref_sci.errors import InvalidReferenceError
from binref_sci.messages import shown
from binref_sci.naming import COMPRESSIONS


def checked_compression(compression: str | None) -> str | None:
    """Return `compression`, or refuse a codec that the wire format lacks.

    Raises
    ------
    InvalidReferenceError
        If it is neither ``None`` nor ``"lz4"``.
    """
    if compression is not None and compression not in COMPRESSIONS:
        raise InvalidReferenceError(
            f"compression must be None or one of {', '.join(COMPRESSIONS)}, got {shown(compression)}"
        )
    return compression


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """Where one C-ordered, little-endian array lies in a buffer.

    A reference names bytes; it never opens or holds them. It is immutable and
    hashable, and valid by construction.

    Parameters
    ----------
    path
        Buffer file, with ``/`` between folders, relative to a root that the
        holder of the reference knows.
    offset
        Position of the first stored byte, in bytes from the start of the file.
    shape
        Number of elements along each axis; ``()`` for a single number.
    dtype
        Element type, one of the fourteen of the wire format.
    compression
        ``"lz4"`` if the stored bytes are an LZ4 frame.
    compressed_size
        Length of that frame, in bytes; given exactly if `compression` is.

    Raises
    ------
    InvalidReferenceError
        If a size or offset is negative or fractional, the path is empty, or
        `compression` and `compressed_size` do not go together.
    UnsupportedDTypeError
        If the wire format has no such element type.

    Examples
    --------
    >>> ref = ArrayRef("run_7/position.bin", 1024, (500, 64, 3), "float64")
    >>> ref.nbytes, ref.stop
    (768000, 769024)
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str | None = None
    compressed_size: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise InvalidReferenceError(
                f"buffer path must be a non-empty string, got {shown(self.path)}"
            )
        checked_compression(self.compression)
        if (self.compression is None) != (self.compressed_size is None):
            raise InvalidReferenceError(
                f"buffer {shown(self.path)}: compression ({shown(self.compression)}) and compressed size "
                f"({shown(self.compressed_size)}) must be given together"
            )
        set_ = object.__setattr__  # the way to normalise a frozen dataclass's fields
        set_(self, "offset", checked_count(self.offset, f"offset into buffer {shown(self.path)}"))
        set_(self, "shape", checked_shape(self.shape))
        set_(self, "dtype", dtype_on_disk(self.dtype))
        if self.compressed_size is not None:
            size = checked_count(
                self.compressed_size, f"compressed size in buffer {shown(self.path)}"
            )
            set_(self, "compressed_size", size)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array once it is in memory."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def stored_size(self) -> int:
        """Bytes in the buffer: the compressed size, or `nbytes`."""
        return self.nbytes if self.compressed_size is None else self.compressed_size

    @property
    def stop(self) -> int:
        """First byte of the buffer after the array."""
        return self.offset + self.stored_size
