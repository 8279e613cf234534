"""What the command line shares: messages to a person, and a clean standard output."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape


def console() -> Console:
    """Return a console on standard error, where all that is not a result goes."""
    return Console(stderr=True, highlight=False, emoji=False)


def complain(message: str) -> None:
    """Tell the person what went wrong."""
    console().print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)


PACKAGE = Path(__file__).parents[1]
# A line that begins so is no running text: a list, a table, a heading's underline, code.
_NO_PROSE = re.compile(r"\s|[-*+]\s|[-=~]{3}|[|#]|\d+[.)]\s|>>>")


def reflowed(text: str) -> str:
    r"""Return a docstring whose paragraphs are lines, for a terminal of any width to wrap.

    Examples
    --------
    >>> reflowed("One\nsentence.\n\n- a\n- list")
    'One sentence.\n\n- a\n- list'
    """
    paragraphs = (paragraph.splitlines() for paragraph in re.split(r"\n\s*\n", text))
    return "\n\n".join(
        ("\n" if any(map(_NO_PROSE.match, lines)) else " ").join(lines) for lines in paragraphs
    )


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Tell what this package warns of without the lines of its code; others' as ever."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if PACKAGE in Path(filename).parents:
                console().print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = tell
        yield


@contextmanager
def reserved_stdout() -> Iterator[int]:
    """Keep standard output for the result: all else that is written there goes to standard error.

    At the level of file descriptors, because compiled solvers print too. Gives the
    descriptor of the real standard output.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield kept
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def write_pieces(descriptor: int, pieces: Iterable[bytes | memoryview]) -> None:
    """Write all of `pieces`, whatever the descriptor is (a pipe takes a part at a time)."""
    with open(descriptor, "wb", closefd=False) as file:
        for piece in pieces:
            file.write(piece)
