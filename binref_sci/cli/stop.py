"""``binref-sci stop``: end containers."""

from __future__ import annotations

from typing import Annotated

import typer

from binref_sci.cli import boxed
from binref_sci.containers.listing import containers, stop
from binref_sci.errors import PayloadError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("stop")(stop_command)


def stop_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONTAINER...", show_default=False, help="As binref-sci ps names them."
        ),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All containers that run a component.")
    ] = False,
    grace: Annotated[int, typer.Option(min=0, help="Seconds that running calls may take.")] = 30,
    engine: boxed.EngineName = None,
) -> None:
    """End and remove containers that run a component."""
    if bool(names) == everything:
        raise PayloadError("name the containers to stop, or say --all")
    found = boxed.engine_of(engine)
    running = [each.name for each in containers(found)]
    for name in names or ():
        if name not in running:
            raise PayloadError(
                f"no container {name!r} runs a component; "
                f"there {'is none' if not running else 'are ' + ', '.join(running)}"
            )
    for name in names or running:
        stop(found, name, grace)
        typer.echo(name)
