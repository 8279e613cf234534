"""How a message shows what somebody sent."""

from __future__ import annotations

import reprlib
from typing import Any, Final

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = 60


def at(where: str) -> str:
    """Return the place of a message, put before it."""
    return f"{where}: " if where else ""


def shown(value: Any) -> str:
    """Return a value for a message: one line, whatever somebody sent."""
    return _SHORT.repr(value)


def first_line(error: BaseException) -> str:
    """Return what an error says, shortly."""
    return str(error).split("\n", 1)[0]
