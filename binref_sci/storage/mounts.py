"""The file system that an open file lies on."""

from __future__ import annotations

from pathlib import Path


def filesystem_of(fd: int) -> str:
    """Return the type of an open file's file system as Linux names it; ``""`` if it is not told.

    By the number of its mount (``/proc/self/fdinfo``), which names one line of
    ``/proc/self/mountinfo``; both of proc(5). Device numbers would not do: btrfs has one for
    each subvolume.

    Examples
    --------
    >>> import os
    >>> with open(os.devnull) as file:
    ...     filesystem_of(file.fileno()) in ("devtmpfs", "tmpfs", "")
    True
    """
    try:
        about = Path(f"/proc/self/fdinfo/{fd}").read_text("ascii")
        mounts = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return ""
    asked = next((line[7:].strip() for line in about.splitlines() if line[:7] == "mnt_id:"), "")
    for line in mounts.splitlines():
        fields = line.split()  # spaces in paths are written as \040
        if fields[0].decode() == asked:
            return fields[fields.index(b"-", 6) + 1].decode()
    return ""  # a mount that is not of this process's namespace
