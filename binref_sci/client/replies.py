"""What a component answered, as the caller wants it: in memory, or on disk and lazy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.client.snapshots import in_memory
from binref_sci.errors import BufferNotFoundError, FormatError
from binref_sci.labels import Labels
from binref_sci.storage import status_of
from binref_sci.trajectory import Trajectory


@dataclass(frozen=True)
class Reply:
    """One answer, parsed, with its arrays as on the wire or in memory already.

    Parameters
    ----------
    value
        JSON value; NumPy arrays in it stay as they are.
    folder
        Absolute output path that its references are relative to, or None.
    owner
        Kept alive with what is read from `folder`.
    hint
        What may be wrong if a buffer is not there.
    """

    value: Any
    folder: Path | None
    owner: object = None
    hint: str = ""

    def decoded(self, *, lazy: bool, labels: Mapping[str, Labels]) -> Any:
        """Return the answer with arrays of the caller's kind.

        Parameters
        ----------
        lazy
            References stay on disk, as `BinrefArray` and `Trajectory`; else everything
            is NumPy: new, writable, private, 0-d arrays for single numbers.
        labels
            Of the outputs, by path.

        Raises
        ------
        InvalidReferenceError
            If a reference is malformed or leads outside the output path.
        BufferNotFoundError
            If a buffer is not there.
        PayloadError
            If an inline array is malformed.
        FormatError
            If there are references, and no output path.
        """
        return _Decoder(self, lazy, labels).value(self.value, ())


class _Decoder:
    def __init__(self, reply: Reply, lazy: bool, labels: Mapping[str, Labels]) -> None:  # noqa: FBT001
        self._reply = reply
        self._lazy = lazy
        self._labels = labels
        self._found: set[str] = set()

    def value(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, dict):
            if wire.is_array_json(value):
                return self._array(value, path)
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list) and value:
            if all(_is_reference(item) for item in value):
                return self._references(value, path)
            if type(value[0]) in (dict, list):
                return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _array(self, value: dict[str, Any], path: tuple[str | int, ...]) -> Any:
        if not _is_reference(value):
            return wire.decode_inline(value, _spelled(path))
        array = self._reference(value, path)
        return array if self._lazy else array.load()

    def _references(self, values: list[Any], path: tuple[str | int, ...]) -> Any:
        arrays = [self._reference(item, (*path, n)) for n, item in enumerate(values)]
        first = arrays[0].layout
        uniform = all(
            array.layout.shape == first.shape
            and array.layout.dtype == first.dtype
            and array.layout.compression == first.compression
            for array in arrays
        )
        if not uniform:
            return arrays if self._lazy else [array.load() for array in arrays]
        trajectory = Trajectory.from_refs(
            arrays, labels=self._label(path, len(first.shape) + 1), owner=self._reply.owner
        )
        return trajectory if self._lazy else list(in_memory(trajectory))

    def _reference(self, value: dict[str, Any], path: tuple[str | int, ...]) -> BinrefArray:
        where = _spelled(path)
        ref = wire.ref_from_json(value, where)
        folder = self._reply.folder
        if folder is None:
            raise FormatError(
                f"{where}: the reply refers to the file {ref.path!r}, but this client has no "
                "output path to find it in; pass output_path=, the folder that the server writes "
                "to and that is seen from here"
            )
        if ref.path not in self._found:
            self._look_at(ref.path, folder, where)
            self._found.add(ref.path)
        return BinrefArray.from_ref(ref, folder, owner=self._reply.owner)

    def _look_at(self, buffer: str, folder: Path, where: str) -> None:
        """Refuse a buffer that lies elsewhere or is not there, before anything is read."""
        try:
            status_of(folder, buffer)
        except BufferNotFoundError as error:
            raise BufferNotFoundError(f"{where}: {error}{self._reply.hint}") from error

    def _label(self, path: tuple[str | int, ...], ndim: int) -> Labels | None:
        return label_of(self._labels, path, ndim)


def label_of(labels: Mapping[str, Labels], path: tuple[str | int, ...], ndim: int) -> Labels | None:
    """Return the labels of what stands at `path` and has `ndim` axes, if there are any.

    Labels of a snapshot in a list do for the list: its axis is the time.

    Examples
    --------
    >>> label_of({"u.[]": Labels(dims=("y", "x"), units="K")}, ("u",), 3)
    Labels(dims=('time', 'y', 'x'), units='K')
    """
    for pattern, found in labels.items():
        steps = pattern.split(".")
        whole = _matches(steps, path)
        if not whole and not (steps[-1] == "[]" and _matches(steps[:-1], path)):
            continue
        if found.dims is not None and len(found.dims) == ndim - 1:
            return found.replace(dims=("time", *found.dims))
        return found
    return None


def _matches(steps: list[str], path: tuple[str | int, ...]) -> bool:
    return len(steps) == len(path) and all(
        step == "[]" if isinstance(part, int) else step in (part, "{}")
        for step, part in zip(steps, path, strict=True)
    )


def _is_reference(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(data := value.get("data"), dict)
        and data.get("encoding") == "binref"
    )


def _spelled(path: tuple[str | int, ...]) -> str:
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


def folder_of(path: Path | None) -> str:
    """Return a folder as messages name it."""
    return "none" if path is None else os.fspath(path)
