"""The pure parts of the player's module, under Node's own test runner."""

import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("pure.test.mjs")


@pytest.mark.needs("node")
def test_the_pure_parts_pass_their_tests_under_node():
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(TESTS)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# fail 0\n" in done.stdout
    passed = int(done.stdout.partition("\n# pass ")[2].split()[0])
    assert passed > 25  # they were found
