"""Frames as they are sent: codes within their bound, float32, reduction, and what is kept."""

import warnings

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from binref_sci.notebook.colouring import colouring
from binref_sci.notebook.frames import Frames, View
from binref_sci.notebook.reducing import reduced
from binref_sci.notebook.scene import Scene
from tests.playing import Backed, telling


def frames_of(obj, cache_bytes=1 << 20, **kwargs):
    scene = Scene.of(obj)
    sample = np.asarray(obj.values)
    return Frames(scene, [colouring(sample, **kwargs)], cache_bytes=cache_bytes)


def decoded(codes, colours):
    """Values at the middle of each code, as the colour bar shows them."""
    return colours.vmin + (codes.astype("f8") - 2) / 252 * (colours.vmax - colours.vmin)


fields = npst.arrays(
    st.sampled_from(["f4", "f8", ">f4", ">f8", "f2", "i2", ">i4", "u1", "?"]),
    st.tuples(st.just(2), st.integers(1, 6), st.integers(1, 6)),
)


@given(fields)
def test_the_code_of_a_value_is_within_its_bound_or_says_what_it_is(values):
    field = xr.DataArray(values, dims=("time", "y", "x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        finite = values[np.isfinite(values)].astype("f8")
        middle = np.abs(finite) <= 1e30
        sample = finite[middle] if middle.any() else np.zeros(1)
        colours = colouring(sample)
        frames = Frames(Scene.of(field), [colours])
        item, (codes,) = frames.item(1, View())
    made = np.frombuffer(codes, "u1").reshape(values.shape[1:])
    wanted = values[1][::-1].astype("f8")
    bad = ~np.isfinite(wanted)
    assert (made[bad] == 0).all()
    assert (made[~bad] > 0).all()
    inside = ~bad & (wanted >= colours.vmin) & (wanted <= colours.vmax)
    assert (made[inside] >= 2).all()
    assert (made[inside] <= 254).all()
    bound = (colours.vmax - colours.vmin) / 504
    slack = 1e-5 * max(abs(colours.vmin), abs(colours.vmax))  # of float32
    assert (np.abs(decoded(made, colours) - wanted)[inside] <= bound + slack).all()
    assert (made[~bad & (wanted < colours.vmin)] == 1).all()
    assert (made[~bad & (wanted > colours.vmax)] == 255).all()
    stats = item["stats"][0]
    assert stats["bad"] == bad.sum()
    assert stats["under"] == (made == 1).sum()
    assert stats["over"] == (made == 255).sum()
    if not bad.all():
        assert stats["lo"] == wanted[~bad].min()
        assert stats["hi"] == wanted[~bad].max()


def test_a_constant_and_an_empty_field_have_codes():
    for values in (np.full((2, 3, 3), 7.0), np.full((2, 3, 3), np.nan)):
        item, (codes,) = frames_of(xr.DataArray(values, dims=("time", "y", "x"))).item(0, View())
        assert len(codes) == 9
        assert item["stats"][0]["lo"] == (None if np.isnan(values[0, 0, 0]) else 7.0)


def test_float32_is_little_endian_and_as_it_is():
    field = telling().astype(">f4")
    item, (buffer,) = frames_of(field).item(3, View(), "f32")
    np.testing.assert_array_equal(
        np.frombuffer(buffer, "<f4").reshape(item["shapes"][0]), field[3].values[::-1]
    )
    assert (item["label"], item["t"], item["fmt"]) == ("t = 1.5", 1.5, "f32")


@pytest.mark.parametrize("how", ["mean", "max", "min", "absmax"])
@given(
    field=npst.arrays(
        "f8",
        npst.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.floats(-1e6, 1e6) | st.just(np.nan),
    ),
    factors=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_reduction_ignores_nan_and_keeps_small_blocks_at_the_edge(how, field, factors):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = reduced(field, factors, how)
    rows, columns = (-(-length // f) for length, f in zip(field.shape, factors, strict=True))
    assert made.shape == (rows, columns)
    for r in range(rows):
        for c in range(columns):
            block = field[
                r * factors[0] : (r + 1) * factors[0], c * factors[1] : (c + 1) * factors[1]
            ]
            there = block[~np.isnan(block)]
            if not there.size:
                assert np.isnan(made[r, c])
            elif how == "mean":
                assert made[r, c] == pytest.approx(there.mean(), rel=1e-9, abs=1e-6)
            elif how == "absmax":
                assert abs(made[r, c]) == np.abs(there).max()
            else:
                assert made[r, c] == getattr(there, how)()


def test_a_window_is_cut_before_it_is_reduced():
    frames = frames_of(telling())
    view = View.of({"window": [0.25, 0.9, 0.5, 1.0], "lod": 2, "reduce": "max"})
    item, (buffer,) = frames.item(2, view, "f32")
    picture = telling()[2].values[::-1][3:6, 2:8]
    assert item["window"] == [0.25, 1.0, 0.5, 1.0]
    assert item["shapes"] == [[2, 3]]
    np.testing.assert_array_equal(
        np.frombuffer(buffer, "<f4").reshape(2, 3), reduced(picture, (2, 2), "max")
    )


def test_what_is_out_of_range_in_a_view_is_brought_into_it():
    assert View.of({"window": [1.5, -1, 0, 1], "lod": 0}) == View(None, 1, "stride")
    assert View.of({"window": [0.7, 0.2, 1, 0]}).window == (0.2, 0.7, 0.0, 1.0)
    with pytest.raises(ValueError, match="reduce='median'"):
        View.of({"reduce": "median"})
    with pytest.raises(ValueError, match="fmt='u16'"):
        frames_of(telling()).item(0, View(), "u16")


def test_what_is_kept_is_bounded_by_bytes_and_not_read_again():
    backed = Backed(telling(n=100).values)
    field = telling(n=100).copy(data=np.zeros((100, 6, 8)))
    scene = Scene.of(field)
    reads = []
    colours = colouring(telling(n=100).values)
    frames = Frames(scene, [colours], cache_bytes=48 * 10)
    original = scene.panels[0].reader.read
    object.__setattr__(
        scene.panels[0].reader, "read", lambda key: reads.append(key[0]) or original(key)
    )
    for i in range(100):
        frames.item(i, View())
        assert frames.nbytes <= 48 * 10 + 2 * 48 * 8
    assert reads == list(range(100))
    frames.item(99, View())
    frames.item(90, View())
    assert reads == list(range(100))
    assert frames.hits == 2
    frames.item(99, View(), "f32")  # of the field that is still there as numbers
    assert reads == list(range(100))
    frames.item(0, View())
    assert reads[-1] == 0
    frames.drop()
    assert frames.nbytes == 0
    assert not backed.keys


def test_other_colours_read_nothing_again():
    frames = frames_of(telling())
    frames.item(4, View())
    other = frames.recoloured([colouring([0, 1e6])])
    _, (codes,) = other.item(4, View())
    assert other.reads == frames.reads
    assert max(codes) < 20


def test_a_frame_that_is_no_longer_wanted_is_not_encoded():
    frames = frames_of(telling())
    assert frames.item(0, View(), wanted=lambda: False) is None


def test_logarithmic_codes_keep_their_decades():
    values = np.logspace(-6, 6, 48).reshape(1, 6, 8)
    field = xr.DataArray(values, dims=("time", "y", "x"))
    colours = colouring(values, norm="log")
    _, (codes,) = Frames(Scene.of(field), [colours]).item(0, View())
    made = np.frombuffer(codes, "u1").reshape(6, 8)[::-1].astype("f8")
    found = 10 ** (-6 + 12 * (made - 2) / 252)
    assert np.abs(found / values[0] - 1).max() < 10 ** (12 * 0.00198) - 1 + 1e-6
