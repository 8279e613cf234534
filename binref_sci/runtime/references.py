"""References folded into runs that differ in their place alone."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from binref_sci.array import Layout
from binref_sci.dtypes import nbytes_of
from binref_sci.plan import Segment
from binref_sci.storage import (
    size_of,
    truncated,
)
from binref_sci.trajectory import Trajectory


class Run(NamedTuple):
    """References that differ in their place alone.

    Parameters
    ----------
    layout
        What they share.
    offsets, sizes
        Of each; sizes if they are compressed.
    """

    layout: Layout
    offsets: Sequence[int]
    sizes: Sequence[int] | None

    @property
    def nbytes(self) -> int:
        """Bytes once loaded, in all."""
        return len(self.offsets) * nbytes_of(self.layout.shape, self.layout.dtype)


@dataclass
class References:
    """One reference, or a list of them, folded into runs."""

    runs: list[Run]
    single: bool = False


def runs_of(value: Any) -> list[Run]:
    """Return references or a trajectory, folded."""
    if isinstance(value, Trajectory):
        return [Run(value.layout_of(each.path), *_places(each)) for each in value.segments]
    made = []
    # groupby compares by identity first, and references of one writer share their layout
    for layout, group in itertools.groupby(value, key=operator.attrgetter("layout")):
        if layout.compression is None:
            made.append(Run(layout, [each.offset for each in group], None))
        else:
            members = list(group)
            offsets = [each.offset for each in members]
            made.append(Run(layout, offsets, [each.compressed_size for each in members]))
    return made


def _places(segment: Segment) -> tuple[Sequence[int], Sequence[int] | None]:
    if segment.offsets is None:
        stop = segment.offset + segment.count * segment.stride
        if segment.stride:
            return range(segment.offset, stop, segment.stride), None
        return [segment.offset] * segment.count, None
    return segment.offsets.tolist(), None if segment.sizes is None else segment.sizes.tolist()


def require_whole(run: Run) -> None:
    """Check that all bytes of a run are there, by the size of the file."""
    layout = run.layout
    size = size_of(layout.directory, layout.path)
    nbytes = nbytes_of(layout.shape, layout.dtype)
    if not len(run.offsets):
        return
    ends = (
        max(run.offsets) + nbytes
        if run.sizes is None
        else max(map(operator.add, run.offsets, run.sizes))
    )
    if ends > size:
        name = os.fspath(Path(layout.directory, layout.path))
        raise truncated(name, min(run.offsets), ends - min(run.offsets), size)
