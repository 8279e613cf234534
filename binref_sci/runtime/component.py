"""`Component`: a module with schemas and endpoints, loaded and made ready."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema

from binref_sci.errors import ComponentError, PayloadError
from binref_sci.naming import OUTPUT_FORMATS
from binref_sci.runtime import models
from binref_sci.runtime.config import UNKNOWN_VERSION, identity
from binref_sci.runtime.gradients.kinds import GRADIENTS
from binref_sci.runtime.gradients.schemas import (
    payload_model,
    payload_schema,
    require_differentiable,
    result_schema,
)
from binref_sci.runtime.schema import ArrayType, ShapeDType

API_FILE: Final = "tesseract_api.py"
ENDPOINTS: Final = ("apply", *GRADIENTS, "abstract_eval")
"""Endpoints that can be called; `apply` is the one every component has."""

COMPRESSIONS: Final = ("lz4",)

_SUMMARIES: Final = {
    "apply": "Apply the component to the input data.",
    "abstract_eval": "Tell shapes and dtypes of the outputs from those of the inputs.",
    **{name: gradient.summary for name, gradient in GRADIENTS.items()},
}

# One at a time: loading changes sys.path and sys.modules, which all threads share.
_loading = threading.RLock()
_folders: set[str] = set()


class Component:
    """A component: its module, its schemas, its endpoints.

    Made by `Component.load`. Its models are changed on the way, see
    `binref_sci.runtime.models`.
    """

    def __init__(
        self, module: ModuleType, name: str, source: Path | str, version: str | None = None
    ) -> None:
        self.module = module
        self.name = name
        self.source = source
        self.version = str(version or getattr(module, "__version__", UNKNOWN_VERSION))
        self.input_schema = _schema(module, "InputSchema", name)
        self.output_schema = _schema(module, "OutputSchema", name)
        if not callable(getattr(module, "apply", None)):
            raise ComponentError(
                f"component {name!r} ({_place(module)}) has no function 'apply'; "
                "define apply(inputs: InputSchema) -> OutputSchema"
            )
        # Shapes of outputs that have been seen, by what the inputs were: see `lengths`.
        self.output_shapes: dict[bytes, dict[str, tuple[int, ...]]] = {}
        self.endpoints = tuple(each for each in ENDPOINTS if callable(getattr(module, each, None)))
        for schema in (self.input_schema, self.output_schema):
            try:
                models.prepare(schema, vars(module))
            except Exception as error:
                raise ComponentError(
                    f"component {name!r} ({_place(module)}): {schema.__name__} cannot be built: "
                    f"{error}"
                ) from error
        for endpoint in self.endpoints:
            if endpoint in GRADIENTS:
                require_differentiable(name, endpoint, self.input_schema, self.output_schema)

    @classmethod
    def load(cls, target: str | os.PathLike[str] | ModuleType) -> Component:
        """Load a component.

        Parameters
        ----------
        target
            A folder with a ``tesseract_api.py``, that file, the dotted name of a
            module, or a module. An existing path is a path; a ``tesseract_config.yaml``
            beside the file gives name and version. A file is loaded anew
            each time, so that edits count; the modules beside it that it imports are
            imported once, as always in Python. Modules of the same name beside two
            components are kept apart, if they are imported at the top.

        Raises
        ------
        PayloadError
            If there is no such file or module: the caller's mistake.
        ComponentError
            If the module fails to load, or lacks ``InputSchema``, ``OutputSchema`` or
            ``apply``.
        """
        if isinstance(target, ModuleType):
            return cls(target, target.__name__.rpartition(".")[2], target.__name__)
        path = Path(target)
        if path.is_dir():
            path /= API_FILE
            if not path.is_file():
                raise PayloadError(f"folder {os.fspath(target)!r} has no {API_FILE}")
        if path.is_file():
            if path.suffix != ".py":
                raise PayloadError(f"component {os.fspath(target)!r} is not a Python file")
            path = path.resolve()
            if path.name != API_FILE:
                return cls(_from_file(path), path.stem, path)
            name, version = identity(path.parent)
            return cls(_from_file(path), name or path.parent.name, path, version)
        return cls._from_name(os.fspath(target))

    @classmethod
    def _from_name(cls, target: str) -> Component:
        if not all(part.isidentifier() for part in target.split(".")):
            raise PayloadError(
                f"component {target!r} does not exist: no such folder or file under {os.fspath(Path.cwd())!r}"
            )
        try:
            module = importlib.import_module(target)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{target}.".startswith(f"{error.name}."):
                raise _failed(target, error) from error
            raise PayloadError(
                f"component {target!r} does not exist: no folder or file of this name under "
                f"{os.fspath(Path.cwd())!r}, and no module either"
            ) from error
        except Exception as error:
            raise _failed(target, error) from error
        return cls(module, target.rpartition(".")[2], target)

    def __repr__(self) -> str:
        return f"Component({self.name!r}, endpoints={self.endpoints})"

    @cached_property
    def payloads(self) -> dict[str, type[BaseModel]]:
        """What each endpoint takes: ``{"inputs": ...}``, and for gradients what of which."""
        made: dict[str, type[BaseModel]] = {}
        for endpoint in self.endpoints:
            if endpoint in GRADIENTS:
                made[endpoint] = payload_model(GRADIENTS[endpoint], self.input_schema)
                continue
            title = _title(endpoint)
            made[endpoint] = create_model(
                f"{title}InputSchema",
                __config__=ConfigDict(extra="forbid"),
                inputs=(self.input_schema, Field(description="What the component works on.")),
            )
        return made

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the component, served or not.

        Beside what OpenAPI knows, it has ``x-supported-output-formats`` and
        ``x-supported-compressions`` as tesseract-core's, and ``x-binref-labels``: the labels
        of the inputs and outputs by path.
        """
        _, definitions = models_json_schema(
            [(self.payloads["apply"], "validation"), (self.output_schema, "serialization")],
            ref_template="#/components/schemas/{model}",
        )
        schemas: dict[str, Any] = definitions["$defs"]
        output = schemas.get(self.output_schema.__name__)
        if output is None:  # pydantic tells models of the same name apart by their modules
            output = {"title": "OutputSchema", "type": "object"}
        inner = {key: value for key, value in schemas.items() if key != "ApplyInputSchema"}
        paths: dict[str, Any] = {}
        for endpoint in self.endpoints:
            title = _title(endpoint)
            given, made = schemas["ApplyInputSchema"], _reference(self.output_schema.__name__)
            if endpoint == "abstract_eval":
                for name, schema in inner.items():
                    schemas[f"Abstract_{name}"] = _abstract(schema)
                given, made = (
                    _abstract(given),
                    _reference(f"Abstract_{self.output_schema.__name__}"),
                )
            gradient = GRADIENTS.get(endpoint)
            if gradient is not None:
                sides = self.input_schema, self.output_schema
                given = payload_schema(gradient, given["properties"]["inputs"], *sides)
                answer = result_schema(gradient, *sides)
            else:
                given = given | _facts(self.input_schema)
                answer = {"allOf": [made], **_facts(self.output_schema)}
            schemas[f"{title}InputSchema"] = given | {"title": f"{title}InputSchema"}
            schemas[f"{title}OutputSchema"] = answer | {"title": f"{title}OutputSchema"}
            paths[f"/{endpoint}"] = {"post": self._operation(endpoint, title)}
        paths["/health"] = {
            "get": {
                "summary": "Health",
                "operationId": "health",
                "responses": {"200": {"description": "The component is ready."}},
            }
        }
        schemas["HTTPValidationError"] = _VALIDATION_ERROR
        return {
            "openapi": "3.1.0",
            "info": {
                "title": self.name,
                "version": self.version,
                "description": (self.module.__doc__ or "").strip(),
            },
            "paths": paths,
            "components": {"schemas": schemas},
            "x-supported-output-formats": list(OUTPUT_FORMATS),
            "x-supported-compressions": ["none", *COMPRESSIONS],
            "x-binref-labels": {
                "inputs": self.labels_json(self.input_schema),
                "outputs": self.labels_json(self.output_schema),
            },
        }

    def labels_json(self, schema: type[BaseModel] | None = None) -> dict[str, Any]:
        """Return the labels of a schema, the outputs' unless said otherwise, by path."""
        found = models.labels(schema or self.output_schema)
        return {path: labels.to_json() for path, labels in found.items()}

    def _operation(self, endpoint: str, title: str) -> dict[str, Any]:
        own = (getattr(self.module, endpoint).__doc__ or "").strip()

        def body(name: str) -> dict[str, Any]:
            return {"application/json": {"schema": _reference(name)}}

        return {
            "summary": endpoint.replace("_", " ").capitalize(),
            "description": "\n\n".join(text for text in (_SUMMARIES[endpoint], own) if text),
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


def _title(endpoint: str) -> str:
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
        return made | {key: schema[key] for key in ("description", "default") if key in schema}
    made = {key: _abstract(value) for key, value in schema.items()}
    if isinstance(made.get("$ref"), str):
        head, slash, name = made["$ref"].rpartition("/")
        made["$ref"] = f"{head}{slash}Abstract_{name}"
    return made


def _schema(module: ModuleType, attribute: str, name: str) -> type[BaseModel]:
    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        what = "has no" if found is None else f"has {found!r} for"
        raise ComponentError(
            f"component {name!r} ({_place(module)}) {what} {attribute!r}; "
            f"define class {attribute}(pydantic.BaseModel)"
        )
    return found


def _place(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or f"module {module.__name__}"


def _failed(name: str, error: BaseException) -> ComponentError:
    return ComponentError(f"component {name!r} failed to load: {type(error).__name__}: {error}")


def _from_file(path: Path) -> ModuleType:
    """Run a component's file as a module of its own.

    It is named after the file, so that processes it starts find its functions, unless
    another component has the name; then after its path. While it runs, the modules of
    other components are out of sight, and its own folder comes first.
    """
    with _loading, _apart(path.parent, path.stem):
        known = sys.modules.get(path.stem)
        free = known is None or getattr(known, "__file__", None) == str(path)
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        name = path.stem if free else f"{path.stem}_{digest}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise PayloadError(f"component {os.fspath(path)!r} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # functions are pickled by the name of their module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            if known is None or not free:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = known
            raise _failed(os.fspath(path), error) from error
        return module


@contextmanager
def _apart(folder: Path, stem: str) -> Iterator[None]:
    """Hide what other components imported from their own folders under names used in this one.

    Not the component's own name, `stem`: whether it is taken decides how it is called.
    """
    own = os.fspath(folder)
    names = {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}
    names.discard(stem)
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in names and _is_other(module, own)
    }
    for name in hidden:
        del sys.modules[name]
    _folders.add(own)
    sys.path.insert(0, own)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.modules.update(hidden)  # the first component keeps the name
        # At the end, for what is imported later, inside functions.
        sys.path.remove(own)
        if own not in sys.path:
            sys.path.append(own)


def _is_other(module: ModuleType, own: str) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or file.startswith(own + os.sep):
        return False
    return any(file.startswith(folder + os.sep) for folder in _folders - {own})
