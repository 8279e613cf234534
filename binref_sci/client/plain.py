"""Inputs as the wire has them: foreign arrays as NumPy's, numbers as JSON can have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.client.document import Path, Singles
from binref_sci.client.replies import spelled
from binref_sci.dtypes import checked_dtype
from binref_sci.errors import UnsupportedDTypeError
from binref_sci.runtime.schema import ShapeDType
from binref_sci.trajectory import Trajectory

_PLAIN: Final = {int, bool, str, type(None)}
_NUMBERS: Final = {int, float, bool}
_SCALARS: Final = np.bool, np.integer, np.floating


class Plain:
    """Makes inputs plain.

    A single number of NumPy's, a scalar or an array without axes, is a plain number where
    the component's schema has one, and an array of its dtype where it has an array.

    Parameters
    ----------
    document
        Returns the component's OpenAPI document; asked for only if there is such a number.
    """

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._singles = Singles(document)
        self._known: dict[tuple[type, Path], bool] = {}  # whether a type is a number in a list

    def of(self, value: Any, path: Path) -> Any:
        """Return a value at some place as the wire has it.

        Raises
        ------
        UnsupportedDTypeError
            If an array has no dtype of the wire; names its place.
        """
        if isinstance(value, Mapping):
            return {key: self.of(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            kinds = set(map(type, value))
            if kinds <= _PLAIN or (kinds <= {int, float} and all(map(math.isfinite, value))):
                return value
            if any(issubclass(kind, _SCALARS) for kind in kinds):
                value = self._numbers(value, kinds, path)
                if set(map(type, value)) <= _NUMBERS:
                    return value if all(map(math.isfinite, value)) else list(map(_number, value))
            return [self.of(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return self._single(value, path)
        if isinstance(value, float):
            return _number(value)
        if isinstance(value, complex):
            return np.array(value)
        if isinstance(value, BinrefArray | Trajectory | ShapeDType | BaseModel | str):
            return value
        if isinstance(value, np.ma.MaskedArray):
            raise UnsupportedDTypeError(
                f"{spelled(path)}: a masked array would lose its mask; pass array.filled(value)"
            )
        if hasattr(value, "__array__"):
            array = np.asarray(value)
            if array.ndim == 0 and array.dtype.kind in "biuf":
                return self._single(array, path)
            return _checked(array, path)
        return value

    def _numbers(
        self, value: list[Any] | tuple[Any, ...], kinds: set[type], path: Path
    ) -> list[Any] | tuple[Any, ...]:
        """Return a list with plain numbers for NumPy's; asked of the first of each type alone."""
        items = self._singles.items(path)
        if items is None:
            return value
        plain = set()
        for kind in kinds:
            if issubclass(kind, _SCALARS):
                key = kind, items
                if key not in self._known:
                    index = next(i for i, item in enumerate(value) if type(item) is kind)
                    single = self._single(value[index], (*path, index))
                    self._known[key] = not isinstance(single, np.ndarray)
                if self._known[key]:
                    plain.add(kind)
        return [item.item() if type(item) in plain else item for item in value]

    def _single(self, value: Any, path: Path) -> Any:
        dtype = _checked(value, path).dtype
        is_array = self._singles.is_array(dtype.name, path)
        if is_array is None:  # as it is
            is_array = isinstance(value, np.ndarray)
        return np.asarray(value) if is_array else _number(value.item())


def _number(value: Any) -> Any:
    # In a list null would be NaN, alone it would be nothing: the text is NaN everywhere.
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _checked(array: Any, path: Path) -> Any:
    try:
        checked_dtype(array.dtype)
    except UnsupportedDTypeError as error:
        raise UnsupportedDTypeError(f"{spelled(path)}: {error}") from error
    return array
