"""Writes a Jacobian of any size, and tells when its last byte was written."""

import time

import numpy as np
from pydantic import BaseModel

from binref_sci import BinrefArray
from binref_sci.call import running_call
from binref_sci.runtime import Array, Differentiable, Float64


class InputSchema(BaseModel):
    """Where to differentiate."""

    x: Differentiable[Array[(None,), Float64]]
    rows: int


class OutputSchema(BaseModel):
    """What is differentiated."""

    y: Differentiable[Array[(None,), Float64]]


def apply(inputs: InputSchema) -> OutputSchema:
    """Return zeros."""
    return OutputSchema(y=np.zeros(inputs.rows))


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]) -> dict:
    """Write the block a row at a time; its first entry is when that was done, in seconds."""
    call = running_call()
    assert call is not None
    path = call.run_directory / "block.bin"
    row = np.zeros(len(inputs.x))
    with path.open("w+b") as file:
        for _ in range(inputs.rows):
            file.write(row.data)
        file.flush()
        file.seek(0)
        file.write(np.float64(time.monotonic()).tobytes())
    shape = (inputs.rows, len(inputs.x))
    return {"y": {"x": BinrefArray.from_file(path.name, shape, "float64")}}
