"""Array objects: their shape, dtype and data; those whose data is a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from binref_sci.dtypes import DTYPES, checked_shape, nbytes_of
from binref_sci.errors import BinrefError, InvalidReferenceError, PayloadError
from binref_sci.messages import shown
from binref_sci.naming import COMPRESSIONS
from binref_sci.reference import ArrayRef
from binref_sci.wire.messages import at
from binref_sci.wire.places import LARGEST, format_buffer, parse_buffer


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
        shape, dtype, data = parts_of(obj)
        if data.get("encoding") != "binref":
            raise InvalidReferenceError(
                f"data.encoding is {shown(data.get('encoding'))}, expected 'binref'"
            )
        path, offset, size = parse_buffer(data.get("buffer"))
        compression = data.get("compression")
        if compression is None and size is not None:
            # Redundant, but harmless if it is right.
            if size != nbytes_of(shape, dtype):
                raise InvalidReferenceError(
                    f"buffer {shown(data['buffer'])} gives {size} bytes without naming a "
                    f"compression, but shape {list(shape)} of {dtype.name} has "
                    f"{nbytes_of(shape, dtype)} bytes"
                )
            size = None
        if compression is not None and size is None:
            raise InvalidReferenceError(
                f"buffer {shown(data['buffer'])} lacks the compressed size; "
                "expected 'path:offset:compressed_size'"
            )
        ref = ArrayRef(path, offset, shape, dtype, compression_of(data), size)
        if ref.stop > LARGEST:
            raise InvalidReferenceError(
                f"the array would end at byte {ref.stop}, beyond the end of any file"
            )
    except BinrefError as error:
        raise InvalidReferenceError(f"{at(where)}{error}") from error
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
    before = array_head(shape, dtype) + place.removesuffix('0"')
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


def parts_of(obj: Any) -> tuple[tuple[int, ...], np.dtype[Any], Mapping[str, Any]]:
    """Return shape, dtype and data of an array object, checked.

    Raises
    ------
    PayloadError
        If one is missing or is not what the wire format has.
    """
    if not isinstance(obj, Mapping):
        raise PayloadError(f"expected an array object, got {shown(obj)}")
    kind = obj.get("object_type", "array")
    if kind != "array":
        raise PayloadError(f"object_type is {shown(kind)}, expected 'array'")
    for key in ("shape", "dtype", "data"):
        if key not in obj:
            raise PayloadError(
                f"array object lacks {key!r} (it has {shown(sorted(map(str, obj)))})"
            )
    name = obj["dtype"]
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise PayloadError(f"dtype is {shown(name)}; the wire format has {', '.join(DTYPES)}")
    shape = obj["shape"]
    if not isinstance(shape, list | tuple):
        raise PayloadError(f"shape is {shown(shape)}, expected a list of whole numbers")
    shape = checked_shape(shape)
    # NumPy counts a zero-length axis as one here, and so must we: it cannot hold such a shape.
    if math.prod(length or 1 for length in shape) * dtype.itemsize > LARGEST:
        raise PayloadError(f"shape {shown(list(shape))} of {dtype.name} is larger than any memory")
    data = obj["data"]
    if not isinstance(data, Mapping):
        raise PayloadError(f"data is {shown(data)}, expected an object with buffer and encoding")
    return shape, dtype, data


def compression_of(data: Mapping[str, Any]) -> str | None:
    """Return the codec of an array's data.

    Raises
    ------
    PayloadError
        If it is one that this package does not know.
    """
    found = data.get("compression")
    if found is not None and found not in COMPRESSIONS:
        raise PayloadError(
            f"data.compression is {shown(found)}, expected {' or '.join(COMPRESSIONS)}"
        )
    return None if found is None else str(found)


def array_head(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Return the JSON text of an array object up to its buffer."""
    lengths = ",".join(map(str, shape))
    return f'{{"object_type":"array","shape":[{lengths}],"dtype":"{dtype.name}","data":{{"buffer":'
