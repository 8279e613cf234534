"""The page at ``/docs``: what a component takes and returns, for a person.

FastAPI's own pages fetch their scripts from the internet, which clusters do not
have. This one is plain HTML made from the OpenAPI document, once, at start.
"""

from __future__ import annotations

from html import escape
from typing import Any

import orjson

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #8881; padding: .7rem; overflow: auto; font-size: 85%; }
h2 { border-bottom: 1px solid #8886; margin-top: 2.5rem; }
summary { cursor: pointer; }
:root { color-scheme: light dark; }
"""


def render(openapi: dict[str, Any]) -> str:
    """Return the page for one OpenAPI document."""
    info = openapi.get("info", {})
    title = f"{info.get('title', 'component')} {info.get('version', '')}".strip()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        _paragraphs(info.get("description", "")),
        "<p>The same for machines: <a href=openapi.json>openapi.json</a>. Response formats: ",
        ", ".join(
            f"<code>application/{escape(name)}</code>"
            for name in openapi.get("x-supported-output-formats", [])
        ),
        ", chosen by the <code>Accept</code> header; arrays in them may be compressed ",
        "(<code>;compression=lz4</code>).</p>",
    ]
    for path, methods in openapi.get("paths", {}).items():
        for method, operation in methods.items():
            if isinstance(operation, dict):
                parts.append(_operation(method, path, operation))
    schemas = openapi.get("components", {}).get("schemas", {})
    if schemas:
        parts.append("<h2>Schemas</h2>")
    parts.extend(
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>"
        f"{_source(schema)}</details>"
        for name, schema in schemas.items()
    )
    return "\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>",
        _paragraphs(operation.get("description", operation.get("summary", ""))),
    ]
    body = _schema_of(operation.get("requestBody", {}))
    if body is not None:
        parts.append(f"<p>Takes:</p>{_source(body)}")
    answer = _schema_of(operation.get("responses", {}).get("200", {}))
    if answer is not None:
        parts.append(f"<p>Returns:</p>{_source(answer)}")
    return "\n".join(parts)


def _schema_of(body: dict[str, Any]) -> Any:
    content = body.get("content", {}).get("application/json", {})
    return content.get("schema")


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())


def _source(schema: Any) -> str:
    """Return a schema as JSON, its references turned into links."""
    lines = []
    for line in orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode().splitlines():
        before, found, name = line.partition('"#/components/schemas/')
        if found:
            name, _, rest = name.partition('"')
            link = f"<a href='#{escape(name)}'>{escape(name)}</a>"
            lines.append(f"{escape(before)}{link}{escape(rest)}")
        else:
            lines.append(escape(line))
    return f"<pre>{chr(10).join(lines)}</pre>"
