"""tesseract-core, unpatched, in an environment and a process of its own.

It is asked to do one round at a time, so that its rounds stand between ours. Made once
and kept in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REQUIREMENT = "tesseract-core[runtime]==1.15.0"


def environment() -> Path:
    """Return the interpreter of the peer's environment, made if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    home = cache / "binref-sci" / f"peer-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    done = home / "installed"
    if not done.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", REQUIREMENT], check=True)
        done.touch()
    return python


class Peer:
    """A process of the peer that does rounds on demand."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Peer]:
        """Start the process; it ends with the block."""
        script = Path(__file__).with_name("peer_rounds.py")
        with subprocess.Popen(
            [environment(), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield cls(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()

    def ask(self, work: str, **arguments: Any) -> float:
        """Do one round of `work`; return the seconds it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"work": work, **arguments}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer's process ended during {work!r}")
        return float(json.loads(answer))
