"""The player in JupyterLab and Notebook 7 themselves, over a kernel that is running."""

import json
import random

import numpy as np
import pytest

from tests.kit import until
from tests.player.browser import Player, chromium, watched_page
from tests.player.jupyter import execute, jupyter, notebook, run_all, show

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.needs_module("jupyterlab", "notebook", "playwright"),
    pytest.mark.long,
    pytest.mark.timeout(600),
]

# A field whose colours are known: the codes 2..254 as values, moving by one column a step.
MAKE = """
import json, time
import numpy as np, xarray as xr, binref_sci
column = np.arange(253)
field = np.stack([np.tile((column + step) % 253, (32, 1)) for step in range(400)]).astype("f4")
field[:, 0] = np.nan
axes = {"time": ("time", np.arange(400) * 0.25, {"units": "s"})}
film = xr.DataArray(field, dims=("time", "y", "x"), coords=axes, name="ramp", attrs={"units": "K"})
"""
SHOW = "player = binref_sci.animate(film, vmin=0, vmax=252)\nplayer"


class Notebook:
    """A notebook that is open, with the player it shows."""

    def __init__(self, page, folder):
        self.page = page
        self.folder = folder
        self.player = Player(page)

    def ask(self, expression):
        """The value of a Python expression in the kernel."""
        answer = self.folder / "answer.json"
        execute(self.page, f"open('answer.json', 'w').write(json.dumps({expression}))")
        return json.loads(answer.read_text())

    def told(self, expression, value):
        """Whether Python comes to know it; traits travel beside what is executed."""
        for _ in range(600):
            if self.ask(expression) == value:
                return True
            self.page.wait_for_timeout(100)
        return False

    def picture(self):
        rows, columns, data = self.player.pixels()
        return np.array(data, dtype=np.uint8).reshape(rows, columns, 4)


@pytest.fixture(scope="module", params=["lab", "notebook"])
def opened(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "film.ipynb").write_text(notebook(MAKE, SHOW, *["# more"] * 40))
    with (
        jupyter(folder, app=request.param) as address,
        chromium() as browser,
        watched_page(browser, host=True, viewport={"width": 1200, "height": 900}) as page,
    ):
        page.set_default_timeout(60_000)
        page.goto(address("film.ipynb"))
        run_all(page)
        show(page, 1)
        page.wait_for_selector(".binref-player[data-ready='1']")
        made = Notebook(page, folder)
        made.player.wait()
        yield made


@pytest.fixture
def film(opened):
    show(opened.page, 1)
    opened.player.root.scroll_into_view_if_needed()
    opened.player.focus().press("Home").wait()
    return opened


def expected(step):
    """Colours of the field at a step, by matplotlib's table of 253 colours."""
    import matplotlib

    colours = matplotlib.colormaps["viridis"](np.linspace(0, 1, 253), bytes=True)
    return colours[(np.arange(253) + step) % 253]


def test_the_picture_has_the_colours_of_the_field(film):
    for steps in (0, 3):
        film.player.press(*["ArrowRight"] * steps).wait()
        shown = film.picture()
        assert shown.shape == (32, 253, 4)
        np.testing.assert_allclose(shown[5].astype(int), expected(steps), atol=4)
    assert (shown[:, :, 3] == 255).sum() == 31 * 253  # the row of NaN shows what lies behind
    assert film.told("player.index", 3)


def test_python_seeks_and_the_browser_follows(film):
    execute(film.page, "player.index = 123")
    film.player.wait_for(index=123, shownIndex=123).wait()
    execute(film.page, "player.time = 50.0")
    film.player.wait_for(index=200).wait()


def test_keys_do_not_reach_jupyter_and_escape_goes_back_to_the_cell(film):
    cells = "jupyterapp.shell.currentWidget.content.model.cells.length"
    kinds = (
        "Array.from(jupyterapp.shell.currentWidget.content.model.cells, (cell) => cell.type).join()"
    )
    before = film.page.evaluate(f"[{cells}, {kinds}]")
    film.player.press("a", "r", "r", "c", "l", "l", "l", "m", "m", "ArrowRight", "d", "d").wait()
    assert film.page.evaluate(f"[{cells}, {kinds}]") == before
    assert film.told("player.cmap", "magma")  # what C is for
    execute(film.page, "player.cmap = 'viridis'")
    film.page.wait_for_function(
        "document.querySelector('.br-picture').getContext('2d').getImageData(252, 5, 1, 1).data[0] < 80"
    )
    film.player.press("Escape")
    assert not film.page.evaluate("document.activeElement.closest('.binref-player') !== null")
    film.page.keyboard.press("ArrowDown")  # moves on in the notebook again
    index = film.player.index
    film.page.keyboard.press("ArrowRight")
    film.page.wait_for_timeout(200)
    assert film.player.index == index


def test_real_mouse_plays_scrubs_probes_and_pins(film):
    page, player = film.page, film.player
    player.button("play").click()
    player.wait_for(playing=1)
    page.wait_for_function("Number(document.querySelector('.binref-player').dataset.index) > 5")
    player.button("play").click()
    player.wait_for(playing=0).wait()
    assert film.told("[player.playing, player.index]", [False, player.index])
    slider = player.root.locator(".br-timeline input").bounding_box()
    page.mouse.move(slider["x"] + 20, slider["y"] + slider["height"] / 2)
    page.mouse.down()
    for share in np.linspace(0.1, 0.7, 15):
        page.mouse.move(slider["x"] + share * slider["width"], slider["y"] + slider["height"] / 2)
    page.mouse.up()
    player.wait()
    assert 250 < player.index < 300
    page.mouse.move(*player.at(100.5 / 253, 0.5))
    value = (100 + player.index) % 253
    page.wait_for_function(
        "text => document.querySelector('.br-value').textContent.endsWith(text)", arg=f"{value} K"
    )
    page.mouse.click(*player.at(100.5 / 253, 0.5))
    page.wait_for_selector(".br-chip")
    page.wait_for_function(
        "document.querySelector('.br-chart').getAttribute('aria-label').includes('x = ')"
        " || document.querySelector('.br-chip').textContent.includes('=')"
    )
    page.wait_for_function("!document.querySelector('.br-chip').textContent.includes('%')")
    series = film.ask("[float(value) for value in player.pins[0].values[:300]]")
    np.testing.assert_array_equal(series, (100 + np.arange(300)) % 253)
    player.root.locator(".br-chip button").click()
    page.wait_for_selector(".br-chip", state="detached")


def test_seek_hundred_random_jumps(film):
    chance = random.Random(3)
    for _ in range(20):
        burst = [chance.randrange(400) for _ in range(5)]
        film.player.scrub(*burst)
        film.page.wait_for_timeout(chance.randrange(40))
        film.player.wait()
        assert (film.player.index, film.player.shown) == (burst[-1], burst[-1])
        np.testing.assert_allclose(film.picture()[5].astype(int), expected(burst[-1]), atol=4)


def test_it_plays_on_while_a_cell_runs(film):
    running = "import os\nopen('running', 'w').close()\n"
    running += "while os.path.exists('running'): time.sleep(0.02)"
    film.page.evaluate(
        "code => { window.cell = jupyterapp.shell.currentWidget.context.sessionContext.session"
        ".kernel.requestExecute({ code, silent: true }).done }",
        running,
    )
    until((film.folder / "running").exists)
    film.player.press("Space").wait_for(playing=1)
    film.player.until("Number(document.querySelector('.binref-player').dataset.index) > 100")
    (film.folder / "running").unlink()
    film.page.evaluate("() => cell")
    film.player.press("Space").wait_for(playing=0)


def test_it_is_painted_after_it_was_scrolled_away(film):
    page = film.page
    show(page, 40)
    page.wait_for_timeout(700)
    show(page, 1)
    page.wait_for_selector(".binref-player[data-ready='1']")
    film.player.wait()
    np.testing.assert_allclose(film.picture()[5].astype(int), expected(0), atol=4)


def test_the_theme_follows_jupyter(film):
    film.page.evaluate(
        "() => jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    )
    film.player.wait_for(theme="dark")
    film.page.evaluate(
        "() => jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })"
    )
    film.player.wait_for(theme="light")


def test_closing_takes_the_player_away(film):
    execute(film.page, "player.close()")
    film.page.wait_for_selector(".binref-player", state="detached")


def test_a_kernel_that_is_restarted_is_gone_and_what_is_here_plays_on(opened):
    page = opened.page
    run_all(page)  # the one before has been closed
    show(page, 1)
    page.wait_for_selector(".binref-player[data-ready='1']")
    player = Player(page).wait().step(6)
    assert player.data("kernel") == "there"
    page.evaluate(
        "() => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"
    )
    player.wait_for(kernel="gone")
    assert player.root.locator(".br-busy").inner_text() == "kernel gone"
    player.press("Home", "Space").wait_for(playing=1)
    page.wait_for_function("Number(document.querySelector('.binref-player').dataset.index) > 3")
