"""Paths into inputs and outputs, as gradient endpoints spell them.

``layers.[0].w`` is field ``w`` of the first item of the list ``layers``;
``named.{a.b}`` is what the dict ``named`` holds under the key ``a.b``. In a key, ``{``,
``}`` and the backslash are written with a backslash before them. The spelling is
tesseract-core's.
"""

from __future__ import annotations

import copy
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from binref_sci.messages import shown
from binref_sci.runtime.fields import fields_of, has_fields, items_of
from binref_sci.runtime.gradients.arrays import holding
from binref_sci.runtime.models import ITEM, VALUE
from binref_sci.runtime.schema import ArrayType
from binref_sci.trajectory import Trajectory

_ESCAPED: Final = re.compile(r"\\(.?)", re.DOTALL)

_DIGITS: Final = 18  # of a position: more than any list has items


class PathError(ValueError):
    """A path is not spelled as paths are, or leads nowhere."""


class Step(NamedTuple):
    """One step of a path.

    Parameters
    ----------
    kind
        ``"field"`` of a model, ``"item"`` of a list or ``"key"`` of a dict.
    name
        Name, position or key, as text.
    """

    kind: Literal["field", "item", "key"]
    name: str

    def __str__(self) -> str:
        if self.kind == "item":
            return f"[{self.name}]"
        if self.kind == "key":
            return "{" + "".join(f"\\{c}" if c in "{}\\" else c for c in self.name) + "}"
        return self.name


def parse(path: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    Raises
    ------
    PathError
        If it is not spelled as a path; there is one spelling for each.

    Examples
    --------
    >>> [step.name for step in parse("layers.[2].named.{a.b}")]
    ['layers', '2', 'named', 'a.b']
    """
    steps = tuple(_step(text, path) for text in _split(path))
    if (spelled := spell(steps)) != path:  # components compare paths as text
        raise PathError(f"{shown(path)}: if this is what is meant, write {shown(spelled)}")
    return steps


def _split(path: str) -> list[str]:
    """Cut at dots that are not part of a key."""
    parts: list[str] = []
    start, depth, escaped = 0, 0, False
    for place, character in enumerate(path):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        elif character == "." and depth == 0:
            parts.append(path[start:place])
            start = place + 1
    return [*parts, path[start:]]


def _step(text: str, path: str) -> Step:
    if text.startswith("[") and text.endswith("]"):
        position = text[1:-1]
        if position.isascii() and position.isdigit() and len(position) <= _DIGITS:
            return Step("item", str(int(position)))
        raise PathError(
            f"{shown(path)}: position {shown(position)} is not valid; positions count from 0, as in "
            "'layers.[0].w'"
        )
    if text.startswith("{") and text.endswith("}"):
        return Step("key", _ESCAPED.sub(r"\1", text[1:-1]))
    if text.isidentifier():
        return Step("field", text)
    raise PathError(
        f"{shown(path)}: {shown(text)} is no step of a path; write a field by its name, an item as '[0]', "
        "and a key as '{key}', with dots between them"
    )


def spell(steps: Sequence[Step]) -> str:
    """Return the text of a path."""
    return ".".join(map(str, steps))


def pattern(path: str) -> str:
    """Return a path as schemas have it, without positions and keys.

    Examples
    --------
    >>> pattern("layers.[2].named.{a.b}")
    'layers.[].named.{}'
    """
    general = {"item": ITEM, "key": VALUE}
    return ".".join(general.get(step.kind, step.name) for step in parse(path))


def get(tree: Any, path: str) -> Any:
    """Return what lies at a path in a model, or in what was dumped from one.

    Raises
    ------
    PathError
        If there is nothing; says at which step.

    Examples
    --------
    >>> get({"layers": [{"w": 1}]}, "layers.[0].w")
    1
    """
    for number, step in enumerate(steps := parse(path)):
        tree = _inside(tree, step, steps[:number])
    return tree


def _inside(tree: Any, step: Step, above: tuple[Step, ...]) -> Any:
    if step.kind == "field":
        if has_fields(tree):
            if step.name in (fields_of(type(tree)) or ()):
                return getattr(tree, step.name)
        elif isinstance(tree, Mapping) and step.name in tree:
            return tree[step.name]
    elif step.kind == "key" and isinstance(tree, Mapping):
        key = _key(tree, step.name)
        if key is not None:
            return tree[key]
    elif step.kind == "item" and isinstance(tree, list | tuple | Trajectory):
        if int(step.name) < len(tree):
            return tree[int(step.name)]
        raise PathError(f"there is no {step} in {shown(spell(above))}, which has {len(tree)} items")
    kind = {"field": "no field", "key": "no key", "item": "no list with an item"}[step.kind]
    raise PathError(
        f"there is {kind} {shown(str(step))}" + (f" in {shown(spell(above))}" if above else "")
    )


def _key(tree: Mapping[Any, Any], name: str) -> Any:
    """Return the key of a dict that is spelled `name`: keys need not be text."""
    return name if name in tree else next((key for key in tree if _key_text(key) == name), None)


def _key_text(key: Any) -> str:
    """Return a key as JSON has it."""
    if isinstance(key, Enum):
        key = key.value
    return str(key).lower() if isinstance(key, bool) else str(key)


def replaced(tree: Any, values: Mapping[str, Any]) -> Any:
    """Return a tree with other values at some paths; the original stays as it is.

    Models are copied without validation.

    Raises
    ------
    PathError
        If a path leads nowhere.

    Examples
    --------
    >>> replaced({"layers": [1, 2], "n": 3}, {"layers.[1]": 5})
    {'layers': [1, 5], 'n': 3}
    """
    for path, value in values.items():
        get(tree, path)  # says what is wrong
        tree = _replaced(tree, parse(path), value)
    return tree


def _replaced(tree: Any, steps: tuple[Step, ...], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step.kind == "item":
        at = int(step.name)
        items = [*tree[:at], _replaced(tree[at], rest, value), *tree[at + 1 :]]
        if isinstance(tree, tuple):
            return tree._make(items) if hasattr(tree, "_make") else tuple(items)
        return items
    if has_fields(tree):
        inner = _replaced(getattr(tree, step.name), rest, value)
        if isinstance(tree, BaseModel):
            return copied(tree, {step.name: inner})
        made = copy.copy(tree)  # not made anew: that would validate it
        object.__setattr__(made, step.name, inner)  # also of a frozen one
        return made
    key = _key(tree, step.name)
    return {**tree, key: _replaced(tree[key], rest, value)}


def copied(model: BaseModel, values: Mapping[str, Any]) -> BaseModel:
    """Return a copy of a model with other values in some fields, not validated.

    What it has worked out of its fields (`functools.cached_property`) is not taken over.
    """
    made = model.model_copy(update=values)
    for name in set(made.__dict__) - set(type(model).model_fields):
        del made.__dict__[name]
    return made


def declared(
    model: type[BaseModel], path: str, tree: BaseModel | None = None
) -> tuple[ArrayType, ...]:
    """Return the array annotations that a schema has at a path; several where it has unions.

    Parameters
    ----------
    model
        The schema.
    path
        The path.
    tree
        A value of the schema: of models in a union only those that it holds count.

    Raises
    ------
    PathError
        If the path is not spelled as paths are.
    """
    found: list[Any] = [model]
    inside: Any = tree
    for step in parse(path):
        found = [inner for each in found for inner in _below(each, step, inside)]
        try:
            inside = _inside(inside, step, ())
        except PathError:
            inside = None
    return tuple(leaf for each in found for leaf in _leaves(each))


def is_certain(model: type[BaseModel], path: str) -> bool:
    """Return whether each value of a schema has an array at a path: there is no choice on the way.

    Raises
    ------
    PathError
        If the path is not spelled as paths are.
    """
    found: list[Any] = [model]
    for step in parse(path):
        if step.kind != "field":
            return False
        found = [inner for each in found for inner in _below(each, step)]
        if len([each for inner in found for each in _alternatives(inner)]) != 1:
            return False
    return True


def _leaves(annotation: Any) -> Iterator[ArrayType]:
    for each in _alternatives(annotation):
        if isinstance(each, ArrayType):
            yield each


def _alternatives(annotation: Any) -> Iterator[Any]:
    """Yield what an annotation may be, without its metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _alternatives(argument)
    else:
        yield annotation


def _below(annotation: Any, step: Step, tree: Any = None) -> Iterator[Any]:
    for each in _alternatives(annotation):
        origin, arguments = get_origin(each), get_args(each)
        if step.kind == "field":
            fields = fields_of(each)
            if fields is not None and step.name in fields:
                if not has_fields(tree) or type(tree) is each or isinstance(tree, each):
                    yield fields[step.name]
        elif step.kind == "item" and (items := items_of(each)) is not None:
            yield from items[int(step.name) : int(step.name) + 1]
        elif not isinstance(origin, type) or not arguments:
            continue
        elif issubclass(origin, Mapping):
            if step.kind == "key":
                yield arguments[-1]
        elif step.kind == "item":
            fixed = issubclass(origin, tuple) and arguments[-1] is not Ellipsis
            if not fixed:
                yield arguments[0]
            elif int(step.name) < len(arguments):
                yield arguments[int(step.name)]


def existing(tree: Any, annotation: Any) -> Iterator[str]:
    """Yield the paths of all differentiable arrays in a value of a schema.

    Parameters
    ----------
    tree
        A validated value.
    annotation
        Its schema.
    """
    yield from map(spell, _existing(tree, annotation, ()))


def _existing(tree: Any, annotation: Any, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    leaves = list(_leaves(annotation))
    if leaves and hasattr(tree, "shape") and hasattr(tree, "dtype"):
        leaf = holding(leaves, tree)
        if leaf is not None and leaf.differentiable:
            yield steps
        return
    for step, inner in _children(tree):
        for below in _below(annotation, step, tree):
            yield from _existing(inner, below, (*steps, step))


def _children(tree: Any) -> Iterator[tuple[Step, Any]]:
    if has_fields(tree):
        for name in fields_of(type(tree)) or ():
            yield Step("field", name), getattr(tree, name)
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield Step("key", _key_text(key)), value
            if isinstance(key, str) and key.isidentifier():  # of a typed dict
                yield Step("field", key), value
    elif isinstance(tree, list | tuple | Trajectory):
        for index, value in enumerate(tree):
            yield Step("item", str(index)), value
