"""What a writer is made with, checked before anything is made on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binref_sci.dtypes import checked_count
from binref_sci.errors import WriterError
from binref_sci.journal import Block, block_of
from binref_sci.labels import Labels, checked_text
from binref_sci.reference import checked_compression
from binref_sci.writer.checks import checked_labels

DEFAULT_MAX_FILE_SIZE = 1024**3
"""Bytes after which a writer begins another buffer."""


@dataclass(frozen=True)
class Options:
    """The arguments of a `BinrefWriter` that its files depend on.

    Parameters
    ----------
    name, total, max_file_size, compression, block
        As for the writer.
    labels, time_attrs
        Its dims, coordinates and attributes; those of the times apart.
    sync
        Whether each write waits for the disk.
    """

    name: str | None
    labels: Labels
    time_attrs: Mapping[str, Any]
    total: int | None
    max_file_size: int | None
    compression: str | None
    sync: bool
    block: Block | None

    @property
    def what(self) -> str:
        """Whose snapshots they are, for messages."""
        return repr(self.name) if self.name else "unnamed snapshots"


def checked_options(
    name: str | None,
    *,
    dims: tuple[str, ...] | list[str] | None,
    coords: Mapping[str, Any] | None,
    attrs: Mapping[str, Any] | None,
    total: int | None,
    max_file_size: int | None,
    compression: str | None,
    durability: str,
    block: tuple[slice, ...] | None,
    shape: tuple[int, ...] | None,
) -> Options:
    """Return a writer's arguments as `Options`.

    Raises
    ------
    TypeError, WriterError, InvalidReferenceError
        If one cannot be meant.
    """
    check_name(name, "name")
    if durability not in ("process", "power"):
        raise WriterError(f"durability must be 'process' or 'power', got {durability!r}")
    if max_file_size is not None and checked_count(max_file_size, "max_file_size") < 1:
        raise WriterError("max_file_size must be at least 1 byte, or None")
    labels, time_attrs = checked_labels(dims, coords, attrs)
    return Options(
        name=name,
        labels=labels,
        time_attrs=time_attrs,
        total=None if total is None else checked_count(total, "total"),
        max_file_size=max_file_size,
        compression=checked_compression(compression),
        sync=durability == "power",
        block=block_of(block, shape),
    )


def check_name(name: str | None, what: str) -> None:
    """Refuse what cannot name a variable or a run.

    Raises
    ------
    WriterError
        If it is no text, or empty, or cannot be kept.
    """
    if name is None:
        return
    if not isinstance(name, str) or not name:
        raise WriterError(f"{what} must be a non-empty string or None, got {name!r}")
    try:
        checked_text(name, what)
    except ValueError as error:
        raise WriterError(str(error)) from None


def check_mode(mode: str, name: str | None) -> None:
    """Refuse an unknown mode, and to go on with what has no name.

    Raises
    ------
    WriterError
        In both cases.
    """
    if mode not in ("w", "a"):
        raise WriterError(f"mode must be 'w' or 'a', got {mode!r}")
    if mode == "a" and name is None:
        raise WriterError("mode='a' needs the name of the variable to go on with")
