"""A plate that cools, computed in blocks by the ranks of an MPI program.

Each rank holds a band of rows and streams it to a folder that all can see: its own buffers,
its own journal. Between two steps neighbours exchange the row at their common edge; nothing
is gathered. What is left behind opens as one global trajectory.

    mpiexec -n 2 python examples/mpi/heat.py output --size 256 --steps 200
"""

from __future__ import annotations

import argparse
import uuid
from pathlib import Path

import numpy as np
from mpi4py import MPI

from binref_sci import BinrefWriter

NUMBER = 0.2  # diffusivity * time step / cell width ** 2; stable up to 1/4


def initial(size: int) -> np.ndarray:
    """Return a hot disc on a cold plate."""
    y, x = np.mgrid[:size, :size] / size
    return np.where((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.04, 400.0, 300.0)


def exchange(comm: MPI.Comm, padded: np.ndarray) -> None:
    """Fill the halo rows; at the edges of the plate, which is insulated, with the row beside."""
    above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    padded[0], padded[-1] = padded[1], padded[-2]
    comm.Sendrecv(padded[1], above, recvbuf=padded[-1], source=below)
    comm.Sendrecv(padded[-2], below, recvbuf=padded[0], source=above)


def advance(padded: np.ndarray) -> None:
    """Compute one step within the halo."""
    wide = np.pad(padded, ((0, 0), (1, 1)), mode="edge")
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    padded[1:-1] += NUMBER * (around - 4 * padded[1:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    comm, size = MPI.COMM_WORLD, given.size
    given.output.mkdir(parents=True, exist_ok=True)
    # The same for all ranks: it is how their journals find each other.
    run_id = comm.bcast(uuid.uuid4().hex if comm.rank == 0 else None)
    cuts = np.linspace(0, size, comm.size + 1).astype(int)
    rows = slice(int(cuts[comm.rank]), int(cuts[comm.rank + 1]))
    padded = np.empty((rows.stop - rows.start + 2, size))
    padded[1:-1] = initial(size)[rows]
    with BinrefWriter(
        "temperature",
        dims=("time", "y", "x"),
        coords={"time": {"units": "s"}},
        attrs={"units": "K"},
        block=(rows, slice(0, size)),
        shape=(size, size),
        output_path=given.output,
        run_id=run_id,
        total=given.steps + 1 if comm.rank == 0 else None,
    ) as writer:
        writer.write(padded[1:-1], time=0.0)
        for number in range(1, given.steps + 1):
            exchange(comm, padded)
            advance(padded)
            writer.write(padded[1:-1], time=0.5 * number)


if __name__ == "__main__":
    main()
