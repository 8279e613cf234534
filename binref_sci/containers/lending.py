"""Folders lent to a container that runs as somebody else.

Where the caller is root, a container runs as a user without rights, who could not write into
the caller's folder. So the folder is made over to that user while containers use it; what
they have written becomes the caller's when the last of them has ended. A file in the folder
says whose it was, and a lock on that file that a container is there.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from binref_sci.containers import keeper
from binref_sci.containers.layout import USER
from binref_sci.errors import PayloadError
from binref_sci.folders import made_folder

LENT: Final = ".binref-sci-lent"


def lend(folder: Path, stack: ExitStack) -> dict[str, Any] | None:
    """Make sure that a container can write into `folder`, which is made if it is missing.

    Parameters
    ----------
    folder
        The output path.
    stack
        Closes our end of the lock.

    Returns
    -------
    dict
        What a keeper has to know to give the folder back; None if there is no need.

    Raises
    ------
    PayloadError
        If it cannot be made, or made over.
    FormatError
        If there is a file in its place.
    """
    try:
        made_folder(folder)
        if os.geteuid() != 0:
            return None
        mark = folder / LENT
        lock = _locked(mark, stack)
        found = folder.stat()
        former = [found.st_uid, found.st_gid]
        with suppress(OSError, ValueError, TypeError):  # the first to use it
            uid, gid = json.loads(os.pread(lock, 1000, 0))
            former = [int(uid), int(gid)]
        os.pwrite(lock, json.dumps(former).encode(), 0)
        os.chown(folder, USER, -1)
    except OSError as error:
        raise PayloadError(
            f"cannot make the output path {str(folder)!r} ready for a container: "
            f"{error.strerror or error}"
        ) from error
    return {
        "folder": str(folder),
        "mark": str(mark),
        "lock": lock,
        "user": USER,
        "owner": [os.geteuid(), os.getegid()],
        "former": former,
    }


def take_back(owned: dict[str, Any]) -> None:
    """Give a folder back in place of a keeper that was killed.

    Parameters
    ----------
    owned
        What `lend` has returned.
    """
    with suppress(OSError):  # there is none: it has been given back
        lock = os.open(owned["mark"], os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        keeper.give_back(**owned | {"lock": lock})


def check_input(folder: Path) -> None:
    """Check that a container can read `folder`.

    Raises
    ------
    PayloadError
        If it is missing, or the user that the container runs as may not look into it.
    """
    if not folder.is_dir():
        raise PayloadError(f"input path {str(folder)!r} is not a folder, or does not exist")
    if os.geteuid() != 0:
        return
    found = folder.stat()
    shift = 6 if found.st_uid == USER else 3 if found.st_gid == USER else 0
    if (found.st_mode >> shift) & 0o5 != 0o5:
        raise PayloadError(
            f"input path {str(folder)!r} has mode {found.st_mode & 0o777:04o}, and a container that "
            f"root starts runs as user {USER}, who may not read there; chmod -R o+rX lets it"
        )


def _locked(mark: Path, stack: ExitStack) -> int:
    """Return a descriptor of the file, shared with others who use the folder."""
    while True:
        lock = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one that is just giving back
        if os.fstat(lock).st_nlink:
            stack.callback(os.close, lock)
            return lock
        os.close(lock)  # it has been given back: again
