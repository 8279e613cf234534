"""Animated pictures (GIF, APNG, WebP), written frame by frame.

Pillow encodes each frame; its own writers of animations keep all frames in memory, so the
containers are put together here. All three show the same 256 colours in all frames: those
of the colormap, exactly. Of a frame only the rectangle that has changed is stored.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

GIF_FPS: Final = 50.0
"""Browsers slow down what is faster."""

_MAX_DELAY = 65535


@dataclass(frozen=True)
class Film:
    """What all frames share.

    Parameters
    ----------
    size
        Width and height in pixels.
    count
        Number of frames.
    fps
        Frames per second.
    loop
        For ever, or once.
    palette
        RGB of each pixel's number, shape ``(256, 3)``.
    quality
        Of WebP: 100 keeps every colour.
    """

    size: tuple[int, int]
    count: int
    fps: float
    loop: bool
    palette: NDArray[np.uint8]
    quality: int = 100


class Animated:
    """A file of frames: `add` each, then `close`."""

    grain = 1  # pixels that a rectangle's corner is a multiple of

    def __init__(self, file: BinaryIO, film: Film) -> None:
        self._file = file
        self._film = film
        self._last: NDArray[np.uint8] | None = None
        self._done = 0
        self._begin()

    def add(self, pixels: NDArray[np.uint8]) -> None:
        """Write the next frame, shape ``(height, width)``, numbers of the palette."""
        top, bottom, left, right = _changed(self._last, pixels, self.grain)
        self._frame(np.ascontiguousarray(pixels[top:bottom, left:right]), (left, top))
        if self._last is None:
            self._last = pixels.copy()
        else:
            self._last[top:bottom, left:right] = pixels[top:bottom, left:right]
        self._done += 1

    def close(self) -> None:
        """Write what stands at the end."""
        raise NotImplementedError

    def _begin(self) -> None:
        raise NotImplementedError

    def _frame(self, part: NDArray[np.uint8], corner: tuple[int, int]) -> None:
        raise NotImplementedError

    def _ticks(self, per_second: int) -> int:
        """Return how long this frame is shown; rounding does not add up."""
        begin, end = (round(k * per_second / self._film.fps) for k in (self._done, self._done + 1))
        return min(max(end - begin, 1), _MAX_DELAY)


class Gif(Animated):
    """A GIF with one palette."""

    def _begin(self) -> None:
        width, height = self._film.size
        self._file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0))
        self._file.write(self._film.palette.tobytes())
        if self._film.loop:
            self._file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")

    def _frame(self, part: NDArray[np.uint8], corner: tuple[int, int]) -> None:
        height, width = part.shape
        keep = 1 << 2  # what is there stays, and the next frame goes over it
        self._file.write(b"\x21\xf9\x04" + struct.pack("<BHBB", keep, self._ticks(100), 0, 0))
        self._file.write(b"\x2c" + struct.pack("<HHHHB", *corner, width, height, 0))
        self._file.write(_lzw(part))

    def close(self) -> None:
        """Write the trailer."""
        self._file.write(b"\x3b")


class Apng(Animated):
    """An animated PNG."""

    def _begin(self) -> None:
        width, height = self._film.size
        self._number = 0
        self._file.write(b"\x89PNG\r\n\x1a\n")
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        plays = 0 if self._film.loop else 1
        self._chunk(b"acTL", struct.pack(">II", self._film.count, plays))
        self._chunk(b"PLTE", self._film.palette.tobytes())

    def _frame(self, part: NDArray[np.uint8], corner: tuple[int, int]) -> None:
        height, width = part.shape
        delay = self._ticks(1000)
        self._chunk(
            b"fcTL",
            struct.pack(">IIIIIHHBB", self._next(), width, height, *corner, delay, 1000, 0, 0),
        )
        for data in _deflated(part):
            if self._done:
                self._chunk(b"fdAT", struct.pack(">I", self._next()) + data)
            else:
                self._chunk(b"IDAT", data)

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    def _chunk(self, kind: bytes, data: bytes) -> None:
        check = zlib.crc32(data, zlib.crc32(kind))
        self._file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check))

    def close(self) -> None:
        """Write the end."""
        self._chunk(b"IEND", b"")


class WebP(Animated):
    """An animated WebP, lossless unless a lower quality is asked for."""

    grain = 2

    def _begin(self) -> None:
        width, height = self._film.size
        self._file.write(b"RIFF\0\0\0\0WEBP")
        animated = 1 << 1
        self._chunk(b"VP8X", struct.pack("<I", animated) + _u24(width - 1) + _u24(height - 1))
        plays = 0 if self._film.loop else 1
        self._chunk(b"ANIM", struct.pack("<IH", 0xFFFFFFFF, plays))

    def _frame(self, part: NDArray[np.uint8], corner: tuple[int, int]) -> None:
        height, width = part.shape
        left, top = corner
        place = b"".join(map(_u24, (left // 2, top // 2, width - 1, height - 1)))
        over = 1 << 1  # pixels replace those before, and stay
        head = place + _u24(self._ticks(1000)) + bytes([over])
        self._chunk(b"ANMF", head + self._encoded(self._film.palette[part]))

    def _encoded(self, rgb: NDArray[np.uint8]) -> bytes:
        """Return the chunks that hold one picture."""
        made = io.BytesIO()
        exact = self._film.quality >= 100
        # Of a few colours the fastest way is nearly the smallest.
        options: dict[str, Any] = {"lossless": exact, "method": 0 if exact else 3}
        options["quality"] = 20 if exact else self._film.quality
        Image.fromarray(rgb).save(made, "WEBP", **options)
        data = made.getvalue()
        kept = [chunk for kind, chunk in _riff(data) if kind in (b"VP8 ", b"VP8L", b"ALPH")]
        return b"".join(kept)

    def _chunk(self, kind: bytes, data: bytes) -> None:
        self._file.write(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2))

    def close(self) -> None:
        """Write the length, which stands at the beginning."""
        size = self._file.tell() - 8
        self._file.seek(4)
        self._file.write(struct.pack("<I", size))
        self._file.seek(0, io.SEEK_END)


def _changed(
    before: NDArray[np.uint8] | None, after: NDArray[np.uint8], grain: int
) -> tuple[int, int, int, int]:
    """Return top, bottom, left and right of the pixels that are not as before; at least one."""
    height, width = after.shape
    if before is None:
        return 0, height, 0, width
    different = before != after
    rows = np.flatnonzero(different.any(axis=1))
    if not len(rows):
        return 0, 1, 0, 1
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    columns = np.flatnonzero(different[top:bottom].any(axis=0))
    left, right = int(columns[0]), int(columns[-1]) + 1
    return top // grain * grain, bottom, left // grain * grain, right


def _lzw(part: NDArray[np.uint8]) -> bytes:
    """Return the image data of a GIF: as Pillow writes it for a picture in grey."""
    made = io.BytesIO()
    Image.fromarray(part).save(made, "GIF", interlace=0, optimize=False)
    data = made.getvalue()
    place = 13 + (3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0)
    while data[place] == 0x21:  # extensions: sub-blocks, each with its length before it
        place += 2
        while data[place]:
            place += data[place] + 1
        place += 1
    assert data[place] == 0x2C
    flags = data[place + 9]
    place += 10 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)
    return data[place:-1]


def _deflated(part: NDArray[np.uint8]) -> Iterator[bytes]:
    """Yield the image data of a PNG: as Pillow writes it for a picture in grey."""
    made = io.BytesIO()
    Image.fromarray(part).save(made, "PNG", compress_level=3)
    data = made.getvalue()
    place = 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        if data[place + 4 : place + 8] == b"IDAT":
            yield data[place + 8 : place + 8 + length]
        place += 12 + length


def _riff(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a WebP file, each by its name and whole."""
    place = 12
    while place + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, place + 4)
        stop = place + 8 + length + length % 2
        yield data[place : place + 4], data[place:stop]
        place = stop


def _u24(number: int) -> bytes:
    return struct.pack("<I", number)[:3]
