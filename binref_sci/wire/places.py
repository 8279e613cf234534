"""The text form of a place in a buffer: ``path:offset:compressed_size``."""

from __future__ import annotations

import re
from typing import Any, Final

from binref_sci.errors import InvalidReferenceError
from binref_sci.messages import shown
from binref_sci.wire.messages import at

_BUFFER = re.compile(r"(?P<path>.+?)(?::(?P<offset>[0-9]+)(?::(?P<size>[0-9]+))?)?", re.DOTALL)
NUMBERED = re.compile(r":-?[0-9]+\Z")
LARGEST: Final = 2**63 - 1  # what a file offset and a NumPy length can be


def parse_buffer(text: Any, where: str = "") -> tuple[str, int, int | None]:
    """Return path, offset and compressed size of ``path[:offset[:compressed_size]]``.

    Parameters
    ----------
    text
        From the wire. A bare path means offset 0.
    where
        What it belongs to, for the message.

    Raises
    ------
    InvalidReferenceError
        If it is no such text: a negative or oversized number, or more than two.

    Examples
    --------
    >>> parse_buffer("run_7/a.bin:1024")
    ('run_7/a.bin', 1024, None)
    >>> parse_buffer("a.bin")
    ('a.bin', 0, None)
    """
    form = "expected 'path[:offset[:compressed_size]]'"
    if not isinstance(text, str) or not text:
        raise InvalidReferenceError(f"{at(where)}buffer is {shown(text)}; {form}")
    found = _BUFFER.fullmatch(text)
    assert found is not None  # the path alone matches any text
    path = found["path"]
    if NUMBERED.search(path) or path.startswith(":"):
        # What is left over looks like a number: negative, or one too many.
        raise InvalidReferenceError(
            f"{at(where)}buffer {shown(text)} has a negative number or too many; {form}"
        )
    numbers = [
        None if digits is None else _place(digits, text, where)
        for digits in (found["offset"], found["size"])
    ]
    return path, numbers[0] or 0, numbers[1]


def _place(digits: str, text: str, where: str) -> int:
    digits = digits.lstrip("0") or "0"
    # Length first: Python refuses to convert thousands of digits with an error of its own.
    if len(digits) > 19 or int(digits) > LARGEST:
        raise InvalidReferenceError(
            f"{at(where)}buffer {shown(text)} has a number beyond {LARGEST}, "
            "the largest place in a file"
        )
    return int(digits)


def format_buffer(path: str, offset: int, compressed_size: int | None = None) -> str:
    """Return the text form of a place; the offset is always written.

    Raises
    ------
    InvalidReferenceError
        If the name ends in ``:digits``: readers would take them for the offset.

    Examples
    --------
    >>> format_buffer("run_7/a.bin", 0)
    'run_7/a.bin:0'
    """
    if NUMBERED.search(path):
        raise InvalidReferenceError(
            f"buffer name {shown(path)} ends in ':' and a number, which readers would take for "
            "the offset; rename the file"
        )
    return f"{path}:{offset}" if compressed_size is None else f"{path}:{offset}:{compressed_size}"
