"""Which writers outside a call belong to one run."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path
from typing import Any

import orjson

from binref_sci.call import running_call
from binref_sci.naming import RUN_FILE


class Runs:
    """Which writers made outside a call belong together.

    Those of one directory do, as long as their names differ: a name that comes again
    is a rerun, and begins the next run. Blocks of one name are one variable.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, set[tuple[str | None, Any]]]] = {}

    def join(
        self, directory: str, name: str | None, block: Any, *, going_on: str | None = None
    ) -> str:
        """Return the run id for a writer: a new one, or one `going_on` with an older run."""
        running = _running_call(directory)
        if running is not None:
            return running
        with self._lock:
            run, members = self._known.get(directory, ("", set()))
            again = going_on is None and name is not None and (name, block) in members
            if not run or again:
                run, members = going_on or uuid.uuid4().hex, set()
                self._known[directory] = (run, members)
            members.add((name, block))
            return run


known_runs = Runs()
"""Those of this process."""


def run_of_call(directory: str) -> str:
    """Return the run of the running call if a writer writes into its run directory, else ""."""
    call = running_call()
    if call is None or os.path.abspath(call.run_directory) != directory:
        return ""
    return call.run_id


def _running_call(directory: str) -> str | None:
    """Return the id of the call that is running in a directory, as its ``run.json`` says."""
    try:
        content = orjson.loads(Path(directory, RUN_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("state") != "running":
        return None
    run = content.get("run_id")
    return run if isinstance(run, str) else None
