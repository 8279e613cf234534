"""One round of work a line of standard input; runs in tesseract-core's environment."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from pydantic import BaseModel
from tesseract_core.runtime import Array, Float64
from tesseract_core.runtime.config import update_config
from tesseract_core.runtime.experimental import BinrefArray, BinrefWriter
from tesseract_core.runtime.file_interactions import output_to_bytes


class Result(BaseModel):
    """A trajectory and nothing else."""

    trajectory: list[Array[(None, None), Float64]]


def write(place: str, nbytes: int, count: int) -> float:
    """Stream `count` snapshots."""
    update_config(output_path=place)
    array = np.zeros(nbytes // 8)
    writer = BinrefWriter()
    started = time.perf_counter()
    for _ in range(count):
        writer.write(array)
    return time.perf_counter() - started


def references(place: str, count: int) -> list[BinrefArray]:
    """Make references into one small file."""
    update_config(output_path=place)
    Path(place, "peer.bin").write_bytes(bytes(2048))
    return [BinrefArray.from_file("peer.bin", (16, 16), "float64") for _ in range(count)]


def from_file(place: str, count: int) -> float:
    """Refer to a file that is there."""
    started = time.perf_counter()
    references(place, count)
    return time.perf_counter() - started


_kept: dict[int, list[BinrefArray]] = {}


def forward(place: str, count: int) -> float:
    """Validate references and encode them, as its endpoint does."""
    if count not in _kept:
        _kept[count] = references(place, count)
    started = time.perf_counter()
    made = Result(trajectory=_kept[count])
    checked = Result.model_validate(made.model_dump())
    output_to_bytes(checked, "json+binref", base_dir=place)
    return time.perf_counter() - started


def encode(place: str, encoding: str, mebibytes: int) -> float:
    """Encode one array inline."""
    array = np.random.default_rng(0).random((1, mebibytes * 2**17))
    result = Result(trajectory=[array])
    started = time.perf_counter()
    output_to_bytes(result, encoding, base_dir=place)
    return time.perf_counter() - started


WORK = {"write": write, "from_file": from_file, "forward": forward, "encode": encode}

for line in sys.stdin:
    request = json.loads(line)
    print(WORK[request.pop("work")](**request), flush=True)
