"""The page of figures in the documentation: a section for each group of rows."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.harness import HEADINGS, ROUNDS, Row

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

_PREAMBLE = f"""# Benchmarks

`make bench` measures the product beside its peers and the limit, in one run and in turn: each
figure is the best of several interleaved rounds, {ROUNDS} as a rule. Read the ratios: absolute times
belong to one machine. Writing runs on tmpfs, so that only software is measured; folders are recycled
between rounds. tesseract-core is version 1.15.0, unpatched. A bar that is missed says
**no**, and stays here. `python -m benchmarks GROUP --write` renews one section.

`orjson.loads` stands for what JSON costs at least. It runs as users run it, with the garbage
collector on; ours pauses the collector while it parses, which is how it can be below that limit.
"""


def table(rows: Iterable[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def renew(tables: Mapping[str, str], order: Iterable[str], page: Path = PAGE) -> None:
    """Replace the sections of the groups that were measured; the others stay as they are.

    Parameters
    ----------
    tables
        Markdown table of each group.
    order
        All groups, as the page has them.
    page
        What is rewritten.
    """
    here = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{len(os.sched_getaffinity(0))} cores."
    )
    old = page.read_text() if page.exists() else ""
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", old, re.MULTILINE | re.DOTALL))
    sections |= {group: f"{here}\n\n{made}" for group, made in tables.items()}
    parts = [f"## {group}\n\n{sections[group].strip()}\n" for group in order if group in sections]
    page.write_text("\n".join([_PREAMBLE, *parts]))
