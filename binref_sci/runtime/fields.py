"""What has fields in a schema: models, dataclasses, typed dicts and named tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints

from pydantic import BaseModel


def is_model(annotation: Any) -> bool:
    """Whether an annotation is a model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def has_fields(value: Any) -> bool:
    """Whether a value is a model or a dataclass: its fields are attributes."""
    return isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))


def fields_of(annotation: Any) -> Mapping[str, Any] | None:
    """Return the annotations of the fields of a model, dataclass or typed dict; None of all else.

    Examples
    --------
    >>> from dataclasses import make_dataclass
    >>> fields_of(make_dataclass("Layer", [("w", list[float])]))
    {'w': list[float]}
    """
    if is_model(annotation):
        return {name: field.annotation for name, field in annotation.model_fields.items()}
    if isinstance(annotation, type) and (_is_typed_dict(annotation) or is_dataclass(annotation)):
        return _hints(annotation)
    return None


def items_of(annotation: Any) -> tuple[Any, ...] | None:
    """Return the annotations of the items of a named tuple; None of all else."""
    if isinstance(annotation, type) and issubclass(annotation, tuple):
        if hasattr(annotation, "_fields"):
            hints = _hints(annotation)
            return tuple(hints.get(name, Any) for name in annotation._fields)
    return None


def _is_typed_dict(annotation: type) -> bool:
    # Not by typing.is_typeddict, which does not know those of typing_extensions.
    return issubclass(annotation, dict) and hasattr(annotation, "__required_keys__")


@cache
def _hints(annotation: type) -> dict[str, Any]:
    found = get_type_hints(annotation, include_extras=True)
    if is_dataclass(annotation):  # not its class variables
        names = {field.name for field in fields(annotation)}
        found = {name: hint for name, hint in found.items() if name in names}
    return {name: _bare(hint) for name, hint in found.items()}


def _bare(hint: Any) -> Any:
    """Return the annotation of a key that a typed dict must or may have."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
