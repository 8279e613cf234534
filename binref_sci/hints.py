"""What may have been meant by a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from binref_sci.messages import shown


def meant(name: object, known: Iterable[object]) -> str:
    """Return a question that names what is spelled nearly so; empty if nothing is.

    Examples
    --------
    >>> meant("chunk", ["chunks", "engine"])
    "; did you mean 'chunks'?"
    >>> meant("zebra", ["chunks", "engine"])
    ''
    """
    close = difflib.get_close_matches(str(name), list(map(str, known)), n=3)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""
