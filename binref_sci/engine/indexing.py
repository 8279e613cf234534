"""xarray's three kinds of index, on every kind of lazy array.

Basic: integers and slices. Outer: one integer, slice or 1-D array an axis, each for
itself. Vectorised: arrays that are paired; their common axes come first in the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from binref_sci.array import BinrefArray
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.mapping import MappedArray
from binref_sci.engine.text import TextArray
from binref_sci.trajectory import Trajectory

LazyData = Trajectory | BinrefArray | BlockArray | TextArray
Readable = LazyData | MappedArray


def read_basic(array: Readable, key: tuple[Any, ...]) -> Any:
    """Read by NumPy's rules."""
    return array.stored.read(key) if isinstance(array, Trajectory) else array[key]


def read_outer(array: Readable, key: tuple[Any, ...]) -> Any:
    """Read the outer product of one index an axis."""
    if isinstance(array, Trajectory):
        return array.stored.read_outer(key)
    if isinstance(array, BinrefArray):
        return array.stored.read_outer((0, *key))
    # The box around all index arrays is read, and picked from in memory.
    box: list[Any] = []
    picks: list[Any] = []
    for part, length in zip(key, array.shape, strict=True):
        if isinstance(part, np.ndarray):
            found = np.where(part < 0, part + length, part)
            low = int(found.min()) if found.size else 0
            box.append(slice(low, int(found.max()) + 1 if found.size else 0))
            picks.append(found - low)
        else:
            box.append(part)
            if isinstance(part, slice):
                picks.append(None)
    made = np.asarray(array[tuple(box)])
    for axis, positions in enumerate(picks):
        if positions is not None:
            made = made.take(positions, axis)
    return made


def read_vectorized(array: Readable, key: tuple[Any, ...]) -> Any:
    """Read paired positions; their common axes come first."""
    if isinstance(array, Trajectory):
        return array.stored.read_vectorized(key)
    if isinstance(array, BinrefArray):
        return array.stored.read_vectorized((0, *key))
    made = np.asarray(array[key])
    at = [axis for axis, part in enumerate(key) if isinstance(part, np.ndarray)]
    if not at or at != list(range(at[0], at[-1] + 1)):
        return made  # NumPy has put them first
    common = max(np.ndim(key[axis]) for axis in at)
    return np.moveaxis(made, range(at[0], at[0] + common), range(common))
