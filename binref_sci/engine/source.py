"""What a path names: a run directory, an output path, a result or a journal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from binref_sci.engine.manifest import manifest_of
from binref_sci.errors import BufferNotFoundError, FormatError
from binref_sci.journal import MAGIC, RUN_FILE, SUFFIX, locked

RESULTS_FILE: Final = "results.json"

_SNIFFED = 256  # bytes of a file that tell what it is
_EXPECTED = f"expected {RESULTS_FILE}, {RUN_FILE} or journals (*{SUFFIX})"


@dataclass(frozen=True)
class Source:
    """Where a run lies.

    Parameters
    ----------
    path
        What was asked for, absolute.
    directory
        What references are relative to, absolute.
    results
        The response, if there is one.
    journals
        All journals to be looked at, of any run.
    run
        Content of ``run.json``; empty if there is none.
    """

    path: str
    directory: str
    results: Path | None = None
    journals: tuple[Path, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def started_ns(self) -> int:
        """When the call of ``run.json`` began; 0 if that is not known."""
        return _started_ns(self.run)

    @property
    def call_lives(self) -> bool:
        """Whether a process holds ``run.json``: it says "running" for ever if one is killed."""
        return locked(Path(self.directory, RUN_FILE))


def find(source: str | os.PathLike[str]) -> Source:
    """Return what lies at a path.

    Raises
    ------
    BufferNotFoundError
        If nothing does.
    FormatError
        If it is something else; says what was found.
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"expected the path of one run directory, {RESULTS_FILE} or journal, got {source!r}"
        )
    text = os.fspath(source)
    if not isinstance(text, str):
        raise TypeError(f"the path must be text, got {text!r}")
    if "://" in text:
        raise FormatError(f"{text!r} is a URL; only local folders can be opened so far")
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        return _directory(path)
    if not path.exists():
        raise BufferNotFoundError(f"there is no file or folder {os.fspath(path)!r}")
    if path.name in (RESULTS_FILE, RUN_FILE):  # stands for its folder
        found = run_directory(path.parent)
        return Source(os.fspath(path), found.directory, found.results, found.journals, found.run)
    return _file(path)


def _file(path: Path) -> Source:
    with path.open("rb") as file:
        head = file.read(_SNIFFED)
    given, directory = os.fspath(path), os.fspath(path.parent)
    if path.name.endswith(SUFFIX) or head.startswith(b'{"%s"' % MAGIC.encode()):
        return Source(given, directory, journals=(path,))
    if not head.lstrip().startswith(b"{"):
        hint = "; open the folder it lies in" if path.suffix == ".bin" else ""
        raise FormatError(
            f"{given!r} is neither a result nor a journal: {_EXPECTED}, found a file that begins "
            f"with {head[:16]!r}{hint}"
        )
    return Source(given, directory, results=path, run={})


def _directory(path: Path) -> Source:
    if is_run_directory(path):
        return run_directory(path)
    runs = list(_runs_in(path))
    if not runs:
        entries = sorted(entry.name for entry in path.iterdir())
        shown = ", ".join(entries[:5]) + (", …" if len(entries) > 5 else "")
        raise FormatError(
            f"folder {os.fspath(path)!r} is no run directory and holds none: {_EXPECTED}, found "
            f"{f'{len(entries)} entries ({shown})' if entries else 'nothing'}"
        )
    return run_directory(max(runs, key=_age))


def is_run_directory(path: Path) -> bool:
    """Tell whether a folder holds what one call, or a writer on its own, has written."""
    return (
        (path / RUN_FILE).is_file()
        or (path / RESULTS_FILE).is_file()
        or next(path.glob(f"*{SUFFIX}"), None) is not None
    )


def _runs_in(path: Path) -> Iterator[Path]:
    for entry in path.iterdir():
        # One that begins with a dot is still being written.
        if entry.is_dir() and not entry.name.startswith(".") and is_run_directory(entry):
            yield entry


def _age(path: Path) -> tuple[int, str]:
    started = _started_ns(_run(path))
    if not started:
        started = max((journal.stat().st_mtime_ns for journal in path.iterdir()), default=0)
    return started, path.name


def run_directory(path: Path) -> Source:
    """Return what lies in a run directory."""
    results, run = path / RESULTS_FILE, _run(path)
    manifest = manifest_of(run, os.fspath(path))
    return Source(
        os.fspath(path),
        os.fspath(path),
        results if results.is_file() else None,
        tuple(sorted(path.glob(f"*{SUFFIX}")))
        if manifest is None
        else tuple(sorted(path / name for name in manifest.journals)),
        run,
    )


def _run(path: Path) -> Mapping[str, Any]:
    """Return the content of ``run.json``; empty if there is none, or another program's."""
    try:
        content = orjson.loads((path / RUN_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _started_ns(run: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(run["started"]).timestamp() * 1e9)
    except (KeyError, TypeError, ValueError):
        return 0
