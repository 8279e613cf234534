"""Files that nobody cuts while they are mapped."""

from __future__ import annotations

import fcntl
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from binref_sci.storage.mounts import filesystem_of
from binref_sci.storage.reading import Buffer, OpenBuffer

_LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs"})
"""File systems where the system sees whoever would cut a file.

FUSE grants leases too, but what lies behind it (another machine, or the host of a virtual
one) cuts files without asking.
"""


@contextmanager
def kept_whole(buffer: Buffer) -> Iterator[Callable[[], bool]]:
    """Have the system keep a file as long as it is; gives a function that tells if it still does.

    What reads a mapped file behind its end is killed, so it must not be cut meanwhile. Under
    a lease (``F_RDLCK``, fcntl(2)) whoever opens the file for writing, or cuts it, waits until
    the lease is given back, which the function does when it is asked then; for no longer than
    ``/proc/sys/fs/lease-break-time``, 45 s as a rule. So it is to be asked again every few
    seconds at least. Who opens with ``O_NONBLOCK`` gets ``EAGAIN``. There is no lease on what
    somebody has open for writing, on another's file, outside of Linux, and none is asked for
    where file systems are not local.

    Parameters
    ----------
    buffer
        Open while this lasts.
    """
    if not isinstance(buffer, OpenBuffer) or not _may_be_kept(buffer.fd):
        yield lambda: False
        return
    fd = buffer.fd

    def is_kept() -> bool:
        if fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_RDLCK:
            return True
        _give_back(fd)
        return False

    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # ignored; SIGIO would end the process
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETOWN, 0)  # no signal at all: this process may have a handler
    try:
        yield is_kept
    finally:
        _give_back(fd)


def _may_be_kept(fd: int) -> bool:
    return sys.platform == "linux" and filesystem_of(fd) in _LOCAL


def _give_back(fd: int) -> None:
    with suppress(OSError):  # there is none any more
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
