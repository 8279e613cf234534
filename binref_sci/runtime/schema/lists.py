"""A list of arrays as a field: it may be a trajectory, and stays folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, SerializationInfo, ValidationInfo
from pydantic_core import PydanticCustomError, PydanticSerializationUnexpectedValue, core_schema

from binref_sci.array import BinrefArray
from binref_sci.runtime.schema.annotation import ArrayType
from binref_sci.runtime.schema.dumping import array_to_json, sink_of
from binref_sci.runtime.schema.fitting import check_layout, check_stored, no_output
from binref_sci.runtime.schema.reading import reading_of
from binref_sci.trajectory import Trajectory


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
                    raise no_output(value.block.shape)
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
