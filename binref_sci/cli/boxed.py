"""What ``run`` and ``serve`` do with an image, and the options that only an image has."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from binref_sci.cli import terminal
from binref_sci.cli.exits import (
    EXIT_CALLER,
    EXIT_COMPONENT,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
)
from binref_sci.containers.container import Container
from binref_sci.containers.engine import Engine, find_engine
from binref_sci.containers.layout import INPUT_PATH, OUTPUT_PATH, READY
from binref_sci.containers.listing import schema, stop
from binref_sci.containers.options import Options
from binref_sci.containers.serving import Served
from binref_sci.errors import (
    ContainerError,
    EngineError,
    ImageNotFoundError,
    PayloadError,
    Terminated,
)
from binref_sci.folders import local_folder
from binref_sci.naming import RESULTS_FILE

PREFIX = "image:"

_option = partial(typer.Option, show_default=False, rich_help_panel="For an image")

EngineName = Annotated[
    str | None,
    _option(
        "--engine",
        metavar="podman|docker",
        help="Container engine; default: the first of these that is installed.",
    ),
]
Volumes = Annotated[
    list[str],
    _option(
        "--volume",
        metavar="SOURCE:TARGET[:ro]",
        help="Further folder for the container; more than once for more.",
    ),
]
Environment = Annotated[
    list[str],
    _option(
        "--env",
        metavar="NAME=VALUE",
        help="Environment variable of the component; more than once for more.",
    ),
]
Network = Annotated[str | None, _option(metavar="NAME", help="host, or a network of the engine's.")]
Memory = Annotated[str | None, _option(metavar="SIZE", help="Most memory, such as 2g.")]
Cpus = Annotated[float | None, _option(metavar="NUMBER", help="Most processors, such as 1.5.")]


@dataclass(frozen=True)
class Box:
    """What the caller said of the container.

    Parameters
    ----------
    engine
        Name of the engine, or None.
    volumes, env, network, memory, cpus
        As `Options` has them; `env` as ``NAME=VALUE``.
    """

    engine: str | None
    volumes: Sequence[str]
    env: Sequence[str]
    network: str | None
    memory: str | None
    cpus: float | None

    def refuse(self, component: str) -> None:
        """Raise if anything is said: `component` is not an image."""
        said = [name for name, value in vars(self).items() if value]
        if said:
            option = {"volumes": "volume"}.get(said[0], said[0])
            raise PayloadError(
                f"--{option} is for containers, and {component!r} is a path; "
                f"{PREFIX}NAME says that an image is meant"
            )

    def find_engine(self) -> Engine:
        """Return the engine."""
        return engine_of(self.engine)

    def options(self, **more: Any) -> Options:
        """Return what the container is given."""
        environment = {}
        for text in self.env:
            name, equals, value = text.partition("=")
            if not equals:
                raise PayloadError(f"--env {text!r} must be NAME=VALUE")
            environment[name] = value
        try:
            return Options(
                volumes=self.volumes,
                environment=environment,
                network=self.network,
                memory=self.memory,
                cpus=self.cpus,
                **more,
            )
        except ValueError as error:
            raise PayloadError(str(error)) from error


def engine_of(name: str | None) -> Engine:
    """Return the engine of a name, or the first that is installed.

    Raises
    ------
    PayloadError
        If there is no engine of this name.
    EngineError
        If it is not installed.
    """
    try:
        return find_engine(name)
    except ValueError as error:
        raise PayloadError(str(error)) from error


def image_of(component: str) -> str | None:
    """Return the image that is meant, or None for a path.

    What exists is a path; what could only be one is, too. ``image:NAME`` is always an image.

    Examples
    --------
    >>> image_of("image:heat"), image_of("heat:1.0"), image_of("./heat"), image_of(".")
    ('heat', 'heat:1.0', None, None)
    """
    if component.startswith(PREFIX):
        return component.removeprefix(PREFIX)
    if component.startswith(("/", ".", "~")) or component.endswith((".py", "/")):
        return None
    return None if Path(component).exists() else component


def absolute(path: Path | None) -> Path | None:
    """Return a folder as a container has to be told it.

    Raises
    ------
    FormatError
        If it is a URL.
    """
    return None if path is None else Path(local_folder(path))


def found(box: Box, image: str, component: str) -> tuple[Engine, dict[str, Any]]:
    """Return the engine and the OpenAPI document of an image.

    Raises
    ------
    PayloadError
        If there is no image, and none was asked for by its prefix; says what was looked for.
    ImageNotFoundError, EngineError
        If there is no image, or no engine, and one was asked for.
    """
    try:
        engine = box.find_engine()
        return engine, schema(engine, image)
    except (EngineError, ImageNotFoundError) as error:
        if component.startswith(PREFIX) or box.engine is not None:
            raise
        raise PayloadError(
            f"component {component!r} does not exist: no such folder or file under "
            f"{os.fspath(Path.cwd())!r}; nor is there an image: {error}"
        ) from error


def run_image(
    engine: Engine,
    image: str,
    endpoint: str,
    payload: bytes,
    options: Options,
    *,
    output_format: str,
    compression: str | None,
    output_path: Path | None,
) -> None:
    """Call the component in an image once; its exit code is ours."""
    inside = [endpoint, "-", "--output-format", output_format]
    if compression is not None:
        inside += ["--compression", compression]
    if options.output_path is not None:
        inside += ["--output-path", OUTPUT_PATH]
    if options.input_path is not None:
        inside += ["--input-path", INPUT_PATH]
    sys.stdout.flush()
    with open(os.devnull, "wb") as nowhere:
        # With an output path the file is named as it is seen from here, not from inside.
        stdout = 1 if output_path is None else nowhere.fileno()
        container = Container(engine, image, inside, options, payload=payload, stdout=stdout, log=2)
    try:
        code = container.wait()
    finally:
        container.stop()
    if code == 0:
        if output_path is not None:
            typer.echo(output_path / RESULTS_FILE)
        return
    if code in (EXIT_COMPONENT, EXIT_CALLER, EXIT_INTERRUPTED):
        raise typer.Exit(code)  # it has said why
    killed = "; killed, perhaps for its memory" if code == 137 else ""
    raise ContainerError(f"the container of {image!r} ended with exit code {code}{killed}")


def serve_image(
    engine: Engine, image: str, options: Options, *, inside: Sequence[str], grace: int
) -> None:
    """Serve the component in an image until Ctrl-C, SIGTERM or ``binref-sci stop``."""
    served = Served(engine, image, options, arguments=[*inside, "--grace", str(grace)])
    container = served.container
    position, code = 0, None
    try:
        typer.echo(f"{READY}{image} on {served.url} ({container.name})", err=True)
        while code is None:
            code = container.wait(0.1)
            position = _relay(container, position)
    except (KeyboardInterrupt, Terminated):
        try:
            stop(engine, container.name, grace + 1)
        except EngineError as error:
            terminal.complain(str(error))
        container.stop()
        code = container.wait()
        _relay(container, position)
        if code not in (0, EXIT_TERMINATED):
            raise
    finally:
        container.stop()
    if code not in (0, EXIT_TERMINATED):
        raise ContainerError(f"the container of {image!r} ended with exit code {code}")


def _relay(container: Container, position: int) -> int:
    """Pass on what the server logs, but not under which address it is known inside."""
    new, position = container.log_from(position)
    lines = [line for line in new.splitlines(keepends=True) if not line.startswith(READY.encode())]
    sys.stderr.buffer.write(b"".join(lines))
    sys.stderr.flush()
    return position
