"""Arrays that lie inline in JSON, read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from binref_sci.codec import decompress
from binref_sci.dtypes import nbytes_of
from binref_sci.errors import BinrefError, PayloadError
from binref_sci.messages import shown
from binref_sci.wire.messages import at, first_line
from binref_sci.wire.numbers import numbers
from binref_sci.wire.objects import compression_of, parts_of


def decode_inline(obj: Any, where: str = "") -> NDArray[Any]:
    """Return the array that a JSON value holds inline: writable, private.

    Parameters
    ----------
    obj
        An array object encoded as ``json``, ``raw`` or ``base64``; or plain numbers,
        alone or in nested lists, whose dtype is then int64, uint64, float64 or bool.
    where
        What it belongs to, for the message.

    Raises
    ------
    PayloadError
        Naming `where`, if the value is malformed, or holds other numbers, or another
        number of bytes, than it declares.

    Examples
    --------
    >>> decode_inline({"shape": [3], "dtype": "float32",
    ...                "data": {"buffer": [0.5, None, "-Infinity"], "encoding": "json"}})
    array([ 0.5,  nan, -inf], dtype=float32)
    >>> decode_inline([[1, 2], [3, 4]]).dtype
    dtype('int64')
    """
    try:
        if not isinstance(obj, Mapping):
            return numbers(obj)
        shape, dtype, data = parts_of(obj)
        encoding = data.get("encoding")
        if encoding == "base64":
            return _from_base64(data, shape, dtype)
        if encoding in ("json", "raw"):
            return _from_lists(data, shape, dtype)
    except BinrefError as error:
        raise PayloadError(f"{at(where)}{error}") from error
    if encoding == "binref":
        raise PayloadError(f"{at(where)}the array is not inline but a reference to a file")
    raise PayloadError(
        f"{at(where)}data.encoding is {shown(encoding)}; this package reads json, raw, "
        "base64 and binref"
    )


def _from_base64(
    data: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    text = data.get("buffer")
    compression = compression_of(data)
    if not isinstance(text, str):
        raise PayloadError(f"base64 buffer is {shown(text)}, expected text")
    try:
        raw = pybase64.b64decode_as_bytearray(text, validate=True)
    except ValueError as error:
        raise PayloadError(f"base64 buffer does not decode: {first_line(error)}") from error
    nbytes = nbytes_of(shape, dtype)
    if compression is not None:
        raw = decompress(raw, nbytes, "base64 buffer")
    if len(raw) != nbytes:
        raise PayloadError(
            f"base64 buffer holds {len(raw)} bytes, but shape {list(shape)} of {dtype.name} "
            f"has {nbytes} bytes"
        )
    return np.frombuffer(raw, dtype).reshape(shape)


def _from_lists(
    data: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    if "buffer" not in data:
        raise PayloadError("json buffer is missing")
    if data.get("compression") is not None:
        raise PayloadError("json buffer cannot be compressed; use base64")
    values = data["buffer"]
    if not isinstance(values, list | tuple | int | float | str | None):
        raise PayloadError(f"json buffer is {shown(values)}, expected numbers in nested lists")
    if dtype.kind == "c":
        try:
            parts = numbers(values, np.empty(0, dtype).real.dtype)
        except PayloadError:
            written = _python_complex(values)
            if written is None or written.shape != shape:
                raise
            return written.astype(dtype)
        if parts.shape == (*shape, 2):
            return parts.view(dtype).reshape(shape)
        # real numbers stand for themselves; zero-length axes leave no pairs to see
        if parts.shape == shape or parts.size == 0 == math.prod(shape):
            return parts.astype(dtype).reshape(shape)
        raise PayloadError(
            f"json buffer has shape {list(parts.shape)}, but {dtype.name} of shape {list(shape)} "
            f"needs pairs (real, imaginary): shape {[*shape, 2]}"
        )
    found = numbers(values, dtype)
    # tesseract-core reads a flat list as the array's elements in C order; so do we
    flat = found.ndim == 1 and found.size == math.prod(shape)
    if found.shape != shape and not flat and not found.size == 0 == math.prod(shape):
        raise PayloadError(
            f"json buffer has shape {list(found.shape)}, but shape {list(shape)} is declared"
        )
    return found.reshape(shape)


def _python_complex(values: Any) -> NDArray[Any] | None:
    """Return complex numbers that tesseract-core writes as Python does, such as ``"(1+2j)"``."""
    try:
        held = np.array(values, dtype=object)
        found = [complex(leaf) for leaf in held.reshape(-1)]
    except (TypeError, ValueError):
        return None
    return np.array(found, dtype=np.complex128).reshape(held.shape)
