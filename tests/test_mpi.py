"""The ranks of an MPI program stream blocks of one field."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import binref_sci as brs
from binref_sci.engine.checks import check

EXAMPLE = Path(__file__).parents[1] / "examples" / "mpi" / "heat.py"


@pytest.mark.needs("mpiexec")
def test_two_ranks_leave_the_same_trajectory_as_one(tmp_path):
    # Open MPI refuses root, and more ranks than cores, unless it is told.
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for ranks in (1, 2):
        subprocess.run(
            [
                "mpiexec",
                "-n",
                str(ranks),
                sys.executable,
                EXAMPLE,
                tmp_path / str(ranks),
                "--size",
                "17",
                "--steps",
                "4",
            ],
            env=os.environ | allowed,
            check=True,
            timeout=100,
        )
    one, two = (brs.open_dataset(tmp_path / name).temperature for name in "12")
    assert two.shape == (5, 17, 17)
    assert len(list((tmp_path / "2").glob("*.binref.jsonl"))) == 2
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(two.mean(("y", "x")), one[0].mean())  # insulated
    assert check(tmp_path / "2").problems == []
