"""The HTTP application: checks what can be checked without the component, moves bytes.

A request goes through these steps, and a client that leaves before the last but
one has cost no worker anything:

1. run id, ``Accept`` and ``Content-Type`` are checked (`requests`, `negotiation`);
2. the body is taken in, beyond a megabyte into a temporary file, so that a slow
   upload holds no worker (`spool`);
3. the call waits for a worker, first come, first served (`calling`, `pool`);
4. the worker gets the body, computes and answers;
5. the answer is passed on as it comes. A client that takes nothing for a minute is
   dropped (`listener`); a worker always finishes its call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from binref_sci.errors import FormatError
from binref_sci.messages import shortened
from binref_sci.server import docs_page, negotiation
from binref_sci.server.calling import Call
from binref_sci.server.channel import Facts, Order
from binref_sci.server.negotiation import Encoding
from binref_sci.server.pool import Pool
from binref_sci.server.requests import accept_of, check_content_type, run_id_of
from binref_sci.server.responses import failure, json_response, new_error_id, refusal

log = logging.getLogger(__name__)

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
    # As FastAPI's documentation has a document of one's own replace the one it makes.
    app.openapi = lambda: openapi  # type: ignore[method-assign]
    active: set[str] = set()

    def computing(endpoint: str) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                order = _order(request, endpoint, active, formats, default)
            except HTTPException as error:
                return refusal(error.status_code, error.detail)
            except FormatError as error:
                return refusal(406, _not_acceptable(error, formats))
            return Call(pool, order, active, output_path)

        return handle

    for endpoint in facts.endpoints:
        app.add_api_route(f"/{endpoint}", computing(endpoint), methods=["POST"], name=endpoint)
    _add_pages(app, openapi)
    _add_errors(app, facts)
    return app


def _order(
    request: Request,
    endpoint: str,
    active: set[str],
    formats: Sequence[str],
    default: Encoding,
) -> Order:
    """Return what a worker is asked for, or refuse it."""
    run_id = run_id_of(request, active)
    check_content_type(request)
    encoding = Encoding("json", None)
    if endpoint != "abstract_eval":  # its answer holds no arrays to encode
        encoding = negotiation.negotiate(accept_of(request), formats=formats, default=default)
    return Order(endpoint, run_id, encoding.output_format, encoding.compression)


def _add_pages(app: FastAPI, openapi: dict[str, Any]) -> None:
    # Whoever watches servers may ask for no more than the headers.
    @app.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> Response:
        return json_response(200, {"status": "ok"})

    page = docs_page.render(openapi)

    @app.api_route("/docs", methods=["GET", "HEAD"])
    async def docs() -> Response:
        return HTMLResponse(page)


def _add_errors(app: FastAPI, facts: Facts) -> None:
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
        return refusal(error.status_code, detail, error.headers)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        error_id = new_error_id()
        log.error("error %s: %s %s", error_id, request.method, request.url.path, exc_info=error)
        return failure(error_id, f"the server failed ({type(error).__name__})")


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
