"""A container that serves a component, from its start to the first sign of health."""

from __future__ import annotations

import http.client
import re
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from binref_sci.containers.container import Container
from binref_sci.containers.engine import Engine
from binref_sci.containers.layout import LABEL_NAME, READY
from binref_sci.containers.options import Options
from binref_sci.errors import BinrefError, ContainerError, EngineError, ImageNotFoundError

START_SECONDS: Final = 60.0
"""Longest wait for a component to be ready, unless told otherwise."""

LOG_LINES: Final = 40
"""Of the log in an error."""

_STEP_SECONDS: Final = 0.01
_HEALTH_SECONDS: Final = 5.0
_TAKEN: Final = ("address already in use", "already allocated", "ports are not available")
_ENGINE_CODES: Final = (125,)
_NO_COMMAND_CODES: Final = (126, 127)
_KILLED_CODE: Final = 137


class Served:
    """A component that is served by a container.

    Parameters
    ----------
    engine
        Who runs it.
    image
        Name of the image.
    options
        What the container is given.
    arguments
        Further ones of ``serve``.
    scratch
        See `Container`.
    seconds
        Longest wait until it is healthy.

    Raises
    ------
    ImageNotFoundError
        If there is no such image.
    ContainerError
        If the port is taken, the image holds no component, the component does not load, or it
        is not healthy in time. The container is removed, its log is told.
    EngineError
        If the engine fails.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        options: Options,
        *,
        arguments: Sequence[str] = (),
        scratch: Path | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        inside = [*arguments]
        if options.shares_network:
            inside += ["--host", options.host, "--port", str(options.port or 0)]
        with ExitStack() as stack:
            if options.port is None and not options.shares_network:
                options = replace(options, port=_free_port(engine, options.host, stack))
            self._options = options
            self.container = Container(
                engine,
                image,
                ["serve", *inside],
                options,
                extra=options.publishing(),
                scratch=scratch,
            )
            try:
                self.url = self._wait(time.monotonic() + seconds, seconds)
            except BaseException:
                self.container.stop()
                if scratch is not None:
                    self.container.scratch_release()
                raise

    def _wait(self, deadline: float, seconds: float) -> str:
        url = None
        while time.monotonic() < deadline:
            if (code := self.container.wait(_STEP_SECONDS)) is not None:
                raise self._explained(code)
            if url is None:
                url = self._address()
            if url is not None and _healthy(url):
                return url
        raise ContainerError(
            f"{self} was not healthy within {seconds:g} seconds{self._hint()}{self.told()}"
        )

    def _address(self) -> str | None:
        """Return where it answers, once it says that it does."""
        ready = [line for line in self.container.log().splitlines() if line.startswith(READY)]
        if not ready:
            return None
        shared = self._options.shares_network
        port = ready[-1].rpartition(":")[2] if shared else self._options.port
        return f"http://{reachable(self._options.host)}:{port}"

    def _explained(self, code: int) -> BinrefError:
        """Return the error that the end of a container before it was ready stands for."""
        log = self.container.log().strip()
        known = log.lower()
        if any(sign in known for sign in _TAKEN):
            return ContainerError(
                f"port {self._options.port} is taken on this machine, so {self} cannot be served "
                "there; choose another port, or none for a free one"
            )
        if code in _ENGINE_CODES:
            failure = self.container.engine.failure(f"image {self.container.image!r}", log, code)
            if isinstance(failure, ImageNotFoundError):
                return missing(self.container.engine, self.container.image)
            return failure
        memory = self._options.memory
        tight = memory is not None and code in (*_NO_COMMAND_CODES, _KILLED_CODE)
        if code in _NO_COMMAND_CODES and not tight:
            return ContainerError(f"{self} holds no component{self._hint()}{self.told()}")
        return ContainerError(
            f"{self} ended with exit code {code} before it was ready"
            f"{f'; is memory={memory!r} enough?' if tight else ''}{self._hint()}{self.told()}"
        )

    def _hint(self) -> str:
        """Say so if the image is none of ours."""
        with suppress(EngineError, ImageNotFoundError):
            (found,) = self.container.engine.inspect("image", self.container.image)
            if LABEL_NAME not in ((found.get("Config") or {}).get("Labels") or {}):
                return "; it was not made by binref-sci build, and may hold no component at all"
        return ""

    def lives(self, seconds: float) -> bool:
        """Tell whether it answers, or else has not ended within some seconds."""
        return _healthy(self.url) or self.container.wait(seconds) is None

    def told(self) -> str:
        """Return the end of its log, for an error."""
        lines = self.container.log().strip().splitlines()[-LOG_LINES:]
        return "\nIts log ends with:\n" + "\n".join(lines) if lines else "\nIts log is empty"

    def __str__(self) -> str:
        return f"image {self.container.image!r}"


def reachable(host: str) -> str:
    """Return how this machine reaches a server that listens on `host`."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    return f"[{'::1' if host == '::' else host}]" if ":" in host else host


def _free_port(engine: Engine, host: str, stack: ExitStack) -> int:
    """Return a port that nobody has; podman alone can take it until `stack` is left.

    Chosen here, so that the engine need not be asked which one it took, which costs as much
    as a fifth of a start.

    Raises
    ------
    ContainerError
        If this machine has no such address.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        holder = socket.socket(family, kind, protocol)
        stack.callback(holder.close)
        # Who says the same, as podman does, may bind to it too, as long as it does not listen.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(address)
    except (OSError, UnicodeError) as error:
        raise ContainerError(f"cannot listen on host {host!r}: {error}") from error
    port = int(holder.getsockname()[1])
    if engine.name != "podman" or sys.platform != "linux":
        holder.close()  # docker's daemon may not say it, and other systems do not know it
    return port


def missing(engine: Engine, image: str) -> ImageNotFoundError:
    """Return the error for an image that is not there."""
    return ImageNotFoundError(
        f"{engine.name} has no image {image!r}; binref-sci images lists those that hold a "
        f"component, binref-sci build makes one, {engine.name} pull fetches one"
    )


def _healthy(url: str) -> bool:
    host = re.sub(r"^http://", "", url)
    connection = http.client.HTTPConnection(host, timeout=_HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
