"""LZ4 frames, decoded to exactly the bytes their reference promises.

Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import lz4.frame
import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import CorruptBufferError

_FEED: Final = 256 * 1024  # compressed bytes handed to the decoder at a time


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


class FrameReader:
    """An LZ4 frame decoded from front to back, in bounded memory.

    Parameters
    ----------
    more
        Returns up to so many of the frame's next bytes, none at its end.
    nbytes
        Bytes that the frame holds.
    where
        Names the frame in messages.
    """

    def __init__(self, more: Callable[[int], bytes], nbytes: int, where: str) -> None:
        self._more = more
        self._left = nbytes
        self._nbytes = nbytes
        self._where = where
        self._decoder = lz4.frame.LZ4FrameDecompressor()

    def read_into(self, target: NDArray[np.uint8]) -> None:
        """Fill an array of bytes with what comes next.

        Raises
        ------
        CorruptBufferError
            If the frame is damaged, cut short, or holds another number of bytes.
        """
        done = 0
        while done < len(target):
            piece = self._decode(len(target) - done)
            if not piece:
                raise CorruptBufferError(
                    f"{self._where}: the lz4 frame holds {self._nbytes - self._left + done} bytes, "
                    f"but {self._nbytes} are expected"
                )
            target[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
        self._left -= done
        if not self._left and (self._decode(1) or not self._decoder.eof):
            raise CorruptBufferError(
                f"{self._where}: the lz4 frame does not end after the {self._nbytes} bytes that "
                "are expected"
            )

    def _decode(self, most: int) -> bytes:
        """Return some bytes; none at the end of the frame, or of what there is of it."""
        while not self._decoder.eof:
            wanting = self._decoder.needs_input
            data = self._more(_FEED) if wanting else b""
            if wanting and not data:
                break
            try:
                piece: bytes = self._decoder.decompress(data, max_length=most)
            except RuntimeError as error:
                raise CorruptBufferError(
                    f"{self._where}: not a valid lz4 frame ({error})"
                ) from error
            if piece:
                return piece
        return b""
