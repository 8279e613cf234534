"""What the player is held to on a shared machine: a third of the benchmarks' bars."""

import pytest

from benchmarks import player

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.needs_module("jupyterlab", "playwright"),
    pytest.mark.long,
    pytest.mark.timeout(900),
]


def test_the_player_reaches_a_third_of_its_bars():
    rows = list(player.rows(part=1 / 3))
    missed = ["  ".join(row.cells()) for row in rows if not row.passed]
    assert missed == []
    assert len(rows) == 9
