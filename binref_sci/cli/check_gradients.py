"""``binref-sci check-gradients``: a component's derivatives against finite differences."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from binref_sci.cli import terminal
from binref_sci.cli.run import read_payload
from binref_sci.errors import ComponentError
from binref_sci.runtime.checking import DIRECTIONS, Comparison, check_gradients
from binref_sci.runtime.component import Component


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check-gradients")(check_gradients_command)


def _positive(value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not positive and finite")
    return value


def check_gradients_command(
    component: Annotated[
        str,
        typer.Argument(
            metavar="COMPONENT", help="Folder of the component, or its tesseract_api.py."
        ),
    ],
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD",
            help="As for run: JSON with inputs, or @FILE that holds it, or - for standard input.",
        ),
    ],
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="PATH", help="Check this input only; may be repeated."),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="PATH", help="Check this output only; may be repeated."),
    ] = None,
    endpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint", metavar="NAME", help="Check this endpoint only; may be repeated."
        ),
    ] = None,
    directions: Annotated[
        int, typer.Option(min=1, help="Random directions for each input.")
    ] = DIRECTIONS,
    eps: Annotated[
        float | None,
        typer.Option(
            help="Length of a step; default: by the size and dtype of the inputs.",
            callback=_positive,
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            help="Relative error allowed; default: 1e-5 for float64, more for others.",
            callback=_positive,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    input_path: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder that references in the payload resolve in."
        ),
    ] = None,
) -> None:
    """Compare a component's gradient endpoints with central differences.

    Exit code 0: all agree; 1: some do not, or the component fails; 2: a mistake in the call.
    """
    with terminal.reserved_stdout() as stdout, tempfile.TemporaryDirectory() as folder:
        found = list(
            check_gradients(
                Component.load(component),
                read_payload(payload),
                folder=Path(folder),
                inputs=inputs,
                outputs=outputs,
                endpoints=endpoints,
                directions=directions,
                eps=eps,
                rtol=rtol,
                seed=seed,
                input_path=input_path,
            )
        )
        with open(stdout, "w", closefd=False) as file:
            Console(file=file, highlight=False, emoji=False).print(_table(found))
    wrong = [each for each in found if not each.agrees]
    for each in wrong:
        if each.reason:
            terminal.complain(f"{each.endpoint} of {each.output} by {each.path}: {each.reason}")
    if wrong:
        raise ComponentError(
            f"{len(wrong)} of {sum(each.compared for each in found)} gradients do not agree with finite differences"
        )


def _verdict(one: Comparison) -> str:
    if not one.compared:
        return f"not compared ({one.reason})"
    return "[green]agrees[/]" if one.agrees else "[bold red]DIFFERS[/]"


def _table(found: list[Comparison]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("endpoint", no_wrap=True)  # in the log of a CI, which has 80 columns, too
    for heading in ("output", "input"):
        table.add_column(heading, overflow="fold")
    for heading in ("error", "allowed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for each in found:
        table.add_row(
            each.endpoint,
            escape(each.output),
            escape(each.path),
            f"{each.error:.1e}" if each.compared else "",
            f"{each.tolerance:.1e}" if each.compared else "",
            _verdict(each),
        )
    return table
