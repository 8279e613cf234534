"""A list of references as JSON has it -> runs of snapshots, without an object a reference.

A hundred thousand references are a hundred thousand dicts once the text is parsed; that
cannot be helped, but nothing more is made of each. Columns are compared and parsed as
wholes, and only what is out of the ordinary is looked at one by one, by `wire`.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter, methodcaller
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from binref_sci.plan import Segment, Stored, fold_offsets
from binref_sci.reference import ArrayRef
from binref_sci.storage import Root
from binref_sci.wire import is_array_json, ref_from_json

_LARGEST: Final = 2**63 - 1  # what a file offset can be
_DIGITS: Final = 18  # as many always fit into 64 bits

PathOf = Callable[[str], str]
"""From a path on the wire to one relative to the root."""


class Odd(NamedTuple):
    """The first reference of a list that is unlike the first.

    Parameters
    ----------
    at
        Its place in the list.
    reason
        What differs, for the message.
    """

    at: int
    reason: str


class _Columns(NamedTuple):
    """What differs between equal references."""

    paths: list[str]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64] | None


@contextmanager
def gc_paused() -> Iterator[None]:
    """Keep the garbage collector from walking a large tree again and again while it grows."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def are_references(items: list[Any]) -> bool:
    """Tell whether a list of JSON values starts with a reference: the rest should follow."""
    return bool(items) and is_reference(items[0])


def is_reference(value: Any) -> bool:
    """Tell whether a JSON value is an array in a buffer."""
    return is_array_json(value) and value["data"]["encoding"] == "binref"


def fold_json(
    items: list[Any], root: Root, *, where: str = "", path_of: PathOf | None = None
) -> Stored | Odd:
    """Fold references of one shape, dtype and codec; no file is looked at.

    Parameters
    ----------
    items
        JSON objects of the wire, at least one.
    root
        Absolute directory that the paths are relative to.
    where
        What they belong to, for messages.
    path_of
        Applied to each path once; default: paths stay as they are.

    Returns
    -------
    Stored or Odd
        The snapshots; or which reference is unlike the first, and how.

    Raises
    ------
    InvalidReferenceError
        If one of them is malformed; names `where` and its index.

    Examples
    --------
    >>> refs = [{"shape": [2], "dtype": "int8", "data": {"buffer": f"a.bin:{n}",
    ...          "encoding": "binref"}} for n in (0, 2, 4)]
    >>> fold_json(refs, "/data").segments
    (Segment(path='a.bin', offset=0, count=3, stride=2, offsets=None, sizes=None),)
    """
    first = ref_from_json(items[0], f"{where}[0]")
    columns = _columns(items, first)
    if columns is None:
        found = _one_by_one(items, first, where)
        if isinstance(found, Odd):
            return found
        columns = found
    segments = tuple(_segments(columns, first.nbytes, path_of or str))
    return Stored(root, segments, first.shape, first.dtype, first.compression)


def _segments(columns: _Columns, nbytes: int, path_of: PathOf) -> Iterator[Segment]:
    paths, offsets, sizes = columns
    known: dict[str, str] = {}
    start = 0
    groups = (
        [(paths[0], len(offsets))]
        if len(paths) == 1
        else [(path, sum(1 for _ in group)) for path, group in itertools.groupby(paths)]
    )
    for path, count in groups:
        place = known.get(path)
        if place is None:
            place = known[path] = path_of(path)
        stop = start + count
        if sizes is not None:
            yield Segment(place, 0, count, 0, offsets[start:stop], sizes[start:stop])
        else:
            yield from fold_offsets(place, offsets[start:stop], nbytes)
        start = stop


def _columns(items: list[Any], first: ArrayRef) -> _Columns | None:
    """Return the columns of references that are alike in the usual way; else None."""
    count = len(items)
    compression = first.compression
    try:
        datas = list(map(itemgetter("data"), items))
        alike = (
            _all(map(itemgetter("shape"), items), list(first.shape), count)
            and _all(map(itemgetter("dtype"), items), first.dtype.name, count)
            and _all(map(methodcaller("get", "object_type", "array"), items), "array", count)
            and _all(map(itemgetter("encoding"), datas), "binref", count)
            and _all(map(methodcaller("get", "compression"), datas), compression, count)
        )
        if not alike:
            return None
        buffers = list(map(itemgetter("buffer"), datas))
        text = "\n".join(buffers)
        longest = max(map(len, buffers))
        colons = 1 if compression is None else 2
        if text.count("\n") != count - 1 or not text.isascii():
            return None
        if compression is None:
            prefix = first.path + ":"
            if text.startswith(prefix) and text.count("\n" + prefix) == count - 1:
                numbers = text.replace("\n" + prefix, " ")[len(prefix) :]
                offsets = _whole_numbers(numbers, count, longest - len(prefix))
                return None if offsets is None else _checked(first, [first.path], offsets, None)
        if not _all(map(methodcaller("count", ":"), buffers), colons, count):
            return None
    except (KeyError, TypeError, AttributeError):
        return None
    parts = text.replace(":", "\n").split("\n")
    paths = parts[:: colons + 1]
    columns = [parts[n :: colons + 1] for n in range(1, colons + 1)]
    numbered = [_whole_numbers(" ".join(c), count, max(map(len, c))) for c in columns]
    if "" in paths or numbered[0] is None or numbered[-1] is None:
        return None
    return _checked(first, paths, numbered[0], numbered[1] if colons == 2 else None)


def _checked(
    first: ArrayRef, paths: list[str], offsets: NDArray[np.int64], sizes: NDArray[np.int64] | None
) -> _Columns | None:
    """Return the columns if every array ends where a file can."""
    largest = first.nbytes if sizes is None else int(sizes.max())
    return None if int(offsets.max()) + largest > _LARGEST else _Columns(paths, offsets, sizes)


def _all(values: Iterator[Any], wanted: Any, count: int) -> bool:
    return list(values).count(wanted) == count


def _whole_numbers(text: str, count: int, longest: int) -> NDArray[np.int64] | None:
    """Return space-separated digits as numbers, or None if there is anything else."""
    if longest > _DIGITS or not text.replace(" ", "").isdecimal():
        return None
    numbers = np.fromstring(text, dtype=np.int64, sep=" ")
    return numbers if len(numbers) == count else None


def _one_by_one(items: list[Any], first: ArrayRef, where: str) -> _Columns | Odd:
    refs: list[ArrayRef] = []
    for index, item in enumerate(items):
        if not is_reference(item):
            return Odd(index, "is not an array in a buffer, as the first is")
        ref = ref_from_json(item, f"{where}[{index}]")
        if (ref.shape, ref.dtype, ref.compression) != (first.shape, first.dtype, first.compression):
            return Odd(
                index,
                f"has shape {ref.shape}, dtype {ref.dtype.name} and compression {ref.compression}, "
                f"the first {first.shape}, {first.dtype.name} and {first.compression}",
            )
        refs.append(ref)
    offsets = np.fromiter((ref.offset for ref in refs), np.int64, len(refs))
    sizes = None
    if first.compression is not None:
        sizes = np.fromiter((ref.stored_size for ref in refs), np.int64, len(refs))
    return _Columns([ref.path for ref in refs], offsets, sizes)
