"""How far a solver is: snapshots done, rate, time left, on a terminal or in a notebook.

rich is imported when a bar is first drawn: a solver that shows none must not wait for
it, and a run shorter than the delay shows none.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from binref_sci.call import running_call

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY = 0.5
INTERVAL = 0.1
"""Seconds before a bar appears, and between two redraws."""


class ProgressBar:
    """A bar on standard error; silent where nobody looks, and in a quiet call.

    Parameters
    ----------
    label
        What is being made.
    total
        Snapshots in all.
    """

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = total
        self._next = time.monotonic() + DELAY
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        terminal = sys.stderr is not None and sys.stderr.isatty()
        call = running_call()
        quiet = call is not None and call.quiet
        self._shown = not quiet and (terminal or "ipykernel" in sys.modules)

    def update(self, done: int) -> None:
        """Say how many snapshots are done; redraws at most ten times a second."""
        if self._shown and time.monotonic() >= self._next:
            self._try_to_draw(done)

    def close(self, done: int) -> None:
        """Draw the last state and leave it standing."""
        if self._bar is not None:
            self._try_to_draw(done)
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(Exception):
                bar.stop()

    def _try_to_draw(self, done: int) -> None:
        try:
            self._draw(done)
        except Exception:  # a terminal that went away must not stop the solver
            self._shown, self._bar = False, None

    def _draw(self, done: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(show_speed=True),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                # No thread of its own: it would not survive a fork of the solver.
                auto_refresh=False,
            )
            self._task = self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        assert self._task is not None  # made with the bar
        self._bar.update(self._task, completed=done)
        self._bar.refresh()
        self._next = time.monotonic() + INTERVAL
