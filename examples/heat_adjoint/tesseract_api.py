"""How sensors in a plate depend on the heat it starts with, by a hand-written adjoint.

A square plate, insulated at its edges, starts with some temperature; heat spreads, and
sensors read the temperature of their cells after each step. One step of explicit Euler is

    u[k+1] = u[k] + number * L u[k],    number = diffusivity * time_step / spacing**2

with the five-point Laplacian ``L``, which is symmetric, and stable while ``number <= 1/4``.

**The adjoint.** For given weights of the outputs (the cotangents) let ``a[k]`` be how much the
weighted sum changes with ``u[k]``. It is had from the end backwards: ``a[n]`` is the weight of
the final field and of the last readings, and

    a[k] = a[k+1] + number * L a[k+1] + (the weights of the readings at step k, at the sensors)

because ``L`` is its own transpose. ``a[0]`` is the gradient by the initial field. That by the
diffusivity is the sum of ``a[k+1] * (L u[k])``, so the fields of the forward run are needed
backwards: they were streamed to disk, and are read one by one. The adjoint fields are streamed
too, and the last one is returned as it lies there.
"""

from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field

from binref_sci import BinrefWriter
from binref_sci.runtime import (
    Array,
    Differentiable,
    Float64,
    Int64,
    Labels,
    ShapeDType,
    jacobian_from_vjp,
)

FIELD = Labels(dims=("y", "x"), units="K", long_name="temperature")


class InputSchema(BaseModel):
    initial: Annotated[Differentiable[Array[(None, None), Float64]], FIELD] = Field(
        description="Temperature to start with, K."
    )
    diffusivity: Differentiable[Float64] = Field(4e-6, description="Of the plate, m2/s.")
    spacing: float = Field(1e-3, gt=0, description="Of the cells along both axes, m.")
    time_step: float = Field(0.05, gt=0, description="Length of a step, s.")
    steps: int = Field(20, ge=1, description="Number of steps.")
    sensors: Array[(None, 2), Int64] = Field(
        [[0, 0]], description="Row and column of the cell of each sensor."
    )


class OutputSchema(BaseModel):
    temperature: Annotated[
        list[Array[(None, None), Float64]],
        Labels(dims=("time", "y", "x"), units="K", long_name="temperature"),
    ] = Field(description="Fields from the first to the last; steps + 1 of them.")
    final: Annotated[Differentiable[Array[(None, None), Float64]], FIELD] = Field(
        description="The last field."
    )
    readings: Annotated[
        Differentiable[Array[(None, None), Float64]],
        Labels(dims=("time", "sensor"), units="K", long_name="reading"),
    ] = Field(description="Of each sensor after each step.")


def laplacian(u: np.ndarray) -> np.ndarray:
    """Return what flows into each cell from its neighbours; nothing crosses the edges."""
    made = np.zeros_like(u)
    across, along = np.diff(u, axis=0), np.diff(u, axis=1)
    made[:-1] += across
    made[1:] -= across
    made[:, :-1] += along
    made[:, 1:] -= along
    return made


def number_of(inputs: InputSchema) -> float:
    """Return the diffusion number, if steps of this length are stable."""
    number = float(inputs.diffusivity * inputs.time_step / inputs.spacing**2)
    if number > 0.25:
        longest = 0.25 * inputs.spacing**2 / float(inputs.diffusivity)
        raise ValueError(
            f"time_step is {inputs.time_step} s, but steps longer than {longest:.6g} s are unstable"
        )
    return number


def places(inputs: InputSchema) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the sensors."""
    return inputs.sensors[:, 0], inputs.sensors[:, 1]


def forward(inputs: InputSchema, name: str) -> tuple[BinrefWriter, np.ndarray]:
    """Stream all fields to disk; return their writer and the readings."""
    number, sensors = number_of(inputs), places(inputs)
    readings = np.empty((inputs.steps, len(inputs.sensors)))
    writer = BinrefWriter(
        name,
        dims=("time", "y", "x"),
        coords={"time": {"units": "s"}},
        attrs={"units": "K", "long_name": "temperature"},
        total=inputs.steps + 1,
    )
    u = inputs.initial.copy()
    writer.write(u, time=0.0)
    for step in range(inputs.steps):
        u += number * laplacian(u)
        writer.write(u, time=(step + 1) * inputs.time_step)
        readings[step] = u[sensors]
    return writer, readings


def apply(inputs: InputSchema) -> OutputSchema:
    """Let the heat spread, and read the sensors."""
    writer, readings = forward(inputs, "temperature")
    fields = writer.trajectory()
    return OutputSchema(temperature=fields, final=fields[-1], readings=readings)


def vector_jacobian_product(
    inputs: InputSchema,
    vjp_inputs: set[str],
    vjp_outputs: set[str],
    cotangent_vector: dict[str, np.ndarray],
) -> dict:
    """Run the adjoint from the end to the start."""
    number, sensors = number_of(inputs), places(inputs)
    by_diffusivity = "diffusivity" in vjp_inputs
    fields = forward(inputs, "temperature")[0].trajectory() if by_diffusivity else None
    weights = cotangent_vector.get("readings", np.zeros((inputs.steps, len(inputs.sensors))))
    adjoint = cotangent_vector.get("final", np.zeros(inputs.initial.shape)).copy()
    writer = BinrefWriter(
        "adjoint",
        dims=("time", "y", "x"),
        coords={"time": {"units": "s"}},
        attrs={"long_name": "adjoint temperature"},
        total=inputs.steps,
    )
    slope = 0.0
    for step in reversed(range(inputs.steps)):
        np.add.at(adjoint, sensors, weights[step])  # two sensors may sit in one cell
        if fields is not None:
            slope += np.sum(adjoint * laplacian(fields[step].load()))
        adjoint += number * laplacian(adjoint)
        last = writer.write(adjoint, time=step * inputs.time_step)
    made = {"initial": last, "diffusivity": slope * inputs.time_step / inputs.spacing**2}
    return {path: made[path] for path in vjp_inputs}


def jacobian_vector_product(
    inputs: InputSchema,
    jvp_inputs: set[str],
    jvp_outputs: set[str],
    tangent_vector: dict[str, np.ndarray],
) -> dict:
    """Run the tangent beside the fields."""
    number, sensors = number_of(inputs), places(inputs)
    change = tangent_vector.get("diffusivity", 0.0) * inputs.time_step / inputs.spacing**2
    u = inputs.initial.copy()
    tangent = tangent_vector.get("initial", np.zeros(u.shape)).copy()
    readings = np.empty((inputs.steps, len(inputs.sensors)))
    for step in range(inputs.steps):
        flow = laplacian(u)
        tangent += number * laplacian(tangent) + change * flow
        u += number * flow
        readings[step] = tangent[sensors]
    made = {"final": tangent, "readings": readings}
    return {path: made[path] for path in jvp_outputs}


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]) -> dict:
    """Stream the Jacobian to disk, a row for each element of the outputs."""
    return jacobian_from_vjp(
        vector_jacobian_product, abstract_eval, inputs, jac_inputs, jac_outputs
    )


def abstract_eval(abstract_inputs: InputSchema) -> dict:
    """Tell the shapes of the outputs."""
    shape = abstract_inputs.initial.shape
    field = ShapeDType(shape=shape, dtype="float64")
    readings = (abstract_inputs.steps, abstract_inputs.sensors.shape[0])
    return {
        "temperature": [field] * (abstract_inputs.steps + 1),
        "final": field,
        "readings": ShapeDType(shape=readings, dtype="float64"),
    }
