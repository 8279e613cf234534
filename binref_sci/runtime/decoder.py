"""From a response's JSON text back to values: the other end of the encoder.

Lazily, references stay references: a list of arrays of one shape and dtype becomes a
`Trajectory`, folded while the text is gone through, so that a hundred thousand references
cost a few integers each. Eagerly, everything becomes NumPy arrays, each writable and
nobody else's; snapshots that lie side by side are read many at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.dtypes import nbytes_of
from binref_sci.errors import BinrefError, InvalidReferenceError, NoOutputPathError, PayloadError
from binref_sci.plan import Segment, Stored
from binref_sci.storage import confine, open_buffer, read_into_many, require
from binref_sci.trajectory import Trajectory, fold_offsets

_MANY = 1024  # snapshots read with one system call


def decode(
    text: bytes | bytearray | memoryview | str,
    *,
    directory: str | os.PathLike[str] | None = None,
    lazy: bool = False,
    owner: object = None,
) -> Any:
    """Return the value that a response's JSON text holds, with its arrays.

    Parameters
    ----------
    text
        In any of the three formats, of this package or of tesseract-core.
    directory
        Directory that references are relative to: the output path, or the run
        directory for a ``results.json``.
    lazy
        Leave arrays on disk: a reference becomes a `BinrefArray`, a list of references
        of one shape, dtype and codec a `Trajectory`; other lists stay lists. Inline
        arrays become NumPy arrays either way.
    owner
        Kept alive by lazy arrays: a scratch folder that ends with them.

    Raises
    ------
    PayloadError
        If the text is not JSON, or an inline array is malformed; names the field.
    InvalidReferenceError
        If a reference is malformed or leads outside `directory`; names the field.
    NoOutputPathError
        If there are references, but no directory.
    BufferNotFoundError, TruncatedBufferError
        Eagerly, if the bytes are not there.

    Examples
    --------
    >>> decode(b'{"x": {"object_type": "array", "shape": [2], "dtype": "int8",'
    ...        b' "data": {"encoding": "base64", "buffer": "AQI="}}, "n": 3}')
    {'x': array([1, 2], dtype=int8), 'n': 3}
    """
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PayloadError(f"the response is not valid JSON: {error}") from error
    return decode_tree(tree, directory=directory, lazy=lazy, owner=owner)


def decode_tree(
    tree: Any,
    *,
    directory: str | os.PathLike[str] | None = None,
    lazy: bool = False,
    owner: object = None,
) -> Any:
    """Return the value of parsed JSON, as `decode` does for text. `tree` may be changed."""
    # not resolve(): a link to the folder may be pointed elsewhere, and then leads there
    root = None if directory is None else os.path.abspath(directory)  # noqa: PTH100
    return _Decoder(root, lazy=lazy, owner=owner).value(tree, "")


class _Decoder:
    def __init__(self, root: str | None, *, lazy: bool, owner: object) -> None:
        self._root = root
        self._lazy = lazy
        self._owner = owner
        self._confined: set[str] = set()

    def value(self, tree: Any, where: str) -> Any:
        if isinstance(tree, dict):
            if _is_array(tree):
                return self._array(tree, where)
            for key, value in tree.items():
                if isinstance(value, dict | list):
                    tree[key] = self.value(value, f"{where}.{key}" if where else key)
            return tree
        if isinstance(tree, list):
            if tree and _is_reference(tree[0]):
                folded = self._folded(tree, where)
                if folded is not None:
                    return folded if self._lazy else _loaded(folded)
            for index, value in enumerate(tree):
                if isinstance(value, dict | list):
                    tree[index] = self.value(value, f"{where}.[{index}]" if where else f"[{index}]")
        return tree

    def _array(self, tree: dict[str, Any], where: str) -> Any:
        if not _is_reference(tree):
            return wire.decode_inline(tree, where)
        ref = wire.ref_from_json(tree, where)
        array = BinrefArray.from_ref(ref, self._allowed(ref.path, where), owner=self._owner)
        return array if self._lazy else array.load()

    def _allowed(self, path: str, where: str) -> str:
        """Return the directory, once the path is known to stay in it."""
        if self._root is None:
            raise NoOutputPathError(
                f"{where or 'the response'} refers to the file {path!r}, but there is no folder to "
                "look in; pass output_path=, the folder that the server writes to, as seen from here"
            )
        if path not in self._confined:
            try:
                confine(self._root, path)
            except InvalidReferenceError as error:
                raise InvalidReferenceError(f"{where}: {error}" if where else str(error)) from error
            self._confined.add(path)
        return self._root

    def _folded(self, items: list[Any], where: str) -> Trajectory | None:
        """Return references as a trajectory, or None if they are not of one kind."""
        try:
            shape, dtype = items[0]["shape"], items[0]["dtype"]
            compression = items[0]["data"].get("compression")
            runs = list(_runs(items, shape, dtype, compression))
        except (_Odd, KeyError, TypeError, AttributeError, BinrefError):
            return None  # item by item, then, which says what is wrong and where
        first = wire.ref_from_json(items[0], where)
        nbytes = nbytes_of(first.shape, first.dtype)
        segments: list[Segment] = []
        root = ""
        for path, offsets, sizes in runs:
            root = self._allowed(path, where)
            places = np.array(offsets, np.int64)
            if compression is None:
                segments += fold_offsets(path, places, nbytes)
            else:
                columns = places, np.array(sizes, np.int64)
                segments.append(Segment(path, 0, len(places), 0, *columns))
        stored = Stored(root, tuple(segments), first.shape, first.dtype, compression)
        return Trajectory(stored, owner=self._owner)


class _Odd(Exception):  # noqa: N818  # not an error: the list is no trajectory
    """An item that differs from the first in more than its place."""


def _runs(
    items: list[Any], shape: Any, dtype: Any, compression: Any
) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield path, offsets and sizes of references that follow one another in one buffer."""
    path = ""
    offsets: list[int] = []
    sizes: list[int] = []
    for item in items:
        data = item["data"]
        if (
            item["shape"] != shape
            or item["dtype"] != dtype
            or data["encoding"] != "binref"
            or data.get("compression") != compression
            or len(item) > 4
            or (len(item) == 4 and item["object_type"] != "array")
        ):
            raise _Odd
        # The quick way for the text that all but the first of a buffer have; anything
        # else is parsed by the one parser.
        name, _, digits = data["buffer"].rpartition(":")
        if compression is None and name == path and len(digits) < 19 and _is_number(digits):
            offsets.append(int(digits))
            continue
        ref = wire.ref_from_json(item)
        if ref.path != path:
            if offsets:
                yield path, offsets, sizes
            path, offsets, sizes = ref.path, [], []
        offsets.append(ref.offset)
        sizes.append(ref.compressed_size or 0)
    yield path, offsets, sizes


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()


def _is_array(tree: dict[str, Any]) -> bool:
    return "data" in tree and wire.is_array_json(tree)


def _is_reference(tree: Any) -> bool:
    return isinstance(tree, dict) and _is_array(tree) and tree["data"].get("encoding") == "binref"


def _loaded(trajectory: Trajectory) -> list[NDArray[Any]]:
    """Return all snapshots, each an array of its own."""
    shape, dtype = trajectory.shape[1:], trajectory.dtype
    nbytes = nbytes_of(shape, dtype)
    made: list[NDArray[Any]] = []
    for segment in trajectory.segments:
        if segment.offsets is not None or segment.stride != nbytes or not nbytes:
            layout = trajectory.layout_of(segment.path)
            places = map(segment.place, range(segment.count))
            coded = trajectory.compression is not None
            made += [
                BinrefArray.at(layout, offset, size if coded else None).load()
                for offset, size in places
            ]
            continue
        directory = os.fspath(trajectory.directory)
        with open_buffer(directory, segment.path) as buffer:
            require(buffer, segment.offset, segment.count * nbytes)
            for start in range(0, segment.count, _MANY):
                count = min(_MANY, segment.count - start)
                targets = [np.empty(shape, dtype) for _ in range(count)]
                read_into_many(buffer, segment.offset + start * nbytes, targets)
                made += targets
    return made
