"""What has been written, as one array: where it is one range of bytes."""

from __future__ import annotations

from binref_sci.array import BinrefArray, Layout
from binref_sci.errors import WriterError
from binref_sci.journal import Journal


def stacked(journal: Journal, what: str) -> BinrefArray:
    """Return the snapshots of a journal as one array of shape ``(n, *snapshot)``.

    Raises
    ------
    WriterError
        If they are not one byte range: several buffers, shapes or frames.
    """
    header = journal.header
    filled = [line for line, _ in journal.filled] or journal.segments[-1:]
    if header.compression is not None or len(filled) > 1:
        found = (
            "each is compressed on its own"
            if header.compression
            else f"they lie in {len(filled)} segments"
        )
        raise WriterError(
            f"cannot stack {journal.count} snapshots of {what} into one byte range: "
            f"{found}; use trajectory(), or max_file_size=None without compression"
        )
    if header.block is not None:
        raise WriterError(
            f"{what} is one block of a field of shape {header.block.shape}; open the "
            "run directory, which lays the blocks side by side"
        )
    line = filled[0]
    layout = Layout(journal.directory, line.buffer, (journal.count, *line.shape), line.dtype)
    return BinrefArray.at(layout, line.offset)
