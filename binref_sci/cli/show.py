"""``binref-sci show``: what a run has written."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from dask.utils import format_bytes
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from binref_sci.cli.source import StorageOptions
from binref_sci.engine.inspect import (
    RunFacts,
    StreamFacts,
    VariableFacts,
    inspect,
    older_text,
    times_text,
)

_WIDE = 96  # columns of a terminal that has room for chunks and buffers
_COLOURS = {"complete": "green", "writing": "cyan", "interrupted": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("show")(show_command)


def show_command(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Run directory, output path (its newest run), results.json or journal; or its URL.",
        ),
    ],
    *,
    storage_options: StorageOptions = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show what a run has written: variables, shapes, bytes, times, and whether it is complete.

    No data is read, however large it is.
    """
    facts = inspect(directory, storage_options)
    if json:
        typer.echo(orjson.dumps(facts.to_json(), default=str, option=orjson.OPT_SERIALIZE_NUMPY))
        return
    show(facts, Console(highlight=False, emoji=False))


def show(facts: RunFacts, console: Console) -> None:
    """Print facts for a person."""
    colour = _COLOURS[facts.state]
    console.print(
        f"[bold]{escape(facts.path)}[/]  [{colour}]{facts.state}[/]  {format_bytes(facts.nbytes)}",
        soft_wrap=True,
    )
    called = [f"{key} {facts.run[key]}" for key in ("component", "version", "endpoint", "run_id")
              if key in facts.run]  # fmt: skip
    if called:
        console.print(escape("  ".join(called)), soft_wrap=True)
    if "error" in facts.run:
        console.print(f"[red]failed:[/] {escape(str(facts.run['error']))}", soft_wrap=True)
    if not facts.variables:
        console.print("no variables yet" if facts.state == "writing" else "no variables")
    else:
        console.print(_table(facts.variables, wide=console.width >= _WIDE))
    for stream in facts.streams:
        if stream.state != "complete" or stream.total not in (None, stream.count):
            console.print(_progress(stream), soft_wrap=True)
    for key, value in facts.attrs.items():
        console.print(f"{escape(key)}: {escape(str(value))}", soft_wrap=True)
    if facts.older:
        console.print(f"older runs: {escape(older_text(facts.older))}", soft_wrap=True)


def _table(variables: tuple[VariableFacts, ...], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("variable", "shape", "dtype"):
        table.add_column(heading, overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for heading in ("units", "first axis", "chunks", "buffers")[: 4 if wide else 2]:
        table.add_column(heading, overflow="fold")
    for one in variables:
        axes = ", ".join(
            f"{dim}: {length}" for dim, length in zip(one.dims, one.shape, strict=True)
        )
        cells = (
            f"[cyan]{escape(one.name)}[/]",
            escape(f"({axes})") if one.dims else "scalar",
            one.dtype,
            format_bytes(one.nbytes),
            escape(one.units or ""),
            escape("" if one.times is None else times_text(one.times)),
            escape(" x ".join(map(str, one.chunks))),
            _buffers(one),
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def _buffers(one: VariableFacts) -> str:
    if not one.buffers:
        return "in the response"
    parts = [str(one.buffers)]
    parts += [one.compression] if one.compression else []
    parts += [f"{one.blocks} blocks"] if one.blocks else []
    return ", ".join(parts)


def _progress(stream: StreamFacts) -> str:
    of = "" if stream.total is None else f" of {stream.total}"
    return f"{escape(stream.name)}: {stream.state}, {stream.count}{of} snapshots"
