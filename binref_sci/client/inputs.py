"""What a caller hands over, made ready for the component: as a request, or in memory.

The plain part of the inputs goes through JSON either way, so that a component in this
process sees what a served one would. Arrays go beside it: in memory as they are, in a
request as base64, or as a reference if they lie where the server can see them.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from pydantic import BaseModel

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.client.plain import Plain
from binref_sci.client.snapshots import in_memory
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.reference import ArrayRef
from binref_sci.runtime.schema import ShapeDType
from binref_sci.runtime.skeleton import Skeleton
from binref_sci.trajectory import Trajectory

Piece = bytes | memoryview

_SMALL: Final = 1 << 20  # bytes of a request that are sent in one go


class Inputs:
    """The inputs of one call.

    Parameters
    ----------
    inputs
        A mapping or a pydantic model: numbers, text, lists, arrays in memory or on disk.
    abstract
        Whether arrays are told by shape and dtype alone, as ``abstract_eval`` wants.
    beside
        What a gradient endpoint takes beside the inputs.
    document
        Returns the component's OpenAPI document; see `Plain`.

    Raises
    ------
    UnsupportedDTypeError
        If an array has no dtype of the wire; names its place.
    PayloadError
        If something else cannot be sent as JSON.

    Examples
    --------
    >>> b"".join(Inputs({"x": np.array([1, 2], "int8"), "steps": 3}).pieces())
    b'{"inputs":{"x":{"object_type":"array","shape":[2],"dtype":"int8","data":{"buffer":"AQI=","encoding":"base64"}},"steps":3}}'
    """

    def __init__(
        self,
        inputs: Mapping[str, Any] | BaseModel,
        *,
        abstract: bool = False,
        beside: Mapping[str, Any] | None = None,
        document: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        if not isinstance(inputs, Mapping | BaseModel):
            raise PayloadError(
                f"inputs must be a dict or a pydantic model, got {type(inputs).__name__}"
            )
        self._abstract = abstract
        self._mark = uuid.uuid4().hex
        try:
            plain = Plain(document)
            payload = {"inputs": plain.of(inputs, ("inputs",))}
            payload |= {key: plain.of(value, (key,)) for key, value in (beside or {}).items()}
            self._skeleton = Skeleton(payload, self._mark)
        except RecursionError:
            raise PayloadError("the inputs are nested too deep, or contain themselves") from None
        except ComponentError as error:  # the encoder's view: here it is the caller's value
            raise PayloadError(
                f"the inputs cannot be written as JSON: {error.__cause__ or error}"
            ) from error

    def pieces(self, input_path: Path | None = None) -> Iterator[Piece]:
        """Yield the body of a request.

        Parameters
        ----------
        input_path
            Folder that the server resolves references in; arrays on disk below it are
            referred to, others are read and sent.
        """
        for text, number in self._skeleton.parts():
            yield text
            if number is not None:
                yield from self._leaf(self._skeleton.leaves[number], input_path)

    def body(self, input_path: Path | None = None) -> bytes | Iterator[Piece]:
        """Return the body of a request: at once if it is small, else in pieces."""
        pieces = self.pieces(input_path)
        start: list[Piece] = []
        size = 0
        for piece in pieces:
            start.append(piece)
            size += len(piece)
            if size > _SMALL:
                return itertools.chain(start, pieces)
        return b"".join(start)

    def tree(self) -> Any:
        """Return the payload for a component in this process, arrays in it."""
        return self._filled(orjson.loads(self._skeleton.text))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(self._mark):
            leaf = self._skeleton.leaves[int(value.removeprefix(f"{self._mark}:"))]
            if self._abstract:
                return _abstract(leaf)
            return list(in_memory(leaf)) if isinstance(leaf, Trajectory) else leaf
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list) and not set(map(type, value)) <= {int, float, bool}:
            return [self._filled(item) for item in value]
        return value

    def _leaf(self, leaf: Any, input_path: Path | None) -> Iterator[Piece]:
        if self._abstract:
            yield orjson.dumps(_abstract(leaf))
        elif isinstance(leaf, list | Trajectory):
            separator = b"["
            for item in leaf:
                yield separator
                yield from self._leaf(item, input_path)
                separator = b","
            yield b"]" if len(leaf) else b"[]"
        elif isinstance(leaf, BinrefArray) and (shared := _below(leaf, input_path)) is not None:
            yield orjson.dumps(wire.ref_to_json(shared))
        else:
            yield from wire.array_pieces(leaf, "base64")


def _abstract(leaf: Any) -> Any:
    if isinstance(leaf, ShapeDType):
        return {"shape": list(leaf.shape), "dtype": leaf.dtype}
    if isinstance(leaf, list | Trajectory):
        return [_abstract(item) for item in leaf]
    return {"shape": list(np.shape(leaf)), "dtype": leaf.dtype.name}


def _below(array: BinrefArray, input_path: Path | None) -> ArrayRef | None:
    """Return the reference that a server finds in its input path, if the file lies there."""
    if input_path is None:
        return None
    root = os.path.realpath(input_path)
    real = os.path.realpath(array.directory / array.path)
    if not real.startswith(root.rstrip("/") + "/"):
        return None
    ref = array.ref
    return ArrayRef(
        os.path.relpath(real, root).replace(os.sep, "/"),
        ref.offset,
        ref.shape,
        ref.dtype,
        ref.compression,
        ref.compressed_size,
    )


def joined(pieces: Iterable[Piece]) -> bytearray:
    """Return pieces as one text, without a second copy of it."""
    made = bytearray()
    for piece in pieces:
        made += piece
    return made
