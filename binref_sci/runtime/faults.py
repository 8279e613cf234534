"""What pydantic finds wrong, told with the way out where a name is misspelled or misplaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from binref_sci.hints import meant
from binref_sci.messages import fault, listed
from binref_sci.runtime.fields import is_model
from binref_sci.runtime.models import parts

_HINTS: Final = 20  # for the first faults: looking for names that are near takes time


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return one entry a fault; inputs are left out, they may be large.

    Parameters
    ----------
    error
        What pydantic found.
    model
        What it validated.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    made = []
    for number, each in enumerate(found):
        hint = _hint(model, each["loc"], each["type"]) if number < _HINTS else ""
        made.append(fault(each["loc"], each["msg"] + hint, each["type"]))
    return made


def _hint(model: type[BaseModel], loc: tuple[str | int, ...], kind: str) -> str:
    inputs = model.model_fields.get("inputs")
    if kind == "missing" and loc == ("inputs",) and inputs is not None:
        return '; a payload is an object with inputs: {"inputs": {...}}'
    if kind != "extra_forbidden":
        return ""
    name = str(loc[-1])
    if len(loc) == 1 and inputs is not None and name in _names(inputs.annotation):
        return f'; it belongs into the inputs: {{"inputs": {{"{name}": ...}}}}'
    known = list(dict.fromkeys(_known(model, loc[:-1])))
    return meant(name, known) or f"; there are {listed(known)}"


def _known(model: type[BaseModel], loc: Sequence[str | int]) -> Iterator[str]:
    """Yield the names of the fields that there are at a place."""
    found: list[Any] = [model]
    for part in loc:
        inner = [each for annotation in found for each in _below(annotation, part)]
        found = inner or found  # pydantic also names the members of a union
    for annotation in found:
        yield from _names(annotation)


def _below(annotation: Any, part: str | int) -> Iterator[Any]:
    if is_model(annotation):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias, field.validation_alias):
                yield field.annotation
        return
    for step, argument in parts(annotation):
        if step:
            yield argument
        else:
            yield from _below(argument, part)


def _names(annotation: Any) -> Iterator[str]:
    if is_model(annotation):
        for name, field in annotation.model_fields.items():
            called = field.alias or field.validation_alias
            yield called if isinstance(called, str) else name
        return
    for step, argument in parts(annotation):
        if not step:
            yield from _names(argument)
