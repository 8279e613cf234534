"""Reading: blocks, snapshots, points and windows of 1 GiB, beside reads by hand and peers."""

from __future__ import annotations

import mmap
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.means import mean_over_time_rows, mean_rows
from benchmarks.peers import copies, works
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
        in_wide = copies(wide, place / "wide-copies", together=1)
        in_small = copies(small, place / "small-copies", together=64)
        peers = {
            run: {name: opener(chunks=None) for name, opener in openers.items()}
            for run, openers in ((wide, in_wide), (small, in_small))
        }
        yield from _whole(wide, peers[wide])
        yield from _snapshots(wide, peers[wide])
        yield from _points(wide, small, peers)
        yield from _windows(wide, small, peers)
        yield from mean_rows(wide, buffer_of(wide), in_wide)
        shutil.rmtree(small)
        shutil.rmtree(place / "small-copies")
        two = place / "two"
        write(two, WIDE, 2 * GIB)
        yield from mean_over_time_rows(two, buffer_of(two), WIDE, place / "two-copies")


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


def _whole(run: Path, peers: Mapping[str, xr.Dataset]) -> Iterator[Row]:
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

    def in_blocks(ds: xr.Dataset) -> None:
        for start in range(0, ds.sizes["time"], BLOCK):
            ds.field[start : start + BLOCK].values.sum()

    best = interleaved(
        {"preadv": by_hand, "binref_sci": ours, **works(peers, in_blocks)}, few=peers
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
            **works(peers, lambda ds: ds.field.values),
        },
        rounds=5,
        few=peers,
    )
    yield against(
        "1 GiB warm, .values of the whole (chunks=None)",
        "ms",
        best,
        bar=1.25,
        limit="preadv",
        scale=1e3,
    )


def _snapshots(run: Path, peers: Mapping[str, xr.Dataset]) -> Iterator[Row]:
    path = buffer_of(run)
    ds = open_dataset(run, chunks=None, cache=False)
    times = ds.time.values
    nbytes = int(np.prod(WIDE)) * 8
    steps = np.random.default_rng(1).integers(0, len(times), 200).tolist()
    fd = os.open(path, os.O_RDONLY)

    def by_hand() -> None:
        for step in steps:
            os.preadv(fd, [np.empty(WIDE)], step * nbytes)

    def isel(ds: xr.Dataset = ds) -> None:
        for step in steps:
            ds.field.isel(time=step).values  # noqa: B018  # reads

    def sel(ds: xr.Dataset = ds) -> None:
        for step in steps:
            ds.field.sel(time=times[step]).values  # noqa: B018  # reads

    mapped = open_dataset(run, chunks=None, cache=False, mmap=True)

    # What xarray itself takes of it: an engine that does what the limit does, and nothing else.
    bare = _bare(path, len(times), times)

    best = interleaved(
        {
            "limit": lambda: stopwatch(by_hand),
            "isel": lambda: stopwatch(isel),
            "sel": lambda: stopwatch(sel),
            "mapped isel": lambda: stopwatch(lambda: isel(mapped)),
            "mapped sel": lambda: stopwatch(lambda: sel(mapped)),
            "isel xarray over preadv": lambda: isel(bare),
            "sel xarray over preadv": lambda: sel(bare),
            **{f"isel {name}": work for name, work in works(peers, isel).items()},
            **{f"sel {name}": work for name, work in works(peers, sel).items()},
        },
        few=[f"{how} {name}" for how in ("isel", "sel") for name in peers],
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
            peers={
                name.partition(" ")[2]: value
                for name, value in each.items()
                if name.startswith(f"{how} ")
            },
        )
        yield under(
            f"the same, mmap=True (no page is touched until it is used): {how}",
            "us",
            each[f"mapped {how}"],
            bar=each["limit"] + more,
            limit=each["limit"],
            limit_name="np.empty + preadv",
        )


class _Bare(BackendArray):
    """Snapshots of one buffer, read as the limit reads them."""

    def __init__(self, path: Path, count: int) -> None:
        self.shape = (count, *WIDE)
        self.dtype = np.dtype("f8")
        self._fd = os.open(path, os.O_RDONLY)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> NDArray:
        made = np.empty(WIDE)
        os.preadv(self._fd, [made], int(key.tuple[0]) * made.nbytes)
        return made


def _bare(path: Path, count: int, times: NDArray) -> xr.Dataset:
    lazily = indexing.LazilyIndexedArray(_Bare(path, count))
    return xr.Dataset({"field": (("time", "y", "x"), lazily)}, {"time": times})


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


def _points(
    wide: Path, small: Path, peers: Mapping[Path, Mapping[str, xr.Dataset]]
) -> Iterator[Row]:
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
        files = [path]
        if cold:
            files += [
                one for one in (run.parent / f"{run.name}-copies").rglob("*") if one.is_file()
            ]

        def prepare(*, cold: bool = cold, files: list[Path] = files) -> None:
            for file in files if cold else ():
                forget(file)

        prepare()
        np.testing.assert_array_equal(ours(), _gather(path, offsets))
        prepare()
        best = interleaved(
            {
                "preadv": lambda p=path, o=offsets, t=threads: stopwatch(
                    lambda: _gather(p, o, threads=t)
                ),
                "binref_sci": lambda ours=ours: stopwatch(ours),
                **works(peers[run], ours),
            },
            between=prepare,
            rounds=5,
            few=peers[run],
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
        peers={
            name: seconds * 1e3
            for name, seconds in best.items()
            if name not in ("binref_sci", limit)
        },
    )


def _windows(
    wide: Path, small: Path, peers: Mapping[Path, Mapping[str, xr.Dataset]]
) -> Iterator[Row]:
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

    def window(ds: xr.Dataset = ds) -> NDArray:
        values: NDArray = ds.field[:, y0:y1, x0:x1].values
        return values

    np.testing.assert_array_equal(window(), window_by_hand())
    best = interleaved(
        {
            "preadv": lambda: stopwatch(window_by_hand),
            "binref_sci": lambda: stopwatch(window),
            **works(peers[wide], window),
        },
        few=peers[wide],
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
                **works(peers[run], tenth),
            },
            few=peers[run],
        )
        yield _beside(f"every tenth snapshot of {nbytes // 1024} KiB, 1 GiB", best, "preadv")
