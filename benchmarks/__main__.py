"""Run the benchmarks: ``python -m benchmarks [GROUP ...] [--write]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from rich.console import Console

from benchmarks import (
    client,
    containers,
    forwarding,
    importing,
    jacobian,
    memory,
    movies,
    opening,
    player,
    reading,
    saving,
    writing,
)
from benchmarks.harness import Row
from benchmarks.page import renew, table

GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "writing": writing.rows,
    "memory": memory.rows,
    "forwarding": forwarding.rows,
    "client": client.rows,
    "containers": containers.rows,
    "opening": opening.rows,
    "reading": reading.rows,
    "saving": saving.rows,
    "importing": importing.rows,
    "jacobian": jacobian.rows,
    "player": player.rows,
    "movies": movies.rows,
}


def main(arguments: list[str]) -> int:
    """Run the groups that are named, or all; return 1 if a bar is missed."""
    write = "--write" in arguments
    names = [name for name in arguments if name != "--write"] or list(GROUPS)
    console = Console(stderr=True)
    measured: dict[str, list[Row]] = {}
    for name in names:
        for row in GROUPS[name]():
            console.print("  ".join(row.cells()), highlight=False)
            measured.setdefault(name, []).append(row)
    tables = {name: table(rows) for name, rows in measured.items()}
    print("\n".join(tables.values()))
    if write:
        renew(tables, GROUPS)
    return 0 if all(row.passed for rows in measured.values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
