"""What an OpenAPI document says of inputs and outputs, where JSON alone is not enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

Path = tuple[str | int, ...]

_INPUTS: Final = "ApplyInputSchema"
_OUTPUTS: Final = "ApplyOutputSchema"
"""Names of the schemas of payload and outputs, here and in tesseract-core."""

_SPECIAL: Final = {None: math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""What stands for the numbers that JSON lacks."""


class Schemas:
    """What may stand at a place, as a component's OpenAPI document has it.

    Parameters
    ----------
    document
        Returns the document; asked for once, and only where there is a doubt.
    root
        Name of the schema that places are in.
    """

    def __init__(self, document: Callable[[], Mapping[str, Any]], root: str) -> None:
        self._document = document
        self._root = root
        self._schemas: Mapping[str, Any] | None = None
        self._around: dict[Path, list[Mapping[str, Any]]] = {}

    def at(self, path: Path) -> list[Mapping[str, Any]]:
        """Return the alternatives; none where nothing is known."""
        if self._schemas is None:
            found = self._document().get("components", {})
            self._schemas = found.get("schemas", {}) if isinstance(found, Mapping) else {}
        if not path:
            return list(self._resolved(self._schemas.get(self._root)))
        inner = [each for node in self.around(path) for each in _below(node, path[-1])]
        return [each for node in inner for each in self._resolved(node)]

    def around(self, path: Path) -> list[Mapping[str, Any]]:
        """Return the alternatives of what a place is in; remembered for its other items."""
        above = path[:-1]
        if above not in self._around:
            self._around[above] = self.at(above)
        return self._around[above]

    def _resolved(self, node: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
        """Yield a schema's alternatives, references followed."""
        if not isinstance(node, Mapping) or depth > 20:
            return
        schemas = self._schemas or {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield from self._resolved(schemas.get(reference.rpartition("/")[2]), depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            members = node.get(key)
            for member in members if isinstance(members, list) else []:
                yield from self._resolved(member, depth + 1)
        yield node


class Numbers:
    """Turns what stands for NaN and the infinities back into them, in plain float fields.

    Arrays say what they hold; beside them, ``null`` may be NaN or nothing, and
    ``"Infinity"`` a number or a word. The schema tells.

    Parameters
    ----------
    document
        Returns the OpenAPI document.

    Examples
    --------
    >>> schema = {"properties": {"loss": {"type": "number"}, "note": {"type": "string"}}}
    >>> numbers = Numbers(lambda: {"components": {"schemas": {"ApplyOutputSchema": schema}}})
    >>> numbers.restored("Infinity", ("loss",)), numbers.restored("Infinity", ("note",))
    (inf, 'Infinity')
    """

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._schemas = Schemas(document, _OUTPUTS)

    def restored(self, value: Any, path: Path) -> Any:
        """Return the number that a plain value stands for, or the value."""
        if not isinstance(value, str | None) or value not in _SPECIAL:
            return value
        kinds = {node.get("type") for node in self._schemas.at(path)}
        other = "null" if value is None else "string"
        return _SPECIAL[value] if "number" in kinds and other not in kinds else value


class Singles:
    """Tells whether a single number of NumPy's goes as an array, which keeps its dtype.

    Parameters
    ----------
    document
        Returns the OpenAPI document.

    Examples
    --------
    >>> array = {"array_flags": [], "properties": {"dtype": {"enum": ["float32", "float64"]}}}
    >>> schema = {"properties": {"x": array, "steps": {"type": "integer"}}}
    >>> inputs = {"properties": {"inputs": schema}}
    >>> singles = Singles(lambda: {"components": {"schemas": {"ApplyInputSchema": inputs}}})
    >>> [singles.is_array("float32", ("inputs", name)) for name in ("x", "steps", "other")]
    [True, False, None]
    """

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._schemas = Schemas(document, _INPUTS)
        self._known: dict[tuple[str, Path], bool | None] = {}

    def is_array(self, dtype: str, path: Path) -> bool | None:
        """Return whether an array of a dtype may stand at a place, or a number; None: unknown."""
        key = dtype, self._first_like(path)
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def items(self, path: Path) -> Path | None:
        """Return the place that stands for all items of a list; None where each has its own."""
        first = (*self._first_like(path), 0)
        return None if self._fixed(first) else first

    def _fixed(self, path: Path) -> bool:
        return any("prefixItems" in node for node in self._schemas.around(path))

    def _first_like(self, path: Path) -> Path:
        """Return the place of the first of all items like this: those of a list are alike."""
        made: Path = ()
        for part in path:
            if isinstance(part, int) and not self._fixed((*made, part)):
                part = 0
            made = (*made, part)
        return made

    def _found(self, dtype: str, path: Path) -> bool | None:
        found = self._schemas.at(path)
        while not found and path and isinstance(path[-1], int):  # a number in nested lists
            found, path = self._schemas.around(path), path[:-1]
            if any("array_flags" in node for node in found):
                return False
        arrays = [node for node in found if "array_flags" in node]
        if any(dtype in _dtypes(node) for node in arrays):
            return True
        numbers = {"number", "integer", "boolean"}
        plain = any(node.get("type") in numbers for node in found)
        return False if arrays or plain else None


def _dtypes(node: Mapping[str, Any]) -> Collection[str]:
    """Return the dtypes that an array's schema allows."""
    try:
        found = node["properties"]["dtype"]["enum"]
    except (KeyError, TypeError):
        return ()
    return found if isinstance(found, list) else ()


def _below(node: Mapping[str, Any], part: str | int) -> Iterator[Any]:
    if isinstance(part, int):
        first = node.get("prefixItems")
        fixed = first if isinstance(first, list) else []
        yield fixed[part] if part < len(fixed) else node.get("items")
        return
    properties = node.get("properties")
    if isinstance(properties, Mapping) and part in properties:
        yield properties[part]
    else:
        yield node.get("additionalProperties")
