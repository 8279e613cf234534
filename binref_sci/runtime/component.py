"""`Component`: a module with schemas and endpoints, loaded and made ready."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, create_model

from binref_sci.errors import ComponentError, PayloadError
from binref_sci.naming import COMPRESSIONS, OUTPUT_FORMATS
from binref_sci.runtime import models
from binref_sci.runtime.config import UNKNOWN_VERSION, identity
from binref_sci.runtime.gradients.kinds import GRADIENTS
from binref_sci.runtime.gradients.schemas import payload_model, require_differentiable
from binref_sci.runtime.loading import module_by_name, module_from_file, place_of
from binref_sci.runtime.openapi import described_endpoints, title_of

API_FILE: Final = "tesseract_api.py"
ENDPOINTS: Final = ("apply", *GRADIENTS, "abstract_eval")
"""Endpoints that can be called; `apply` is the one every component has."""


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
                f"component {name!r} ({place_of(module)}) has no function 'apply'; "
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
                    f"component {name!r} ({place_of(module)}): {schema.__name__} cannot be built: "
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
                return cls(module_from_file(path), path.stem, path)
            name, version = identity(path.parent)
            return cls(module_from_file(path), name or path.parent.name, path, version)
        dotted = os.fspath(target)
        return cls(module_by_name(dotted), dotted.rpartition(".")[2], dotted)

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
            title = title_of(endpoint)
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
        described = {each: getattr(self.module, each).__doc__ or "" for each in self.endpoints}
        paths, schemas = described_endpoints(
            described, self.payloads["apply"], self.input_schema, self.output_schema
        )
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


def _schema(module: ModuleType, attribute: str, name: str) -> type[BaseModel]:
    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        what = "has no" if found is None else f"has {found!r} for"
        raise ComponentError(
            f"component {name!r} ({place_of(module)}) {what} {attribute!r}; "
            f"define class {attribute}(pydantic.BaseModel)"
        )
    return found
