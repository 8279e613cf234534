"""Parts of a message."""

from __future__ import annotations


def at(where: str) -> str:
    """Return the place of a message, put before it."""
    return f"{where}: " if where else ""


def first_line(error: BaseException) -> str:
    """Return what an error says, shortly."""
    return str(error).split("\n", 1)[0]
