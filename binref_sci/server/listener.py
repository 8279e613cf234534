"""The client of one answer, who may hang up or stall."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Send

from binref_sci.server.channel import Head

log = logging.getLogger(__name__)

# A client that accepts no byte for so long is taken for gone; the worker is needed elsewhere.
STALL_SECONDS = 60.0

AHEAD_BYTES: Final = 8 * 1024 * 1024
"""How much of an answer may wait for its client here: all of a small one, whose worker is free."""


class Listener:
    """The client of one answer. Once it is gone, what is sent to it is dropped.

    A context manager: what still waits at its end is not sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.gone = False
        self._waiting: deque[Message] = deque()
        self._ahead = 0  # bytes
        self._moved = asyncio.Event()

    async def __aenter__(self) -> Listener:
        self._sender = asyncio.create_task(self._send_all())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sender.cancel()
        await asyncio.wait({self._sender})
        if not self._sender.cancelled():
            self._sender.result()  # what it failed of

    async def start(self, head: Head) -> None:
        """Send the status line."""
        self.started = True
        headers = [(b"content-type", head.media_type.encode("latin-1"))]
        await self._put({"type": "http.response.start", "status": head.status, "headers": headers})

    async def take(self, piece: bytes) -> None:
        """Send a part of the body; waits only while too much waits for the client."""
        await self._put({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self) -> None:
        """Send the end of the body, and wait until the client has taken all."""
        await self._put({"type": "http.response.body", "body": b"", "more_body": False})
        await self._until(lambda: not self._waiting or self.gone)

    async def _put(self, message: Message) -> None:
        self._waiting.append(message)
        self._ahead += len(message.get("body", b""))
        self._moved.set()
        await self._until(lambda: self._ahead <= AHEAD_BYTES or self.gone)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    async def _send_all(self) -> None:
        try:
            while True:
                await self._until(lambda: bool(self._waiting))
                message = self._waiting[0]
                await self._pass_on(message)
                self._waiting.popleft()  # not before it has been taken
                self._ahead -= len(message.get("body", b""))
                self._moved.set()
        finally:
            self.gone = True
            self._moved.set()

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
