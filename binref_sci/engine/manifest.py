"""What ``run.json`` says of a dataset that was saved as a whole: which journals are its variables.

The file is replaced in one step, and nothing that it does not name is shown. So all
variables appear together, and a reader sees the old dataset or the new one.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from binref_sci.errors import JournalError, WriterError
from binref_sci.journal import take_lock
from binref_sci.labels import attrs_from_json, attrs_to_json
from binref_sci.naming import RUN_FILE
from binref_sci.storage import Root, write_atomically

KEY: Final = "dataset"
ROOT: Final = "/"
_PATIENCE: Final = 30.0  # seconds; the lock is held for as long as a small file takes to write


@dataclass(frozen=True)
class Group:
    """One Dataset: the only one, or a node of a tree.

    Parameters
    ----------
    attrs
        Of the Dataset.
    variables
        Name of each variable's journal, by variable.
    coords
        Coordinates that the attribute ``coordinates`` cannot name.
    """

    attrs: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    coords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """All of a saved dataset.

    Parameters
    ----------
    run
        Id of the run, which its journals carry too.
    revision
        Changes with whatever is saved, and tells whether another has saved in between.
    groups
        By path; ``"/"`` is always there.
    started
        When it was first saved.
    """

    run: str
    revision: str
    groups: Mapping[str, Group]
    started: str = ""

    @property
    def journals(self) -> list[str]:
        """Names of all journals."""
        return [name for group in self.groups.values() for name in group.variables.values()]


def new_manifest(groups: Mapping[str, Group]) -> Manifest:
    """Return the manifest of a dataset that is saved for the first time."""
    return Manifest(uuid.uuid4().hex, uuid.uuid4().hex, groups, _now())


def manifest_of(run: Mapping[str, Any], where: Root) -> Manifest | None:
    """Return what ``run.json`` says, or None if it is about something else.

    Raises
    ------
    JournalError
        If it is malformed.
    """
    made = run.get(KEY)
    if made is None:
        return None
    try:
        groups = {path: _group(group) for path, group in made["groups"].items()}
        return Manifest(
            str(run["run_id"]), str(made["revision"]), groups, str(run.get("started", ""))
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise JournalError(
            f"{RUN_FILE} in {where!r}: its entry {KEY!r} is malformed: {error!r}"
        ) from error


def _group(made: Mapping[str, Any]) -> Group:
    return Group(
        attrs_from_json(made.get("attrs", {})),
        {str(name): _plain(journal) for name, journal in made.get("variables", {}).items()},
        tuple(map(str, made.get("coords", ()))),
    )


def _plain(name: str) -> str:
    if not name or "\0" in name or Path(name).name != name:
        raise ValueError(f"journal {name!r} is no file of this folder")
    return name


def read_manifest(directory: str | os.PathLike[str]) -> Manifest | None:
    """Return the manifest of a folder; None if it has none.

    Raises
    ------
    JournalError
        If it is malformed.
    """
    try:
        run = orjson.loads(Path(directory, RUN_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return manifest_of(run, os.fspath(directory)) if isinstance(run, dict) else None


def write_manifest(directory: str, manifest: Manifest, *, sync: bool) -> None:
    """Publish: from here on this is what opens."""
    groups = {
        path: {
            "attrs": attrs_to_json(group.attrs),
            "variables": dict(group.variables),
            "coords": list(group.coords),
        }
        for path, group in manifest.groups.items()
    }
    run = {
        "run_id": manifest.run,
        "endpoint": "to_binref",
        "started": manifest.started,
        "ended": _now(),
        "state": "complete",
        KEY: {"revision": uuid.uuid4().hex, "groups": groups},
    }
    text = orjson.dumps(run, option=orjson.OPT_INDENT_2)
    write_atomically(Path(directory, RUN_FILE), iter([text]), sync=sync)


def replace_manifest(
    directory: str, before: Manifest, after: Manifest | None, *, sync: bool
) -> None:
    """Publish in place of an older one.

    Parameters
    ----------
    before
        What the new one was made from.
    after
        The new one; None: the same variables, whose data has changed.

    Raises
    ------
    WriterError
        If another has saved in between: nothing is replaced.
    """
    with _locked(directory):
        now = read_manifest(directory)
        if after is None:
            same = now is not None and now.run == before.run
            after = now
        else:
            same = now is not None and now.revision == before.revision
        if not same or after is None:
            raise WriterError(
                f"{directory!r} was saved by another to_binref in the meantime; what it has "
                "written is kept, this call has changed nothing: open it again and repeat"
            )
        write_manifest(directory, replace(after, started=before.started), sync=sync)


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _PATIENCE
        while not take_lock(fd):
            if time.monotonic() > until:
                raise WriterError(
                    f"{directory!r} has been locked by another to_binref for {_PATIENCE:.0f} s"
                )
            time.sleep(0.002)
        yield
    finally:
        os.close(fd)


def _now() -> str:
    return datetime.now(UTC).isoformat()
