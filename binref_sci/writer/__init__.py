"""Stream snapshots to buffers, get references back."""

from binref_sci.writer.options import DEFAULT_MAX_FILE_SIZE
from binref_sci.writer.writing import BinrefWriter

__all__ = ["DEFAULT_MAX_FILE_SIZE", "BinrefWriter"]
