"""What is played: dimensions, axes, panels, fields; NumPy and xarray are the oracle."""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pint
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from binref_sci import BinrefWriter, open_dataset
from binref_sci.notebook.axes import axis_of, edges_of
from binref_sci.notebook.curvilinear import nearest_cells
from binref_sci.notebook.fields import Chunked, Plain, reader_of
from binref_sci.notebook.scene import Scene
from tests.playing import Backed, telling


def shown(obj, i=0, **kwargs):
    scene = Scene.of(obj, **kwargs)
    return scene.field(scene.panels[0], i)


# --- which dimension does what ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "kwargs", "time", "drawn", "sliders"),
    [
        (("time", "y", "x"), {}, "time", ("y", "x"), ()),
        (("y", "x", "t"), {}, "t", ("y", "x"), ()),
        (("a", "b", "c"), {}, "a", ("b", "c"), ()),
        (("a", "b", "c"), {"x": "a", "y": "b"}, "c", ("b", "a"), ()),
        (("a", "b", "c"), {"dim": "c"}, "c", ("a", "b"), ()),
        (("step", "member", "level", "y", "x"), {}, "step", ("y", "x"), ("member", "level")),
        (("time", "level", "y", "x"), {"x": "level"}, "time", ("x", "level"), ("y",)),
        (("time", "x"), {}, "time", (None, "x"), ()),
        (("time", "k", "x"), {"hue": "k"}, "time", ("k", "x"), ()),
    ],
)
def test_each_dimension_gets_its_job(dims, kwargs, time, drawn, sliders):
    sizes = dict(zip(dims, range(2, 7), strict=False))
    scene = Scene.of(xr.DataArray(np.zeros(tuple(sizes.values())), dims=dims), **kwargs)
    panel = scene.panels[0]
    assert scene.dim == time
    assert scene.n == sizes[time]
    assert panel.x.dim == drawn[1]
    assert drawn[0] is None or panel.y.dim == drawn[0]
    assert tuple(slider.dim for slider in scene.sliders) == sliders
    assert scene.kind == ("line" if drawn[0] is None or "hue" in kwargs else "image")


def test_dates_are_like_time_whatever_they_are_called():
    field = xr.DataArray(np.zeros((2, 3, 4)), dims=("a", "b", "c"))
    field = field.assign_coords(b=np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "M8[ns]"))
    assert Scene.of(field).dim == "b"
    assert Scene.of(field.drop_vars("b").assign_coords(c=("c", range(4), {"axis": "T"}))).dim == "c"


@pytest.mark.parametrize(
    ("dims", "kwargs", "match"),
    [
        (("a", "b", "c", "d"), {}, r"along which of \('a', 'b', 'c', 'd'\).* dim="),
        (("time", "t", "x"), {}, "along which of"),
        (("time", "y", "x"), {"dim": "z"}, r"dim='z' is no dimension .*\('time', 'y', 'x'\)"),
        (("time", "y", "x"), {"x": "z"}, r"x='z' is neither a dimension nor a coordinate"),
        (("time", "y", "x"), {"x": "y", "y": "y"}, "use one dimension twice"),
        (("time", "y", "x"), {"col": "q"}, "col='q' is no dimension"),
        (("time", "y", "x"), {"y": "y", "hue": "x"}, "y='y' draws a picture and hue='x'"),
        (("time",), {}, r"has dimensions \('time',\): beside dim='time' there is none to draw"),
        (("time", "y", "x"), {"aspect": "wide"}, "aspect='wide'"),
    ],
)
def test_an_error_names_argument_or_dimension(dims, kwargs, match):
    field = xr.DataArray(np.zeros((2,) * len(dims)), dims=dims, name="u")
    with pytest.raises(ValueError, match=match):
        Scene.of(field, **kwargs)


def test_what_is_no_number_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"'z' is complex: play its \.real"):
        Scene.of(xr.DataArray(np.zeros((2, 2, 2), "c8"), dims=("time", "y", "x"), name="z"))
    with pytest.raises(TypeError, match=r"expected a DataArray, Dataset, .* got str"):
        Scene.of("text")
    with pytest.raises(KeyError, match=r"no variable 'v'; there are \['u'\]"):
        Scene.of(xr.Dataset({"u": (("time", "x"), np.zeros((2, 2)))}), names="v")


def test_col_and_variables_are_panels_on_one_clock():
    field = telling().expand_dims(level=[10.0, 20.0]).assign_attrs(units="K")
    scene = Scene.of(field, col="level")
    assert [panel.title for panel in scene.panels] == ["level = 10", "level = 20"]
    assert [panel.colour for panel in scene.panels] == [0, 0]
    ds = xr.Dataset({"u": telling(), "v": telling() + 1.0, "t0": ("time", np.zeros(20))})
    scene = Scene.of(ds)
    assert [panel.title for panel in scene.panels] == ["u", "v"]
    assert [panel.colour for panel in scene.panels] == [0, 1]
    np.testing.assert_array_equal(scene.field(scene.panels[1], 3), ds.v[3].values[::-1])
    with pytest.raises(ValueError, match="'t0'"):
        Scene.of(ds, names=["u", "t0"])


def test_sliders_choose_what_is_shown():
    field = xr.concat([telling(), telling() + 0.5], "level").transpose("time", "y", "level", "x")
    field = field.assign_coords(level=("level", [1000, 500], {"units": "hPa"}))
    scene = Scene.of(field, x="x", y="y")
    assert scene.sliders[0].to_json() == {
        "dim": "level",
        "size": 2,
        "label": "level [hPa]",
        "values": ["1000", "500"],
    }
    up = scene.at([1])
    np.testing.assert_array_equal(
        up.field(up.panels[0], 4), field.isel(time=4, level=1).values[::-1]
    )
    with pytest.raises(IndexError, match="position 2 of 'level' is not in 0 to 1"):
        scene.at([2])
    with pytest.raises(ValueError, match="expected 1 positions"):
        scene.at([])


# --- what a picture shows -----------------------------------------------------------------------


@pytest.mark.parametrize("decreasing", [(), ("y",), ("x",), ("y", "x")])
@pytest.mark.parametrize("xincrease", [True, False, None])
@pytest.mark.parametrize("yincrease", [True, False, None])
def test_a_picture_lies_as_imshow_of_xarray_draws_it(decreasing, xincrease, yincrease):
    field = telling().isel({dim: slice(None, None, -1) for dim in decreasing})
    scene = Scene.of(field, xincrease=xincrease, yincrease=yincrease)
    panel = scene.panels[0]
    figure, ax = plt.subplots()
    image = field[2].plot.imshow(ax=ax, xincrease=xincrease, yincrease=yincrease)
    left, right, bottom, top = image.get_extent()
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    plt.close(figure)
    assert (panel.x.lo, panel.x.hi, panel.y.lo, panel.y.hi) == (x0, x1, y0, y1)
    # What is drawn at the top left corner of the axes.
    drawn = image.get_array().data
    drawn = drawn if (top > bottom) == (y1 > y0) else drawn[::-1]
    drawn = drawn if (right > left) == (x1 > x0) else drawn[:, ::-1]
    np.testing.assert_array_equal(scene.field(panel, 2), drawn)


def test_a_transposed_field_is_drawn_upright():
    np.testing.assert_array_equal(
        shown(telling().transpose("x", "time", "y"), 3, x="x", y="y"), telling()[3].values[::-1]
    )


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_each_cell_of_an_uneven_axis_shows_the_value_in_whose_cell_it_lies(steps, down, flipped):
    values = np.cumsum([0.0, *steps])
    values = -values if down else values
    axis = axis_of(xr.DataArray(values, dims="x", name="x"), "x", len(values), increase=not flipped)
    assert (axis.lo < axis.hi) == (not flipped)
    centres = axis.lo + (axis.hi - axis.lo) * (np.arange(axis.size) + 0.5) / axis.size
    edges = edges_of(values) if len(values) > 1 else np.array([values[0] - 0.1, values[0] + 0.1])
    low, high = np.minimum(edges[:-1], edges[1:]), np.maximum(edges[:-1], edges[1:])
    slack = 0.03 * np.abs(np.diff(edges)).max() + 1e-12  # even within two per cent is even
    inside = (centres >= low[axis.places] - slack) & (centres <= high[axis.places] + slack)
    assert inside.all()


def test_uneven_coordinates_are_drawn_as_pcolormesh_does():
    field = telling().assign_coords(x=[0, 1, 2, 4, 8, 16, 32, 64], y=[0, 10, 11, 12, 13, 20])
    scene = Scene.of(field)
    panel = scene.panels[0]
    picture = scene.field(panel, 1)
    for row, column in [(0, 0), (5, 17), (picture.shape[0] - 1, picture.shape[1] - 1)]:
        x = panel.x.lo + (panel.x.hi - panel.x.lo) * (column + 0.5) / picture.shape[1]
        y = panel.y.hi - (panel.y.hi - panel.y.lo) * (row + 0.5) / picture.shape[0]
        i = np.searchsorted(edges_of(field.y.values.astype(float)), y) - 1
        j = np.searchsorted(edges_of(field.x.values.astype(float)), x) - 1
        assert picture[row, column] == field.values[1, i, j]
    window, step = (0.2, 0.7, 0.1, 0.9), 3
    r0, r1, c0, c1 = panel.grid.box(window)
    np.testing.assert_array_equal(
        scene.field(panel, 1, window=window, step=step), picture[r0:r1:step, c0:c1:step]
    )


def curvilinear(n=3, rows=20, columns=30):
    r, phi = np.meshgrid(np.linspace(1, 2, rows), np.linspace(0, np.pi / 2, columns), indexing="ij")
    values = np.arange(n * rows * columns, dtype="f8").reshape(n, rows, columns)
    return xr.DataArray(
        values,
        {"lon": (("r", "p"), r * np.cos(phi)), "lat": (("r", "p"), r * np.sin(phi))},
        ("time", "r", "p"),
        name="polar",
    )


def test_curvilinear_coordinates_are_drawn_as_pcolormesh_does():
    field = curvilinear()
    scene = Scene.of(field, x="lon", y="lat")
    panel = scene.panels[0]
    picture = scene.field(panel, 2)
    rows, columns = picture.shape
    figure, ax = plt.subplots()
    mesh = field[2].plot.pcolormesh(x="lon", y="lat", ax=ax, infer_intervals=True)
    corners = mesh.get_coordinates()
    plt.close(figure)
    assert panel.x.lo == pytest.approx(corners[..., 0].min())
    assert panel.y.hi == pytest.approx(corners[..., 1].max())
    # Far inside and far outside of the quarter ring.
    y, x = np.mgrid[:rows, :columns]
    x = panel.x.lo + (panel.x.hi - panel.x.lo) * (x + 0.5) / columns
    y = panel.y.hi - (panel.y.hi - panel.y.lo) * (y + 0.5) / rows
    r, phi = np.hypot(x, y), np.arctan2(y, x)
    inside = (r > 1) & (r < 2) & (phi > 0) & (phi < np.pi / 2)
    assert np.isfinite(picture[inside]).all()
    assert np.isnan(picture[(r < 0.9) | (r > 2.1)]).all()
    i, j = np.divmod(picture[inside] - field.values[2, 0, 0], 30)
    assert np.abs(r[inside] - (1 + i / 19)).max() < 0.6 / 19
    assert np.abs(phi[inside] - j * np.pi / 2 / 29).max() < 0.6 * np.pi / 2 / 29
    part = scene.field(panel, 2, window=(0.5, 1, 0, 0.5), step=2)
    np.testing.assert_array_equal(part, picture[: rows // 2 + rows % 2 : 2, columns // 2 :: 2])
    flipped = Scene.of(field, x="lon", y="lat", xincrease=False, yincrease=False)
    np.testing.assert_array_equal(flipped.field(flipped.panels[0], 2), picture[::-1, ::-1])
    value, text = scene.value(panel, 2, rows - 1, 0)  # the origin
    assert (value, text) == (None, "")
    row, column = np.argwhere(inside)[100]
    value, text = scene.value(panel, 2, row, column)
    assert value == picture[row, column]
    assert text.startswith("lon = ")


@given(st.integers(2, 9), st.integers(2, 9), st.floats(0, 1), st.floats(-3, 3))
def test_each_pixel_of_a_curvilinear_picture_shows_a_cell_that_it_lies_in(m, n, bend, turn):
    i, j = np.mgrid[:m, :n].astype(float)
    x, y = i + bend * np.sin(j), 2 * j + bend * np.cos(1.3 * i)
    x, y = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    places, (x0, x1), (y0, y1) = nearest_cells(x, y)
    size = places.shape[0]
    cx, cy = (edges_of(edges_of(c, 0), 1) for c in (x, y))
    outlines = [
        Path(np.array([[c[a, b], d[a, b]] for a, b in ring(p, q)]))
        for c, d in [(cx, cy)]
        for p in range(m)
        for q in range(n)
    ]
    slack = 2e-3 * max(x1 - x0, y1 - y0) / size
    for row, column in np.random.default_rng(0).integers(0, size, (40, 2)):
        point = x0 + (column + 0.5) * (x1 - x0) / size, y1 - (row + 0.5) * (y1 - y0) / size
        place = places[row, column]
        if place >= 0:
            assert any(outlines[place].contains_point(point, radius=r) for r in (slack, -slack))
        else:
            near = [
                outlines[k].contains_point(point, radius=r)
                for k in range(m * n)
                for r in (slack, -slack)
            ]
            inside = [near[2 * k] and near[2 * k + 1] for k in range(m * n)]
            assert not any(inside)


def ring(p, q):
    return [(p, q), (p, q + 1), (p + 1, q + 1), (p + 1, q), (p, q)]


def test_longitudes_go_on_where_they_begin_anew():
    lon, lat = np.meshgrid(np.linspace(0, 355, 72), np.linspace(-60, 60, 24))
    lon = (lon + 20 * np.sin(np.radians(lat))) % 360
    field = xr.DataArray(
        np.zeros((2, 24, 72)),
        {"lon": (("y", "x"), lon, {"units": "degrees_east"}), "lat": (("y", "x"), lat)},
        ("time", "y", "x"),
    )
    scene = Scene.of(field, x="lon", y="lat")
    (panel,) = scene.panels
    assert 360 < panel.x.hi - panel.x.lo < 410
    assert np.isfinite(scene.field(panel, 0)).mean() > 0.85


def test_coordinates_without_any_order_end_too():
    chance = np.random.default_rng(0)
    places, _, _ = nearest_cells(chance.random((90, 90)), chance.random((90, 90)))
    assert places.shape == (512, 512)


def test_curvilinear_coordinates_need_each_other():
    with pytest.raises(ValueError, match="needs both x= and y="):
        Scene.of(curvilinear(), x="lon")
    broken = curvilinear()
    broken.lon.values[0, 0] = np.nan
    with pytest.raises(ValueError, match="'lon' and 'lat': have values that are not finite"):
        Scene.of(broken, x="lon", y="lat")


def test_text_and_dates_along_an_axis_have_ticks():
    field = telling().assign_coords(x=list("abcdefgh"))
    assert Scene.of(field).panels[0].x.ticks[0] == (0.5 / 8, "a")
    days = np.array("2000-01-01", "M8[D]") + np.arange(6)
    axis = Scene.of(field.assign_coords(y=days)).panels[0].y
    assert axis.ticks[0] == (0.5 / 6, "2000-01-01")
    assert axis.ticks[-1] == (5.5 / 6, "2000-01-06")


def test_a_coordinate_in_no_order_is_drawn_by_index():
    axis = Scene.of(telling().assign_coords(x=[3, 1, 2, 0, 4, 5, 6, 7])).panels[0].x
    assert (axis.lo, axis.hi, axis.label) == (-0.5, 7.5, "x (index)")


def test_labels_follow_xarray():
    field = telling(attrs={"long_name": "temperature", "units": "K"})
    field = field.assign_coords(x=field.x.assign_attrs(unit="m"), run=("", 7)[1])
    scene = Scene.of(field)
    panel = scene.panels[0]
    assert (panel.label, panel.x.label, panel.y.label) == ("temperature [K]", "x [m]", "y")
    assert scene.title == "run = 7"


def test_units_of_pint_are_shown_and_values_are_read():
    ureg = pint.UnitRegistry()
    field = telling()
    field = field.copy(data=field.values * ureg.kelvin)
    assert Scene.of(field).panels[0].label == "told [kelvin]"
    np.testing.assert_array_equal(shown(field, 1), telling()[1].values[::-1])


def test_lines_have_one_row_each():
    field = telling().isel(y=slice(3))
    scene = Scene.of(field, hue="y")
    panel = scene.panels[0]
    assert panel.lines == ("y = 0", "y = 1", "y = 2")
    np.testing.assert_array_equal(scene.field(panel, 5), field[5].values)
    np.testing.assert_array_equal(scene.field(panel, 5, step=3), field[5].values[:, ::3])
    one = Scene.of(field.isel(y=1))
    np.testing.assert_array_equal(one.field(one.panels[0], 5), field[5, 1:2].values)


def test_pictures_are_in_scale_if_both_axes_have_one_unit():
    assert Scene.of(telling()).panels[0].aspect == pytest.approx(16 / 6)
    metres = telling().assign_coords(x=telling().x.assign_attrs(units="m"))
    assert Scene.of(metres).panels[0].aspect is None
    assert Scene.of(metres, aspect="equal").panels[0].aspect == pytest.approx(16 / 6)
    assert Scene.of(metres, aspect=2).panels[0].aspect == 2.0


# --- how it is read -----------------------------------------------------------------------------


def on_disk(folder, values, dims=("time", "y", "x")):
    with BinrefWriter("u", dims=dims, output_path=folder) as writer:
        for step, one in enumerate(values):
            writer.write(one, time=0.5 * step)
    return folder


def zarr_backed(folder, field):
    field.to_dataset(name="u").to_zarr(folder, zarr_format=2, encoding={"u": {"chunks": (4, 3, 8)}})
    return folder


@pytest.mark.parametrize(
    "kind", ["numpy", "binref", "binref without dask", "computed", "chunks", "zarr", "zarr no dask"]
)
def test_any_storage_shows_the_same(kind, tmp_path):
    field = telling()
    if kind.startswith("binref"):
        on_disk(tmp_path, field.values)
        lazy = open_dataset(tmp_path, chunks=None if "without" in kind else {}).u
        assert isinstance(reader_of(lazy, "time"), Plain)
    elif kind == "computed":
        lazy = open_dataset(on_disk(tmp_path, field.values)).u * 1.0
    elif kind == "chunks":
        lazy = field.chunk(time=4, y=3)
    elif kind.startswith("zarr"):
        folder = zarr_backed(tmp_path / "z", field)
        lazy = xr.open_dataset(folder, engine="zarr", chunks=None if "no" in kind else {}).u
        assert isinstance(reader_of(lazy, "time"), Chunked)
    else:
        lazy = field
    scene = Scene.of(lazy)
    panel = scene.panels[0]
    for i in (0, 7, 3, 19):
        np.testing.assert_array_equal(scene.field(panel, i), field[i].values[::-1])
        np.testing.assert_array_equal(
            scene.field(panel, i, window=(0.25, 0.75, 0.5, 1), step=2),
            field[i].values[::-1][3:6:2, 2:6:2],
        )
    assert scene.value(panel, 5, 0, 7)[0] == field.values[5, 5, 7]
    if panel.reader.runs is not None:
        np.testing.assert_array_equal(
            panel.reader.series((slice(2, 9, 3), 1, 2)), field.values[2:9:3, 1, 2]
        )


def test_playing_decodes_each_chunk_once():
    backed = Backed(telling().values)
    lazy = telling().copy(data=da.from_array(backed, chunks=(5, 6, 8)))
    scene = Scene.of(lazy)
    for i in range(20):
        np.testing.assert_array_equal(
            scene.field(scene.panels[0], i, step=1 + i % 2),
            telling()[i].values[::-1][:: 1 + i % 2, :: 1 + i % 2],
        )
    assert backed.bytes == telling().nbytes


def test_a_large_chunk_is_not_kept():
    values = np.broadcast_to(np.float64(1), (40, 512, 512))  # 80 MiB
    backed = Backed(values)
    lazy = xr.DataArray(da.from_array(backed, chunks=(40, 512, 512)), dims=("time", "y", "x"))
    scene = Scene.of(lazy)
    scene.field(scene.panels[0], 3)
    assert backed.bytes == 512 * 512 * 8


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", ">f4", ">f8", ">i2"])
def test_any_real_dtype_becomes_native_floats(dtype):
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(dtype)
    made = shown(xr.DataArray(values, dims=("time", "y", "x")), 1)
    assert made.dtype.isnative
    assert made.dtype.kind == "f"
    np.testing.assert_array_equal(made, values[1][::-1].astype("f8"))


def test_frames_that_do_not_exist_are_an_error():
    scene = Scene.of(telling())
    np.testing.assert_array_equal(
        scene.field(scene.panels[0], -1), scene.field(scene.panels[0], 19)
    )
    with pytest.raises(IndexError, match="frame 20 of 'time' is not among 20 frames"):
        scene.field(scene.panels[0], 20)
