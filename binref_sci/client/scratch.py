"""A folder that lasts as long as somebody refers to it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any


class Scratch:
    """A temporary folder, removed with the last result that reads from it.

    Results hold it as their owner. Copies in other processes do not: they read the folder
    as long as the process that made it keeps it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="binref-sci-"))
        self._remover = weakref.finalize(self, _remove, os.fspath(self.path), os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._remover()

    def __copy__(self) -> Scratch:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_ours, ()


def _not_ours() -> None:
    """Stand for the owner in another process."""


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's files alone
        shutil.rmtree(path, ignore_errors=True)
