"""``binref-sci ps``: the containers that run a component."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from binref_sci.cli import boxed
from binref_sci.containers.listing import containers


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("ps")(ps_command)


def ps_command(
    *,
    engine: boxed.EngineName = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the containers that run a component, whoever started them."""
    found = containers(boxed.engine_of(engine))
    if json:
        typer.echo(orjson.dumps([asdict(each) for each in found]))
        return
    headings = ("container", "component", "state", "address", "output path", "since")
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for each in found:
        table.add_row(
            escape(each.name),
            escape(f"{each.component} {each.version}"),
            escape(each.state),
            escape(each.url or ""),
            escape(each.output_path or ""),
            escape(each.created[:16].replace("T", " ")),
        )
    Console(highlight=False, emoji=False).print(table)
