"""A writer's journal as a file: its name, how it is put in place, how it grows."""

from __future__ import annotations

import contextlib
import os
import re
import uuid

from binref_sci.journal import SUFFIX, take_lock
from binref_sci.storage import sync_directory, write_at


def journal_name(variable: str | None, id_: str) -> str:
    """Return the file name: readable, and unlike that of any other writer.

    Examples
    --------
    >>> journal_name("heat flux", "5c1e")
    'heat-flux-5c1e.binref.jsonl'
    """
    slug = re.sub(r"[^A-Za-z0-9]+", "-", variable or "").strip("-")[:48] or "snapshots"
    return f"{slug}-{id_}{SUFFIX}"


def publish(path: str, content: bytes, *, sync: bool) -> int:
    """Put a journal in place of the old one, if any; return its locked descriptor."""
    partial = f"{path}.{uuid.uuid4().hex}.partial"
    fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        take_lock(fd)  # before it can be seen
        write_at(fd, content, 0)
        if sync:
            os.fsync(fd)
        os.replace(partial, path)
        if sync:
            sync_directory(os.path.dirname(path))
    except BaseException:
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    return fd


def append(fd: int, line: bytes, end: int, *, sync: bool) -> int:
    """Write a line where the journal ends; return where it ends then."""
    write_at(fd, line, end)
    if sync:
        os.fdatasync(fd)
    return end + len(line)
