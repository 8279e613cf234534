"""The same field in other formats: copies of a run, opened lazily as their users would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dask
import xarray as xr

from binref_sci import open_dataset
from binref_sci.engine.exporting import export

Opener = Callable[..., xr.Dataset]
ROUNDS = 2
"""Peers run in the first rounds alone: they take seconds where the product takes parts of one."""


def copies(run: Path, place: Path, *, together: int) -> dict[str, Opener]:
    """Copy a run; return what opens each copy, given ``chunks=``.

    Parameters
    ----------
    together
        Snapshots in a chunk of the copy.
    """
    place.mkdir()
    ds = open_dataset(run, chunks={"time": together}).drop_encoding()
    shape = ds.field.shape
    stores: Mapping[str, tuple[Path, dict[str, Any]]] = {
        "zarr": (place / "plain.zarr", {"field": {"compressors": None}}),
        "zarr default": (place / "default.zarr", {}),
    }
    with dask.config.set(scheduler="threads"):
        for store, encoding in stores.values():
            ds.to_zarr(store, encoding=encoding, zarr_format=3, consolidated=False)
        ds.to_netcdf(
            place / "copy.nc",
            engine="h5netcdf",
            encoding={"field": {"chunksizes": (together, *shape[1:])}},
        )
    export(run, place / "refs.json")
    made: dict[str, Opener] = {
        name: lambda store=store, **kwargs: xr.open_dataset(
            store, engine="zarr", consolidated=False, cache=False, **kwargs
        )
        for name, (store, _) in stores.items()
    }
    made["h5netcdf"] = lambda **kwargs: xr.open_dataset(
        place / "copy.nc", engine="h5netcdf", cache=False, **kwargs
    )
    made["kerchunk"] = lambda **kwargs: xr.open_dataset(
        place / "refs.json", engine="kerchunk", cache=False, **kwargs
    )
    return made


def works(
    peers: Mapping[str, xr.Dataset], work: Callable[[xr.Dataset], object]
) -> dict[str, Callable[[], None]]:
    """Return the same work on each peer's Dataset, by name."""

    def bound(ds: xr.Dataset) -> Callable[[], None]:
        def run() -> None:
            work(ds)

        return run

    return {name: bound(ds) for name, ds in peers.items()}
