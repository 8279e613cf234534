"""Write buffers in place: each of a name of its own, its bytes at offsets."""

from __future__ import annotations

import os
import uuid
from typing import Any

from numpy.typing import NDArray

BUFFER_SUFFIX = ".bin"


def create_buffer(
    directory: str | os.PathLike[str], suffix: str = BUFFER_SUFFIX
) -> tuple[str, int]:
    """Create a new, empty buffer; return its name and a descriptor to write with.

    The name is random and the file is created exclusively: no two writers share
    one, across threads, processes and forks.
    """
    name = uuid.uuid4().hex + suffix
    path = os.path.join(directory, name)
    return name, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def write_at(fd: int, data: NDArray[Any] | bytes, offset: int) -> None:
    """Write all of `data`, C-contiguous, at `offset`.

    Raises
    ------
    OSError
        As the system reports it, with the file's name; bytes after `offset` are then undefined, and the
        next write at the same place repairs them.
    """
    nbytes = data.nbytes if not isinstance(data, bytes) else len(data)
    if not nbytes:
        return
    try:
        done = os.pwrite(fd, data, offset)
        if done == nbytes:
            return
        view = memoryview(data).cast("B")
        while done < nbytes:
            done += os.pwrite(fd, view[done:], offset + done)
    except OSError as error:
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            raise error from None
        raise OSError(error.errno, error.strerror, name) from error
