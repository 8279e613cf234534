"""One frame on matplotlib's axes: the very pixels of xarray's own picture."""

import io

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import colors
from matplotlib import pyplot as plt
from PIL import Image

from binref_sci import BinrefWriter, open_dataset
from binref_sci.notebook.formulas import drawable
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.movie import save
from binref_sci.notebook.picture import draw_frame, plot_frame, to_animation
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.still import png
from tests.kit import bytes_read
from tests.test_notebook_movie import array

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(draw):
    figure = plt.figure()
    draw()
    figure.canvas.draw()
    made = np.asarray(figure.canvas.buffer_rgba()).copy()
    plt.close(figure)
    return made


def labelled():
    data = array((4, 30, 50))
    return data.assign_coords(
        x=("x", np.linspace(0, 2, 50), {"units": "m", "long_name": "distance"}),
        y=("y", np.linspace(1, 0, 30)),
        height=2.0,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"vmin": 0, "vmax": 100},
        {"vmin": 20, "vmax": 60, "cmap": "magma"},
        {"vmin": -100, "vmax": 100, "cmap": "RdBu_r"},
        {"norm": colors.LogNorm(1, 100)},
        {"vmin": 0, "vmax": 100, "levels": 7},
        {"levels": [0, 10, 50, 100], "extend": "both"},
        {"vmin": 0, "vmax": 100, "yincrease": False},
        {"vmin": 0, "vmax": 100, "xincrease": False, "add_labels": False},
        {"vmin": 0, "vmax": 100, "add_colorbar": False},
        {"vmin": 0, "vmax": 100, "cbar_kwargs": {"orientation": "horizontal"}},
        {"vmin": 0, "vmax": 100, "x": "y", "y": "x"},
        {"vmin": 0, "vmax": 100, "interpolation": "bilinear", "alpha": 0.5},
    ],
    ids=lambda options: ",".join(options),
)
@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.chunk(time=1)], ids=["numpy", "dask"])
def test_it_is_xarrays_own_picture(options, make):
    data = make(labelled())
    theirs = dict(options)
    if isinstance(theirs.get("norm"), colors.LogNorm):
        theirs["norm"] = colors.LogNorm(1, 100)
    ours = drawn(lambda: plot_frame(data, 2, **options))
    wanted = drawn(lambda: data.isel(time=2).plot.imshow(**theirs))
    assert np.array_equal(ours, wanted)


@pytest.mark.parametrize("kind", ["i2", "u1", "f8", ">f4", "?"])
def test_any_dtype(kind):
    data = array((3, 10, 12), "i2").astype(kind)
    ours = drawn(lambda: plot_frame(data, 1, vmin=0, vmax=30))
    assert np.array_equal(ours, drawn(lambda: data.isel(time=1).plot.imshow(vmin=0, vmax=30)))


def test_limits_are_those_of_the_whole_run():
    data = array((10, 8, 8), "i2")
    assert plot_frame(data, 0).get_clim() == (0.0, 3 * 9 + 21)
    assert plot_frame(data, 0, limits="frame").get_clim() == (0.0, 21.0)
    assert plot_frame(data, -1, limits="frame").get_clim() == (27.0, 48.0)
    assert plot_frame(data, 0, limits=(1, 2)).get_clim() == (1.0, 2.0)
    with pytest.raises(IndexError, match="frame 10"):
        plot_frame(data, 10)


def test_it_draws_on_the_axes_it_is_given():
    figure, axes = plt.subplots(1, 2)
    artist = plot_frame(array(), 1, ax=axes[1])
    assert artist.axes is axes[1]
    assert not axes[0].images
    assert figure.axes[-1].get_ylabel() == "temperature [K]"


@pytest.mark.parametrize("coordinate", ["uneven", "curvilinear", "named", "text"])
def test_what_imshow_would_draw_wrong_is_drawn_right(coordinate):
    data = array((2, 20, 30), "i2")
    options = {}
    if coordinate == "uneven":
        data = data.assign_coords(x=np.linspace(0, 1, 30) ** 3)
    elif coordinate == "curvilinear":
        y, x = np.mgrid[0:1:20j, 0:1:30j]
        data = data.assign_coords(lon=(("y", "x"), x + 0.2 * y), lat=(("y", "x"), y))
        options = {"x": "lon", "y": "lat"}
    elif coordinate == "named":
        data = data.assign_coords(depth=("y", np.linspace(0, 5, 20), {"units": "m"}))
        options = {"y": "depth"}
    else:
        data = data.assign_coords(y=[f"s{k}" for k in range(20)])
    artist = plot_frame(data, 1, **options)
    scene = Scene.of(data, **options)
    panel = scene.panels[0]
    left, right, low, high = artist.get_extent()
    assert (left, right) == pytest.approx((panel.x.lo, panel.x.hi))
    assert sorted([low, high]) == pytest.approx(sorted([panel.y.lo, panel.y.hi]))
    assert artist.get_array().shape == panel.shape
    assert artist.axes.get_xlabel() == panel.x.label
    assert artist.axes.get_ylim()[0] < artist.axes.get_ylim()[1]
    if coordinate == "uneven":
        shown = np.asarray(artist.get_array())
        wide = [np.count_nonzero(shown[0] == value) for value in np.unique(shown[0])]
        assert wide[0] < wide[-1], "cells are as wide as they are"


def test_several_panels():
    data = array((3, 8, 8)).expand_dims(level=[1, 2, 3]).transpose("time", "level", "y", "x")
    artists = plot_frame(data, 1, col="level")
    assert len(artists) == 3
    assert len({artist.axes for artist in artists}) == 3
    assert artists[0].axes.get_title().startswith("level = 1")
    _, axes = plt.subplots(1, 2)
    with pytest.raises(ValueError, match="3 panels, but ax= has 2 axes"):
        plot_frame(data, 1, col="level", ax=axes)


def test_lines():
    x = np.linspace(0, 1, 20)
    data = xr.DataArray(
        np.stack([np.sin(6 * x + t) for t in range(5)]),
        dims=("time", "x"),
        coords={"x": x},
        name="u",
    )
    (line,) = plot_frame(data, 2)
    assert np.array_equal(line.get_ydata(), data.values[2].astype(line.get_ydata().dtype))
    assert np.allclose(line.get_xdata(), x)
    low, high = line.axes.get_ylim()
    assert low < data.min()
    assert high > data.max()


def test_only_one_frame_is_read(tmp_path):
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=tmp_path) as writer:
        for step in range(100):
            writer.write(np.full((100, 100), step, "f4"), time=float(step))
    data = open_dataset(tmp_path).u
    plot_frame(data, 50, vmin=0, vmax=100)  # imports
    before = bytes_read()
    assert plot_frame(data, 70, vmin=0, vmax=100).get_array().max() == 70
    assert bytes_read() - before < 2**20, "of 4 MB; fonts are read too"


def test_an_animation_to_style():
    data = array((5, 10, 10))
    scene = Scene.of(data)
    film = to_animation(scene, Limits.of(scene, Rules()).colourings, fps=10)
    (image,) = film._func(3)
    assert np.array_equal(
        np.nan_to_num(np.ma.filled(image.get_array(), np.nan)), np.nan_to_num(data.values[3])
    )
    assert "0.75 s" in image.axes.get_title()
    film._draw_was_started = True  # nobody wants to see it here


def test_a_still_is_small_and_has_the_colours_of_the_film():
    noise = np.random.default_rng(0).normal(size=(2, 512, 512))
    for values in (noise, np.sin(np.arange(2 * 512 * 512).reshape(2, 512, 512) / 1e4)):
        scene = Scene.of(xr.DataArray(values, dims=("time", "y", "x")))
        made = png(scene, Limits.of(scene, Rules()).colourings, 1)
        assert len(made) <= 100_000
        with Image.open(io.BytesIO(made)) as image:
            assert image.format == "PNG"
            assert min(image.size) > 150


def test_a_film_of_frames_reads_the_frame_it_is_asked_for():
    scene = Scene.of(array())
    colourings = Limits.of(scene, Rules()).colourings
    assert draw_frame(scene, colourings, -1).get_array().max() == pytest.approx(
        float(array()[-1].max())
    )


def test_player_and_accessor_draw_too():
    import binref_sci

    data = array((5, 10, 10))
    player = binref_sci.animate(data, vmin=0, vmax=50, index=3)
    try:
        _, axes = plt.subplots(1, 2)
        shown = player.plot_frame(ax=axes[0])
        assert shown.get_clim() == (0, 50)
        assert np.nanmax(np.ma.filled(shown.get_array(), np.nan)) == data[3].max()
        other = data.binref.plot_frame(3, ax=axes[1], vmin=0, vmax=50)
        assert np.ma.allequal(shown.get_array(), other.get_array())
        film = player.to_animation()
        film._draw_was_started = True
        assert film._interval == 50
    finally:
        player.close()


BROKEN = r"$\frac{"


@pytest.mark.parametrize("lines", [False, True], ids=["image", "line"])
def test_a_formula_that_matplotlib_cannot_read_is_shown_as_it_is_written(tmp_path, lines):
    data = array((3, 6, 8), long_name=f"flux {BROKEN}", units=BROKEN).fillna(0.0)
    data = data.assign_coords(
        x=("x", np.arange(8.0), {"long_name": BROKEN}),
        y=("y", [f"{BROKEN} {i}" for i in range(6)]),
        time=("time", np.arange(3.0), {"units": BROKEN}),
        place=BROKEN,
    )
    data = data.rename(f"T {BROKEN}")
    scene = Scene.of(data, hue="y" if lines else None)
    colourings = Limits.of(scene, Rules()).colourings
    figure = plt.figure()
    draw_frame(scene, colourings, 1)
    assert any(
        BROKEN in text.get_text().replace(r"\$", "$") for text in figure.findobj(mpl.text.Text)
    )
    figure.savefig(io.BytesIO())
    assert png(scene, colourings, 1)
    save(scene, colourings, tmp_path / "a.gif")
    film = to_animation(scene, colourings)
    film._func(2)
    film._draw_was_started = True  # nobody wants to see it here
    plt.gcf().canvas.draw()


@pytest.mark.parametrize("levels", [None, 1, 2, 5])
@pytest.mark.parametrize("ends", [(-1e300, 1e300), (3.0, 3.0), (0.0, 1000.0)])
def test_a_bar_of_any_range_is_drawn_without_a_warning(levels, ends):
    field = xr.DataArray(np.array(ends).reshape(1, 1, 2), dims=("time", "y", "x"))
    scene = Scene.of(field)
    assert png(scene, Limits.of(scene, Rules(levels=levels)).colourings, 0)


def test_a_formula_that_it_can_read_stays_one():
    assert drawable("speed [$m\\,s^{-1}$]") == "speed [$m\\,s^{-1}$]"
    assert drawable("price [$]") == "price [\\$]"
    assert drawable("a $x$ and $\\frac{") == "a \\$x\\$ and \\$\\frac{"


@pytest.mark.parametrize("options", [{"levels": 1}, {"levels": [20.0]}, {"levels": 1, "vmin": 0}])
@pytest.mark.parametrize("x", [None, [0.0, 1.0, 4.0]], ids=["even", "uneven"])
def test_a_single_level_has_a_colour_on_each_side(options, x):
    """xarray's own picture of one level cannot be drawn with a colour bar."""
    data = array() if x is None else array().isel(x=slice(3)).assign_coords(x=x)
    figure = plt.figure()
    artist = plot_frame(data, 2, **options)
    figure.canvas.draw()
    values, level = artist.get_array(), artist.norm.boundaries[1]
    low, high = (artist.to_rgba(side) for side in (level - 1e6, level + 1e6))
    assert low != high
    found = artist.to_rgba(values)[~np.ma.getmaskarray(values)]
    np.testing.assert_array_equal(
        found, np.where((values.compressed() < level)[:, None], low, high)
    )
    assert len(figure.axes) == 2  # the picture and its bar


def test_a_frame_between_two_is_refused():
    with pytest.raises(TypeError, match=r"a frame of 'time' is a whole number, got 0\.5"):
        plot_frame(array(), 0.5)
