"""Labels in a header; long coordinates lie in buffers beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from binref_sci.dtypes import DTYPES, checked_shape, dtype_on_disk
from binref_sci.labels import Labels, attrs_from_json, attrs_to_json
from binref_sci.plan import Segment, Stored
from binref_sci.storage import Root, create_buffer, write_at

INLINE_COORDINATE = 256
"""Coordinates with more elements than this lie in a buffer, not in the header."""


def labels_to_json(labels: Labels, directory: str, made_buffers: list[str]) -> dict[str, Any]:
    """Return labels for a header; long coordinates are written, into new buffers."""
    short = {n: c for n, c in labels.coords.items() if _is_short(c[1])}
    made = labels.replace(coords=short).to_json()
    for name, (dims, values, attrs) in labels.coords.items():
        if name in short:
            continue
        buffer, fd = create_buffer(directory)
        made_buffers.append(buffer)
        try:
            write_at(fd, values, 0)
        finally:
            os.close(fd)
        made.setdefault("coords", {})[name] = {
            "dims": list(dims),
            "buffer": buffer,
            "shape": list(values.shape),
            "dtype": values.dtype.name,
            "attrs": attrs_to_json(attrs),
        }
    return made


def _is_short(values: NDArray[Any]) -> bool:
    return values.size <= INLINE_COORDINATE or values.dtype.name not in DTYPES


def labels_from_json(made: Mapping[str, Any], directory: Root) -> Labels:
    """Return the labels of a header; long coordinates are read."""
    coords = dict(made.get("coords", {}))
    long = {name: coords.pop(name) for name in [*coords] if "buffer" in coords[name]}
    labels = Labels.from_json({**made, "coords": coords})
    if not long:
        return labels
    read = {
        name: (c["dims"], _read_coordinate(c, directory), attrs_from_json(c.get("attrs", {})))
        for name, c in long.items()
    }
    return labels.replace(coords={**labels.coords, **read})


def _read_coordinate(made: Mapping[str, Any], directory: Root) -> NDArray[Any]:
    shape, dtype = checked_shape(made["shape"]), dtype_on_disk(made["dtype"])
    segment = Segment(checked_path(made["buffer"]), 0, 1, math.prod(shape) * dtype.itemsize)
    values: NDArray[Any] = Stored(directory, (segment,), shape, dtype).read_snapshot(0, ())
    return values


def checked_path(made: Any) -> str:
    """Return the name of a buffer as a header has it; `TypeError` if it is no text."""
    if not isinstance(made, str):
        raise TypeError(f"a buffer is named by text, not {made!r}")
    return made
