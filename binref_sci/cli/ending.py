"""SIGTERM, by which batch systems, `kill` and service managers end a process: as good as Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from binref_sci.errors import Terminated


@contextmanager
def in_good_order() -> Iterator[None]:
    """Have SIGTERM raise `Terminated` where the main thread is, so that what is open is closed.

    A second one does not cut that short. Where it is ignored already, it stays ignored.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _end_at_once() -> None:
    """Let go in a forked child, such as a pool's: what is open is its parent's to close."""
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_end_at_once)
