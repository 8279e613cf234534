"""`open_references`: every array of a run by its path, for what is no Dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.engine import journals
from binref_sci.engine.results import read_results
from binref_sci.engine.source import find
from binref_sci.errors import UnknownVariableError
from binref_sci.hints import absent
from binref_sci.trajectory import Trajectory


class References(dict[str, BinrefArray | Trajectory | NDArray[Any]]):
    """Arrays of a run by their path; one that is not there is told with those that are."""

    def __missing__(self, path: object) -> NoReturn:
        raise UnknownVariableError(absent("array", path, self))


def open_references(
    source: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> References:
    """Return the arrays that a run has written by path; those in buffers lazily.

    Parameters
    ----------
    source, storage_options
        As for `open_dataset`.

    Returns
    -------
    dict
        Output fields by their path (``final``, ``flow.velocity``): a `BinrefArray`, or for
        a list of equal arrays a `Trajectory`; a NumPy array for what the response itself
        holds, numbers included. The arrays of a ragged list are found one by one,
        ``pieces.[0]``, ``pieces.[1]``, … Then the journals of the newest run by name,
        in parts ``snapshots.[0]``, … where shape or dtype change or ranks wrote blocks.

    Raises
    ------
    BufferNotFoundError, FormatError
        As `open_dataset`; buffers themselves are not looked at.

    Examples
    --------
    >>> import tempfile
    >>> from binref_sci.writer import BinrefWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> with BinrefWriter(output_path=folder.name) as writer:
    ...     refs = writer.write([1, 2, 3]), writer.write([[0.5]])
    >>> {path: part.shape for path, part in open_references(folder.name).items()}
    {'snapshots.[0]': (1, 3), 'snapshots.[1]': (1, 1, 1)}
    >>> folder.cleanup()
    """
    place = find(source, storage_options)
    made = References()
    members = journals.newest_run(journals.heads(place), place)
    if place.results is not None and journals.follows_results(members, place):
        for path, leaf in read_results(place.results, place.directory, ragged=True):
            if isinstance(leaf, BinrefArray | Trajectory | np.ndarray):
                made[path] = leaf
    for name, group in journals.named([journals.read(head) for head in members]).items():
        parts: list[Trajectory] = []
        for journal in group:
            if journal.uniform and journal.segments:
                parts.append(Trajectory.from_journal(journal))
            else:
                parts += [Trajectory(stored, name=name) for stored in journal.each_segment()]
        free = name if name not in made else f"{name}_journal"
        if len(parts) == 1:
            made[free] = parts[0]
        else:
            made.update({f"{free}.[{number}]": part for number, part in enumerate(parts)})
    return made
