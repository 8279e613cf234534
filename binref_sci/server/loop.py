"""The event loop of a server: workers, uvicorn, the end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvicorn
import uvicorn.lifespan.on
import uvicorn.protocols.http.auto  # these two now, and not when the component is loaded
from fastapi import FastAPI

from binref_sci.errors import PayloadError, Terminated
from binref_sci.server.app import create_app
from binref_sci.server.channel import Facts, Settings
from binref_sci.server.launch import Launched
from binref_sci.server.negotiation import Encoding
from binref_sci.server.pool import Pool
from binref_sci.server.process import ComponentLoadError

Ready = Callable[[Facts, str], None]


def run(
    settings: Settings,
    listener: socket.socket,
    first: Launched,
    ready: Ready,
    *,
    workers: int,
    grace: int,
    default: Encoding,
) -> None:
    """Answer requests until SIGTERM or SIGINT.

    Parameters
    ----------
    settings
        What workers are started with.
    listener
        Bound, not listening yet.
    first
        The first worker.
    ready
        Called once with what is served and its URL, when requests are answered.
    workers, grace, default
        As `binref_sci.server.serve.Options` has them.

    Raises
    ------
    PayloadError
        If there is no such component.
    ComponentLoadError
        If the component cannot be loaded.
    KeyboardInterrupt, Terminated
        If stopped by SIGINT or SIGTERM before it was loaded.
    """
    stopped_by: list[int] = []
    pool = Pool(settings, workers, first)
    try:
        asyncio.run(_serve(settings, listener, pool, ready, grace, default, stopped_by))
    except asyncio.CancelledError:
        raise (Terminated() if signal.SIGTERM in stopped_by else KeyboardInterrupt) from None
    except ComponentLoadError as error:
        if error.callers_mistake:
            raise PayloadError(str(error)) from None
        raise


async def _serve(
    settings: Settings,
    listener: socket.socket,
    pool: Pool,
    ready: Ready,
    grace: int,
    default: Encoding,
    stopped_by: list[int],
) -> None:
    this = asyncio.current_task()
    loop = asyncio.get_running_loop()
    serving = False

    def interrupt(number: int, _: object) -> None:
        # Uvicorn has handlers of its own, and raises the signal again when it has stopped.
        if this is not None and not serving:
            stopped_by.append(number)
            loop.call_soon_threadsafe(this.cancel)

    with suppress(ValueError):  # not in the main thread: no signals there
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)
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
            default=default,
            lifespan=lifespan,
        )
        config = uvicorn.Config(
            app,
            log_config=None,  # this package's log, not a second one
            access_log=False,
            ws="none",
            server_header=False,
            # Calls are long and clients keep their connections: as long as tesseract-core.
            timeout_keep_alive=60,
            timeout_graceful_shutdown=grace,
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


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
