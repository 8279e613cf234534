"""``binref-sci images``: the images that hold a component."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from dask.utils import format_bytes
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from binref_sci.cli import boxed
from binref_sci.containers.listing import images


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("images")(images_command)


def images_command(
    *,
    engine: boxed.EngineName = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the images that hold a component."""
    found = images(boxed.engine_of(engine))
    if json:
        typer.echo(orjson.dumps([asdict(each) for each in found]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("image", "component", "endpoints", "size", "built"):
        table.add_column(heading, overflow="fold")
    for each in found:
        table.add_row(
            escape("\n".join(each.names) or each.identifier[:12]),
            escape(f"{each.component} {each.version}"),
            escape(" ".join(each.endpoints)),
            format_bytes(each.size),
            escape(each.created[:16].replace("T", " ")),
        )
    Console(highlight=False, emoji=False).print(table)
