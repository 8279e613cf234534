"""What is printed by one of many calls alike: held back, and shown only if the call fails.

A thousand evaluations for a Jacobian print a thousand times the same. The first of them is
heard as ever; the others are held back. ``sys.stdout`` is one for all threads, and only what
the held call itself prints is to be held, so while there is one a `_Sorter` stands in for it.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

_held: ContextVar[io.StringIO | None] = ContextVar("binref_sci_held_prints", default=None)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold back what Python code prints inside; show it if it ends in an error.

    Threads that were started inside, and compiled code, print as ever.

    Examples
    --------
    >>> with held_back():
    ...     print("step 1")
    """
    text = io.StringIO()
    token = _held.set(text)
    _standing_in.enter()
    failed = True
    try:
        yield
        failed = False
    finally:
        _held.reset(token)
        if failed:
            with suppress(AttributeError, OSError, ValueError):  # none, full or closed
                sys.stdout.write(text.getvalue())
        _standing_in.leave()


class _Sorter:
    """Standard output as all see it: prints of held calls go aside, others through."""

    def __init__(self, out: Any) -> None:
        self.out = out

    def write(self, text: str) -> int:
        held = _held.get()
        count: int = (self.out if held is None else held).write(text)
        return count

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


class _StandingIn:
    """Puts a sorter in place of ``sys.stdout`` for as long as any call is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._sorter = _Sorter(None)

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1 and sys.stdout is not None:
                self._sorter = _Sorter(sys.stdout)
                sys.stdout = self._sorter

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and sys.stdout is self._sorter:  # nobody else has redirected it
                sys.stdout = self._sorter.out


_standing_in = _StandingIn()
