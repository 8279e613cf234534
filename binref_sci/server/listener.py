"""The client of one answer, who may hang up or stall."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import Message, Send

from binref_sci.server.channel import Head

log = logging.getLogger(__name__)

# A client that accepts no byte for so long is taken for gone; the worker is needed elsewhere.
STALL_SECONDS = 60.0


class Listener:
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
