"""The workers: started, lent to one call at a time, replaced when they have ended."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path

from binref_sci.errors import BinrefError
from binref_sci.server import channel
from binref_sci.server.channel import Facts, Settings
from binref_sci.server.launch import Launched, launch
from binref_sci.server.process import ComponentLoadError, Worker

log = logging.getLogger(__name__)

# Pause before a worker that could not start is started again; doubled up to the second.
RETRY_SECONDS = (1.0, 30.0)


class WorkersUnavailableError(BinrefError, RuntimeError):
    """No worker is alive, and none can be started."""


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
