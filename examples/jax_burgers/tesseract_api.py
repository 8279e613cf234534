"""A wave that steepens, and JAX to differentiate through it.

The viscous Burgers equation on a periodic line,

    u_t + (u**2 / 2)_x = viscosity * u_xx,

with central differences of second order in space and explicit Euler in time. The solver is
written with ``jax.numpy``, so JAX has its exact derivatives: ``jacfwd`` for the Jacobian,
``jvp`` and ``vjp`` for the products. The selected inputs go in as a dict by path and the
selected outputs come out as one; JAX differentiates dicts, and what it returns is already
what the endpoints return.

``apply`` advances from snapshot to snapshot in compiled code and streams each to disk.
"""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import BaseModel, Field

from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Differentiable, Float64, Labels, ShapeDType

jax.config.update("jax_enable_x64", val=True)  # else JAX computes in float32

LINE = Labels(dims=("x",), units="m/s", long_name="velocity")


class InputSchema(BaseModel):
    initial: Annotated[Differentiable[Array[(None,), Float64]], LINE] = Field(
        description="Velocity to start with, m/s."
    )
    viscosity: Differentiable[Float64] = Field(0.05, description="m2/s.")
    length: float = Field(2.0, gt=0, description="Of the periodic line, m.")
    time_step: float = Field(1e-3, gt=0, description="Length of a step, s.")
    snapshots: int = Field(10, ge=1, description="After the first, equally far apart.")
    steps: int = Field(10, ge=1, description="Steps from one snapshot to the next.")


class OutputSchema(BaseModel):
    velocity: Annotated[
        list[Array[(None,), Float64]],
        Labels(dims=("time", "x"), units="m/s", long_name="velocity"),
    ] = Field(description="Snapshots; one more than asked for.")
    final: Annotated[Differentiable[Array[(None,), Float64]], LINE] = Field(
        description="The last snapshot."
    )
    energy: Annotated[Differentiable[Float64], Labels(units="m3/s2")] = Field(
        description="Kinetic energy at the end, the integral of u**2 / 2."
    )


@partial(jax.jit, static_argnames="steps")
def advance(u: jax.Array, viscosity: jax.Array, dx: float, dt: float, steps: int) -> jax.Array:
    """Return the velocity some steps later."""

    def step(_: int, u: jax.Array) -> jax.Array:
        right, left = jnp.roll(u, -1), jnp.roll(u, 1)
        advection = (right**2 - left**2) / (4 * dx)
        diffusion = viscosity * (right - 2 * u + left) / dx**2
        return u + dt * (diffusion - advection)

    return jax.lax.fori_loop(0, steps, step, u)


def energy_of(u: jax.Array, dx: float) -> jax.Array:
    """Return the kinetic energy."""
    return jnp.sum(u**2) / 2 * dx


def apply(inputs: InputSchema) -> OutputSchema:
    """Solve, and stream the snapshots to disk."""
    n = len(inputs.initial)
    dx = inputs.length / n
    writer = BinrefWriter(
        "velocity",
        dims=("time", "x"),
        coords={"time": {"units": "s"}, "x": ("x", np.arange(n) * dx, {"units": "m"})},
        attrs={"units": "m/s", "long_name": "velocity"},
        total=inputs.snapshots + 1,
    )
    u = jnp.asarray(inputs.initial)
    final = writer.write(np.asarray(u), time=0.0)
    for snapshot in range(1, inputs.snapshots + 1):
        u = advance(u, inputs.viscosity, dx, inputs.time_step, inputs.steps)
        final = writer.write(np.asarray(u), time=snapshot * inputs.steps * inputs.time_step)
    return OutputSchema(
        velocity=writer.trajectory(), final=final, energy=np.asarray(energy_of(u, dx))
    )


class Solve:
    """The function that is differentiated: selected inputs to selected outputs, dicts by path."""

    def __init__(self, inputs: InputSchema, outputs: set[str]) -> None:
        self.inputs, self.outputs = inputs, sorted(outputs)

    def at(self, selected: set[str]) -> dict[str, jax.Array]:
        """Return the point of differentiation."""
        return {path: jnp.asarray(getattr(self.inputs, path)) for path in sorted(selected)}

    def __call__(self, selected: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Return the outputs."""
        inputs = self.inputs
        initial = selected.get("initial", inputs.initial)
        viscosity = selected.get("viscosity", inputs.viscosity)
        dx = inputs.length / len(inputs.initial)
        steps = inputs.snapshots * inputs.steps
        final = advance(initial, viscosity, dx, inputs.time_step, steps)
        made = {"final": final, "energy": energy_of(final, dx)}
        return {path: made[path] for path in self.outputs}


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]) -> dict:
    """Return all blocks, computed forwards: unlike jacrev, jacfwd keeps no step in memory."""
    solve = Solve(inputs, jac_outputs)
    return jax.tree.map(np.asarray, jax.jacfwd(solve)(solve.at(jac_inputs)))


def jacobian_vector_product(
    inputs: InputSchema,
    jvp_inputs: set[str],
    jvp_outputs: set[str],
    tangent_vector: dict[str, np.ndarray],
) -> dict:
    """Return how the outputs change along the tangent vector."""
    solve = Solve(inputs, jvp_outputs)
    tangent = jax.tree.map(jnp.asarray, tangent_vector)
    _, change = jax.jvp(solve, (solve.at(jvp_inputs),), (tangent,))
    return jax.tree.map(np.asarray, change)


def vector_jacobian_product(
    inputs: InputSchema,
    vjp_inputs: set[str],
    vjp_outputs: set[str],
    cotangent_vector: dict[str, np.ndarray],
) -> dict:
    """Return the gradient of the outputs' product with the cotangent vector."""
    solve = Solve(inputs, vjp_outputs)
    _, pull_back = jax.vjp(solve, solve.at(vjp_inputs))
    (gradient,) = pull_back(jax.tree.map(jnp.asarray, cotangent_vector))
    return jax.tree.map(np.asarray, gradient)


def abstract_eval(abstract_inputs: InputSchema) -> dict:
    """Tell the shapes of the outputs."""
    line = ShapeDType(shape=abstract_inputs.initial.shape, dtype="float64")
    return {
        "velocity": [line] * (abstract_inputs.snapshots + 1),
        "final": line,
        "energy": ShapeDType(shape=(), dtype="float64"),
    }
