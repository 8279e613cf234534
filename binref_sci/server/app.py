"""The HTTP application: checks what can be checked without the component, moves bytes.

A request goes through these steps, and a client that leaves before the last but
one has cost no worker anything:

1. run id, ``Accept`` and ``Content-Type`` are checked;
2. the body is taken in, beyond a megabyte into a temporary file, so that a slow
   upload holds no worker;
3. the call waits for a worker, first come, first served;
4. the worker gets the body, computes and answers;
5. the answer is passed on as it comes. A client that takes nothing for
   `STALL_SECONDS` is dropped; a worker always finishes its call.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.types import Message, Receive, Scope, Send

from binref_sci.errors import FormatError, PayloadError
from binref_sci.messages import fault, shortened, shown
from binref_sci.naming import PREFIX, checked_run_id
from binref_sci.server import docs_page, negotiation
from binref_sci.server.channel import PIECE_BYTES, Facts, Head, Order
from binref_sci.server.negotiation import Encoding
from binref_sci.server.pool import (
    Broken,
    Pool,
    Worker,
    WorkerDiedError,
    WorkersUnavailableError,
)

log = logging.getLogger(__name__)

# A client that accepts no byte for so long is taken for gone; the worker is needed elsewhere.
STALL_SECONDS = 60.0
# Bodies up to this size wait in memory, larger ones in a temporary file.
SPOOL_BYTES = 1024 * 1024

_JSON_TYPE = re.compile(r"application/(json|json\+[a-z0-9]+|[a-z0-9.-]+\+json)")

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    facts: Facts,
    pool: Pool,
    *,
    output_path: Path | None,
    default: Encoding,
    lifespan: Lifespan | None = None,
) -> FastAPI:
    """Make the application for one component.

    Parameters
    ----------
    facts
        The component, as a worker described it.
    pool
        Where calls go.
    output_path
        Where run directories are kept; None: they are not, and references are not answered.
    default
        What a client gets that does not say what it wants.
    lifespan
        Entered when the server starts, left when it stops.
    """
    formats = negotiation.offered_formats(has_output_path=output_path is not None)
    openapi = _openapi(facts, formats)
    app = FastAPI(
        title=facts.name,
        version=facts.version,
        openapi_url="/openapi.json",
        docs_url=None,  # FastAPI's own pages fetch their scripts from the internet
        redoc_url=None,
        lifespan=lifespan,
    )
    app.openapi = lambda: openapi  # type: ignore[method-assign]
    active: set[str] = set()

    def computing(endpoint: str) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                run_id = _run_id(request, active)
                _check_content_type(request)
                encoding = Encoding("json", None)
                if endpoint != "abstract_eval":  # its answer holds no arrays to encode
                    encoding = negotiation.negotiate(
                        _accept(request), formats=formats, default=default
                    )
            except HTTPException as error:
                return _error(error.status_code, error.detail)
            except FormatError as error:
                return _error(406, _not_acceptable(error, formats))
            order = Order(endpoint, run_id, encoding.output_format, encoding.compression)
            return _Call(pool, order, active, output_path)

        return handle

    for endpoint in facts.endpoints:
        app.add_api_route(f"/{endpoint}", computing(endpoint), methods=["POST"], name=endpoint)

    # Whoever watches servers may ask for no more than the headers.
    @app.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> Response:
        return _json(200, {"status": "ok"})

    page = docs_page.render(openapi)

    @app.api_route("/docs", methods=["GET", "HEAD"])
    async def docs() -> Response:
        return HTMLResponse(page)

    paths = ", ".join(f"/{name}" for name in (*facts.endpoints, "health", "openapi.json", "docs"))

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        detail = error.detail
        if error.status_code == 404:
            detail = (
                f"there is no {shortened(request.url.path, 200)} here; {facts.name!r} has {paths}"
            )
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            detail = f"{request.url.path} takes {allowed}, not {request.method}"
        return _error(error.status_code, detail, error.headers)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        error_id = _new_error_id()
        log.error("error %s: %s %s", error_id, request.method, request.url.path, exc_info=error)
        return _failure(error_id, f"the server failed ({type(error).__name__})")

    return app


class _Call(Response):
    """One call of the component, from the arrival of its body to the end of its answer.

    Not a `StreamingResponse`: the status is the worker's to tell, and what a client that
    leaves or stalls means depends on how far the call has come.
    """

    def __init__(
        self, pool: Pool, order: Order, active: set[str], output_path: Path | None
    ) -> None:
        super().__init__()
        self._output_path = output_path
        self._pool = pool
        self._order = order
        self._active = active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        order = self._order
        if (
            order.run_id in self._active
        ):  # two requests may have been checked before either came here
            await _error(409, _already_running(order.run_id))(scope, receive, send)
            return
        self._active.add(order.run_id)
        try:
            with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as body:
                try:
                    size = await _take_in(Request(scope, receive), body)
                    worker = await _wait_in_line(self._pool, receive)
                except ClientDisconnect:
                    log.info("%s run_%s: the client left, not run", order.endpoint, order.run_id)
                    return
                except WorkersUnavailableError as error:
                    await self._fail(str(error), 503)(scope, receive, send)
                    return
                status = await self._run(worker, body, size, scope, receive, send)
        except asyncio.CancelledError:  # the server is stopped, and its grace is over
            log.warning("%s run_%s: cut short, the server stops", order.endpoint, order.run_id)
            raise
        finally:
            self._active.discard(order.run_id)
        log.info(
            "%s run_%s: %s in %.3f s",
            order.endpoint,
            order.run_id,
            status,
            time.monotonic() - started,
        )

    async def _run(
        self,
        worker: Worker,
        body: IO[bytes],
        size: int,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> int:
        """Have `worker` answer; return the status."""
        listener = _Listener(send)
        complete = False
        try:
            head = await worker.ask(self._order, _pieces(body, size))
            await listener.start(head)
            async for piece in worker.answer():
                if isinstance(piece, Broken):
                    log.error("the answer was cut short: %s", piece.message)
                    listener.gone = True
                else:
                    await listener.take(piece)
            complete = True
        except WorkerDiedError as died:
            await asyncio.to_thread(self._close_run, f"the process died: {died}")
            response = self._fail(
                f"the component's process died in {self._order.endpoint}: {died}; "
                "another takes its place, the next call works"
            )
            # Where the head has gone out there is nothing to be said any more: the server
            # closes the connection in mid-body, which no client takes for an end.
            if not listener.started:
                await response(scope, receive, send)
            return 500
        except asyncio.CancelledError:
            worker.kill()
            await worker.ended.wait()
            self._close_run("the server was stopped")  # at once: nobody else is to be answered
            raise
        finally:
            if complete:
                self._pool.release(worker)
            else:
                worker.kill()  # in the middle of an answer that nobody reads: of no further use
        # Worker and run id are free before the client can know that the answer is complete.
        self._active.discard(self._order.run_id)
        await listener.finish()
        return head.status

    def _close_run(self, error: str) -> None:
        """Say in the run directory that the call has failed, and remove what it worked with."""
        if self._output_path is None:
            return
        run = self._output_path / f"{PREFIX}{self._order.run_id}"
        # Imported when it is needed: this process has no other use for NumPy.
        close = import_module("binref_sci.runtime.run").close_dead_run
        try:
            close(run, error)
        except OSError as failure:  # a full disk may be what the process died of: that is the news
            log.warning("run.json cannot say that the run has failed: %s", failure)

    def _fail(self, message: str, status: int = 500) -> Response:
        error_id = _new_error_id()
        self._note(error_id, message)
        return _failure(error_id, message, status)

    def _note(self, error_id: str, message: str) -> None:
        order = self._order
        log.error("error %s: %s run_%s: %s", error_id, order.endpoint, order.run_id, message)


class _Listener:
    """The client of one answer. Once it is gone, what is sent to it is dropped."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.gone = False

    async def start(self, head: Head) -> None:
        """Send the status line."""
        self.started = True
        headers = [(b"content-type", head.media_type.encode("latin-1"))]
        await self._pass_on(
            {"type": "http.response.start", "status": head.status, "headers": headers}
        )

    async def take(self, piece: bytes) -> None:
        """Send a part of the body, as fast as the client takes it."""
        await self._pass_on({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self) -> None:
        """Send the end of the body."""
        await self._pass_on({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, message: Message) -> None:
        if self.gone:
            return
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self._send(message)
        except (TimeoutError, OSError):
            log.warning(
                "a client took nothing for %.0f s, or hung up; it is dropped", STALL_SECONDS
            )
            self.gone = True


async def _take_in(request: Request, file: IO[bytes]) -> int:
    """Store a request body as it comes; return its size."""
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > SPOOL_BYTES:  # on disk by now, and disks can be slow
            await asyncio.to_thread(file.write, piece)
        else:
            file.write(piece)
    file.seek(0)
    return size


async def _pieces(file: IO[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield what `_take_in` stored."""
    while size > 0:
        if size > SPOOL_BYTES:
            piece = await asyncio.to_thread(file.read, PIECE_BYTES)
        else:
            piece = file.read(PIECE_BYTES)
        size -= PIECE_BYTES
        yield piece


async def _wait_in_line(pool: Pool, receive: Receive) -> Worker:
    """Wait for a worker, but no longer than the client does.

    Raises
    ------
    ClientDisconnect
        If the client leaves before there is one.
    """
    taking = asyncio.ensure_future(pool.acquire())
    leaving = asyncio.ensure_future(_departure(receive))
    try:
        await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done() or not taking.done():
            raise ClientDisconnect
        return taking.result()
    except BaseException:
        taking.cancel()
        await asyncio.wait({taking})
        if not taking.cancelled() and taking.exception() is None:
            pool.release(taking.result())
        raise
    finally:
        leaving.cancel()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _run_id(request: Request, active: set[str]) -> str:
    """Return the run id that the client asks for, or a new one."""
    asked = request.query_params.getlist("run_id")
    if not asked:
        return uuid.uuid4().hex
    try:
        if len(asked) > 1:
            raise PayloadError(f"run_id is given {len(asked)} times; give it once")
        run_id = checked_run_id(asked[0])
    except PayloadError as error:
        entry = fault(["query", "run_id"], str(error), "run_id")
        raise HTTPException(422, [entry]) from error  # type: ignore[arg-type]
    if run_id in active:
        raise HTTPException(409, _already_running(run_id))
    return run_id


def _already_running(run_id: str) -> str:
    return (
        f"run_id {run_id!r} is in use by a call that has not ended; its run directory can hold "
        "one response at a time. Wait, or choose another run_id"
    )


def _check_content_type(request: Request) -> None:
    """Refuse a body that does not say it is JSON.

    Not a formality: forms and plain text are what a web page may post to a server on
    this machine without asking.
    """
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if not _JSON_TYPE.fullmatch(media_type):
        raise HTTPException(
            415,
            f"the body must be JSON: send 'Content-Type: application/json', not {shown(content_type)}",
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise HTTPException(
            415,
            f"a body with 'Content-Encoding: {shortened(coding, 200)}' is not understood; send it "
            'as it is (arrays may be compressed one by one, with "compression": "lz4")',
        )


def _accept(request: Request) -> str | None:
    values = request.headers.getlist("accept")
    return ", ".join(values) if values else None


def _not_acceptable(error: FormatError, formats: Sequence[str]) -> dict[str, Any]:
    return {
        "message": str(error),
        "available_formats": list(formats),
        "available_gpu_transports": list(negotiation.GPU_TRANSPORTS),
        "available_compressions": list(negotiation.COMPRESSIONS),
    }


def _openapi(facts: Facts, formats: Sequence[str]) -> dict[str, Any]:
    """Return the component's schema with what this server can negotiate, as tesseract-core has it."""
    return facts.openapi | {
        "x-supported-output-formats": list(formats),
        "x-supported-gpu-transports": list(negotiation.GPU_TRANSPORTS),
        "x-supported-compressions": list(negotiation.COMPRESSIONS),
    }


def _new_error_id() -> str:
    return uuid.uuid4().hex[:12]


def _failure(error_id: str, message: str, status: int = 500) -> Response:
    return _error(status, {"error_id": error_id, "message": message})


def _error(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    return _json(status, {"detail": detail}, headers)


def _json(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(content), status, dict(headers or {}), media_type="application/json"
    )
