"""A plate that cools, computed in blocks by the workers of a dask cluster.

Each worker holds a band of rows in an actor and streams it to a folder that all can see: its
own buffers, its own journal. Between two steps neighbours hand each other the row at their
common edge, from worker to worker; nothing else is sent, and nothing is gathered. What is
left behind opens as one global trajectory.

    python examples/distributed/heat.py output --size 256 --steps 200 --workers 2
"""

from __future__ import annotations

import argparse
import itertools
import uuid
from pathlib import Path

import distributed
import numpy as np

import binref_sci
from binref_sci import BinrefWriter

NUMBER = 0.2  # diffusivity * time step / cell width ** 2; stable up to 1/4


def initial(size: int) -> np.ndarray:
    """Return a hot disc on a cold plate."""
    y, x = np.mgrid[:size, :size] / size
    return np.where((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.04, 400.0, 300.0)


def step(padded: np.ndarray) -> np.ndarray:
    """Return the rows within a halo of one row, a step later; the plate is insulated."""
    wide = np.pad(padded, ((0, 0), (1, 1)), mode="edge")
    middle = wide[1:-1, 1:-1]
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return middle + NUMBER * (around - 4 * middle)


class Band:
    """Some rows of the plate; lives on one worker.

    Parameters
    ----------
    rows
        Of the whole plate.
    size
        Cells along each side of it.
    output
        Folder that all workers see.
    run_id
        The same for all bands: it is how their journals find each other.
    """

    def __init__(self, rows: slice, size: int, output: str, run_id: str) -> None:
        self.field = initial(size)[rows].copy()
        self.writer = BinrefWriter(
            "temperature",
            dims=("time", "y", "x"),
            coords={"time": {"units": "s"}},
            attrs={"units": "K"},
            block=(rows, slice(0, size)),
            shape=(size, size),
            output_path=output,
            run_id=run_id,
        )
        self.neighbours: tuple = (None, None)
        self.writer.write(self.field, time=0.0)

    def meet(self, above, below) -> None:
        """Take the bands on either side; None at the edge of the plate."""
        self.neighbours = (above, below)

    async def edge(self, side: int) -> np.ndarray:
        """Return the first row (0) or the last (-1).

        `async`, so that it is answered while this band waits for an edge itself.
        """
        return self.field[side].copy()

    def exchange(self) -> None:
        """Fetch the halo: the last row of the band above, the first of the one below."""
        above, below = self.neighbours
        self.halo = (
            self.field[0] if above is None else above.edge(-1).result(),
            self.field[-1] if below is None else below.edge(0).result(),
        )

    def advance(self, time: float) -> None:
        """Compute one step from the halo, and stream it."""
        self.field = step(np.vstack([self.halo[0], self.field, self.halo[1]]))
        self.writer.write(self.field, time=time)

    def close(self) -> int:
        """End the journal; return how many snapshots it holds."""
        count = len(self.writer.trajectory())
        self.writer.close()
        return count


def bands(size: int, count: int) -> list[slice]:
    """Return rows shared out to `count` workers."""
    cuts = np.linspace(0, size, count + 1).astype(int).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


def run(client: distributed.Client, output: Path, *, size: int, steps: int) -> None:
    """Compute on all workers of a cluster."""
    output.mkdir(parents=True, exist_ok=True)
    run_id = uuid.uuid4().hex
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    made = [
        client.submit(
            Band,
            rows,
            size,
            str(output.absolute()),
            run_id,
            actor=True,
            workers=[worker],
            pure=False,
        )
        for rows, worker in zip(bands(size, len(workers)), workers, strict=True)
    ]
    parts = [future.result() for future in made]
    wait([
        part.meet(above, below)
        for part, above, below in zip(parts, [None, *parts[:-1]], [*parts[1:], None], strict=True)
    ])  # fmt: skip
    for number in range(1, steps + 1):
        wait([part.exchange() for part in parts])
        wait([part.advance(0.5 * number) for part in parts])
    wait([part.close() for part in parts])


def wait(futures: list) -> list:
    """Return what actors answer, once all have."""
    return [future.result() for future in futures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--scheduler", help="address of a running cluster; default: one on this machine"
    )
    given = parser.parse_args()
    cluster = given.scheduler or distributed.LocalCluster(
        n_workers=given.workers, threads_per_worker=1, dashboard_address=":0"
    )
    with distributed.Client(cluster) as client:
        run(client, given.output, size=given.size, steps=given.steps)
        field = binref_sci.open_dataset(given.output).temperature
        print(f"{field.sizes} written; mean at the end {float(field[-1].mean()):.3f} K")
    if given.scheduler is None:
        cluster.close()


if __name__ == "__main__":
    main()
