"""Opening: a run directory of a million snapshots, a result of a hundred thousand references."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xarray as xr
import zarr

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.memory import PEAK
from benchmarks.places import folder
from binref_sci import BinrefWriter, open_dataset

MILLION = 1_000_000
SHAPE = (64, 32)  # float64: 16 KiB
REFERENCES = 100_000


def rows() -> Iterator[Row]:
    """Yield rows for the journal and for the response."""
    with folder() as place:
        run = place / "run"
        write_sparse_run(run)
        store = place / "field.zarr"
        write_empty_zarr(store)
        best = interleaved(
            {
                "binref_sci": lambda: stopwatch(lambda: open_dataset(run)),
                "xr.open_zarr(chunks={})": lambda: stopwatch(
                    lambda: xr.open_zarr(store, consolidated=False)
                ),
            }
        )
        yield under(
            "open a run directory of 1,000,000 snapshots of 16 KiB with their times",
            "ms",
            best["binref_sci"] * 1e3,
            bar=30,
            peers={"xr.open_zarr(chunks={})": best["xr.open_zarr(chunks={})"] * 1e3},
        )
        graph = len(pickle.dumps(open_dataset(run).field.data))
        yield under("the same: its pickled dask array", "kB", graph / 1e3, bar=100)
        yield under(
            "memory to open it, above a process that opened a small one",
            "MB",
            _memory_to_open(run, place / "small"),
            bar=100,
        )
        results = place / "response" / "results.json"
        write_results(results, REFERENCES)
        content = results.read_bytes()
        best = interleaved(
            {
                "orjson.loads": lambda: stopwatch(lambda: orjson.loads(content)),
                "binref_sci": lambda: stopwatch(lambda: open_dataset(results)),
            }
        )
        yield against(
            "open a results.json of 100,000 references",
            "ms",
            best,
            bar=1.8,
            limit="orjson.loads",
            scale=1e3,
        )


def write_sparse_run(run: Path, count: int = MILLION, snapshot: Any = None) -> None:
    """Write a run directory whose buffers have holes instead of bytes, but for the first."""
    snapshot = np.zeros(SHAPE) if snapshot is None else snapshot
    with BinrefWriter("field", dims=("time", "y", "x"), output_path=run) as writer:
        writer.write(snapshot, time=0.0)
        journal = Path(writer.journal_path)
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    header, segment = lines[0], lines[1]["segment"]
    per_buffer = 2**30 // snapshot.nbytes
    made = [header]
    for start in range(0, count, per_buffer):
        here = min(per_buffer, count - start)
        name = segment["buffer"] if start == 0 else f"{start}.bin"
        os.truncate(run / name, here * snapshot.nbytes) if start == 0 else _hole(
            run / name, here * snapshot.nbytes
        )
        made.append({"segment": {**segment, "start": start, "buffer": name}})
    np.arange(float(count)).tofile(run / header["time"]["buffer"])
    made.append({"end": {"count": count}})
    journal.write_text("".join(json.dumps(line) + "\n" for line in made))


def write_empty_zarr(store: Path, count: int = MILLION) -> None:
    """Write the metadata of a zarr array, one chunk a snapshot; no chunk is laid down."""
    group = zarr.open_group(store, mode="w")
    array = group.create_array(
        "field",
        shape=(count, *SHAPE),
        chunks=(1, *SHAPE),
        dtype="f8",
        dimension_names=("time", "y", "x"),
    )
    assert array.shape[0] == count
    times = group.create_array("time", shape=(count,), dtype="f8", dimension_names=("time",))
    times[:] = np.arange(float(count))


def write_results(results: Path, count: int) -> None:
    """Write a response of references to 2 KiB snapshots in one sparse buffer."""
    results.parent.mkdir()
    _hole(results.parent / "0.bin", count * 2048)
    reference = {"object_type": "array", "shape": [16, 16], "dtype": "float64"}
    trajectory = [
        {**reference, "data": {"buffer": f"0.bin:{step * 2048}", "encoding": "binref"}}
        for step in range(count)
    ]
    results.write_bytes(orjson.dumps({"trajectory": trajectory, "final": trajectory[-1]}))


def _hole(path: Path, nbytes: int) -> None:
    path.touch()
    os.truncate(path, nbytes)


def _memory_to_open(run: Path, small: Path) -> float:
    with BinrefWriter("field", dims=("time", "y", "x"), output_path=small) as writer:
        writer.write(np.zeros(SHAPE))
    script = PEAK + (
        "import sys, binref_sci\n"
        "binref_sci.open_dataset(sys.argv[1]); before = peak()\n"
        "ds = binref_sci.open_dataset(sys.argv[2]); print(peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, small, run], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1e6
