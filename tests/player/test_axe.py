"""axe-core, fetched from npm for the test, finds nothing to complain about."""

import pytest

from tests.player.browser import Player, chromium, watched_page
from tests.player.npm import fetched
from tests.player.serving import served

pytestmark = [
    pytest.mark.needs("chromium", "npm"),
    pytest.mark.needs_module("playwright"),
    pytest.mark.long,
    pytest.mark.timeout(300),  # a registry may take its time
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return fetched("axe-core@4", tmp_path_factory.mktemp("npm"), timeout=200)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000])
def test_axe_finds_no_violation(packages, scheme, width):
    with (
        served(packages) as address,
        chromium() as opened,
        watched_page(
            opened, color_scheme=scheme, viewport={"width": width, "height": 1000}
        ) as page,
    ):
        page.goto(f"{address}/tests/page.html")
        page.wait_for_function("window.loaded")
        live = {"state": "writing", "total": 900, "rate": 2, "attached": True}
        traits = {"live": live, "status": {"text": "scanning", "fraction": 0.3}}
        page.evaluate(
            "traits => mount('flow', { size: [64, 64, 600, 2], traits })",
            traits,
        )
        player = Player(page).wait()
        page.mouse.click(*player.at(0.3, 0.3))
        page.mouse.click(*player.at(0.6, 0.3))
        page.wait_for_selector(".br-chip button")
        player.button("palette").click()
        player.focus().press("?", "t", "ArrowLeft")
        player.wait()
        page.add_script_tag(url=f"{address}/npm/axe-core/axe.min.js")
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        told = [
            (violation["id"], [node["html"][:200] for node in violation["nodes"]])
            for violation in found["violations"]
        ]
        assert told == []
        assert len(found["passes"]) > 15
