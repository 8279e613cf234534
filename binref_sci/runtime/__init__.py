"""What a component is written with: schema types, labels, and how it is run."""

from binref_sci.labels import Labels
from binref_sci.runtime.schema import (
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
    ShapeDType,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)

__all__ = [
    "Array",
    "Bool",
    "Complex64",
    "Complex128",
    "Differentiable",
    "Float16",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Labels",
    "ShapeDType",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
]
