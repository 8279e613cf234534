"""What a component takes, told from its schema: the help of ``binref-sci run COMPONENT``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from binref_sci import wire
from binref_sci.cli.terminal import reflowed
from binref_sci.messages import shortened
from binref_sci.runtime.config import UNKNOWN_VERSION
from binref_sci.runtime.gradients.kinds import GRADIENTS
from binref_sci.runtime.schema.document import PLAIN_NUMBERS

_SCHEMA_ROOT = "#/components/schemas/"
# A model that contains itself is told this deep.
_DEPTH = 4
_LONG = 60  # characters of a default that are too many for a line, and for an example


@dataclass(frozen=True)
class Field:
    """One line of the description."""

    name: str
    kind: str
    default: str
    text: str


def describe(openapi: dict[str, Any], called: str, console: Console) -> None:
    """Print what each endpoint of a component takes, and what ``apply`` returns.

    Parameters
    ----------
    openapi
        Its OpenAPI document.
    called
        How the person named it, for the example.
    console
        Where to.
    """
    info = openapi.get("info", {})
    description = info.get("description", "").strip()
    version = info.get("version", UNKNOWN_VERSION)
    told = "" if version == UNKNOWN_VERSION else f" {escape(version)}"
    console.print(f"[bold]{escape(info.get('title', called))}[/]{told}")
    if description:
        console.print(escape(reflowed(description)))
    for path, methods in openapi.get("paths", {}).items():
        operation = methods.get("post")
        if operation is None:
            continue
        endpoint = path.strip("/")
        console.print(f"\n[bold]{escape(endpoint)}[/] takes")
        taken = fields(openapi, _body(operation.get("requestBody", {})))
        if endpoint in _SAME_INPUTS:
            taken = _without_inputs(taken, _SAME_INPUTS[endpoint])
        console.print(_table(taken))
        if endpoint == "apply":
            console.print("and returns")
            answer = _body(operation.get("responses", {}).get("200", {}))
            console.print(_table(replace(each, default="") for each in fields(openapi, answer)))
    console.print("\nAn array may be given as nested lists of numbers.")
    console.print(f"For example: {escape(_example(openapi, called))}", soft_wrap=True)


def fields(openapi: dict[str, Any], schema: dict[str, Any], depth: int = 0) -> Iterator[Field]:
    """Yield the fields of an object schema, those of nested objects indented."""
    resolved = resolve(openapi, schema)
    required = resolved.get("required", [])
    for name, raw in resolved.get("properties", {}).items():
        item = resolve(openapi, raw)
        if "default" in item:
            default = f"default {shortened(_json(item['default']), _LONG)}"
        else:
            default = "required" if name in required else ""
        text = " ".join(str(item.get("description", "")).split())
        if text == PLAIN_NUMBERS:  # told once for all
            text = ""
        yield Field("  " * depth + name, kind_of(openapi, item), default, text)
        inner = item
        while inner.get("type") == "array" and isinstance(inner.get("items"), dict):
            inner = resolve(openapi, inner["items"])
        if inner.get("type") == "object" and not is_array(inner) and depth < _DEPTH:
            yield from fields(openapi, inner, depth + 1)


_SAME_INPUTS: Final = {
    **dict.fromkeys(GRADIENTS, "as for apply"),
    "abstract_eval": 'as for apply, with {"shape": [...], "dtype": "..."} in place of each array',
}


def _without_inputs(rows: Iterator[Field], instead: str) -> Iterator[Field]:
    """Yield the fields of a payload beside its inputs, which are told elsewhere."""
    inside = False
    for row in rows:
        top = not row.name.startswith(" ")
        inside = row.name == "inputs" if top else inside
        if not inside:
            yield row
        elif top:
            yield Field("inputs", instead, "required", "")


def _json(value: Any) -> str:
    return orjson.dumps(_plain(value)).decode()


def _plain(value: Any) -> Any:
    """Return a default with its arrays as nested lists, where these say as much."""
    if isinstance(value, dict):
        if wire.is_array_json(value):
            plain = 0 not in value["shape"] and not value["dtype"].startswith("complex")
            return value["data"]["buffer"] if plain else value
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def resolve(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follow the references of a schema; what stands beside one wins."""
    seen = set()
    while (name := schema.get("$ref")) is not None and name not in seen:
        seen.add(name)
        target = openapi["components"]["schemas"][name.removeprefix(_SCHEMA_ROOT)]
        schema = target | {key: value for key, value in schema.items() if key != "$ref"}
    if len(schema.get("allOf", ())) == 1:
        return resolve(openapi, schema["allOf"][0]) | schema
    return schema


def is_array(schema: dict[str, Any]) -> bool:
    """Whether a schema is that of an encoded array; its title says which."""
    return "array_flags" in schema


def kind_of(openapi: dict[str, Any], schema: dict[str, Any]) -> str:
    """Name the type of a resolved schema in a word or two."""
    if is_array(schema):
        return str(schema.get("title", "array"))
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [kind_of(openapi, resolve(openapi, one)) for one in alternatives]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(orjson.dumps(value).decode() for value in values)
    kind = schema.get("type", "anything")
    if kind == "array":
        inner = resolve(openapi, schema.get("items") or {})
        return f"list of {kind_of(openapi, inner)}"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), dict):
        return f"dict of {kind_of(openapi, resolve(openapi, values))}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    words = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return "".join(f" {sign} {schema[word]}" for word, sign in words.items() if word in schema)


def _body(part: dict[str, Any]) -> dict[str, Any]:
    content = part.get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    return schema if isinstance(schema, dict) else {}


def _table(rows: Iterator[Field]) -> Table:
    """Return a row for each field: its name; beside it what it is, and below that its text."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        facts = ", ".join(filter(None, (row.kind, row.default)))
        table.add_row(
            f"  [cyan]{escape(row.name)}[/]", escape("\n".join(filter(None, (facts, row.text))))
        )
    return table


def _example(openapi: dict[str, Any], called: str) -> str:
    body = _body(openapi.get("paths", {}).get("/apply", {}).get("post", {}).get("requestBody", {}))
    inputs = resolve(openapi, body).get("properties", {}).get("inputs", {})
    given = _placeholder(openapi, resolve(openapi, inputs))
    payload = orjson.dumps({"inputs": given}).decode()
    return (
        f"binref-sci run {shlex.quote(called)} apply --output-path ./output {shlex.quote(payload)}"
    )


def _placeholder(openapi: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Return a value that fits a resolved schema: its defaults, and what is small for the rest."""
    if "default" in schema:
        return _plain(schema["default"])
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return _placeholder(openapi, resolve(openapi, alternatives[0]))
    if is_array(schema):
        layout = schema["properties"]
        made: Any = False if layout["dtype"]["enum"] == ["bool"] else 0
        for _ in range(layout["shape"].get("minItems", 0)):
            made = [made]  # one element is spread to any length
        return made
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", [])
        items = {name: resolve(openapi, raw) for name, raw in schema.get("properties", {}).items()}
        return {
            name: _placeholder(openapi, item)
            for name, item in items.items()
            if name in required or ("default" in item and len(_json(item["default"])) <= _LONG)
        }
    if kind in ("number", "integer"):
        low = schema.get("exclusiveMinimum")
        return schema.get("minimum", 0 if low is None else low + 1)
    return {"array": [], "string": "", "boolean": False}.get(str(kind))
