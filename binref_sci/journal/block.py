"""The part of a field that one writer streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binref_sci.dtypes import checked_count, checked_shape
from binref_sci.errors import InvalidReferenceError


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a field that one writer streams.

    Parameters
    ----------
    start, stop
        Of the block along each axis of the field.
    shape
        Of the whole field.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """Shape of the block."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the header's ``block`` entry."""
        return {"start": self.start, "stop": self.stop, "shape": self.shape}


def block_of(block: tuple[slice, ...] | None, shape: tuple[int, ...] | None) -> Block | None:
    """Return where a block of slices lies in a field of `shape`.

    Raises
    ------
    InvalidReferenceError
        If only one is given, a slice has a step, or it does not fit the field.
    """
    if block is None and shape is None:
        return None
    if block is None or shape is None:
        raise InvalidReferenceError(
            "block= (slices of the field) and shape= (of the whole field) must be given together"
        )
    whole = checked_shape(shape)
    parts = tuple(block) if isinstance(block, tuple | list) else (block,)
    if len(parts) != len(whole):
        raise InvalidReferenceError(
            f"block has {len(parts)} slices, but the field has {len(whole)} axes {whole}"
        )
    bounds = []
    for axis, (part, length) in enumerate(zip(parts, whole, strict=True)):
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise InvalidReferenceError(f"block[{axis}] must be a slice of step 1, got {part!r}")
        start = 0 if part.start is None else checked_count(part.start, f"block[{axis}].start")
        stop = length if part.stop is None else checked_count(part.stop, f"block[{axis}].stop")
        if not start <= stop <= length:
            raise InvalidReferenceError(f"block[{axis}] is {part}, but must lie in 0 to {length}")
        bounds.append((start, stop))
    return Block(tuple(a for a, _ in bounds), tuple(b for _, b in bounds), whole)
