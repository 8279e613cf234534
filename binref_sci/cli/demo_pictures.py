"""The picture and the film of ``binref-sci demo``, read through lazy references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image

from binref_sci.trajectory import Trajectory

TITLE = "A laser draws a flower on a steel plate"
COLOURS = "magma_r"
MOMENTS = 6
FRAMES = 80
FRAMES_PER_SECOND = 16


def draw_picture(dataset: xr.Dataset, path: Path) -> None:
    """Draw six moments and the history of one point; reads six snapshots and that point.

    Parameters
    ----------
    dataset
        Result of the heat example, lazy.
    path
        PNG file to write.
    """
    field = dataset["temperature"]
    count, rows, columns = field.shape
    shown = np.linspace(0, count - 1, MOMENTS + 1).round().astype(int)[1:]
    scale = _scale(dataset)

    figure = Figure(figsize=(12, 5.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(TITLE, x=0.012, ha="left", fontsize=17, fontweight="bold")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(8.2, 3.8))[0]
    panels = left.subplots(2, MOMENTS // 2, sharex=True, sharey=True)
    hottest, probe = -np.inf, (0, 0)
    for panel, index in zip(panels.flat, shown, strict=True):
        snapshot = field.isel(time=int(index)).to_numpy()
        image = _show(panel, dataset, snapshot, scale)
        panel.set_title(_seconds(field.time[index]), fontsize=11)
        if snapshot.max() > hottest:
            hottest, probe = snapshot.max(), divmod(int(snapshot.argmax()), columns)
    y, x = probe
    for panel in panels.flat:
        panel.plot(field.x[x], field.y[y], "o", mfc="none", mec="black", ms=10, mew=1.2)
    for panel in panels[:, 0]:
        panel.set_ylabel(_label(field.y))
    for panel in panels[-1]:
        panel.set_xlabel(_label(field.x))
    left.colorbar(image, ax=panels, label=_label(field), shrink=0.9, pad=0.02)

    history = right.subplots()
    history.plot(field.time, field.isel(y=y, x=x).to_numpy(), color="black", lw=1.4)
    for index in shown:  # the moments shown on the left
        history.axvline(field.time[index], color="0.85", lw=1, zorder=0)
    history.set_title("in the circle", fontsize=11)
    history.set_xlabel(_label(field.time))
    history.set_ylabel(_label(field))
    history.set_xlim(field.time[0], field.time[-1])
    history.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        f"six of {count} snapshots of {rows} x {columns} cells ({field.nbytes / 1e6:.0f} MB on "
        "disk), each read through its reference",
        x=0.012, ha="left", fontsize=9, color="0.4",
    )  # fmt: skip
    figure.savefig(path)


def draw_film(trajectory: Trajectory, dataset: xr.Dataset, path: Path) -> Iterator[tuple[int, int]]:
    """Draw the film, one snapshot in memory at a time.

    Parameters
    ----------
    trajectory
        The snapshots.
    dataset
        Result of the heat example, lazy, for times and labels.
    path
        GIF file to write.

    Yields
    ------
    tuple
        Frames done, and frames in all.
    """
    times = dataset["time"].to_numpy()
    shown = np.linspace(0, len(trajectory) - 1, min(FRAMES, len(trajectory))).round().astype(int)
    scale = _scale(dataset)
    figure = Figure(figsize=(4.8, 4.2), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(TITLE, x=0.02, ha="left", fontsize=12, fontweight="bold")
    axes = figure.subplots()
    axes.set_xlabel(_label(dataset.x))
    axes.set_ylabel(_label(dataset.y))
    image = _show(axes, dataset, trajectory[0].load(), scale)
    figure.colorbar(image, ax=axes, label=_label(dataset["temperature"]), shrink=0.9)
    clock = axes.text(0.03, 0.96, "", transform=axes.transAxes, va="top", fontsize=12)

    # Text takes most of the time to draw, and most of it stays: only the rest is drawn anew.
    changing: list[Artist] = [image, clock, *axes.spines.values()]
    for artist in changing:
        artist.set_animated(True)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    palette = _palette()
    frames: list[Image.Image] = []
    for number, index in enumerate(shown, start=1):
        image.set_data(trajectory[int(index)].load())
        clock.set_text(_seconds(times[index]))
        canvas.restore_region(still)
        for artist in changing:
            axes.draw_artist(artist)
        drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        frames.append(drawn.quantize(palette=palette, dither=Image.Dither.NONE))
        yield number, len(shown)
    first, *rest = frames
    durations = [1000 // FRAMES_PER_SECOND] * len(rest) + [1500]  # ms; rests on the last frame
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0)


def _scale(dataset: xr.Dataset) -> Normalize:
    """Return the one scale of all pictures: from the first snapshot to the hottest moment."""
    coldest = float(dataset["temperature"].isel(time=0).min())
    return Normalize(coldest, float(dataset["hottest"]))


def _show(axes: Axes, dataset: xr.Dataset, snapshot: np.ndarray, scale: Normalize) -> AxesImage:
    edges = (*_edges(dataset.x.to_numpy()), *_edges(dataset.y.to_numpy()))
    image = axes.imshow(snapshot, origin="lower", extent=edges, norm=scale, cmap=COLOURS)
    axes.locator_params(nbins=2)
    axes.tick_params(labelsize=9)
    return image


def _edges(centres: np.ndarray) -> tuple[float, float]:
    half = (centres[1] - centres[0]) / 2
    return float(centres[0] - half), float(centres[-1] + half)


def _label(array: xr.DataArray) -> str:
    name = array.attrs.get("long_name", array.name)
    return f"{name} ({array.attrs['units']})"


def _seconds(time: Any) -> str:
    return f"{float(time):.1f} s"


def _palette() -> Image.Image:
    """Return the colours of all frames: those of the field, and greys for text and lines."""
    field = colormaps[COLOURS](np.linspace(0, 1, 224), bytes=True)[:, :3]
    greys = np.linspace(0, 255, 32, dtype=np.uint8)[:, None].repeat(3, axis=1)
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate([field, greys]).tobytes())
    return palette
