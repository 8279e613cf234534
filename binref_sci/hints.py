"""What may have been meant by a name that is not there."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterable
from typing import Final

from binref_sci.messages import listed, shown

_MOST: Final = 1000  # names that are looked through; to compare each takes time


def meant(name: object, known: Iterable[object]) -> str:
    """Return a question that names what is spelled nearly so; empty if nothing is.

    Examples
    --------
    >>> meant("chunk", ["chunks", "engine"])
    "; did you mean 'chunks'?"
    >>> meant("zebra", ["chunks", "engine"])
    ''
    """
    close = difflib.get_close_matches(str(name), [*map(str, itertools.islice(known, _MOST))], n=3)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""


def absent(what: str, name: object, known: Collection[object]) -> str:
    """Return what is said of a name that is not there: which there are, and what may be meant.

    Examples
    --------
    >>> absent("output", "head", ["heat", "flux"])
    "no output 'head'; there are 'heat', 'flux'; did you mean 'heat'?"
    """
    return f"no {what} {shown(name)}; there are {listed(known)}{meant(name, known)}"
