"""The JSON schema of an array field."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, Final

from binref_sci.dtypes import DTYPES, NAMES
from binref_sci.runtime.schema.annotation import ArrayType
from binref_sci.runtime.schema.fitting import castable

PLAIN_NUMBERS: Final = "Plain numbers in nested lists are accepted as well."
"""Description of an array that has none of its own."""


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
        "description": PLAIN_NUMBERS,
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
