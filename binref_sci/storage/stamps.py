"""Time stamps of files, which go in steps and so lie before what they stamp."""

from __future__ import annotations

from typing import Final

_SECOND: Final = 1_000_000_000
_TICK: Final = 20_000_000  # kernels stamp at their tick, of 10 ms and less
_WHOLE: Final = 2 * _SECOND  # FAT and zip; Lustre and tar keep whole seconds


def may_be_from(stamp_ns: int, time_ns: int) -> bool:
    """Tell whether a file that has this stamp may have been written at a time or after it.

    Parameters
    ----------
    stamp_ns, time_ns
        Nanoseconds since the epoch.

    Examples
    --------
    >>> may_be_from(1_700_000_000_123_000_000, 1_700_000_000_900_000_000)
    False
    >>> may_be_from(1_700_000_000_000_000_000, 1_700_000_000_900_000_000)  # a whole second
    True
    """
    return stamp_ns >= time_ns - (_WHOLE if is_coarse(stamp_ns) else _TICK)


def is_coarse(stamp_ns: int) -> bool:
    """Tell whether a stamp is one of whole seconds."""
    return not stamp_ns % _SECOND
