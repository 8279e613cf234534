"""LZ4 frames, decoded to exactly the bytes their reference promises.

Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

from typing import Any

import lz4.frame
import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import CorruptBufferError


def compress(array: NDArray[Any]) -> bytes:
    """Return a C-contiguous array's bytes as one LZ4 frame."""
    # The frame wants a plain byte view; a 0-d or empty array has none of its own.
    frame: bytes = lz4.frame.compress(array.reshape(-1).view(np.uint8))
    return frame


def decompress(frame: bytes | bytearray | memoryview, nbytes: int, where: str) -> bytearray:
    """Return the `nbytes` bytes that an LZ4 frame holds.

    Never more than `nbytes` are unpacked, whatever the frame claims.

    Raises
    ------
    CorruptBufferError
        If the frame is damaged, cut short, or holds another number of bytes.
    """
    decoder = lz4.frame.LZ4FrameDecompressor()
    made = bytearray()
    data: bytes = bytes(frame)
    try:
        # One byte more is asked for, so that a longer frame is noticed.
        while len(made) <= nbytes and not decoder.eof:
            piece = decoder.decompress(data, max_length=nbytes + 1 - len(made))
            data = b""
            made += piece
            if not piece and decoder.needs_input:
                break
    except RuntimeError as error:
        raise CorruptBufferError(f"{where}: not a valid lz4 frame ({error})") from error
    if len(made) != nbytes or not decoder.eof:
        found = f"more than {nbytes}" if len(made) > nbytes else f"{len(made)}"
        raise CorruptBufferError(
            f"{where}: the lz4 frame holds {found} bytes, but {nbytes} are expected"
        )
    return made
