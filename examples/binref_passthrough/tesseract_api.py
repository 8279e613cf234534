"""Heat diffusion on a torus: the smallest solver that streams its snapshots.

A hot square in the middle half of a cold plate spreads out; the edges are periodic. Every
field is on disk as soon as it is computed, and what is returned are references.

With ``tesseract_core`` in place of ``binref_sci`` in the two import lines this file runs
unchanged under tesseract-core 1.15.
"""

import numpy as np
from pydantic import BaseModel, Field

from binref_sci.runtime import Array, Float64
from binref_sci.runtime.experimental import BinrefWriter


class InputSchema(BaseModel):
    size: int = Field(16, ge=1, description="Cells along each side.")
    steps: int = Field(20, ge=0, description="Time steps.")
    diffusivity: float = Field(
        0.1, ge=0, description="In cells squared a step; the explicit scheme is stable up to 0.25."
    )


class OutputSchema(BaseModel):
    trajectory: list[Array[(None, None), Float64]] = Field(
        description="The field at the start and after each step."
    )
    final: Array[(None, None), Float64] = Field(description="The field after the last step.")


def laplacian(field):
    """Return the five-point Laplacian with periodic edges, for cells of size 1."""
    return (
        np.roll(field, 1, axis=0)
        + np.roll(field, -1, axis=0)
        + np.roll(field, 1, axis=1)
        + np.roll(field, -1, axis=1)
        - 4 * field
    )


def apply(inputs: InputSchema) -> OutputSchema:
    """Diffuse the hot square, one snapshot a step."""
    field = np.zeros((inputs.size, inputs.size))
    quarter = inputs.size // 4
    field[quarter : inputs.size - quarter, quarter : inputs.size - quarter] = 1.0

    writer = BinrefWriter()
    trajectory = [writer.write(field)]  # on disk; a reference of about 100 bytes is kept
    for _ in range(inputs.steps):
        field = field + inputs.diffusivity * laplacian(field)
        trajectory.append(writer.write(field))
    return OutputSchema(trajectory=trajectory, final=trajectory[-1])
