"""Equal snapshots along axis 0, in one or more buffers: where each of them lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from binref_sci.dtypes import nbytes_of
from binref_sci.plan.segment import Segment
from binref_sci.storage import Root


@dataclass(frozen=True, eq=False)
class Series:
    """Equal snapshots on disk: an array of shape ``(n, *inner)``.

    Parameters
    ----------
    root
        Directory that segment paths are relative to: absolute, or of a store.
    segments
        In order along axis 0.
    inner
        Shape of one snapshot.
    dtype
        Element type, little-endian.
    compression
        Codec of every snapshot, or None.
    """

    root: Root
    segments: tuple[Segment, ...]
    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str | None = None

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Index of the first snapshot of each segment, and the total at the end."""
        return np.concatenate(
            ([0], np.cumsum([segment.count for segment in self.segments], dtype=np.int64))
        ).astype(np.int64)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(self.starts[-1])

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of one snapshot, once decoded."""
        return nbytes_of(self.inner, self.dtype)

    @property
    def inner_strides(self) -> tuple[int, ...]:
        """Bytes from one element of a snapshot to the next, along each of its axes."""
        strides = [self.dtype.itemsize]
        for length in reversed(self.inner[1:]):
            strides.append(strides[-1] * length)
        return tuple(reversed(strides)) if self.inner else ()

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, *inner)``."""
        return (len(self), *self.inner)

    def locate(self, index: int) -> tuple[Segment, int]:
        """Return the segment that holds snapshot `index`, and its place there."""
        if len(self.segments) == 1:
            return self.segments[0], index
        number = int(self.starts.searchsorted(index, side="right")) - 1
        return self.segments[number], index - int(self.starts[number])

    def cut(self, start: int, step: int, count: int) -> Self:
        """Return every `step`-th snapshot from `start` on; nothing is read."""
        return replace(self, segments=tuple(piece for _, piece in self.pieces(start, step, count)))

    def pieces(self, start: int, step: int, count: int) -> Iterator[tuple[int, Segment]]:
        """Yield (position in the selection, part of a segment) in the selection's order."""
        position = 0
        while position < count:
            index = start + step * position
            segment, local = self.locate(index)
            room = (segment.count - 1 - local) // step if step > 0 else local // -step
            taken = min(count - position, room + 1)
            yield position, segment.cut(local, step, taken)
            position += taken

    def chosen(self, positions: NDArray[np.intp]) -> Iterator[Segment]:
        """Yield the snapshots at ascending positions."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for mine in np.split(np.arange(len(positions)), edges):
            if not len(mine):
                continue
            segment = self.segments[numbers[mine[0]]]
            local = positions[mine] - self.starts[numbers[mine[0]]]
            sizes = None if segment.sizes is None else segment.sizes[local]
            yield Segment(segment.path, 0, len(mine), 0, segment.offsets_of(local), sizes)
