"""A worker process, started; what it says is read by `binref_sci.server.process`.

Apart from that, so that the first worker loads NumPy and the component while this process
still imports what speaks HTTP.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binref_sci.server import channel
from binref_sci.server.channel import Settings

# -c and not -m: -m puts the working directory in front of sys.path, where a file
# called `random.py` would be taken for the standard library's. -P keeps it out.
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from binref_sci.server.worker import main; main(sys.argv[2:])"
)
_PACKAGE_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Launched:
    """A worker process and our end of its channel."""

    process: subprocess.Popen[bytes]
    connection: socket.socket

    def discard(self) -> None:
        """End the process, which nobody has talked to."""
        self.connection.close()
        kill_group(self.process.pid)
        self.process.wait()


def launch(settings: Settings) -> Launched:
    """Start a worker.

    Raises
    ------
    OSError
        If there can be no further process.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _START,
                    str(_PACKAGE_ROOT),
                    str(theirs.fileno()),
                    str(os.getpid()),
                    channel.settings_to_text(settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else None,
                pass_fds=(theirs.fileno(),),
                # Its own session: Ctrl-C at the terminal reaches the HTTP process only,
                # which lets running calls finish.
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return Launched(process, ours)


def kill_group(group: int) -> None:
    """End all processes of a group at once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _has_descriptor(stream: Any) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True
