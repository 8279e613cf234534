"""The time of a frame as text: as many digits as tell neighbours apart, always one width."""

import cftime
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.notebook.times import Times


def times(values, unit=None, name="time"):
    attrs = {} if unit is None else {"units": unit}
    coordinate = xr.DataArray(np.asarray(values), dims="time", name=name, attrs=attrs)
    return Times("time", coordinate.size, coordinate)


@pytest.mark.parametrize(
    ("values", "unit", "labels"),
    [
        ([0.0, 0.5, 1.0], "s", ["t = 0.0 s", "t = 0.5 s", "t = 1.0 s"]),
        ([0.0, 5.0, 10.0], "s", ["t =  0 s", "t =  5 s", "t = 10 s"]),
        ([0.0, 0.25, 0.5], None, ["t = 0.00", "t = 0.25", "t = 0.50"]),
        ([0.0, 1e-9, 2e-9], "s", ["t = 0e+00 s", "t = 1e-09 s", "t = 2e-09 s"]),
        ([1e6, 1e6 + 0.1], "s", ["t = 1000000.0 s", "t = 1000000.1 s"]),
        ([-1.0, 0.0, 1.0], "s", ["t = -1 s", "t =  0 s", "t =  1 s"]),
        ([0, 50, 100], "s", ["t =   0 s", "t =  50 s", "t = 100 s"]),
        ([1.0], "s", ["t = 1 s"]),
        ([np.nan, 1.0, 2.0], "s", ["t = nan s", "t =   1 s", "t =   2 s"]),
        ([0.0, 1 / 3, 2 / 3], "s", ["t = 0.000 s", "t = 0.333 s", "t = 0.667 s"]),
        (["a", "b"], None, ["t = a", "t = b"]),
    ],
)
def test_numbers_have_the_digits_that_vary(values, unit, labels):
    made = times(values, unit)
    assert [made.label(i).replace("\u2007", " ") for i in range(made.size)] == labels


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["2000-01-01", "2001-01-01"], ["2000", "2001"]),
        (["2000-01-01", "2000-02-01"], ["2000-01", "2000-02"]),
        (["2000-01-01", "2000-01-02"], ["2000-01-01", "2000-01-02"]),
        (["2000-01-01T12:00", "2000-01-02"], ["2000-01-01 12:00", "2000-01-02 00:00"]),
        (["2000-01-01T12:00:01", "NaT"], ["2000-01-01 12:00:01", "NaT"]),
        (
            ["2000-01-01T00:00:00.5", "2000-01-01"],
            ["2000-01-01 00:00:00.500", "2000-01-01 00:00:00.000"],
        ),
    ],
)
def test_dates_are_trimmed_to_what_varies(values, labels):
    made = times(np.array(values, "M8[ns]"))
    assert [made.label(i) for i in range(made.size)] == labels


@pytest.mark.parametrize(
    ("values", "unit", "labels"),
    [
        ([0, 6, 30], "h", ["t = 0 d 00:00", "t = 0 d 06:00", "t = 1 d 06:00"]),
        ([0, 24, 240], "h", ["t =  0 d", "t =  1 d", "t = 10 d"]),
        ([0, 90], "s", ["t = 00:00:00", "t = 00:01:30"]),
        ([0, 1500], "ms", ["t = 00:00:00.000", "t = 00:00:01.500"]),
        ([-60, 60], "m", ["t = -01:00:00", "t =  01:00:00"]),
    ],
)
def test_time_differences_have_one_width(values, unit, labels):
    made = times(np.array(values, f"m8[{unit}]").astype("m8[ns]"))
    assert [made.label(i).replace("\u2007", " ") for i in range(made.size)] == labels


def test_cftime_dates_have_their_own_text():
    days = [cftime.DatetimeNoLeap(2000, 2, 28), cftime.DatetimeNoLeap(2000, 3, 1)]
    made = times(np.array(days, dtype=object))
    assert [made.label(i) for i in (0, 1)] == ["2000-02-28", "2000-03-01"]
    assert [made.time(i) for i in (0, 1)] == [0.0, 86400.0]
    assert made.nearest(cftime.DatetimeNoLeap(2000, 2, 28, 20)) == 1
    assert made.nearest("2000-03") == 1
    hours = times(np.array([days[0], cftime.DatetimeNoLeap(2000, 2, 28, 6)], dtype=object))
    assert hours.label(1) == "2000-02-28 06:00"


def test_without_a_coordinate_frames_are_numbered():
    made = Times("time", 120)
    assert [made.label(i).replace("\u2007", " ") for i in (3, 119)] == ["step =   3", "step = 119"]
    assert made.time(7) == 7.0
    assert made.nearest(200) == 119


def test_the_nearest_frame_is_found():
    assert times([0.0, 0.5, 1.0], "s").nearest(0.7) == 1
    assert times(np.array(["2000-01-01", "2000-01-03"], "M8[ns]")).nearest("2000-01-02T20") == 1
    assert times(np.array([0, 10], "m8[s]")).nearest(np.timedelta64(7, "s")) == 1
    assert times(np.array([0, 10], "m8[s]")).nearest("7 s") == 1
    assert times(["spin-up", "run"]).nearest("run") == 1
    with pytest.raises(
        ValueError, match=r"time='x' does not fit coordinate 'time' of dtype float64"
    ):
        times([0.0, 1.0]).nearest("x")


def test_seconds_of_dates_and_differences():
    assert times(np.array(["2000-01-01", "2000-01-02"], "M8[ns]")).time(1) == 86400.0
    assert times(np.array([0, 1500], "m8[ms]")).time(1) == 1.5


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=20, unique=True)
)
def test_neighbours_are_told_apart_and_texts_have_one_width(values):
    values = np.array(values)
    steps = np.abs(np.diff(values))
    made = times(values)
    texts = [made.text(i) for i in range(made.size)]
    assert len({len(text) for text in texts}) == 1
    for one, other, step in zip(texts, texts[1:], steps, strict=False):
        if step > 1e-12 * np.abs(values).max():
            assert one != other


def test_what_times_count_in_is_known_and_common():
    def clock(values, units=""):
        time = xr.DataArray(values, dims="time", name="time", attrs={"units": units})
        return Times("time", len(values), time)

    hours, seconds = clock([0.0, 1.0, 2.0], "hours").clock, clock([0, 3600, 7200], "s").clock
    assert hours[0] == seconds[0] == "s"
    np.testing.assert_array_equal(hours[1], seconds[1])
    assert clock([1.0, 2.0], "K").clock[0] == "K"
    what, epoch = clock(np.array(["1970-01-02", "1970-01-03"], "M8[ns]")).clock
    assert (what, epoch.tolist()) == ("date", [86400.0, 172800.0])
    days = xr.date_range("2000-01-01", periods=3, calendar="noleap", use_cftime=True).values
    what, noleap = clock(days).clock
    assert (what, noleap.tolist()) == ("date, noleap", [0.0, 86400.0, 172800.0])
    for none in ([0.0, np.nan], [0.0, 2.0, 1.0], ["a", "b"], [1.0]):
        assert clock(none).clock is None
    assert Times("time", 3).clock is None
    assert clock([0.0, 1.0, 2.0], "min").pace_of(range(3)) == {
        "clock": "s",
        "unit": "s",
        "step": 60.0,
        "even": True,
    }
    assert not clock([0.0, 1.0, 10.0], "s").pace_of([0, 1, 2])["even"]
    assert clock([0.0, 1.0, 10.0], "s").pace_of([0, 2])["step"] == 10.0
