"""Reading: blocks, snapshots, points and windows of 1 GiB, beside positioned reads by hand."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.places import folder
from binref_sci import BinrefWriter, open_dataset
from binref_sci.engine import open_references

GIB = 2**30
WIDE = (256, 512)  # float64: 1 MiB
SMALL = (32, 64)  # float64: 16 KiB
BLOCK = 16  # MiB


def rows() -> Iterator[Row]:
    """Yield rows for whole arrays, snapshots, points, windows and means."""
    with folder() as place:
        wide, small = place / "wide", place / "small"
        write(wide, WIDE)
        write(small, SMALL)
        yield from _whole(wide)
        yield from _snapshots(wide)
        yield from _points(wide, small)
        yield from _windows(wide, small)
        yield from _means(wide, place / "two")


def write(run: Path, shape: tuple[int, ...], nbytes: int = GIB) -> None:
    """Write snapshots of random numbers, in one buffer."""
    count = nbytes // (int(np.prod(shape)) * 8)
    snapshot = np.random.default_rng(0).random(shape)
    with BinrefWriter(
        "field", dims=("time", "y", "x"), output_path=run, max_file_size=None
    ) as writer:
        for step in range(count):
            snapshot[0, 0] = step
            writer.write(snapshot, time=0.5 * step)


def buffer_of(run: Path) -> Path:
    """Return the only buffer of snapshots."""
    return max(run.glob("*.bin"), key=lambda path: path.stat().st_size)


def _whole(run: Path) -> Iterator[Row]:
    (trajectory,) = open_references(run).values()
    path = buffer_of(run)
    room = np.empty(BLOCK * 2**20 // 8)

    def by_hand() -> None:
        with path.open("rb", buffering=0) as file:
            for start in range(0, GIB, room.nbytes):
                os.preadv(file.fileno(), [room], start)
                room.sum()

    def ours() -> None:
        for start in range(0, len(trajectory), BLOCK):
            trajectory[start : start + BLOCK].load().sum()

    best = interleaved(
        {"preadv": lambda: stopwatch(by_hand), "binref_sci": lambda: stopwatch(ours)}
    )
    yield against(
        "1 GiB warm, a Trajectory in blocks of 16 MiB, each summed",
        "ms",
        best,
        bar=1.25,
        limit="preadv",
        scale=1e3,
    )

    def fresh() -> NDArray:
        made = np.empty((GIB // 8,))
        flat = memoryview(made).cast("B")
        with path.open("rb", buffering=0) as file:
            done = 0
            while done < GIB:
                done += os.preadv(file.fileno(), [flat[done:]], done)
        return made

    ds = open_dataset(run, chunks=None, cache=False)
    best = interleaved(
        {
            "preadv": lambda: stopwatch(fresh),
            "binref_sci": lambda: stopwatch(lambda: ds.field.values),
        }
    )
    yield against(
        "1 GiB warm, .values of the whole (chunks=None)",
        "ms",
        best,
        bar=1.25,
        limit="preadv",
        scale=1e3,
    )


def _snapshots(run: Path) -> Iterator[Row]:
    path = buffer_of(run)
    ds = open_dataset(run, chunks=None, cache=False)
    times = ds.time.values
    nbytes = int(np.prod(WIDE)) * 8
    steps = np.random.default_rng(1).integers(0, len(times), 200).tolist()
    fd = os.open(path, os.O_RDONLY)

    def by_hand() -> None:
        for step in steps:
            os.preadv(fd, [np.empty(WIDE)], step * nbytes)

    def isel() -> None:
        for step in steps:
            ds.field.isel(time=step).values  # noqa: B018  # reads

    def sel() -> None:
        for step in steps:
            ds.field.sel(time=times[step]).values  # noqa: B018  # reads

    best = interleaved(
        {
            "limit": lambda: stopwatch(by_hand),
            "isel": lambda: stopwatch(isel),
            "sel": lambda: stopwatch(sel),
        }
    )
    os.close(fd)
    each = {name: seconds / len(steps) * 1e6 for name, seconds in best.items()}
    for how, more in (("isel", 100), ("sel", 250)):
        yield under(
            f"one snapshot of 1 MiB from an open Dataset (chunks=None): {how}",
            "us",
            each[how],
            bar=each["limit"] + more,
            limit=each["limit"],
            limit_name="np.empty + preadv",
        )


def _gather(path: Path, offsets: list[int], *, threads: int = 1) -> NDArray:
    """Read a float64 at each offset, by hand, into page-aligned memory."""
    room = mmap.mmap(-1, len(offsets) * 8)
    view = memoryview(room)
    with path.open("rb", buffering=0) as file:
        fd = file.fileno()

        def work(first: int) -> None:
            preadv = os.preadv
            for number in range(first, len(offsets), threads):
                preadv(fd, [view[8 * number : 8 * number + 8]], offsets[number])

        if threads == 1:
            work(0)
        else:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            pool = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
            for thread in pool:
                thread.start()
            for thread in pool:
                thread.join()
    return np.frombuffer(room, np.float64)


def forget(path: Path) -> None:
    """Drop a file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _points(wide: Path, small: Path) -> Iterator[Row]:
    for run, shape, cold in ((wide, WIDE, True), (wide, WIDE, False), (small, SMALL, False)):
        path = buffer_of(run)
        stride = int(np.prod(shape)) * 8
        y, x = 7, 9
        offsets = list(range((y * shape[1] + x) * 8, GIB, stride))
        ds = open_dataset(run, chunks=None, cache=False)

        def ours(ds: xr.Dataset = ds, y: int = y, x: int = x) -> NDArray:
            values: NDArray = ds.field[:, y, x].values
            return values

        threads = 16 if cold else 1
        prepare: Callable[[], None] = (lambda path=path: forget(path)) if cold else (lambda: None)
        prepare()
        np.testing.assert_array_equal(ours(), _gather(path, offsets))
        prepare()
        best = interleaved(
            {
                "preadv": lambda p=path, o=offsets, t=threads: stopwatch(
                    lambda: _gather(p, o, threads=t)
                ),
                "binref_sci": lambda ours=ours: stopwatch(ours),
            },
            between=prepare,
        )
        yield _beside(
            f"{len(offsets):,} points [:, y, x], stride {stride // 1024} KiB, "
            f"{'cold' if cold else 'warm'} (chunks=None)",
            best,
            "preadv, 16 threads" if cold else "preadv",
        )


def _beside(what: str, best: dict[str, float], limit_name: str, limit: str = "preadv") -> Row:
    """Return a row whose bar is 1.3 times the limit and a millisecond."""
    return under(
        what,
        "ms",
        best["binref_sci"] * 1e3,
        bar=best[limit] * 1.3e3 + 1,
        limit=best[limit] * 1e3,
        limit_name=limit_name,
    )


def _windows(wide: Path, small: Path) -> Iterator[Row]:
    path = buffer_of(wide)
    ds = open_dataset(wide, chunks=None, cache=False)
    nbytes, row = int(np.prod(WIDE)) * 8, WIDE[1] * 8
    y0, y1, x0, x1 = 40, 72, 100, 164
    span = (y1 - y0 - 1) * row + (x1 - x0) * 8

    def window_by_hand() -> NDArray:
        made = np.empty((GIB // nbytes, y1 - y0, x1 - x0))
        room = np.empty(span, np.uint8)
        inside = np.ndarray(made.shape[1:], "f8", room, 0, (row, 8))
        with path.open("rb", buffering=0) as file:
            for step in range(len(made)):
                os.preadv(file.fileno(), [room], step * nbytes + y0 * row + x0 * 8)
                made[step] = inside
        return made

    def window() -> NDArray:
        values: NDArray = ds.field[:, y0:y1, x0:x1].values
        return values

    np.testing.assert_array_equal(window(), window_by_hand())
    best = interleaved(
        {"preadv": lambda: stopwatch(window_by_hand), "binref_sci": lambda: stopwatch(window)}
    )
    yield _beside("window [:, 40:72, 100:164] of 1,024 snapshots of 1 MiB", best, "preadv")

    for run, shape in ((wide, WIDE), (small, SMALL)):
        path = buffer_of(run)
        ds = open_dataset(run, chunks=None, cache=False)
        nbytes = int(np.prod(shape)) * 8

        def tenth_by_hand(path: Path = path, nbytes: int = nbytes, shape=shape) -> NDArray:
            made = np.empty(((GIB // nbytes + 9) // 10, *shape))
            view = memoryview(made).cast("B")
            with path.open("rb", buffering=0) as file:
                for step in range(len(made)):
                    part = view[step * nbytes : (step + 1) * nbytes]
                    os.preadv(file.fileno(), [part], 10 * step * nbytes)
            return made

        def tenth(ds: xr.Dataset = ds) -> NDArray:
            values: NDArray = ds.field[::10].values
            return values

        np.testing.assert_array_equal(tenth(), tenth_by_hand())
        best = interleaved(
            {
                "preadv": lambda work=tenth_by_hand: stopwatch(work),
                "binref_sci": lambda work=tenth: stopwatch(work),
            }
        )
        yield _beside(f"every tenth snapshot of {nbytes // 1024} KiB, 1 GiB", best, "preadv")


def _means(run: Path, two: Path) -> Iterator[Row]:
    path = buffer_of(run)

    def over_memmap() -> float:
        return float(np.memmap(path, "f8").mean())

    plain, mapped = open_dataset(run), open_dataset(run, mmap=True)
    for ds in (plain, mapped):
        np.testing.assert_allclose(ds.field.data.mean().compute(), over_memmap())
    with dask.config.set(scheduler="threads"):
        best = interleaved(
            {
                "numpy over a memmap": lambda: stopwatch(over_memmap),
                "read": lambda: stopwatch(lambda: plain.field.data.mean().compute()),
                "mapped": lambda: stopwatch(lambda: mapped.field.data.mean().compute()),
            },
            rounds=5,
        )
        for how, bar, name in (("read", 3, ""), ("mapped", 1.6, ", mmap=True")):
            chosen = {"binref_sci": best[how], "limit": best["numpy over a memmap"]}
            yield against(
                f"mean of 1 GiB through dask, threads{name}",
                "ms",
                chosen,
                bar=bar,
                limit="limit",
                scale=1e3,
            )
        write(two, WIDE, 2 * GIB)
        yield from _means_over_time(two)


def _means_over_time(run: Path) -> Iterator[Row]:
    field = np.memmap(buffer_of(run), "f8", "r", shape=(2 * GIB // 2**20, *WIDE))

    def by_hand() -> NDArray:
        total = np.zeros(WIDE)
        for snapshot in field:
            total += snapshot
        return total / len(field)

    opened = {False: open_dataset(run).field, True: open_dataset(run, mmap=True).field}
    for values in opened.values():
        np.testing.assert_allclose(values.mean("time").compute(), by_hand())
    contestants: dict[str, Callable[[], float]] = {"numpy loop": lambda: stopwatch(by_hand)}
    for mapped, values in opened.items():
        for skipna in (False, None):
            contestants[f"{mapped} {skipna}"] = lambda values=values, skipna=skipna: stopwatch(
                lambda: values.mean("time", skipna=skipna).compute()
            )
    best = interleaved(contestants, rounds=3)
    bars = {"False False": 3.3, "False None": 8, "True False": 1.6, "True None": 5.5}
    for name, bar in bars.items():
        mapped, skipna = name.split()
        yield against(
            f"mean over time of 2 GiB, threads, skipna={'default' if skipna == 'None' else skipna}"
            + (", mmap=True" if mapped == "True" else ""),
            "ms",
            {"binref_sci": best[name], "numpy loop": best["numpy loop"]},
            bar=bar,
            limit="numpy loop",
            scale=1e3,
        )
