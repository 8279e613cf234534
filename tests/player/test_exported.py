"""The page that `.save("x.html")` makes plays alone: from a file, with no network, in Chromium."""

import numpy as np
import pytest
import xarray as xr

from binref_sci.errors import FormatError
from binref_sci.notebook import standalone
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.movie import save
from binref_sci.notebook.scene import Scene
from tests.player.browser import Player, watched_page


def field(shape=(7, 40, 60), name="temperature"):
    steps, rows, columns = np.indices(shape)
    data = (columns + 2.0 * rows + 3.0 * steps).astype("f4")
    data[:, 5:9, 10:14] = np.nan
    return xr.DataArray(
        data,
        dims=("time", "y", "x"),
        coords={"time": ("time", np.arange(shape[0]) * 0.25, {"units": "s"})},
        name=name,
        attrs={"units": "K"},
    )


def saved(data, path, *, look=None, rules=None, **options):
    scene = Scene.of(data, **(look or {}))
    colourings = Limits.of(scene, Rules(**(rules or {}))).colourings
    return scene, colourings, save(scene, colourings, path, **options)


def shown(player, panel=0):
    rows, columns, data = player.pixels(panel)
    return np.array(data, np.uint8).reshape(rows, columns, 4)


def test_it_shows_and_plays_from_a_file(opened, tmp_path):
    scene, colourings, path = saved(field(), tmp_path / "x.html", index=3, fps=30)
    with watched_page(opened, offline=True) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        player = Player(page).wait()
        assert player.index == 3
        for i in (3, 6):
            codes = colourings[0].codes(scene.field(scene.panels[0], i))
            exact = colourings[0].lut[codes]
            found = shown(player)
            opaque = exact[..., 3] == 255
            assert np.array_equal(found[opaque], exact[opaque])
            player.focus().press("End").wait()
        player.press("Home").wait()
        player.press("Space")
        player.wait_for(playing=1)
        page.wait_for_function(
            "() => document.querySelector('.binref-player').dataset.shownIndex > 3"
        )
        player.press("Space").wait_for(playing=0)
        assert "0.25" in page.content() or "t = " in page.content()
        assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
        assert page.title() == "temperature"


def test_a_value_is_told_within_half_a_level(opened, tmp_path):
    scene, colourings, path = saved(field(), tmp_path / "x.html")
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        player = Player(page).wait()
        page.mouse.move(*player.at(20.5 / 60, 3.5 / 40))
        page.wait_for_function(
            "() => /≈ [0-9]/.test(document.querySelector('.br-value').textContent)"
        )
        text = page.locator(".br-value").text_content()
        told = float(text.split("≈")[1].split()[0])
        exact = float(scene.field(scene.panels[0], 0)[3, 20])
        one = colourings[0]
        assert abs(told - exact) <= (one.vmax - one.vmin) / 504 + 0.01


def test_frames_are_chosen_and_keep_their_times(opened, tmp_path):
    _, _, path = saved(field((20, 8, 8)), tmp_path / "x.html", frames=slice(4, None, 5), index=9)
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        player = Player(page).wait()
        assert player.index == 1
        assert "t = 2.25 s" in page.locator(".binref-player").text_content()
        player.focus().press("End").wait()
        assert player.index == 3
        assert "t = 4.75 s" in page.locator(".binref-player").text_content()


def test_large_pictures_are_put_together(opened, tmp_path):
    _, _, path = saved(field((2, 2100, 300)), tmp_path / "x.html")
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        player = Player(page).wait()
        assert shown(player).shape[:2] == (700, 100)


def test_panels_and_lines_play_too(opened, tmp_path):
    data = xr.Dataset({"a": field((3, 8, 8), "a"), "b": -field((3, 8, 8), "b")})
    _, colourings, path = saved(data, tmp_path / "panels.html")
    assert len(colourings) == 2
    line = xr.DataArray(
        np.stack([np.sin(np.arange(50) / 5 + t) for t in range(4)]), dims=("time", "x"), name="u"
    )
    _, _, lines = saved(line, tmp_path / "lines.html")
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        player = Player(page).wait()
        for panel in (0, 1):
            assert len(np.unique(shown(player, panel).reshape(-1, 4), axis=0)) > 5
    with watched_page(opened) as page:
        page.goto(lines.as_uri())
        player = Player(page).wait()
        player.focus().press("End").wait()
        assert player.index == 3


def test_sliders_stand_still_in_a_page(opened, tmp_path):
    data = field((3, 8, 8)).expand_dims(level=[1000, 850]).transpose("time", "level", "y", "x")
    scene = Scene.of(data).at([1])
    path = save(scene, Limits.of(scene, Rules()).colourings, tmp_path / "x.html")
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        Player(page).wait()
        assert "level = " in page.locator(".binref-player").text_content()
        assert page.locator("input[type=range]").count() == 1


def test_hostile_names_stay_text(opened, tmp_path):
    hostile = "</script><script>window.hurt=1</script><b>&"
    data = field((2, 8, 8), hostile)
    data.attrs["units"] = hostile
    _, _, path = saved(data, tmp_path / "x.html")
    with watched_page(opened) as page:
        page.goto(path.as_uri())
        Player(page).wait()
        assert page.evaluate("window.hurt") is None
        assert page.title() == hostile


def test_a_page_that_no_browser_opens_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setattr(standalone, "MOST_BYTES", 200_000)
    noise = xr.DataArray(np.random.default_rng(0).random((50, 64, 64)), dims=("time", "y", "x"))
    with pytest.raises(FormatError, match=r"after \d+ of them.*choose fewer frames="):
        saved(noise, tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []
