"""The player in marimo, whose widgets live in a shadow tree."""

import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from tests.kit import ended
from tests.player.browser import Player, chromium, watched_page
from tests.player.jupyter import ROOT
from tests.player.test_jupyter import MAKE, expected
from tests.serving import held_port

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.needs_module("marimo", "playwright"),
    pytest.mark.long,
    pytest.mark.timeout(300),
]

NOTEBOOK = f"""
import marimo

app = marimo.App()

@app.cell
def _():
    {MAKE.replace(chr(10), chr(10) + "    ")}
    player = binref_sci.animate(film, vmin=0, vmax=252)
    player
    return
"""


@contextmanager
def marimo(folder):
    """Serve the notebook as an application; gives its address."""
    (folder / "film.py").write_text(NOTEBOOK)
    with (
        held_port() as port,
        (folder / "log").open("w") as log,
        ended(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "marimo", "run", "film.py", "--headless", "--no-token"),
                    *("--host", "127.0.0.1", "--port", str(port)),
                ],
                cwd=folder,
                env=os.environ | {"HOME": str(folder), "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        ) as process,
    ):
        yield f"http://127.0.0.1:{port}/"
        process.terminate()
        process.wait(60)


def at(page, step):
    """Wait until a step is shown; the selectors of locators reach into a shadow tree."""
    page.locator(f".binref-player[data-exact='1'][data-shown-index='{step}']").wait_for()


def test_it_shows_plays_seeks_and_draws_a_pin(tmp_path):
    with (
        marimo(tmp_path) as address,
        chromium() as browser,
        watched_page(browser, host=True) as page,
    ):
        page.set_default_timeout(60_000)
        opened(page, address)
        player = Player(page)
        at(page, 0)
        rows, columns, data = player.pixels()
        picture = np.array(data, np.uint8).reshape(rows, columns, 4)
        assert picture.shape == (32, 253, 4)
        np.testing.assert_allclose(picture[5].astype(int), expected(0), atol=4)
        player.focus().press("Space")
        page.locator(".binref-player[data-playing='1']").wait_for()
        while player.shown < 20:
            player.let(50)
        player.press("Space")
        player.scrub(300)
        at(page, 300)
        page.mouse.click(*player.at(100.5 / 253, 0.5))
        page.locator(".br-chip").wait_for()
        assert player.data("kernel") == "there"


def opened(page, address):
    """Go to a server that is about to answer."""
    from playwright.sync_api import Error

    for _ in range(300):
        try:
            return page.goto(address)
        except Error:
            page.wait_for_timeout(200)
    raise TimeoutError(f"no answer from {address}")
