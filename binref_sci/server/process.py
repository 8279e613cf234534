"""One worker process as the HTTP process sees it: asked, listened to, ended.

Everything here runs in the event loop and waits for nothing else: reads and writes go
through asyncio, the process's death is told by a thread that waits for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from binref_sci.errors import BinrefError, ComponentError
from binref_sci.server import channel
from binref_sci.server.channel import Facts, Head, Order
from binref_sci.server.launch import Launched, kill_group

# How long a worker that is told to end may take (its component's own clean-up included).
END_SECONDS = 3.0


class WorkerDiedError(BinrefError, RuntimeError):
    """A worker's process ended in the middle of a call."""


class ComponentLoadError(ComponentError):
    """A worker could not load the component.

    Parameters
    ----------
    message
        What the worker said.
    callers_mistake
        Whether there is no such component, rather than one that fails.
    """

    def __init__(self, message: str, *, callers_mistake: bool = False) -> None:
        super().__init__(message)
        self.callers_mistake = callers_mistake


@dataclass(frozen=True)
class Broken:
    """Why a body could not be completed."""

    message: str


class Worker:
    """One worker process and the parent's end of its channel.

    Parameters
    ----------
    process
        The process.
    reader, writer
        The channel.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self.ended = asyncio.Event()
        self._reader = reader
        self._writer = writer
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=_wait_for, args=(process, loop, self.ended.set), daemon=True
        ).start()

    @classmethod
    async def of(cls, launched: Launched) -> Worker:
        """Talk to a process that was started; `facts` says when it is ready."""
        reader, writer = await asyncio.open_connection(
            sock=launched.connection, limit=channel.PIECE_BYTES
        )
        return cls(launched.process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether the process still runs; asked of the system, which knows it first."""
        return not (self.ended.is_set() or self._reader.at_eof() or _has_ended(self.process.pid))

    async def facts(self) -> Facts:
        """Wait until the component is loaded.

        Raises
        ------
        ComponentLoadError
            If the worker says why it could not, or ends.
        """
        try:
            kind, length = await self._header()
            told = orjson.loads(await self._reader.readexactly(length))
        except WorkerDiedError as died:
            raise ComponentLoadError(
                f"the worker process died loading the component: {died}"
            ) from died
        if kind == channel.FAILED:
            raise ComponentLoadError(**told)
        return Facts(**told | {"endpoints": tuple(told["endpoints"])})

    async def ask(self, order: Order, body: AsyncIterator[bytes]) -> Head:
        """Hand over a call; return the head of its answer.

        Raises
        ------
        WorkerDiedError
            If the process ends first.
        """
        try:
            self._writer.write(channel.json_frame(channel.CALL, order))
            async for piece in body:
                self._writer.write(channel.frame_header(channel.PIECE, len(piece)))
                self._writer.write(piece)
                await self._writer.drain()
            self._writer.write(channel.frame_header(channel.END, 0))
            await self._writer.drain()
        except ConnectionError:
            raise WorkerDiedError(await self._obituary()) from None
        _, length = await self._header()
        return Head(**await self._json(length))

    async def answer(self) -> AsyncIterator[bytes | Broken]:
        """Yield the body of the answer as it comes; a last `Broken` if it is cut short.

        Raises
        ------
        WorkerDiedError
            If the process ends first.
        """
        while True:
            kind, length = await self._header()
            if kind == channel.END:
                return
            if kind == channel.BROKEN:
                yield Broken(**await self._json(length))
                return
            while length:
                piece = await self._reader.read(min(length, channel.PIECE_BYTES))
                if not piece:
                    raise WorkerDiedError(await self._obituary())
                length -= len(piece)
                yield piece

    def kill(self) -> None:
        """End the process at once, and what it has started."""
        if not self.ended.is_set():  # afterwards its number may be another's
            kill_group(self.process.pid)

    async def stop(self) -> None:
        """Ask the process to end; end it if it does not within `END_SECONDS`."""
        self._writer.close()
        try:
            await asyncio.wait_for(self.ended.wait(), END_SECONDS)
        except TimeoutError:
            self.kill()
            await self.ended.wait()

    def hang_up(self) -> None:
        """Close this end of the channel."""
        self._writer.close()

    async def _header(self) -> tuple[bytes, int]:
        try:
            kind, length = channel.HEADER.unpack(
                await self._reader.readexactly(channel.HEADER.size)
            )
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerDiedError(await self._obituary()) from None
        return kind, length

    async def _json(self, length: int) -> Any:
        try:
            return orjson.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerDiedError(await self._obituary()) from None

    async def _obituary(self) -> str:
        """Say how the process ended. Its channel closed: the rest is a matter of moments."""
        try:
            await asyncio.wait_for(self.ended.wait(), END_SECONDS)
        except TimeoutError:
            self.kill()
            return "it closed its channel"
        code = self.process.returncode
        if code >= 0:
            return f"it ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return f"it was killed by signal {-code} ({name})"


def _wait_for(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, tell: Callable[[], None]
) -> None:
    """Wait in a thread for `process` to end, then tell the event loop.

    A channel that closes is not enough: a process that the component forked may
    hold the other end open. What it left behind is ended first, while its
    process group still has its number.
    """
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        kill_group(process.pid)
    process.wait()
    with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
        loop.call_soon_threadsafe(tell)


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended, and leave its exit code to who waits for it."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # ended, and waited for
        return True
