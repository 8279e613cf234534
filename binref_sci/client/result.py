"""`Result`: what a call returned, a dict that can become a Dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import xarray as xr

from binref_sci.array import BinrefArray
from binref_sci.client.replies import field_path
from binref_sci.engine.opening import dataset_of
from binref_sci.errors import FormatError, UnknownVariableError
from binref_sci.hints import absent
from binref_sci.html import Section, facts_html, size_text, sizes_text
from binref_sci.trajectory import Trajectory

_NUMBERS: Final = ("Infinity", "-Infinity")  # what JSON lacks, as the wire spells it


class Result(dict[str, Any]):
    """Outputs of a call, a dict nested as the component's schema nests them.

    Parameters
    ----------
    outputs
        By name.
    folder
        Absolute output path that lazy ones lie in, or None.
    labels
        Of the output schema, by path.
    """

    def __init__(
        self,
        outputs: Mapping[str, Any],
        *,
        folder: Path | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(outputs)
        self._folder = folder
        self._labels = labels or {}

    def __missing__(self, name: object) -> NoReturn:
        raise UnknownVariableError(absent("output", name, self))

    def to_dataset(self, *, chunks: Any = {}) -> xr.Dataset:  # noqa: B006  # never written to
        """Return the outputs as a labelled Dataset; of lazy ones nothing is read but times.

        A list of equal arrays is one variable with a leading dimension, nested outputs go
        by their path (``flow.velocity``), text is found in ``attrs``. Labels come from the
        journals of the run, and from the component's schema where those are silent.

        Parameters
        ----------
        chunks
            Of the dask arrays over lazy outputs, as for `binref_sci.open_dataset`.

        Raises
        ------
        FormatError
            If a list of arrays is ragged, and so no variable.
        """
        # A scratch folder is gone when nothing lazy refers to it, and xarray would look at it.
        folder = self._folder if self._folder is not None and self._folder.is_dir() else ""
        return dataset_of(_fields(dict(self), ()), os.fspath(folder), self._labels, chunks=chunks)

    def _repr_html_(self) -> str:
        rows = list(_rows(dict(self), ()))
        facts = [] if self._folder is None else [("folder", os.fspath(self._folder))]
        count = len(rows)
        return facts_html(
            "Result",
            f"{count} output{'s' * (count != 1)}",
            facts,
            [Section("Outputs", ("name", "what", "size", "where"), rows)],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self), self._folder, self._labels)


def _rebuilt(outputs: dict[str, Any], folder: Path | None, labels: Mapping[str, Any]) -> Result:
    return Result(outputs, folder=folder, labels=labels)


_SHOWN: Final = 500  # characters of a text


def _rows(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each output as name, kind, size and place; nothing is read."""
    name = field_path(path)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _rows(item, (*path, key))
    elif isinstance(value, Trajectory):
        what = f"{sizes_text(value.labels.dims, value.shape)} {value.dtype.name}"
        yield name, what, size_text(value.nbytes), f"on disk, {len(value)} snapshots"
    elif isinstance(value, BinrefArray):
        yield name, f"{value.shape} {value.dtype.name}", size_text(value.nbytes), value.buffer
    elif isinstance(value, np.ndarray):
        what = f"{value.shape} {value.dtype.name}"
        yield name, what, size_text(value.nbytes), "in memory"
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _rows(item, (*path, index))
    elif isinstance(value, list):
        kinds = sorted({type(item).__name__ for item in value})
        yield name, f"list of {len(value)}: {', '.join(kinds)}", "", "in memory"
    else:
        yield (
            name,
            repr(value[:_SHOWN] if isinstance(value, str | bytes) else value),
            "",
            "in memory",
        )


def _fields(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield what can be a variable or an attribute, with its path."""
    name = field_path(path)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, (*path, key))
    elif isinstance(value, list):
        yield from _list(value, path)
    elif isinstance(value, str) and value in _NUMBERS:
        yield name, np.asarray(float(value))
    elif isinstance(value, Trajectory | BinrefArray | np.ndarray | str):
        yield name, value
    elif value is not None:
        yield name, np.asarray(value)


def _list(items: list[Any], path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    name = field_path(path)
    if not items:
        yield name, np.empty(0)
    elif all(isinstance(item, np.ndarray | BinrefArray) for item in items):
        first = items[0]
        for index, item in enumerate(items):
            if (item.shape, item.dtype) != (first.shape, first.dtype):
                raise FormatError(
                    f"field {name!r} is a ragged list, which is no variable: element {index} has "
                    f"shape {item.shape} and dtype {item.dtype.name}, the first {first.shape} and "
                    f"{first.dtype.name}; take its arrays one by one from the result"
                )
        yield name, np.stack([np.asarray(item) for item in items])
    elif all(isinstance(item, str) for item in items):
        yield name, items
    elif all(isinstance(item, bool | int | float) for item in items):
        yield name, np.asarray(items)
    else:
        for index, item in enumerate(items):
            yield from _fields(item, (*path, index))
