"""``binref-sci check``: whether what a run has written holds together."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.markup import escape

from binref_sci.cli.source import StorageOptions
from binref_sci.engine.checks import Report, check

EXIT_PROBLEMS = 1


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check")(check_command)


def check_command(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Run directory, output path (all its runs), results.json or journal; or its URL.",
        ),
    ],
    *,
    storage_options: StorageOptions = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Check that every reference lies in its buffer and every journal agrees with its files.

    Exit code 0: all is well; 1: there are problems; 2: there is nothing to check. Notes,
    such as an interrupted run or a file that nothing refers to, are no problems. No data is read.
    """
    report = check(directory, storage_options)
    if json:
        typer.echo(orjson.dumps(report.to_json()))
    else:
        tell(report, Console(highlight=False, emoji=False))
    if report.problems:
        raise typer.Exit(EXIT_PROBLEMS)


def tell(report: Report, console: Console) -> None:
    """Print a report for a person."""
    for problem in report.problems:
        console.print(f"[bold red]problem:[/] {escape(problem)}", soft_wrap=True)
    for note in report.notes:
        console.print(f"[yellow]note:[/] {escape(note)}", soft_wrap=True)
    verdict = (
        f"[bold red]{_many(len(report.problems), 'problem')}[/]"
        if report.problems
        else "[green]no problems[/]"
    )
    looked_at = ", ".join(
        _many(count, what)
        for count, what in (
            (report.runs, "run"),
            (report.journals, "journal"),
            (report.references, "reference"),
            (report.buffers, "buffer"),
        )
    )
    console.print(f"{verdict} in {escape(report.path)} ({looked_at})", soft_wrap=True)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
