"""Jacobians: made a product at a time, and used from disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from benchmarks.harness import Row, against, interleaved, stopwatch, under
from benchmarks.memory import PEAK
from benchmarks.places import folder
from benchmarks.serving import peak, server
from binref_sci import BinrefArray, Tesseract
from binref_sci.operators import MatrixOperator
from binref_sci.runtime import Array, Differentiable, Float64, jacobian_from_jvp, jacobian_from_vjp

COLUMNS = 16384
ROWS = 32768  # 4 GiB of float64
MEMMAP_ROWS = 64
SECONDS = 0.005  # of one product
PRODUCTS = 400
LENGTH = 16384

PRODUCT = (
    PEAK
    + """
import sys
import numpy as np
from binref_sci import BinrefArray
from binref_sci.operators import MatrixOperator

name, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
array = BinrefArray.from_file(name, (rows, columns), "float64", output_path=".")
for mmap in (False, None):
    operator = MatrixOperator(array, 1, mmap=mmap)
    operator @ np.ones(columns)
    operator.rmatvec(np.ones(rows))
print(peak())
"""
)


class InputSchema(BaseModel):
    """Of the component that is differentiated."""

    x: Differentiable[Array[(None,), Float64]]


class OutputSchema(BaseModel):
    """Of the component that is differentiated."""

    y: Differentiable[Array[(None,), Float64]]


def rows() -> Iterator[Row]:
    """Yield rows for products with a Jacobian, for making one, and for returning one."""
    with folder() as place:
        array = _matrix(place)
        yield from _products(place, array)
    with folder() as place:
        yield from _making(place)
    with folder(on_tmpfs=True) as place:  # else a disk that writes 2 GiB back is measured
        yield from _returning(place)


def _matrix(place: Path) -> BinrefArray:
    block = np.random.default_rng(0).random(2**21)
    with (place / "matrix.bin").open("wb") as file:
        for _ in range(ROWS * COLUMNS // block.size):
            file.write(block.data)
    return BinrefArray.from_file("matrix.bin", (ROWS, COLUMNS), "float64", output_path=place)


def _products(place: Path, array: BinrefArray) -> Iterator[Row]:
    operator, reading = MatrixOperator(array, 1), MatrixOperator(array, 1, mmap=False)
    x, y = np.ones(COLUMNS), np.ones(ROWS)

    def memmap(vector: np.ndarray, *, adjoint: bool) -> np.ndarray:
        made = np.zeros(COLUMNS if adjoint else ROWS)
        matrix = np.memmap(place / "matrix.bin", "float64", "r", shape=(ROWS, COLUMNS))
        for row in range(0, ROWS, MEMMAP_ROWS):
            part = slice(row, row + MEMMAP_ROWS)
            if adjoint:
                made += matrix[part].T @ vector[part]
            else:
                made[part] = matrix[part] @ vector
        return made

    limit = f"numpy.memmap, {MEMMAP_ROWS} rows at a time"
    for name, vector, adjoint in (("matvec", x, False), ("rmatvec", y, True)):
        best = interleaved(
            {
                limit: lambda v=vector, a=adjoint: stopwatch(lambda: memmap(v, adjoint=a)),
                "binref_sci": lambda n=name, v=vector: stopwatch(lambda: getattr(operator, n)(v)),
                "mmap=False": lambda n=name, v=vector: stopwatch(lambda: getattr(reading, n)(v)),
            }
        )
        what = f"{name} on a 4 GiB Jacobian, warm"
        yield against(what, "ms", best, bar=1.5, limit=limit, scale=1e3)
    done = subprocess.run(
        [sys.executable, "-c", PRODUCT, "matrix.bin", str(ROWS), str(COLUMNS)],
        check=True, capture_output=True, text=True, cwd=place,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    yield under("memory of a process that does all four", "MB", int(done.stdout) / 1e6, bar=256)


def _making(place: Path) -> Iterator[Row]:
    row = np.ones(LENGTH)
    shape = {"y": {"shape": (PRODUCTS,), "dtype": "float64"}}
    wide, tall = InputSchema(x=np.ones(LENGTH)), InputSchema(x=np.ones(PRODUCTS))

    def product(**asked: object) -> dict[str, np.ndarray]:
        time.sleep(SECONDS)
        return {"x" if "vjp_inputs" in asked else "y": row}

    def calls() -> None:
        with (place / "raw").open("wb") as file:
            for _ in range(PRODUCTS):
                product()
                file.write(row.data)

    def by_rows() -> None:
        jacobian_from_vjp(product, lambda _: shape, wide, ["x"], ["y"], output_path=place)

    def by_columns() -> None:
        # a sixth of the columns at a time
        memory = PRODUCTS * LENGTH * 8 // 3
        jacobian_from_jvp(product, tall, ["x"], ["y"], memory=memory, output_path=place)

    limit = "the calls, and the bytes written once"
    for what, work, bar in (("vjp", by_rows, 1.1), ("jvp", by_columns, 1.2)):
        best = interleaved(
            {
                limit: lambda: stopwatch(calls),
                "binref_sci": lambda w=work: stopwatch(w),
            },
            rounds=3,
        )
        yield against(
            f"a Jacobian from {PRODUCTS} calls of a {what} that takes 5 ms",
            "s",
            best,
            bar=bar,
            limit=limit,
        )


def _returning(place: Path) -> Iterator[Row]:
    """Yield rows for a real server; its clock and ours are the machine's."""
    point = np.ones(2**14)

    def answered(sim: Tesseract, rows: int) -> float:
        asked = {"x": point, "rows": rows}
        block = sim.jacobian(asked, ["x"], ["y"], lazy=True, run_id="bench")["y"]["x"]
        arrived = time.monotonic()
        assert block.nbytes == rows * point.nbytes
        return arrived - float(block[0, 0])

    with server("jacobian", place) as (url, pid), Tesseract.from_url(url, output_path=place) as sim:
        answered(sim, 1)
        idle = peak(pid)
        best = min(answered(sim, 2**14) for _ in range(5))
        grown = peak(pid) - idle
    what = "jacobian with a block of 2 GiB over HTTP"
    yield under(f"{what}: response after its last byte", "ms", best * 1e3, bar=1000)
    yield under(f"{what}: all server processes, above idle", "MB", grown / 1e6, bar=20)
