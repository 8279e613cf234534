import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run_one_after_another(notebook, tmp_path):
    source = "\n\n".join("".join(cell["source"]) for cell in code_of(notebook))
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_small_and_with_nothing_of_the_machine_that_ran_it(notebook):
    assert notebook.stat().st_size < 100_000
    for cell in code_of(notebook):
        assert set(cell["metadata"]) <= {"tags"}
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert not re.search(r"/(tmp|home|root|Users)/|widget", json.dumps(output))


def test_there_is_a_notebook():
    assert NOTEBOOKS
