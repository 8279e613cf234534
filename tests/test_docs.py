"""What the pages show is true: their Python blocks are run, in order, in an empty folder."""

import re
from pathlib import Path

import numpy as np
import pytest

from binref_sci.journal import read_journal
from binref_sci.trajectory import Trajectory

DOCS = Path(__file__).parent.parent / "docs"


# Pages whose code needs more than Python, and where it is run.
ELSEWHERE = {"containers": "tests/containers/test_images.py"}


def run_page(name: str, **names: str) -> None:
    """Run the code of a page; `names` are other names for what it calls so."""
    text = (DOCS / name).read_text()
    for known, other in names.items():
        text = text.replace(f'"{known}"', f'"{other}"')
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile("\n".join(blocks), name, "exec"), {})


@pytest.mark.parametrize(
    "page",
    sorted(
        path.name
        for path in (DOCS / "howto").glob("*.md")
        if path.stem not in {"index", *ELSEWHERE}
    ),
)
def test_the_code_of_a_how_to_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(f"howto/{page}")


def test_the_three_lines_of_the_compiled_solver_page_are_a_journal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("howto/compiled.md")
    journal = read_journal("output/density.binref.jsonl")
    assert journal.state == "complete"
    trajectory = Trajectory.from_journal(journal)
    np.testing.assert_array_equal(trajectory, np.arange(96.0).reshape(3, 4, 8))
    assert trajectory.to_xarray().attrs["units"] == "kg m-3"


def test_the_journal_that_the_formats_page_shows_can_be_read(tmp_path):
    page = (DOCS / "formats.md").read_text()
    (lines,) = re.findall(r"```json\n({\"binref_journal.*?)```", page, re.DOTALL)
    (tmp_path / "temperature-5c1e.binref.jsonl").write_text(lines)
    field = np.arange(3 * 4, dtype="f8").reshape(3, 2, 2)
    (tmp_path / "3f2c.bin").write_bytes(field[:2].tobytes())
    (tmp_path / "3f2d.bin").write_bytes(field[2:].tobytes())
    (tmp_path / "9a07.bin").write_bytes(np.array([0.0, 0.5, 1.0]).tobytes())
    trajectory = Trajectory.from_journal(read_journal(tmp_path / "temperature-5c1e.binref.jsonl"))
    np.testing.assert_array_equal(trajectory, field)
    np.testing.assert_array_equal(trajectory.times, [0.0, 0.5, 1.0])
