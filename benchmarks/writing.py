"""Writing snapshots: the writer beside an ``os.write`` loop, NumPy, HDF5 and tesseract-core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np

from benchmarks.harness import Row, against, interleaved
from benchmarks.peer import Peer
from benchmarks.places import empty, folder
from binref_sci import BinrefWriter

KIB = 1024
SIZES = [
    # snapshot, how many, bar plain, bar with times
    (2 * KIB, 20_000, 2.2, 4.4),
    (128 * KIB, 2_000, 1.15, None),
    (8 * KIB * KIB, 40, 1.08, None),
]


def rows() -> Iterator[Row]:
    """Yield a row for each size of snapshot."""
    with folder(on_tmpfs=True) as place, Peer.started() as peer:
        for nbytes, count, bar, bar_with_time in SIZES:
            array = np.random.default_rng(0).random(nbytes // 8)
            contestants: dict[str, Callable[[], float | None]] = {
                "os.write": lambda a=array, n=count: _os_write(place, a, n),
                "binref_sci": lambda a=array, n=count: _writer(place, a, n),
                "np.save": lambda a=array, n=count: _np_save(place, a, n),
                "h5py contiguous": lambda a=array, n=count: _h5py(place, a, n),
                "tesseract-core": lambda b=nbytes, n=count: peer.ask(
                    "write", place=str(place), nbytes=b, count=n
                ),
            }
            if bar_with_time is not None:
                contestants["binref_sci with time"] = lambda a=array, n=count: _writer(
                    place, a, n, with_time=True
                )
            best = interleaved(contestants, between=lambda: empty(place))
            with_time = best.pop("binref_sci with time", None)
            per_snapshot = 1e6 / count
            what = f"write one {_size(nbytes)} snapshot"
            yield against(what, "us", best, bar=bar, limit="os.write", scale=per_snapshot)
            if with_time is not None and bar_with_time is not None:
                pair = {"os.write": best["os.write"], "binref_sci": with_time}
                yield against(
                    f"{what} with its time",
                    "us",
                    pair,
                    bar=bar_with_time,
                    limit="os.write",
                    scale=per_snapshot,
                )


def _size(nbytes: int) -> str:
    return f"{nbytes // KIB} KiB" if nbytes < KIB * KIB else f"{nbytes // KIB // KIB} MiB"


def _os_write(place: Path, array: np.ndarray, count: int) -> float:
    fd = os.open(place / "limit.bin", os.O_WRONLY | os.O_CREAT)
    started = time.perf_counter()
    for _ in range(count):
        os.write(fd, array)
    seconds = time.perf_counter() - started
    os.close(fd)
    return seconds


def _writer(place: Path, array: np.ndarray, count: int, *, with_time: bool = False) -> float:
    with BinrefWriter("field", output_path=place) as writer:
        started = time.perf_counter()
        if with_time:
            for step in range(count):
                writer.write(array, time=step * 0.5)
        else:
            for _ in range(count):
                writer.write(array)
        return time.perf_counter() - started


def _np_save(place: Path, array: np.ndarray, count: int) -> float:
    started = time.perf_counter()
    for step in range(count):
        np.save(place / f"{step}.npy", array)
    return time.perf_counter() - started


def _h5py(place: Path, array: np.ndarray, count: int) -> float:
    with h5py.File(place / "field.h5", "w") as file:
        dataset = file.create_dataset("field", (count, len(array)), dtype="f8")
        started = time.perf_counter()
        for step in range(count):
            dataset[step] = array
        return time.perf_counter() - started
