"""What the player is held to on a shared machine: a third of the benchmarks' bars."""

import pytest

from benchmarks import player

for module in ("jupyterlab", "playwright.sync_api"):
    pytest.importorskip(module, reason="needs the extra 'browser'")

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.long, pytest.mark.timeout(900)]


def test_the_player_reaches_a_third_of_its_bars():
    rows = list(player.rows(part=1 / 3))
    missed = ["  ".join(row.cells()) for row in rows if not row.passed]
    assert missed == []
    assert len(rows) == 9
