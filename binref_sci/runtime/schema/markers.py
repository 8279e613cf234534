"""What a schema is written with: `Array`, `Differentiable` and the dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binref_sci.runtime.schema.annotation import ArrayType, array_type, checked_key
from binref_sci.runtime.schema.field import ArrayField


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
    >>> from pydantic import BaseModel
    >>> class Mesh(BaseModel):
    ...     points: Array[(None, 3), Float64]
    ...     weight: Array[..., None] = 1
    >>> Mesh(points=[[0, 0, 1]]).points
    array([[0., 0., 1.]])
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Array is an annotation; write Array[(None, 3), Float64]")

    def __class_getitem__(cls, key: Any) -> ArrayType:
        return array_type(ArrayField, *checked_key("Array", key), differentiable=False)


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
        return array_type(ArrayField, key.expected_shape, dtype, differentiable=True)


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
