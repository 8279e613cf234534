"""What the commands that look at a run take: a path or a URL, and what its store wants to know."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer


def _options(text: str) -> dict[str, Any]:
    try:
        made = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"not JSON ({error})") from error
    if not isinstance(made, dict):
        raise typer.BadParameter('expected a JSON object, such as {"anon": true}')
    return made


StorageOptions = Annotated[
    Any,
    typer.Option(
        "--storage-options",
        metavar="JSON",
        parser=_options,
        help='For the store of a URL, as fsspec takes them: {"anon": true}.',
    ),
]
