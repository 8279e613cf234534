"""What a message says of what somebody sent: of bounded length, whatever that was."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

_LONGEST_VALUE: Final = 200  # characters
_LONGEST_MESSAGE: Final = 2000
_MOST_NAMES: Final = 20
_MOST_FAULTS: Final = 10  # in one line; all of them stand beside it

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = _LONGEST_VALUE
_SHORT.maxlist = _SHORT.maxtuple = 16


def shown(value: Any) -> str:
    """Return a value as a message shows it: of bounded length, whatever somebody sent.

    Examples
    --------
    >>> shown("run_7/a.bin"), len(shown("x" * 100_000))
    ("'run_7/a.bin'", 200)
    """
    if isinstance(value, str) and len(value) < _SHORT.maxstring // 2:
        return repr(value)  # nearly all are short, and this is fast
    return _SHORT.repr(value)


def shortened(text: str, most: int = _LONGEST_MESSAGE) -> str:
    """Return a message without its middle where it is too long: the way out stands at its end.

    Examples
    --------
    >>> shortened("not found: " + "x" * 100_000 + "; choose another", 40)
    'not found: xxxxxxx ... x; choose another'
    """
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[: most - 5 - half]} ... {text[-half:]}"


def listed(names: Iterable[object]) -> str:
    """Return what there is, for a message that tells of something else.

    Examples
    --------
    >>> listed(["x", "layers.[0].w"]), listed([])
    ("'x', 'layers.[0].w'", 'none')
    """
    rest = iter(names)
    found = [shown(name) for name in itertools.islice(rest, _MOST_NAMES)]
    more = sum(1 for _ in rest)
    return ", ".join([*found, *([f"and {more} more"] if more else [])]) or "none"


def fault(loc: Iterable[str | int], message: str, kind: str) -> dict[str, Any]:
    """Return one fault of a payload, as a 422 tells it.

    Parameters
    ----------
    loc
        Where it is: names and positions from the outside in.
    message
        What is wrong there.
    kind
        A word for programs.

    Examples
    --------
    >>> fault(["inputs", "x"], "not a number: 'a'", "array_invalid")
    {'loc': ['inputs', 'x'], 'msg': "not a number: 'a'", 'type': 'array_invalid'}
    """
    place = [shortened(part, _LONGEST_VALUE) if isinstance(part, str) else part for part in loc]
    return {"loc": place, "msg": shortened(message), "type": kind}


def complaint(what: str, faults: Sequence[dict[str, Any]]) -> str:
    """Return faults in one line.

    Examples
    --------
    >>> complaint("the payload does not fit apply", [fault(["inputs", "x"], "no number", "x")])
    'the payload does not fit apply: inputs.x: no number'
    """
    lines = [
        f"{'.'.join(map(str, each['loc'])) or 'payload'}: {each['msg']}"
        for each in faults[:_MOST_FAULTS]
    ]
    more = len(faults) - len(lines)
    return f"{what}: " + "; ".join(lines + ([f"and {more} more"] if more else []))
