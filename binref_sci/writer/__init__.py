"""Stream snapshots to buffers, get references back."""

from binref_sci.writer.writing import DEFAULT_MAX_FILE_SIZE, BinrefWriter

__all__ = ["DEFAULT_MAX_FILE_SIZE", "BinrefWriter"]
