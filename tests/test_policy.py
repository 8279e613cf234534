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

@pytest.mark.needs_module("json", "no_such_module")
def test_with_a_module():
    pass

def test_that_skips_itself():
    pytest.skip("just so")

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False
"""


@pytest.fixture
def run(tmp_path):
    """Run pytest on `tests` in a folder of its own; returns its exit code and its output."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.policy"]\n')

    def run(tests: str, *, full: str, workers: int = 0) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", str(workers)]
        settings = {
            "BINREF_SCI_FULL": full,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("workers", [0, 2])
def test_a_plain_run_passes_and_says_what_it_left_out(run, workers):
    code, output = run(TESTS, full="", workers=workers)
    assert code == 0
    assert "  1 long tests" in output
    assert "  2 skipped: needs 'no-such-program', which is not on PATH" in output
    assert "  1 skipped: needs the Python module 'no_such_module', which is not installed" in output
    assert "  1 skipped: just so" in output
    assert " 1 passed, 4 skipped, " in output


@pytest.mark.parametrize("workers", [0, 2])
def test_a_full_run_runs_everything_and_fails_on_every_skip(run, workers):
    code, output = run(TESTS, full="1", workers=workers)
    assert code == 1
    assert "needs 'no-such-program', which is not on PATH" in output
    assert "needs the Python module 'no_such_module', which is not installed" in output
    assert "skipped in a full run: just so" in output
    assert " 2 failed, 2 passed, 1 xfailed, 2 errors in" in output


def test_a_file_that_skips_itself_fails_a_full_run(run):
    tests = "import pytest; pytest.skip('this whole file', allow_module_level=True)"
    code, output = run(tests, full="")
    assert "  1 skipped: this whole file" in output
    code, output = run(tests, full="1")
    assert code not in {0, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert "skipped in a full run: this whole file" in output


def test_a_run_that_leaves_nothing_out_says_so(run):
    code, output = run("def test_short(): pass\n", full="1")
    assert code == 0
    assert "nothing was left out of this run" in output
