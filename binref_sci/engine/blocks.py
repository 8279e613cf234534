"""Blocks that the ranks of a parallel solver wrote, laid side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import JournalError
from binref_sci.journal import Block
from binref_sci.labels import Labels
from binref_sci.memory import empty
from binref_sci.trajectory import Trajectory


class BlockArray:
    """A trajectory whose snapshots are put together from blocks; lazy.

    It has as many snapshots as every block has.

    Parameters
    ----------
    name
        Of the variable, for messages.
    parts
        One trajectory a block, each with its `Trajectory.block`.

    Raises
    ------
    JournalError
        If blocks overlap or are missing, or differ in the field they are part of.
    """

    def __init__(self, name: str, parts: Sequence[Trajectory]) -> None:
        self._parts: list[Trajectory] = [part[: min(len(part) for part in parts)] for part in parts]
        self.blocks = [_block_of(part) for part in parts]
        whole = _checked(name, self.blocks, parts)
        self.shape: tuple[int, ...] = (len(self._parts[0]), *whole)
        self.dtype: np.dtype[Any] = parts[0].dtype
        self._check_times(name)

    @property
    def parts(self) -> list[Trajectory]:
        """The blocks' trajectories, cut to the snapshots that all have."""
        return self._parts

    @property
    def times(self) -> NDArray[Any] | None:
        """Time of each snapshot."""
        return self._parts[0].times

    def _check_times(self, name: str) -> None:
        first = self._parts[0].times
        for part, block in zip(self._parts[1:], self.blocks[1:], strict=True):
            times = part.times
            if first is None or times is None or np.array_equal(first, times, equal_nan=True):
                continue
            at = int(np.flatnonzero(first != times)[0])
            raise JournalError(
                f"{name!r}: snapshot {at} has time {times[at]} in block {shown(block)}, but "
                f"{first[at]} in block {shown(self.blocks[0])}; all ranks must write the same "
                "time steps"
            )

    def labels(self) -> Labels:
        """Return labels of the whole field; coordinates of blocks are laid side by side too."""
        first = self._parts[0].labels
        if first.dims is None:
            return first
        sizes = dict(zip(first.dims[1:], self.shape[1:], strict=False))
        coords = dict(first.coords)
        for name, (axes, values, attrs) in first.coords.items():
            wanted = tuple(sizes.get(axis, -1) for axis in axes)
            if -1 in wanted or values.shape == wanted:
                continue  # along the snapshots, or every rank gave all of it
            whole = np.empty(wanted, values.dtype)
            done = np.zeros(wanted, bool)
            for part, block in zip(self._parts, self.blocks, strict=True):
                given = part.labels.coords.get(name)
                place = tuple(
                    slice(block.start[at], block.stop[at])
                    for at in (first.dims.index(axis) - 1 for axis in axes)
                )
                if given is not None and given[1].shape == whole[place].shape:
                    whole[place] = given[1]
                    done[place] = True
            if done.all():
                coords[name] = (axes, whole, attrs)
            else:
                del coords[name]
        return first.replace(coords=coords)

    def edges(self) -> tuple[tuple[int, ...], ...]:
        """Return lengths along each axis of the field within which no block ends."""
        made = []
        for axis, length in enumerate(self.shape[1:]):
            cuts = {0, length}
            for block in self.blocks:
                cuts |= {block.start[axis], block.stop[axis]}
            made.append(tuple(b - a for a, b in itertools.pairwise(sorted(cuts))) or (0,))
        return tuple(made)

    def __getitem__(self, key: Any) -> Any:
        """Read by NumPy's rules into a new array; only what is asked for."""
        entries = _normal(key, len(self.shape))
        arrays = [part for part in entries if isinstance(part, np.ndarray)]
        if len(arrays) > 1 or any(array.ndim != 1 for array in arrays):
            return self._around(entries)
        lengths = [_count(part, n) for part, n in zip(entries, self.shape, strict=True)]
        picks = [
            _positions(part, n, axis + 1)
            for axis, (part, n) in enumerate(zip(entries[1:], self.shape[1:], strict=True))
        ]
        made = empty((lengths[0], *map(len, picks)), self.dtype)
        along = entries[0] if not isinstance(entries[0], int) else _one(entries[0], self.shape[0])
        for part, block in zip(self._parts, self.blocks, strict=True):
            targets: list[NDArray[np.intp]] = []
            sources: list[Any] = []
            for picked, start, stop in zip(picks, block.start, block.stop, strict=True):
                inside = np.flatnonzero((picked >= start) & (picked < stop))
                targets.append(inside)
                sources.append(_as_slice(picked[inside] - start))
            if all(map(len, targets)) and len(made):
                _put(made, targets, _outer(part, along, sources))
        dropped = tuple(axis for axis, entry in enumerate(entries) if isinstance(entry, int))
        made = made.squeeze(dropped)
        if arrays and dropped:
            # Beside integers NumPy moves the axis of an index array; see its indexing guide.
            return _moved(made, entries)
        return made if made.ndim else made[()]

    def _around(self, entries: list[Any]) -> Any:
        """Read the box around several index arrays, and pick from it in memory."""
        box: list[Any] = []
        inner: list[Any] = []
        for part, length in zip(entries, self.shape, strict=True):
            if isinstance(part, np.ndarray):
                found = np.where(part < 0, part + length, part)
                if found.size and (found.min() < 0 or found.max() >= length):
                    raise IndexError(f"index array is out of bounds for an axis of size {length}")
                low = int(found.min()) if found.size else 0
                box.append(slice(low, int(found.max()) + 1 if found.size else 0))
                inner.append(found - low)
            else:
                box.append(_one(part, length) if isinstance(part, int) else part)
                inner.append(0 if isinstance(part, int) else slice(None))
        return self[tuple(box)][tuple(inner)]

    def __dask_tokenize__(self) -> Any:
        return "BlockArray", self.blocks, [part.__dask_tokenize__() for part in self._parts]


def shown(block: Block) -> str:
    """Return a block as one would write the index."""
    return f"[{', '.join(f'{a}:{b}' for a, b in zip(block.start, block.stop, strict=True))}]"


def _block_of(part: Trajectory) -> Block:
    assert part.block is not None  # the caller chose journals with blocks
    return part.block


def _checked(name: str, blocks: Sequence[Block], parts: Sequence[Trajectory]) -> tuple[int, ...]:
    """Return the shape of the field that the blocks fill without gap or overlap."""
    whole = blocks[0].shape
    for block, part in zip(blocks, parts, strict=True):
        if block.shape != whole:
            raise JournalError(
                f"{name!r}: block {shown(block)} is part of a field of shape {block.shape}, block "
                f"{shown(blocks[0])} of one of shape {whole}"
            )
        if part.dtype != parts[0].dtype:
            raise JournalError(
                f"{name!r}: block {shown(block)} has dtype {part.dtype.name}, block "
                f"{shown(blocks[0])} {parts[0].dtype.name}"
            )
        if part.shape[1:] != block.extent:
            raise JournalError(
                f"{name!r}: block {shown(block)} holds snapshots of shape {part.shape[1:]}"
            )
    for one, other in _overlapping(blocks):
        raise JournalError(
            f"{name!r}: blocks {shown(one)} and {shown(other)} of the field of shape {whole} overlap"
        )
    missing = math.prod(whole) - sum(math.prod(block.extent) for block in blocks)
    if missing:
        raise JournalError(
            f"{name!r}: block {_first_gap(whole, blocks)} of the field of shape {whole} is "
            f"missing ({missing} of {math.prod(whole)} points); found {len(blocks)} blocks"
        )
    return whole


def _overlapping(blocks: Sequence[Block]) -> Iterator[tuple[Block, Block]]:
    """Yield pairs of blocks that share a point."""
    # In order along the first axis, only those that begin before another ends can meet.
    ordered = sorted(blocks, key=lambda block: block.start)
    for number, one in enumerate(ordered):
        for other in ordered[number + 1 :]:
            if other.start and other.start[0] >= one.stop[0]:
                break
            if all(
                max(a, c) < min(b, d)
                for a, b, c, d in zip(one.start, one.stop, other.start, other.stop, strict=True)
            ):
                yield one, other


def _first_gap(whole: tuple[int, ...], blocks: Sequence[Block]) -> str:
    """Name the first cell, of the grid that all edges span, that no block covers."""
    cuts = [
        sorted({0, length, *(b.start[axis] for b in blocks), *(b.stop[axis] for b in blocks)})
        for axis, length in enumerate(whole)
    ]
    for cell in itertools.product(*(itertools.pairwise(edges) for edges in cuts)):
        covered = any(
            all(
                a <= low and high <= b
                for (low, high), a, b in zip(cell, k.start, k.stop, strict=True)
            )
            for k in blocks
        )
        if not covered:
            return shown(Block(tuple(c[0] for c in cell), tuple(c[1] for c in cell), whole))
    return "?"  # pragma: no cover  # points are missing, so a cell is


def _normal(key: Any, ndim: int) -> list[int | slice | NDArray[Any]]:
    """Return one int, slice or integer array an axis."""
    given = list(key) if isinstance(key, tuple) else [key]
    entries: list[Any] = []
    for part in given:
        if part is None:
            raise IndexError("a new axis is not an index here")
        if part is Ellipsis or isinstance(part, slice):
            entries.append(part)
        elif isinstance(part, int | np.integer):
            entries.append(int(part))
        else:
            array = np.asarray(part)
            entries += list(np.nonzero(array)) if array.dtype == np.bool_ else [array]
    at = next((n for n, part in enumerate(entries) if part is Ellipsis), None)
    if at is None:
        at = len(entries)
    else:
        del entries[at]
    if len(entries) > ndim:
        raise IndexError(f"too many indices: {len(entries)} for {ndim} axes")
    entries[at:at] = [slice(None)] * (ndim - len(entries))
    return entries


def _one(index: int, length: int) -> slice:
    found = index + length if index < 0 else index
    if not 0 <= found < length:
        raise IndexError(f"index {index} is out of bounds for an axis of size {length}")
    return slice(found, found + 1)


def _count(part: Any, length: int) -> int:
    if isinstance(part, int):
        return 1
    return len(range(*part.indices(length))) if isinstance(part, slice) else len(part)


def _positions(part: Any, length: int, axis: int) -> NDArray[np.intp]:
    if isinstance(part, int):
        part = _one(part, length)
    if isinstance(part, slice):
        return np.arange(*part.indices(length), dtype=np.intp)
    found: NDArray[np.intp] = np.where(part < 0, part + length, part).astype(np.intp)
    if found.size and (found.min() < 0 or found.max() >= length):
        raise IndexError(f"index array is out of bounds for axis {axis} with size {length}")
    return found


def _as_slice(positions: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Return ascending, evenly spaced positions as a slice, which is read without an index."""
    if not len(positions):
        return positions
    first = int(positions[0])
    if len(positions) == 1:
        return slice(first, first + 1)
    steps = np.diff(positions)
    step = int(steps[0])
    if step <= 0 or (steps != step).any():
        return positions
    return slice(first, int(positions[-1]) + 1, step)


def _outer(part: Trajectory, along: Any, sources: list[Any]) -> NDArray[Any]:
    """Read the outer product of one index an axis."""
    key = [along, *sources]
    arrays = [axis for axis, index in enumerate(key) if isinstance(index, np.ndarray)]
    later = arrays[1:]
    read: NDArray[Any] = part[
        tuple(_span(index) if axis in later else index for axis, index in enumerate(key))
    ]
    for axis in later:
        read = read.take(key[axis] - key[axis].min(), axis)
    return read


def _span(positions: NDArray[np.intp]) -> slice:
    return slice(int(positions.min()), int(positions.max()) + 1)


def _put(made: NDArray[Any], targets: list[NDArray[np.intp]], values: NDArray[Any]) -> None:
    slices = [_as_slice(target) for target in targets]
    if all(isinstance(target, slice) for target in slices):
        made[(slice(None), *slices)] = values
    else:
        made[np.ix_(np.arange(len(made)), *targets)] = values


def _moved(made: NDArray[Any], entries: list[Any]) -> NDArray[Any]:
    """Put the axis of the index array where NumPy would."""
    advanced = [n for n, part in enumerate(entries) if not isinstance(part, slice)]
    apart = advanced != list(range(advanced[0], advanced[-1] + 1))
    at = next(n for n, part in enumerate(entries) if isinstance(part, np.ndarray))
    now = sum(1 for part in entries[:at] if not isinstance(part, int))
    first = sum(1 for part in entries[: advanced[0]] if not isinstance(part, int))
    return np.moveaxis(made, now, 0 if apart else first)
