"""What an array on disk leaves to NumPy and xarray, and says so."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any, Final

import numpy as np

_LABELLED: Final = (
    "values",
    "compute",
    "dims",
    "coords",
    "sizes",
    "sel",
    "isel",
    "plot",
    "rolling",
)
"""What is asked for most of what a DataArray has and a NumPy array has not."""


class Unread:
    """Base of arrays on disk: arithmetic and methods would read everything, and no one asked.

    NumPy's functions do read, and so does an array of NumPy in an operation: there the whole
    array is asked for. One number is formatted and rounded as a number is.

    Examples
    --------
    >>> import tempfile
    >>> from binref_sci.array import BinrefArray
    >>> folder = tempfile.TemporaryDirectory()
    >>> energy = BinrefArray.write(2.5, output_path=folder.name)
    >>> f"{energy:.3f} J"
    '2.500 J'
    >>> energy * 2
    Traceback (most recent call last):
    TypeError: a BinrefArray lies on disk and has no arithmetic: np.asarray(a) reads all of it (8 bytes), ...
    >>> folder.cleanup()
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """Number of elements along each axis."""

        @property
        def nbytes(self) -> int:
            """Bytes once loaded."""

        def load(self) -> np.ndarray[Any, Any]:
            """Read everything."""
    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)  # a protocol that is asked for at each turn
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _LABELLED:
                text += "; a.to_xarray() has it, and stays lazy"
            elif hasattr(np.ndarray, name):
                text += f"; {self._ways()}"
            raise AttributeError(text, name=name, obj=self)

    def _ways(self) -> str:
        return (
            f"np.asarray(a) reads all of it ({self.nbytes} bytes), a.to_xarray() and "
            "a.to_dask() stay lazy"
        )

    def _refused(self, other: object = None) -> Any:
        plain = isinstance(other, Number | list | tuple | Unread | None)
        if not plain or isinstance(other, np.generic):
            return NotImplemented  # an array reads it, a DataArray or a dask array too
        raise TypeError(
            f"a {type(self).__name__} lies on disk and has no arithmetic: {self._ways()}"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refused
    __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refused
    __lt__ = __le__ = __gt__ = __ge__ = _refused
    __neg__ = __pos__ = __abs__ = __invert__ = _refused

    def __ne__(self, other: object) -> Any:
        same: Any = self.__eq__(other)
        if same is NotImplemented:
            return same
        return not same if isinstance(same, bool) else np.logical_not(same)

    def __format__(self, spec: str) -> str:
        return format(self._number(f"the format {spec!r}"), spec) if spec else str(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self._number("round()"), ndigits)

    def _number(self, what: str) -> Any:
        if self.shape:
            raise TypeError(
                f"{what} is for one number, and this has the shape {self.shape}; index it"
            )
        return self.load()[()]
