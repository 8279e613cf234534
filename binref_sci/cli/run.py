"""``binref-sci run``: one call of a component, in this process or in a container."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binref_sci.cli import boxed, terminal
from binref_sci.cli.boxed import Box
from binref_sci.cli.describe import describe
from binref_sci.errors import ComponentError, FormatError, PayloadError
from binref_sci.naming import RESULTS_FILE
from binref_sci.runtime import endpoint as endpoints
from binref_sci.runtime.component import Component
from binref_sci.runtime.run import RunDirectory


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    # Its own --help, which looks at the component first.
    app.command("run", add_help_option=False)(run_command)


def run_command(
    context: typer.Context,
    component: Annotated[
        str | None,
        typer.Argument(
            metavar="COMPONENT",
            show_default=False,
            help="Folder of the component, its tesseract_api.py, or the name of an image.",
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Argument(metavar="ENDPOINT", show_default=False, help="What to call, such as apply."),
    ] = None,
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            show_default=False,
            help="The request: JSON, or @FILE that holds it, or - to read it from standard input.",
        ),
    ] = None,
    *,
    output_path: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Run directory: buffers and results.json go there. Without it the response "
            "goes to standard output.",
        ),
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="json, json+base64, or json+binref (references to the buffers written; needs "
            "--output-path).",
        ),
    ] = "json+base64",
    input_path: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder that references in the payload resolve in."
        ),
    ] = None,
    compression: Annotated[
        str | None, typer.Option(metavar="lz4", help="Compress arrays in the response.")
    ] = None,
    show_help: Annotated[
        bool,
        typer.Option("--help", "-h", help="Show this message; after COMPONENT, what it takes."),
    ] = False,
    engine: boxed.EngineName = None,
    volume: boxed.Volumes = [],  # noqa: B006  # typer's way to say: any number
    env: boxed.Environment = [],  # noqa: B006  # likewise
    network: boxed.Network = None,
    memory: boxed.Memory = None,
    cpus: boxed.Cpus = None,
) -> None:
    """Call a component once, in this process or in a container.

    An existing path is a path; any other name is that of an image. image:NAME always is.

    Standard output holds the result and nothing else: the response, or with
    --output-path the name of the file that holds it. Progress, warnings and what the
    component prints go to standard error.
    """
    if show_help and component is None:
        typer.echo(context.get_help())
        return
    if component is None:
        raise PayloadError("COMPONENT is missing; binref-sci run --help tells more")
    box = Box(engine, volume, env, network, memory, cpus)
    image = boxed.image_of(component)
    if image is not None:
        found, openapi = boxed.found(box, image, component)
        if show_help:
            describe(openapi, component, Console(highlight=False, emoji=False))
            return
        endpoint, payload = _complete(component, endpoint, payload, output_format, output_path)
        boxed.run_image(
            found,
            image,
            endpoint,
            read_payload(payload),
            box.options(
                output_path=boxed.absolute(output_path), input_path=boxed.absolute(input_path)
            ),
            output_format=output_format,
            compression=compression,
            output_path=output_path,
        )
        return
    box.refuse(component)
    with terminal.plain_warnings(), terminal.reserved_stdout() as stdout:
        loaded = Component.load(component)
        if show_help:
            with open(stdout, "w", closefd=False) as file:
                to = Console(file=file, highlight=False, emoji=False)
                describe(loaded.openapi(), component, to)
            return
        endpoint, payload = _complete(component, endpoint, payload, output_format, output_path)
        try:
            with _run_directory(output_path) as run:
                response = endpoints.call(
                    loaded,
                    endpoint,
                    read_payload(payload),
                    run=run,
                    output_format=output_format,
                    compression=compression,
                    input_path=input_path,
                )
                if output_path is None:
                    terminal.write_pieces(stdout, response.pieces)
                else:
                    if output_format != "json+binref":  # whose results.json the call has left
                        run.write_results(response.pieces)
                    results = output_path / RESULTS_FILE
                    terminal.write_pieces(stdout, [f"{results}\n".encode()])
        except ComponentError as error:
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            raise


def _complete(
    component: str,
    endpoint: str | None,
    payload: str | None,
    output_format: str,
    output_path: Path | None,
) -> tuple[str, str]:
    """Return endpoint and payload of a call that is complete."""
    if endpoint is None or payload is None:
        missing = "ENDPOINT" if endpoint is None else "PAYLOAD"
        raise PayloadError(
            f"{missing} is missing; binref-sci run {component} --help tells what there is"
        )
    if output_format == "json+binref" and output_path is None:
        raise FormatError(
            "output format 'json+binref' answers with references to files: "
            "name a folder for them with --output-path"
        )
    return endpoint, payload


@contextmanager
def _run_directory(output_path: Path | None) -> Iterator[RunDirectory]:
    if output_path is None:
        with tempfile.TemporaryDirectory(prefix="binref-sci-") as scratch:
            yield RunDirectory(scratch)
        return
    try:
        run = RunDirectory(output_path)
    except OSError as error:
        raise PayloadError(
            f"cannot make the run directory {str(output_path)!r}: {error.strerror or error}"
        ) from error
    yield run


def read_payload(payload: str) -> bytes:
    """Return the bytes of a payload given inline, as a file or on standard input."""
    if payload == "-":
        return sys.stdin.buffer.read()
    if not payload.startswith("@"):
        return payload.encode(errors="surrogateescape")
    try:
        return Path(payload[1:]).read_bytes()
    except OSError as error:
        raise PayloadError(
            f"cannot read the payload from {payload[1:]!r}: {error.strerror or error}"
        ) from error
