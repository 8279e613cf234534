"""Which writers outside a call belong to one run."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from binref_sci.journal import run_id_of


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
        running = run_id_of(directory)
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
