"""A component behind HTTP."""

from __future__ import annotations

import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from binref_sci.client.inputs import Inputs, Piece
from binref_sci.client.replies import Reply
from binref_sci.errors import FormatError, PayloadError, RemoteConnectionError, RemoteError
from binref_sci.messages import complaint, fault

Timeout = float | tuple[float, float] | None

IDLE_SECONDS: Final = 4.0
"""Idle connections are closed by us before servers do it (5 s is common): a request that
meets a closing server fails, and may not simply be sent again."""

STALE_SECONDS: Final = 1.0
"""A request on a kept connection that breaks this soon, unanswered, was never taken: the server
had hung up before. It is sent again. Later the component may have begun, and it is not."""

_ERROR_BYTES: Final = 1 << 20
_JSON_TYPE: Final = re.compile(r"application/(json|[a-z0-9.-]+\+json|json\+[a-z0-9]+)")


class _StaleError(Exception):
    """A kept connection turned out to be closed."""


class Remote:
    """Calls a component through a server. Safe from many threads, and in forked children.

    Parameters
    ----------
    url
        Of the server; ``http://`` is put before a bare host.
    output_path
        Folder that references in replies are relative to, or None.
    input_path
        Folder that references in inputs are relative to, or None.
    timeout
        Seconds to wait for a connection and for each sign of life, or a pair of both;
        None waits.
    transport
        Of httpx; for tests.
    """

    def __init__(
        self,
        url: str,
        output_path: Path | None,
        input_path: Path | None,
        timeout: Timeout = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._made_of = url, output_path, input_path, timeout, transport
        self.url = normal_url(url)
        self.output_path = output_path
        self._input_path = input_path
        self._timeout = timeout
        self._transport = transport
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._closer: weakref.finalize[..., Any] | None = None
        self._process = 0
        self._openapi: dict[str, Any] | None = None

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        return Remote, self._made_of  # a worker elsewhere has connections of its own

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the server; fetched once."""
        if self._openapi is None:
            found = self._request("GET", "openapi.json")()
            if not isinstance(found, dict):
                raise RemoteError(f"{self.url}/openapi.json is no JSON object", 200)
            self._openapi = found
        return self._openapi

    def labels(self) -> dict[str, Any]:
        """Return the labels of the outputs by path; none where the server knows of none."""
        try:
            found = self.openapi()["x-binref-labels"]["outputs"]
        except (RemoteError, KeyError, TypeError):
            return {}  # a server of another kind
        return found if isinstance(found, dict) else {}

    def _known(self) -> dict[str, Any]:
        """Return the OpenAPI document if it was to be had."""
        return self._openapi or {}

    def health(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        found = self._request("GET", "health")()
        return found if isinstance(found, dict) else {"status": found}

    def call(
        self,
        endpoint: str,
        inputs: Inputs,
        *,
        run_id: str | None,
        output_format: str,
        compression: str | None,
    ) -> Reply:
        """Run an endpoint; see `Tesseract` for what it raises."""
        accept = f"application/{output_format}"
        if compression is not None:
            accept += f";compression={compression}"
        read = self._request(
            "POST",
            endpoint,
            params={} if run_id is None else {"run_id": run_id},
            headers={"Accept": accept, "Content-Type": "application/json"},
            body=lambda: inputs.body(self._input_path),
        )
        hint = (
            f"; is output_path={os.fspath(self.output_path or '')!r} the folder that "
            f"{self.url} writes to?"
        )
        return Reply(read, self.output_path, None, hint, self._known)

    def open(self) -> None:
        """There is nothing to do before a call."""

    def close(self) -> None:
        """Close idle connections. The next request opens new ones."""
        with self._lock:
            if self._closer is not None:
                self._closer()
            self._client = None

    def _http(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._process != os.getpid():
                connect, read = (
                    self._timeout
                    if isinstance(self._timeout, tuple)
                    else (self._timeout, self._timeout)
                )
                self._client = httpx.Client(
                    timeout=httpx.Timeout(read, connect=connect),
                    limits=httpx.Limits(keepalive_expiry=IDLE_SECONDS),
                    transport=self._transport,
                    verify=_certificates(),
                )
                self._process = os.getpid()
                self._closer = weakref.finalize(self, _close, self._client, self._process)
            return self._client

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Callable[[], bytes | Iterator[Piece]] = bytes,
        **options: Any,
    ) -> Callable[[], Any]:
        """Return what parses the reply, or raise what it stands for."""
        url = f"{self.url}/{path}"
        while True:
            try:
                reply = self._exchange(method, url, content=body(), **options)
                break
            except _StaleError:
                continue  # each time there is a kept connection less
            except httpx.TimeoutException as error:
                raise RemoteConnectionError(self._late(method, url, error)) from error
            except httpx.ConnectError as error:
                raise RemoteConnectionError(
                    f"nothing answers at {self.url} ({error}); is the server running, and is this "
                    "its address?"
                ) from error
            except httpx.HTTPError as error:
                raise RemoteConnectionError(
                    f"{method} {url}: the connection broke before the reply was complete "
                    f"({error}); the server's log says why, if it is still there"
                ) from error

        def read() -> Any:
            try:
                return orjson.loads(reply)
            except (orjson.JSONDecodeError, RecursionError) as error:
                raise RemoteError(
                    f"{method} {url} answered with {len(reply)} bytes that are not valid JSON: "
                    f"{error}",
                    200,
                ) from error

        return read

    def _exchange(self, method: str, url: str, **options: Any) -> bytearray:
        """Send one request; return the body of a reply that is JSON, or says so."""
        opened = False
        started = time.monotonic()

        def trace(event: str, _: Any) -> None:
            nonlocal opened
            opened = opened or event.endswith(("connect_tcp.started", "connect_unix.started"))

        options["extensions"] = {"trace": trace}
        answered = False
        try:
            with self._http().stream(method, url, **options) as response:
                answered = True
                if response.status_code != 200:
                    self._refuse(url.removeprefix(f"{self.url}/"), response, _start_of(response))
                media_type = response.headers.get("content-type", "")
                if not _JSON_TYPE.fullmatch(media_type.partition(";")[0].strip().lower()):
                    raise RemoteError(
                        f"{method} {url} answered with Content-Type {media_type!r}, not JSON; is "
                        f"this the address of a component? The reply begins "
                        f"{_start_of(response)[:80]!r}",
                        response.status_code,
                    )
                body = bytearray()
                for piece in response.iter_bytes():
                    body += piece
                return body
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            at_once = time.monotonic() - started < STALE_SECONDS
            if not answered and not opened and at_once:
                raise _StaleError from error
            raise

    def _late(self, method: str, url: str, error: httpx.TimeoutException) -> str:
        what = "no connection" if isinstance(error, httpx.ConnectTimeout) else "no sign of life"
        return (
            f"{method} {url}: {what} within timeout={self._timeout} seconds; the server may be "
            "computing all the same. Pass a longer timeout=, or None to wait"
        )

    def _refuse(self, endpoint: str, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        detail = _detail(body)
        if status == 422:
            entries = _entries(detail)
            raise PayloadError(complaint(f"the payload does not fit {endpoint}", entries), entries)
        message = _message(detail, body)
        if status == 406:
            raise FormatError(f"{self.url}: {message}")
        if response.is_redirect:
            message = f"moved to {response.headers.get('location')!r}; use that address"
        where = f"{response.request.method} {response.request.url}"
        raise RemoteError(f"{where} answered {status}: {message}", status)


@cache
def _certificates() -> ssl.SSLContext:
    """Return whom to trust; read once, since that takes longer than a call."""
    return httpx.create_ssl_context()


def _close(client: httpx.Client, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's connections alone
        client.close()


def normal_url(url: str) -> str:
    """Return an address as it is put before the name of an endpoint.

    Raises
    ------
    ValueError
        If it is no address of a web server.

    Examples
    --------
    >>> normal_url("localhost:8000/")
    'http://localhost:8000'
    """
    if not isinstance(url, str):
        raise TypeError(f"the address of a server must be text, got {url!r}")
    text = url if "://" in url else f"http://{url}"
    try:
        parsed = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not the address of a server: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(
            f"{url!r} is not the address of a server; expected http://host:port or https://..."
        )
    return str(parsed.copy_with(query=None, fragment=None)).rstrip("/")


def _start_of(response: httpx.Response) -> bytes:
    made = bytearray()
    for piece in response.iter_bytes():
        made += piece
        if len(made) > _ERROR_BYTES:
            break
    return bytes(made)


def _detail(body: bytes) -> Any:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found.get("detail", found) if isinstance(found, dict) else found


def _entries(detail: Any) -> list[dict[str, Any]]:
    """Return what is wrong with a payload, one entry a fault, whoever wrote them."""
    made = []
    for each in detail if isinstance(detail, list) else [detail]:
        found: Mapping[str, Any] = each if isinstance(each, Mapping) else {"msg": str(each)}
        loc = found.get("loc", [])
        loc = list(loc) if isinstance(loc, list) else [loc]
        made.append(
            fault(
                # Which part of the request it was is HTTP's business, not the caller's.
                loc[1:] if loc[:1] == ["body"] else loc,
                str(found.get("msg", found)),
                str(found.get("type", "payload")),
            )
        )
    return made


def _message(detail: Any, body: bytes) -> str:
    if isinstance(detail, Mapping) and isinstance(detail.get("message"), str):
        return str(detail["message"])
    if isinstance(detail, str):
        return detail
    return body[:500].decode(errors="replace").strip() or "an empty reply"
