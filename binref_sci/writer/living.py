"""The open writers of this process: begun anew in a forked child, closed at the end."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from typing import Protocol


class Living(Protocol):
    """A writer that is open."""

    def close(self) -> None:
        """Write what ends the trajectory, and let go of all files."""

    def _begin_anew(self) -> None:
        """Leave the files to the parent process."""


living: weakref.WeakSet[Living] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for writer in list(living):
        writer._begin_anew()


def _close_all() -> None:
    for writer in list(living):
        with contextlib.suppress(OSError):
            writer.close()


os.register_at_fork(after_in_child=_begin_all_anew)
# While the interpreter is still whole: later, `__del__` might find modules gone.
atexit.register(_close_all)
