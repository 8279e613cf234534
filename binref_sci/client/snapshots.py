"""Snapshots in memory: new arrays, writable, each with memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from binref_sci.dtypes import nbytes_of
from binref_sci.trajectory import Trajectory

BATCH_BYTES: Final = 1024 * 1024
"""Snapshots are read this many bytes at a time: one read for hundreds of small ones, still in
the processor's cache when they are copied out."""


def in_memory(trajectory: Trajectory) -> Iterator[NDArray[Any]]:
    """Yield each snapshot as an array that nothing else holds."""
    each = nbytes_of(trajectory.shape[1:], trajectory.dtype)
    step = max(1, BATCH_BYTES // max(1, each))
    for start in range(0, len(trajectory), step):
        block = trajectory[start : start + step].load()
        if len(block) == 1:
            yield block.reshape(block.shape[1:])
        elif block.ndim == 1:  # numbers, which iteration would take out of their arrays
            yield from (block[index, ...].copy() for index in range(len(block)))
        else:
            # Views of one block would keep all of it alive for the sake of one.
            yield from (snapshot.copy() for snapshot in block)
