"""The plain part of a value as JSON text, with marks where its arrays belong."""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from binref_sci.array import BinrefArray
from binref_sci.errors import ComponentError
from binref_sci.runtime.schema import ShapeDType, serialization_context
from binref_sci.trajectory import Trajectory

_NESTED: Final = (float, dict, list)


class Skeleton:
    """The plain part of a value as JSON text, and the arrays that belong into it.

    Parameters
    ----------
    value
        A pydantic model, or plain Python values.
    mark
        Stands for arrays in the text, followed by a number; random, so that no text in
        the value can be taken for it.
    """

    def __init__(self, value: Any, mark: str | None = None) -> None:
        self.leaves: list[Any] = []
        self._mark = mark or uuid.uuid4().hex
        context = serialization_context(self._take)
        try:
            if isinstance(value, BaseModel):
                tree = value.model_dump(
                    mode="json", context=context, fallback=self._unknown, warnings=False
                )
            else:
                marked = self._marked(value)
                tree = to_jsonable_python(marked, context=context, fallback=self._unknown)
            self.text = orjson.dumps(_finite(tree))
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
            raise ComponentError(f"the result cannot be written as JSON: {error}") from error

    def _take(self, leaf: Any) -> str:
        self.leaves.append(leaf)
        return f"{self._mark}:{len(self.leaves) - 1}"

    def _marked(self, value: Any) -> Any:
        """Return plain values with a mark for each list of arrays; pydantic asks for each item."""
        if type(value) is dict:
            return {key: self._marked(each) for key, each in value.items()}
        if type(value) is list and value and set(map(type, value)) <= {BinrefArray, np.ndarray}:
            return self._take(value)
        return value

    def _unknown(self, value: Any) -> Any:
        """Handle what pydantic does not know: arrays where the schema says nothing of them."""
        if isinstance(value, BinrefArray | Trajectory | np.ndarray | ShapeDType):
            return self._take(value)
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"{type(value).__name__} {str(value)[:60]!r} is nothing that JSON has")

    def parts(self) -> Iterator[tuple[bytes, int | None]]:
        """Yield text, and the number of the leaf that follows; None at the end."""
        found = re.split(rb'"%b:([0-9]+)"' % self._mark.encode(), self.text)
        for text, number in zip(found[::2], [*found[1::2], None], strict=True):
            yield text, None if number is None else int(number)


def _finite(tree: Any) -> Any:
    """Return plain values with text for the infinities; NaN becomes null by itself."""
    if isinstance(tree, float):
        return tree if math.isfinite(tree) or tree != tree else _infinity(tree)
    if isinstance(tree, dict):
        for key, value in tree.items():
            if type(value) in _NESTED:
                tree[key] = _finite(value)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            if type(value) in _NESTED:
                tree[index] = _finite(value)
    return tree


def _infinity(number: float) -> str:
    return "Infinity" if number > 0 else "-Infinity"


def digest(value: Any) -> str:
    """Return what tells equal inputs from different ones, however they were encoded.

    Examples
    --------
    >>> digest({"x": np.array([1.0])}) == digest({"x": np.array([2.0])})
    False
    """
    skeleton = Skeleton(value, mark="array")
    state = hashlib.blake2b(skeleton.text, digest_size=16)
    for leaf in skeleton.leaves:
        for each in leaf if isinstance(leaf, list) else [leaf]:
            if isinstance(each, np.ndarray | np.generic):
                array = np.ascontiguousarray(each)
                state.update(f"{array.dtype.str}{np.shape(each)}".encode())
                state.update(array.reshape(-1).view(np.uint8).data)
            else:
                state.update(repr(each).encode())
    return f"blake2b:{state.hexdigest()}"
