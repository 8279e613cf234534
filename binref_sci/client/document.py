"""What an OpenAPI document says of the outputs, where JSON alone is not enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Path = tuple[str | int, ...]

_OUTPUTS: Final = "ApplyOutputSchema"
"""Name of the outputs' schema, here and in tesseract-core."""

_SPECIAL: Final = {None: math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
"""What stands for the numbers that JSON lacks."""


class Numbers:
    """Turns what stands for NaN and the infinities back into them, in plain float fields.

    Arrays say what they hold; beside them, ``null`` may be NaN or nothing, and
    ``"Infinity"`` a number or a word. The schema tells.

    Parameters
    ----------
    document
        Returns the OpenAPI document; asked for once, and only where there is a doubt.

    Examples
    --------
    >>> schema = {"properties": {"loss": {"type": "number"}, "note": {"type": "string"}}}
    >>> numbers = Numbers(lambda: {"components": {"schemas": {"ApplyOutputSchema": schema}}})
    >>> numbers.restored("Infinity", ("loss",)), numbers.restored("Infinity", ("note",))
    (inf, 'Infinity')
    """

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._document = document
        self._schemas: Mapping[str, Any] | None = None

    def restored(self, value: Any, path: Path) -> Any:
        """Return the number that a plain value stands for, or the value."""
        if not isinstance(value, str | None) or value not in _SPECIAL:
            return value
        kinds = {node.get("type") for node in self._at(path)}
        other = "null" if value is None else "string"
        return _SPECIAL[value] if "number" in kinds and other not in kinds else value

    def _at(self, path: Path) -> list[Mapping[str, Any]]:
        """Return what may stand at a place."""
        if self._schemas is None:
            found = self._document().get("components", {})
            self._schemas = found.get("schemas", {}) if isinstance(found, Mapping) else {}
        nodes = list(self._resolved(self._schemas.get(_OUTPUTS)))
        for part in path:
            inner = [each for node in nodes for each in _below(node, part)]
            nodes = [each for node in inner for each in self._resolved(node)]
        return nodes

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
