"""Means through dask: in threads, on two worker processes, and the memory they take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dask
import numpy as np
import xarray as xr
from dask.distributed import Client, LocalCluster
from numpy.typing import NDArray

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.memory import PEAK
from benchmarks.peers import Opener, works
from binref_sci import open_dataset


def mean_rows(run: Path, buffer: Path, peers: Mapping[str, Opener]) -> Iterator[Row]:
    """Yield rows for the mean of 1 GiB."""

    def over_memmap() -> float:
        return float(np.memmap(buffer, "f8").mean())

    plain, mapped = open_dataset(run), open_dataset(run, mmap=True)
    for ds in (plain, mapped):
        np.testing.assert_allclose(ds.field.data.mean().compute(), over_memmap())
    lazily = {name: peers[name](chunks={}) for name in ("zarr", "zarr default", "kerchunk")}
    others = works(lazily, lambda ds: ds.field.data.mean().compute())
    with dask.config.set(scheduler="threads"):
        best = interleaved(
            {
                "numpy over a memmap": lambda: stopwatch(over_memmap),
                "read": lambda: stopwatch(lambda: plain.field.data.mean().compute()),
                "mapped": lambda: stopwatch(lambda: mapped.field.data.mean().compute()),
                **{name: lambda work=work: stopwatch(work) for name, work in others.items()},
            },
            rounds=5,
            few=others,
        )
    for how, bar, name in (("read", 3, ""), ("mapped", 1.6, ", mmap=True")):
        beside = {name: best[name] for name in others}
        yield against(
            f"mean of 1 GiB through dask, threads{name}",
            "ms",
            {"binref_sci": best[how], "numpy over a memmap": best["numpy over a memmap"], **beside},
            bar=bar,
            limit="numpy over a memmap",
            scale=1e3,
        )


def mean_over_time_rows(
    run: Path, buffer: Path, shape: tuple[int, ...], place: Path
) -> Iterator[Row]:
    """Yield rows for the mean over time of 2 GiB: threads, two processes, memory."""
    count = buffer.stat().st_size // (int(np.prod(shape)) * 8)
    field = np.memmap(buffer, "f8", "r", shape=(count, *shape))

    def by_hand() -> NDArray:
        total = np.zeros(shape)
        for snapshot in field:
            total += snapshot
        return total / len(field)

    opened = {False: open_dataset(run).field, True: open_dataset(run, mmap=True).field}
    for values in opened.values():
        np.testing.assert_allclose(values.mean("time").compute(), by_hand())
    open_dataset(run).drop_encoding().to_zarr(
        place, encoding={"field": {"compressors": None}}, zarr_format=3, consolidated=False
    )
    zarr = xr.open_zarr(place, consolidated=False).field
    contestants: dict[str, Callable[[], float]] = {"numpy loop": lambda: stopwatch(by_hand)}
    for name, values in ((False, opened[False]), (True, opened[True]), ("zarr", zarr)):
        for skipna in (False, None):
            contestants[f"{name} {skipna}"] = lambda values=values, skipna=skipna: stopwatch(
                lambda: values.mean("time", skipna=skipna).compute()
            )
    with dask.config.set(scheduler="threads"):
        best = interleaved(contestants, rounds=3, few=["zarr False", "zarr None"], few_rounds=1)
    bars = {"False False": 3.3, "False None": 8, "True False": 1.6, "True None": 5.5}
    for name, bar in bars.items():
        mapped, skipna = name.split()
        yield _row(
            f"mean over time of 2 GiB, threads, skipna={'default' if skipna == 'None' else skipna}"
            + (", mmap=True" if mapped == "True" else ""),
            best,
            name,
            f"zarr {skipna}",
            bar,
        )
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        opened[False].mean("time", skipna=False).compute()  # the workers have imported all
        names = ["numpy loop", "False False", "zarr False"]
        best = interleaved({name: contestants[name] for name in names}, rounds=3)
        yield _row(
            "mean over time of 2 GiB, two worker processes, skipna=False",
            best,
            "False False",
            "zarr False",
            7,
        )
    yield under(
        "mean over time of 2 GiB, threads: peak memory of the whole process",
        "MB",
        _peak(f"binref_sci.open_dataset({str(run)!r})"),
        bar=400,
        peers={"zarr": _peak(f"xr.open_zarr({str(place)!r}, consolidated=False)")},
    )


def _row(what: str, best: dict[str, float], ours: str, peer: str, bar: float) -> Row:
    return against(
        what,
        "ms",
        {
            "binref_sci": best[ours],
            "numpy loop": best["numpy loop"],
            "zarr": best[peer],
        },
        bar=bar,
        limit="numpy loop",
        scale=1e3,
    )


def _peak(opened: str) -> float:
    script = PEAK + (
        "import binref_sci, xarray as xr\n"
        f"{opened}.field.mean('time', skipna=False).compute(scheduler='threads')\n"
        "print(peak())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1e6
