"""Saving a Dataset: `to_binref` beside ``ndarray.tofile``, Zarr without compression, and netCDF."""

from __future__ import annotations

from collections.abc import Iterator

import dask
import dask.array as da
import numpy as np
import xarray as xr

from benchmarks.harness import Row, against, interleaved
from benchmarks.places import empty, folder
from binref_sci import to_binref

MIB = 1024 * 1024
CHUNK = 16 * MIB
COUNT = 64  # chunks: 1 GiB
ROUNDS = 5


def rows() -> Iterator[Row]:
    """Yield the row of 1 GiB of dask chunks."""
    array = np.random.default_rng(0).random((COUNT, CHUNK // 8 // 1024, 1024))
    chunks = da.from_array(array, chunks=(1, -1, -1), name="field")
    ds = xr.Dataset({"field": (("time", "y", "x"), chunks)})
    plain = {"field": {"compressors": None}}
    with folder(on_tmpfs=True) as place, dask.config.set(scheduler="threads"):
        best = interleaved(
            {
                "ndarray.tofile": lambda: array.tofile(place / "limit.bin"),
                "binref_sci": lambda: to_binref(ds, place / "copy"),
                "to_zarr": lambda: _quiet(ds.to_zarr(place / "copy.zarr", encoding=plain)),
                "to_zarr default": lambda: _quiet(ds.to_zarr(place / "default.zarr")),
                "h5netcdf": lambda: ds.to_netcdf(place / "copy.nc", engine="h5netcdf"),
            },
            rounds=ROUNDS,
            few=["to_zarr", "to_zarr default", "h5netcdf"],
            between=lambda: empty(place),
        )
        yield against(
            "to_binref, 1 GiB in dask chunks of 16 MiB",
            "ms",
            best,
            bar=1.5,
            limit="ndarray.tofile",
            scale=1e3,
        )


def _quiet(_made: object) -> None:
    return None
