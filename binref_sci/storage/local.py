"""Buffers on disk.

Reads are positioned (``preadv``), checked against the file's size before the first
byte, and keep no descriptor. Paths are confined to a root by `confine`, and nowhere
else.
"""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import (
    BufferNotFoundError,
    FormatError,
    InvalidReferenceError,
    TruncatedBufferError,
)
from binref_sci.storage.fetching import Fetching
from binref_sci.storage.remote import RemotePath

Root = str | RemotePath
"""Directory that references are relative to: an absolute path, or a folder of a store."""

BUFFER_SUFFIX = ".bin"

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+:/")


class Identity(NamedTuple):
    """What tells one file from the next under the same name."""

    device: int
    inode: int
    size: int
    mtime_ns: int


def place_of(root: Root) -> Path | RemotePath:
    """Return a directory as a path."""
    return root if isinstance(root, RemotePath) else Path(root)


def root_of(place: Path | RemotePath) -> Root:
    """Return a path as the directory that references are relative to."""
    return place if isinstance(place, RemotePath) else os.fspath(place)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a URL, or was one before it became a `Path`.

    Examples
    --------
    >>> is_url("s3://bucket/run"), is_url(Path("s3://bucket/run")), is_url("run:1/a")
    (True, True, False)
    """
    return _URL.match(os.fspath(path)) is not None


def local_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local folder; ``~`` is home, ``file://`` the disk itself.

    Raises
    ------
    FormatError
        If it is empty, or a URL: buffers are written in place, which no store lets one do.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"the path must be text, got {text!r}")
    text = text.removeprefix("file://")
    if not text:
        raise FormatError("the path is empty; '.' is the working directory")
    if is_url(text):
        raise FormatError(
            f"{text!r} is a URL, and parts of an object cannot be written in place: name a local "
            "folder, and upload it afterwards, run.json last (How to: Open and keep runs at URLs)"
        )
    return os.path.abspath(os.path.expanduser(text))


def made_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local folder, which is made if it is missing.

    Raises
    ------
    FormatError
        If it is a file, or lies in one; and as `local_folder`.
    """
    folder = local_folder(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FormatError(
            f"{folder!r} cannot be a folder to write into: there is a file of this name, or of one "
            "that it should lie in"
        ) from error
    return folder


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
        return _identity(os.fstat(self.fd))

    def read(self, offsets: NDArray[np.int64], nbytes: int, out: memoryview) -> None:
        """Fill `out` with `nbytes` at each of `offsets`, one after another."""
        for number, offset in enumerate(offsets.tolist()):
            read_into(self, offset, out[number * nbytes : (number + 1) * nbytes])

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def confine(root: str | os.PathLike[str], relative: str) -> str:
    """Return the real path of a buffer, or refuse one outside `root`.

    Parameters
    ----------
    root
        Directory that references are relative to; may itself be a link.
    relative
        Path from the wire or from a journal, with ``/`` between folders.

    Raises
    ------
    InvalidReferenceError
        For absolute paths, URLs, ``..`` and links that lead outside, and names
        that no file can have.

    Examples
    --------
    >>> confine("/", "a/../b.bin")
    '/b.bin'
    """
    if not relative or "\0" in relative:
        raise InvalidReferenceError(f"buffer path {relative!r} is not a file name")
    # A backslash separates folders on Windows alone; references never hold one that does.
    if relative.startswith("/") or "://" in relative or "\\" in relative:
        raise InvalidReferenceError(
            f"buffer path must be relative to {os.fspath(root)!r}, with '/' between folders, "
            f"got {relative!r}"
        )
    lexical = posixpath.normpath(relative)
    real_root = os.path.realpath(root)
    try:
        real = os.path.realpath(os.path.join(real_root, lexical))
    except (OSError, ValueError) as error:
        raise InvalidReferenceError(f"buffer path {relative!r} cannot be resolved") from error
    inside = real_root.rstrip("/") + "/"
    if (lexical.startswith("..") and lexical[2:3] in ("", "/")) or not real.startswith(inside):
        raise InvalidReferenceError(
            f"buffer path must stay under {real_root!r}, but {relative!r} leads outside it"
        )
    return real


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
    known = _inside.get((os.fspath(root), relative))
    if known is not None:
        path, inode, device, mode = known
        try:
            fd = os.open(path, _READING)
        except OSError:
            fd = -1
        if fd >= 0:
            status = os.fstat(fd)
            if status.st_ino == inode and status.st_dev == device and status.st_mode == mode:
                return OpenBuffer(fd, status.st_size, path)
            os.close(fd)  # another file than the one that was found inside its root
    path = confine(root, relative)
    try:
        fd = os.open(path, _READING)
    except OSError as error:
        raise _missing(root, relative, error) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise BufferNotFoundError(f"buffer {path!r} is not a regular file")
    return OpenBuffer(fd, status.st_size, path)


# O_NONBLOCK: a fifo under this name must not hang the reader. O_NOFOLLOW: a link that has
# come since the path was confined leads who knows where.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


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
        path, inode, device, mode = known
        try:
            status = os.stat(path)
        except OSError:
            _inside.pop(key, None)
        else:
            if status.st_ino == inode and status.st_dev == device and status.st_mode == mode:
                return status
    real = confine(root, relative)
    try:
        status = os.stat(real)
    except OSError as error:
        raise _missing(root, relative, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise BufferNotFoundError(f"buffer {real!r} is not a regular file")
    if len(_inside) >= _REMEMBERED:
        _inside.clear()
    path = os.path.join(key[0], relative)
    _inside[key] = (path, status.st_ino, status.st_dev, status.st_mode)
    return status


_REMEMBERED = 4096
_inside: dict[tuple[str, str], tuple[str, int, int, int]] = {}


def is_known(root: str, relative: str) -> bool:
    """Tell whether `status_of` has found this buffer before; nothing is looked at."""
    return (root, relative) in _inside


def _missing(root: str | os.PathLike[str], relative: str, error: OSError) -> OSError:
    """Return the error for a buffer that cannot be there; any other as it is."""
    if error.errno not in _NO_SUCH_FILE:
        return error
    return BufferNotFoundError(
        f"buffer {relative!r} does not exist under {os.fspath(root)!r} ({error.strerror})"
    )


# ... under a name too long, behind a loop of links, or a socket instead
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
    return _identity(status_of(root, relative))


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


def _identity(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


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
        f"buffer {name!r} holds {found} bytes, but bytes {offset} to {offset + nbytes} are needed; "
        "was the run that wrote it interrupted?"
    )


def read_into(buffer: Buffer, offset: int, target: NDArray[Any] | memoryview) -> None:
    """Fill a C-contiguous `target` from byte `offset` on.

    Raises
    ------
    TruncatedBufferError
        If the file ends first: short data is never padded.
    """
    view = memoryview(target).cast("B") if target.nbytes else memoryview(b"")
    if not isinstance(buffer, OpenBuffer):
        if target.nbytes:
            buffer.read(np.array([offset]), target.nbytes, view)
        return
    done = 0
    while done < len(view):
        # One call moves at most 2 GiB on Linux, and may be cut short anywhere.
        got = os.preadv(buffer.fd, [view[done:] if done else view], offset + done)
        if not got:
            raise truncated(buffer.name, offset, len(view), os.fstat(buffer.fd).st_size)
        done += got


def read_into_many(buffer: OpenBuffer, offset: int, targets: list[NDArray[Any]]) -> None:
    """Fill C-contiguous, non-empty `targets` one after another from byte `offset` on.

    Raises
    ------
    TruncatedBufferError
        If the file ends first.
    """
    for first in range(0, len(targets), _IOV_MAX):
        batch = targets[first : first + _IOV_MAX]
        wanted = sum(target.nbytes for target in batch)
        got = os.preadv(buffer.fd, batch, offset)
        if got < wanted:  # rare: fall back to one by one, which knows where it stopped
            position = offset
            for target in batch:
                read_into(buffer, position, target)
                position += target.nbytes
        offset += wanted


_IOV_MAX = 1024  # what Linux takes in one preadv


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
        if not isinstance(buffer, OpenBuffer):
            raise InvalidReferenceError(f"{buffer.name!r} is no file of this machine to be mapped")
        require(buffer, offset, nbytes)
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(
            buffer.fd, offset - start + nbytes, access=mmap.ACCESS_COPY, offset=start
        )
    return np.frombuffer(mapped, np.uint8, nbytes, offset - start)
