"""What a player makes of odd data, wrong arguments and senseless messages."""

import json
import threading

import dask.array as da
import numpy as np
import pytest
import traitlets
import xarray as xr
from ipywidgets.widgets.widget import _instances

from binref_sci import animate
from binref_sci.notebook.fields import Plain
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.series import Series
from binref_sci.notebook.session import _MOST_WANTED, Want
from tests.kit import until
from tests.playing import Backed, comms, telling, want  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("comms")

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def play(comms):  # noqa: F811  # the fixture
    made = []

    def start(obj=None, **kwargs):
        made.append(animate(telling() if obj is None else obj, **kwargs))
        return made[-1], comms[-1]

    yield start
    for player in made:
        player.close()


def told(player, content):
    player._handle_custom_msg(content, [])


def plays(player, comm, i=3):
    before = len(comm.frames())
    told(player, want(10**6 + before, [i], ver=player.ver, seen=10**9))
    until(lambda: len(comm.frames()) > before, "a frame")
    for data, _ in comm.sent:
        json.dumps(data, allow_nan=False, default=lambda one: "")


TIMES = {
    "nan": [0.0, NAN, NAN, NAN],
    "inf": [0.0, 1.0, 2.0, INF],
    "NaT": np.array(["NaT", "2000", "NaT", "NaT"], "M8[ns]"),
    "no difference": np.array([1, 2, 3, "NaT"], "m8[ns]"),
    "complex": [0, 1j, 2, 3],
    "objects": np.array([1, "a", None, 2.5], object),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_a_time_that_is_no_number_does_not_spoil_the_message(play, times):
    player, comm = play(telling(4).assign_coords(time=("time", times)))
    plays(player, comm)


@pytest.mark.parametrize("dims", [("time", 5, "x"), ("time", "y", ("a", "b"))])
def test_dimensions_whose_name_is_no_text_are_refused(play, dims):
    with pytest.raises(TypeError, match="whose name is no text: rename it"):
        play(xr.DataArray(np.zeros((3, 4, 5)), dims=dims))


@pytest.mark.parametrize("y", [None, 0])
def test_coordinates_wider_than_numbers_reach_are_drawn_by_index(play, y):
    field = telling().assign_coords(x=[-1.5e308, -3, -2, -1, 0, 1, 2, 1.5e308])
    player, comm = play(field if y is None else field.isel(y=y))
    assert player.scene["panels"][0]["x"]["label"] == "x (index)"
    plays(player, comm)


@pytest.mark.parametrize("lon", [0.0, 1e-322])
def test_curvilinear_coordinates_without_area_are_told(play, lon):
    x, y = np.meshgrid(np.arange(8) * lon, np.arange(6.0))
    field = telling().assign_coords(lon=(("y", "x"), x), lat=(("y", "x"), y))
    with pytest.raises(ValueError, match=r"'lon' and 'lat': span .* no area to draw"):
        play(field, x="lon", y="lat")


ARGUMENTS = [
    ({"vmin": "a"}, TypeError, "vmin must be a number, got 'a'"),
    ({"vmax": [1]}, TypeError, "vmax must be a number"),
    ({"center": NAN}, ValueError, "center must be finite"),
    ({"center": INF}, ValueError, "center must be finite"),
    ({"center": "a"}, TypeError, "center must be a number or False"),
    ({"levels": [0, INF]}, ValueError, "levels must be finite"),
    ({"levels": [NAN, 1]}, ValueError, "levels must be finite"),
    ({"levels": 2.5}, ValueError, "levels must be a whole number"),
    ({"levels": 0}, ValueError, "levels must be a whole number, at least 1"),
    ({"levels": 10**7}, ValueError, "at most 1000"),
    ({"fps": NAN}, traitlets.TraitError, "fps: expected 0.1 to 1000"),
    ({"follow": "yes"}, TypeError, "follow must be a Follower, True or False"),
    ({"cache_bytes": -1}, ValueError, "cache_bytes must be a whole number, 0 or more"),
    ({"cache_bytes": NAN}, ValueError, "cache_bytes must be a whole number"),
    ({"cache_bytes": "a"}, ValueError, "cache_bytes must be a whole number"),
    ({"theme": "pink"}, ValueError, "theme='pink': use one of"),
    ({"size": 0}, ValueError, "size must be a height of 0.5 to 100 inches, got 0"),
    ({"size": NAN}, ValueError, "size must be a height"),
    ({"col_wrap": 0}, ValueError, "col_wrap must be a whole number above 0"),
    ({"col_wrap": "a"}, ValueError, "col_wrap must be a whole number above 0"),
    ({"aspect": 0}, ValueError, "aspect=0: a number must be above 0"),
    ({"aspect": NAN}, ValueError, "aspect=nan"),
    ({"aspect": -INF}, ValueError, "aspect=-inf"),
]


@pytest.mark.parametrize(("kwargs", "kind", "match"), ARGUMENTS, ids=lambda one: str(one))
def test_an_argument_without_meaning_is_named(play, kwargs, kind, match):
    with pytest.raises(kind, match=match):
        play(**kwargs)


VIEW = {"id": 0, "window": None, "lod": 1, "reduce": "stride"}
SENSELESS = [
    None,
    [],
    "x",
    {"type": "want"},
    want(1, [NAN]),
    want(1, [INF]),
    want(1, [None]),
    want(1, [-1, 10**30]),
    want(1, [1], credit=NAN),
    want(1, [1], credit=-5),
    {**want(1, [1]), "view": "abc"},
    {**want(1, [1]), "view": VIEW | {"window": [NAN] * 4}},
    {**want(1, [1]), "view": VIEW | {"window": [0, 1]}},
    {**want(1, [1]), "view": VIEW | {"lod": INF}},
    {"type": "value", "id": 1, "i": 0, "panel": 9, "fx": 0, "fy": 0},
    {"type": "value", "id": 1, "i": 0, "panel": 0, "fx": INF, "fy": 0},
    {"type": "pin", "id": [1], "panel": 0, "fx": 0, "fy": 0},
    {"type": "pin", "id": 1, "panel": 9, "fx": 0, "fy": 0},
    {"type": "pin", "id": 1, "panel": -1, "fx": 0, "fy": 0},
    {"type": "pin", "id": 1, "panel": 0, "fx": NAN, "fy": 0},
    {"type": "pin", "id": 1, "panel": 0, "fx": 0, "fy": None},
    {"type": "unpin"},
    {"type": "limits", "how": "given", "lo": 0, "hi": 1, "colour": -1},
    {"type": "limits", "how": "given", "lo": 0, "hi": 1, "colour": 9},
    {"type": "limits", "how": "given", "lo": NAN, "hi": 1},
    {"type": "limits", "how": "frame", "i": 999},
    {"type": "colour", "cmap": 5},
    {"type": "norm", "kind": "x"},
]


@pytest.mark.parametrize("content", SENSELESS, ids=lambda one: str(one)[:60])
def test_a_senseless_message_harms_nothing(play, content):
    player, comm = play()
    told(player, content)
    told(player, {"type": "limits", "how": "frame", "i": 2})  # what comes after it works
    until(lambda: player.colours[0]["rule"] == "frame", "the limits")
    assert player.pinned == []
    told(player, {"type": "pin", "id": 7, "panel": 0, "fx": 0.5, "fy": 0.5})
    until(lambda: len(player.pins) == 1 and player.pins[0].size == 20, "the series")
    plays(player, comm)


def test_a_pin_from_python_or_the_page_lies_on_a_panel(play):
    player, _ = play()
    for pin in ({}, {"id": 1, "panel": 5, "fx": 0, "fy": 0}):
        with pytest.raises(traitlets.TraitError, match="pinned: "):
            player.pinned = [pin]
    assert player.pinned == []


@pytest.mark.parametrize("colour", [-1, 1])
def test_a_colour_scale_that_is_not_there_is_told(play, colour):
    player, _ = play()
    with pytest.raises(IndexError, match=f"colour scale {colour} is not among 1"):
        player.set_limits(0, 1, colour=colour)


def test_an_endless_want_list_is_cut():
    assert len(Want.of(want(1, range(10**5))).idx) == _MOST_WANTED


@pytest.mark.parametrize("error", [OSError("gone"), KeyError("chunk"), EOFError(), MemoryError()])
def test_a_frame_that_cannot_be_read_hides_no_other_and_not_the_player(play, error):
    class Broken(Backed):
        def __getitem__(self, key):
            if key[0] == slice(3, 4, None) or key[0] == 3:
                raise error
            return super().__getitem__(key)

    source = da.from_array(Broken(telling().values), chunks=(1, -1, -1))
    player, comm = play(xr.DataArray(source, dims=("time", "y", "x")), index=3)
    made = player._repr_mimebundle_()
    assert "image/png" not in made[0]
    assert "application/vnd.jupyter.widget-view+json" in made[0]
    told(player, want(1, [3, 4]))
    until(lambda: [one for one, _ in comm.messages if one["type"] == "error"], "the error")
    until(lambda: [item["i"] for item, _ in comm.frames()] == [4], "the other frame")


def test_a_pin_on_slow_storage_keeps_no_frame_waiting(play):
    class Slow:
        """As a disk that seeks: once a frame is wanted too, what of the series is read is noted."""

        def __init__(self, values):
            self.values = values
            self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
            self.wanted = threading.Event()
            self.read = 0

        def __getitem__(self, key):
            made = self.values[key]
            if isinstance(key[0], slice) and series():
                assert self.wanted.wait(60)
                if not comm.frames():
                    self.read += len(made)
            return made

    field = telling(2000, 2, 2)
    player, comm = play(field)
    panel = player._session.scene.panels[0]
    slow = Slow(field.values)
    object.__setattr__(panel, "reader", Plain(slow))

    def series():
        return [one for one, _ in comm.messages if one["type"] == "series"]

    told(player, {"type": "pin", "id": 1, "panel": 0, "fx": 0.5, "fy": 0.5})
    until(series, "the series")
    told(player, want(1, [1999], ver=player.ver))
    slow.wanted.set()
    until(comm.frames, "a frame")
    assert 0 < slow.read < 2000 / 2
    until(lambda: series()[-1]["done"] == 1.0, "all of the series")


def test_closing_leaves_no_widget_behind(play):
    before = len(_instances)
    for _ in range(3):
        player, _ = play()
        told(player, want(1, range(8)))
        player.close()
    assert len(_instances) == before


def test_a_series_that_is_being_read_follows_a_run_that_grows():
    short, longer = telling(100), telling(130)
    series = Series(Scene.of(short), 0, 0, 0)
    steps = series.read(lambda series: None)
    next(steps)
    series.grow(Scene.of(longer))
    for _ in steps:
        pass
    assert series.done == 1.0
    np.testing.assert_array_equal(series.to_dataarray(), longer[:, -1, 0])
