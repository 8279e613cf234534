"""Arrays as JSON text, piece by piece: a lazy one is never whole in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import lz4.frame
import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray

from binref_sci.codec import compress
from binref_sci.dtypes import to_stored
from binref_sci.wire.objects import array_head

_BLOCK: Final = 1 << 20  # bytes of an array that become one piece of JSON text
_BASE64_BLOCK: Final = 3 << 20  # a multiple of three, so that the pieces' texts join up
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY


class Sliceable(Protocol):
    """A NumPy array, or anything lazy that is sliced as one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""

    def reshape(self, shape: int, /) -> Any:
        """Return the elements in one row, without reading them."""


def array_pieces(
    array: Sliceable, encoding: str, compression: str | None = None
) -> Iterator[bytes | memoryview]:
    """Yield one array as JSON text, in pieces of a few MiB at most.

    Parameters
    ----------
    array
        A NumPy array, or a lazy one, which is then read in blocks.
    encoding
        ``"json"`` or ``"base64"``.
    compression
        ``"lz4"`` or None; with base64 only, since JSON numbers are not compressed.

    Raises
    ------
    UnsupportedDTypeError
        If the wire format has no such element type.

    Examples
    --------
    >>> b"".join(array_pieces(np.array([1.5, np.inf]), "json"))
    b'{"object_type":"array","shape":[2],"dtype":"float64","data":{"buffer":[1.5,"Infinity"],"encoding":"json"}}'
    >>> b"".join(array_pieces(np.array(3, "int8"), "base64"))
    b'{"object_type":"array","shape":[],"dtype":"int8","data":{"buffer":"Aw==","encoding":"base64"}}'
    """
    if isinstance(array, np.ndarray | np.generic):
        array = to_stored(array)
    shape, dtype = array.shape, array.dtype
    head = array_head(shape, dtype).encode()
    flat = array.reshape(-1)
    if encoding == "json":
        yield head
        yield from _lists(flat, 0, shape)
        yield b',"encoding":"json"}}'
        return
    yield head + b'"'
    codec = b'"}}'
    if compression is None:
        yield from _base64(_byte_blocks(flat))
    else:
        codec = b'","compression":"' + compression.encode() + b'"}}'
        yield from _base64(_compressed(flat))
    yield b'","encoding":"base64' + codec


def _lists(flat: Any, start: int, shape: tuple[int, ...]) -> Iterator[bytes | memoryview]:
    """Yield elements from `start` on as nested lists of `shape`.

    Works on flat ranges, so that a lazy array is read in order, each byte once.
    """
    count = math.prod(shape)
    itemsize = flat.dtype.itemsize
    if count * itemsize <= _BLOCK:
        yield numbers_to_json(np.asarray(flat[start : start + count]).reshape(shape))
        return
    inner = shape[1:]
    step = math.prod(inner)
    rows = _BLOCK // (step * itemsize)
    yield b"["
    if rows == 0:
        for row in range(shape[0]):
            if row:
                yield b","
            yield from _lists(flat, start + row * step, inner)
    for row in range(0, shape[0] if rows else 0, rows or 1):
        stop = min(row + rows, shape[0])
        block = np.asarray(flat[start + row * step : start + stop * step])
        if row:
            yield b","
        yield memoryview(numbers_to_json(block.reshape(stop - row, *inner)))[1:-1]
    yield b"]"


def numbers_to_json(array: NDArray[Any]) -> bytes:
    """Return an array's numbers as strict JSON: nested lists, or one bare number.

    Examples
    --------
    >>> numbers_to_json(np.array([1 + 2j, complex(0, -np.inf)]))
    b'[[1.0,2.0],[0.0,"-Infinity"]]'
    """
    if array.dtype.kind == "c":
        parts = np.ascontiguousarray(array).reshape(-1)  # a 0-d array has no view as pairs
        array = parts.view(parts.real.dtype).reshape(*array.shape, 2)
    if array.dtype.kind == "f" and np.isinf(array).any():
        # orjson would write null for these too; NaN it may.
        held = array.astype(object)
        held[array == np.inf] = "Infinity"
        held[array == -np.inf] = "-Infinity"
        return orjson.dumps(held.tolist() if array.ndim else held[()])
    if array.ndim == 0 or array.size == 0:  # which orjson does not take, or shortens
        return orjson.dumps(array.tolist())
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return orjson.dumps(array, option=_NUMPY)


def _byte_blocks(flat: Any) -> Iterator[memoryview]:
    step = _BASE64_BLOCK // flat.dtype.itemsize // 3 * 3
    for start in range(0, flat.shape[0], step):
        block = np.asarray(flat[start : start + step])
        yield block.view(np.uint8).data


def _compressed(flat: Any) -> Iterator[bytes]:
    nbytes = flat.shape[0] * flat.dtype.itemsize
    if nbytes <= _BASE64_BLOCK:
        yield compress(np.asarray(flat[:]))
        return
    with lz4.frame.LZ4FrameCompressor() as compressor:
        yield compressor.begin(source_size=nbytes)
        for block in _byte_blocks(flat):
            yield compressor.compress(block)
        yield compressor.flush()


def _base64(blocks: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield base64 text of blocks of any length as if they were one."""
    left = b""
    for block in blocks:
        if left:
            block = left + bytes(block)  # only compressed blocks, which are small
            left = b""
        whole = len(block) // 3 * 3
        if whole != len(block):
            left = bytes(block[whole:])
            block = block[:whole]
        if block:
            yield pybase64.b64encode(block)
    if left:
        yield pybase64.b64encode(left)
