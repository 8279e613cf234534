"""Put whole files in the place of others, so that a reader sees the old or the new."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make names created in `directory` survive a loss of power."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def hidden_beside(place: Path, suffix: str = ".partial") -> Path:
    """Return a name of its own for what will take the place of a file or folder.

    Hidden, since nobody is to open it, and no longer than a name may be.
    """
    return place.with_name(f".{place.name[:40]}.{uuid.uuid4().hex}{suffix}")


def write_atomically(
    path: Path, pieces: Iterator[bytes | memoryview], *, sync: bool = False
) -> None:
    """Write a small file so that a reader sees the old one or the new one, whole."""
    partial = hidden_beside(path)
    try:
        with partial.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)  # a full disk names no file
        raise
    if sync:
        sync_directory(path.parent)
