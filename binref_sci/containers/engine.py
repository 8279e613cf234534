"""The container engine, docker or podman, driven through its command line.

Both answer the commands used here alike. Arguments go over as a list and meet no shell.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binref_sci.errors import EngineError, ImageNotFoundError, PayloadError

ENGINES: Final = ("podman", "docker")
"""Looked for in this order: podman needs no daemon."""

COMMAND_SECONDS: Final = 60.0
"""Time for a command that only asks."""

_NO_DAEMON: Final = ("cannot connect to", "is the docker daemon running", "unable to connect to")
_NO_IMAGE: Final = (
    "no such image",
    "image not known",
    "unable to find image",
    "not found: manifest",
)


@dataclass(frozen=True)
class Engine:
    """One engine.

    Parameters
    ----------
    name
        ``"podman"`` or ``"docker"``.
    program
        Path of its program.
    """

    name: str
    program: Path

    @property
    def rootless(self) -> bool:
        """Whether its containers live in a user namespace of the caller's own."""
        return self.name == "podman" and os.geteuid() != 0

    def command(self, *arguments: str) -> list[str]:
        """Return a whole command line."""
        return [str(self.program), *arguments]

    def run(
        self,
        *arguments: str,
        timeout: float | None = COMMAND_SECONDS,
        data: bytes | None = None,
    ) -> str:
        """Run a command; return what it printed.

        Parameters
        ----------
        arguments
            After the name of the engine.
        timeout
            Seconds it may take.
        data
            For its standard input.

        Raises
        ------
        ImageNotFoundError
            If it asks for an image that is not there.
        EngineError
            If it fails, or takes longer.
        """
        try:
            done = subprocess.run(
                self.command(*arguments),
                input=data,
                stdin=subprocess.DEVNULL if data is None else None,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EngineError(
                f"{self.name} {arguments[0]} did not answer within {timeout:g} seconds"
            ) from None
        except OSError as error:
            raise EngineError(f"cannot run {str(self.program)!r}: {error.strerror}") from error
        if done.returncode:
            told = done.stderr.decode(errors="replace").strip()
            raise self.failure(f"{self.name} {arguments[0]}", told, done.returncode)
        return done.stdout.decode(errors="replace")

    def failure(self, what: str, told: str, code: int) -> EngineError | ImageNotFoundError:
        """Return the error that what an engine said on its end stands for."""
        known = told.lower()
        if any(sign in known for sign in _NO_DAEMON):
            return EngineError(
                f"{self.name} is installed, but its service does not answer ({last_line(told)}); "
                "start it, or choose another engine"
            )
        if any(sign in known for sign in _NO_IMAGE):
            return ImageNotFoundError(f"{what}: {last_line(told)}")
        return EngineError(f"{what} failed with exit code {code}: {told or 'it said nothing'}")

    def inspect(self, kind: str, *names: str) -> list[dict[str, Any]]:
        """Return what the engine knows of images or containers.

        Parameters
        ----------
        kind
            ``"image"`` or ``"container"``.
        names
            Which; none for an empty list.

        Raises
        ------
        ImageNotFoundError
            If there is no such image.
        EngineError
            If the engine fails.
        """
        if not names:
            return []
        found = json.loads(self.run(kind, "inspect", *names))
        return list(found)


def checked_image(name: str) -> str:
    """Return the name of an image, unless it cannot be one: the engine might take it for an option.

    Raises
    ------
    PayloadError
        If it is empty, or begins with a dash.
    TypeError
        If it is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"image must be the name of an image, got {name!r}")
    if not name or name.startswith("-"):
        raise PayloadError(f"image {name!r} is no name that an image can have")
    return name


def find_engine(name: str | None = None) -> Engine:
    """Return the engine to use.

    Parameters
    ----------
    name
        ``"podman"``, ``"docker"``, or None for the first that is installed.

    Raises
    ------
    EngineError
        If it is not installed.
    ValueError
        If there is no engine of this name.
    """
    if name is not None and name not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {name!r}")
    for each in ENGINES if name is None else (name,):
        program = shutil.which(each)
        if program is not None:
            return Engine(each, Path(program))
    wanted = " or ".join(ENGINES) if name is None else name
    raise EngineError(
        f"containers need {wanted}, which is not on PATH; install one (podman needs no daemon and "
        "no root), or call the component without a container"
    )


def last_line(told: str) -> str:
    """Return what an engine said last, without its prefix."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else "it said nothing"


def mount(source: Path, target: str, *, read_only: bool = False) -> Sequence[str]:
    """Return the arguments that mount a folder; its name may hold commas and colons.

    Examples
    --------
    >>> mount(Path("/data/a,b"), "/input", read_only=True)
    ['--mount', 'type=bind,"source=/data/a,b",target=/input,readonly']
    """
    fields = ["type=bind", f"source={source}", f"target={target}"]
    if read_only:
        fields.append("readonly")
    quoted = (
        f'"{field.replace(chr(34), 2 * chr(34))}"' if set(field) & set('",') else field
        for field in fields
    )
    return ["--mount", ",".join(quoted)]
