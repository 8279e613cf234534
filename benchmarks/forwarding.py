"""References into a response, and arrays into its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import orjson
import pybase64
from pydantic import BaseModel

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.peer import Peer
from benchmarks.places import folder
from binref_sci import BinrefArray
from binref_sci.call import Call, entering
from binref_sci.runtime import Array, Float64
from binref_sci.runtime.component import Component
from binref_sci.runtime.encoder import encode
from binref_sci.runtime.endpoint import call
from binref_sci.runtime.run import RunDirectory

REFERENCES = 100_000
MEBIBYTES = 64


class InputSchema(BaseModel):
    """Nothing to say."""


class OutputSchema(BaseModel):
    """A trajectory and nothing else."""

    trajectory: list[Array[(None, None), Float64]]


def rows() -> Iterator[Row]:
    """Yield rows for references and for inline encodings."""
    with folder(on_tmpfs=True) as place, Peer.started() as peer:
        yield _from_file(place, peer)
        yield _endpoint(place, peer)
        yield from _inline(place, peer)


def _from_file(place: Path, peer: Peer) -> Row:
    (place / "product.bin").write_bytes(bytes(2048))
    running = Call(place, place, "bench", 0)

    def ours() -> None:
        with entering(running):
            for _ in range(REFERENCES):
                BinrefArray.from_file("product.bin", (16, 16), "float64")

    best = interleaved(
        {
            "binref_sci": lambda: stopwatch(ours),
            # A tenth of them, or a round of the peer takes ten seconds.
            "tesseract-core": lambda: (
                10 * peer.ask("from_file", place=str(place), count=REFERENCES // 10)
            ),
        }
    )
    scale = 1e6 / REFERENCES
    return under(
        "`from_file`, 100,000 references into one file",
        "us/ref",
        best["binref_sci"] * scale,
        bar=8,
        peers={"tesseract-core": best["tesseract-core"] * scale},
    )


def _endpoint(place: Path, peer: Peer) -> Row:
    run = RunDirectory(place)
    with entering(run.call):
        (place / "product.bin").write_bytes(bytes(2048))
        references = [
            BinrefArray.from_file("product.bin", (16, 16), "float64") for _ in range(REFERENCES)
        ]
    module = ModuleType("bench_component")
    module.InputSchema = InputSchema
    module.OutputSchema = OutputSchema
    module.apply = lambda inputs: OutputSchema(trajectory=references)
    component = Component.load(module)
    # The endpoint also writes results.json, which the peer does not; the figure includes it.
    dicts = _dicts()
    best = interleaved(
        {
            "orjson.dumps": lambda: stopwatch(lambda: orjson.dumps(dicts)),
            "binref_sci": lambda: stopwatch(
                lambda: call(
                    component, "apply", {"inputs": {}}, run=run, output_format="json+binref"
                ).body()
            ),
            "tesseract-core": lambda: peer.ask("forward", place=str(place), count=REFERENCES),
        }
    )
    scale = 1e6 / REFERENCES
    return under(
        "endpoint result of 100,000 references to json+binref bytes",
        "us/ref",
        best["binref_sci"] * scale,
        bar=1.5,
        limit=best["orjson.dumps"] * scale,
        limit_name="orjson.dumps",
        peers={"tesseract-core": best["tesseract-core"] * scale},
    )


def _dicts() -> dict[str, list[dict[str, object]]]:
    return {
        "trajectory": [
            {
                "object_type": "array",
                "shape": [16, 16],
                "dtype": "float64",
                "data": {"buffer": f"product.bin:{step * 2048}", "encoding": "binref"},
            }
            for step in range(REFERENCES)
        ]
    }


def _inline(place: Path, peer: Peer) -> Iterator[Row]:
    array = np.random.default_rng(0).random((1, MEBIBYTES * 2**17))
    value = {"trajectory": [array]}

    def ours(output_format: str) -> None:
        for _ in encode(value, output_format):
            pass

    limits = {
        "json+base64": ("pybase64", lambda: pybase64.b64encode_as_string(array.data)),
        "json": ("orjson", lambda: orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)),
    }
    for output_format, (limit, work) in limits.items():
        best = interleaved(
            {
                limit: lambda w=work: stopwatch(w),
                "binref_sci": lambda f=output_format: stopwatch(lambda: ours(f)),
                "tesseract-core": lambda f=output_format: peer.ask(
                    "encode", place=str(place), encoding=f, mebibytes=MEBIBYTES
                ),
            }
        )
        yield against(
            f"{output_format} encoding of {MEBIBYTES} MiB of float64",
            "ms",
            best,
            bar=1.3,
            limit=limit,
            scale=1e3,
        )
