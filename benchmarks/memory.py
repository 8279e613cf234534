"""What streaming, serving and opening hold in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Row, under
from benchmarks.places import folder
from benchmarks.serving import peak, server

MIB = 2**20

# Not ru_maxrss: a new process inherits its parent's.
PEAK = r"""
import re
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) * 1024
"""

STREAM = (
    PEAK
    + """
import sys
import numpy as np
from binref_sci import BinrefWriter

place, steps, keep = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "keep"
array = np.zeros(256)
kept = []
with BinrefWriter("field", output_path=place) as writer:
    writer.write(array)
    before = peak()
    for step in range(steps):
        reference = writer.write(array)
        if keep:
            kept.append(reference)
    trajectory = writer.trajectory()
print(peak() - before)
"""
)

CLIENT = (
    PEAK
    + """
import sys
from binref_sci import Tesseract

url, place, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
sim = Tesseract.from_url(url, output_path=place, lazy=True)
small = sim.apply({"snapshots": 2, "length": 1})["trajectory"]
small.to_xarray()
before = peak()
trajectory = sim.apply({"snapshots": 2048, "length": length})["trajectory"]
array = trajectory.to_xarray()
assert array.nbytes == 2 * 2**30 and float(trajectory[2047][0]) == 2047
print(peak() - before)
"""
)


def rows() -> Iterator[Row]:
    """Yield rows for the writer, and for server and client."""
    with folder() as place:
        yield under(
            "memory a step while streaming, references kept (20,000 to 200,000 steps)",
            "bytes",
            _a_step(place, "keep"),
            bar=250,
        )
        yield under(
            "the same, a Trajectory returned instead", "bytes", _a_step(place, "fold"), bar=2
        )
        with server("streamer", place) as (url, pid):
            _client(url, place, 1)
            idle = peak(pid)
            client = _client(url, place, MIB // 8)
            served = peak(pid) - idle
        yield under(
            "all server processes, 2 GiB trajectory, above idle", "MB", served / 1e6, bar=60
        )
        yield under(
            "client with lazy=True, 2 GiB trajectory, above idle", "MB", client / 1e6, bar=60
        )


def _a_step(place: Path, keep: str) -> float:
    few, many = (_run(STREAM, str(place), str(steps), keep) for steps in (20_000, 200_000))
    return (many - few) / 180_000


def _client(url: str, place: Path, length: int) -> int:
    code = CLIENT if length > 1 else CLIENT.replace("2 * 2**30", "2048 * 8")
    return _run(code, url, str(place), str(length))


def _run(code: str, *arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return int(done.stdout)
