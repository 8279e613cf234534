"""The player in Chromium, over a model that answers from known fields."""

import json
import random
from itertools import groupby

import numpy as np
import pytest

from binref_sci.notebook import script
from tests.player.browser import Player, watched_page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.needs_module("playwright")]


def table(page):
    text = page.evaluate("import('/tests/fields.js').then(({ table }) => Array.from(table()))")
    return np.array(text, dtype=np.uint8).reshape(256, 4)


def ramp(index, rows, columns, panel=0):
    """The codes of the ramp of fields.js."""
    column = np.mgrid[:rows, :columns][1]
    codes = 2 + (column + index + 50 * panel) % 253
    codes[0] = np.array([0, 1, 255])[column[0] * 3 // columns]
    return codes.astype(np.uint8)


def picture(player, panel=0):
    rows, columns, data = player.pixels(panel)
    return np.array(data, dtype=np.uint8).reshape(rows, columns, 4)


def sent(player, kind):
    return player.page.evaluate("kind => model.sent.filter(({ type }) => type === kind)", kind)


# --- pixels ---


def test_every_pixel_of_a_known_ramp_has_the_colour_of_its_code(mounted):
    player = mounted("ramp", size=[8, 253, 40])
    colours = table(player.page)
    np.testing.assert_array_equal(picture(player), colours[ramp(0, 8, 253)])
    player.focus().press("ArrowRight", "ArrowRight", "ArrowRight").wait()
    assert player.shown == 3
    np.testing.assert_array_equal(picture(player), colours[ramp(3, 8, 253)])


def test_new_colours_repaint_what_is_cached_without_a_new_frame(mounted):
    player = mounted("ramp", size=[4, 253, 3], held=True)
    player.until("source.asked.filter(({fmt}) => fmt === 'u8').length >= 3").let(2000)
    before = player.page.evaluate("source.asked.length")
    player.page.evaluate(
        "() => { const bytes = new Uint8Array(1024).map((_, k) => k % 4 === 3 ? 255 : 255 - (k >> 2));"
        " model.set('luts', new DataView(bytes.buffer)) }"
    )
    grey = np.repeat(255 - np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
    grey[:, 3] = 255
    player.until(
        "document.querySelector('.br-picture').getContext('2d').getImageData(0, 3, 1, 1).data[0] === 253"
    )
    np.testing.assert_array_equal(picture(player), grey[ramp(0, 4, 253)])
    assert player.page.evaluate("source.asked.length") == before


def test_a_canvas_that_was_emptied_is_painted_again_when_it_comes_back(mounted):
    player = mounted("ramp", size=[4, 253, 3])
    colours = table(player.page)
    player.page.evaluate(
        "() => { const cell = document.getElementById('one'); window.kept = cell.parentElement;"
        " const canvas = cell.querySelector('.br-picture'); canvas.width = canvas.width; cell.remove(); window.cell = cell }"
    )
    player.page.wait_for_timeout(200)
    player.page.evaluate("kept.append(cell)")
    player.page.wait_for_function(
        "document.querySelector('.br-picture').getContext('2d').getImageData(0, 3, 1, 1).data[3] === 255"
    )
    np.testing.assert_array_equal(picture(player), colours[ramp(0, 4, 253)])


def test_a_curve_goes_through_its_points(mounted):
    player = mounted("lines", size=[400, 20])
    rows, columns, data = player.pixels()
    alpha = np.array(data, dtype=np.uint8).reshape(rows, columns, 4)
    x = np.arange(columns) / columns * 10
    for curve in (np.sin(x), 0.6 * np.cos(2 * x)):
        inked = 0
        for column in range(2, columns - 2, 7):
            if 3.9 < x[column] < 4.7:
                continue
            top = (1.08 - curve[column]) / 2.16 * rows
            row = min(rows - 1, max(0, int(top)))
            inked += alpha[max(0, row - 4) : row + 5, column, 3].max() > 100
        assert inked > 0.97 * len(range(2, columns - 2, 7)) - 12


def test_each_panel_has_a_bar_of_its_own_where_the_colour_scales_differ(mounted):
    player = mounted("pair")
    bars = player.root.locator(".br-own-bar")
    assert [bars.nth(k).get_attribute("aria-label").split(" from")[0] for k in (0, 1)] == [
        "Colour bar: temperature [K]",
        "Colour bar: pressure [Pa]",
    ]
    assert player.root.locator(".br-bar").count() == 0
    grey = picture(player, 1)[5, :, :3]
    assert (grey == grey[:, :1]).all()


def test_a_display_that_is_made_outside_the_page_gets_the_colours_of_its_theme(mounted):
    player = mounted("ramp", size=[8, 64, 5])
    player.page.evaluate(
        "async () => { const host = document.createElement('div');"
        " await player.render({ model, el: host }); document.getElementById('two').append(host) }"
    )
    player.until(
        "() => { const bars = [...document.querySelectorAll('.br-bar')];"
        " const [one, two] = bars.map((bar) => bar.toDataURL());"
        " return one === two && one.length > 1000 }"
    )


# --- keys, focus, words ---


def test_keys_work_while_focused_and_do_not_leak(mounted):
    player = mounted("ramp", size=[4, 16, 40])
    page = player.page
    page.evaluate(
        "window.heard = []; document.addEventListener('keydown', ({ key }) => heard.push(key))"
    )
    player.press("ArrowRight", "End")
    assert player.index == 0
    assert page.evaluate("heard.splice(0)") == ["ArrowRight", "End"]
    player.focus()
    for key, index in [
        ("ArrowRight", 1),
        ("Shift+ArrowRight", 11),
        ("ArrowLeft", 10),
        ("Shift+ArrowLeft", 0),
        ("End", 39),
        ("Home", 0),
    ]:
        player.press(key).wait()
        assert (player.index, player.shown) == (index, index), key
    player.press("+", "l", "r", "m")
    assert page.evaluate("['fps', 'loop', 'direction', 'mode'].map((name) => model.get(name))") == [
        24,
        "bounce",
        -1,
        "realtime",
    ]
    player.press("-", "l", "l", "r", "m", "c", "a", "f", "n")
    assert page.evaluate("['fps', 'loop', 'direction', 'mode'].map((name) => model.get(name))") == [
        20,
        "loop",
        1,
        "every",
    ]
    assert page.evaluate("heard.filter((key) => key !== 'Shift')") == []
    page.wait_for_timeout(50)
    assert sent(player, "colour") == [{"type": "colour", "cmap": "magma"}]
    assert [message["how"] for message in sent(player, "limits")] == ["sampled", "full"]
    assert sent(player, "norm") == [{"type": "norm", "kind": "log"}]
    assert player.root.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_keys_with_ctrl_belong_to_the_host(mounted):
    player = mounted("ramp", size=[4, 16, 5]).focus()
    player.page.evaluate(
        "window.heard = []; document.addEventListener('keydown', ({ key }) => heard.push(key))"
    )
    player.press("Control+ArrowRight", "Alt+l")
    assert player.index == 0
    assert player.page.evaluate("heard.filter((key) => key.length > 1)")[1] == "ArrowRight"


def test_escape_closes_help_first_and_then_leaves_to_the_cell(mounted):
    player = mounted("ramp", size=[4, 16, 5]).focus()
    player.press("?")
    assert player.root.locator(".br-help").is_visible()
    player.press("Escape")
    assert not player.root.locator(".br-help").is_visible()
    assert player.page.evaluate("document.activeElement.classList.contains('binref-player')")
    player.press("Escape")
    assert player.page.evaluate("document.activeElement.className") == "cell"


def test_space_plays_and_pauses_and_presses_the_button_that_has_the_focus(mounted):
    player = mounted("ramp", size=[4, 16, 4000]).focus()
    player.press("Space").wait_for(playing=1)
    player.press("Space").wait_for(playing=0)
    player.button("forward").focus()
    before = player.index
    player.press("Space").wait()
    assert (player.data("playing"), player.index) == ("0", before + 1)


def test_the_slider_says_step_and_time(mounted):
    player = mounted("ramp", size=[4, 16, 600])
    slider = player.root.locator(".br-timeline input")
    player.scrub(40)
    player.wait()
    assert slider.get_attribute("aria-valuetext") == "step 41 of 600, t = \u2007 10.00 s".replace(
        " 10", "10"
    ) or (slider.get_attribute("aria-valuetext").startswith("step 41 of 600, t = "))
    label = player.root.locator(".br-picture").get_attribute("aria-label")
    assert "temperature" in label
    assert "10.00 s" in label
    assert player.root.locator(".br-position").inner_text() == "41 / 600"


def test_all_targets_are_labelled_and_large_enough(mounted):
    player = mounted("flow", size=[32, 32, 20])
    x, y = player.at(0.3, 0.3)
    player.page.mouse.click(x, y)
    player.root.locator(".br-chip button").wait_for()
    controls = player.root.locator("button, input, select")
    for k in range(controls.count()):
        control = controls.nth(k)
        if not control.is_visible():
            continue
        box = control.bounding_box()
        name = control.get_attribute("aria-label") or control.inner_text()
        assert name.strip()
        assert min(box["width"], box["height"]) >= 24, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_the_host(mounted, scheme):
    player = mounted("ramp", size=[4, 16, 5], context={"color_scheme": scheme})
    assert player.data("theme") == scheme
    ground = "getComputedStyle(document.querySelector('.binref-player')).backgroundColor"
    seen = {player.page.evaluate(ground)}
    other = "dark" if scheme == "light" else "light"
    player.page.evaluate(
        "light => { document.body.dataset.jpThemeLight = light }", str(other == "light").lower()
    )
    player.wait_for(theme=other)
    seen.add(player.page.evaluate(ground))
    assert len(seen) == 2
    player.page.evaluate(
        "document.documentElement.style.setProperty('--jp-layout-color0', 'rgb(1, 2, 3)')"
    )
    assert player.page.evaluate(ground) == "rgb(1, 2, 3)"


def test_a_theme_that_changes_while_hidden_is_drawn_when_shown_again(mounted):
    player = mounted("ramp", size=[4, 16, 5])
    axes = "document.querySelector('.br-axes').toDataURL()"
    light = player.page.evaluate(axes)
    player.page.evaluate(
        "async () => { const cell = document.querySelector('.cell'); cell.style.display = 'none';"
        " document.body.dataset.jpThemeLight = 'false';"
        " await new Promise((done) => setTimeout(done, 700)); cell.style.display = '' }"
    )
    player.wait_for(theme="dark")
    player.page.wait_for_function(f"light => {axes} !== light", arg=light)


def test_nothing_plays_by_itself_where_less_motion_is_wanted(mounted):
    still = mounted(
        "ramp",
        size=[4, 16, 50],
        traits={"options": {"autoplay": True}},
        context={"reduced_motion": "reduce"},
    )
    moving = mounted("ramp", size=[4, 16, 50], traits={"options": {"autoplay": True}}, ready=False)
    moving.wait_for(playing=1)
    assert (still.data("playing"), still.index) == ("0", 0)


# --- the clock and the wire ---

LOG = """
window.log = [];
window.follow = () => {
  const root = document.querySelector('.binref-player');
  new MutationObserver(() => {
    const shown = Number(root.dataset.shownIndex);
    if (log.at(-1)?.shown !== shown) log.push({ shown, time: performance.now() });
  }).observe(root, { attributes: true, attributeFilter: ['data-shown-index'] });
};
undefined;
"""


@pytest.mark.parametrize("mode", ["every", "realtime"])
def test_r49_with_a_slow_kernel_frames_never_go_back_stop_stops_and_the_last_scrub_wins(
    mounted, mode
):
    traits = {"fps": 10, "loop": "once", "mode": mode}
    player = mounted("ramp", size=[8, 64, 50], traits=traits, latency=200, before=LOG, held=True)
    page = player.page
    page.evaluate("follow()")
    player.focus().press("Space")
    player.until("Number(document.querySelector('.binref-player').dataset.index) >= 20")
    at_stop = page.evaluate(
        "() => { document.querySelector('[data-name=play]').click(); return log.at(-1).shown }"
    )
    player.let(600)
    log = page.evaluate("log.splice(0)")
    shown = [entry["shown"] for entry in log]
    assert shown == sorted(shown)
    assert player.shown - at_stop <= 1
    played = [entry for entry in log if 2 <= entry["shown"] <= 19]
    steps = np.diff([entry["shown"] for entry in played])
    assert len(set(steps)) <= 2, f"uneven: {steps}"
    rate = (
        (played[-1]["shown"] - played[0]["shown"]) / (played[-1]["time"] - played[0]["time"]) * 1000
    )
    assert 9.5 < rate < 10.5  # 10 steps a second are asked for
    player.scrub(*range(20, 50))
    player.wait()
    assert (player.shown, player.index) == (49, 49)


def test_in_real_time_a_slow_source_skips_evenly_and_keeps_clock_time(mounted):
    before = LOG + (
        "import('/tests/fields.js').then(({ sources }) => { const { ramp } = sources;"
        " sources.ramp = (size) => { const made = ramp(size); const { frame } = made.source;"
        " made.source.frame = async (...all) => { await new Promise((done) => setTimeout(done, 120)); return frame(...all) };"
        " return made } })"
    )
    traits = {"fps": 30, "loop": "once", "mode": "realtime"}
    player = mounted("ramp", size=[8, 64, 400], traits=traits, before=before, held=True)
    page = player.page
    page.evaluate("follow()")
    started = page.evaluate("performance.now()")
    player.focus().press("Space")
    player.until("Number(document.querySelector('.binref-player').dataset.index) >= 180")
    passed = page.evaluate("performance.now()") - started
    assert 180 / 30 * 1000 * 0.98 < passed < 180 / 30 * 1000 * 1.1  # clock time is kept
    log = page.evaluate("log")
    steps = np.diff([entry["shown"] for entry in log if entry["shown"] > 60])
    assert (steps > 0).all()
    assert len(steps) >= 10
    middle = np.median(steps)
    assert middle > 1  # it does skip
    assert (np.abs(steps - middle) <= middle).mean() > 0.8, f"uneven: {steps}"


def test_in_every_frame_mode_no_frame_is_left_out_however_slow_the_kernel(mounted):
    traits = {"fps": 60, "loop": "once"}
    player = mounted("ramp", size=[8, 64, 30], traits=traits, latency=60, before=LOG, held=True)
    player.page.evaluate("follow()")
    player.focus().press("Space").wait_for(playing=0, index=29)
    assert player.page.evaluate("log.map(({ shown }) => shown)") == list(range(1, 30))


def test_the_position_is_told_at_most_four_times_a_second_and_on_pause(mounted):
    player = mounted("ramp", size=[4, 64, 400], traits={"fps": 60}, held=True)
    player.page.evaluate(
        "window.told = []; model.on('change:index', () => told.push([performance.now(), model.get('index')]))"
    )
    player.focus().press("Space").wait_for(playing=1)
    player.let(1500)
    player.press("Space").wait_for(playing=0)
    told = player.page.evaluate("told")
    assert 3 <= len(told) <= 7
    assert told[-1][1] == player.index
    gaps = np.diff([time for time, _ in told][:-1])
    assert gaps.min() > 240


def test_a_want_replaces_the_last_and_carries_a_new_generation_after_a_seek(mounted):
    player = mounted("ramp", size=[4, 64, 300], latency=100)
    before = sent(player, "want")[-1]["gen"]
    player.scrub(200, 100)
    player.wait()
    wants = sent(player, "want")
    first = [w["idx"][0] for w in wants if w["gen"] > before and w["idx"]]
    assert [i for i, _ in groupby(first)][:2] == [200, 100]
    assert player.shown == 100
    assert all(w["credit"] <= 4 for w in wants)
    assert len({w["view"]["id"] for w in wants}) == 1


def test_a_scrub_over_a_big_field_is_coarse_first_and_exact_at_rest(mounted):
    player = mounted("ramp", size=[512, 512, 5000])
    player.page.evaluate("source.asked.length = 0")
    player.scrub(3000, 3500, 4000)
    player.wait()
    lods = player.page.evaluate(
        "source.asked.filter(({ i, fmt }) => i === 4000 && fmt === 'u8').map(({ lod }) => lod)"
    )
    assert lods == [4, 1]
    assert player.pixels()[:2] == [512, 512]


def test_what_a_scrub_asks_for_does_not_wait_for_frames_under_way(mounted):
    sharp = {"device_scale_factor": 2}  # a picture of 1 MB, of which one may be under way
    player = mounted("ramp", size=[1024, 1024, 300], latency=100, context=sharp)
    filling = sent(player, "want")[-1]
    assert filling["credit"] == 1
    player.scrub(200)
    player.wait()
    wants = [w for w in sent(player, "want") if w["gen"] > filling["gen"] and w["idx"] == [200]]
    assert [w["view"]["lod"] for w in wants[:1]] == [8]
    assert wants[-1]["view"]["lod"] == 1
    assert all(w["credit"] > 1 for w in wants)


def test_one_want_asks_for_many_frames_while_playing(mounted):
    traits = {"fps": 60}
    player = mounted("ramp", size=[256, 256, 5000], traits=traits, latency=50, held=True).focus()
    player.press("Space").wait_for(playing=1)
    before = len(sent(player, "want"))
    player.page.evaluate("source.asked.length = 0")
    player.until("source.asked.length >= 40")
    assert len(sent(player, "want")) - before <= 40 / 3


def test_seek_the_frame_shown_is_always_the_last_one_asked_for(mounted):
    jumps(mounted, 100)


@pytest.mark.long
def test_seek_thousand_random_jumps(mounted):
    jumps(mounted, 1000)


def jumps(mounted, count):
    player = mounted("ramp", size=[16, 253, 5000], latency=10)
    colours = table(player.page)
    chance = random.Random(7)
    done = 0
    while done < count:
        burst = [chance.randrange(5000) for _ in range(chance.randint(1, 20))]
        player.scrub(*burst)
        if chance.random() < 0.5:
            player.let(chance.randrange(60))
        done += len(burst)
        if chance.random() < 0.2:
            # another each time: one that Python has already, since it was not yet told of
            # the move, would be no change there
            burst.append(chance.randrange(5000))
            player.page.evaluate("n => model.set('index', n)", burst[-1])
        player.wait()
        assert (player.index, player.shown) == (burst[-1], burst[-1])
        row = picture(player)[3]
        np.testing.assert_array_equal(row, colours[ramp(burst[-1], 4, 253)[3]])


def test_a_busy_kernel_is_said_and_what_is_cached_stays_playable(mounted):
    player = mounted("ramp", size=[4, 64, 400])
    page = player.page
    badge = player.root.locator(".br-busy")
    assert not badge.is_visible()
    player.step(2)
    page.evaluate("model.busy = true")
    player.scrub(399)
    player.wait_for(busy=1)
    assert badge.inner_text() == "kernel busy"
    assert player.data("exact") == "0"
    player.press("Home").wait()
    assert player.shown == 0
    player.press("ArrowRight", "ArrowRight").wait()
    assert player.shown == 2
    page.evaluate("model.busy = false")
    player.press("End").wait().wait_for(busy=0)
    assert not badge.is_visible()
    assert player.shown == 399


def test_a_hidden_player_stops_wanting_and_goes_on_when_seen(mounted):
    player = mounted("ramp", size=[4, 64, 2000], traits={"fps": 30})
    page = player.page
    player.focus().press("Space").wait_for(playing=1)
    page.evaluate("document.getElementById('far').style.height = '5000px'; scrollTo(0, 4500)")
    page.wait_for_function("model.sent.findLast(({ type }) => type === 'want').credit === 0")
    index = player.index
    page.wait_for_timeout(400)
    assert player.index - index <= 1
    assert sent(player, "want")[-1]["idx"] == []
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function(
        "at => Number(document.querySelector('.binref-player').dataset.index) > at + 5", arg=index
    )


def test_two_displays_show_one_film_and_closing_one_does_not_stop_the_other(mounted):
    player = mounted("ramp", size=[4, 64, 100], into=["one", "two"])
    other = Player(player.page, 1).wait()
    player.focus().press("Space").wait_for(playing=1)
    other.wait_for(playing=1)
    player.page.evaluate("views[0]()")
    assert player.page.locator(".binref-player").count() == 1
    rest = Player(player.page, 0)
    at = rest.index
    player.page.wait_for_function(
        "at => Number(document.querySelector('.binref-player').dataset.index) > at", arg=at
    )
    rest.focus().press("Space").wait()
    assert rest.shown == rest.index


def test_after_close_nothing_is_sent_or_drawn_any_more(mounted):
    player = mounted("ramp", size=[4, 64, 100])
    page = player.page
    player.focus().press("Space").wait_for(playing=1)
    page.evaluate("views[0](); close()")
    count = page.evaluate("model.sent.length")
    page.wait_for_timeout(500)
    assert page.evaluate("model.sent.length") == count
    assert page.locator(".binref-player").count() == 0


def test_a_damaged_probe_asks_for_text_and_text_is_painted(mounted):
    before = """
    import('/page/stub.js').then(({ StubModel }) => {
      const { deliver } = StubModel.prototype;
      const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
      StubModel.prototype.deliver = function (content, buffers = []) {
        const bytes = buffers.map((buffer) => (buffer.buffer ?? buffer));
        if (content.type === 'probe') deliver.call(this, content, []);
        else if (content.type === 'frames') deliver.call(this, { ...content, data: bytes.map(text) }, []);
        else deliver.call(this, content, buffers);
      };
    })
    """
    player = mounted("ramp", size=[8, 253, 5], before=before)
    assert sent(player, "fallback") == [{"type": "fallback"}]
    np.testing.assert_array_equal(picture(player), table(player.page)[ramp(0, 8, 253)])
    assert player.root.locator(".br-busy").inner_text() == "text transport"


def test_an_error_is_shown_over_its_frame_and_playing_goes_on(mounted):
    player = mounted("ramp", size=[4, 64, 12], traits={"n": 20, "loop": "once", "fps": 60})
    player.focus().press("Space").wait_for(playing=0, index=19)
    assert player.root.locator(".br-note").inner_text() == "step 19 is not there"
    player.press("Home").wait()
    assert not player.root.locator(".br-note").is_visible()


def test_a_picture_without_cells_and_a_run_without_steps_are_no_errors(mounted):
    player = mounted("plain", size=[0, 10, 5])
    player.focus().press("ArrowRight").wait()
    assert player.index == 1
    empty = mounted("plain", size=[8, 8, 5], traits={"n": 0}, ready=False)
    empty.page.wait_for_function(
        "document.querySelector('.br-position').textContent === 'no steps yet'"
    )
    empty.focus().press("Space", "ArrowRight", "End")
    empty.page.evaluate("model.set('n', 3)")
    empty.wait()


def test_the_cache_of_frames_stays_below_its_limit(mounted):
    limit = 2_000_000
    before = (
        "import('/player.js').then(({ FrameCache }) => { const { put } = FrameCache.prototype; window.most = 0;"
        " FrameCache.prototype.put = function (...all) { put.apply(this, all); window.cache = this } })"
    )
    traits = {"options": {"cache_bytes": limit}, "fps": 120}
    player = mounted("plain", size=[256, 256, 300], traits=traits, before=before)
    player.focus().press("Space").wait_for(playing=1)
    player.page.wait_for_function(
        "Number(document.querySelector('.binref-player').dataset.index) > 60"
    )
    player.press("Space")
    assert player.page.evaluate("cache.bytes") <= limit
    assert player.page.evaluate("cache.count") > 10


# --- values, pins, zoom ---


def test_values_are_exact_under_the_pointer_on_pause(mounted):
    player = mounted("ramp", size=[8, 64, 5], held=True)
    page = player.page
    player.until("source.asked.some(({ fmt }) => fmt === 'f32')").let(100)
    page.mouse.move(*player.at(10.5 / 64, 2.5 / 8))
    readout = player.root.locator(".br-value")
    player.until("document.querySelector('.br-value').textContent.endsWith('2010 K')")
    assert readout.inner_text().startswith("x = 0.65625 m, y = 2.75 m")
    assert sent(player, "value") == []
    player.focus().press("ArrowRight").wait()
    player.until("document.querySelector('.br-value').textContent.includes('1.00201e6')")


def test_values_are_asked_for_where_they_are_not_here(mounted):
    player = mounted("ramp", size=[8, 64, 50], traits={"options": {"fixed": ["values"]}})
    player.page.mouse.move(*player.at(10.5 / 64, 2.5 / 8))
    player.page.wait_for_function(
        "document.querySelector('.br-value').textContent === 'row 2, column 10   2010 K'"
    )
    player.page.mouse.move(5, 5)
    player.page.wait_for_function("document.querySelector('.br-value').textContent === ''")


def test_a_click_pins_a_point_and_draws_its_series(mounted):
    player = mounted("ramp", size=[8, 64, 50])
    page = player.page
    page.mouse.click(*player.at(10.5 / 64, 2.5 / 8))
    page.mouse.click(*player.at(40.5 / 64, 5.5 / 8))
    page.wait_for_function("document.querySelectorAll('.br-chip').length === 2")
    pins = sent(player, "pin")
    assert [pin["id"] for pin in pins] == [1, 2]
    assert pins[0]["fx"] == pytest.approx(10.5 / 64, abs=0.01)
    assert player.root.locator(".br-pin").count() == 2
    chart = player.root.locator(".br-chart")
    assert "2 pinned points" in chart.get_attribute("aria-label")
    box = chart.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 16, box["y"] + 40)
    player.wait()
    assert player.shown >= 48
    player.root.locator(".br-chip button").first.click()
    page.wait_for_function("document.querySelectorAll('.br-chip').length === 1")
    assert sent(player, "unpin") == [{"type": "unpin", "id": 1}]


def test_a_pin_set_in_python_is_drawn(mounted):
    player = mounted("ramp", size=[8, 64, 50])
    player.page.evaluate("model.set('pinned', [{ id: 7, panel: 0, fx: 0.5, fy: 0.5 }])")
    player.root.locator(".br-pin").wait_for(state="attached")
    player.page.evaluate("model.set('pinned', [])")
    player.root.locator(".br-pin").wait_for(state="detached")


def test_dragging_zooms_and_the_kernel_is_asked_for_the_window(mounted):
    player = mounted("ramp", size=[64, 64, 50])
    page = player.page
    page.mouse.move(*player.at(0.25, 0.5))
    page.mouse.down()
    page.mouse.move(*player.at(0.4, 0.6))
    page.mouse.move(*player.at(0.75, 1.0))
    assert player.root.locator(".br-band").is_visible()
    page.mouse.up()
    page.wait_for_function("model.sent.some(({ type, view }) => type === 'want' && view.window)")
    player.wait()
    window = next(w["view"]["window"] for w in sent(player, "want") if w["view"]["window"])
    np.testing.assert_allclose(window, [0.25, 0.75, 0.5, 1.0], atol=0.02)
    assert player.pixels()[1] < 40
    reset = player.button("unzoom")
    assert reset.is_visible()
    reset.click()
    player.wait()
    assert not reset.is_visible()
    page.wait_for_function("document.querySelector('.br-picture').width === 64")


def test_the_wheel_zooms_once_the_picture_was_clicked_and_scrolls_before(mounted):
    player = mounted("ramp", size=[64, 64, 50])
    page = player.page
    page.evaluate("document.getElementById('far').style.height = '3000px'")
    page.mouse.move(*player.at(0.5, 0.5))
    page.mouse.wheel(0, 60)
    page.wait_for_function("scrollY > 0")
    assert not player.button("unzoom").is_visible()
    page.evaluate("scrollTo(0, 0)")
    player.focus()
    page.mouse.move(*player.at(0.5, 0.5))
    page.mouse.wheel(0, -200)
    player.button("unzoom").wait_for()
    assert page.evaluate("scrollY") == 0
    player.press("0").wait()
    assert not player.button("unzoom").is_visible()


def test_a_picture_is_saved_with_axes_and_title(mounted):
    player = mounted("flow", size=[64, 64, 5]).focus()
    with player.page.expect_download() as waiting:
        player.press("s")
    saved = waiting.value
    assert saved.suggested_filename == "temperature-0.png"
    from PIL import Image

    with Image.open(saved.path()) as image:
        box = player.box()
        assert image.width > 2 * box["width"]
        assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 300


def test_colours_and_limits_are_chosen_with_the_mouse(mounted):
    player = mounted("ramp", size=[8, 64, 5])
    page = player.page
    player.button("palette").click()
    group = player.root.locator(".br-colours")
    assert group.locator("[aria-label='Lower limit']").input_value() == "280"
    assert group.locator(".br-rule").inner_text() == "≈ from a sample"
    group.locator("[data-name=cmap]").select_option("gray")
    group.locator("[data-name=norm]").select_option("log")
    group.locator("[data-name=full]").click()
    upper = group.locator("[aria-label='Upper limit']")
    upper.fill("295.5")
    upper.press("ArrowLeft")  # moves the caret, not the film
    upper.press("Enter")
    page.wait_for_function("model.sent.filter(({ type }) => type === 'limits').length === 2")
    assert player.index == 0
    assert sent(player, "colour") == [{"type": "colour", "cmap": "gray"}]
    assert sent(player, "norm") == [{"type": "norm", "kind": "log"}]
    full, given = sent(player, "limits")
    assert full["how"] == "full"
    assert (given["how"], given["lo"], given["hi"], given["colour"]) == ("given", 280, 295.5, 0)
    upper.press("Escape")
    assert not group.is_visible()
    assert page.evaluate("document.activeElement.classList.contains('binref-player')")


# --- live, sliders, telemetry ---


def test_live_scrubbing_detaches_and_end_attaches_again(mounted):
    live = {"state": "writing", "total": 100, "rate": 2.5, "attached": True}
    player = mounted("ramp", size=[4, 64, 100], traits={"live": live, "n": 10, "index": 9})
    page = player.page
    pill = player.root.locator(".br-live")
    assert pill.inner_text() == "LIVE  10 of 100 · 2.5/s"
    page.evaluate("model.set('n', 14)")
    player.wait_for(index=13).wait()
    player.scrub(3)
    player.wait()
    page.evaluate("model.set('n', 20)")
    page.wait_for_timeout(200)
    assert player.index == 3
    player.focus().press("End").wait()
    assert player.index == 19
    page.evaluate("model.set('n', 25)")
    player.wait_for(index=24)
    page.wait_for_timeout(50)
    assert [message["on"] for message in sent(player, "attach")] == [False, True]
    page.evaluate("live => model.set('live', live)", live | {"state": "complete"})
    page.wait_for_function("document.querySelector('.br-live').textContent === 'complete'")


def test_other_dimensions_have_sliders_and_a_new_version_empties_the_cache(mounted):
    sliders = [
        {"dim": "level", "size": 3, "label": "level [hPa]", "values": ["1000", "850", "700"]}
    ]
    scene_of = (
        "import('/tests/fields.js').then(({ sources }) => sources.ramp([4, 64, 20]).traits.scene)"
    )
    before = (
        "import('/tests/fields.js').then(({ sources }) => { const { ramp } = sources;"
        f" sources.ramp = (size) => {{ const made = ramp(size); made.traits.scene.sliders = {json.dumps(sliders)}; return made }} }})"
    )
    assert scene_of
    player = mounted("ramp", size=[4, 64, 20], traits={"positions": [0]}, before=before)
    page = player.page
    slider = player.root.locator(".br-slider input")
    assert slider.get_attribute("aria-valuetext") == "level [hPa]: 1000"
    slider.focus()
    player.press("ArrowRight")
    assert page.evaluate("model.get('positions')") == [1]
    assert player.index == 0
    page.wait_for_function(
        "document.querySelector('.br-slider input').getAttribute('aria-valuetext').endsWith('850')"
    )
    page.evaluate("model.set('ver', 5)")
    page.wait_for_function("model.sent.findLast(({ type }) => type === 'want').ver === 5")
    player.wait()
    assert sent(player, "want")[-1]["ver"] == 5


def test_telemetry_is_shown_and_sent(mounted):
    player = mounted("ramp", size=[4, 64, 200], traits={"fps": 30}, held=True).focus()
    player.press("t", "Space").wait_for(playing=1)
    player.until("model.sent.some(({ type, fps }) => type === 'stats' && fps > 25)")
    stats = sent(player, "stats")[-1]
    assert set(stats) == {
        "type",
        "fps",
        "dropped",
        "hits",
        "rtt_ms",
        "in_flight",
        "paint_ms",
        "gap_p95_ms",
    }
    assert "shown" in player.root.locator(".br-monitor").inner_text()


# --- the exported page ---


def test_the_exported_page_plays_from_a_file(opened, tmp_path):
    axis = {"label": "x [m]", "name": "x", "lo": 0, "hi": 4, "ticks": None}
    panel = {
        "title": "",
        "rows": 8,
        "columns": 253,
        "colour": 0,
        "aspect": None,
        "x": axis,
        "y": axis,
    }
    scene = {
        "dim": "time",
        "n": 6,
        "kind": "image",
        "name": "ramp",
        "panels": [panel],
        "columns": 1,
        "sliders": [],
        "title": "",
    }
    import base64
    import zlib

    lut = np.stack([np.arange(256)] * 3 + [np.full(256, 255)], axis=1).astype(np.uint8)
    colours = [
        {
            "vmin": 0,
            "vmax": 1,
            "label": "v [K]",
            "extend": "neither",
            "ticks": [],
            "norm": "linear",
            "rule": "full",
            "about": False,
            "cmap": "gray",
        }
    ]
    data = {
        "traits": {
            "scene": scene,
            "n": 6,
            "ver": 0,
            "colours": colours,
            "luts": base64.b64encode(lut.tobytes()).decode(),
            "index": 2,
            "fps": 20,
            "mode": "every",
            "loop": "loop",
            "direction": 1,
            "stride": 1,
            "positions": [],
            "options": {},
        },
        "fmt": "u8",
        "codec": "deflate",
        "items": [
            {
                "i": i,
                "label": f"t = {i} s",
                "t": i,
                "window": [0, 1, 0, 1],
                "lod": 1,
                "shapes": [[8, 253]],
                "stats": [{"bad": 0, "under": 0, "over": 0, "lo": 0, "hi": 1}],
            }
            for i in range(6)
        ],
        "frames": [
            base64.b64encode(zlib.compress(ramp(i, 8, 253).tobytes())).decode() for i in range(6)
        ],
        "values": [[None, None, *(k / 252 for k in range(253)), None]],
    }
    text = json.dumps(data).replace("<", "\\u003c")
    page = tmp_path / "film.html"
    page.write_text(
        f"<!doctype html><title>film</title><style>{script.style()}</style>"
        f'<div id="binref-player"></div><script type="application/json" id="binref-data">{text}</script>'
        f'<script type="module">{script.page_script()}\nstart(widget, document);</script>'
    )
    with watched_page(opened) as window:
        window.goto(page.as_uri())
        player = Player(window).wait()
        np.testing.assert_array_equal(picture(player), lut[ramp(2, 8, 253)])
        window.mouse.move(*player.at(20.5 / 253, 3.5 / 8))
        window.wait_for_function(
            "document.querySelector('.br-value').textContent.includes('≈ 0.0873')"
        )
        player.focus().press("Space").wait_for(playing=1)
        player.press("Space").wait_for(playing=0)
        window.mouse.click(*player.at(0.5, 0.5))
        assert not player.root.locator(".br-chip").count()


# --- long ones ---


@pytest.mark.long
def test_r37_playing_on_leaves_nothing_behind(mounted):
    traits = {"fps": 120, "loop": "once"}
    player = mounted("plain", size=[256, 256, 240], traits=traits, held=True)
    page = player.page
    heap = page.context.new_cdp_session(page)  # the clock that is held hides performance.memory
    nodes, memory = [], []
    for _ in range(3):
        player.focus().press("Home", "Space").wait_for(playing=0, index=239)
        page.evaluate("gc()")
        nodes.append(page.evaluate("document.querySelectorAll('*').length"))
        memory.append(heap.send("Runtime.getHeapUsage")["usedSize"])
    assert nodes[0] == nodes[1] == nodes[2]
    assert memory[2] - memory[0] < 20e6


# --- a part, one clock for several players, the kernel's end ---


def test_a_part_is_marked_by_keys_and_by_a_button_and_is_what_plays(mounted):
    player = mounted("ramp", size=[4, 64, 200], traits={"fps": 60, "index": 50}, before=LOG)
    player.focus().press("[").scrub(54)
    player.wait().focus().press("]")
    assert player.page.evaluate("model.get('part')") == [50, 54]
    assert player.root.locator(".br-part").is_visible()
    assert player.root.locator(".br-position").inner_text() == "55 / 200 (51 to 55)"
    player.press("Space")
    player.page.evaluate("follow(); log.length = 0")
    player.page.wait_for_function("log.length > 15")
    assert set(player.page.evaluate("log.map(({ shown }) => shown)")) == {50, 51, 52, 53, 54}
    player.press("Space", "x").wait()
    assert player.page.evaluate("model.get('part')") == []
    part = player.button("part")
    names = []
    for index in (20, 30, 30):
        player.scrub(index)
        player.wait()
        names.append(part.get_attribute("aria-label"))
        part.click()
    assert [name.split("(")[1] for name in names] == ["[)", "])", "X)"]
    player.page.evaluate("model.set('part', [3, 5])")  # from Python
    player.page.wait_for_function(
        "document.querySelector('.br-position').textContent.includes('(4 to 6)')"
    )


def test_players_of_one_clock_play_scrub_and_stop_together(mounted):
    """The second has three frames for each of the first, at the same times: slower by itself."""
    times = [0.5 * k for k in range(40)]
    traits = {"fps": 30, "sync": "one clock", "index": 5}
    player = mounted("ramp", size=[4, 64, 40, times], traits=traits, held=True)
    page, fine = player.page, [k / 6 for k in range(118)]
    page.evaluate(
        "fine => mount('ramp', { size: [4, 64, 118, fine], into: ['two'],"
        " traits: { sync: 'one clock', fps: 5 }, latency: 60 })",
        fine,
    )
    other = Player(page, 1, held=True).wait_for(index=15)
    player.scrub(30)
    player.wait()
    other.wait()
    assert (player.index, other.index) == (30, 90)
    other.focus().press("ArrowRight").wait()
    player.wait()
    assert (player.index, other.index) == (30, 91)  # 15.17 s: 15.0 is nearest
    other.press("Home")
    player.wait_for(index=0)
    page.evaluate(
        "() => { window.pairs = []; const roots = [...document.querySelectorAll('.binref-player')];"
        " const look = () => { pairs.push(roots.map((root) => Number(root.dataset.index)));"
        " requestAnimationFrame(look) }; look() }"
    )
    player.focus().press("Space")
    other.wait_for(playing=1)
    player.until("pairs.at(-1)[0] > 20")
    other.focus().press("Space")
    player.wait_for(playing=0).wait()
    other.wait()
    assert other.index == 3 * player.index
    pairs = page.evaluate("pairs")
    assert all(abs(3 * one - two) <= 3 for one, two in pairs)  # painted within one display frame
    assert page.evaluate("model.get('fps')") == 30


def test_uneven_steps_last_as_long_as_their_times_say(mounted):
    times = [0, 1, 2, 3, 13, 14, 15, 16, 26, 27, 28, 29, 39]
    traits = {"mode": "timed", "fps": 20, "loop": "once"}
    player = mounted("ramp", size=[4, 64, 13, times], traits=traits, before=LOG, held=True)
    assert player.root.locator(".br-simulated").inner_text() == "65 s/s"
    player.page.evaluate("follow()")
    player.focus().press("Space").wait_for(playing=0, index=12)
    log = player.page.evaluate("log")
    assert log[-1]["shown"] == 12
    when = {entry["shown"]: entry["time"] for entry in log}
    per_second = 1000 / 65
    first = min(shown for shown in when if shown >= 3)
    lasted = (when[12] - when[first]) / (times[12] - times[first]) / per_second
    assert 0.9 < lasted < 1.1
    long = [when[k] - when[k - 1] for k in (4, 8, 12) if k in when and k - 1 in when]
    assert long
    assert 0.8 < np.median(long) / (10 * per_second) < 1.2  # not the twentieth of a second: 0.33


def test_a_kernel_that_has_gone_is_told_from_one_that_is_busy(mounted):
    player = mounted("ramp", size=[4, 64, 400])
    page, badge = player.page, player.root.locator(".br-busy")
    player.step(6)
    page.evaluate("model.widget_manager = { kernel: { status: 'busy' } }; model.busy = true")
    player.scrub(399)
    player.wait_for(kernel="busy")
    page.evaluate("model.widget_manager.kernel.status = 'restarting'")
    player.wait_for(kernel="gone")
    assert badge.inner_text() == "kernel gone"
    assert "run the cell again" in badge.get_attribute("title")
    page.evaluate("void (model.send = () => { throw new Error('Cannot send') })")
    player.press("Home", "Space").wait_for(playing=1)  # what is here plays on
    page.wait_for_function("Number(document.querySelector('.binref-player').dataset.index) > 3")
    player.press("Space")
    page.evaluate(
        "delete model.send; model.busy = false; model.widget_manager.kernel.status = 'idle'"
    )
    player.press("End").wait().wait_for(kernel="there")
    assert not badge.is_visible()


def test_what_stands_for_several_cells_is_chosen(mounted):
    player = mounted("plain", size=[1100, 1100, 5])
    assert {want["view"]["reduce"] for want in sent(player, "want")} == {"stride", "mean"}
    player.button("palette").click()
    player.page.evaluate("model.sent.length = 0")
    player.button("reduce").select_option("absmax")
    player.wait()
    assert player.page.evaluate("model.get('reduce')") == "absmax"
    player.page.wait_for_function("model.sent.some(({ type }) => type === 'want')")
    assert {want["view"]["reduce"] for want in sent(player, "want")} == {"absmax"}


def test_a_picture_is_as_high_as_it_is_asked_to_be(mounted):
    options = {"height": 288}
    player = mounted("ramp", size=[4, 4, 5], traits={"options": options})
    assert player.box()["height"] == pytest.approx(288, abs=1)


def test_the_bar_gets_arrows_when_a_frame_needs_them(mounted):
    colours = "{ ...model.get('colours')[0], extend: 'neither', extend_given: %s }"
    player = mounted("ramp", size=[4, 64, 5])
    bar = "document.querySelector('.br-bar').toDataURL()"
    before = player.page.evaluate(bar)  # with both
    player.page.evaluate(f"model.set('colours', [{colours % 'true'}])")
    player.page.wait_for_function(f"before => {bar} !== before", arg=before)
    player.page.evaluate(f"model.set('colours', [{colours % 'false'}])")
    player.page.wait_for_function(f"before => {bar} === before", arg=before)
