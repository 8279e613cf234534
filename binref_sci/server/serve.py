"""Start and stop: sockets, signals, workers, uvicorn."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from binref_sci.errors import FormatError, PayloadError
from binref_sci.server import negotiation
from binref_sci.server.app import create_app
from binref_sci.server.channel import Facts, Settings
from binref_sci.server.negotiation import Encoding
from binref_sci.server.pool import ComponentLoadError, Pool
from binref_sci.wire import OUTPUT_FORMATS


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to serve.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    output_path
        Where run directories are made and kept; None: in a scratch folder, each
        removed when its response has been sent, and ``json+binref`` is refused.
    input_path
        Where references in requests resolve; None refuses them.
    output_format, compression
        What a client gets that does not say.
    workers
        How many calls can run at once, each in a process of its own.
    grace
        Seconds that calls still running may take when the server is stopped.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    output_path: Path | None = None
    input_path: Path | None = None
    output_format: str = "json+base64"
    compression: str | None = None
    workers: int = 1
    grace: int = 30


def serve(target: str, options: Options, *, ready: Callable[[Facts, str], None]) -> None:
    """Serve a component until told to stop by SIGTERM or SIGINT.

    Parameters
    ----------
    target
        The component: its folder or file.
    options
        How.
    ready
        Called once with what is served and its URL, when requests are answered.

    Raises
    ------
    PayloadError
        If the address cannot be listened on, the output path not be made, or there is no
        such component.
    FormatError
        If the default format cannot be given.
    ComponentLoadError
        If the component cannot be loaded.
    KeyboardInterrupt
        If stopped by a signal before it was loaded.
    """
    formats = negotiation.offered_formats(has_output_path=options.output_path is not None)
    if options.output_format not in formats:
        raise FormatError(complaint(options.output_format))
    with ExitStack() as stack:
        listener = stack.enter_context(_bind(options.host, options.port))
        if options.output_path is None:
            output_path = Path(tempfile.mkdtemp(prefix="binref-sci-"))
            stack.callback(shutil.rmtree, output_path, ignore_errors=True)
        else:
            output_path = options.output_path
            try:
                output_path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise PayloadError(
                    f"cannot make the output path {str(output_path)!r}: {error.strerror or error}"
                ) from error
        settings = Settings(
            target=target,
            output_path=str(output_path.resolve()),
            scratch=options.output_path is None,
            input_path=None if options.input_path is None else str(options.input_path.resolve()),
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(_restore, number, signal.getsignal(number))
        try:
            asyncio.run(_serve(settings, options, listener, ready))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except ComponentLoadError as error:
            if error.callers_mistake:
                raise PayloadError(str(error)) from None
            raise


async def _serve(
    settings: Settings,
    options: Options,
    listener: socket.socket,
    ready: Callable[[Facts, str], None],
) -> None:
    this = asyncio.current_task()
    loop = asyncio.get_running_loop()
    serving = False

    def interrupt(*_: object) -> None:
        # Uvicorn has handlers of its own, and raises the signal again when it has stopped.
        if this is not None and not serving:
            loop.call_soon_threadsafe(this.cancel)

    with suppress(ValueError):  # not in the main thread: no signals there
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)
    pool = Pool(settings, options.workers)
    try:
        facts = await pool.open()

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            yield
            await pool.close()

        app = create_app(
            facts,
            pool,
            output_path=None if settings.scratch else Path(settings.output_path),
            default=Encoding(options.output_format, options.compression),
            lifespan=lifespan,
        )
        config = uvicorn.Config(
            app,
            log_config=None,  # this package's log, not a second one
            access_log=False,
            server_header=False,
            # Calls are long and clients keep their connections: as long as tesseract-core.
            timeout_keep_alive=60,
            timeout_graceful_shutdown=options.grace,
        )
        listener.listen(config.backlog)

        def started() -> None:
            nonlocal serving
            serving = True
            ready(facts, _url(listener))

        await _Server(config, started).serve([listener])
    finally:
        await pool.close()


class _Server(uvicorn.Server):
    """Says that it is ready only when uvicorn's own signal handlers are there.

    Said before, a signal that follows at once would reach nobody.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._started()


def _restore(number: int, handler: Any) -> None:
    with suppress(ValueError, TypeError):  # not in the main thread; not set from Python
        signal.signal(number, handler)


def _bind(host: str, port: int) -> socket.socket:
    """Take the address, without listening yet: nobody connects before the component is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise PayloadError(f"cannot listen on host {host!r}, port {port}: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise PayloadError(
            f"cannot listen on host {host!r}, port {port}: {error.strerror or error}; "
            "choose another --port (0 takes a free one)"
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def complaint(output_format: str) -> str:
    """Return why a default format cannot be given without an output path, or at all."""
    if output_format in OUTPUT_FORMATS:
        return (
            f"output format {output_format!r} answers with references to files: "
            "name a folder for them with --output-path"
        )
    return f"unknown output format {output_format!r}; there are {', '.join(OUTPUT_FORMATS)}"
