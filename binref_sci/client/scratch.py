"""A folder that lasts as long as somebody refers to it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Scratch:
    """A temporary folder, removed with the last result that reads from it.

    Results hold it as their owner. Copies in other processes do not: they read the folder
    as long as the process that made it keeps it.
    """

    def __init__(self) -> None:
        self._hold(Path(tempfile.mkdtemp(prefix="binref-sci-")), None)

    def _hold(self, path: Path, whole: Scratch | None) -> None:
        self.path = path
        self._whole = whole
        self._after: list[Callable[[], object]] = []
        self._remover = weakref.finalize(self, _remove, os.fspath(path), os.getpid(), self._after)

    def remove(self) -> None:
        """Remove the folder now."""
        self._remover()

    def part(self, name: str) -> Scratch:
        """Return a folder in it that may go before, and keeps the whole."""
        made = object.__new__(Scratch)
        made._hold(self.path / name, self)
        return made

    def then(self, call: Callable[[], object]) -> None:
        """Have something done when the folder has been removed."""
        self._after.append(call)

    def __copy__(self) -> Scratch:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_ours, ()


def _not_ours() -> None:
    """Stand for the owner in another process."""


def _remove(path: str, process: int, after: list[Callable[[], object]]) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's files alone
        shutil.rmtree(path, ignore_errors=True)
        for call in after:
            call()
