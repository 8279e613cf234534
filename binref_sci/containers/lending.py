"""Folders lent to a container that runs as somebody else.

Where the caller is root, a container runs as a user without rights, who could not write into
the caller's folder. So the folder is made over to that user while containers use it; what
they have written becomes the caller's when the last of them has ended.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from binref_sci.containers.layout import USER
from binref_sci.errors import PayloadError


def lend(folder: Path, stack: ExitStack) -> dict[str, Any] | None:
    """Make sure that a container can write into `folder`, which is made if it is missing.

    Parameters
    ----------
    folder
        The output path.
    stack
        Closes our end of the lock that says that a container uses the folder.

    Returns
    -------
    dict
        What a keeper has to know to give the folder back; None if there is no need.

    Raises
    ------
    PayloadError
        If it cannot be made, or made over.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            return None
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one that is just being given back
        found = os.fstat(lock)
        caller = [os.geteuid(), os.getegid()]
        former = caller if found.st_uid == USER else [found.st_uid, found.st_gid]
        os.chown(lock, USER, -1)
    except OSError as error:
        raise PayloadError(
            f"cannot make the output path {str(folder)!r} ready for a container: "
            f"{error.strerror or error}"
        ) from error
    return {
        "folder": str(folder),
        "lock": lock,
        "user": USER,
        "owner": caller,
        "former": former,
    }
