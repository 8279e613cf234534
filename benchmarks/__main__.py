"""Run the benchmarks: ``python -m benchmarks [GROUP ...] [--write]``."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
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
from benchmarks.harness import HEADINGS, ROUNDS, Row

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

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

PREAMBLE = """# Benchmarks

`make bench` measures the product beside its peers and the limit, in one run and in turn: each
figure is the best of at least {rounds} interleaved rounds. Read the
ratios: absolute times belong to one machine. Writing runs on tmpfs, so that only software is
measured; folders are recycled between rounds. tesseract-core is version 1.15.0, unpatched.

Last run: Python {python}, NumPy {numpy}, {cores} cores.

"""


def main(arguments: list[str]) -> int:
    """Run the groups that are named, or all; return 1 if a bar is missed."""
    write = "--write" in arguments
    names = [name for name in arguments if name != "--write"] or list(GROUPS)
    console = Console(stderr=True)
    rows: list[Row] = []
    for name in names:
        for row in GROUPS[name]():
            console.print("  ".join(row.cells()), highlight=False)
            rows.append(row)
    page = table(rows)
    print(page)
    if write:
        PAGE.write_text(
            PREAMBLE.format(
                rounds=ROUNDS,
                python=platform.python_version(),
                numpy=np.__version__,
                cores=len(os.sched_getaffinity(0)),
            )
            + page
        )
    return 0 if all(row.passed for row in rows) else 1


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
