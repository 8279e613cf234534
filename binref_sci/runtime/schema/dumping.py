"""What pydantic's dump has in place of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from pydantic import SerializationInfo

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.runtime.schema.abstract import ShapeDType

_SINK = "binref_sci.sink"


def serialization_context(sink: Callable[[Any], str]) -> dict[str, Any]:
    """Return the pydantic serialization context that hands every array to `sink`.

    Parameters
    ----------
    sink
        Takes an array, a list of arrays or a trajectory, and returns the text that
        stands for it.
    """
    return {_SINK: sink}


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
