"""From what a caller or a component gives for an array to the array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.dtypes import checked_dtype
from binref_sci.errors import PayloadError, UnsupportedDTypeError
from binref_sci.messages import shown
from binref_sci.runtime.schema.annotation import ArrayType
from binref_sci.runtime.schema.fitting import broadcast_shape, mismatch
from binref_sci.runtime.schema.reading import Reading
from binref_sci.trajectory import Trajectory


def to_numpy(field: ArrayType, value: Any, reading: Reading | None) -> tuple[NDArray[Any], bool]:
    """Return `value` as an array of any dtype of the wire, and whether nobody else holds it."""
    if isinstance(value, Mapping):
        data = value.get("data")
        if isinstance(data, Mapping) and data.get("encoding") == "binref":
            return _read_input(value, reading), True
        return wire.decode_inline(value), True
    if isinstance(value, BinrefArray):
        return value.load(), True
    if isinstance(value, Trajectory):
        if reading is None or reading.mode == "outputs":
            raise PayloadError(
                "a Trajectory stands for a list of arrays: declare list[Array[...]], or return "
                "BinrefWriter.stack() if it lies in one buffer"
            )
        return value.load(), True
    if isinstance(value, np.ma.MaskedArray):
        raise UnsupportedDTypeError("a masked array would lose its mask; pass array.filled(value)")
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return array.astype(checked_dtype(array.dtype), copy=False), False
    if value is None:
        # in a list it is NaN; alone it is a value that somebody forgot
        raise PayloadError("got null, which is no array")
    return wire.numbers(value, field.expected_dtype), True


def _read_input(value: Mapping[str, Any], reading: Reading | None) -> NDArray[Any]:
    ref = wire.ref_from_json(value)
    if reading is None or reading.input_path is None:
        raise PayloadError(
            f"the array is a reference ({shown(wire.format_buffer(ref.path, ref.offset))}), but there is no "
            "input path to resolve it in; set --input-path or input_path=, or send it as base64"
        )
    return BinrefArray.from_ref(ref, reading.input_path).load()


def fitted(field: ArrayType, array: NDArray[Any], *, private: bool, own: bool) -> Any:
    """Return `array` in the declared shape and dtype; a copy if `own` and others hold it."""
    if field.expected_dtype is not None and array.dtype != field.expected_dtype:
        array, private = wire.cast(array, field.expected_dtype), True
    target = broadcast_shape(field, array.shape)
    if target is None:
        raise mismatch(field, array.shape)
    if target != array.shape:
        # a view that repeats itself: not to be written to
        array, private = np.broadcast_to(array, target), False
    if not target:
        return array[()]  # a NumPy scalar, as NumPy itself gives for no axes
    return np.array(array, order="C") if own and not private else array
