"""Films of 500 frames of 512 x 512: ours beside matplotlib's FuncAnimation of the same pictures.

Same figure, same size in pixels, same limits, colormap, bar and time label; matplotlib's own
way to change a picture (``set_data`` and ``set_title``), its own writers, the same ffmpeg.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.harness import Row, over, stopwatch
from benchmarks.places import folder
from binref_sci import BinrefWriter, open_dataset
from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.movie import save
from binref_sci.notebook.scene import Scene

FRAMES, SIDE, FPS = 500, 512, 20
BAR = 5.0


def rows() -> Iterator[Row]:
    """Yield how many times faster each kind of film is saved."""
    with folder(on_tmpfs=True) as place:
        data = _run(place / "run")
        scene = Scene.of(data)
        colourings = Limits.of(scene, Rules()).colourings
        size = Canvas(scene, colourings).size
        for suffix, writer in (("mp4", FFMpegWriter), ("gif", PillowWriter)):
            ours = stopwatch(
                lambda suffix=suffix: save(
                    scene, colourings, place / f"ours.{suffix}", fps=FPS, progress=False
                )
            )
            theirs = stopwatch(
                lambda suffix=suffix, writer=writer: _theirs(
                    data, colourings[0], size, place / f"theirs.{suffix}", writer
                )
            )
            sizes = [(place / f"{who}.{suffix}").stat().st_size / 1e6 for who in ("ours", "theirs")]
            what = (
                f"{suffix} of {FRAMES} frames of {SIDE}², times as fast as FuncAnimation with "
                f"{writer.__name__} ({ours / FRAMES * 1e3:.1f} ms a frame against "
                f"{theirs / FRAMES * 1e3:.1f}; {sizes[0]:.1f} MB against {sizes[1]:.1f})"
            )
            yield over(what, "x", theirs / ours, bar=BAR)


def _run(place: Path) -> xr.DataArray:
    """A wave with some noise, on disk."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0 : 1 : SIDE * 1j, 0 : 1 : SIDE * 1j]
    noise = rng.normal(0, 0.01, (4, SIDE, SIDE))
    with BinrefWriter(
        "u",
        dims=("time", "y", "x"),
        coords={"x": x[0], "y": y[:, 0], "time": {"units": "s"}},
        attrs={"units": "m/s", "long_name": "velocity"},
        output_path=place,
    ) as writer:
        for step in range(FRAMES):
            wave = np.sin(9 * x - 0.1 * step) * np.cos(7 * y + 0.05 * step)
            writer.write((wave + noise[step % 4]).astype("f4"), time=0.05 * step)
    return open_dataset(place).u


def _theirs(data: xr.DataArray, colouring, size: tuple[int, int], path: Path, writer) -> None:
    figure = Figure(figsize=(size[0] / 100, size[1] / 100), dpi=100)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0.11, 0.09, 0.74, 0.83))
    first = data.isel(time=0).load()
    image = first.plot.imshow(
        ax=ax, vmin=colouring.vmin, vmax=colouring.vmax, cmap=colouring.cmap, add_colorbar=False
    )
    bar = figure.colorbar(image, cax=figure.add_axes((0.87, 0.09, 0.023, 0.83)))
    bar.set_label("velocity [m/s]")

    def update(i: int) -> list[object]:
        image.set_data(data.variable[i].values)
        ax.set_title(f"t = {float(data.time[i]):5.2f} s")
        return [image]

    film = FuncAnimation(figure, update, frames=FRAMES, blit=False, cache_frame_data=False)
    with mpl.rc_context({"animation.ffmpeg_path": imageio_ffmpeg.get_ffmpeg_exe()}):
        film.save(path, writer=writer(fps=FPS), dpi=100)
