"""What every array on disk answers as a NumPy array would."""

from __future__ import annotations

import math
from numbers import Number
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from binref_sci.dtypes import nbytes_of
from binref_sci.plan import ON_DISK, REMOTE, Stored
from binref_sci.unread import Unread


class StoredArray(Unread):
    """An array on disk: read-only, of known shape and dtype, read when it is asked for.

    Not abstract as Python has it: to ask for an instance of such a class costs half a
    microsecond, and every read and write asks.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # what either kind has of its own, beside what `Unread` needs

        @property
        def dtype(self) -> np.dtype[Any]:
            """Element type."""

        @property
        def compression(self) -> str | None:
            """Codec of the stored bytes, or None."""

        @property
        def stored(self) -> Stored:
            """Where it lies, as the planner has it."""

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array once loaded."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def state(self) -> str:
        """``"on disk"``, or what is wrong with a file of it; no data is read."""
        return self.stored.state

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001  # NumPy's protocol
    ) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                f"a {type(self).__name__} is on disk: making a NumPy array of it reads a copy"
            )
        made = self.load()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __eq__(self, other: object) -> Any:
        """With a number or list of the same shape, as with an array: compare by element."""
        if not isinstance(other, Number | list | tuple):
            return NotImplemented
        try:
            given = np.asarray(other)
        except ValueError:  # lists of different lengths
            return False
        return np.asarray(self) == given if given.shape == self.shape else False

    __hash__ = object.__hash__

    def __copy__(self) -> Self:
        return self  # read-only, and a copy would not keep its owner

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @property
    def _ending(self) -> str:
        """Codec and state, where they are worth a word in ``repr``."""
        codec = "" if self.compression is None else f", {self.compression}"
        state = self.state
        return codec if state in (ON_DISK, REMOTE) else f"{codec}, {state}"
