"""The body of a request, taken in whole before a worker is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO

from fastapi import Request

from binref_sci.server.channel import PIECE_BYTES

# Bodies up to this size wait in memory, larger ones in a temporary file.
SPOOL_BYTES = 1024 * 1024


async def take_in(request: Request, file: IO[bytes]) -> int:
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


async def pieces(file: IO[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield what `take_in` stored."""
    while size > 0:
        if size > SPOOL_BYTES:
            piece = await asyncio.to_thread(file.read, PIECE_BYTES)
        else:
            piece = file.read(PIECE_BYTES)
        size -= PIECE_BYTES
        yield piece
