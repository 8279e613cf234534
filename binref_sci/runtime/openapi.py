"""What the OpenAPI document of a component says of its endpoints, as tesseract-core has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from binref_sci import wire
from binref_sci.naming import OUTPUT_FORMATS
from binref_sci.runtime import models
from binref_sci.runtime.gradients.kinds import GRADIENTS
from binref_sci.runtime.gradients.schemas import payload_schema, result_schema
from binref_sci.runtime.schema import ArrayType, GenerateJsonSchemaWithArrays, ShapeDType

_SUMMARIES: Final = {
    "apply": "Apply the component to the input data.",
    "abstract_eval": "Tell shapes and dtypes of the outputs from those of the inputs.",
    **{name: gradient.summary for name, gradient in GRADIENTS.items()},
}

_VALIDATION_ERROR: Final = {
    "title": "HTTPValidationError",
    "type": "object",
    "properties": {
        "detail": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                    "msg": {"type": "string"},
                    "type": {"type": "string"},
                },
                "required": ["loc", "msg", "type"],
            },
        }
    },
}


def described_endpoints(
    endpoints: Mapping[str, str],
    payload: type[BaseModel],
    inputs: type[BaseModel],
    outputs: type[BaseModel],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the paths of an OpenAPI document, and the schemas that they refer to.

    Parameters
    ----------
    endpoints
        What the component itself says of each, by name.
    payload
        What ``apply`` takes.
    inputs, outputs
        The component's schemas.
    """
    names, definitions = models_json_schema(
        [(payload, "validation"), (outputs, "serialization")],
        ref_template="#/components/schemas/{model}",
        schema_generator=GenerateJsonSchemaWithArrays,
    )
    schemas: dict[str, Any] = definitions["$defs"]
    given = schemas.pop(_name_in(names[payload, "validation"]))
    # Not always the class's own: pydantic tells models of the same name apart by their modules.
    answer = _name_in(names[outputs, "serialization"])
    if "abstract_eval" in endpoints:
        schemas |= {f"Abstract_{name}": _abstract(schema) for name, schema in schemas.items()}
    paths: dict[str, Any] = {}
    for endpoint, own in endpoints.items():
        title = title_of(endpoint)
        gradient = GRADIENTS.get(endpoint)
        if gradient is not None:
            of = given["properties"]["inputs"]
            taken = payload_schema(gradient, of, inputs, outputs)
            returned = result_schema(gradient, inputs, outputs)
        else:
            abstract = endpoint == "abstract_eval"
            made = _reference(f"Abstract_{answer}" if abstract else answer)
            taken = (_abstract(given) if abstract else given) | _facts(inputs)
            returned = {"allOf": [made], **_facts(outputs)}
        schemas[f"{title}InputSchema"] = taken | {"title": f"{title}InputSchema"}
        schemas[f"{title}OutputSchema"] = returned | {"title": f"{title}OutputSchema"}
        paths[f"/{endpoint}"] = {"post": _operation(endpoint, own)}
    schemas["HTTPValidationError"] = _VALIDATION_ERROR
    paths["/health"] = {
        "get": {
            "summary": "Health",
            "operationId": "health",
            "responses": {"200": {"description": "The component is ready."}},
        }
    }
    return paths, schemas


def _name_in(reference: Mapping[str, Any]) -> str:
    name: str = reference["$ref"].rpartition("/")[2]
    return name


def _operation(endpoint: str, own: str) -> dict[str, Any]:
    title = title_of(endpoint)

    def body(name: str) -> dict[str, Any]:
        return {"application/json": {"schema": _reference(name)}}

    return {
        "summary": endpoint.replace("_", " ").capitalize(),
        "description": "\n\n".join(text for text in (_SUMMARIES[endpoint], own.strip()) if text),
        "operationId": endpoint,
        "parameters": [
            {
                "name": "accept",
                "in": "header",
                "required": False,
                "description": "Output format: "
                + ", ".join(f"application/{each}" for each in OUTPUT_FORMATS)
                + "; ';compression=lz4' compresses base64 and binref.",
                "schema": {"type": "string"},
            }
        ],
        "requestBody": {"required": True, "content": body(f"{title}InputSchema")},
        "responses": {
            "200": {"description": "The outputs.", "content": body(f"{title}OutputSchema")},
            "422": {
                "description": "The payload does not fit the schema.",
                "content": body("HTTPValidationError"),
            },
        },
    }


def title_of(endpoint: str) -> str:
    """Return what the schemas of an endpoint are named after."""
    titles = {"apply": "Apply", "abstract_eval": "Abstract"}
    return titles.get(endpoint) or GRADIENTS[endpoint].title


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _facts(schema: type[BaseModel]) -> dict[str, Any]:
    """Return what tesseract-core's clients look for: differentiable arrays, order of fields."""
    return {
        "differentiable_arrays": {
            path: {"shape": _shape(array), "dtype": _dtype(array)}
            for path, array in models.differentiable(schema).items()
        },
        "field_order": models.field_order(schema),
    }


def _shape(array: ArrayType) -> list[int | None] | None:
    return list(array.expected_shape) if isinstance(array.expected_shape, tuple) else None


def _dtype(array: ArrayType) -> str | None:
    return None if array.expected_dtype is None else array.expected_dtype.name


def _abstract(schema: Any) -> Any:
    """Return a JSON schema with a `ShapeDType` in place of each array."""
    if isinstance(schema, list):
        return [_abstract(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "array_flags" in schema:
        made = ShapeDType.model_json_schema()
        kept = {key: schema[key] for key in ("description", "default") if key in schema}
        return made | _abstract(kept)
    if wire.is_array_json(schema):  # a default
        return {"shape": schema["shape"], "dtype": schema["dtype"]}
    made = {key: _abstract(value) for key, value in schema.items()}
    if isinstance(made.get("$ref"), str):
        head, slash, name = made["$ref"].rpartition("/")
        made["$ref"] = f"{head}{slash}Abstract_{name}"
    return made
