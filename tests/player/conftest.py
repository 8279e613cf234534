"""A browser for the tests of this folder, and pages with a player in them."""

from contextlib import ExitStack

import pytest

from tests.player.browser import Player, chromium, watched_page
from tests.player.serving import served


@pytest.fixture(scope="module")
def address():
    with served() as base:
        yield base


@pytest.fixture(scope="module")
def opened():
    pytest.importorskip("playwright.sync_api", reason="needs the extra 'browser'")
    with chromium("--js-flags=--expose-gc") as browser:
        yield browser


@pytest.fixture
def mounted(opened, address):
    """``mounted(kind, size=..., traits=..., ...)`` gives a `Player` in a page of its own.

    With ``held=True`` the page's clock is held.
    """
    with ExitStack() as stack:

        def mount(
            kind, *, context=None, ready=True, before="", held=False, address=address, **options
        ):
            page = stack.enter_context(watched_page(opened, **(context or {})))
            if held:
                page.clock.install(time=0)
                page.clock.pause_at(1)
            page.goto(f"{address}/tests/page.html")
            page.wait_for_function("window.loaded")
            if before:
                page.evaluate(before)
            page.evaluate("([kind, options]) => mount(kind, options)", [kind, options])
            player = Player(page, held=held)
            return player.wait() if ready else player

        yield mount
