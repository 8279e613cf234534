"""Read buffers on disk.

Reads are positioned (``preadv``), checked against the file's size before the first
byte, and keep no descriptor.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import BufferNotFoundError, InvalidReferenceError, TruncatedBufferError
from binref_sci.messages import shown
from binref_sci.storage.confinement import confine
from binref_sci.storage.fetching import Fetching
from binref_sci.storage.finding import Identity, found_before, missing
from binref_sci.storage.remote import RemotePath


class Buffer(Protocol):
    """What a read plan needs of a buffer: on disk an `OpenBuffer`, else one of a store."""

    @property
    def size(self) -> int:
        """Bytes it holds, or more where that is not known."""

    @property
    def name(self) -> str:
        """Its path or URL."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells its content from any other."""

    def read(self, offsets: NDArray[np.int64], nbytes: int, out: memoryview) -> None:
        """Fill `out` with `nbytes` at each of `offsets`, one after another."""

    def close(self) -> None:
        """Give back what is open."""


class OpenBuffer(NamedTuple):
    """A buffer open for one read plan."""

    fd: int
    size: int
    name: str

    @classmethod
    def of(cls, fd: int, name: str) -> OpenBuffer:
        """Return the buffer that is open as `fd`."""
        return cls(fd, os.fstat(fd).st_size, name)

    @property
    def identity(self) -> Identity:
        """What tells its content from any other, as of now."""
        return Identity.of(os.fstat(self.fd))

    def read(self, offsets: NDArray[np.int64], nbytes: int, out: memoryview) -> None:
        """Fill `out` with `nbytes` at each of `offsets`, one after another."""
        for number, offset in enumerate(offsets.tolist()):
            read_into(self, offset, out[number * nbytes : (number + 1) * nbytes])

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


@contextmanager
def open_buffer(root: str | os.PathLike[str], relative: str) -> Iterator[Buffer]:
    """Open a buffer for reading; closed when the block ends.

    Raises
    ------
    BufferNotFoundError, InvalidReferenceError
        As `opened_buffer`.
    """
    buffer = opened_buffer(root, relative)
    try:
        yield buffer
    finally:
        buffer.close()


def opened_buffer(root: str | os.PathLike[str], relative: str) -> Buffer:
    """Return a buffer, open for reading; the caller closes it.

    Raises
    ------
    BufferNotFoundError
        If there is no such file, or it is not a regular one.
    InvalidReferenceError
        If the path leads outside `root`.
    """
    if isinstance(root, RemotePath):
        return Fetching(root).buffer(relative)
    known = found_before(root, relative)
    if known is not None:
        try:
            fd = os.open(known.path, _READING)
        except OSError:
            fd = -1
        if fd >= 0:
            status = os.fstat(fd)
            if known.is_still(status):
                return OpenBuffer(fd, status.st_size, known.path)
            os.close(fd)  # another file than the one that was found inside its root
    path = confine(root, relative)
    try:
        fd = os.open(path, _READING)
    except OSError as error:
        raise missing(root, relative, error) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise BufferNotFoundError(f"buffer {shown(path)} is not a regular file")
    return OpenBuffer(fd, status.st_size, path)


# O_NONBLOCK: a fifo under this name must not hang the reader. O_NOFOLLOW: a link that has
# come since the path was confined leads who knows where.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def require(buffer: Buffer, offset: int, nbytes: int) -> None:
    """Check that a buffer holds the bytes a reference asks for.

    Raises
    ------
    TruncatedBufferError
        With the file, the bytes needed and the bytes found.
    """
    if offset < 0 or nbytes < 0 or offset + nbytes > buffer.size:
        raise truncated(buffer.name, offset, nbytes, buffer.size)


def truncated(name: str, offset: int, nbytes: int, found: int) -> TruncatedBufferError:
    """Return the error for a buffer that ends too early."""
    return TruncatedBufferError(
        f"buffer {shown(name)} holds {found} bytes, but bytes {offset} to {offset + nbytes} are needed; "
        "was the run that wrote it interrupted?"
    )


def read_into(buffer: Buffer, offset: int, target: NDArray[Any] | memoryview) -> None:
    """Fill a C-contiguous `target` from byte `offset` on.

    Raises
    ------
    TruncatedBufferError
        If the file ends first: short data is never padded.
    OSError
        As the system reports it, with the file's name.
    """
    view = memoryview(target).cast("B") if target.nbytes else memoryview(b"")
    if not isinstance(buffer, OpenBuffer):
        if target.nbytes:
            buffer.read(np.array([offset]), target.nbytes, view)
        return
    done = 0
    while done < len(view):
        # One call moves at most 2 GiB on Linux, and may be cut short anywhere.
        try:
            got = os.preadv(buffer.fd, [view[done:] if done else view], offset + done)
        except OSError as error:
            raise _named(error, buffer) from error
        if not got:
            raise truncated(buffer.name, offset, len(view), os.fstat(buffer.fd).st_size)
        done += got


def read_into_many(buffer: OpenBuffer, offset: int, targets: list[NDArray[Any]]) -> None:
    """Fill C-contiguous, non-empty `targets` one after another from byte `offset` on.

    Raises
    ------
    TruncatedBufferError, OSError
        As `read_into`.
    """
    for first in range(0, len(targets), _IOV_MAX):
        batch = targets[first : first + _IOV_MAX]
        wanted = sum(target.nbytes for target in batch)
        try:
            got = os.preadv(buffer.fd, batch, offset)
        except OSError as error:
            raise _named(error, buffer) from error
        if got < wanted:  # rare: fall back to one by one, which knows where it stopped
            position = offset
            for target in batch:
                read_into(buffer, position, target)
                position += target.nbytes
        offset += wanted


def _named(error: OSError, buffer: OpenBuffer) -> OSError:
    return OSError(error.errno, error.strerror, buffer.name)


_IOV_MAX = 1024  # what Linux takes in one preadv


def map_buffer(
    root: str | os.PathLike[str], relative: str, offset: int, nbytes: int
) -> NDArray[np.uint8]:
    """Map bytes of a buffer into memory, privately: writing to them changes no file.

    Raises
    ------
    BufferNotFoundError, InvalidReferenceError, TruncatedBufferError
        As for reading.
    """
    with open_buffer(root, relative) as buffer:
        return map_range(buffer, offset, nbytes)


def map_range(buffer: Buffer, offset: int, nbytes: int) -> NDArray[np.uint8]:
    """Map bytes of an open buffer, as `map_buffer`; they stay when it is closed."""
    if not isinstance(buffer, OpenBuffer):
        raise InvalidReferenceError(f"{buffer.name!r} is no file of this machine to be mapped")
    require(buffer, offset, nbytes)
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset - start + nbytes
    try:
        mapped = mmap.mmap(buffer.fd, length, access=mmap.ACCESS_COPY, offset=start)
    except ValueError as error:  # it was cut since it was opened
        raise truncated(buffer.name, offset, nbytes, os.fstat(buffer.fd).st_size) from error
    return np.frombuffer(mapped, np.uint8, nbytes, offset - start)
