"""Find a buffer under its root, and tell whether it has changed; nothing is read."""

from __future__ import annotations

import errno
import os
import stat
import time
import uuid
from typing import Any, NamedTuple

from binref_sci.errors import BufferNotFoundError
from binref_sci.messages import shown
from binref_sci.storage.confinement import confine
from binref_sci.storage.remote import RemotePath
from binref_sci.storage.stamps import is_coarse, may_be_from


class Identity(NamedTuple):
    """What tells one file from the next under the same name."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """Return that of a file, as of when its status was taken."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether it tells the file from whatever is written there from now on.

        Not so for one just written: another may get its inode, and the same stamp.
        """
        return not may_be_from(self.mtime_ns, time.time_ns())


class Found(NamedTuple):
    """A regular file that was found inside its root."""

    path: str
    inode: int
    device: int
    mode: int

    def is_still(self, status: os.stat_result) -> bool:
        """Tell whether what is there now is this file."""
        return (
            status.st_ino == self.inode
            and status.st_dev == self.device
            and status.st_mode == self.mode
        )


_REMEMBERED = 4096
_inside: dict[tuple[str, str], Found] = {}


def status_of(root: str | os.PathLike[str], relative: str) -> os.stat_result:
    """Return the status of a confined, regular file; nothing is read.

    The file is looked at each time. What is remembered is only that this inode was
    found inside this root, so that a hundred thousand references into one buffer
    do not resolve its path a hundred thousand times.

    Raises
    ------
    BufferNotFoundError
        If there is no such file, or it is not a regular one.
    InvalidReferenceError
        If the path leads outside `root`.
    """
    key = (os.fspath(root), relative)
    known = _inside.get(key)
    if known is not None:
        try:
            status = os.stat(known.path)
        except OSError:
            _inside.pop(key, None)
        else:
            if known.is_still(status):
                return status
    real = confine(root, relative)
    try:
        status = os.stat(real)
    except OSError as error:
        raise missing(root, relative, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise BufferNotFoundError(f"buffer {shown(real)} is not a regular file")
    if len(_inside) >= _REMEMBERED:
        _inside.clear()
    path = os.path.join(key[0], relative)
    _inside[key] = Found(path, status.st_ino, status.st_dev, status.st_mode)
    return status


def found_before(root: str | os.PathLike[str], relative: str) -> Found | None:
    """Return the file that `status_of` has found under this name; nothing is looked at."""
    return _inside.get((os.fspath(root), relative))


def missing(root: str | os.PathLike[str], relative: str, error: OSError) -> OSError:
    """Return the error for a buffer that cannot be there; any other as it is."""
    if error.errno not in _NO_SUCH_FILE:
        return error
    return BufferNotFoundError(
        f"buffer {shown(relative)} does not exist under {os.fspath(root)!r} ({error.strerror})"
    )


# Nor is there one under a name too long, behind a loop of links, or where a socket lies.
_NO_SUCH_FILE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.ENXIO,
}


def identity(root: str | os.PathLike[str], relative: str) -> tuple[Any, ...]:
    """Return what changes when a buffer is rewritten; nothing is read.

    Raises
    ------
    BufferNotFoundError, InvalidReferenceError
        As `status_of`.
    """
    if isinstance(root, RemotePath):
        return root.within(relative).version
    found = Identity.of(status_of(root, relative))
    if is_coarse(found.mtime_ns) and not found.is_settled:
        return (*found, uuid.uuid4().hex)  # what is written within this second has the same stamp
    return found


def size_of(root: str | os.PathLike[str], relative: str) -> int:
    """Return the bytes that a buffer holds; nothing is read.

    Raises
    ------
    BufferNotFoundError, InvalidReferenceError
        As `status_of`.
    """
    if isinstance(root, RemotePath):
        return root.within(relative).size
    return status_of(root, relative).st_size
