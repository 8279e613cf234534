"""From the body of a response to arrays: lazily, and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.opening import write_results
from benchmarks.places import folder
from binref_sci.client.replies import Reply

REFERENCES = 100_000


def rows() -> Iterator[Row]:
    """Yield a row for lazy and one for NumPy; buffers hold real bytes in the page cache."""
    with folder() as place:
        run = place / "run"
        write_results(run / "results.json", REFERENCES)
        with (run / "0.bin").open("r+b") as file:
            file.write(np.random.default_rng(0).bytes(REFERENCES * 2048))
        body = (run / "results.json").read_bytes()
        best = interleaved(
            {
                "orjson.loads": lambda: stopwatch(lambda: orjson.loads(body)),
                "binref_sci": lambda: stopwatch(lambda: _decoded(body, run, lazy=True)),
            }
        )
        yield against(
            "client, response of 100,000 x 2 KiB snapshots, lazy",
            "us/snapshot",
            best,
            bar=1.8,
            limit="orjson.loads",
            scale=1e6 / REFERENCES,
        )
        best = interleaved(
            {"binref_sci": lambda: stopwatch(lambda: _decoded(body, run, lazy=False))}, rounds=9
        )
        yield under(
            "the same as NumPy arrays",
            "us/snapshot",
            best["binref_sci"] * 1e6 / REFERENCES,
            bar=10,
        )


def _decoded(body: bytes, place: Path, *, lazy: bool) -> Any:
    return Reply(lambda: orjson.loads(body), place).decoded(lazy=lazy, labels={})
