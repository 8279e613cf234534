"""Variables that are written in turn, of which one is a step ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.variables import Coordinate, Made
from binref_sci.trajectory import Trajectory


def in_step(made: list[Made], again: Callable[[], list[Made]]) -> tuple[list[Made], list[str]]:
    """Return variables of a run that has not ended, and which of them were a step ahead.

    A solver that writes two fields at each step has at times written one of them alone. That
    snapshot is left out, so that the fields share their dimension at any time. The journals
    are read one after another: a field whose journal is read later may have gone on by many
    steps. It is in step if the other, looked at again, has gone on as well.

    Parameters
    ----------
    made
        Variables of a run; those that are streamed are looked at.
    again
        Looks at them again.
    """
    streamed = sorted(filter(is_streamed, made), key=lambda one: one.shape[0])
    common: dict[str, int] = {}
    later: dict[str, int] = {}
    for one in streamed:
        for other in streamed:
            count = other.shape[0]
            if count >= one.shape[0]:
                break
            if not _begins_as(one, other):
                continue
            if one.shape[0] > count + 1:
                later = later or {each.name: each.shape[0] for each in again()}
                if later.get(other.name, 0) + 1 < one.shape[0]:
                    continue  # it is written more often
            common[one.name] = count  # of the shortest
            break
    return [_cut(one, common[one.name]) if one.name in common else one for one in made], [*common]


def is_streamed(one: Made) -> bool:
    """Tell whether a variable is a trajectory, of one writer or of several blocks."""
    return isinstance(one.data, Trajectory | BlockArray)


def _begins_as(one: Made, other: Made) -> bool:
    """Tell whether the first snapshots of a variable lie at the times of a shorter one."""
    if one.dims[0] != other.dims[0]:
        return False
    mine, others = one.coords.get(one.dims[0]), other.coords.get(one.dims[0])
    if mine is None or others is None:
        return mine is others
    return np.array_equal(mine[1][: len(others[1])], others[1])


def _cut(one: Made, count: int) -> Made:
    def shorter(coordinate: Coordinate) -> Coordinate:
        dims, values, attrs = coordinate
        return (dims, values[:count], attrs) if dims[:1] == one.dims[:1] else coordinate

    data = one.data
    if isinstance(data, BlockArray):
        data = BlockArray(one.name, [part[:count] for part in data.parts])
    else:
        assert isinstance(data, Trajectory)  # the caller looked
        data = data[:count]
    coords = {name: shorter(coordinate) for name, coordinate in one.coords.items()}
    return replace(one, data=data, coords=coords)
