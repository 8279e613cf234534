"""What a component answered, as the caller wants it: in memory, or on disk and lazy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from binref_sci import wire
from binref_sci.array import BinrefArray, Layout
from binref_sci.client.document import Numbers
from binref_sci.client.snapshots import in_memory
from binref_sci.engine.dataset import SchemaLabels, merged
from binref_sci.engine.lending import Lenders
from binref_sci.errors import (
    BufferNotFoundError,
    FormatError,
    InvalidReferenceError,
    PayloadError,
    RemoteError,
)
from binref_sci.folding import Odd, fold_json, gc_paused, is_reference
from binref_sci.storage import status_of
from binref_sci.trajectory import Trajectory

_NUMBERS: Final = {int, float, bool}


@dataclass(frozen=True)
class Reply:
    """One answer, its arrays as on the wire or in memory already.

    Parameters
    ----------
    read
        Returns its JSON value; NumPy arrays in it stay as they are.
    folder
        Absolute output path that its references are relative to, or None.
    owner
        Kept alive with what is read from `folder`.
    hint
        What may be wrong if a buffer is not there.
    document
        Returns the component's OpenAPI document.
    """

    read: Callable[[], Any]
    folder: Path | None
    owner: object = None
    hint: str = ""
    document: Callable[[], Mapping[str, Any]] = dict

    def decoded(self, *, lazy: bool, labels: Mapping[str, Any]) -> Any:
        """Return the answer with arrays of the caller's kind.

        Parameters
        ----------
        lazy
            References stay on disk, as `BinrefArray` and `Trajectory`; else everything
            is NumPy: new, writable, private, 0-d arrays for single numbers.
        labels
            Of the outputs by path, as in the OpenAPI document.

        Raises
        ------
        InvalidReferenceError
            If a reference is malformed or leads outside the output path.
        BufferNotFoundError
            If a buffer is not there.
        RemoteError
            If an inline array is malformed.
        FormatError
            If there are references, and no output path.
        """
        # The tree of a hundred thousand references is built, looked through and dropped.
        with gc_paused():
            return _Decoder(self, labels, lazy=lazy).value(self.read(), ())


class _Decoder:
    def __init__(self, reply: Reply, labels: Mapping[str, Any], *, lazy: bool) -> None:
        self._reply = reply
        self._lazy = lazy
        self._schema = SchemaLabels(labels)
        self._numbers = Numbers(reply.document)
        self._lenders = Lenders(os.fspath(reply.folder or ""), (), ())
        self._found: set[str] = set()
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    def value(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            if wire.is_array_json(value):
                return self._array(value, path)
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list) and value:
            if is_reference(value[0]):
                return self._references(value, path)
            if set(map(type, value)) <= _NUMBERS:
                return value
            return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        return self._numbers.restored(value, path)

    def _array(self, value: dict[str, Any], path: tuple[str | int, ...]) -> Any:
        where = spelled(path)
        if not is_reference(value):
            try:
                return wire.decode_inline(value, where)
            except PayloadError as error:  # not the caller's: this array came from the other side
                raise RemoteError(f"the reply cannot be read: {error}", 200) from error
        ref = wire.ref_from_json(value, where)
        folder = self._folder(where)
        self._look_at(ref.path, where)
        kind = (ref.path, ref.shape, ref.dtype, ref.compression)
        layout = self._layouts.get(kind)
        if layout is None:
            layout = self._layouts[kind] = Layout(folder, *kind, self._reply.owner)
        array = BinrefArray.at(layout, ref.offset, ref.compressed_size)
        return array if self._lazy else array.load()

    def _references(self, values: list[Any], path: tuple[str | int, ...]) -> Any:
        """Return a list that starts with a reference."""
        where = spelled(path)

        def look_at(buffer: str) -> str:
            self._look_at(buffer, where)
            return buffer

        stored = fold_json(values, self._folder(where), where=where, path_of=look_at)
        if isinstance(stored, Odd):
            return [self.value(item, (*path, index)) for index, item in enumerate(values)]
        trajectory = Trajectory(stored, owner=self._reply.owner)
        return self._labelled(trajectory, path) if self._lazy else list(in_memory(trajectory))

    def _labelled(self, trajectory: Trajectory, path: tuple[str | int, ...]) -> Trajectory:
        """Return a trajectory with what its journal and the schema know of it."""
        labels = self._schema.of(field_path(path), trajectory.ndim)
        lent = self._lenders.of_trajectory(trajectory)
        times = None
        if lent is not None:
            labels = merged(lent.labels, labels)
            times = self._lenders.times_of(trajectory)
        return Trajectory(trajectory.stored, labels=labels, times=times, owner=trajectory.owner)

    def _folder(self, where: str) -> str:
        folder = self._reply.folder
        if folder is None:
            raise FormatError(
                f"{where}: the reply refers to a file, but this client has no output path to find "
                "it in; pass output_path=, the folder that the server writes to, as it is seen "
                "from here"
            )
        return os.fspath(folder)

    def _look_at(self, buffer: str, where: str) -> None:
        """Refuse a buffer that lies elsewhere or is not there, before anything is read."""
        if buffer in self._found:
            return
        try:
            status_of(self._folder(where), buffer)
        except BufferNotFoundError as error:
            raise BufferNotFoundError(f"{where}: {error}{self._reply.hint}") from error
        except InvalidReferenceError as error:
            raise InvalidReferenceError(f"{where}: {error}") from error
        self._found.add(buffer)


def field_path(path: tuple[str | int, ...]) -> str:
    """Return a place in a result as schemas and Datasets spell it: ``layers.[0].w``."""
    return ".".join(f"[{part}]" if isinstance(part, int) else part for part in path)


def spelled(path: tuple[str | int, ...]) -> str:
    """Return a place in a reply as Python would spell it: ``layers[0].w``."""
    made = ""
    for part in path:
        made += f"[{part}]" if isinstance(part, int) else f".{part}" if made else part
    return made or "the reply"


def private(leaf: Any) -> Any:
    """Return an array of a component in this process as a new one of the caller's own."""
    if isinstance(leaf, Trajectory):
        return list(in_memory(leaf))
    if isinstance(leaf, list):
        return [private(item) for item in leaf]
    if isinstance(leaf, BinrefArray):
        return leaf.load()
    return np.array(leaf, dtype=np.asarray(leaf).dtype.newbyteorder("<"), order="C")
