"""The three endpoints, and what a caller asked of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Gradient:
    """One gradient endpoint.

    Parameters
    ----------
    endpoint
        Its name.
    title
        Its name in schemas.
    inputs, outputs
        Fields of the payload with the selected paths.
    vector
        Field of the payload with the arrays that the Jacobian is multiplied with, if any.
    summary
        What it computes.
    """

    endpoint: str
    title: str
    inputs: str
    outputs: str
    vector: str | None
    summary: str

    @property
    def takes_outputs(self) -> bool:
        """Whether the vector belongs to the outputs."""
        return self.vector == "cotangent_vector"


GRADIENTS: Final = {
    each.endpoint: each
    for each in (
        Gradient(
            "jacobian",
            "Jacobian",
            "jac_inputs",
            "jac_outputs",
            None,
            "Compute the Jacobian: for each output and input a block whose shape is that of the "
            "output followed by that of the input.",
        ),
        Gradient(
            "jacobian_vector_product",
            "JVP",
            "jvp_inputs",
            "jvp_outputs",
            "tangent_vector",
            "Compute how the outputs change along a tangent vector of the inputs.",
        ),
        Gradient(
            "vector_jacobian_product",
            "VJP",
            "vjp_inputs",
            "vjp_outputs",
            "cotangent_vector",
            "Compute the gradient, with respect to the inputs, of the outputs' product with a "
            "cotangent vector.",
        ),
    )
}
"""Gradient endpoints by name."""


class Point(NamedTuple):
    """Shape and dtype of an input that is differentiated by."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Asked:
    """What a caller asked of a gradient endpoint, checked.

    Parameters
    ----------
    gradient
        The endpoint.
    inputs, outputs
        Selected paths, each once, in the order given.
    vector
        Arrays by path, in the dtypes that the schema declares.
    points
        The selected inputs as they are before the component may change them.
    foreseen
        Whether ``abstract_eval`` has told that the outputs are as they are asked for.
    """

    gradient: Gradient
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    vector: dict[str, Any]
    points: dict[str, Point]
    foreseen: bool = False

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the component's function, beside ``inputs``."""
        made: dict[str, Any] = {
            self.gradient.inputs: set(self.inputs),
            self.gradient.outputs: set(self.outputs),
        }
        if self.gradient.vector is not None:
            made[self.gradient.vector] = dict(self.vector)
        return made
