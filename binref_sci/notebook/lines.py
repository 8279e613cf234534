"""Diagrams of lines, frame after frame: the lines are drawn anew over what never changes."""

from __future__ import annotations

from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from binref_sci.notebook.formulas import drawable
from binref_sci.notebook.layout import Layout
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.scene import Scene

MOST_NAMED: Final = 10
"""Lines that have a legend: no more colours are told apart."""


class Diagram:
    """Draws the lines of a scene on the axes of its layout.

    Parameters
    ----------
    scene
        Of lines.
    whole
        Its layout.
    """

    def __init__(self, scene: Scene, whole: Layout) -> None:
        self._scene = scene
        canvas: Any = whole.figure.canvas
        self._canvas = canvas
        self._axes = whole.axes
        self._lines: list[list[Line2D] | LineCollection] = []
        for panel, ax in zip(scene.panels, whole.axes, strict=True):
            if len(panel.lines) > MOST_NAMED:
                self._lines.append(_many(ax))
                continue
            made = [ax.plot([], [], label=drawable(name), animated=True)[0] for name in panel.lines]
            if len(made) > 1:
                legend = ax.legend(loc="upper right")
                legend.set_animated(True)  # drawn after the lines, over them
            self._lines.append(made)
        self._canvas.draw()
        self._still = self._canvas.copy_from_bbox(whole.figure.bbox)
        whole.background[...] = np.asarray(self._canvas.buffer_rgba())[..., :3]

    def draw(self, i: int) -> NDArray[np.uint8]:
        """Return the picture of frame `i` without its title, shape ``(height, width, 3)``."""
        self._canvas.restore_region(self._still)
        for panel, ax, lines in zip(self._scene.panels, self._axes, self._lines, strict=True):
            values = self._scene.field(panel, i)
            along = positions(panel)
            if isinstance(lines, LineCollection):
                lines.set_segments([np.column_stack([along, row]) for row in values])
                ax.draw_artist(lines)
                continue
            for line, row in zip(lines, values, strict=True):
                line.set_data(along, row)
                ax.draw_artist(line)
            legend = ax.get_legend()
            if legend is not None:
                ax.draw_artist(legend)
        return np.asarray(self._canvas.buffer_rgba())[..., :3]


def _many(ax: Axes) -> LineCollection:
    """Return an artist for more lines than anyone tells apart: one is drawn faster than hundreds."""
    colours = mpl.rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    made = LineCollection([], colors=colours, linewidths=mpl.rcParams["lines.linewidth"])
    made.set_animated(True)
    ax.add_collection(made, autolim=False)
    return made


def positions(panel: Panel) -> NDArray[np.float64]:
    """Return where the values of a line lie, from left to right."""
    x = panel.x
    if x.values.dtype.kind in "biuf":
        return x.values[x.places].astype(float)
    step = (x.hi - x.lo) / max(x.size, 1)
    return np.asarray(x.lo + (np.arange(x.size) + 0.5) * step, dtype=np.float64)
