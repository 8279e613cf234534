"""Values to colours: xarray's rules, codes within their bound, a table that matplotlib would draw."""

import json
import sys
import warnings

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from matplotlib import colors
from xarray.plot.utils import _determine_cmap_params

from binref_sci.notebook.colouring import Colouring, colouring

MINUS = "\N{MINUS SIGN}"
KINDS = ["<f2", "<f4", "<f8", ">f4", ">f8", "i1", "<i2", ">i4", "<i8", "u1", "<u2", ">u8"]


def theirs(data, **kwargs) -> dict:
    return _determine_cmap_params(np.asarray(data), **kwargs)


def assert_as_xarray(made: Colouring, wanted: dict) -> None:
    norm = wanted["norm"]
    vmin, vmax = (wanted["vmin"], wanted["vmax"]) if norm is None else (norm.vmin, norm.vmax)
    close = 1e-3 if np.asarray(wanted["vmin"]).dtype == np.float16 else 1e-5
    assert made.vmin == pytest.approx(float(vmin), rel=close, abs=1e-300)
    assert made.vmax == pytest.approx(float(vmax), rel=close, abs=1e-300)
    assert made.extend == wanted["extend"]
    cmap = wanted["cmap"]
    cmap = mpl.colormaps[cmap] if isinstance(cmap, str) else cmap
    assert made.cmap == cmap
    assert made.cmap.name == cmap.name


plain = st.floats(-1e6, 1e6, width=32).map(lambda v: v if abs(v) > 1e-3 or v == 0 else 0.0)
odd = st.sampled_from([np.nan, np.inf, -np.inf])
some = npst.arrays(
    np.float64, npst.array_shapes(max_dims=2, max_side=8), elements=plain | odd, fill=plain
)


arguments = st.fixed_dictionaries(
    {},
    optional={
        "vmin": plain,
        "vmax": plain,
        "center": st.just(False) | plain,
        "robust": st.booleans(),
        "levels": st.integers(1, 12) | st.lists(plain, min_size=2, max_size=6, unique=True),
        "extend": st.sampled_from(["neither", "min", "max", "both"]),
        "cmap": st.sampled_from(["magma", "RdBu"]),
    },
)


@given(some, arguments)
@example(np.full(3, np.nan), {})
@example(np.array([-1.0, 3.0]), {})
@example(np.array([-1.0, 3.0]), {"vmin": -0.5})
@example(np.array([-1.0, 3.0]), {"center": False, "robust": True})
@example(np.array([5.0, 5.0]), {})
@example(np.array([1.0, 3.0]), {"center": 2.5, "levels": 5})
def test_limits_colormap_and_extend_are_those_of_xarray(data, kwargs):
    try:
        wanted = theirs(data, **kwargs)
    except (ValueError, ZeroDivisionError):
        assume(False)
    norm = wanted["norm"]
    low, high = (norm.vmin, norm.vmax) if norm is not None else (wanted["vmin"], wanted["vmax"])
    if low > high:  # xarray finds out when it draws
        with pytest.raises(ValueError, match=r"above|below"):
            colouring(data, **kwargs)
        return
    made = colouring(data, **kwargs)
    assert_as_xarray(made, wanted)
    if isinstance(norm, colors.BoundaryNorm):
        assert np.array_equal(made.norm.boundaries, norm.boundaries)


@pytest.mark.parametrize("kind", KINDS)
def test_any_dtype_has_the_limits_of_xarray(kind):
    data = np.array([[3, 100, 7], [0, 5, 90]]).astype(kind)
    native = data.astype(data.dtype.newbyteorder("="))
    for kwargs in ({}, {"robust": True}, {"vmax": 50}, {"center": 4.0}, {"levels": 7}):
        assert_as_xarray(colouring(data, **kwargs), theirs(native, **kwargs))


def test_booleans_are_zero_and_one():
    made = colouring(np.array([True, False]))
    assert (made.vmin, made.vmax, made.cmap.name) == (0.0, 1.0, "viridis")
    assert made.codes(np.array([[True], [False]])).tolist() == [[254], [2]]


@pytest.mark.parametrize("norm", [colors.Normalize, colors.SymLogNorm, colors.PowerNorm])
@pytest.mark.parametrize("limits", [{}, {"vmin": -1.0}, {"vmin": -1.0, "vmax": 4.0}])
def test_norms_get_the_limits_of_xarray(norm, limits):
    first = {colors.SymLogNorm: (0.1,), colors.PowerNorm: (0.5,)}.get(norm, ())
    data = np.array([-3.0, 0.5, 9.0])
    mine = norm(*first, **limits)
    made = colouring(data, norm=mine)
    assert_as_xarray(made, theirs(data, norm=norm(*first, **limits)))
    assert (mine.vmin, mine.vmax) == (limits.get("vmin"), limits.get("vmax")), "left as it was"
    assert isinstance(made.norm, norm)


def test_a_boundary_norm_gives_the_levels():
    norm = colors.BoundaryNorm([0.0, 1.0, 5.0, 10.0], 256)
    made = colouring([0.5, 12.0], norm=norm)
    assert (made.vmin, made.vmax, made.extend) == (0.0, 10.0, "max")
    codes = made.codes(np.array([-1.0, 0.0, 0.99, 1.0, 5.0, 9.99, 10.0, np.nan]))
    wanted = made.cmap(made.norm([-1.0, 0.0, 0.99, 1.0, 5.0, 9.99, 10.0]), bytes=True)
    assert made.lut[codes[:-1]].tolist() == wanted.tolist()
    assert codes[-1] == 0
    assert made.rule == "given"


@pytest.mark.parametrize("count", [2, 3, 12, 100, 254, 300])
@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_discrete_levels_have_the_colours_of_matplotlib(count, kind):
    data = np.linspace(-4.0, 4.0, 2001).astype(kind)
    made = colouring(data, vmin=-2.0, vmax=3.0, levels=count)
    drawn = made.cmap(made.norm(data.astype(float)), bytes=True)
    found = made.lut[made.codes(data)]
    if count <= 254:
        assert np.array_equal(found, drawn)
    else:  # more intervals than codes: a neighbour's colour
        assert np.abs(found.astype(int) - drawn).max() <= 4


def test_a_norm_that_contradicts_a_limit_is_refused():
    with pytest.raises(ValueError, match=r"vmin=1 contradicts the norm, which has vmin=0"):
        colouring([0.0, 2.0], vmin=1, norm=colors.Normalize(vmin=0))
    colouring([0.0, 2.0], vmin=0, norm=colors.Normalize(vmin=0))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"vmin": 3, "vmax": 1}, "vmin=3 is above vmax=1"),
        ({"vmin": 9}, "vmin=9 is above the largest value of the sample, 2: give vmax too"),
        ({"vmax": -9, "center": False}, "below the smallest value of the sample, 1: give vmin"),
        ({"vmin": np.nan}, "vmin must be finite"),
        ({"levels": []}, "levels is empty"),
        ({"levels": 0}, "levels must be a whole number, at least 1 and at most 1000, got 0"),
        ({"extend": "up"}, "extend must be"),
        ({"norm": "cubic"}, "norm must be"),
        ({"norm": "log", "vmin": -1.0}, "begins above zero, got vmin=-1"),
        ({"cmap": "virids"}, "did you mean 'viridis'"),
        ({"cmap": "qqqqqqq"}, "matplotlib.colormaps lists"),
    ],
)
def test_bad_arguments_name_themselves(kwargs, message):
    with pytest.raises(ValueError, match=message):
        colouring([1.0, 2.0], **kwargs)


def test_complex_values_say_the_way_out():
    with pytest.raises(TypeError, match=r"complex128: plot its real part, its imag or its abs"):
        colouring(np.array([1j]))
    with pytest.raises(TypeError, match=r"complex64"):
        colouring([0.0, 1.0]).codes(np.array([1j], np.complex64))


def test_options_of_xarray_choose_the_colormap():
    with xr.set_options(cmap_sequential="cividis", cmap_divergent="PuOr"):
        assert colouring([1.0, 2.0]).cmap.name == "cividis"
        assert colouring([-1.0, 2.0]).cmap.name == "PuOr"
    assert colouring([1.0, 2.0]).cmap.name == "viridis"


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("cmo.thermal", "cmo.thermal"),
        ("thermal", "thermal"),
        ("cet_fire", "cet_fire"),
        ("cmr.rainforest", "cmr.rainforest"),
        ("rainforest_r", "cmr.rainforest_r"),
    ],
)
def test_colormaps_of_other_packages_go_by_name(name, full):
    pytest.importorskip("cmocean")
    made = colouring([0.0, 1.0], cmap=name)
    assert made.cmap.name.endswith(full.split(".")[-1].split("_r")[0]) or made.cmap.name == full
    assert len(np.unique(made.lut[2:255], axis=0)) > 100


def test_a_missing_package_of_colormaps_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmocean", None)  # as Python marks what cannot be imported
    with pytest.raises(ValueError, match=r"come with the package cmocean, which is missing"):
        colouring([0.0, 1.0], cmap="cmo.nonesuch")


# --- codes --------------------------------------------------------------------------------------


def place(made: Colouring, codes: np.ndarray) -> np.ndarray:
    return (codes.astype(float) - 2) / 252


@st.composite
def fields(draw):
    """A field of any real dtype, with limits inside or outside of it."""
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    if kind.kind == "f":
        values = st.floats(width=8 * kind.itemsize)
    else:
        values = st.integers(np.iinfo(kind).min, np.iinfo(kind).max)
    shape = draw(npst.array_shapes(min_dims=1, max_dims=2, max_side=20))
    near = draw(st.booleans())
    if near:
        values = st.integers(0, 100).map(lambda v: kind.type(v).item())
    return draw(npst.arrays(kind, shape, elements=values))


@given(fields(), st.floats(-150, 150), st.floats(1e-3, 200))
def test_codes_are_within_half_a_level(field, vmin, width):
    vmax = vmin + width
    made = colouring([0.0], vmin=vmin, vmax=vmax)
    codes = made.codes(field)
    assert codes.dtype == np.uint8
    assert codes.shape == field.shape
    exact = field.astype(np.longdouble)
    bad = ~np.isfinite(exact)
    assert np.array_equal(codes == 0, bad)
    assert np.array_equal(codes == 1, ~bad & (exact < vmin))
    assert np.array_equal(codes == 255, ~bad & (exact > vmax))
    inside = (codes >= 2) & (codes <= 254)
    error = np.abs(vmin + place(made, codes[inside]) * width - exact[inside].astype(float))
    assert (error <= width / (2 * 252) * 1.03).all()


@given(
    npst.arrays(np.float64, 8, elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from(["f4", "f8"]),
)
@example(np.array([-1.7e308, 1.7e308]), "f8")
@example(np.array([0.0, 5e-324]), "f8")
@example(np.array([1.75e308]), "f8")
@example(np.array([-1.75e308]), "f8")
@example(np.array([-3.4e38, 3.4e38, 1e38]), "f4")
@example(np.array([101325.0, 101325.03, 101325.01]), "f4")
def test_the_limits_of_any_data_span_all_levels(data, kind):
    with np.errstate(over="ignore"):
        data = data.astype(kind)
    data = data[np.isfinite(data)]
    assume(data.size)
    made = colouring(data, center=False)
    codes = made.codes(data)
    if data.min() < data.max():
        assert codes[data.argmin()] == 2
        assert codes[data.argmax()] == 254
        half = data.astype(np.longdouble) / 2
        exact = (half - half.min()) / (half.max() - half.min())
        assert np.abs(place(made, codes) - exact).max() <= 1.03 / 504
    else:
        assert len(set(codes.tolist())) == 1


@pytest.mark.parametrize(
    "norm",
    [
        colors.LogNorm(1e-3, 1e3),
        colors.LogNorm(0.9, 1.0),
        colors.SymLogNorm(0.01, vmin=-10, vmax=100),
        colors.SymLogNorm(1.0, linscale=2.0, base=2, vmin=-10, vmax=10),
        colors.PowerNorm(0.5, 0, 10),
        colors.TwoSlopeNorm(1.0, -1.0, 10.0),
        colors.AsinhNorm(0.1, vmin=-5, vmax=5),
        colors.Normalize(0, 1, clip=True),
        colors.CenteredNorm(0.0, 3.0),
    ],
    ids=lambda norm: f"{type(norm).__name__}-{norm.vmin}-{norm.vmax}",
)
@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f8"])
def test_the_norm_comes_before_the_rounding(norm, kind):
    rng = np.random.default_rng(1)
    data = np.concatenate([rng.normal(0, 3, 20000), 10.0 ** rng.uniform(-5, 5, 20000), [0, -1e-9]])
    data = np.concatenate([data, [np.nan, np.inf, -np.inf]]).astype(kind)
    made = colouring(data, norm=norm)
    codes = made.codes(data)
    wanted = norm(np.ma.masked_invalid(data.astype(float)))
    assert np.array_equal(codes == 0, np.ma.getmaskarray(wanted))
    good = ~np.ma.getmaskarray(wanted)
    exact = np.clip(np.asarray(wanted)[good], 0, 1)
    inside = (codes[good] >= 2) & (codes[good] <= 254)
    assert np.abs(place(made, codes[good][inside]) - exact[inside]).max() <= 1.03 / 504
    if not norm.clip:
        values = data[good].astype(float)
        assert np.array_equal(codes[good] == 1, values < norm.vmin)
        assert np.array_equal(codes[good] == 255, values > norm.vmax)


def test_zero_and_below_are_bad_on_a_logarithmic_scale_and_count_for_nothing():
    data = np.array([-5.0, 0.0, 1e-3, 1.0, 1e3])
    made = colouring(data, norm="log")
    assert (made.vmin, made.vmax) == (1e-3, 1e3)
    assert made.codes(data).tolist() == [0, 0, 2, 128, 254]
    assert made.cmap.name == "viridis"
    nothing = colouring([-1.0, 0.0], norm="log")
    assert nothing.codes(data).tolist()[:2] == [0, 0]
    steady = made.codes(np.zeros((50, 50)))
    assert not steady.any(), "no noise"


@pytest.mark.parametrize("levels", [1, 2, 5, 12])
@pytest.mark.parametrize("limits", [{}, {"vmin": 1e-2}, {"vmin": 1e-2, "vmax": 10.0}])
def test_a_number_of_levels_on_a_logarithmic_scale_parts_it_evenly_there(levels, limits):
    data = np.array([0.0, 1e-3, 1.0, 1e3])
    made = colouring(data, norm="log", levels=levels, **limits)
    low, high = limits.get("vmin", 1e-3), limits.get("vmax", 1e3)
    if levels > 1:
        assert (made.vmin, made.vmax) == pytest.approx((low, high))
    codes = made.codes(np.geomspace(made.vmin, made.vmax, 600)[1:-1])
    shares = np.unique(made.lut[codes], axis=0, return_counts=True)[1]
    assert len(shares) == max(levels - 1, 1)
    assert shares.min() > 0.9 * 598 / max(levels - 1, 1)


@pytest.mark.parametrize("levels", [1, 2, 7, [0.0], [1.0, 1.0]])
@pytest.mark.parametrize("data", [[0.0], [-1.7e308, 1.7e308], [5e-324, 1e-323], [1e300, 1.0]])
def test_levels_of_any_data_are_drawn_without_a_warning(levels, data):
    made = colouring(np.array(data), levels=levels)
    assert made.codes(np.array([*data, np.nan])).shape == (len(data) + 1,)
    assert made.lut.shape == (256, 4)
    assert made.ticks
    json.dumps(made.to_json(), allow_nan=False)


def test_symlog_between_limits_that_are_given_knows_its_linear_part_from_them():
    made = colouring(np.zeros(4), norm="symlog", vmin=-10.0, vmax=1000.0)
    assert made.norm.linthresh == 1.0


def test_symlog_knows_its_linear_part_from_the_data():
    made = colouring([-1000.0, 10.0], norm="symlog")
    assert (made.vmin, made.vmax, made.norm.linthresh) == (-1000.0, 1000.0, 1.0)
    assert made.codes(np.array([0.0])).tolist() == [128]
    assert made.cmap.name == "RdBu_r"


@pytest.mark.parametrize("layout", ["F", "reversed", "strided", "masked", "empty", "scalar"])
def test_codes_of_any_layout(layout):
    made = colouring([0.0], vmin=0, vmax=252)
    field = np.arange(12.0).reshape(3, 4)
    field = {
        "F": np.asfortranarray(field),
        "reversed": field[::-1, ::-1],
        "strided": np.repeat(field, 2, axis=1)[:, ::2],
        "masked": np.ma.masked_equal(field, 3.0),
        "empty": field[:0],
        "scalar": np.array(7.0),
    }[layout]
    wanted = np.ma.filled(field + 2, 0).astype(int)
    assert np.array_equal(made.codes(field), wanted)


# --- table, ticks, JSON -------------------------------------------------------------------------


def test_the_table_has_the_colours_of_the_colormap():
    cmap = mpl.colormaps["viridis"].with_extremes(bad="red", under="blue", over=(0, 1, 0, 0.5))
    made = colouring([0.0, 1.0], cmap=cmap)
    assert made.lut.shape == (256, 4)
    assert made.lut.dtype == np.uint8
    assert made.lut[0].tolist() == [255, 0, 0, 255]
    assert made.lut[1].tolist() == [0, 0, 255, 255]
    assert made.lut[255].tolist() == [0, 255, 0, 127]
    drawn = cmap(np.linspace(0, 1, 253), bytes=True)
    assert np.array_equal(made.lut[2:255], drawn)


def test_under_and_over_are_the_ends_unless_they_are_set():
    made = colouring([0.0, 1.0])
    assert made.lut[1].tolist() == made.lut[2].tolist()
    assert made.lut[255].tolist() == made.lut[254].tolist()
    assert made.lut[0, 3] == 0, "bad is transparent, as in matplotlib"


@pytest.mark.parametrize(
    ("kwargs", "labels"),
    [
        ({"vmin": 0, "vmax": 1}, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ({"vmin": -2, "vmax": 2}, [f"{MINUS}2", f"{MINUS}1", "0", "1", "2"]),
        ({"vmin": 0, "vmax": 3e-7}, ["0", "5e-8", "1e-7", "1.5e-7", "2e-7", "2.5e-7", "3e-7"]),
        ({"vmin": 101325.0, "vmax": 101325.4}, [f"101325.{d}" for d in range(5)]),
        ({"vmin": 1e-4, "vmax": 1, "norm": "log"}, ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]),
        ({"vmin": 0, "vmax": 10, "levels": 3}, ["0", "5", "10"]),
    ],
)
def test_labels_of_the_bar(kwargs, labels):
    ticks = colouring([0.5], **kwargs).ticks
    assert [text for _, text in ticks] == labels
    assert ticks[0][0] == 0.0
    assert ticks[-1][0] == 1.0


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_labels_of_the_bar_tell_apart_what_they_stand_for(vmin, width):
    assume(width > 1e-9 * abs(vmin))
    ticks = colouring([0.0], vmin=vmin, vmax=vmin + width).ticks
    assert 2 <= len(ticks) <= 9
    places = [place for place, _ in ticks]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 1
    assert len({text for _, text in ticks}) == len(ticks)
    for where, text in ticks:
        value = float(text.replace(MINUS, "-"))
        assert value == pytest.approx(vmin + where * width, abs=0.02 * width)


def test_what_the_browser_is_told_is_json():
    made = colouring([0.0, 4.0], label="temperature [K]")
    assert json.loads(json.dumps(made.to_json())) == {
        "vmin": 0.0,
        "vmax": 4.0,
        "label": "temperature [K]",
        "extend": "neither",
        "extend_given": False,
        "ticks": [[0.0, "0"], [0.25, "1"], [0.5, "2"], [0.75, "3"], [1.0, "4"]],
        "norm": "linear",
        "rule": "sampled",
        "about": True,
        "cmap": "viridis",
    }
    for norm, name in [("log", "log"), ("symlog", "symlog"), (colors.PowerNorm(2), "power")]:
        assert colouring([1.0, 4.0], norm=norm).to_json()["norm"] == name


def test_nothing_warns_on_any_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in ([np.nan], [np.inf, -np.inf], [], [0.0], [-0.0], [1e308, -1e308]):
            made = colouring(np.array(data))
            made.codes(np.array(data))
            assert made.ticks is not None
