"""What a writer has open: its files, and the segment at the end of its trajectory."""

from __future__ import annotations

from typing import Any, NamedTuple

from binref_sci.array import Layout
from binref_sci.journal import Header

NO_DTYPE: Any = object()
"""What no array's dtype is: sends every write the long way."""

_NO_TYPE: type = type(None)


class Files(NamedTuple):
    """What stays open from the first write to the last."""

    header: Header
    journal_fd: int
    time_fd: int


class Tail:
    """The open segment, and how much of it counts.

    An interrupt may strike between any two steps. So a segment is exchanged as a whole,
    and a snapshot begins to count by one assignment: of `next` where its offset says how
    many there are, otherwise of `done`.
    """

    __slots__ = (
        "done",
        "dtype",
        "fd",
        "first",
        "last",
        "layout",
        "lines",
        "nbytes",
        "next",
        "shape",
        "start",
        "table_fd",
        "time_base",
        "time_fd",
        "time_type",
    )

    layout: Layout

    def __init__(self, done: tuple[int, int, int], lines: int = 0) -> None:
        self.done = done  # offset after the last snapshot, snapshots in all, end of the journal
        self.lines = lines  # segments that the journal holds
        self.fd = self.table_fd = self.time_fd = -1
        # Which snapshots go the short way; here none.
        self.dtype: Any = NO_DTYPE
        self.shape: tuple[int, ...] = ()
        self.time_type = _NO_TYPE
        self.last = -1  # offsets up to here have room in the buffer
        self.time_base = 0  # place of the time of the segment's first snapshot
        self.start = 0  # snapshots before the segment
        self.first = 0  # offset of its first one
        self.next = 0  # offset of the one to come
        self.nbytes = 0  # of one, where equal sizes tell how many there are; else 0

    @property
    def count(self) -> int:
        """Snapshots that count, in all segments."""
        if not self.nbytes:
            return self.done[1]
        return self.start + (self.next - self.first) // self.nbytes

    @property
    def position(self) -> int:
        """Offset of the next byte in the buffer."""
        return self.next if self.nbytes else self.done[0]
