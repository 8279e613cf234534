"""The widget, with a comm that records: traits, limits, pins, settings from Python, closing."""

import base64
import gc
import io
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import weakref

import dask.array as da
import ipywidgets
import numpy as np
import pytest
import traitlets
import xarray as xr
from PIL import Image

import binref_sci
from binref_sci import BinrefWriter, animate, open_dataset
from binref_sci.notebook import Player
from tests.kit import environment, resident, until
from tests.playing import (
    Backed,
    comms,  # noqa: F401  # a fixture
    still,
    telling,
    threads_of_players,
    want,
)

pytestmark = pytest.mark.usefixtures("comms")


@pytest.fixture
def play(comms):  # noqa: F811  # the fixture
    made = []

    def start(obj=None, *args, **kwargs):
        made.append(animate(telling() if obj is None else obj, *args, **kwargs))
        return made[-1], comms[-1]

    yield start
    for player in made:
        player.close()


def told(player, **content):
    """A message from the browser, the way the kernel brings it."""
    player._handle_custom_msg(content, [])


def ask(player, gen, idx, **kwargs):
    player._handle_custom_msg(want(gen, idx, ver=player.ver, **kwargs), [])


def shown(comm, item, buffers):
    return np.frombuffer(buffers[0], "u1").reshape(item["shapes"][0])


# --- a widget like others ---------------------------------------------------------------------


def test_it_is_a_widget_that_can_stand_in_a_box_be_linked_and_observed(play):
    one, _ = play()
    two, _ = play()
    assert isinstance(one, ipywidgets.DOMWidget)
    ipywidgets.HBox([one, two])
    link = ipywidgets.link((one, "index"), (two, "index"))
    seen = []
    two.observe(lambda change: seen.append(change["new"]), "index")
    one.index = 7
    assert two.index == 7
    assert seen == [7]
    link.unlink()


def test_labels_and_the_colour_bar_may_be_left_out(play):
    field = telling(attrs={"units": "K"}).assign_coords(run=3)
    player, _ = play(field, add_labels=False, add_colorbar=False)
    (panel,) = player.scene["panels"]
    assert (panel["x"]["label"], panel["y"]["label"], player.scene["title"]) == ("", "", "")
    assert player.colours[0]["label"] == ""
    assert player.options["show_bar"] is False
    player, _ = play(field, cbar_kwargs={"label": "heat"})
    assert player.colours[0]["label"] == "heat"
    assert player.scene["panels"][0]["x"]["label"] == "x"
    with pytest.raises(ValueError, match=r"cbar_kwargs: .* got \['shrink'\]"):
        play(field, cbar_kwargs={"shrink": 0.5})


def test_what_the_browser_is_told_first(play):
    player, comm = play(telling(attrs={"units": "K"}), fps=30, loop="bounce")
    state = comm.sent[0][0]["state"]
    assert state["n"] == 20
    assert state["scene"]["dim"] == "time"
    assert state["colours"][0]["label"] == "told [K]"
    assert (state["fps"], state["loop"], state["index"]) == (30.0, "bounce", 0)
    assert "export default" in state["_esm"]
    assert len(player.luts) == 1024
    assert (
        sum(len(str(value)) for key, value in state.items() if key[:4] not in ("_esm", "_css"))
        < 20_000
    )


def test_no_frame_is_a_synced_trait(play):
    player, comm = play()
    ask(player, 1, range(16))
    until(lambda: len(comm.frames()) == 16)
    updates = [data for data, _ in comm.sent if data.get("method") == "update"]
    assert updates == []


def test_frames_are_played_through_the_widget(play):
    player, comm = play()
    ask(player, 1, [3])
    item, buffers = until(comm.frames)[0]
    codes = player.colourings[0].codes(telling()[3].values[::-1])
    np.testing.assert_array_equal(shown(comm, item, buffers), codes)


@pytest.mark.parametrize("first", ["xarray", "binref_sci"])
def test_the_accessor_is_there_whichever_is_imported_first(first):
    second = {"xarray": "binref_sci", "binref_sci": "xarray"}[first]
    code = f"""
import {first}, {second}
import binref_sci.xarray
import numpy as np, xarray as xr
ds = xr.Dataset({{"u": (("time", "y", "x"), np.zeros((2, 3, 4)))}})
print(ds.u.binref.animate().n, ds.binref.animate("u").n, binref_sci.animate(ds.u).n)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("2 2 2\n", "")


def test_opening_a_run_loads_neither_matplotlib_nor_widgets():
    code = "import binref_sci, sys; binref_sci.open_dataset; import binref_sci.xarray;"
    code += "print(*{'matplotlib', 'ipywidgets', 'anywidget', 'PIL'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("\n", "")


def test_any_object_is_played(play, tmp_path):
    with BinrefWriter("told", dims=("time", "y", "x"), output_path=tmp_path) as writer:
        for step in range(20):
            writer.write(telling()[step].values, time=0.5 * step)
    for obj in (
        telling().values,
        da.ones((20, 4, 4)),
        writer.trajectory(),
        tmp_path,
        str(tmp_path),
    ):
        player, _ = play(obj)
        assert player.n == 20
    player, _ = play(open_dataset(tmp_path), names="told")
    assert player.scene["name"] == "told"
    with pytest.raises(TypeError, match="DataTree has many groups"):
        xr.DataTree(open_dataset(tmp_path)).binref.animate()


def test_a_notebook_holds_a_small_picture_and_text(play):
    noise = np.random.default_rng(0).random((3, 700, 900))
    for obj in (telling(), xr.DataArray(noise, dims=("time", "y", "x"), name="noise")):
        player, _ = play(obj)
        data, _ = player._repr_mimebundle_()
        assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == player.model_id
        assert data["text/plain"].startswith(f"Player({obj.name!r}")
        image = base64.b64decode(data["image/png"])
        assert len(image) <= 100_000
        with Image.open(io.BytesIO(image)) as picture:
            assert min(picture.size) > 150
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


@pytest.mark.parametrize("suffix", ["gif", "mp4", "webp", "png", "html"])
def test_it_is_saved_as_it_is_shown(suffix, play, tmp_path):
    player, _ = play(telling(rows=40, columns=60), fps=10)
    player.index = 4
    place = player.save(tmp_path / f"film.{suffix}", progress=False)
    assert place.stat().st_size > 1000


# --- what Python asks and sets ---------------------------------------------------------------


def test_the_frame_that_is_shown_is_an_array(play):
    player, _ = play()
    player.index = 6
    xr.testing.assert_identical(player.frame, telling().isel(time=6))
    assert player.time == 3.0
    player.time = 4.2
    assert player.index == 8
    ds = xr.Dataset({"u": telling(), "v": telling()})
    player, _ = play(ds)
    assert [one.name for one in player.frame] == ["u", "v"]


def test_a_frame_or_a_position_that_is_not_there_is_refused(play):
    player, _ = play(xr.concat([telling(), telling()], "level").transpose("time", ...))
    player.index = -1
    assert player.index == 19
    with pytest.raises(traitlets.TraitError, match=r"frame 20 of 'time' is not among 20 frames"):
        player.index = 20
    with pytest.raises(traitlets.TraitError, match=r"position 2 of 'level' is not in 0 to 1"):
        player.positions = [2]
    with pytest.raises(traitlets.TraitError, match=r"expected 1 positions, one each of"):
        player.positions = []
    assert (player.index, player.positions) == (19, [0])


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (3, 1, 1)])
def test_an_empty_or_a_single_cell_is_no_error(shape, play):
    player, comm = play(xr.DataArray(np.zeros(shape), dims=("time", "y", "x")))
    assert player.n == shape[0]
    assert "text/plain" in player._repr_mimebundle_()[0]
    ask(player, 1, [0])
    ask(player, 1, [0], lod=4, reduce="mean", id=1)
    if shape[0]:
        item, buffers = until(comm.frames)[-1]
        assert len(buffers[0]) == np.prod(item["shapes"][0])


def test_limits_and_colours_are_set_from_python(play):
    player, comm = play()
    assert (player.vmin, player.vmax) == (0.0, 190507.0)
    ask(player, 1, [3])
    until(comm.frames)
    player.vmax = 100.0
    assert player.ver == 1
    assert player.colours[0]["rule"] == "given"
    ask(player, 1, [3])
    item, buffers = until(lambda: comm.frames()[1:])[0]
    assert (shown(comm, item, buffers) == 255).all()
    assert item["stats"][0]["over"] == 48
    before = bytes(player.luts)
    player.cmap = "magma"
    assert player.cmap == "magma"
    assert player.luts != before
    assert player.ver == 1  # codes are as they were: nothing is sent again
    with pytest.raises(ValueError, match="vmin=200 is above vmax=100"):
        player.vmin = 200.0
    with pytest.raises(ValueError, match=r"'nonesuch'|nonesuch"):
        player.cmap = "nonesuch"
    assert player.cmap == "magma"


def test_a_repr_says_what_is_shown_and_how_exact_colours_are(play):
    player, _ = play(vmin=0, vmax=504)
    assert repr(player) == (
        "Player('told', 20 frames along 'time', 6 x 8 cells, 0 to 504 (given), colours within 1)"
    )
    player.close()
    assert repr(player) == "Player(closed)"


def test_stats_count_what_was_done(play):
    player, comm = play()
    ask(player, 1, range(10))
    until(lambda: len(comm.frames()) == 10)
    told(player, type="stats", fps=59.5, dropped=0)
    stats = player.stats()
    assert stats["sent"] == stats["in_flight"] == 10
    assert stats["sent_bytes"] == 480
    assert stats["cached_bytes"] <= stats["cache_bytes"]
    assert stats["browser"] == {"fps": 59.5, "dropped": 0}


def test_sliders_change_what_is_sent(play):
    field = xr.concat([telling(), telling() - 300_000.0], "level").transpose("time", "level", ...)
    player, comm = play(field)
    assert player.positions == [0]
    assert player.vmax == 190507.0
    player.positions = [1]
    until(lambda: player.ver == 1)
    assert player.vmax < 0  # sampled where the slider is
    ask(player, 1, [2])
    item, buffers = until(comm.frames)[0]
    np.testing.assert_array_equal(
        shown(comm, item, buffers),
        player.colourings[0].codes(field[2, 1].values[::-1]),
    )
    assert player.frame.sizes == {"y": 6, "x": 8}


# --- limits ----------------------------------------------------------------------------------


def test_one_scale_for_all_frames_and_limits_that_are_given_stay():  # R18
    values = np.stack([np.linspace(0, 1, 12), np.linspace(0, 10, 12)]).reshape(2, 3, 4)
    field = xr.DataArray(values, dims=("time", "y", "x"))
    for kwargs, limits in [({}, (0.0, 10.0)), ({"vmin": 0, "vmax": 5}, (0.0, 5.0))]:
        player = animate(field, **kwargs)
        for i in (0, 1, 0):
            player.index = i
            colours = player.colours[0]
            assert (colours["vmin"], colours["vmax"]) == limits
            assert player.ver == 0
        player.close()


def test_finding_limits_does_not_load_the_trajectory(play):  # R18
    values = np.broadcast_to(np.random.default_rng(0).random((1024, 1024)), (1000, 1024, 1024))
    backed = Backed(values)
    lazy = xr.DataArray(
        da.from_array(backed, chunks=(1, 1024, 1024), name=False), dims=("time", "y", "x")
    )
    tracemalloc.start()
    player, _ = play(lazy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert backed.bytes <= 64 * 1024 * 1024
    assert peak < 100 * 1024 * 1024
    assert player.colours[0]["about"] is True


def test_limits_that_are_given_read_the_frame_that_is_shown_and_no_other(play):
    values = np.zeros((400, 256, 256))
    values[100, 0, 0], values[200, 0, 0] = 9.0, -9.0  # beyond, where a sample may find it
    backed = Backed(values)
    lazy = xr.DataArray(
        da.from_array(backed, chunks=(1, 256, 256), name=False), dims=("time", "y", "x")
    )
    player, _ = play(lazy, vmin=0, vmax=5, index=100)
    keys = [key[0] for key in backed.keys if key[0] != slice(0, 0)]  # dask looks at the dtype
    assert {key.start if isinstance(key, slice) else key for key in keys} == {100}
    assert player.colours[0]["extend"] == "max"
    assert player.colours[0]["rule"] == "given"
    assert not player.colours[0]["extend_given"]  # the browser adds arrows as frames need them
    assert play(lazy, vmin=0, vmax=5, extend="neither")[0].colours[0]["extend_given"]
    before = len(backed.keys)
    assert player._colours.settled()[0].vmax == 5.0  # of a film
    assert len(backed.keys) > before + 5


@pytest.mark.parametrize("name", ["vmin", "cmap", "norm"])
def test_a_rule_for_a_variable_that_is_not_shown_is_named(play, name):
    ds = xr.Dataset({"a": telling(), "b": telling()})
    with pytest.raises(ValueError, match=rf"{name}= is given for \['c'\].* are \['a', 'b'\]"):
        play(ds, **{name: {"a": None, "c": None}})


def test_limits_are_those_of_one_frame_only_if_asked(play):
    player, _ = play(limits="frame")
    assert (player.vmin, player.vmax, player.colours[0]["rule"]) == (0.0, 507.0, "frame")
    told(player, type="limits", how="frame", i=2)
    until(lambda: player.vmax == 20507.0)
    told(player, type="limits", how="given", lo=-5, hi=5, colour=0)
    until(lambda: player.vmin == -5.0)
    told(player, type="limits", how="sampled")
    until(lambda: player.ver == 3)
    assert player.vmax == 190507.0


def test_a_full_scan_shows_its_progress_and_frames_go_first(play):
    values = np.zeros((400, 300, 300))
    values[123, 7, 7] = 99.0
    backed = Backed(values, hold_at=50)
    lazy = xr.DataArray(da.from_array(backed, chunks=(1, 300, 300)), dims=("time", "y", "x"))
    player, comm = play(lazy, limits=(0, 1))
    fractions = []
    player.observe(lambda change: fractions.append(change["new"]["fraction"]), "status")
    told(player, type="limits", how="full")
    until(lambda: fractions)
    ask(player, 1, [5, 6])
    backed.go_on.set()
    until(lambda: len(comm.frames()) == 2)
    until(lambda: player.vmax == 99.0)
    until(lambda: player.status["fraction"] is None)
    sent = [data.get("content", data.get("state", {})) for data, _ in list(comm.sent)]
    frames = [k for k, one in enumerate(sent) if one.get("type") == "frames"]
    scanned = [k for k, one in enumerate(sent) if (one.get("status") or {}).get("fraction")]
    assert frames[-1] < scanned[-1]  # still scanning
    assert player.colours[0]["rule"] == "full"
    assert player.colours[0]["about"] is False
    assert fractions[:-1] == sorted(fractions[:-1])


def test_a_full_scan_can_be_stopped(play):
    backed = Backed(np.zeros((4000, 30, 30)), hold_at=100)
    lazy = xr.DataArray(da.from_array(backed, chunks=(1, 30, 30)), dims=("time", "y", "x"))
    player, _ = play(lazy, limits=(0, 1))
    told(player, type="limits", how="full")
    until(lambda: player.status["fraction"])
    told(player, type="stop")
    backed.go_on.set()
    until(lambda: player.status == {"text": "", "fraction": None})
    still(lambda: len(backed.keys))
    assert len(backed.keys) < 2000
    assert (player.vmin, player.vmax, player.ver) == (0.0, 1.0, 0)


def test_closing_ends_a_scan(play):
    backed = Backed(np.zeros((4000, 30, 30)), pause=0.002)
    lazy = xr.DataArray(da.from_array(backed, chunks=(1, 30, 30)), dims=("time", "y", "x"))
    others = threads_of_players()
    player, _ = play(lazy, limits=(0, 1))
    told(player, type="limits", how="full")
    until(lambda: len(backed.keys) > 10)
    player.close()
    still(lambda: len(backed.keys))
    assert threads_of_players() <= others


def test_log_and_another_colormap_are_a_message(play):
    player, comm = play(telling() + 1.0)
    told(player, type="norm", kind="log")
    until(lambda: player.colours[0]["norm"] == "log")
    told(player, type="colour", cmap="inferno")
    until(lambda: player.cmap == "inferno")
    told(player, type="norm", kind="linear")
    until(lambda: player.colours[0]["norm"] == "linear")
    told(player, type="colour", cmap="nonesuch")
    until(lambda: [c for c, _ in comm.messages if c["type"] == "error"])
    assert player.cmap == "inferno"


def test_attributes_that_tell_the_range_spare_the_sample(play):
    backed = Backed(telling().values)
    field = telling(attrs={"actual_range": [0.0, 5.0]}).copy(data=da.from_array(backed))
    backed.keys.clear()  # dask has looked at an empty part
    player, _ = play(field)
    assert (player.vmax, player.colours[0]["rule"]) == (5.0, "attribute")
    assert backed.keys == []


def test_variables_have_colours_of_their_own(play):
    ds = xr.Dataset({"u": telling(), "v": -telling()})
    player, _ = play(ds, cmap={"u": "magma", "v": "viridis"}, vmax={"u": 7.0})
    assert [one["cmap"] for one in player.colours] == ["magma", "viridis"]
    assert player.colours[0]["vmax"] == 7.0
    assert player.colours[1]["vmax"] == 0.0
    assert len(player.luts) == 2048


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"limits": "all"}, r"limits='all': use one of"),
        ({"limits": (1, 2, 3)}, r"limits=\(1, 2, 3\)"),
        ({"limits": (1, 2), "vmin": 0}, "vmin= or vmax= are given"),
        ({"col": "q"}, "col='q'"),
        ({"cmap": "nonesuch"}, "nonesuch"),
        ({"follow": True}, "follow=True: this is no variable"),
    ],
)
def test_wrong_arguments_are_named(kwargs, match):
    with pytest.raises(ValueError, match=match):
        animate(telling(), **kwargs)


# --- frames of NaN -------------------------------------------------------------------------------


def test_a_frame_of_nan_is_drawn_and_moves_no_limit(play):  # R65
    values = np.arange(3 * 4 * 4, dtype="f8").reshape(3, 4, 4)
    values[1] = np.nan
    values[2, 0, :2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        player, comm = play(xr.DataArray(values, dims=("time", "y", "x")))
        ask(player, 1, [0, 1, 2])
        ask(player, 1, [0, 1, 2], lod=2, reduce="mean", id=1)
        # of the first list there may be some, or none
        until(lambda: sum(item["view"] == 1 for item, _ in comm.frames()) == 3)
    assert (player.vmin, player.vmax) == (0.0, 47.0)
    items = {item["i"]: (item, buffers) for item, buffers in comm.frames() if item["view"] == 1}
    assert set(shown(comm, *items[1]).ravel()) == {0}
    assert items[1][0]["stats"][0]["lo"] is None
    bad = np.frombuffer(player.luts, "u1").reshape(256, 4)[0]
    inside = np.frombuffer(player.luts, "u1").reshape(256, 4)[2:255]
    assert not (inside == bad).all(axis=1).any()  # a colour of its own


# --- pins ----------------------------------------------------------------------------------------


def test_a_click_pins_a_point_and_its_series_comes_finer_and_finer(play):
    field = telling(n=5000, rows=3, columns=4)
    player, comm = play(field)
    told(player, type="pin", id=4, panel=0, fx=0.99, fy=0.01)
    until(lambda: player.pins and player.pins[0].sizes["time"] == 5000)
    messages = until(
        lambda: [(c, b) for c, b in comm.messages if c["type"] == "series" and c["done"] == 1.0]
    )
    content, buffers = messages[0]
    assert content["text"] == "x = 6, y = 2"
    np.testing.assert_array_equal(np.frombuffer(buffers[0], "<f8"), np.arange(5000))
    np.testing.assert_array_equal(np.frombuffer(buffers[1], "<f8"), field[:, 2, 3])
    xr.testing.assert_identical(player.pins[0], field[:, 2, 3])
    assert player.pinned == [{"id": 4, "panel": 0, "fx": 0.99, "fy": 0.01}]
    told(player, type="unpin", id=4)
    assert player.pins == []
    assert player.pinned == []


def test_a_series_may_be_looked_at_while_it_is_read(play):
    player, _ = play(telling(n=60_000, rows=2, columns=2))
    player.pin(x=0, y=1)
    seen = 0
    while seen < 60_000:
        series = player.pins[0]  # at any moment whole: values at their times
        seen = series.sizes["time"]
        np.testing.assert_array_equal(series, 20_000 * series.time + 100)


def test_a_point_is_pinned_by_its_coordinates(play):
    player, _ = play()
    player.pin(x=4.1, y=2.0)
    player.pin(x=0.0, y=5.0)
    until(lambda: all(pin.sizes["time"] == 20 for pin in player.pins))
    xr.testing.assert_identical(player.pins[0], telling()[:, 2, 2])
    xr.testing.assert_identical(player.pins[1], telling()[:, 5, 0])
    with pytest.raises(TypeError, match=r"expected a value of each of \['x', 'y'\]"):
        player.pin(x=1)
    player.unpin()
    assert player.pins == []


def test_the_first_look_at_a_series_is_spread_over_the_run(play):
    field = telling(n=100_000, rows=1, columns=2)
    player, comm = play(field)
    told(player, type="pin", id=1, panel=0, fx=0, fy=0)
    content, buffers = until(lambda: [(c, b) for c, b in comm.messages if c["type"] == "series"])[0]
    steps = np.frombuffer(buffers[0], "<f8")
    assert content["done"] < 0.01
    assert steps[-1] > 99_000
    assert len(set(np.diff(steps))) == 1


@pytest.mark.parametrize("chunks", [1, 7])
def test_series_of_chunked_data_read_each_chunk_once(chunks, play):
    backed = Backed(telling().values)
    lazy = telling().copy(data=da.from_array(backed, chunks=(chunks, 6, 8)))
    player, _ = play(lazy, limits=(0, 1))
    backed.keys.clear()
    player.pin(x=0, y=0)
    until(lambda: player.pins[0].sizes["time"] == 20)
    xr.testing.assert_identical(player.pins[0], telling()[:, 0, 0])
    assert len(backed.keys) == -(-20 // chunks)


# --- closing and memory ----------------------------------------------------------------------------


def test_a_player_that_is_closed_is_gone(comms):  # noqa: F811  # the fixture
    field = telling()
    player = animate(field)
    ask(player, 1, range(5))
    until(lambda: len(comms[-1].frames()) == 5)
    player.pin(x=0, y=0)
    until(lambda: player.pins[0].sizes["time"] == 20)  # noqa: F821  # it is there yet
    references = weakref.ref(player), weakref.ref(field)
    player.close()
    player.close()  # once more is no error
    told(player, type="ready")  # nor is a late message
    del player, field
    comms.clear()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@pytest.mark.long
def test_stepping_through_many_frames_leaves_nothing_behind(play):  # R37
    field = telling(n=500, rows=64, columns=64).astype("f4")
    player, comm = play(field, cache_bytes=1 << 20)
    counts, memory, first, last = [], [], 0.0, 0.0
    for turn in range(3):
        for i in range(500):
            began = time.process_time()  # a loaded machine is no leak
            sent = player.stats()["sent"]
            ask(player, 1, [i], seen=player._session._seq)
            until(lambda sent=sent: player.stats()["sent"] > sent)
            took = time.process_time() - began
            first += took if turn == 0 and i < 50 else 0
            last += took if turn == 2 and i >= 450 else 0
        comm.sent.clear()
        gc.collect()
        counts.append(sum(isinstance(o, np.ndarray) for o in gc.get_objects()))
        memory.append(resident())
        assert player.stats()["cached_bytes"] < (1 << 20) + 3 * 64 * 64 * 8
    assert counts[2] <= counts[0] + 5
    assert memory[2] - memory[0] < 20e6
    assert last < 1.5 * first + 0.2


def test_a_slow_kernel_is_asked_for_what_is_shown_last():  # R49, the kernel's side
    # 50 frames at 10 a second, each message 200 ms under way, both ways: the browser shows
    # what arrives, and asks for what is due. Ticks go to no kernel.
    backed = Backed(telling(n=50).values)
    lazy = telling(n=50).copy(data=da.from_array(backed, chunks=(1, 6, 8)))
    player = animate(lazy, limits=(0, 1))
    comm = player.comm
    late = threading.Event()
    shown_frames = []

    def browser():
        position, seen = 0, 0
        began = time.monotonic()
        while not late.is_set():
            position = min(int((time.monotonic() - began) * 100), 49)
            time.sleep(0.02)  # a tenth of the latency, as the clock is ten times as fast
            due = range(position, min(position + 4, 50))
            ask(player, 1, [i for i in due if i not in shown_frames], seen=seen, credit=4)
            for item, _ in comm.frames()[len(shown_frames) :]:
                shown_frames.append(item["i"])
                seen = max(seen, item["seq"])
            if position == 49:
                return

    browser()
    ask(player, 2, [], credit=4)  # stop
    sent = len(comm.messages)
    still(lambda: len(comm.frames()))
    assert shown_frames == sorted(shown_frames)
    assert len(comm.messages) <= sent + 1  # the one that was under way
    for gen, i in enumerate([10, 30, 20, 45, 49], start=3):  # a fast scrub to the end
        ask(player, gen, [i], seen=10**6)
    until(lambda: comm.frames()[-1][0]["gen"] == 7)
    assert comm.frames()[-1][0]["i"] == 49
    player.close()


def test_a_message_that_is_none_is_answered_by_an_error(play):
    player, comm = play()
    told(player, type="want", gen=1)
    told(player, type="pin", id=1)
    told(player, type="limits", how="odd")
    until(lambda: len([1 for c, _ in comm.messages if c["type"] == "error"]) == 3)
    ask(player, 1, [0])
    until(comm.frames)


def test_the_root_knows_the_player():
    assert binref_sci.animate is animate
    assert isinstance(animate(telling()), Player)
    assert "animate" in dir(binref_sci)


# --- one clock, a part, times ----------------------------------------------------------------


def test_a_part_is_played_and_saved(play, tmp_path):
    player, _ = play()
    player.part = [3, -15]
    assert player.part == [3, 5]
    path = player.save(tmp_path / "part.gif", progress=False)
    with Image.open(path) as film:
        assert film.n_frames == 3
    for wrong in ([3], [5, 3], [0, 99], [1, 2, 3]):
        with pytest.raises(traitlets.TraitError, match="part: "):
            player.part = wrong
    player.part = []


def test_times_are_told_once_they_are_asked_for(play):
    dates = np.array(["2000-01-01", "2000-02-01", "2000-03-01", "2000-04-01"], "M8[D]")
    player, comm = play(telling(4).assign_coords(time=dates))
    pace = player.scene["pace"]
    assert (pace["clock"], pace["unit"], pace["even"]) == ("date", "s", False)
    assert pace["step"] == pytest.approx(91 / 3 * 86400)
    told(player, type="times", **{"from": 2})
    until(lambda: [content for content, _ in comm.messages if content["type"] == "times"])
    (content, buffers) = next(one for one in comm.messages if one[0]["type"] == "times")
    assert content["from"] == 2
    np.testing.assert_array_equal(np.frombuffer(buffers[0]), dates[2:].astype("M8[s]").astype(int))


def test_players_share_a_clock_by_name_or_by_one_of_them(play):
    first, _ = play()
    assert first.sync == ""
    second, _ = play(sync=first)
    assert second.sync == first.sync != ""
    assert play(sync="mine")[0].sync == "mine"
    with pytest.raises(TypeError, match="sync must be a Player or a name, got 3"):
        play(sync=3)


def test_how_cells_are_put_together_is_an_argument(play):
    assert play(reduce="absmax")[0].reduce == "absmax"
    with pytest.raises(traitlets.TraitError, match="reduce"):
        play(reduce="median")


def test_what_the_browser_reports_is_never_sent_back(play):
    """A thread sets traits while positions come in: none of these may come back as a seek."""
    player, comm = play(telling(500))
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            player._set(live={"state": "writing", "rate": time.monotonic()}, status={"text": "x"})

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for i in range(1, 500):
            player.set_state({"index": i})
    finally:
        stop.set()
        thread.join()
    assert player.index == 499
    updates = [data["state"] for data, _ in comm.sent if data.get("method") == "update"]
    assert not [state for state in updates if "index" in state]
