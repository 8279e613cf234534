"""The output fields of a response: arrays in buffers, arrays inline, numbers, text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.errors import BinrefError, FormatError, PayloadError
from binref_sci.folding import Odd, are_references, fold_json, gc_paused, is_reference
from binref_sci.reference import ArrayRef
from binref_sci.storage import Root, place_of
from binref_sci.storage.remote import RemotePath
from binref_sci.trajectory import Trajectory
from binref_sci.wire import decode_inline, is_array_json, ref_from_json

Leaf = Trajectory | BinrefArray | NDArray[Any] | str | list[Any]
Leaves = Iterator[tuple[str, Leaf]]

_INFINITIES: Final = ("Infinity", "-Infinity")  # numbers that JSON lacks, as the wire has them


def read_results(
    path: Path | RemotePath,
    directory: Root,
    *,
    ragged: bool = False,
    refused: dict[str, BinrefError] | None = None,
) -> list[tuple[str, Leaf]]:
    """Return the output fields of a response, by path, without reading a buffer.

    Fields of nested results are spelled as in the wire's paths: ``flow.velocity``,
    ``layers.[0].weight``.

    Parameters
    ----------
    path
        File with the response.
    directory
        What its references are relative to.
    ragged
        Give the arrays of a list that do not fit together one by one, as
        ``field.[0]``, instead of refusing them.
    refused
        Takes the errors of ragged lists, by path, instead of the first being raised.

    Raises
    ------
    FormatError
        If it is another kind of JSON, or a list is ragged.
    InvalidReferenceError, PayloadError
        If an array is malformed; names the field.
    """
    content = path.read_bytes()
    with gc_paused():
        try:
            parsed = orjson.loads(content)
        except (orjson.JSONDecodeError, RecursionError) as error:
            raise FormatError(f"{os.fspath(path)!r} is not valid JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise FormatError(
                f"{os.fspath(path)!r} is no result: expected an object with the output fields, "
                f"found a {type(parsed).__name__}"
            )
        reader = _Reader(path, directory, refused, ragged=ragged)
        try:
            made = list(reader.fields(parsed, ""))
        except RecursionError as error:
            raise FormatError(f"{os.fspath(path)!r} is nested too deeply") from error
        if not reader.arrays:
            keys = ", ".join(map(repr, list(parsed)[:5])) or "no keys"
            raise FormatError(
                f"{os.fspath(path)!r} is no result: expected output fields with arrays, found an "
                f"object without any ({keys})"
            )
        del parsed  # while the collector rests: it would walk what is about to go
    return made


class _Reader:
    """Walks a response."""

    def __init__(
        self,
        file: Path | RemotePath,
        directory: Root,
        refused: dict[str, BinrefError] | None,
        *,
        ragged: bool,
    ) -> None:
        self._file = file
        self._directory = directory
        self._refused = refused
        self._ragged = ragged
        self._paths: dict[str, str] = {}
        self.arrays = 0

    def fields(self, value: Any, path: str) -> Leaves:
        """Yield what lies in a JSON value, by path."""
        if isinstance(value, dict):
            if is_array_json(value):
                self.arrays += 1
                yield path, self._array(value, path)
                return
            for key, item in value.items():
                yield from self.fields(item, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            yield from self._list(value, path)
        elif isinstance(value, str) and value not in _INFINITIES:
            yield path, value
        elif value is not None:
            yield path, decode_inline(float(value) if isinstance(value, str) else value, path)

    def _list(self, items: list[Any], path: str) -> Leaves:
        if are_references(items):
            self.arrays += len(items)
            found = fold_json(items, self._directory, where=path, path_of=self._path_of)
            if not isinstance(found, Odd):
                yield path, Trajectory(found)
                return
            yield from self._odd(items, path, found)
        elif items and is_array_json(items[0]):
            self.arrays += len(items)
            yield from self._inline(items, path)
        elif not items:
            yield path, np.empty(0)
        elif all(isinstance(item, str) for item in items):
            yield path, items
        elif _holds(items, dict) or _holds(items, str):
            yield from self._each(items, path)
        else:
            try:
                array = decode_inline(items, path)
            except PayloadError as error:
                yield from self._odd(items, path, _first_odd(items, error))
            else:
                yield path, array

    def _inline(self, items: list[Any], path: str) -> Leaves:
        arrays: list[NDArray[Any]] = []
        for at, item in enumerate(items):
            if not is_array_json(item) or is_reference(item):
                odd = Odd(at, "is not an array within the response, as the first is")
                yield from self._odd(items, path, odd)
                return
            array = decode_inline(item, f"{path}[{at}]")
            if arrays and (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
                odd = Odd(
                    at,
                    f"has shape {array.shape} and dtype {array.dtype.name}, the first "
                    f"{arrays[0].shape} and {arrays[0].dtype.name}",
                )
                yield from self._odd(items, path, odd)
                return
            arrays.append(array)
        yield path, np.stack(arrays)

    def _each(self, items: list[Any], path: str) -> Leaves:
        for at, item in enumerate(items):
            yield from self.fields(item, f"{path}.[{at}]")

    def _odd(self, items: list[Any], path: str, odd: Odd) -> Leaves:
        """Yield the items of a ragged list one by one, or refuse it."""
        if self._ragged:
            yield from self._each(items, path)
            return
        error = FormatError(
            f"field {path!r} is a ragged list, which is no variable: element {odd.at} "
            f"{odd.reason}; binref_sci.open_references({os.fspath(self._file)!r}) gives its arrays "
            f"one by one, and drop_variables={path!r} leaves it out"
        )
        if self._refused is None:
            raise error
        self._refused[path] = error

    def _array(self, value: dict[str, Any], path: str) -> BinrefArray | NDArray[Any]:
        if not is_reference(value):
            return decode_inline(value, path)
        ref = ref_from_json(value, path)
        place = self._path_of(ref.path)
        if place != ref.path:
            ref = ArrayRef(
                place, ref.offset, ref.shape, ref.dtype, ref.compression, ref.compressed_size
            )
        return BinrefArray.from_ref(ref, self._directory)

    def _path_of(self, path: str) -> str:
        """Return a path relative to the folder of the response.

        On the wire a path begins with the folder of its run; a response that was kept in
        that folder, whatever it is called now, refers to what lies beside it.
        """
        known = self._paths.get(path)
        if known is None:
            known = self._paths[path] = _beside(self._directory, path)
        return known


def _first_odd(items: list[Any], error: PayloadError) -> Odd:
    """Return the first of nested lists of numbers that differs in shape from the first."""
    first: tuple[int, ...] | None = None
    for at, item in enumerate(items):
        try:
            shape = decode_inline(item).shape
        except PayloadError as own:
            return Odd(at, f"is none itself ({own})")
        if first is None:
            first = shape
        if shape != first:
            return Odd(at, f"has shape {shape}, the first {first}")
    return Odd(0, f"and the others do not go together ({error})")


def _beside(directory: Root, path: str) -> str:
    outer, slash, inner = path.partition("/")
    folder = place_of(directory)
    if slash and inner and outer not in ("", ".", "..") and not (folder / outer).exists():
        # Reached by a link, the folder is known by the name that it has itself.
        names = {folder.name, folder.resolve().name if isinstance(folder, Path) else folder.name}
        named = outer.startswith("run_") or outer in names
        if named and (folder / inner).exists():
            return inner
    return path


def _holds(items: list[Any], kind: type) -> bool:
    """Tell whether nested lists begin with a value of a kind."""
    first: Any = items
    while isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, kind)
