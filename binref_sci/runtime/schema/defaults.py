"""Defaults with arrays in them, as JSON schemas show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from binref_sci import wire
from binref_sci.errors import BinrefError


class GenerateJsonSchemaWithArrays(GenerateJsonSchema):
    """pydantic's generator, which knows no NumPy, with arrays in their wire form."""

    def encode_default(self, dft: Any) -> Any:
        """Return a default as a JSON value.

        Raises
        ------
        PydanticSerializationError
            If it has none; pydantic then warns, and leaves it out.
        """
        try:
            return super().encode_default(_on_the_wire(dft))
        except (BinrefError, OSError) as error:
            raise PydanticSerializationError(str(error)) from error


def _on_the_wire(value: Any) -> Any:
    """Return a value with each array in it as a caller would write it."""
    if isinstance(value, Mapping):
        return {key: _on_the_wire(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_on_the_wire(each) for each in value]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()  # a number, also where the field is no array
    if isinstance(value, complex) or hasattr(value, "__array__"):
        return orjson.loads(b"".join(wire.array_pieces(np.asarray(value), "json")))
    return value
