"""What a test run leaves out, it says; a full run leaves out nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TESTS = """
import pytest

def test_short():
    pass

@pytest.mark.long
def test_long():
    pass

@pytest.mark.needs("no-such-program")
def test_with_a_program():
    pass

def test_that_asks_for_a_program(needs):
    needs("no-such-program")

def test_that_skips_itself():
    pytest.skip("just so")

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False
"""


@pytest.fixture(params=["0", "2"], ids=["alone", "with workers"])
def run(request, tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.policy"]\n')
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_skipped.py").write_text(
        "import pytest\npytest.skip('this whole file', allow_module_level=True)\n"
    )

    def run(full: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", request.param, "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={**os.environ, "BINREF_SCI_FULL": full, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout

    return run


def test_a_plain_run_passes_and_says_what_it_left_out(run):
    code, output = run(full="")
    assert code == 0
    assert "  1 long tests" in output
    assert "  2 skipped: needs 'no-such-program', which is not on PATH" in output
    assert "  1 skipped: just so" in output
    assert "  1 skipped: this whole file" in output


def test_a_full_run_runs_everything_and_fails_on_every_skip(run):
    code, output = run(full="1")
    assert code == 1
    assert "skipped in a full run: just so" in output
    assert "skipped in a full run: this whole file" in output
    assert "2 failed, 2 passed, 1 xfailed, 2 errors" in output
