"""Schema types: arrays of a declared shape and dtype, as pydantic fields.

An `Array` field takes whatever holds numbers: lists, NumPy arrays, encoded arrays from
the wire, arrays on disk. What comes out depends on who asks:

- *inputs* of a call become NumPy arrays that the component owns: decoded, read from
  ``input_path``, cast if no value is lost, size-1 axes broadcast;
- *outputs*, and models that a component makes itself, keep what they are given. An array
  on disk is held against the schema by its metadata: never read, never cast;
- *abstract* evaluation has a `ShapeDType` in place of each array.

Which it is travels in pydantic's validation context, so the same model serves all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    NonNegativeInt,
    SerializationInfo,
    ValidationInfo,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, PydanticSerializationUnexpectedValue, core_schema

from binref_sci import wire
from binref_sci.array import BinrefArray, Layout
from binref_sci.dtypes import DTYPES, NAMES, DTypeName, checked_dtype
from binref_sci.errors import BinrefError, PayloadError, UnsupportedDTypeError
from binref_sci.trajectory import Trajectory

Shape: TypeAlias = tuple[int | None, ...] | EllipsisType
Mode: TypeAlias = Literal["inputs", "outputs", "abstract"]

_READING = "binref_sci.reading"
_SINK = "binref_sci.sink"


@dataclass(frozen=True)
class Reading:
    """How arrays are to be validated.

    Parameters
    ----------
    mode
        ``"inputs"``, ``"outputs"`` or ``"abstract"``; see the module.
    input_path
        Directory that references in inputs are resolved in; None refuses them.
    """

    mode: Mode
    input_path: Path | None = None

    def context(self) -> dict[str, Any]:
        """Return the pydantic validation context that says so."""
        return {_READING: self}


def serialization_context(sink: Callable[[Any], str]) -> dict[str, Any]:
    """Return the pydantic serialization context that hands every array to `sink`.

    Parameters
    ----------
    sink
        Takes an array, a list of arrays or a trajectory, and returns the text that
        stands for it.
    """
    return {_SINK: sink}


class ArrayType(type):
    """The type of array annotations: a class for each shape, dtype and flag."""

    expected_shape: Shape
    expected_dtype: np.dtype[Any] | None
    differentiable: bool

    def __repr__(cls) -> str:
        shape = "..." if cls.expected_shape is Ellipsis else repr(cls.expected_shape)
        dtype = None if cls.expected_dtype is None else _marker(cls.expected_dtype.name)
        text = f"Array[{shape}, {dtype}]"
        return f"Differentiable[{text}]" if cls.differentiable else text


def _marker(name: str) -> str:
    """Return the schema's name of a dtype: UInt8 for uint8."""
    return name.replace("u", "U", 1).replace("int", "Int").title().replace("Uint", "UInt")


class ArrayField(metaclass=ArrayType):
    """What array annotations are classes of; pydantic finds its hooks here."""

    expected_shape: ClassVar[Shape] = ...
    expected_dtype: ClassVar[np.dtype[Any] | None] = None
    differentiable: ClassVar[bool] = False

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"{type(self)!r} is an annotation; it has no instances")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                cls.serialize, info_arg=True
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return json_schema(cls)

    @classmethod
    def validate(cls, value: Any, info: ValidationInfo) -> Any:
        """Return `value` as this field wants it; raise what pydantic turns into a message."""
        reading = reading_of(info)
        mode = "outputs" if reading is None else reading.mode
        try:
            if isinstance(value, BinrefArray) and mode == "outputs":
                check_layout(cls, value.layout)
                return value
            if mode == "abstract":
                return _abstract(cls, value)
            array, private = _to_numpy(cls, value, reading)
            return _fitted(cls, array, private=private, own=mode == "inputs")
        except (BinrefError, OSError, MemoryError) as error:
            raise PydanticCustomError(
                "array_invalid",
                "{reason}; expected {field}",
                {"reason": str(error), "field": repr(cls)},
            ) from error

    @classmethod
    def serialize(cls, value: Any, info: SerializationInfo) -> Any:
        """Return what stands for `value` in pydantic's dump."""
        if not isinstance(value, BinrefArray | np.ndarray | np.generic | ShapeDType):
            # pydantic then tries the next member of a union
            raise PydanticSerializationUnexpectedValue(f"{type(value).__name__} is no array")
        sink = sink_of(info)
        if sink is not None:
            return sink(value)
        return value if info.mode == "python" else array_to_json(value)


def reading_of(info: ValidationInfo) -> Reading | None:
    """Return how arrays are to be validated; None in a model that somebody makes himself."""
    context = info.context
    return context.get(_READING) if isinstance(context, dict) else None


def sink_of(info: SerializationInfo) -> Callable[[Any], str] | None:
    """Return what takes arrays in this dump, if it is the encoder's."""
    context = info.context
    return context.get(_SINK) if isinstance(context, dict) else None


def array_to_json(value: Any) -> Any:
    """Return an array as a JSON value, for a user's own ``model_dump_json()``."""
    if isinstance(value, BinrefArray):
        return wire.ref_to_json(value.ref)
    if isinstance(value, ShapeDType):
        return {"shape": list(value.shape), "dtype": value.dtype}
    return orjson.loads(b"".join(wire.array_pieces(value, "json")))


def _mismatch(field: ArrayType, shape: tuple[int, ...]) -> PydanticCustomError:
    return PydanticCustomError(
        "array_shape_mismatch",
        "shape {shape} does not fit; expected {field}",
        {"shape": str(shape), "field": repr(field)},
    )


def check_layout(field: ArrayType, layout: Layout) -> None:
    """Check references by what they share, as `check_stored`; refuse blocks of a field.

    Raises
    ------
    PydanticCustomError
        If shape or dtype differ from what the field declares, or they are blocks.
    """
    if layout.part_of is not None:
        raise _no_output(layout.part_of)
    check_stored(field, layout.shape, layout.dtype)


def _no_output(whole: tuple[int, ...]) -> PydanticCustomError:
    return PydanticCustomError(
        "trajectory_block",
        "this is one block of a field of shape {whole}, and the blocks are no byte range, so it "
        "cannot be an output; open it from its run directory instead",
        {"whole": str(whole)},
    )


def check_stored(field: ArrayType, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check an array on disk by its metadata; nothing is read, nothing will be cast.

    Raises
    ------
    PydanticCustomError
        If shape or dtype differ from what the field declares.
    """
    expected = field.expected_shape
    if not isinstance(expected, EllipsisType) and (
        len(expected) != len(shape)
        or any(want is not None and want != got for want, got in zip(expected, shape, strict=True))
    ):
        raise _mismatch(field, shape)
    if field.expected_dtype is not None and dtype != field.expected_dtype:
        raise PydanticCustomError(
            "array_dtype_mismatch",
            "dtype {dtype} does not fit, and an array on disk is never cast: write it as declared; "
            "expected {field}",
            {"dtype": dtype.name, "field": repr(field)},
        )


def _to_numpy(field: ArrayType, value: Any, reading: Reading | None) -> tuple[NDArray[Any], bool]:
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
            f"the array is a reference ({wire.format_buffer(ref.path, ref.offset)!r}), but there is no "
            "input path to resolve it in; set --input-path or input_path=, or send it as base64"
        )
    return BinrefArray.from_ref(ref, reading.input_path).load()


def _fitted(field: ArrayType, array: NDArray[Any], *, private: bool, own: bool) -> Any:
    """Return `array` in the declared shape and dtype; a copy if `own` and others hold it."""
    if field.expected_dtype is not None and array.dtype != field.expected_dtype:
        array, private = wire.cast(array, field.expected_dtype), True
    target = broadcast_shape(field, array.shape)
    if target is None:
        raise _mismatch(field, array.shape)
    if target != array.shape:
        # a view that repeats itself: not to be written to
        array, private = np.broadcast_to(array, target), False
    if not target:
        return array[()]  # a NumPy scalar, as NumPy itself gives for no axes
    return np.array(array, order="C") if own and not private else array


def broadcast_shape(field: ArrayType, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape an array takes on in a field, or None if it does not fit."""
    expected = field.expected_shape
    if isinstance(expected, EllipsisType):
        return shape
    if len(expected) != len(shape) or any(
        want is not None and got not in (1, want) for want, got in zip(expected, shape, strict=True)
    ):
        return None
    return tuple(got if want is None else want for want, got in zip(expected, shape, strict=True))


def _abstract(field: ArrayType, value: Any) -> ShapeDType:
    if isinstance(value, ShapeDType):
        found = value
    elif isinstance(value, Mapping):
        found = ShapeDType.model_validate(value)
    else:  # a default of the schema
        array, _ = _to_numpy(field, value, None)
        found = ShapeDType(shape=array.shape, dtype=array.dtype.name)
    expected = field.expected_shape
    if not isinstance(expected, EllipsisType) and (
        len(expected) != len(found.shape)
        or any(
            want is not None and want != got
            for want, got in zip(expected, found.shape, strict=True)
        )
    ):
        raise _mismatch(field, found.shape)
    wanted = field.expected_dtype
    if wanted is None or found.dtype == wanted.name:
        return found
    dtype = DTYPES[found.dtype]
    if not castable(dtype, wanted):
        raise PayloadError(f"{dtype.name} values cannot become {wanted.name}")
    return ShapeDType(shape=found.shape, dtype=wanted.name)


def castable(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Tell whether some values of `dtype` may become `wanted`: the same kind of number."""
    return np.can_cast(dtype, wanted, "same_kind") or (dtype.kind in "iu" and wanted.kind in "iu")


@cache  # one class for each annotation, so that equal ones are identical
def _array_type(shape: Shape, dtype: str | None, *, differentiable: bool) -> ArrayType:
    return ArrayType(
        "Array",
        (ArrayField,),
        {
            "expected_shape": shape,
            "expected_dtype": None if dtype is None else DTYPES[dtype],
            "differentiable": differentiable,
            "__module__": __name__,
        },
    )


def _checked_key(name: str, key: Any) -> tuple[Shape, str | None]:
    form = f"write {name}[(None, 3), Float64], {name}[..., Float64] or {name}[..., None]"
    if not isinstance(key, tuple) or len(key) != 2:
        raise TypeError(f"{name}[...] takes a shape and a dtype, got {key!r}; {form}")
    shape, dtype = key
    if not isinstance(shape, tuple | EllipsisType):
        raise TypeError(f"the shape in {name}[shape, dtype] is {shape!r}, expected a tuple; {form}")
    if isinstance(shape, tuple):
        for length in shape:
            if length is not None and (
                not isinstance(length, int) or isinstance(length, bool) or length < 0
            ):
                raise TypeError(
                    f"the shape in {name}[shape, dtype] holds {length!r}, expected whole numbers "
                    f"and None; {form}"
                )
    if isinstance(dtype, ArrayType):
        dtype = dtype.expected_dtype
    if dtype is None:
        return shape, None
    try:
        return shape, checked_dtype(dtype).name
    except UnsupportedDTypeError as error:
        raise TypeError(f"the dtype in {name}[shape, dtype] is not valid: {error}") from error


class ShapeDType(BaseModel):
    """Shape and dtype of an array that is not there; what ``abstract_eval`` deals in.

    ``ShapeDType[(None, 3), Float64]`` is an annotation that checks both.

    Examples
    --------
    >>> ShapeDType(shape=(2, 3), dtype="float64")
    ShapeDType(shape=(2, 3), dtype='float64')
    """

    shape: tuple[NonNegativeInt, ...]
    dtype: DTypeName
    # a whole encoded array will do: its data is left out
    model_config = ConfigDict(extra="ignore")

    def __class_getitem__(cls, key: Any) -> Any:
        shape, dtype = _checked_key("ShapeDType", key)
        field = _array_type(shape, dtype, differentiable=False)

        def check(found: ShapeDType) -> ShapeDType:
            try:
                return _abstract(field, found)
            except BinrefError as error:
                raise PydanticCustomError(
                    "array_dtype_mismatch", "{reason}", {"reason": str(error)}
                ) from error

        return Annotated[cls, AfterValidator(check)]


class _Array:
    """An array field of a schema: ``Array[shape, dtype]``.

    Parameters
    ----------
    shape
        A tuple with the length of each axis, None for any; ``()`` for a single number;
        ``...`` for any number of axes.
    dtype
        One of the fourteen, such as `Float64`, or None for any.

    Examples
    --------
    >>> class Mesh(BaseModel):
    ...     points: Array[(None, 3), Float64]
    ...     weight: Array[..., None] = 1
    >>> Mesh(points=[[0, 0, 1]]).points
    array([[0., 0., 1.]])
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Array is an annotation; write Array[(None, 3), Float64]")

    def __class_getitem__(cls, key: Any) -> ArrayType:
        return _array_type(*_checked_key("Array", key), differentiable=False)


class _Differentiable:
    """An array field that gradients can be taken of: ``Differentiable[Array[...]]``.

    Examples
    --------
    >>> Differentiable[Array[(None,), Float64]]
    Differentiable[Array[(None,), Float64]]
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Differentiable is an annotation; write Differentiable[Array[...]]")

    def __class_getitem__(cls, key: Any) -> ArrayType:
        if not isinstance(key, ArrayType):
            raise TypeError(f"Differentiable[...] takes an array such as Float64, got {key!r}")
        dtype = None if key.expected_dtype is None else key.expected_dtype.name
        return _array_type(key.expected_shape, dtype, differentiable=True)


@dataclass(frozen=True)
class Foldable:
    """Lets a `Trajectory` stand in a list of arrays, and checks references by layout.

    Put into ``list[Array[...]]`` annotations when a component is loaded. Without it,
    pydantic would expand a trajectory of a million snapshots into a million objects,
    and call back into Python for each. A list of references is checked once for each
    layout that they share instead; anything else is validated item by item as usual.

    Parameters
    ----------
    item
        The array annotation of the list's items.
    """

    item: ArrayType

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_wrap_validator_function(
            self.validate,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.serialize, info_arg=True
            ),
        )

    def validate(
        self, value: Any, handler: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Return a trajectory or a list of references as it is, if it fits."""
        reading = reading_of(info)
        if reading is None or reading.mode == "outputs":
            if isinstance(value, Trajectory):
                if value.block is not None:
                    raise _no_output(value.block.shape)
                check_stored(self.item, value.shape[1:], value.dtype)
                return value
            if type(value) is list and set(map(type, value)) == {BinrefArray}:
                try:
                    for layout in {id(each.layout): each.layout for each in value}.values():
                        check_layout(self.item, layout)
                except PydanticCustomError:
                    return handler(value)  # which says at which index
                return value.copy()
        return handler(value)

    def serialize(self, value: Any, info: SerializationInfo) -> Any:
        """Return what stands for the list in pydantic's dump."""
        if not isinstance(value, list | Trajectory):
            raise PydanticSerializationUnexpectedValue(f"{type(value).__name__} is no list")
        sink = sink_of(info)
        if sink is not None:
            return sink(value)
        return value if info.mode == "python" else [array_to_json(each) for each in value]


def json_schema(field: ArrayType) -> dict[str, Any]:
    """Return the JSON schema of an encoded array, in the form tesseract-core gives it."""
    expected, wanted = field.expected_shape, field.expected_dtype
    shape: dict[str, Any] = {"type": "array", "title": "Shape", "description": "Shape of the array"}
    length = {"type": "integer", "minimum": 0}
    if isinstance(expected, EllipsisType):
        shape["items"] = length
    else:
        shape |= {"minItems": len(expected), "maxItems": len(expected)}
        if expected:
            shape["prefixItems"] = [
                length if want is None else {"type": "integer", "enum": sorted({1, want})}
                for want in expected
            ]
    names = [name for name in NAMES if wanted is None or castable(DTYPES[name], wanted)]
    encodings = {
        "binref": "Place in a file: path:offset, or path:offset:compressed_size",
        "base64": "Base64 of the bytes: C order, little-endian",
        "json": "Numbers in nested lists; NaN is null, complex numbers are pairs",
    }
    return {
        "type": "object",
        "title": repr(field),
        "description": "Plain numbers in nested lists are accepted as well.",
        "properties": {
            "object_type": {"type": "string", "const": "array", "default": "array"},
            "shape": shape,
            "dtype": {"type": "string", "enum": names, "title": "Dtype"},
            "data": {
                "title": "Data",
                "oneOf": [
                    _data_schema(name, description) for name, description in encodings.items()
                ],
            },
        },
        "required": ["shape", "dtype", "data"],
        "array_flags": ["DIFFERENTIABLE"] if field.differentiable else [],
    }


def _data_schema(encoding: str, description: str) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "buffer": {"description": description} | ({} if encoding == "json" else {"type": "string"}),
        "encoding": {"type": "string", "const": encoding},
    }
    if encoding != "json":
        properties["compression"] = {"enum": ["lz4", None]}
    return {"type": "object", "properties": properties, "required": ["buffer", "encoding"]}


if TYPE_CHECKING:
    # A type checker has no syntax for a shape in an annotation: ``Array[(None, 3), Float64]``
    # is an error unless the name is of type Any, which then the field is as well.
    Array: Any
    Differentiable: Any
    Float16: Any
    Float32: Any
    Float64: Any
    Int8: Any
    Int16: Any
    Int32: Any
    Int64: Any
    UInt8: Any
    UInt16: Any
    UInt32: Any
    UInt64: Any
    Bool: Any
    Complex64: Any
    Complex128: Any
else:
    _Array.__name__ = _Array.__qualname__ = "Array"
    _Differentiable.__name__ = _Differentiable.__qualname__ = "Differentiable"
    Array, Differentiable = _Array, _Differentiable
    Float16 = Array[(), "float16"]
    Float32 = Array[(), "float32"]
    Float64 = Array[(), "float64"]
    Int8 = Array[(), "int8"]
    Int16 = Array[(), "int16"]
    Int32 = Array[(), "int32"]
    Int64 = Array[(), "int64"]
    UInt8 = Array[(), "uint8"]
    UInt16 = Array[(), "uint16"]
    UInt32 = Array[(), "uint32"]
    UInt64 = Array[(), "uint64"]
    Bool = Array[(), "bool"]
    Complex64 = Array[(), "complex64"]
    Complex128 = Array[(), "complex128"]
