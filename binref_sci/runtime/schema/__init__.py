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

from binref_sci.runtime.schema.abstract import ShapeDType
from binref_sci.runtime.schema.annotation import ArrayType, Shape
from binref_sci.runtime.schema.defaults import GenerateJsonSchemaWithArrays
from binref_sci.runtime.schema.document import json_schema
from binref_sci.runtime.schema.dumping import array_to_json, serialization_context
from binref_sci.runtime.schema.fitting import broadcast_shape
from binref_sci.runtime.schema.lists import Foldable
from binref_sci.runtime.schema.markers import (
    Array,
    Bool,
    Complex64,
    Complex128,
    Differentiable,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)
from binref_sci.runtime.schema.reading import Mode, Reading

__all__ = [
    "Array",
    "ArrayType",
    "Bool",
    "Complex64",
    "Complex128",
    "Differentiable",
    "Float16",
    "Float32",
    "Float64",
    "Foldable",
    "GenerateJsonSchemaWithArrays",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Mode",
    "Reading",
    "Shape",
    "ShapeDType",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "array_to_json",
    "broadcast_shape",
    "json_schema",
    "serialization_context",
]
