"""A folder that lasts as long as somebody refers to it."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

_dividing = threading.Lock()


class Scratch:
    """A temporary folder, removed with the last result that reads from it.

    Results hold it as their owner. Copies in other processes do not: they read the folder
    as long as the process that made it keeps it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="binref-sci-"))
        self._whole: Scratch | None = None
        self._parts: _Parts | None = None
        self._after: list[Callable[[], object]] = []
        self._remover: weakref.finalize[..., Any] = weakref.finalize(
            self, _remove, os.fspath(self.path), os.getpid(), self._after
        )

    def remove(self) -> None:
        """Remove the folder now."""
        self._remover()

    def part(self, name: str) -> Scratch:
        """Return a folder in it that may go before, and keeps the whole.

        It goes a moment after the last reference to it: nobody waits for the disk.
        """
        with _dividing:
            if self._parts is None:
                self._parts = _Parts()
                self.then(self._parts.end)
        made = object.__new__(Scratch)
        made.path = self.path / name
        made._whole = self
        made._parts = None
        made._after = []
        made._remover = weakref.finalize(
            made, _remove_later, os.fspath(made.path), os.getpid(), self._parts
        )
        return made

    def settle(self) -> None:
        """Wait for the parts that nobody refers to any more to be gone."""
        if self._parts is not None:
            self._parts.settle()

    def then(self, call: Callable[[], object]) -> None:
        """Have something done when the folder has been removed."""
        self._after.append(call)

    def __copy__(self) -> Scratch:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_ours, ()


class _Parts:
    """A thread that removes folders, until the whole has gone."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # Its put may be called by a finalizer, in the middle of anything.
        self._queue: SimpleQueue[str | threading.Event | None] = SimpleQueue()
        threading.Thread(target=_remove_parts, args=(self._queue,), daemon=True).start()

    def remove(self, path: str) -> None:
        self._queue.put(path)

    def settle(self) -> None:
        if os.getpid() == self._owner:  # a forked child has no such thread
            done = threading.Event()
            self._queue.put(done)
            done.wait()

    def end(self) -> None:
        self._queue.put(None)


def _remove_parts(queue: SimpleQueue[str | threading.Event | None]) -> None:
    while (what := queue.get()) is not None:
        if isinstance(what, str):
            shutil.rmtree(what, ignore_errors=True)
        else:
            what.set()


def _not_ours() -> None:
    """Stand for the owner in another process."""


def _remove_later(path: str, process: int, parts: _Parts) -> None:
    if os.getpid() == process:
        parts.remove(path)


def _remove(path: str, process: int, after: list[Callable[[], object]]) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's files alone
        shutil.rmtree(path, ignore_errors=True)
        for call in after:
            call()
