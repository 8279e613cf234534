"""A component that streams as many bytes as it is asked for, from one array."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel

from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64


class InputSchema(BaseModel):
    """How many snapshots of which length."""

    snapshots: int
    length: int


class OutputSchema(BaseModel):
    """The snapshots."""

    trajectory: list[Array[(None,), Float64]]


def apply(inputs: InputSchema) -> OutputSchema:
    """Stream the snapshots and return them folded."""
    array = np.zeros(inputs.length)
    with BinrefWriter("trajectory") as writer:
        for step in range(inputs.snapshots):
            array[0] = step
            writer.write(array)
    return {"trajectory": writer.trajectory()}
