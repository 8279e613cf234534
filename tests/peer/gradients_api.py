"""Gradients of nested inputs; runs under both packages, imports swapped."""

import numpy as np
from pydantic import BaseModel

from binref_sci.runtime import Array, Differentiable, Float32, Float64
from binref_sci.runtime.experimental import BinrefArray, jvp_from_jacobian, vjp_from_jacobian


class Layer(BaseModel):
    w: Differentiable[Array[(None,), Float64]]


class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    layers: list[Layer] = []
    named: dict[str, Differentiable[Float32]] = {}
    disk: bool = False


class OutputSchema(BaseModel):
    y: Differentiable[Array[(2,), Float64]]
    total: Differentiable[Float64]


def at(inputs, path):
    """Return an input by the paths that the tests use."""
    if path == "x":
        return inputs.x
    if path.startswith("layers"):
        return inputs.layers[int(path[8])].w
    return inputs.named[path[7:-1]]


def apply(inputs: InputSchema) -> OutputSchema:
    return OutputSchema(y=inputs.x[:2], total=inputs.x.sum())


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]):
    made = {}
    for output in jac_outputs:
        made[output] = {}
        for path in jac_inputs:
            shape = ((2,) if output == "y" else ()) + np.shape(at(inputs, path))
            block = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
            on_disk = inputs.disk and block.ndim > 0
            made[output][path] = BinrefArray.write(block) if on_disk else block
    return made


def jacobian_vector_product(
    inputs: InputSchema, jvp_inputs: set[str], jvp_outputs: set[str], tangent_vector: dict
):
    memory = inputs.model_copy(update={"disk": False})
    return jvp_from_jacobian(jacobian, memory, jvp_inputs, jvp_outputs, tangent_vector)


def vector_jacobian_product(
    inputs: InputSchema, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector: dict
):
    memory = inputs.model_copy(update={"disk": False})
    return vjp_from_jacobian(jacobian, memory, vjp_inputs, vjp_outputs, cotangent_vector)
