"""Which journals are shown, and under which names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import orjson

from binref_sci.engine.source import AnyPath, Source, first_line, modified_ns
from binref_sci.errors import BinrefError, BufferNotFoundError, JournalError
from binref_sci.journal import MAGIC, Journal, State, read_journal
from binref_sci.storage import may_be_from

UNNAMED: Final = "snapshots"
"""What the snapshots of a writer without a name are called."""

_CLOCK_GRAIN_NS: Final = 20_000_000
"""How much older than its call a journal may say it is: ``run.json`` keeps microseconds."""


@dataclass(frozen=True)
class Head:
    """What the first line of a journal says about its run."""

    path: AnyPath
    run: str
    created_ns: int


def heads(source: Source) -> list[Head]:
    """Read the first line of each journal; no buffer is looked at.

    A program that knows nothing of runs names none in its journal: it is then one of the
    call that it was written in.
    """
    return [_adopted(_head(path), source) for path in source.journals]


def _adopted(head: Head, source: Source) -> Head:
    run_id = source.run.get("run_id")
    if head.run or not run_id:
        return head
    written = modified_ns(head.path)
    if not may_be_from(written, source.started_ns):
        return head  # an older run's
    return replace(head, run=str(run_id), created_ns=max(written, source.started_ns))


def _head(path: AnyPath) -> Head:
    line = first_line(path)
    try:
        made = orjson.loads(line)
        if MAGIC not in made:
            raise KeyError(MAGIC)
        return Head(path, str(made.get("run", "")), int(made.get("created_ns", 0)))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise JournalError(
            f"{os.fspath(path)!r} is not a journal: its first line begins with {line[:40]!r}"
        ) from error


def newest_run(found: Sequence[Head], source: Source) -> list[Head]:
    """Return the journals of the newest run, oldest first.

    That is the call of ``run.json``, unless a writer outside of a call came later.
    """
    if not found:
        return []
    run_id, started = str(source.run.get("run_id", "")), source.started_ns
    last = max(found, key=lambda head: head.created_ns)
    newest = last.run
    # A call that is done counts from its start: writers on their own come after its end.
    if run_id and (last.created_ns < started - _CLOCK_GRAIN_NS or last.run == run_id):
        newest = run_id
    members = [head for head in found if head.run == newest]
    if newest == run_id:  # a run id may be used again; older writers are an older run's
        members = [head for head in members if head.created_ns >= started - _CLOCK_GRAIN_NS]
    return sorted(members, key=lambda head: (head.created_ns, head.path.name))


def follows_results(members: Sequence[Head], source: Source) -> bool:
    """Tell whether the newest run is that of ``results.json``."""
    run_id = source.run.get("run_id")
    return run_id is None or not members or members[0].run == run_id


def read(head: Head) -> Journal:
    """Read a journal that is to be shown.

    Raises
    ------
    BufferNotFoundError, JournalError
        Naming the journal too.
    """
    try:
        return read_journal(head.path)
    except BufferNotFoundError as error:
        raise BufferNotFoundError(f"journal {head.path.name!r}: {error}") from error


def read_if_possible(head: Head) -> Journal | None:
    """Read a journal that may lend labels; an older run's may have lost its buffers."""
    try:
        return read_journal(head.path)
    except BinrefError:
        return None


def named(journals: Sequence[Journal]) -> dict[str, list[Journal]]:
    """Return journals by the name they are shown under; several are blocks of one field.

    The oldest of a name has it as it is; others of the same name, a forked child's
    for one, get the first digits of their id behind it.
    """
    groups: dict[str, list[list[Journal]]] = {}
    for journal in journals:
        name = journal.header.name or UNNAMED
        mine = groups.setdefault(name, [])
        block, parent = journal.header.block, journal.header.forked_from
        if block is not None and parent is None:
            for group in mine:
                head = group[0].header
                if head.block is not None and head.forked_from is None:
                    group.append(journal)
                    break
            else:
                mine.append([journal])
        else:
            mine.append([journal])
    shown: dict[str, list[Journal]] = {}
    for name, mine in groups.items():
        # Parents before children, whatever the clock says.
        mine.sort(key=lambda group: group[0].header.forked_from is not None)
        for number, group in enumerate(mine):
            shown[name if not number else _suffixed(name, group[0].header.id, shown)] = group
    return shown


def _suffixed(name: str, identity: str, taken: Mapping[str, Any]) -> str:
    digits = 4
    while (made := f"{name}_{identity[:digits]}") in taken and digits < len(identity):
        digits += 1
    while made in taken:
        made += "_"
    return made


def _of_field(blocks: Sequence[Journal]) -> State:
    states = {block.state for block in blocks}
    order: tuple[State, ...] = ("interrupted", "writing")
    return next((state for state in order if state in states), "complete")


RunState = Literal["writing", "complete", "interrupted"]


def state_of(journals: Sequence[Journal], place: Source) -> RunState:
    """Return the state of a run: what its journals say, then ``run.json`` and who holds it.

    A field in blocks stands still as soon as one of those that write it is dead.
    """
    states: set[State] = {_of_field(blocks) for blocks in named(journals).values()}
    said = place.run.get("state")
    if "writing" in states:
        return "writing"
    ended = said == "failed" or not ("interrupted" in states or said == "running")
    if place.is_remote and place.followed and not ended:
        return "writing"
    if "interrupted" in states or said == "failed":
        return "interrupted"
    if said != "running":
        return "complete"
    return "writing" if place.call_lives else "interrupted"
