"""Find the trajectory that ``mode="a"`` goes on with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binref_sci.errors import WriterError
from binref_sci.journal import SUFFIX, Journal, hold, read_journal
from binref_sci.writer.options import Options


@contextmanager
def newest_held(directory: str, options: Options) -> Iterator[Journal | None]:
    """Give the newest journal of the variable, if any, held so that only one writer goes on.

    Raises
    ------
    WriterError
        If it is being written, or its compression is another.
    """
    journal = _newest(directory, options)
    if journal is None:
        yield None
        return
    held = None if journal.state == "writing" else hold(journal.path)
    if held is None:
        raise WriterError(
            f"{options.what} in {directory!r} is being written by a living writer; "
            "mode='a' goes on with a trajectory that has ended"
        )
    try:
        journal = read_journal(journal.path)
        compression = journal.header.compression
        if compression != options.compression:
            raise WriterError(
                f"{options.what} in {directory!r} has compression {compression!r}, "
                f"not {options.compression!r}; mode='a' cannot change it"
            )
        yield journal
    finally:
        os.close(held)


def _newest(directory: str, options: Options) -> Journal | None:
    wanted = options.name, options.block
    found = [
        journal
        for path in Path(directory).glob(f"*{SUFFIX}")
        if ((journal := read_journal(path)).header.name, journal.header.block) == wanted
    ]
    return max(found, key=lambda journal: journal.header.created_ns, default=None)
