"""Locks that tell living writers from dead ones."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from binref_sci.storage.remote import RemotePath


def take_lock(fd: int, *, shared: bool = False) -> bool:
    """Take a file's lock if it is free; where a file system has no locks, all are free."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether a living writer holds the journal, or a living call its ``run.json``.

    In a store nobody can tell; then it is as if there were none.
    """
    if isinstance(path, RemotePath):
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not take_lock(fd, shared=True)
    finally:
        os.close(fd)


def hold(path: str | os.PathLike[str]) -> int | None:
    """Lock a journal or ``run.json`` that nobody holds; return a descriptor, None if one does."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(50):  # one who asks whether it is locked holds it for a moment
            if take_lock(fd):
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    return fd
                break
            time.sleep(0.002)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None
