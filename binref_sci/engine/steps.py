"""Variables that are written in turn, of which one is a step ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.variables import Coordinate, Made
from binref_sci.trajectory import Trajectory


def in_step(made: list[Made]) -> tuple[list[Made], list[str]]:
    """Return variables of a run that has not ended, and which of them were a step ahead.

    A solver that writes two fields at each step has at times written one of them alone. That
    snapshot is left out, so that the fields share their dimension at any time.

    Parameters
    ----------
    made
        Variables of a run; those that are streamed are looked at.
    """
    shortest: dict[str, Made] = {}
    for one in made:
        if is_streamed(one):
            known = shortest.get(one.dims[0], one)
            shortest[one.dims[0]] = min(known, one, key=lambda each: each.shape[0])
    ahead = [
        one.name
        for one in made
        if isinstance(one.data, Trajectory) and _is_ahead(one, shortest[one.dims[0]])
    ]
    return [_without_last(one) if one.name in ahead else one for one in made], ahead


def is_streamed(one: Made) -> bool:
    """Tell whether a variable is a trajectory, of one writer or of several blocks."""
    return isinstance(one.data, Trajectory | BlockArray)


def _is_ahead(one: Made, other: Made) -> bool:
    """Tell whether a variable has one snapshot more, and is the same otherwise."""
    if one.shape[0] != other.shape[0] + 1:
        return False
    mine, others = one.coords.get(one.dims[0]), other.coords.get(one.dims[0])
    if mine is None or others is None:
        return mine is others
    return np.array_equal(mine[1][:-1], others[1])


def _without_last(one: Made) -> Made:
    def cut(coordinate: Coordinate) -> Coordinate:
        dims, values, attrs = coordinate
        return (dims, values[:-1], attrs) if dims[:1] == one.dims[:1] else coordinate

    assert isinstance(one.data, Trajectory)  # the caller looked
    coords = {name: cut(coordinate) for name, coordinate in one.coords.items()}
    return replace(one, data=one.data[:-1], coords=coords)
