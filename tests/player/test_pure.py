"""Parts of the player that need no page, under Node's own test runner."""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.needs("node")
@pytest.mark.parametrize(("tests", "least"), [("pure.test.mjs", 30), ("model.test.mjs", 18)])
def test_the_parts_pass_their_tests_under_node(tests, least):
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(HERE / tests)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# fail 0\n" in done.stdout
    passed = int(done.stdout.partition("\n# pass ")[2].split()[0])
    assert passed > least  # they were found
