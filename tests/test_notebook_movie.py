"""Films: the right pixels, the right colours, whole files or none, memory that does not grow."""

import io
import os
import signal
import subprocess
import time
from pathlib import Path

import imageio_ffmpeg
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import style
from PIL import Image

from binref_sci.errors import FormatError
from binref_sci.notebook import animated
from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.inks import opaque, palette_ink, rgb_ink
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.movie import picture, save
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.strip import Strip
from tests.kit import run, started, until


def array(shape=(6, 40, 60), kind="f4", **attrs):
    """A ramp that moves, with a bad block; every frame differs from every other one."""
    steps, rows, columns = np.indices(shape)
    data = (columns + 2.0 * rows + 3.0 * steps).astype(kind)
    if kind[0] == "f":
        data[:, 5:9, 10:14] = np.nan
    return xr.DataArray(
        data,
        dims=("time", "y", "x"),
        coords={"time": ("time", np.arange(shape[0]) * 0.25, {"units": "s"})},
        name="temperature",
        attrs={"units": "K", **attrs},
    )


def scene_of(data, *, dim=None, **rules):
    look = {k: rules.pop(k) for k in ("col", "x", "y", "hue", "aspect", "names") if k in rules}
    scene = Scene.of(data, dim, **look)
    return scene, Limits.of(scene, Rules(**rules)).colourings


def frames_of(path):
    """Each frame of an animated picture as a viewer composes it, RGB."""
    with Image.open(path) as image:
        made = []
        for k in range(getattr(image, "n_frames", 1)):
            image.seek(k)
            made.append(np.asarray(image.convert("RGB")))
        return np.stack(made)


def frames_of_mp4(path):
    size = probe(path)["size"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path, "-f", "rawvideo",
               "-pix_fmt", "rgb24", "-fps_mode", "passthrough", "-"]  # fmt: skip
    raw = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, size[1], size[0], 3)


def probe(path):
    reader = imageio_ffmpeg.read_frames(str(path))
    try:
        return next(reader)
    finally:
        reader.close()


def wanted(scene, colourings, chosen=None, **options):
    """Each frame as it should be, from the codes of the player alone."""
    chosen = range(scene.n) if chosen is None else chosen
    canvas = Canvas(scene, colourings, first=chosen[0], **options)
    return canvas, np.stack([picture(canvas, i) for i in chosen])


# --- pixels -------------------------------------------------------------------------------------


def test_the_pixels_of_the_field_are_the_colours_of_the_codes():
    scene, colourings = scene_of(array((3, 128, 256)))
    canvas, made = wanted(scene, colourings)
    rect = canvas.layout.panels[0]
    assert (rect.width, rect.height) == (512, 256), "two pixels for each cell"
    for i in range(3):
        codes = colourings[0].codes(scene.field(scene.panels[0], i))
        exact = opaque(colourings[0], canvas.layout)[codes]
        assert np.array_equal(made[i][rect.slices], exact.repeat(2, 0).repeat(2, 1))


def test_bad_values_show_the_page_or_their_own_colour():
    scene, colourings = scene_of(array())
    canvas, made = wanted(scene, colourings)
    assert (made[0][canvas.layout.panels[0].slices] == 255).all(axis=2).any()
    red = mpl.colormaps["viridis"].with_extremes(bad="red")
    scene, colourings = scene_of(array(), cmap=red)
    canvas, made = wanted(scene, colourings)
    assert (made[0][canvas.layout.panels[0].slices] == (255, 0, 0)).all(axis=2).any()


@pytest.mark.parametrize("shape", [(2, 3000, 2000), (2, 2049, 7), (2, 1, 1), (2, 1080, 1080)])
def test_fields_of_any_size_fit(shape):
    scene, colourings = scene_of(array(shape), aspect="equal")
    canvas, _ = wanted(scene, colourings)
    assert max(canvas.size) < 1500
    assert min(canvas.size) > 100
    rect = canvas.layout.panels[0]
    assert rect.left >= 0
    assert rect.left + rect.width <= canvas.size[0]
    if shape[1] == 3000:
        field = np.nan_to_num(scene.field(scene.panels[0], 0), nan=0)[:3, :3]
        assert canvas._grids[0]._factors == (3, 3)
        corner = canvas._grids[0].field(scene, 0)[0, 0]
        assert corner == pytest.approx(field.mean()), "a block, not one cell of it"
    if shape[1] == 1080:
        assert rect.width == 1080


def test_the_picture_has_the_size_that_is_asked_for(tmp_path):
    scene, colourings = scene_of(array())
    save(scene, colourings, tmp_path / "x.png", size=(640, 360), index=2)
    with Image.open(tmp_path / "x.png") as image:
        assert image.size == (640, 360)
    with pytest.raises(ValueError, match="no room for 1 x 1 pictures"):
        save(scene, colourings, tmp_path / "y.png", size=(100, 80))
    assert not (tmp_path / "y.png").exists()


def test_axes_bar_and_title_do_not_touch_the_field():
    """Outside of field and title nothing ever changes, and there is a frame around it."""
    scene, colourings = scene_of(array())
    canvas, made = wanted(scene, colourings)
    still = (made == made[0]).all(axis=(0, 3))
    rect, title = canvas.layout.panels[0], canvas.layout.title
    outside = np.ones(still.shape, bool)
    outside[rect.slices] = False
    outside[title.slices] = False
    assert still[outside].all()
    assert not still[title.slices].all()
    ring = made[0][rect.top - 1, rect.left : rect.left + rect.width]
    assert (ring == 0).all()


def test_labels_and_units_are_there_as_matplotlib_writes_them():
    scene, colourings = scene_of(array(), vmin=0, vmax=100)
    canvas = Canvas(scene, colourings)
    axes, bar = canvas.layout.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")
    assert bar.get_ylabel() == "temperature [K]"
    assert axes.get_xlim() == (-0.5, 59.5)
    assert "0" in [text.get_text() for text in bar.get_yticklabels()]


def test_several_panels_share_the_clock():
    data = array((3, 16, 24)).expand_dims(level=[1, 2, 3]).transpose("time", "level", "y", "x")
    scene, colourings = scene_of(data * xr.DataArray([1.0, 2.0, 3.0], dims="level"), col="level")
    canvas, made = wanted(scene, colourings)
    assert len(canvas.layout.panels) == 3
    for panel, rect in zip(scene.panels, canvas.layout.panels, strict=True):
        zoom = rect.height // 16
        codes = colourings[0].codes(scene.field(panel, 1))
        exact = opaque(colourings[0], canvas.layout)[codes].repeat(zoom, 0).repeat(zoom, 1)
        assert np.array_equal(made[1][rect.slices], exact)


def test_sliders_stand_still_and_are_told():
    data = array((3, 8, 8)).expand_dims(level=[1000, 850]).transpose("time", "level", "y", "x")
    data.level.attrs["units"] = "hPa"
    scene, colourings = scene_of(data)
    canvas = Canvas(scene.at([1]), colourings)
    assert canvas._title(2).replace("\u2007", "") == "level = 850 hPa, t = 0.50 s"


def test_a_dark_style_is_followed():
    with style.context("dark_background"):
        scene, colourings = scene_of(array())
        canvas, made = wanted(scene, colourings)
        assert tuple(made[0][-1, 0]) == (0, 0, 0)
        rect = canvas.layout.panels[0]
        assert (made[0][rect.top - 1, rect.left] == 255).all()
        assert (made[0][canvas.layout.title.slices] > 200).any()


# --- the title ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        lambda i: f"t = {i / 4:7.2f} s".replace(" ", "\u2007").replace("\u2007s", " s"),
        lambda i: f"2020-01-{i % 28 + 1:02d} {i % 24:02d}:00",
        lambda i: f"{i} days",
        lambda i: "$x^2$ = " + str(i),
        lambda i: f"iteration {i:04d}, ffi Wü {'AVToy'[i % 5]}",
        lambda i: "",
    ],
)
@pytest.mark.parametrize("font", ["DejaVu Sans", "DejaVu Serif"])
def test_every_title_is_the_one_that_matplotlib_draws(label, font):
    with mpl.rc_context({"font.family": font}):
        scene, colourings = scene_of(array())
        strip = Strip(Canvas(scene, colourings).layout)
        numbers = [*range(30), 99, 100, 101, 444, 1111, 7777]
        for i in numbers:
            assert np.array_equal(strip.draw(label(i)), strip._whole(label(i))), label(i)


def test_few_titles_are_drawn_whole(monkeypatch):
    scene, colourings = scene_of(array((400, 4, 4)))
    strip = Strip(Canvas(scene, colourings).layout)
    drawn = []
    whole = strip._whole
    monkeypatch.setattr(strip, "_whole", lambda text: drawn.append(text) or whole(text))
    for i in range(400):
        strip.draw(scene.label(i))
    assert len(drawn) < 60


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["gif", "apng", "webp"])
def test_animated_pictures_have_exact_colours_in_every_frame(tmp_path, suffix):
    scene, colourings = scene_of(array())
    path = save(scene, colourings, tmp_path / f"x.{suffix}", fps=20)
    found = frames_of(path)
    canvas, exact = wanted(scene, colourings)
    assert found.shape == exact.shape
    rect = canvas.layout.panels[0].slices
    for k in range(scene.n):
        assert np.array_equal(found[k][rect], exact[k][rect])
    # Text and bar have what colours are left; nobody sees the difference.
    assert np.abs(found.astype(int) - exact).max(axis=3).mean() < 1
    outside = found.copy()
    outside[:, rect[0], rect[1]] = 0
    outside[:, canvas.layout.title.slices[0]] = 0
    assert (outside == outside[0]).all(), "no flicker"


def test_a_gif_has_one_palette_no_dithering_and_the_time_of_each_frame(tmp_path):
    scene, colourings = scene_of(array((30, 16, 16)))
    path = save(scene, colourings, tmp_path / "x.gif", fps=30)
    with Image.open(path) as image:
        durations = []
        for k in range(image.n_frames):
            image.seek(k)
            durations.append(image.info["duration"])
    assert sum(durations) == 1000, "rounding to hundredths does not add up"
    assert set(durations) == {30, 40}
    data = path.read_bytes()
    ink = palette_ink(Canvas(scene, colourings).layout, colourings)
    assert data[13 : 13 + 768] == ink.palette.tobytes()


def test_once_or_for_ever(tmp_path):
    scene, colourings = scene_of(array())
    for suffix in ("gif", "apng", "webp"):
        for loop in (True, False):
            path = save(scene, colourings, tmp_path / f"x.{suffix}", loop=loop)
            with Image.open(path) as image:
                found = image.info.get("loop")
                assert found == (0 if loop else (None if suffix == "gif" else 1))


def test_two_colormaps_share_a_palette(tmp_path):
    data = xr.Dataset({"a": array((3, 16, 16)), "b": -array((3, 16, 16))})
    scene, colourings = scene_of(data, cmap={"a": "viridis", "b": "magma"})
    assert len(colourings) == 2
    found = frames_of(save(scene, colourings, tmp_path / "x.gif"))
    canvas, exact = wanted(scene, colourings)
    for rect in canvas.layout.panels:
        assert np.abs(found[1][rect.slices].astype(int) - exact[1][rect.slices]).max() <= 8


def test_an_mp4_has_every_frame_with_its_colours_and_size(tmp_path):
    scene, colourings = scene_of(array((12, 64, 96)))
    path = save(scene, colourings, tmp_path / "x.mp4", fps=25)
    about = probe(path)
    canvas, exact = wanted(scene, colourings)
    assert about["size"] == canvas.size
    assert about["fps"] == 25
    assert about["codec"] == "h264"
    assert "yuv420p" in about["pix_fmt"]
    found = frames_of_mp4(path)
    assert found.shape == exact.shape
    difference = np.abs(found.astype(int) - exact)
    assert difference.mean() < 3
    # Each frame is its own one: nearer to what it should be than to any other.
    rect = canvas.layout.panels[0].slices
    for k in range(12):
        apart = [np.abs(found[k][rect].astype(int) - other[rect]).mean() for other in exact]
        assert int(np.argmin(apart)) == k
    header = path.read_bytes()
    assert header.index(b"moov") < header.index(b"mdat"), "plays while it loads"


@pytest.mark.parametrize("suffix", ["mp4", "gif", "apng", "webp"])
def test_frames_are_chosen(tmp_path, suffix):
    scene, colourings = scene_of(array((20, 8, 8)))
    read = frames_of_mp4 if suffix == "mp4" else frames_of
    path = tmp_path / f"x.{suffix}"
    save(scene, colourings, path, frames=slice(2, None, 5))
    canvas, exact = wanted(scene, colourings, [2, 7, 12, 17])
    found = read(path)
    assert found.shape == exact.shape
    rect = canvas.layout.panels[0].slices
    assert np.abs(found.astype(int) - exact)[:, rect[0], rect[1]].mean() < 6
    save(scene, colourings, path, frames=[-1, 0])
    assert len(read(path)) == 2


def test_a_png_is_one_frame_with_all_its_colours(tmp_path):
    scene, colourings = scene_of(array())
    path = save(scene, colourings, tmp_path / "x.png", index=3)
    _, exact = wanted(scene, colourings, [3])
    assert np.array_equal(frames_of(path), exact)


def test_frames_that_do_not_change_keep_their_time(tmp_path):
    still = array((4, 8, 8)) * 0 + 1.0
    del still["time"]
    still = still.drop_vars("time", errors="ignore")
    for suffix in ("gif", "apng", "webp"):
        scene, colourings = scene_of(still)
        found = frames_of(save(scene, colourings, tmp_path / f"x.{suffix}"))
        assert len(found) == 4


def test_lines_are_films_too(tmp_path):
    x = np.linspace(0, 1, 50)
    data = xr.DataArray(
        np.stack([np.sin(6 * x + t) for t in range(5)]),
        dims=("time", "x"),
        coords={"x": x},
        name="u",
    )
    for suffix, read in [("gif", frames_of), ("mp4", frames_of_mp4), ("apng", frames_of)]:
        scene, colourings = scene_of(data)
        found = read(save(scene, colourings, tmp_path / f"x.{suffix}"))
        assert len(found) == 5
        canvas, exact = wanted(scene, colourings)
        assert np.abs(found.astype(int) - exact).mean() < 3
        assert len({frame.tobytes() for frame in exact}) == 5
        blue = (exact[2] == (31, 119, 180)).all(axis=2)
        assert blue[canvas.layout.panels[0].slices].sum() > 200


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda a: a.assign_coords(x=np.linspace(0, 1, 60) ** 2), "uneven"),
        (lambda a: a.assign_coords(time=np.array("2020-01-01", "M8[ns]") + np.arange(6) * np.timedelta64(6, "h")), "dates"),
        (lambda a: a.astype("i2", copy=False), "integers"),
        (lambda a: a > 50, "booleans"),
        (lambda a: a.chunk(time=2), "dask"),
    ],
)  # fmt: skip
def test_any_array_that_plays_is_saved(tmp_path, make, text):
    kind = "i2" if text == "integers" else "f4"
    scene, colourings = scene_of(make(array(kind=kind)))
    assert len(frames_of(save(scene, colourings, tmp_path / "x.gif"))) == 6


# --- what goes wrong ----------------------------------------------------------------------------


def test_bad_arguments_say_the_way_out(tmp_path):
    scene, colourings = scene_of(array())
    cases = [
        ("x.avi", {}, FormatError, r"must end in \.mp4, \.gif"),
        ("x", {}, FormatError, "must end in"),
        ("x.gif", {"fps": 100}, ValueError, "at most 50 frames per second"),
        ("x.gif", {"fps": 0}, ValueError, "fps must be 0.001 to 1000"),
        ("x.mp4", {"size": (301, 200)}, ValueError, "even width"),
        ("x.mp4", {"quality": 101}, ValueError, "quality must be 0 to 100"),
        ("x.gif", {"frames": 10}, ValueError, "every tenth"),
        ("x.gif", {"frames": slice(9, None)}, FormatError, "chooses none"),
        ("x.gif", {"frames": [6]}, IndexError, "frame 6 of 'time' is not among 6"),
        ("x.png", {"index": 6}, IndexError, "frame 6"),
        ("x.html", {"index": 6}, IndexError, "frame 6"),
        ("x.mp4", {"fps": 1e-9}, ValueError, "fps must be 0.001 to 1000"),
        ("x.gif", {"dpi": 0}, ValueError, "dpi must be above 0"),
        ("x.gif", {"dpi": float("nan")}, ValueError, "dpi must be above 0"),
        ("x.gif", {"dpi": "high"}, ValueError, "dpi must be above 0 .* got 'high'"),
        ("x.gif", {"fps": "25"}, ValueError, "fps must be .* got '25'"),
        ("x.mp4", {"quality": "best"}, ValueError, "quality must be 0 to 100, got 'best'"),
        ("x.gif", {"frames": "1:5"}, ValueError, "frames='1:5': give a slice"),
        ("x.gif", {"frames": [0.5]}, TypeError, "a frame of 'time' is a whole number, got 0.5"),
        ("x.gif", {"size": 5}, ValueError, "size must be two whole numbers of pixels, got 5"),
        ("x.gif", {"size": (100.5, 90)}, ValueError, "size must be two whole numbers"),
        ("x.gif", {"size": (1, 2, 3)}, ValueError, "size must be two whole numbers"),
        ("x.gif", {"size": (10**6, 10**6)}, ValueError, "at most 32768 pixels"),
    ]
    for name, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            save(scene, colourings, tmp_path / name, **options)
    empty, none = scene_of(array().isel(time=slice(0)))
    with pytest.raises(FormatError, match="no frames to save: 'time' has 0"):
        save(empty, none, tmp_path / "x.gif")
    bare, none = scene_of(array().isel(x=slice(0)))
    with pytest.raises(FormatError, match=r"nothing to draw: .* has the sizes .*'x': 0"):
        save(bare, none, tmp_path / "x.gif")
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*no.folder'"):
        save(scene, colourings, tmp_path / "no" / "folder" / "x.gif")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_that_name_is_told_before_anything_is_drawn(tmp_path, monkeypatch):
    scene, colourings = scene_of(array())
    (tmp_path / "x.gif").mkdir()
    monkeypatch.setattr("binref_sci.notebook.movie.Canvas", None)
    with pytest.raises(IsADirectoryError, match=r"x\.gif': that is a folder"):
        save(scene, colourings, tmp_path / "x.gif")


def test_a_missing_ffmpeg_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "")
    monkeypatch.setattr(
        imageio_ffmpeg, "get_ffmpeg_exe", lambda: (_ for _ in ()).throw(RuntimeError("none"))
    )
    scene, colourings = scene_of(array())
    with pytest.raises(FormatError, match=r"reinstall imageio-ffmpeg.*or save as \.gif"):
        save(scene, colourings, tmp_path / "x.mp4")
    assert list(tmp_path.iterdir()) == []


def test_an_ffmpeg_that_fails_says_why(tmp_path, monkeypatch):
    script = tmp_path / "ffmpeg"
    script.write_text("#!/bin/sh\nhead -c 10 >/dev/null; echo 'no such encoder' >&2; exit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(script))
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(script))
    scene, colourings = scene_of(array())
    with pytest.raises(OSError, match=r"ended with code 3: no such encoder"):
        save(scene, colourings, tmp_path / "x.mp4")
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.parametrize("suffix", ["mp4", "gif", "webp", "apng", "html"])
def test_a_frame_that_cannot_be_read_leaves_what_was_there(tmp_path, suffix):
    class Broken:
        shape, dtype, ndim = (6, 8, 8), np.dtype("f4"), 3

        def __getitem__(self, key):
            if key[0] == 4 or (isinstance(key[0], slice) and 4 in range(6)[key[0]]):
                raise EOFError("snapshot 4 ends early")
            return np.ones((6, 8, 8), "f4")[key]

    import dask.array as da

    data = xr.DataArray(da.from_array(Broken(), chunks=(1, 8, 8)), dims=("time", "y", "x"))
    scene, colourings = scene_of(data, vmin=0, vmax=1)
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"before")
    with pytest.raises(EOFError, match="snapshot 4 ends early") as caught:
        save(scene, colourings, path)
    assert caught.value.__notes__ == ["while frame 4 of 6 (step = 4) was read and drawn"]
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


CODE = """
    import sys, time
    import numpy as np, xarray as xr
    from binref_sci.notebook.scene import Scene
    from binref_sci.notebook.limits import Limits, Rules
    from binref_sci.notebook.movie import save
    import binref_sci.notebook.canvas as canvas
    draw = canvas.Canvas.draw
    def slow(self, i, ink, pixels):
        draw(self, i, ink, pixels)
        if i == 3: print("three", flush=True)
        time.sleep(0.02)
    canvas.Canvas.draw = slow
    data = xr.DataArray(np.random.rand(4, 64, 64)[np.arange(2000) % 4], dims=("time", "y", "x"))
    scene = Scene.of(data)
    save(scene, Limits.of(scene, Rules(vmin=0, vmax=1)).colourings, sys.argv[1])
"""


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_ctrl_c_leaves_no_file_and_no_process(tmp_path, suffix):
    with started(CODE, tmp_path / f"x.{suffix}") as process:
        assert process.stdout.readline() == b"three\n"
        # what is being written lies beside the target
        until(lambda: len(list(tmp_path.iterdir())) == 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    assert list(tmp_path.iterdir()) == []
    for stat in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(tmp_path).encode() not in stat.read_bytes()
        except OSError:
            continue  # it has ended


# --- memory and progress ------------------------------------------------------------------------

MEMORY = """
    import sys, os, resource
    import numpy as np, xarray as xr
    import dask.array as da
    from binref_sci.notebook.scene import Scene
    from binref_sci.notebook.limits import Limits, Rules
    from binref_sci.notebook.movie import save
    class Source:
        dtype, ndim = np.dtype("f4"), 3
        def __init__(self, n): self.shape = (n, 400, 400)
        def __getitem__(self, key):
            return np.random.default_rng(key[0]).random((400, 400), "f4")[key[1:]]
    def film(n):
        data = xr.DataArray(da.from_array(Source(n), chunks=(1, 400, 400)), dims=("time", "y", "x"))
        scene = Scene.of(data)
        save(scene, Limits.of(scene, Rules(vmin=0, vmax=1)).colourings, sys.argv[1], progress=False)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    first = film(10)
    print(first, film(150), os.path.getsize(sys.argv[1]) >> 20)
"""


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["gif", "apng", "webp", "mp4"])
def test_memory_does_not_grow_with_the_film(tmp_path, suffix):
    few, many, size = map(int, run(MEMORY, tmp_path / f"x.{suffix}", timeout=110).split())
    assert many - few < 10, f"{few} MB for 10 frames, {many} MB for 150"
    assert suffix == "mp4" or size > 15, "all frames together are more than that"


def test_progress_is_told(tmp_path, monkeypatch):
    from binref_sci.notebook import movie

    told = []

    class Bar:
        def __init__(self, label, total):
            told.append((label, total))

        def update(self, done):
            told.append(done)

        def close(self, done):
            told.append(("closed", done))

    monkeypatch.setattr(movie, "ProgressBar", Bar)
    scene, colourings = scene_of(array((3, 8, 8)))
    for suffix in ("gif", "mp4", "html"):
        told.clear()
        save(scene, colourings, tmp_path / f"x.{suffix}")
        assert told == [(f"x.{suffix}", 3), 1, 2, 3, ("closed", 3)]


# --- containers ---------------------------------------------------------------------------------


def test_only_what_changes_is_stored():
    film = animated.Film((32, 16), 3, 20, True, np.zeros((256, 3), np.uint8))
    for kind in (animated.Gif, animated.Apng, animated.WebP):
        file = io.BytesIO()
        made = kind(file, film)
        pixels = np.random.default_rng(0).integers(0, 256, (16, 32)).astype("u1")
        sizes = []
        for _ in range(3):
            before = file.tell()
            made.add(pixels)
            sizes.append(file.tell() - before)
            pixels = pixels.copy()
            pixels[5, 7] ^= 255
        made.close()
        assert sizes[1] < sizes[0] / 2 or kind is animated.WebP
        assert sizes[1] < 200


def test_a_palette_keeps_page_and_text_apart():
    scene, colourings = scene_of(array(), cmap="gray")
    layout = Canvas(scene, colourings).layout
    ink = palette_ink(layout, colourings)
    colours = ink.palette[ink.background]
    assert np.abs(colours.astype(int) - layout.background).max() < 80
    assert (ink.palette[ink.shades[0]] == 255).all()
    assert (ink.palette[ink.shades[255]] == 0).all()
    packed = rgb_ink(layout, colourings)
    rgb = packed.background.view("u1").reshape(*packed.background.shape, 4)[..., :3]
    assert np.array_equal(rgb, layout.background)


def test_the_files_of_a_film_are_as_readable_as_any(tmp_path):
    scene, colourings = scene_of(array((2, 8, 8)))
    before = os.umask(0o027)
    try:
        path = save(scene, colourings, tmp_path / "x.gif")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert time.time() - path.stat().st_mtime < 60


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_r18_the_scale_of_a_film_does_not_jump(tmp_path, suffix):
    """A frame from 0 to 1, then one from 0 to 10: one scale, and the bar stands still."""
    ramp = np.linspace(0, 1, 16 * 16).reshape(16, 16)
    data = xr.DataArray(np.stack([ramp, 10 * ramp]), dims=("time", "y", "x"))
    for rules, top in (({}, 10.0), ({"vmin": 0, "vmax": 5}, 5.0)):
        scene, colourings = scene_of(data, **rules)
        assert (colourings[0].vmin, colourings[0].vmax) == (0.0, top)
        read = frames_of if suffix == "gif" else frames_of_mp4
        found = read(save(scene, colourings, tmp_path / f"x.{suffix}")).astype(int)
        canvas, exact = wanted(scene, colourings)
        rect = canvas.layout.panels[0]
        # Its largest value, 1, has the colour of a tenth of the scale: dark, not yellow.
        corner = found[0][rect.top + 4, rect.left + rect.width - 4]
        exactly = exact[0][rect.top + 4, rect.left + rect.width - 4]
        assert np.abs(corner - exactly).max() <= (0 if suffix == "gif" else 24)
        bar = found[:, canvas.layout.title.height :, rect.left + rect.width + 4 :]
        moved = np.abs(bar[0] - bar[1])
        assert moved.max() == 0 if suffix == "gif" else moved.mean() < 1


@pytest.mark.parametrize("suffix", ["gif", "mp4", "webp", "apng", "png", "html"])
def test_r65_a_frame_of_nan_is_a_frame(tmp_path, suffix):
    data = array((3, 8, 8))
    data[1] = np.nan
    scene, colourings = scene_of(data)
    assert np.isfinite([colourings[0].vmin, colourings[0].vmax]).all()
    path = save(scene, colourings, tmp_path / f"x.{suffix}", index=1)
    if suffix in ("gif", "webp", "apng"):
        found = frames_of(path)
        rect = Canvas(scene, colourings).layout.panels[0].slices
        assert (found[1][rect] == 255).all(), "the page shows through"
        assert not (found[0][rect] == 255).all()
    empty, colours = scene_of(data * np.nan)
    save(empty, colours, path)


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path, there):
    target, link = tmp_path / "store" / "film.gif", tmp_path / "film.gif"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"before")
    link.symlink_to(target)
    scene, colourings = scene_of(array((2, 8, 8)))
    assert save(scene, colourings, link) == link
    assert link.is_symlink()
    assert frames_of(target).shape[0] == 2
    assert sorted(tmp_path.rglob("*.gif")) == sorted([target, link])


@pytest.mark.parametrize("reduce", ["mean", "max", "min", "absmax"])
def test_a_front_is_kept_where_several_cells_make_a_pixel(tmp_path, reduce):
    data = np.zeros((1, 64, 4096))
    data[:, :, 1001], data[:, :, 2001] = 1.0, -2.0  # one cell wide
    field = xr.DataArray(data, dims=("time", "y", "x"))
    scene, colourings = scene_of(field, vmin=-2, vmax=2, aspect=4.0)
    canvas = Canvas(scene, colourings, reduce=reduce)
    seen = set(map(tuple, canvas_field(canvas, picture(canvas, 0))))
    lut = opaque(colourings[0], canvas.layout)
    front, shock = (tuple(lut[colourings[0].codes(np.array([value]))[0]]) for value in (1.0, -2.0))
    assert (front in seen, shock in seen) == {
        "mean": (False, False),
        "max": (True, False),
        "min": (False, True),
        "absmax": (True, True),
    }[reduce]
    with pytest.raises(ValueError, match=r"reduce='median': use one of \('mean', "):
        save(scene, colourings, tmp_path / "x.png", reduce="median")


def canvas_field(canvas, pixels):
    return pixels[canvas.layout.panels[0].slices].reshape(-1, 3)
