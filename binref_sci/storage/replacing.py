"""Put whole files in the place of others, so that a reader sees the old or the new."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make names created in `directory` survive a loss of power."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_LOOKS: Final = 3  # in which nothing has come anew
_LONGEST_S: Final = 10.0


def hidden_beside(place: Path, suffix: str = ".partial") -> Path:
    """Return a name of its own for what will take the place of a file or folder.

    Hidden, since nobody is to open it, and no longer than a name may be.
    """
    return place.with_name(f".{place.name[:40]}.{uuid.uuid4().hex}{suffix}")


@contextmanager
def taking_place(place: Path, suffix: str = ".partial") -> Iterator[Path]:
    """Give a path beside `place`: what is made there takes its name in the end, or is removed.

    Parameters
    ----------
    place
        What bears the name now stays until then.
    suffix
        What the path ends in, for formats that are told by it.

    Raises
    ------
    OSError
        If what was made cannot be given the name.

    Examples
    --------
    >>> with taking_place(Path("film.gif"), ".gif") as partial:
    ...     _ = partial.write_bytes(b"GIF89a")
    >>> os.listdir()
    ['film.gif']
    """
    partial = hidden_beside(place, suffix)
    try:
        yield partial
        _put_in_place(partial, place)
    except BaseException:
        discard(partial)
        raise


def _put_in_place(made: Path, place: Path) -> None:
    """Give a finished file or folder its name; what had it before goes, once that is done.

    Raises
    ------
    OSError
        If it cannot be; then what was there before is there again.
    """
    if not place.is_dir():
        made.replace(place)
        return
    before = hidden_beside(place)  # no system call that all disks have puts a folder over another
    try:
        place.rename(before)
        made.rename(place)
    except BaseException as error:
        if before.exists():
            try:
                before.rename(place)
            except OSError:  # somebody else has taken the name
                error.add_note(f"what was there before is in {os.fspath(before)!r}")
        raise
    try:
        shutil.rmtree(before)
    except BaseException:
        shutil.rmtree(before, ignore_errors=True)  # as much of it as can be
        raise


def discard(made: Path) -> None:
    """Remove an unfinished file or folder, also one that threads still write into.

    What was interrupted does not end at once: each thread finishes the chunk that it is at,
    and makes the folder anew for it.
    """
    looks = _LOOKS if made.exists() else 0
    last = time.monotonic() + _LONGEST_S
    while looks and time.monotonic() < last:
        if made.is_dir():
            shutil.rmtree(made, ignore_errors=True)
        else:
            with suppress(OSError):  # why it is discarded is the error that counts
                made.unlink(missing_ok=True)
        time.sleep(0.05)
        looks = _LOOKS if made.exists() else looks - 1


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
