"""Where benchmarks put their files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TMPFS = Path("/dev/shm")


@contextmanager
def folder(*, on_tmpfs: bool = False) -> Iterator[Path]:
    """Make a folder for one group and remove it at the end.

    On tmpfs the cost of the software alone is seen; elsewhere the page cache is warm.
    """
    parent = _TMPFS if on_tmpfs and _TMPFS.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="binref-bench-", dir=parent) as name:
        yield Path(name)


def empty(directory: Path) -> None:
    """Remove everything in a folder."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
