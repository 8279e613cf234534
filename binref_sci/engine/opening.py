"""`open_dataset` and `open_datatree`: what a run has written, lazily, over dask."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import xarray as xr

from binref_sci.engine.dataset import fields
from binref_sci.engine.entrypoint import BinrefBackendEntrypoint
from binref_sci.engine.manifest import read_manifest
from binref_sci.engine.prepared import Prepared, prepare, prepare_any
from binref_sci.engine.results import Leaf
from binref_sci.errors import BufferNotFoundError, JournalError
from binref_sci.hints import meant

_Opened = TypeVar("_Opened")


def open_dataset(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
    mmap: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> xr.Dataset:
    """Open what a run has written as a lazy, labelled Dataset.

    Nothing is read but journals, times, coordinates and the response's JSON. Buffers are
    only looked for: one that is missing is an error now, one that is too short is an
    error when the part that is not there is read.

    Parameters
    ----------
    source
        A run directory, an output path (its newest run opens), a ``results.json`` or any
        other file with a ``json+binref`` response, or a journal. Of several runs in one
        folder the newest opens, an older one by its journal. A list of paths is one
        simulation that was restarted, in order of time: from the first time of a later run
        on its snapshots count, those of the run before at that time or after are left out.
        Each may be a URL that fsspec knows: ``"s3://bucket/run"``, ``"memory://run"``.
    chunks
        ``{}``, the default: dask arrays with chunks of whole snapshots, about 16 MiB, none
        across two buffers. A dict by dimension, an integer, ``"auto"`` or ``-1``: as in
        xarray. None: lazy without dask.
    mmap
        Map the buffers of a complete run into memory: nothing is copied, but a file that
        shrinks meanwhile kills the interpreter, and mapped pages count as a dask worker's
        memory. Not for URLs.
    storage_options
        For the file system of a URL, as fsspec takes them: ``{"anon": True}``.
    **kwargs
        As for `xarray.open_dataset`: ``group``, ``drop_variables``, ``decode_times``, ...

    Returns
    -------
    xarray.Dataset
        A pinned view; open again to see what a running solver has added. Its variables
        are the output fields of ``results.json`` (nested ones by their path,
        ``flow.velocity``), then journals that no field stands for. A list of equal arrays
        is one variable with a leading dimension. Text is found in ``attrs``.

        ``encoding["source"]`` is the folder that was opened, ``encoding["binref_state"]``
        is ``"writing"``, ``"complete"`` or ``"interrupted"``. Of the last and the first
        all complete snapshots are there. At a URL a living writer cannot be seen: what has
        no end is ``"interrupted"``.

        Where variables disagree about the length or coordinates of a dimension, the first
        keeps its name; for the others it is called ``<variable>_<dimension>``: ``energy_time``
        of a variable that is written more often. Of a run that has not ended, the last snapshot
        of a variable that is one step ahead of those with the same times is left out.

    Raises
    ------
    BufferNotFoundError
        If there is nothing at this path, or a buffer is missing (a FileNotFoundError).
    FormatError
        If it is something else, or a list of arrays is ragged (a ValueError).
    JournalError
        If blocks of a parallel run are missing or overlap (a ValueError).

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from binref_sci.writer import BinrefWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> with BinrefWriter("heat", dims=("time", "x"), output_path=folder.name) as writer:
    ...     for step in range(3):
    ...         ref = writer.write(np.full(4, step, "f8"), time=0.5 * step)
    >>> ds = open_dataset(folder.name)
    >>> ds.heat.sel(time=0.5).values
    array([1., 1., 1., 1.])
    >>> folder.cleanup()
    """
    _check_options(xr.open_dataset, kwargs)
    return _as_it_stays(
        source,
        lambda: opened(prepare_any(source, storage_options), chunks, mmap=mmap, **kwargs),
    )


def dataset_of(
    leaves: Iterable[tuple[str, Leaf]],
    directory: str,
    labels: Mapping[str, Any],
    *,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
) -> xr.Dataset:
    """Return a Dataset of output fields that are there already, as `open_dataset` would.

    Parameters
    ----------
    leaves
        Path and value of each.
    directory
        Absolute directory that the buffers of lazy ones are relative to.
    labels
        Of the output schema, as ``run.json`` has them.
    chunks
        As for `open_dataset`.

    Raises
    ------
    BufferNotFoundError
        If a buffer is missing.
    """
    made, attrs = fields(leaves, directory, labels)
    return opened(Prepared(directory, made, attrs), chunks)


def open_datatree(
    source: str | os.PathLike[str],
    *,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
    mmap: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Open what a run has written as a tree: nested results are groups.

    A variable gets an underscore behind its name where a tree would show another thing in its
    place: a coordinate that its group inherits, or a group of the same name.

    Parameters
    ----------
    source, chunks, mmap, storage_options, **kwargs
        As for `open_dataset`.

    Raises
    ------
    BufferNotFoundError, FormatError, JournalError
        As `open_dataset`.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from binref_sci.array import BinrefArray
    >>> folder = tempfile.TemporaryDirectory()
    >>> ref = BinrefArray.write([0.0, 1.0, 2.0], output_path=folder.name)
    >>> field = {"object_type": "array", "shape": [3], "dtype": "float64",
    ...          "data": {"buffer": ref.buffer, "encoding": "binref"}}
    >>> path = pathlib.Path(folder.name, "results.json")
    >>> _ = path.write_text(json.dumps({"flow": {"speed": field}}))
    >>> open_datatree(folder.name)["flow/speed"].values
    array([0., 1., 2.])
    >>> folder.cleanup()
    """
    _check_options(xr.open_datatree, kwargs)

    def opened_tree() -> xr.DataTree:
        prepared = prepare(source, storage_options)
        prepared.asked = chunks
        return xr.open_datatree(
            prepared, engine=BinrefBackendEntrypoint, chunks=chunks, mmap=mmap, **kwargs
        )

    return _as_it_stays(source, opened_tree)


def _as_it_stays(source: Any, opening: Callable[[], _Opened]) -> _Opened:
    """Open what lies there; once more if it was saved over meanwhile, which removes files."""
    seen = None
    while True:
        try:
            return opening()
        except (BufferNotFoundError, JournalError):
            saved = read_manifest(source) if isinstance(source, str | os.PathLike) else None
            if saved is None or saved.revision == seen:
                raise
            seen = saved.revision


def opened(prepared: Prepared, chunks: Any, **kwargs: Any) -> xr.Dataset:
    """Return the Dataset of a run, through xarray, so that every option means what it does there."""
    prepared.asked = chunks
    ds: xr.Dataset = xr.open_dataset(
        prepared, engine=BinrefBackendEntrypoint, chunks=chunks, **kwargs
    )
    if chunks is not None:
        # xarray puts dask around numbers that are in memory anyway.
        for name, variable in prepared.in_memory.items():
            if ds.variables[name].chunks is not None:
                ds.variables[name].data = variable.values
        for name, lengths in prepared.preferred.items():
            if lengths and name in ds.variables:
                ds.variables[name].encoding["preferred_chunks"] = lengths
    _check_chunks(chunks, ds.dims)
    return ds


def _check_options(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse what neither a function of xarray nor the engine takes, before anything is read."""
    known = {*inspect.signature(function).parameters}
    known |= {*(BinrefBackendEntrypoint.open_dataset_parameters or ())}
    known -= {"filename_or_obj", "engine", "kwargs"}
    for name in given:
        if name not in known:
            hint = meant(name, known) or f"; it takes {', '.join(sorted(known))}"
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}"
            )


def _check_chunks(chunks: Any, dims: Iterable[Any]) -> None:
    unknown = set(chunks) - set(dims) if isinstance(chunks, Mapping) else set()
    if unknown:
        raise ValueError(
            f"chunks names {sorted(map(str, unknown))}, but the dimensions are "
            f"{sorted(map(str, dims))}"
        )
