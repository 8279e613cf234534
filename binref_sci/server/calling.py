"""One call of the component over HTTP."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from binref_sci.naming import PREFIX
from binref_sci.server.channel import Order
from binref_sci.server.listener import Listener
from binref_sci.server.pool import Pool, WorkersUnavailableError
from binref_sci.server.process import Broken, Worker, WorkerDiedError
from binref_sci.server.requests import already_running
from binref_sci.server.responses import failure, new_error_id, refusal
from binref_sci.server.spool import SPOOL_BYTES, pieces, take_in

log = logging.getLogger(__name__)


class Call(Response):
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
        """Take the body in, wait for a worker and pass its answer on."""
        started = time.monotonic()
        order = self._order
        # Two requests may have been checked before either came here.
        if order.run_id in self._active:
            await refusal(409, already_running(order.run_id))(scope, receive, send)
            return
        self._active.add(order.run_id)
        try:
            with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as body:
                try:
                    size = await take_in(Request(scope, receive), body)
                    worker = await _wait_in_line(self._pool, receive)
                except ClientDisconnect:
                    log.info("%s run_%s: the client left, not run", order.endpoint, order.run_id)
                    return
                except WorkersUnavailableError as error:
                    await self._fail(str(error), 503)(scope, receive, send)
                    return
                async with Listener(send) as listener:
                    given = pieces(body, size)
                    status = await self._answer(worker, given, listener, scope, receive, send)
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

    async def _answer(
        self,
        worker: Worker,
        body: AsyncIterator[bytes],
        listener: Listener,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> int:
        """Have `worker` answer; return the status."""
        complete = False
        try:
            head = await worker.ask(self._order, body)
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
        # Worker and run id are free before the client can know that the answer is complete, and
        # however long it takes over what waits for it.
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
        except OSError as problem:  # a full disk may be what the process died of: that is the news
            log.warning("run.json cannot say that the run has failed: %s", problem)

    def _fail(self, message: str, status: int = 500) -> Response:
        error_id, order = new_error_id(), self._order
        log.error("error %s: %s run_%s: %s", error_id, order.endpoint, order.run_id, message)
        return failure(error_id, message, status)


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
