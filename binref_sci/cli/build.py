"""``binref-sci build``: the image of a component."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from binref_sci.cli import boxed, terminal
from binref_sci.containers.building import build


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("build")(build_command)


def build_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="Folder of the component."
        ),
    ],
    *,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Name of the image; default: the component's name, with its version and 'latest'.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            show_default=False,
            help="Base image; default: base_image in tesseract_config.yaml.",
        ),
    ] = None,
    engine: boxed.EngineName = None,
) -> None:
    """Build a container image of a component.

    What goes into it is said in tesseract_config.yaml beside the component: name, version,
    base image, Debian packages, further files. Python packages are listed in
    tesseract_requirements.txt; pip gathers them on this machine.
    """
    console = terminal.console()
    built = build(
        folder,
        boxed.engine_of(engine),
        tag=tag,
        base=base,
        tell=lambda line: console.print(line, style="dim", markup=False, soft_wrap=True),
    )
    for name in built.names:
        typer.echo(name)
