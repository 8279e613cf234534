"""Runs one container and ends it: a process beside its caller, which it outlives.

It is run as a script, by itself: it knows the standard library only, starts in a moment, and
holds little memory. The caller holds two pipes open. When it lets go of the first, or ends in
whatever way, the container ends; when it lets go of the second, the scratch folder goes. Nothing
of this needs the caller to be there still, and nothing else ends a container.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

KEPT_BYTES = 8 << 20  # of the log; then it begins again
REMOVE_SECONDS = 60.0  # for the engine to remove a container
# conmon, podman's monitor, leaves a file "oom" where it was started; there it cannot.
NOWHERE = "/proc" if sys.platform == "linux" else None
FEW_SECONDS = 0.1  # between looks, where the system cannot tell that a process has ended


def main(order: dict[str, Any]) -> None:
    """Run a container until it ends or nobody wants it.

    Parameters
    ----------
    order
        Commands: ``run`` and ``remove``. Descriptors: ``stdin`` and ``stdout`` of the first
        (``stdout`` may be null, then it goes to the log), ``log``, ``status`` that its exit
        code is written to, and ``life`` and ``scratch_life``, the reading ends of the pipes.
        ``caller`` is a process id, ``grace`` the seconds from the end of life to a removal by
        force, ``bounded`` whether the log is a file to be kept short. ``scratch`` is a folder
        to be removed, ``owned`` tells of files to be given back (see `give_back`); both may
        be null.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # not ignored: that would be inherited
    caller = _Caller(order["caller"])
    process = subprocess.Popen(
        order["run"],
        cwd=NOWHERE,
        stdin=order["stdin"],
        stdout=subprocess.PIPE if order["stdout"] is None else order["stdout"],
        stderr=subprocess.STDOUT if order["stdout"] is None else subprocess.PIPE,
        start_new_session=True,
    )
    for name in ("stdin", "stdout"):
        if order[name] is not None:
            os.close(order[name])
    output = process.stdout or process.stderr
    if output is not None:
        _follow(process, output.fileno(), caller, order)
    # By force after a good end, too: then there is nothing to remove, and this says so.
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            order["remove"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=REMOVE_SECONDS,
            check=False,
        )
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if order["owned"] is not None:
        give_back(**order["owned"])
    with suppress(OSError):  # nobody is there
        os.write(order["status"], b"%d\n" % code)
    os.close(order["status"])
    if order["scratch"] is not None:
        life = order["scratch_life"]
        while not caller.has_left(life, _ready([life, caller.watch], None)):
            pass
        shutil.rmtree(order["scratch"], ignore_errors=True)


def _watch(number: int) -> int:
    """Return a descriptor that is ready when a process has ended; -1 elsewhere than on Linux."""
    try:
        return os.pidfd_open(number)
    except (AttributeError, OSError):
        return -1


class _Caller:
    """The process that wants the container, our parent."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.watch = _watch(number)

    def has_left(self, pipe: int, ready: list[int]) -> bool:
        """Whether it has closed its end of a pipe, or written to it, or has ended."""
        return os.getppid() != self._number or pipe in ready


def _ready(descriptors: list[int], seconds: float | None) -> list[int]:
    """Wait for some of the descriptors; not for long if there is one that cannot be had."""
    real = [each for each in descriptors if each >= 0]
    if len(real) < len(descriptors):
        seconds = FEW_SECONDS if seconds is None else min(seconds, FEW_SECONDS)
    poller = select.poll()  # select() knows no descriptor over 1023, and a caller may have more
    for each in real:
        poller.register(each, select.POLLIN)
    return [each for each, _ in poller.poll(None if seconds is None else 1000 * seconds)]


def _follow(
    process: subprocess.Popen[bytes], output: int, caller: _Caller, order: dict[str, Any]
) -> None:
    """Write the log until the container has ended, or its time is over."""
    child = _watch(process.pid)
    wanted = [output, child, caller.watch, order["life"]]
    written = 0
    deadline: float | None = None
    while True:
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = _ready(wanted, seconds)
        if output in ready:
            piece = os.read(output, 65536)
            if not piece:
                return
            written = _log(order, piece, written)
        elif process.poll() is not None:  # others may hold its output open
            return
        if deadline is None and caller.has_left(order["life"], ready):
            deadline = time.monotonic() + order["grace"]
            wanted = [output, child]
        elif deadline is not None and time.monotonic() >= deadline:
            return


def _log(order: dict[str, Any], piece: bytes, written: int) -> int:
    if order["bounded"] and written > KEPT_BYTES:
        os.ftruncate(order["log"], 0)
        written = 0
    with suppress(OSError):  # a terminal that has been closed, a full disk
        while piece:
            count = os.write(order["log"], piece)
            written += count
            piece = piece[count:]
    return written


def give_back(
    folder: str, mark: str, lock: int, user: int, owner: list[int], former: list[int]
) -> None:
    """Make files of `user` in `folder` the `owner`'s, and the folder its former owner's.

    Unless another container still writes there: then its keeper will do it. No link is
    followed.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return
    with suppress(OSError):  # a scratch folder may have gone
        for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
            for name in (*folders, *files):
                with suppress(OSError):
                    if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid == user:
                        os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)
    with suppress(OSError):
        os.chown(folder, *former)
    with suppress(OSError):
        os.unlink(mark)  # noqa: PTH108  # a Path would have to be imported for it
    os.close(lock)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
