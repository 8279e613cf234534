"""Text as numbers: an array of strings is one of characters, with one more axis."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.errors import UnsupportedDTypeError
from binref_sci.journal import Text
from binref_sci.trajectory import Trajectory

_CODES: Final[dict[str, np.dtype[Any]]] = {
    "U": np.dtype("<u4"),
    "S": np.dtype("u1"),
    "O": np.dtype("<u4"),
}


class TextArray:
    """A lazy array of text over one of characters; reads like the latter.

    Parameters
    ----------
    codes
        Characters, along the last axis.
    kind
        As in `Form`.
    """

    compression: str | None = None

    def __init__(self, codes: Trajectory | BinrefArray, kind: Text) -> None:
        self.codes = codes
        self.shape: tuple[int, ...] = codes.shape[:-1]
        self._width = codes.shape[-1]
        self._kind = kind
        letter = "S" if kind == "S" else "<U"
        self.fixed = np.dtype(f"{letter}{self._width}")
        self.dtype: np.dtype[Any] = np.dtype(object) if kind == "O" else self.fixed

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of texts."""
        return math.prod(self.shape)

    def __getitem__(self, key: Any) -> Any:
        """Read by NumPy's rules."""
        given = key if isinstance(key, tuple) else (key,)
        if not any(part is Ellipsis for part in given):
            given = (*given, Ellipsis)
        read = np.ascontiguousarray(self.codes[(*given, slice(None))])
        made = read.view(self.fixed)[..., 0]
        return made.astype(object) if self._kind == "O" else made

    def __dask_tokenize__(self) -> Any:
        return "TextArray", self._kind, self.codes.__dask_tokenize__()


def text_kind(values: Any) -> Text | None:
    """Return how an array of text is kept; None if it holds something else."""
    kind = values.dtype.kind
    if kind in "US":
        return "U" if kind == "U" else "S"
    return "O" if kind in "OT" else None


def to_codes(values: NDArray[Any], kind: Text, where: str, width: int | None) -> NDArray[Any]:
    """Return text as an array of characters.

    Parameters
    ----------
    values
        Text in memory.
    kind
        As in `Form`.
    where
        Name of the variable, for messages.
    width
        Characters there is room for; None: as many as the longest text has.

    Raises
    ------
    UnsupportedDTypeError
        If there is anything but text, or it ends in NUL, or is longer than `width`.
    """
    fixed = values
    if kind == "O":
        odd = [item for item in values.flat if not isinstance(item, str)]
        if odd:
            raise UnsupportedDTypeError(
                f"variable {where!r} holds Python objects, {odd[0]!r} for one; "
                "store numbers, dates or text"
            )
        if any(item.endswith("\0") for item in values.flat):
            raise UnsupportedDTypeError(
                f"variable {where!r} holds text that ends in NUL characters, which fixed-width "
                "text drops; store it without them"
            )
        fixed = values.astype(str)
    letter, codes = "S" if kind == "S" else "<U", _CODES[kind]
    longest = max(fixed.dtype.itemsize // codes.itemsize, 1)
    if width is not None and longest > width:
        longest = max(1, int(np.char.str_len(fixed).max(initial=0)))
        if longest > width:
            raise UnsupportedDTypeError(
                f"variable {where!r} holds text of {longest} characters, but was saved with room "
                f"for {width}; save all of it again with mode='w'"
            )
    room = width or longest
    fixed = np.asarray(fixed, dtype=f"{letter}{room}", order="C")
    if not fixed.size:
        return np.empty((*values.shape, room), codes)
    return fixed.reshape(-1).view(codes).reshape(*values.shape, room)
