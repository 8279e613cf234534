"""What a component is written with: schema types, labels, and how it is run."""

from binref_sci.labels import Labels
from binref_sci.runtime.derived import jacobian_from_jvp, jacobian_from_vjp
from binref_sci.runtime.finite import (
    finite_difference_jacobian,
    finite_difference_jvp,
    finite_difference_vjp,
)
from binref_sci.runtime.products import jvp_from_jacobian, vjp_from_jacobian
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
    "finite_difference_jacobian",
    "finite_difference_jvp",
    "finite_difference_vjp",
    "jacobian_from_jvp",
    "jacobian_from_vjp",
    "jvp_from_jacobian",
    "vjp_from_jacobian",
]
