"""A component's models, made ready: what pydantic alone does not know about arrays.

When a component is loaded, the models that its schemas are made of are changed *in
place* and rebuilt. In place, because the component makes instances of them itself:
``OutputSchema(trajectory=writer.trajectory())`` has to keep the trajectory folded there,
not only where the result is looked at afterwards. What is changed:

- ``list[Array[...]]``, wherever it stands, accepts a `Trajectory` as it is (`Foldable`);
- defaults of fields with arrays are validated, so that a component gets NumPy arrays
  also where the caller gave nothing;
- unknown fields are refused unless the model says otherwise, so that a misspelt input is
  an error and not a silent default;
- infinities in fields of type Any reach the encoder, which pydantic turns into null
  otherwise.

Dataclasses, typed dicts and named tuples are searched for arrays as models are, and stay as
pydantic has them. All of it may be done twice, so models may be shared between components.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from types import EllipsisType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, RootModel
from pydantic.dataclasses import is_pydantic_dataclass, rebuild_dataclass

from binref_sci.labels import Labels
from binref_sci.runtime.fields import fields_of, is_model, items_of
from binref_sci.runtime.schema import Array, ArrayType, Differentiable, Foldable

ITEM = "[]"
"""Stands for any index of a list in a path."""

VALUE = "{}"
"""Stands for any key of a dict in a path."""


class Leaf(NamedTuple):
    """An array somewhere in a schema."""

    path: str
    array: ArrayType


def prepare(model: type[BaseModel], namespace: Mapping[str, Any]) -> None:
    """Make a model and all models in it ready; see the module.

    Parameters
    ----------
    model
        A component's ``InputSchema`` or ``OutputSchema``.
    namespace
        Names of its module, for annotations that could not be resolved yet.
    """
    for each in reversed(list(_reachable(model, {}))):
        if not is_model(each):
            rebuild_dataclass(each, force=True)
            continue
        if not each.__pydantic_complete__:
            each.model_rebuild(_types_namespace=dict(namespace))
        for field in each.model_fields.values():
            field.annotation = _folded(field.annotation)
            if any(True for _ in _arrays(field.annotation, "")):
                field.validate_default = True
        each.model_config.setdefault("ser_json_inf_nan", "constants")
        if not issubclass(each, RootModel):
            each.model_config.setdefault("extra", "forbid")
        each.model_rebuild(force=True)
    # Models that refer to each other were rebuilt before all of them were changed.
    model.model_rebuild(force=True)


def _reachable(annotation: Any, seen: dict[type, None]) -> Iterator[Any]:
    """Yield models and dataclasses of pydantic's, each before those it is made of."""
    fields, items = fields_of(annotation), items_of(annotation)
    if fields is not None or items is not None:
        if annotation not in seen:
            seen[annotation] = None
            if is_model(annotation) or is_pydantic_dataclass(annotation):
                yield annotation
            for inner in fields.values() if fields is not None else items or ():
                yield from _reachable(inner, seen)
        return
    for argument in get_args(annotation):
        yield from _reachable(argument, seen)


def _folded(annotation: Any) -> Any:
    """Return an annotation with `Foldable` in each list of arrays."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner, *metadata = arguments
        if any(isinstance(mark, Foldable) for mark in metadata):
            return annotation
        made = _folded(inner)
        return annotation if made is inner else Annotated[(made, *metadata)]
    if origin is list:
        item = _bare_array(arguments[0])
        if item is not None:
            return Annotated[annotation, Foldable(item)]
    if not arguments:
        return annotation
    made = tuple(_folded(argument) for argument in arguments)
    if all(new is old for new, old in zip(made, arguments, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[made]  # noqa: UP007  # built from a tuple
    rebuilt: Any = origin
    return rebuilt[made]


def _bare_array(annotation: Any) -> ArrayType | None:
    """Return the array annotation of an item, unless something else validates it too."""
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        if not all(isinstance(mark, Labels) for mark in metadata):
            return None
    return annotation if isinstance(annotation, ArrayType) else None


def arrays(model: type[BaseModel]) -> Iterator[Leaf]:
    """Yield the arrays of a schema with their paths, such as ``layers.[].w``."""
    yield from _arrays(model, "")


def differentiable(model: type[BaseModel]) -> dict[str, ArrayType]:
    """Return the differentiable arrays of a schema by path.

    Where several may lie at a path, in a union or a tuple, it is what they have in common.
    """
    found: dict[str, list[ArrayType]] = {}
    for leaf in arrays(model):
        if leaf.array.differentiable:
            found.setdefault(leaf.path, []).append(leaf.array)
    return {path: _common(fields) for path, fields in found.items()}


def _common(fields: list[ArrayType]) -> ArrayType:
    first, *others = fields
    shape, dtype = first.expected_shape, first.expected_dtype
    for other in others:
        lengths = other.expected_shape
        if (
            isinstance(shape, EllipsisType)
            or isinstance(lengths, EllipsisType)
            or len(shape) != len(lengths)
        ):
            shape = ...
        else:
            shape = tuple(a if a == b else None for a, b in zip(shape, lengths, strict=True))
        dtype = dtype if dtype == other.expected_dtype else None
    return Differentiable[Array[shape, dtype]] if others else first


def _arrays(annotation: Any, path: str, inside: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    if isinstance(annotation, ArrayType):
        yield Leaf(path, annotation)
    elif (fields := fields_of(annotation)) is not None:
        if annotation not in inside:  # a model that contains itself has no last level
            for name, field in fields.items():
                yield from _arrays(field, _join(path, name), (*inside, annotation))
    else:
        for step, argument in parts(annotation):
            yield from _arrays(argument, _join(path, step), inside)


def labels(model: type[BaseModel]) -> dict[str, Labels]:
    """Return the labels in a schema by the path of what they belong to."""
    return dict(_labels(model, "", ()))


def _labels(annotation: Any, path: str, inside: tuple[Any, ...]) -> Iterator[tuple[str, Labels]]:
    if is_model(annotation):
        if annotation in inside:
            return
        for name, field in annotation.model_fields.items():
            below = _join(path, name)
            for mark in field.metadata:
                if isinstance(mark, Labels):
                    yield below, mark
            yield from _labels(field.annotation, below, (*inside, annotation))
        return
    if (fields := fields_of(annotation)) is not None:
        if annotation not in inside:
            for name, field in fields.items():
                yield from _labels(field, _join(path, name), (*inside, annotation))
        return
    if get_origin(annotation) is Annotated:
        for mark in annotation.__metadata__:
            if isinstance(mark, Labels):
                yield path, mark
    for step, argument in parts(annotation):
        yield from _labels(argument, _join(path, step), inside)


def field_order(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return the names of the fields of each model in a schema, by path."""
    return dict(_orders(model, "", ()))


def _orders(annotation: Any, path: str, inside: tuple[Any, ...]) -> Iterator[tuple[str, list[str]]]:
    if (fields := fields_of(annotation)) is not None:
        if annotation not in inside:
            yield path, list(fields)
            for name, field in fields.items():
                yield from _orders(field, _join(path, name), (*inside, annotation))
        return
    for step, argument in parts(annotation):
        yield from _orders(argument, _join(path, step), inside)


def parts(annotation: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an annotation is made of, with the step of the path that leads there."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield "", arguments[0]
    elif origin in (Union, types.UnionType):
        yield from (("", argument) for argument in arguments)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield VALUE, arguments[-1]
    elif isinstance(origin, type):
        yield from ((ITEM, argument) for argument in arguments)
    elif (items := items_of(annotation)) is not None:
        yield from ((ITEM, item) for item in items)


def _join(path: str, step: str) -> str:
    return f"{path}.{step}" if path and step else path or step
