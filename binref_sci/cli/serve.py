"""``binref-sci serve``: a component over HTTP."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from binref_sci.cli import boxed
from binref_sci.cli.boxed import Box
from binref_sci.containers.layout import READY
from binref_sci.errors import FormatError
from binref_sci.server.channel import Facts
from binref_sci.server.serve import Options, complaint, serve

Compression = Literal["none", "lz4"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("serve")(serve_command)


def serve_command(
    component: Annotated[
        str,
        typer.Argument(
            metavar="COMPONENT",
            help="Folder of the component, its tesseract_api.py, or the name of an image.",
        ),
    ],
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    output_path: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for run directories (run_<id>). Without it nothing is kept, and "
            "json+binref is refused.",
        ),
    ] = None,
    input_path: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder that references in requests resolve in."
        ),
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="What a client gets that does not say: json, json+base64 or json+binref.",
        ),
    ] = "json+base64",
    compression: Annotated[
        Compression, typer.Option(help="Compression for a client that does not say.")
    ] = "none",
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that compute, one call each; others wait.")
    ] = 1,
    grace: Annotated[
        int,
        typer.Option(min=0, help="Seconds that running calls may take when the server is stopped."),
    ] = 30,
    engine: boxed.EngineName = None,
    volume: boxed.Volumes = [],  # noqa: B006  # typer's way to say: any number
    env: boxed.Environment = [],  # noqa: B006  # likewise
    network: boxed.Network = None,
    memory: boxed.Memory = None,
    cpus: boxed.Cpus = None,
) -> None:
    """Serve a component over HTTP until Ctrl-C or SIGTERM.

    An existing path is a path; any other name is that of an image, which is served by a
    container. image:NAME always is one.

    POST /apply and its like, GET /health, /openapi.json and /docs. Solvers run in
    processes of their own: a call that computes, crashes or hangs disturbs no other.
    """
    box = Box(engine, volume, env, network, memory, cpus)
    image = boxed.image_of(component)
    if image is not None:
        if output_format == "json+binref" and output_path is None:
            raise FormatError(complaint(output_format))
        found, _ = boxed.found(box, image, component)
        boxed.serve_image(
            found,
            image,
            box.options(
                output_path=boxed.absolute(output_path),
                input_path=boxed.absolute(input_path),
                port=port or None,
                host=host,
            ),
            inside=[
                *("--workers", str(workers), "--output-format", output_format),
                *("--compression", compression),
            ],
            grace=grace,
        )
        return
    box.refuse(component)
    _log_to_stderr()
    options = Options(
        host=host,
        port=port,
        output_path=boxed.absolute(output_path),
        input_path=input_path,
        output_format=output_format,
        compression=None if compression == "none" else compression,
        workers=workers,
        grace=grace,
    )
    serve(component, options, ready=_announce)


def _announce(facts: Facts, url: str) -> None:
    typer.echo(f"{READY}{facts.name} {facts.version} on {url}", err=True)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("binref_sci").setLevel(logging.INFO)
