"""Run directories: the folder one call writes into, and what it says about itself.

``run.json`` tells what was called, when and how it ended; ``results.json`` is the
response of a ``json+binref`` call with references relative to the folder, so that it
opens by itself wherever it is moved.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from binref_sci.call import Call
from binref_sci.errors import PayloadError
from binref_sci.folders import local_folder, made_folder
from binref_sci.journal import hold, locked
from binref_sci.naming import (
    PREFIX,
    RESULTS_FILE,
    RUN_FILE,
    SCRATCH_PREFIX,
    checked_run_id,
    is_run_id,
)
from binref_sci.storage import write_atomically

FORMAT: Final = 1


class RunDirectory:
    """The folder of one call.

    Parameters
    ----------
    path
        The folder; made if it is missing.
    output_path
        Folder that references on the wire are relative to, `path` or above it;
        default: `path` itself.
    run_id
        Default: what follows ``run_`` in the folder's name if it is a served call's,
        else a new one.

    Raises
    ------
    FormatError
        If the folder is a URL, or there is a file in its place.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = RunDirectory(Path(folder, "run_7f3c"), output_path=Path(folder))
    ...     run.run_id, run.prefix
    ('7f3c', 'run_7f3c/')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        output_path: str | os.PathLike[str] | None = None,
        run_id: str | None = None,
    ) -> None:
        self.path = _absolute(path)
        self.output_path = self.path if output_path is None else _absolute(output_path)
        if not self.path.is_relative_to(self.output_path):
            raise ValueError(
                f"run directory {self.path} must lie in the output path {self.output_path}"
            )
        if run_id is None and self.path != self.output_path:
            name = self.path.name
            run_id = name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
        self.run_id = checked_run_id(run_id or uuid.uuid4().hex)
        self._made = not self.path.exists()
        made_folder(self.path)
        self.call = Call(self.path, self.output_path, self.run_id, time.time_ns())
        self._facts: dict[str, Any] = {}
        self._lock: int | None = None

    @classmethod
    def new(cls, output_path: str | os.PathLike[str], run_id: str | None = None) -> RunDirectory:
        """Return a new ``run_<id>`` below `output_path`, as for a served call.

        Raises
        ------
        PayloadError
            If `run_id` is not valid.
        FormatError
            If the folder is a URL, or there is a file in its place.
        """
        run_id = checked_run_id(run_id or uuid.uuid4().hex)
        return cls(Path(output_path, PREFIX + run_id), output_path=output_path, run_id=run_id)

    @property
    def prefix(self) -> str:
        """What leads from the output path to this folder, such as ``run_7f3c/``, or nothing."""
        relative = self.path.relative_to(self.output_path).as_posix()
        return "" if relative == "." else f"{relative}/"

    def discard(self) -> None:
        """Take the folder away again if it was made for a call that did not begin."""
        if self._made and not any(self.path.iterdir()):
            self.path.rmdir()

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Say that the call runs; move what an older run left as its result aside.

        The older run's buffers and journals stay, and so does its result, under the
        older run's id.

        Raises
        ------
        PayloadError
            If another call is running in the folder.
        OSError
            If there is no room to say so.
        """
        door = hold(self.path)  # of two that begin at once, one waits here
        try:
            said = self.path / RUN_FILE
            if door is None or (said.is_file() and locked(said)):
                raise PayloadError(
                    f"another call is running in {os.fspath(self.path)!r}; a run directory holds "
                    "one response at a time: wait, or choose another"
                )
            if _facts(said).get("state") == "running":  # it was killed
                _remove_scratch(self.path)
            results = self.path / RESULTS_FILE
            if results.exists():
                results.rename(self._aside())
            self._facts = {
                "format": FORMAT,
                "run_id": self.run_id,
                **facts,
                "started": _now(self.call.started_ns),
                "ended": None,
            }
            self._write("running")
            self._lock = hold(said)  # a reader sees whether this process still lives
            if self._lock is not None:
                _locks.add(self._lock)
        except OSError:
            self.discard()
            raise
        finally:
            if door is not None:
                os.close(door)

    def _aside(self) -> Path:
        try:
            older = str(orjson.loads((self.path / RUN_FILE).read_bytes())["run_id"])
        except (OSError, ValueError, KeyError, TypeError):
            older = ""
        name = f"results-{older if is_run_id(older) else uuid.uuid4().hex}"
        aside = self.path / f"{name}.json"
        # A run id may be used twice, by a caller who gives his own.
        return aside if not aside.exists() else self.path / f"{name}-{uuid.uuid4().hex}.json"

    def end(self, state: str, facts: Mapping[str, Any] | None = None) -> None:
        """Say how the call ended: ``"complete"`` or ``"failed"``."""
        self._facts |= {"ended": _now(time.time_ns()), **(facts or {})}
        try:
            self._write(state)
        finally:
            _let_go(self._lock)

    def write_results(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write ``results.json``; a reader sees it whole or not at all."""
        write_atomically(self.path / RESULTS_FILE, iter(pieces))

    def _write(self, state: str) -> None:
        text = orjson.dumps(self._facts | {"state": state}, option=orjson.OPT_INDENT_2)
        write_atomically(self.path / RUN_FILE, iter([text]))


_locks: set[int] = set()


def _let_go(lock: int | None) -> None:
    if lock in _locks:
        _locks.remove(lock)
        os.close(lock)


def _let_go_all() -> None:
    for lock in list(_locks):
        _let_go(lock)


os.register_at_fork(after_in_child=_let_go_all)  # the call is the parent's


def close_dead_run(path: Path, error: str) -> None:
    """Say in ``run.json`` that a call has failed whose process died before it could.

    Does nothing where the call had said so itself, or had not begun. What it had streamed
    stays; blocks of a Jacobian that were not finished go.
    """
    facts = _facts(path / RUN_FILE)
    if facts.get("state") == "running":
        _remove_scratch(path)  # first: it may be what has filled the disk
        facts |= {"state": "failed", "ended": _now(time.time_ns()), "error": error}
        write_atomically(path / RUN_FILE, iter([orjson.dumps(facts, option=orjson.OPT_INDENT_2)]))


def _facts(said: Path) -> dict[str, Any]:
    """Return what a ``run.json`` says; nothing where there is none, or none that can be read."""
    try:
        facts = orjson.loads(said.read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _remove_scratch(path: Path) -> None:
    """Remove what a call works with and does not leave, but for its process being killed."""
    for each in path.glob(f"{SCRATCH_PREFIX}*"):
        shutil.rmtree(each, ignore_errors=True)


def _absolute(path: str | os.PathLike[str]) -> Path:
    # not resolve(): the folder is named as its user names it, links and all
    return Path(local_folder(path))


def _now(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="microseconds")
