"""One simulation that was restarted, as one trajectory: the later run takes over.

From the first time of a later run on, its snapshots count, and those that the run before
wrote at that time or after are left out. So times that increased go on increasing, and
none comes twice.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.steps import is_streamed
from binref_sci.engine.variables import Coordinate, Made
from binref_sci.errors import FormatError
from binref_sci.plan import Segment, Stored
from binref_sci.storage import Root
from binref_sci.storage.remote import RemotePath
from binref_sci.trajectory import Trajectory


def joined(runs: Sequence[tuple[str, list[Made]]]) -> list[Made]:
    """Return the variables of several runs as those of one.

    Parameters
    ----------
    runs
        Path and variables of each, in order of time.

    Raises
    ------
    FormatError
        If a trajectory differs in shape, dtype or dims, or has times in one run alone; or
        if a run has no trajectory that those before it have.
    """
    made: dict[str, Made] = {}
    where: dict[str, tuple[str, int]] = {}  # the last run so far, and the place of its first
    for path, variables in runs:
        _check_common(made.values(), variables, path)
        for one in variables:
            before, kept = made.get(one.name), 0
            if before is None or not is_streamed(before) or not is_streamed(one):
                made[one.name] = one  # of a final state, that of the last run
            else:
                at, start = where[one.name]
                made[one.name], kept = _joined(before, at, one, path)
                if kept <= start < before.shape[0]:
                    warnings.warn(
                        f"{one.name!r}: nothing is left of {at!r}, all of whose times lie at or "
                        f"after the first one of {path!r}, which takes over there; runs are given "
                        "in order of time",
                        RuntimeWarning,
                        stacklevel=2,
                    )
            where[one.name] = path, kept
    return list(made.values())


def _check_common(before: Iterable[Made], after: Iterable[Made], path: str) -> None:
    known, names = ({one.name for one in made if is_streamed(one)} for made in (before, after))
    if known and names and not known & names:
        raise FormatError(
            f"{path!r} has the trajectories {sorted(names)}, the runs before it {sorted(known)}: "
            "none in common, so they are no parts of one simulation; open the runs one by one"
        )


def _joined(before: Made, at: str, after: Made, path: str) -> tuple[Made, int]:
    """Return what two runs make together, and how many snapshots of it are of the first."""
    one, other = _kind(before), _kind(after)
    if one != other:
        raise FormatError(
            f"{after.name!r} of {path!r} has (dims, shape of a snapshot, dtype, kind) {other}, "
            f"that of {at!r} has {one}: they are no parts of one trajectory; open the runs one "
            "by one"
        )
    dim = before.dims[0]
    times, later = before.coords.get(dim), after.coords.get(dim)
    kept = before.shape[0]
    if (times is None) != (later is None) or (times and later and times[2] != later[2]):
        raise FormatError(
            f"{after.name!r}: {at!r} has {_told(times)}, {path!r} has {_told(later)}: which "
            "snapshots overlap cannot be told; open the runs one by one"
        )
    if times is not None and later is not None and len(later[1]):
        kept = _before(after.name, times[1], later[1][0], at)
    coords: dict[str, Coordinate] = {}
    for name, (dims, values, attrs) in after.coords.items():
        earlier = before.coords.get(name)
        if dims[:1] == (dim,) and earlier is not None and earlier[0] == dims:
            values = np.concatenate([earlier[1][:kept], values])
        elif dims[:1] == (dim,):
            continue  # of a part of the trajectory only
        coords[name] = (dims, values, attrs)
    data = _concatenated(after.name, before.data, after.data, kept)
    return replace(after, data=data, coords=coords), kept


def _kind(one: Made) -> tuple[object, ...]:
    return one.dims, one.shape[1:], one.data.dtype.name, type(one.data).__name__


def _told(times: Coordinate | None) -> str:
    return "no times" if times is None else f"times with attributes {times[2]}"


def _before(name: str, times: NDArray[Any], first: Any, at: str) -> int:
    """Return how many times lie before `first`; they must be the first ones."""
    early = times < first
    kept = int(np.count_nonzero(early))
    # No number, which NaN is, is neither before nor after another.
    if not early[:kept].all() or first != first or (times != times).any():
        raise FormatError(
            f"{name!r}: the times in {at!r} do not increase up to {first}, where the next run "
            "begins, so it cannot be told which snapshots that one replaces; open the runs one by one"
        )
    return kept


def _concatenated(name: str, before: object, after: object, kept: int) -> Trajectory | BlockArray:
    if isinstance(before, Trajectory) and isinstance(after, Trajectory):
        return chained([before[:kept], after])
    assert isinstance(before, BlockArray)  # the caller compared the kinds
    assert isinstance(after, BlockArray)
    parts = {str(part.block): part for part in after.parts}
    if set(parts) != {str(part.block) for part in before.parts}:
        raise FormatError(
            f"{name!r}: the runs divide the field into different blocks; open them one by one"
        )
    return BlockArray(
        name, [chained([part[:kept], parts[str(part.block)]]) for part in before.parts]
    )


def chained(parts: Sequence[Trajectory]) -> Trajectory:
    """Return trajectories of one kind one after another, wherever their buffers lie."""
    last = parts[-1]
    root, folders = _common([part.stored.root for part in parts])
    segments: list[Segment] = []
    times: list[Segment] = []
    for part, inside in zip(parts, folders, strict=True):
        if part.compression != last.compression and len(part):
            raise FormatError(
                f"one run in {root!r} has compression {part.compression}, another "
                f"{last.compression}; open them one by one"
            )
        segments += [_moved(segment, inside) for segment in part.segments]
        if part.stored_times is not None:
            times += [_moved(segment, inside) for segment in part.stored_times.segments]
    stored = Stored(root, tuple(segments), last.stored.inner, last.dtype, last.compression)
    last_times = last.stored_times
    return Trajectory(
        stored,
        name=last.name,
        labels=last.labels,
        times=None if last_times is None else Stored(root, tuple(times), (), last_times.dtype),
        time_attrs=last.time_attrs,
        block=last.block,
        owner=tuple(part.owner for part in parts),
    )


def _common(roots: Sequence[Root]) -> tuple[Root, list[str]]:
    """Return a folder that all lie in, and where they lie in it."""
    remote = [root for root in roots if isinstance(root, RemotePath)]
    if not remote:
        real = [os.path.realpath(root) for root in roots]
        common = os.path.commonpath(real)
        return common, [os.path.relpath(root, common) for root in real]
    first = remote[0]
    if len(remote) < len(roots) or any(root.fs != first.fs for root in remote):
        raise FormatError(
            f"the runs {[os.fspath(root) for root in roots]} lie in different stores; copy them into one, "
            "or open them one by one"
        )
    common = posixpath.commonpath([root.path for root in remote])
    return first.at(common), [posixpath.relpath(root.path, common or ".") for root in remote]


def _moved(segment: Segment, folder: str) -> Segment:
    return replace(segment, path=posixpath.normpath(posixpath.join(folder, segment.path)))


def without_replaced(one: Made, starts: Sequence[int]) -> Made:
    """Return a trajectory that was gone on with from an earlier time, without what that replaces.

    Parameters
    ----------
    one
        As it was written; its times may go back at a start.
    starts
        Places where a writer may have begun again.
    """
    times = one.coords.get(one.dims[0])
    if times is None or not isinstance(one.data, Trajectory) or times[1].dtype.kind not in "iuf":
        return one
    values = times[1]
    back = np.flatnonzero(np.diff(values) <= 0) + 1
    inside = sorted({*back.tolist()} - {*starts})
    if not len(back) or inside or len(back) == len(values) - 1:
        return one  # it does not go back, or not for a restart: time may run backwards
    edges = [0, *back.tolist(), len(values)]
    kept: list[tuple[int, int]] = []
    for first, stop in itertools.pairwise(edges):
        kept = [(a, a + int(np.count_nonzero(values[a:b] < values[first]))) for a, b in kept]
        kept.append((first, stop))
    places = np.concatenate([np.arange(a, b) for a, b in kept])
    coords = {
        name: (dims, array[places] if dims[:1] == one.dims[:1] else array, attrs)
        for name, (dims, array, attrs) in one.coords.items()
    }
    data = one.data
    return replace(one, data=chained([data[a:b] for a, b in kept if b > a]), coords=coords)
