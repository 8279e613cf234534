"""What a run has written, as other programs want it: references, Zarr, netCDF."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import fsspec.implementations.reference as reference
import numpy as np
import orjson
import xarray as xr
from dask.callbacks import Callback

from binref_sci.engine.opening import open_dataset, open_datatree
from binref_sci.engine.prepared import prepare_any
from binref_sci.engine.virtual import check_names, plain_attr, references
from binref_sci.errors import DatasetExistsError, FormatError
from binref_sci.folders import local_folder
from binref_sci.progress import ProgressBar
from binref_sci.storage import taking_place

_NEEDS: Final = {
    ".json": (),
    ".parquet": ("fastparquet",),
    ".zarr": ("zarr",),
    ".nc": ("h5netcdf",),
}
"""Kinds of target, by suffix, and the packages that each needs."""

_HOLDS: Final = {".parquet": (".zmetadata",), ".zarr": ("zarr.json", ".zgroup", ".zmetadata")}
"""Kinds that are folders, and files of which each holds one."""


Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def export(
    source: Source,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    prefix: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Export a run or a saved dataset; what is exported appears when all of it is there.

    Parameters
    ----------
    source, storage_options
        As for `open_dataset`; a list is one simulation that was restarted.
    target
        Its suffix says what is made: ``.json`` and ``.parquet``, references for kerchunk,
        which copy nothing; ``.zarr``, Zarr of version 3; ``.nc``, netCDF 4.
    overwrite
        Replace what is there.
    prefix
        Of references: where buffers will be found, if not in the folder itself; the URL of
        the place that it was copied to, up to the last ``/``.

    Raises
    ------
    FormatError
        If the suffix is another one, or the format cannot hold the data.
    DatasetExistsError
        If there is something at `target`.
    """
    place = Path(local_folder(target))
    kind = place.suffix
    if kind not in _NEEDS:
        raise FormatError(
            f"cannot export to {os.fspath(target)!r}: the name must end in {', '.join(_NEEDS)}"
        )
    missing = [name for name in _NEEDS[kind] if find_spec(name) is None]
    if missing:
        raise FormatError(
            f"export to {kind} needs {', '.join(missing)}: pip install 'binref-sci[export]'"
        )
    if prefix is not None and kind not in (".json", ".parquet"):
        raise FormatError(f"only references (.json, .parquet) have a prefix, {kind} is a copy")
    if place.is_symlink():
        place = place.resolve()  # what it leads to is replaced, the link stays
    if place.exists():
        _check_replaceable(place, kind, overwrite=overwrite)
    with taking_place(place, kind) as partial:
        if kind in (".json", ".parquet"):
            _write_references(
                references(source, prefix=prefix, storage_options=storage_options), partial
            )
        else:
            _copy(source, partial, kind, storage_options)


def _check_replaceable(place: Path, kind: str, *, overwrite: bool) -> None:
    """Check that what is there may be replaced: it is what an export makes, and no other data."""
    if not overwrite:
        raise DatasetExistsError(
            f"{os.fspath(place)!r} exists; overwrite=True (--overwrite) replaces it, or choose "
            "another name"
        )
    marks = _HOLDS.get(kind)
    alike = place.is_file() if marks is None else any((place / mark).exists() for mark in marks)
    if not alike:
        found = "folder" if place.is_dir() else "file"
        raise DatasetExistsError(
            f"{os.fspath(place)!r} is a {found} and no {kind} that an export has made: it is "
            "left as it is, choose another name"
        )


def _write_references(refs: dict[str, Any], place: Path) -> None:
    if place.suffix == ".json":
        place.write_bytes(orjson.dumps(refs))
        return
    mapper = reference.LazyReferenceMapper.create(os.fspath(place))
    total = len(refs["refs"])
    bar = ProgressBar("export parquet", total)
    for number, (key, value) in enumerate(refs["refs"].items()):
        mapper[key] = value.encode() if isinstance(value, str) else value
        bar.update(number)
    mapper.flush()
    bar.close(total)


def _copy(
    source: Source,
    place: Path,
    kind: str,
    storage_options: Mapping[str, Any] | None,
) -> None:
    saved = prepare_any(source, storage_options).saved
    made: xr.Dataset | xr.DataTree
    if saved is not None and len(saved.groups) > 1:
        assert isinstance(source, str | os.PathLike)  # a list is never saved
        tree = open_datatree(source, storage_options=storage_options)
        made = xr.DataTree.from_dict(
            {node.path: _ready(node.to_dataset(inherit=False), kind) for node in tree.subtree}
        )
        nodes = [(node.path, node.to_dataset(inherit=False)) for node in made.subtree]
    else:
        made = _ready(open_dataset(source, storage_options=storage_options), kind)
        nodes = [("/", made)]
        check_names(made.variables)
    with _Shown(f"export {place.suffix.lstrip('.')}"):
        if kind == ".zarr":
            made.to_zarr(place, zarr_format=3, consolidated=False)
            return
        odd = [
            f"{path}/{name}".lstrip("/")
            for path, ds in nodes
            for name, one in ds.variables.items()
            if one.dtype.kind == "c"
        ]
        if odd:
            raise FormatError(f"netCDF has no complex numbers, but variables {odd} have; try .zarr")
        made.to_netcdf(place, engine="h5netcdf")


def _ready(ds: xr.Dataset, kind: str) -> xr.Dataset:
    """Return a Dataset with attributes that a format has, and with equal chunks, as Zarr needs them."""
    made = ds.copy(deep=False)
    made.attrs = _attributes(ds.attrs, kind)
    for name, one in ds.variables.items():
        made[name].attrs = _attributes(one.attrs, kind)
        made[name].encoding = {
            key: value for key, value in one.encoding.items() if key != "preferred_chunks"
        }
        if one.chunks is not None:
            made[name] = made[name].chunk(
                {dim: max(lengths) or 1 for dim, lengths in zip(one.dims, one.chunks, strict=True)}
            )
    return made


def _attributes(attrs: Mapping[Any, Any], kind: str) -> dict[str, Any]:
    """Return attributes as a format has them."""
    convert = _of_netcdf if kind == ".nc" else _of_zarr
    return {str(name): convert(value) for name, value in attrs.items()}


def _of_zarr(value: Any) -> Any:
    return plain_attr(value) if _kind(value) == "c" else value


def _of_netcdf(value: Any) -> Any:
    """Return text, or numbers of one kind in one row; what is neither as JSON."""
    kind = _kind(value)
    if kind == "b":
        return np.asarray(value, "i1")[()]
    if kind in "iuf" and np.ndim(value) < 2:
        return value
    texts = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(texts, str) or (isinstance(texts, list) and set(map(type, texts)) == {str}):
        return texts
    return orjson.dumps(plain_attr(value)).decode()


def _kind(value: Any) -> str:
    try:
        return np.asarray(value).dtype.kind
    except ValueError:  # lists of different lengths
        return "O"


class _Shown(Callback):
    """Draws the progress of dask tasks, on a terminal and in a notebook."""

    def __init__(self, label: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # dask's is not
        self._label = label
        self._bar: ProgressBar | None = None

    def _start_state(self, _dsk: Any, state: Any) -> None:
        total = sum(len(state[key]) for key in ("ready", "waiting", "running", "finished"))
        self._bar = ProgressBar(self._label, total)

    def _posttask(self, _key: Any, _value: Any, _dsk: Any, state: Any, _worker: Any) -> None:
        if self._bar is not None:
            self._bar.update(len(state["finished"]))

    def _finish(self, _dsk: Any, state: Any, _failed: Any) -> None:
        if self._bar is not None:
            self._bar.close(len(state["finished"]))
