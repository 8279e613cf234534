"""What the command line shares: messages to a person, and a clean standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


def console() -> Console:
    """Return a console on standard error, where all that is not a result goes."""
    return Console(stderr=True, highlight=False, emoji=False)


def complain(message: str) -> None:
    """Tell the person what went wrong."""
    console().print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)


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
