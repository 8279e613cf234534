"""Equal snapshots in one buffer, and offsets folded into few runs of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Snapshots at regular places in one buffer.

    Parameters
    ----------
    path
        Buffer, relative to the root.
    offset
        First byte of the first snapshot.
    count
        Number of snapshots.
    stride
        Bytes from one snapshot to the next; negative in a reversed trajectory.
    offsets, sizes
        Byte offset of each snapshot, int64, shape ``(count,)``, where they are scattered,
        and with it the size of each, where they are compressed. `offset` and `stride` then
        say nothing.
    """

    path: str
    offset: int
    count: int
    stride: int
    offsets: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None

    def cut(self, start: int, step: int, count: int) -> Segment:
        """Return every `step`-th snapshot from `start` on, `count` of them."""
        if self.offsets is not None:
            places = start + step * np.arange(count)
            sizes = None if self.sizes is None else self.sizes[places]
            return Segment(self.path, 0, count, 0, self.offsets[places], sizes)
        return Segment(self.path, self.offset + start * self.stride, count, self.stride * step)

    def offsets_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the byte offsets of some snapshots."""
        if self.offsets is None:
            return self.offset + numbers * self.stride
        return self.offsets[numbers]

    def end(self, snapshot_bytes: int) -> int:
        """Return the byte after the last one that belongs to a snapshot."""
        if not self.count:
            return 0
        if self.offsets is None:
            return max(self.offset, self.offset + (self.count - 1) * self.stride) + snapshot_bytes
        sizes = snapshot_bytes if self.sizes is None else self.sizes
        return int((self.offsets + sizes).max())

    def place(self, index: int) -> tuple[int, int | None]:
        """Return offset and compressed size of one snapshot."""
        if self.offsets is not None:
            return int(self.offsets[index]), None if self.sizes is None else int(self.sizes[index])
        return self.offset + index * self.stride, None


def fold_offsets(path: str, offsets: NDArray[np.int64], nbytes: int) -> list[Segment]:
    """Return uncompressed snapshots of `nbytes` at `offsets` as few segments."""
    count = len(offsets)
    if count == 1:
        return [Segment(path, int(offsets[0]), 1, nbytes)]
    steps = np.diff(offsets)
    turns = np.flatnonzero(np.diff(steps)) + 1
    if not len(turns):
        return [Segment(path, int(offsets[0]), count, int(steps[0]))]
    if len(turns) > count // 8:
        # Scattered: a column of offsets is smaller than a segment for each pair.
        return [Segment(path, 0, count, 0, offsets)]
    segments: list[Segment] = []
    start = 0
    for turn in [*turns.tolist(), count - 1]:
        if turn < start:
            continue  # the gap between two runs is no run of its own
        stop = turn + 1
        stride = int(steps[start]) if stop - start > 1 else nbytes
        segments.append(Segment(path, int(offsets[start]), stop - start, stride))
        start = stop
    return segments
