"""Regular grids of elements in one buffer, read with as few calls as their gaps allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.memory import page_aligned
from binref_sci.ranges import read_ranges
from binref_sci.storage import Buffer, require

MERGE_GAP = 8 * 1024
"""Neighbouring ranges closer than this, in bytes, are read as one: on a warm page cache
copying 8 KiB costs about what another system call does."""

MERGE_LIMIT = 1024 * 1024
"""Ranges with gaps are merged up to this size, in bytes: as long as the scratch memory
stays in the processor's cache, what lies between costs least."""

_COLD_SCRATCH = 8 * MERGE_LIMIT  # where the disk is waited for, so that many threads wait


def merged(offsets: NDArray[np.int64], itemsize: int) -> Iterator[tuple[int, int]]:
    """Yield index ranges of sorted offsets that are near enough to be read as one."""
    breaks = np.flatnonzero(np.diff(offsets) > MERGE_GAP + itemsize) + 1
    edges = [0, *breaks.tolist(), len(offsets)]
    for first, last in itertools.pairwise(edges):
        start = first
        while start < last:  # and not larger than the scratch memory may be
            stop = int(np.searchsorted(offsets[start:last], offsets[start] + MERGE_LIMIT)) + start
            yield start, max(stop, start + 1)
            start = max(stop, start + 1)


def read_box(
    buffer: Buffer, base: int, counts: list[int], steps: list[int], out: NDArray[Any]
) -> None:
    """Read a grid of elements with ascending byte steps into `out`, of shape `counts`."""
    itemsize = out.dtype.itemsize
    last = base + sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    require(buffer, base, last + itemsize - base)
    run = _Run(counts, steps, out)
    together = run.together()
    if together:
        axis = run.split - 1
        for first in range(0, counts[axis], together):
            some = min(together, counts[axis] - first)
            part = out[(slice(None),) * axis + (slice(first, first + some),)]
            fewer = [*counts[:axis], some, *counts[axis + 1 :]]
            read_box(buffer, base + first * steps[axis], fewer, steps, part)
        return
    run.read(buffer, np.array([base], np.int64), out)


def read_boxes(
    buffer: Buffer,
    bases: NDArray[np.int64],
    counts: list[int],
    steps: list[int],
    out: NDArray[Any],
) -> None:
    """Read a grid of elements at each of `bases`, byte offsets in any order."""
    reach = sum((count - 1) * step for count, step in zip(counts, steps, strict=True))
    first, last = int(bases.min()), int(bases.max())
    require(buffer, first, last + reach + out.dtype.itemsize - first)
    run = _Run(counts, steps, out[0, ...])
    if run.together():
        for number, base in enumerate(bases.tolist()):
            read_box(buffer, base, counts, steps, out[number, ...])
        return
    run.read(buffer, bases, out)


class _Run:
    """The inner axes of a grid that are read as one range, whole or with small gaps.

    `split` axes are left, each of their places a range of `extent` bytes; it is `packed`
    if all its bytes are wanted, in the order of the file.
    """

    def __init__(self, counts: list[int], steps: list[int], out: NDArray[Any]) -> None:
        self.counts, self.steps = counts, steps
        self.extent, self.packed, self.split = out.dtype.itemsize, True, len(counts)
        # From the innermost axis outwards: what is near enough becomes one range.
        while self.split:
            axis = self.split - 1
            count, step = counts[axis], steps[axis]
            if count > 1:
                reach = (count - 1) * step + self.extent
                touching = self.packed and step == self.extent and out.strides[axis] == step
                if not touching and (step - self.extent > MERGE_GAP or reach > MERGE_LIMIT):
                    break
                self.extent, self.packed = reach, touching
            self.split = axis

    def together(self) -> int:
        """Return how many places of the next axis are read at once, if not all can be.

        0 where that is not the question: all are, or the gaps are wide.
        """
        if not self.split:
            return 0
        count, step = self.counts[self.split - 1], self.steps[self.split - 1]
        wide = step - self.extent > MERGE_GAP
        some = 0 if wide or (self.packed and step == self.extent) else MERGE_LIMIT // max(step, 1)
        return some if 1 < some < count else 0

    def read(self, buffer: Buffer, bases: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Read the grid at each of `bases`; `out` has an axis for them if there are many."""
        outer, inner = self.counts[: self.split], self.counts[self.split :]
        offsets = bases
        for count, step in zip(outer, self.steps, strict=False):
            offsets = np.add.outer(offsets, np.arange(count) * step)
        shape = offsets.shape if out.ndim > len(self.counts) else offsets.shape[1:]
        offsets = offsets.reshape(-1)
        if self.packed and out.flags.c_contiguous:
            read_ranges(buffer, offsets, self.extent, out.reshape(-1).view(np.uint8))
            return
        batch = max(MERGE_LIMIT // self.extent, 1)
        room = page_aligned((min(batch, len(offsets)) * self.extent,), np.uint8)
        first = 0
        while first < len(offsets):
            some = offsets[first : first + batch]
            waited = read_ranges(buffer, some, self.extent, room[: len(some) * self.extent])
            steps = [self.extent, *self.steps[self.split :]]
            taken = strided(room, out.dtype, 0, [len(some), *inner], steps)
            if not shape:
                out[...] = taken[0]
            elif len(shape) == 1:
                out[first : first + len(some)] = taken
            else:
                out[np.unravel_index(np.arange(first, first + len(some)), shape)] = taken
            first += len(some)
            if waited and batch * self.extent < _COLD_SCRATCH:
                batch = max(_COLD_SCRATCH // self.extent, 1)
                room = page_aligned((min(batch, len(offsets)) * self.extent,), np.uint8)


def strided(
    buffer: Any, dtype: np.dtype[Any], offset: int, counts: list[int], steps: list[int]
) -> NDArray[Any]:
    """Return a view of bytes in memory as a grid of elements."""
    return np.ndarray(tuple(counts), dtype, buffer, offset, tuple(steps))
