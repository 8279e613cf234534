"""A chain of masses on springs, and PyTorch to differentiate through it.

Masses of 1 kg hang in a row between two walls, a spring between each two neighbours, and a
friction that grows with the velocity. The springs get stiffer when they are stretched, so
the Jacobian depends on where it is taken. Symplectic Euler: velocities first, positions
with the new velocities.

The solver is written with tensors, and ``torch.func`` differentiates it: ``jacrev`` for the
Jacobian, ``jvp`` and ``vjp`` for the products. They take dicts by path, also of paths into
nested models, and return dicts that are already what the endpoints return.
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, Field

from binref_sci.runtime import Array, Differentiable, Float64, Labels, ShapeDType

HARDENING = 0.5  # 1/m2: by how much a spring stiffens with the square of its stretch


class Start(BaseModel):
    position: Differentiable[Array[(None,), Float64]] = Field(description="From rest, m.")
    velocity: Differentiable[Array[(None,), Float64]] = Field(description="m/s.")


class InputSchema(BaseModel):
    start: Start = Field(description="Of the masses.")
    stiffness: Differentiable[Array[(None,), Float64]] = Field(
        description="Of the springs, one more than masses, N/m."
    )
    friction: Differentiable[Float64] = Field(0.1, description="kg/s.")
    time_step: float = Field(0.05, gt=0, description="Length of a step, s.")
    steps: int = Field(40, ge=1, description="Number of steps.")


class OutputSchema(BaseModel):
    position: Annotated[
        Differentiable[Array[(None, None), Float64]],
        Labels(dims=("time", "mass"), units="m", long_name="position"),
    ] = Field(description="After each step.")
    energy: Annotated[Differentiable[Float64], Labels(units="J")] = Field(
        description="Kinetic energy at the end."
    )


def tensors(inputs: InputSchema) -> dict[str, torch.Tensor]:
    """Return what can be differentiated by, by path."""
    start = inputs.start
    masses = len(start.position)
    if len(start.velocity) != masses or len(inputs.stiffness) != masses + 1:
        raise ValueError(
            f"{masses} masses need {masses} velocities and {masses + 1} springs, got "
            f"{len(start.velocity)} and {len(inputs.stiffness)}"
        )
    found = {
        "start.position": start.position,
        "start.velocity": start.velocity,
        "stiffness": inputs.stiffness,
        "friction": inputs.friction,
    }
    return as_tensors(found)


def as_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Return copies, in one order: torch.func compares that of the keys too."""
    return {path: torch.tensor(arrays[path]) for path in sorted(arrays)}


def as_numpy(values: dict) -> dict:
    """Return a dict of tensors, or of dicts of them, with arrays."""
    return {
        path: as_numpy(value) if isinstance(value, dict) else value.detach().numpy()
        for path, value in values.items()
    }


class Solve:
    """The function that is differentiated: selected inputs to selected outputs, dicts by path."""

    def __init__(self, inputs: InputSchema, outputs: set[str]) -> None:
        self.fixed, self.outputs = tensors(inputs), sorted(outputs)
        self.dt, self.steps = inputs.time_step, inputs.steps

    def at(self, selected: set[str]) -> dict[str, torch.Tensor]:
        """Return the point of differentiation."""
        return {path: self.fixed[path] for path in sorted(selected)}

    def __call__(self, selected: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs."""
        known = self.fixed | selected
        position, velocity = known["start.position"], known["start.velocity"]
        wall = position.new_zeros(1)
        positions = []
        for _ in range(self.steps):
            stretch = torch.diff(position, prepend=wall, append=wall)
            tension = known["stiffness"] * (stretch + HARDENING * stretch**3)
            velocity = velocity + self.dt * (torch.diff(tension) - known["friction"] * velocity)
            position = position + self.dt * velocity
            positions.append(position)
        made = {"position": torch.stack(positions), "energy": (velocity**2).sum() / 2}
        return {path: made[path] for path in self.outputs}


def apply(inputs: InputSchema) -> OutputSchema:
    """Let the chain swing."""
    solve = Solve(inputs, {"position", "energy"})
    return OutputSchema(**as_numpy(solve({})))


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]) -> dict:
    """Return all blocks; jacrev computes rows, here 64 at a time to hold memory down."""
    solve = Solve(inputs, jac_outputs)
    return as_numpy(torch.func.jacrev(solve, chunk_size=64)(solve.at(jac_inputs)))


def jacobian_vector_product(
    inputs: InputSchema,
    jvp_inputs: set[str],
    jvp_outputs: set[str],
    tangent_vector: dict[str, np.ndarray],
) -> dict:
    """Return how the outputs change along the tangent vector."""
    solve = Solve(inputs, jvp_outputs)
    tangent = as_tensors(tangent_vector)
    _, change = torch.func.jvp(solve, (solve.at(jvp_inputs),), (tangent,))
    return as_numpy(change)


def vector_jacobian_product(
    inputs: InputSchema,
    vjp_inputs: set[str],
    vjp_outputs: set[str],
    cotangent_vector: dict[str, np.ndarray],
) -> dict:
    """Return the gradient of the outputs' product with the cotangent vector."""
    solve = Solve(inputs, vjp_outputs)
    _, pull_back = torch.func.vjp(solve, solve.at(vjp_inputs))
    (gradient,) = pull_back(as_tensors(cotangent_vector))
    return as_numpy(gradient)


def abstract_eval(abstract_inputs: InputSchema) -> dict:
    """Tell the shapes of the outputs."""
    masses = abstract_inputs.start.position.shape[0]
    return {
        "position": ShapeDType(shape=(abstract_inputs.steps, masses), dtype="float64"),
        "energy": ShapeDType(shape=(), dtype="float64"),
    }
