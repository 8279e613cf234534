"""One thread that works for a player: short things first, long ones step by step."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

_PATIENCE: Final = 5.0  # seconds that ending waits for what it is in the middle of
_AGAIN: Final = 5.0  # seconds until something is looked at again after a look that failed

Job = Callable[[], None]


class Worker:
    """A thread that begins with the first thing to do, and ends with `end`.

    In this order it does: short tasks; what `_urgent` returns; looks that are due; a step of
    something long. `_changed` guards all that several threads share.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: deque[Job] = deque()
        self._slow: deque[Iterator[None]] = deque()
        self._due: tuple[float, Callable[[], float | None]] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def _urgent(self) -> Job | None:
        """Return what goes before looks and long things; called with the lock."""
        return None

    def _complain(self, error: Exception) -> None:
        """Tell of an error; work goes on."""
        raise NotImplementedError

    def do(self, task: Job) -> None:
        """Have the thread do something short, before anything else."""
        with self._changed:
            if not self._closed:
                self._tasks.append(task)
                self._begin()

    def later(self, steps: Iterator[None]) -> None:
        """Have the thread do something long, step by step, whenever nothing else is wanted."""
        with self._changed:
            if not self._closed:
                self._slow.append(steps)
                self._begin()

    def every(self, look: Callable[[], float | None]) -> None:
        """Have the thread look at something now, and again after the seconds it returns."""
        with self._changed:
            if not self._closed:
                self._due = time.monotonic(), look
                self._begin()

    def breathe(self) -> None:
        """Do what is wanted meanwhile; for something long that the thread is in the middle of."""
        while True:
            with self._changed:
                slow, self._slow = self._slow, deque()  # other long things wait
                job = None if self._closed else self._next()
                slow.extend(self._slow)
                self._slow = slow
            if job is None:
                return
            self._done(job)

    def end(self) -> None:
        """End the thread, and drop what there is to do; once more is no error."""
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._slow.clear()
            self._due = None
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)

    def _begin(self) -> None:
        """Wake the thread; called with the lock."""
        if self._closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="binref-player", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                job = self._next()
                while job is None and not self._closed:
                    due = self._due
                    self._changed.wait(None if due is None else max(due[0] - time.monotonic(), 0))
                    job = self._next()
                if self._closed:
                    return
            assert job is not None  # or it would be waiting
            self._done(job)
            job = None  # it may hold what the next wait should not

    def _done(self, job: Job) -> None:
        try:
            job()
        except Exception as error:  # told, and work goes on
            self._complain(error)

    def _next(self) -> Job | None:
        """Return what to do next; called with the lock."""
        if self._tasks:
            return self._tasks.popleft()
        urgent = self._urgent()
        if urgent is not None:
            return urgent
        if self._due is not None and self._due[0] <= time.monotonic():
            return self._look
        return self._step if self._slow else None

    def _look(self) -> None:
        with self._changed:
            due = self._due
        if due is None:
            return
        pause: float | None = _AGAIN
        try:
            pause = due[1]()
        finally:
            with self._changed:
                if self._due is due:
                    self._due = None if pause is None else (time.monotonic() + pause, due[1])

    def _step(self) -> None:
        with self._changed:
            steps = self._slow.popleft() if self._slow else None
        if steps is None:
            return
        try:
            next(steps)
        except StopIteration:
            return
        with self._changed:
            if not self._closed:
                self._slow.append(steps)  # in turn with others
