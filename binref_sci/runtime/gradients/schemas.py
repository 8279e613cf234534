"""Models and JSON schemas of what the endpoints take and return."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from binref_sci.errors import ComponentError
from binref_sci.runtime import models
from binref_sci.runtime.gradients.kinds import Gradient
from binref_sci.runtime.schema import Array, ArrayType, json_schema


def require_differentiable(
    name: str, endpoint: str, inputs: type[BaseModel], outputs: type[BaseModel]
) -> None:
    """Refuse a component with a gradient endpoint and nothing to differentiate.

    Raises
    ------
    ComponentError
        Naming the schema that has no differentiable array.
    """
    for schema in (inputs, outputs):
        if not models.differentiable(schema):
            raise ComponentError(
                f"component {name!r} has the endpoint {endpoint!r}, but {schema.__name__} has no "
                "differentiable array; declare one as Differentiable[Array[...]]"
            )


def payload_model(gradient: Gradient, inputs: type[BaseModel]) -> type[BaseModel]:
    """Return the model of an endpoint's payload; `asked` checks the rest."""
    fields: dict[str, Any] = {
        "inputs": (inputs, Field(description="Where to differentiate.")),
        gradient.inputs: (list[str], Field(min_length=1)),
        gradient.outputs: (list[str], Field(min_length=1)),
    }
    if gradient.vector is not None:
        fields[gradient.vector] = (dict[str, Array[..., None]], ...)
    made: type[BaseModel] = create_model(
        f"{gradient.title}InputSchema", __config__=ConfigDict(extra="forbid"), **fields
    )
    return made


def payload_schema(
    gradient: Gradient, given: Any, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return the JSON schema of an endpoint's payload.

    Parameters
    ----------
    gradient
        The endpoint.
    given
        JSON schema of the inputs.
    inputs, outputs
        The component's schemas.
    """
    properties: dict[str, Any] = {
        "inputs": given,
        gradient.inputs: _selection(inputs, "Differentiable inputs to differentiate by."),
        gradient.outputs: _selection(outputs, "Differentiable outputs to differentiate."),
    }
    if gradient.vector is not None:
        side, which = (
            (outputs, gradient.outputs) if gradient.takes_outputs else (inputs, gradient.inputs)
        )
        properties[gradient.vector] = _by_path(
            side, f"One array for each of {which}, of its shape.", json_schema
        )
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def result_schema(
    gradient: Gradient, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return the JSON schema of an endpoint's result."""
    if gradient.endpoint == "jacobian":

        def row(_: ArrayType) -> dict[str, Any]:
            return _by_path(inputs, "Blocks by input.", lambda _: json_schema(Array[..., None]))

        return _by_path(
            outputs,
            "Blocks by output and input; their shape is that of the output followed by that of "
            "the input.",
            row,
        )
    if gradient.takes_outputs:
        return _by_path(inputs, "One array for each of vjp_inputs, of its shape.", json_schema)
    return _by_path(outputs, "One array for each of jvp_outputs, of its shape.", json_schema)


def _selection(schema: type[BaseModel], description: str) -> dict[str, Any]:
    exact, patterns = _spellings(schema)
    choices: list[dict[str, Any]] = [{"enum": list(exact)}] if exact else []
    choices += [{"pattern": each} for each in patterns]
    return {
        "type": "array",
        "uniqueItems": True,
        "minItems": 1,
        "description": description,
        "items": {"type": "string"} | (choices[0] if len(choices) == 1 else {"anyOf": choices}),
    }


def _by_path(schema: type[BaseModel], description: str, value: Any) -> dict[str, Any]:
    exact, patterns = _spellings(schema)
    return {
        "type": "object",
        "description": description,
        "properties": {path: value(array) for path, array in exact.items()},
        "patternProperties": {path: value(array) for path, array in patterns.items()},
        "additionalProperties": False,
    }


def _spellings(schema: type[BaseModel]) -> tuple[dict[str, ArrayType], dict[str, ArrayType]]:
    """Return differentiable arrays by path, and by regular expression where there are many."""
    exact: dict[str, ArrayType] = {}
    patterns: dict[str, ArrayType] = {}
    for path, array in models.differentiable(schema).items():
        steps = path.split(".")
        if models.ITEM in steps or models.VALUE in steps:
            general = {models.ITEM: r"\[\d+\]", models.VALUE: r"\{(?:[^{}\\]|\\.)*\}"}
            patterns["^" + r"\.".join(general.get(step, step) for step in steps) + "$"] = array
        else:
            exact[path] = array
    return exact, patterns
