"""The wire format of tesseract-core, in both directions: the only parser and formatter of it.

An array on the wire is a JSON object::

    {"object_type": "array", "shape": [2], "dtype": "float64",
     "data": {"buffer": "run_7/a.bin:0", "encoding": "binref"}}

`data.encoding` is ``binref`` (the buffer is a place, ``path:offset[:compressed_size]``),
``base64``, or ``json`` (nested lists; ``raw`` is another name for it). The numbers that
JSON lacks are written so that nothing is lost but the payload of a NaN: NaN is ``null``,
the infinities are ``"Infinity"`` and ``"-Infinity"``, a complex number is a pair, and
integers are exact to 64 bits.

This module turns text into references and arrays and back. It opens no file: what a
reference names is the business of `binref_sci.array`.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import lz4.frame
import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray

from binref_sci.codec import compress, decompress
from binref_sci.dtypes import DTYPES, checked_shape, nbytes_of, to_stored
from binref_sci.errors import BinrefError, InvalidReferenceError, PayloadError
from binref_sci.reference import COMPRESSIONS, ArrayRef

OUTPUT_FORMATS: Final = ("json", "json+base64", "json+binref")
"""How the arrays of a response can be written; also the media types after ``application/``."""

_BUFFER = re.compile(r"(?P<path>.+?)(?::(?P<offset>[0-9]+)(?::(?P<size>[0-9]+))?)?", re.DOTALL)
_NUMBERED = re.compile(r":-?[0-9]+\Z")
_LARGEST: Final = 2**63 - 1  # what a file offset and a NumPy length can be
_EXACT_FLOAT: Final = 2**53  # floats are whole numbers' exact stand-ins up to here
_SPECIAL: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

_BLOCK: Final = 1 << 20  # bytes of an array that become one piece of JSON text
_BASE64_BLOCK: Final = 3 << 20  # a multiple of three, so that the pieces' texts join up
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = 60


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


# ---------------------------------------------------------------- references


def parse_buffer(text: Any, where: str = "") -> tuple[str, int, int | None]:
    """Return path, offset and compressed size of ``path[:offset[:compressed_size]]``.

    Parameters
    ----------
    text
        From the wire. A bare path means offset 0.
    where
        What it belongs to, for the message.

    Raises
    ------
    InvalidReferenceError
        If it is no such text: a negative or oversized number, or more than two.

    Examples
    --------
    >>> parse_buffer("run_7/a.bin:1024")
    ('run_7/a.bin', 1024, None)
    >>> parse_buffer("a.bin")
    ('a.bin', 0, None)
    """
    form = "expected 'path[:offset[:compressed_size]]'"
    if not isinstance(text, str) or not text:
        raise InvalidReferenceError(f"{_at(where)}buffer is {_shown(text)}; {form}")
    found = _BUFFER.fullmatch(text)
    assert found is not None  # the path alone matches any text
    path = found["path"]
    if _NUMBERED.search(path) or path.startswith(":"):
        # What is left over looks like a number: negative, or one too many.
        raise InvalidReferenceError(
            f"{_at(where)}buffer {_shown(text)} has a negative number or too many; {form}"
        )
    numbers = [
        None if digits is None else _place(digits, text, where)
        for digits in (found["offset"], found["size"])
    ]
    return path, numbers[0] or 0, numbers[1]


def _place(digits: str, text: str, where: str) -> int:
    digits = digits.lstrip("0") or "0"
    # Length first: Python refuses to convert thousands of digits with an error of its own.
    if len(digits) > 19 or int(digits) > _LARGEST:
        raise InvalidReferenceError(
            f"{_at(where)}buffer {_shown(text)} has a number beyond {_LARGEST}, "
            "the largest place in a file"
        )
    return int(digits)


def format_buffer(path: str, offset: int, compressed_size: int | None = None) -> str:
    """Return the text form of a place; the offset is always written.

    Raises
    ------
    InvalidReferenceError
        If the name ends in ``:digits``: readers would take them for the offset.

    Examples
    --------
    >>> format_buffer("run_7/a.bin", 0)
    'run_7/a.bin:0'
    """
    if _NUMBERED.search(path):
        raise InvalidReferenceError(
            f"buffer name {path!r} ends in ':' and a number, which readers would take for "
            "the offset; rename the file"
        )
    return f"{path}:{offset}" if compressed_size is None else f"{path}:{offset}:{compressed_size}"


def ref_to_json(ref: ArrayRef, prefix: str = "") -> dict[str, Any]:
    """Return a reference as the JSON object of the wire.

    Parameters
    ----------
    ref
        The reference.
    prefix
        Put before the path, such as ``run_7/``.
    """
    data: dict[str, Any] = {
        "buffer": format_buffer(prefix + ref.path, ref.offset, ref.compressed_size),
        "encoding": "binref",
    }
    if ref.compression is not None:
        data["compression"] = ref.compression
    return {
        "object_type": "array",
        "shape": list(ref.shape),
        "dtype": ref.dtype.name,
        "data": data,
    }


def ref_from_json(obj: Any, where: str = "") -> ArrayRef:
    """Return the reference that a JSON object of the wire holds.

    Keys may come in any order. Whether the path may be followed is not checked here.

    Raises
    ------
    InvalidReferenceError
        Naming `where`, if it is no reference or one that cannot be meant.

    Examples
    --------
    >>> ref_from_json({"data": {"encoding": "binref", "buffer": "a.bin:8"},
    ...                "dtype": "int16", "shape": [3]}).stop
    14
    """
    try:
        shape, dtype, data = _parts(obj)
        if data.get("encoding") != "binref":
            raise InvalidReferenceError(
                f"data.encoding is {_shown(data.get('encoding'))}, expected 'binref'"
            )
        path, offset, size = parse_buffer(data.get("buffer"))
        compression = data.get("compression")
        if compression is None and size is not None:
            # Redundant, but harmless if it is right.
            if size != nbytes_of(shape, dtype):
                raise InvalidReferenceError(
                    f"buffer {_shown(data['buffer'])} gives {size} bytes without naming a "
                    f"compression, but shape {list(shape)} of {dtype.name} has "
                    f"{nbytes_of(shape, dtype)} bytes"
                )
            size = None
        if compression is not None and size is None:
            raise InvalidReferenceError(
                f"buffer {_shown(data['buffer'])} lacks the compressed size; "
                "expected 'path:offset:compressed_size'"
            )
        ref = ArrayRef(path, offset, shape, dtype, _compression(data), size)
        if ref.stop > _LARGEST:
            raise InvalidReferenceError(
                f"the array would end at byte {ref.stop}, beyond the end of any file"
            )
    except BinrefError as error:
        raise InvalidReferenceError(f"{_at(where)}{error}") from error
    return ref


def ref_piece_maker(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], compression: str | None = None
) -> tuple[str, str]:
    """Return what stands before and after the offset in a reference's JSON text.

    Equal references of one buffer differ in the offset alone (and, compressed, in the
    size: ``offset:size``), so a hundred thousand are written as prefix, number, suffix.

    Raises
    ------
    InvalidReferenceError
        If the name of the buffer ends in ``:digits``.

    Examples
    --------
    >>> before, after = ref_piece_maker("a.bin", (2,), DTYPES["int8"])
    >>> before + "16" + after == orjson.dumps(ref_to_json(ArrayRef("a.bin", 16, (2,), "int8"))).decode()
    True
    """
    place = orjson.dumps(format_buffer(path, 0)).decode()
    codec = f',"compression":"{compression}"' if compression is not None else ""
    before = _head(shape, dtype) + place.removesuffix('0"')
    return before, f'","encoding":"binref"{codec}}}}}'


def is_array_json(obj: Any) -> bool:
    """Tell whether a JSON value is an array of the wire, in any encoding.

    tesseract-core's server marks its arrays with ``"object_type": "array"``, its client
    does not; without the mark, the object must have just the keys of an array.

    Examples
    --------
    >>> is_array_json({"shape": [1], "dtype": "bool", "data": {"buffer": [True], "encoding": "raw"}})
    True
    >>> is_array_json({"shape": [1], "dtype": "bool"})
    False
    """
    if not isinstance(obj, dict):
        return False
    data = obj.get("data")
    if not isinstance(data, dict) or "encoding" not in data:
        return False
    if "object_type" in obj:
        return bool(obj["object_type"] == "array")
    return obj.keys() == {"shape", "dtype", "data"}


# ------------------------------------------------------------ inline, reading


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
        shape, dtype, data = _parts(obj)
        encoding = data.get("encoding")
        if encoding == "base64":
            return _from_base64(data, shape, dtype)
        if encoding in ("json", "raw"):
            return _from_lists(data, shape, dtype)
    except BinrefError as error:
        raise PayloadError(f"{_at(where)}{error}") from error
    if encoding == "binref":
        raise PayloadError(f"{_at(where)}the array is not inline but a reference to a file")
    raise PayloadError(
        f"{_at(where)}data.encoding is {_shown(encoding)}; this package reads json, raw, "
        "base64 and binref"
    )


def numbers(values: Any, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """Return plain numbers, alone or in nested lists, as an array.

    JSON does not tell 1 from 1.0: a float that is a whole number up to 2**53 may stand
    in an integer array. Nothing else changes its kind, and no integer ever passes
    through a float.

    Parameters
    ----------
    values
        From JSON, so with ``None`` for NaN and the infinities as text, or from Python.
    dtype
        What they are declared as; None infers int64, uint64, float64, bool.

    Raises
    ------
    PayloadError
        If the lists are ragged, hold something else than numbers, or numbers that
        `dtype` cannot hold.

    Examples
    --------
    >>> numbers([2**64 - 1, 1]).tolist() == [2**64 - 1, 1]
    True
    """
    try:
        found = np.array(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise PayloadError(f"not an array of numbers: {_first_line(error)}") from error
    kind = found.dtype.kind
    wanted = "" if dtype is None else dtype.kind
    if found.size == 0:  # no number, so none of a wrong kind
        return found.astype(np.float64 if dtype is None else dtype)
    exact = kind in "biu" or kind == "c"
    if kind == "f":
        # NumPy makes floats of integers that fit no common type: look at those again.
        exact = wanted in ("f", "c") or (wanted == "" and not _beyond_exact(found))
    if not exact:
        found = _one_by_one(values, dtype)
    if found.dtype.kind not in "biufc":
        raise PayloadError(f"not an array of numbers: found {found.dtype.name}")
    return found if dtype is None else cast(found, dtype)


def _beyond_exact(found: NDArray[Any]) -> bool:
    finite = found[np.isfinite(found)]
    return bool(finite.size) and bool(np.abs(finite).max() >= _EXACT_FLOAT)


def _one_by_one(values: Any, dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Convert numbers singly: exact for all integers, and able to name the wrong one."""
    try:
        held = np.array(values, dtype=object)
    except ValueError as error:
        raise PayloadError(f"nested lists are ragged: {_first_line(error)}") from error
    leaves = held.reshape(-1).tolist()
    for leaf in leaves:
        if isinstance(leaf, str) and leaf in _SPECIAL:
            continue
        if leaf is not None and not isinstance(leaf, bool | int | float | np.number | np.bool_):
            what = "nested lists are ragged at" if isinstance(leaf, list) else "not a number:"
            raise PayloadError(f"{what} {_shown(leaf)}")
    kind = "" if dtype is None else dtype.kind
    floats = [
        leaf for leaf in leaves if leaf is None or isinstance(leaf, str | float | np.floating)
    ]
    if kind == "b":
        strange = next(leaf for leaf in leaves if not isinstance(leaf, bool | np.bool_))
        raise PayloadError(f"{_shown(strange)} is not a bool")
    if kind in ("f", "c") or (kind == "" and floats):
        # as Python floats; whoever asked for a narrower dtype casts, and is told what is lost
        return np.array([_as_float(leaf) for leaf in leaves], np.float64).reshape(held.shape)
    whole = [_as_whole(leaf, dtype) for leaf in leaves]
    low, high = min(whole, default=0), max(whole, default=0)
    held_by = np.dtype(np.uint64 if high > _LARGEST else np.int64)
    info = np.iinfo(dtype if dtype is not None else held_by)
    if low < info.min or high > info.max:
        strange = low if low < info.min else high
        raise PayloadError(f"value {strange} does not fit {info.dtype.name}")
    return np.array(whole, dtype=dtype if dtype is not None else held_by).reshape(held.shape)


def _as_float(leaf: Any) -> float:
    if leaf is None:
        return math.nan
    try:
        return _SPECIAL[leaf] if isinstance(leaf, str) else float(leaf)
    except OverflowError as error:
        raise PayloadError(f"value {_shown(leaf)} does not fit float64") from error


def _as_whole(leaf: Any, dtype: np.dtype[Any] | None) -> int:
    name = "integer" if dtype is None else dtype.name
    if leaf is None:
        raise PayloadError(f"null in an array of {name}, which has no NaN")
    if isinstance(leaf, float | np.floating):
        number = float(leaf)
        if not number.is_integer():
            raise PayloadError(f"value {leaf} is not a whole number, expected {name}")
        if abs(number) > _EXACT_FLOAT:
            raise PayloadError(
                f"value {leaf} is a float beyond 2**53, where whole numbers are not told apart; "
                f"expected {name}"
            )
    if isinstance(leaf, str):
        raise PayloadError(f"value {leaf} does not fit {name}")
    return int(leaf)


def cast(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array with another dtype of the same kind, if no value is lost.

    Floats may be rounded to fewer digits, as always; a finite one never becomes
    infinite. Integers keep their value. The result shares memory if nothing changes.

    Raises
    ------
    PayloadError
        Naming the dtype and one value that it cannot hold.

    Examples
    --------
    >>> cast(np.array([300]), DTYPES["int8"])
    Traceback (most recent call last):
        ...
    binref_sci.errors.PayloadError: value 300 does not fit int8
    """
    found = array.dtype
    if found == dtype:
        return array
    if found.kind in "iu" and dtype.kind in "iu":
        return _cast_whole(array, dtype)
    if not np.can_cast(found, dtype, "same_kind"):
        if array.size == 0:
            return array.astype(dtype)
        raise PayloadError(_misfit(array, dtype))
    if np.can_cast(found, dtype, "safe"):
        return array.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        made = array.astype(dtype)
    if np.isinf(made).any():
        lost = _infinite_parts(made) & ~_infinite_parts(array)
        if lost.any():
            value = array[lost.any(axis=0)].reshape(-1)[0].item()
            raise PayloadError(f"value {value} does not fit {dtype.name}")
    return made


def _infinite_parts(array: NDArray[Any]) -> NDArray[np.bool_]:
    return np.stack([np.isinf(array.real), np.isinf(array.imag)])


def _cast_whole(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if array.size and not np.can_cast(array.dtype, dtype, "safe"):
        info = np.iinfo(dtype)
        # as Python integers: comparing int64 with uint64 inside NumPy goes through float
        for value in (int(array.min()), int(array.max())):
            if not info.min <= value <= info.max:
                raise PayloadError(f"value {value} does not fit {dtype.name}")
    return array.astype(dtype)


def _misfit(array: NDArray[Any], dtype: np.dtype[Any]) -> str:
    """Say why an array of another kind is refused, with a value that shows it."""
    flat = array.reshape(-1)
    value = flat[0]
    if array.dtype.kind == "f" and dtype.kind in "iu":
        odd = flat != np.trunc(flat)
        value = flat[int(odd.argmax())] if odd.any() else value
    elif array.dtype.kind == "c":
        odd = flat.imag != 0
        value = flat[int(odd.argmax())] if odd.any() else value
    return (
        f"{array.dtype.name} values cannot become {dtype.name} "
        f"(e.g. value {value.item()}); convert them before sending"
    )


def _parts(obj: Any) -> tuple[tuple[int, ...], np.dtype[Any], Mapping[str, Any]]:
    """Return shape, dtype and data of an array object, checked."""
    if not isinstance(obj, Mapping):
        raise PayloadError(f"expected an array object, got {_shown(obj)}")
    kind = obj.get("object_type", "array")
    if kind != "array":
        raise PayloadError(f"object_type is {_shown(kind)}, expected 'array'")
    for key in ("shape", "dtype", "data"):
        if key not in obj:
            raise PayloadError(
                f"array object lacks {key!r} (it has {_shown(sorted(map(str, obj)))})"
            )
    name = obj["dtype"]
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise PayloadError(f"dtype is {_shown(name)}; the wire format has {', '.join(DTYPES)}")
    shape = obj["shape"]
    if not isinstance(shape, list | tuple):
        raise PayloadError(f"shape is {_shown(shape)}, expected a list of whole numbers")
    shape = checked_shape(shape)
    # NumPy counts a zero-length axis as one here, and so must we: it cannot hold such a shape.
    if math.prod(length or 1 for length in shape) * dtype.itemsize > _LARGEST:
        raise PayloadError(f"shape {_shown(list(shape))} of {dtype.name} is larger than any memory")
    data = obj["data"]
    if not isinstance(data, Mapping):
        raise PayloadError(f"data is {_shown(data)}, expected an object with buffer and encoding")
    return shape, dtype, data


def _compression(data: Mapping[str, Any]) -> str | None:
    found = data.get("compression")
    if found is not None and found not in COMPRESSIONS:
        raise PayloadError(
            f"data.compression is {_shown(found)}, expected {' or '.join(COMPRESSIONS)}"
        )
    return None if found is None else str(found)


def _from_base64(
    data: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    text = data.get("buffer")
    compression = _compression(data)
    if not isinstance(text, str):
        raise PayloadError(f"base64 buffer is {_shown(text)}, expected text")
    try:
        raw = pybase64.b64decode_as_bytearray(text, validate=True)
    except ValueError as error:
        raise PayloadError(f"base64 buffer does not decode: {_first_line(error)}") from error
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
        raise PayloadError(f"json buffer is {_shown(values)}, expected numbers in nested lists")
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


# ------------------------------------------------------------ inline, writing


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
    head = _head(shape, dtype).encode()
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


def _head(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    lengths = ",".join(map(str, shape))
    return f'{{"object_type":"array","shape":[{lengths}],"dtype":"{dtype.name}","data":{{"buffer":'


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


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _shown(value: Any) -> str:
    """Return a value for a message: one line, whatever somebody sent."""
    return _SHORT.repr(value)


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
