"""The workers as the HTTP process sees them: started, lent out, replaced.

Everything here runs in the event loop and waits for nothing else: reads and
writes go through asyncio, a worker's death is told by a thread that waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from binref_sci.errors import BinrefError, ComponentError
from binref_sci.server import channel
from binref_sci.server.channel import Facts, Head, Order, Settings
from binref_sci.server.launch import Launched, kill_group, launch

log = logging.getLogger(__name__)

# How long a worker that is told to end may take (its component's own clean-up included).
END_SECONDS = 3.0
# Pause before a worker that could not start is started again; doubled up to the second.
RETRY_SECONDS = (1.0, 30.0)


class WorkerDiedError(BinrefError, RuntimeError):
    """A worker's process ended in the middle of a call."""


class WorkersUnavailableError(BinrefError, RuntimeError):
    """No worker is alive, and none can be started."""


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


class Pool:
    """As many workers as asked for, each lent to one call at a time.

    Parameters
    ----------
    settings
        What each worker is started with.
    size
        How many.
    first
        A worker that was started already.
    """

    def __init__(self, settings: Settings, size: int, first: Launched) -> None:
        self._settings = settings
        self._size = size
        self._first: Launched | None = first
        self._idle: deque[Worker] = deque()
        self._line: deque[asyncio.Future[Worker]] = deque()  # who waits, first come first
        self._workers: set[Worker] = set()
        self._slots: list[asyncio.Task[None]] = []
        self._trouble: str | None = None  # why the last start failed, until one succeeds

    async def open(self) -> Facts:
        """Start the workers; return as soon as the first has loaded the component.

        Raises
        ------
        ComponentLoadError
            If it could not.
        """
        first = await self._started()
        try:
            facts = await first.facts()
        except ComponentLoadError:
            await first.stop()
            self._workers.discard(first)
            raise
        self._slots = [
            asyncio.create_task(self._keep(first if number == 0 else None))
            for number in range(self._size)
        ]
        return facts

    async def close(self) -> None:
        """End all workers."""
        if self._first is not None:
            self._first.discard()
            self._first = None
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        self._workers.clear()
        self._idle.clear()

    async def acquire(self) -> Worker:
        """Wait for an idle worker, first come, first served.

        Raises
        ------
        WorkersUnavailableError
            If none lives and the last attempt to start one failed.
        """
        waiter: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self._line.append(waiter)
        self._hand_out()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())  # handed over in the moment of leaving
            raise

    def release(self, worker: Worker) -> None:
        """Take a worker back. A dead one is dropped: its slot starts another."""
        if worker.alive:
            self._idle.append(worker)
            self._hand_out()

    def _hand_out(self) -> None:
        """Give idle workers to those who wait, or tell them that there will be none."""
        if self._line:  # one may have been killed while it was idle
            self._idle = deque(worker for worker in self._idle if worker.alive)
        while self._line and (self._idle or self._hopeless):
            waiter = self._line.popleft()
            if waiter.done():
                continue  # has left
            if self._idle:
                waiter.set_result(self._idle.popleft())
            else:
                waiter.set_exception(
                    WorkersUnavailableError(
                        f"no worker process can be started: {self._trouble}; "
                        "the server keeps trying"
                    )
                )

    @property
    def _hopeless(self) -> bool:
        return self._trouble is not None and not self._workers

    async def _started(self) -> Worker:
        launched, self._first = self._first or launch(self._settings), None
        worker = await Worker.of(launched)
        self._workers.add(worker)
        return worker

    async def _keep(self, worker: Worker | None) -> None:
        """Keep one worker alive, for ever; `worker` is the first, if it is there already."""
        pause = RETRY_SECONDS[0]
        while True:
            try:
                if worker is None:
                    worker = await self._started()
                    await worker.facts()
                self._trouble = None
                pause = RETRY_SECONDS[0]
                self.release(worker)
                await worker.ended.wait()
                log.warning("worker %d ended; starting another", worker.process.pid)
            except (ComponentLoadError, OSError) as error:
                self._trouble = str(error)
                log.error("a worker could not be started: %s", error)
                if worker is not None:
                    worker.kill()
                    await worker.ended.wait()
            if worker is not None:
                await self._bury(worker)
                worker = None
            if self._trouble is not None:
                self._hand_out()
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])

    async def _bury(self, worker: Worker) -> None:
        """Forget a worker that has ended, and remove what it left."""
        worker.hang_up()
        self._workers.discard(worker)
        with suppress(ValueError):
            self._idle.remove(worker)
        if self._settings.scratch:
            left = Path(self._settings.output_path, channel.scratch_name(worker.process.pid))
            await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)


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
