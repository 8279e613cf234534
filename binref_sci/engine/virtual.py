"""A run as references for kerchunk: plain Zarr metadata, and where each chunk lies; no copy."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson
import xarray as xr
from numpy.typing import NDArray

from binref_sci import lazy
from binref_sci.array import BinrefArray
from binref_sci.dtypes import nbytes_of
from binref_sci.engine.assembly import assembled
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.indexing import LazyData
from binref_sci.engine.manifest import ROOT
from binref_sci.engine.prepared import prepare_any
from binref_sci.engine.text import TextArray
from binref_sci.engine.variables import to_variable
from binref_sci.errors import FormatError
from binref_sci.plan import Segment, Stored
from binref_sci.storage import Root

Refs = dict[str, Any]
_FILL: Final = "_FillValue"


def references(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    prefix: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Refs:
    """Return references to what lies at a path, as kerchunk has them (version 1).

    Parameters
    ----------
    source, storage_options
        As for `open_dataset`.
    prefix
        Where buffers will be found, with ``/`` or another separator at its end: the URL of
        a bucket that the folder was copied to; default: the folder itself.

    Raises
    ------
    FormatError
        If a variable is compressed, its blocks form no regular grid, or its name is a path; or
        if it is a tree of groups.
    """
    prepared = prepare_any(source, storage_options)
    refs: Refs = {".zgroup": _json({"zarr_format": 2})}
    if prepared.saved is None:
        prepared.require()
        found, _, _ = assembled(prepared.made)
        attrs = {**prepared.about, **prepared.attrs}
    else:
        if len(prepared.saved.groups) > 1:
            # They find the groups, and show nothing in them.
            raise FormatError(
                f"{prepared.path!r} is a tree of groups {sorted(prepared.saved.groups)}, and readers of "
                "references find no variables in groups; export it to .zarr or .nc, or save one "
                "group with to_binref(open_dataset(path, group=...), copy) and export that"
            )
        found = {one.name: to_variable(one) for one in prepared.made}
        attrs = dict(prepared.saved.groups[ROOT].attrs)
    check_names(found)
    data = {one.name: one.data for one in prepared.made}
    for name, variable in found.items():
        refs |= _variable(name, variable, data.get(name), prefix)
    refs[".zattrs"] = _json(_plain(attrs))
    return {"version": 1, "refs": refs}


def check_names(names: Iterable[Hashable]) -> None:
    """Refuse names of variables that other formats take for paths, and hide.

    Raises
    ------
    FormatError
        Naming them.
    """
    odd = [name for name in names if "/" in str(name)]
    if odd:
        raise FormatError(
            f"variables {odd} have '/' in their names, which other formats take for groups; save "
            "them renamed, to_binref(open_dataset(path).rename({...}), copy), and export that"
        )


def _variable(name: str, variable: xr.Variable, data: Any, prefix: str | None) -> Refs:
    attrs = _plain(variable.attrs) | {"_ARRAY_DIMENSIONS": list(variable.dims)}
    fill = attrs.pop(_FILL, None)
    shape = tuple(variable.shape)
    dtype, chunks, places = (
        _inline(np.asarray(variable.values))
        if data is None or isinstance(data, np.ndarray)
        else _lying(name, data, prefix)
    )
    meta = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": [length or 1 for length in chunks],
        "dtype": dtype.str,
        "order": "C",
        "compressor": None,
        "filters": None,
        "fill_value": fill,
    }
    made = {f"{name}/.zarray": _json(meta), f"{name}/.zattrs": _json(attrs)}
    return made | {f"{name}/{key}": place for key, place in places}


_Lying = tuple[np.dtype[Any], tuple[int, ...], Iterator[tuple[str, Any]]]


def _inline(values: NDArray[Any]) -> _Lying:
    if values.dtype.kind == "O":
        values = values.astype(str)
    key = ".".join("0" for _ in values.shape) or "0"
    text = "base64:" + base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return values.dtype, values.shape, iter([(key, text)] if values.size else [])


def _lying(name: str, data: LazyData, prefix: str | None) -> _Lying:
    """Return dtype, chunks, and key and place of each chunk."""
    dtype, text = data.dtype, isinstance(data, TextArray)
    if isinstance(data, TextArray):
        dtype, data = data.fixed, data.codes
    if isinstance(data, BlockArray):
        extent = _grid(name, data)
        return dtype, (1, *extent), _blocks(data, extent, prefix)
    if data.compression is not None:
        raise FormatError(
            f"variable {name!r} is compressed with {data.compression}, one frame a snapshot, which "
            "kerchunk has no codec for; export a copy to .zarr or .nc"
        )
    stored = data.stored
    inner = stored.inner[:-1] if text else stored.inner  # without the axis of characters
    if isinstance(data, BinrefArray):
        return dtype, inner, _places(stored, 1, 0, prefix, only=".".join("0" for _ in inner) or "0")
    count = _together(stored)
    return dtype, (count, *inner), _places(stored, count, len(inner), prefix)


def _together(stored: Stored) -> int:
    """Return how many snapshots make a chunk: all chunks must be equal, and each one range."""
    nbytes = nbytes_of(stored.inner, stored.dtype)
    if not nbytes or any(
        segment.offsets is not None or (segment.stride != nbytes and segment.count > 1)
        for segment in stored.segments
    ):
        return 1
    whole = math.gcd(*(segment.count for segment in stored.segments))
    most = max(lazy.CHUNK_BYTES // nbytes, 1)
    divisors = {
        n for k in range(1, math.isqrt(whole) + 1) if not whole % k for n in (k, whole // k)
    }
    return max((n for n in divisors if n <= most), default=1)


def _places(
    stored: Stored, count: int, axes: int, prefix: str | None, only: str | None = None
) -> Iterator[tuple[str, Any]]:
    nbytes = nbytes_of(stored.inner, stored.dtype)
    tail = ".0" * axes
    number = 0
    for segment in stored.segments:
        path = _path(stored.root, segment, prefix)
        for index in range(0, segment.count if nbytes else 0, count):
            offset, _ = segment.place(index)
            yield only or f"{number}{tail}", [path, offset, count * nbytes]
            number += 1


def _path(root: Root, segment: Segment, prefix: str | None) -> str:
    return (
        f"{os.fspath(root).rstrip('/')}/{segment.path}" if prefix is None else prefix + segment.path
    )


def _grid(name: str, data: BlockArray) -> tuple[int, ...]:
    extents = {block.extent for block in data.blocks}
    extent = data.blocks[0].extent
    regular = all(
        not start % length and not whole % length
        for block in data.blocks
        for start, length, whole in zip(block.start, extent, block.shape, strict=True)
    )
    if len(extents) > 1 or not regular:
        raise FormatError(
            f"variable {name!r} was written in blocks of {sorted(extents)}, which form no regular "
            "grid, as references need; export a copy to .zarr or .nc"
        )
    return extent


def _blocks(
    data: BlockArray, extent: tuple[int, ...], prefix: str | None
) -> Iterator[tuple[str, Any]]:
    for part, block in zip(data.parts, data.blocks, strict=True):
        at = [start // length for start, length in zip(block.start, extent, strict=True)]
        tail = "".join(f".{n}" for n in at)
        for key, place in _places(part.stored, 1, 0, prefix):
            yield key + tail, place


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: plain_attr(value) for key, value in attrs.items()}


def plain_attr(value: Any) -> Any:
    """Return an attribute as JSON can have it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_attr(item) for item in value]
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, complex):
        return [plain_attr(value.real), plain_attr(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _json(made: Mapping[str, Any]) -> str:
    return orjson.dumps(made).decode()
