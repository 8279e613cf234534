"""An array as a field of a pydantic model: the hooks that pydantic finds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, PydanticSerializationUnexpectedValue, core_schema

from binref_sci.array import BinrefArray
from binref_sci.errors import BinrefError
from binref_sci.runtime.schema.abstract import ShapeDType, abstract
from binref_sci.runtime.schema.annotation import ArrayType, Shape
from binref_sci.runtime.schema.document import json_schema
from binref_sci.runtime.schema.dumping import array_to_json, sink_of
from binref_sci.runtime.schema.fitting import check_layout
from binref_sci.runtime.schema.reading import reading_of
from binref_sci.runtime.schema.values import fitted, to_numpy


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
                return abstract(cls, value)
            array, private = to_numpy(cls, value, reading)
            return fitted(cls, array, private=private, own=mode == "inputs")
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
