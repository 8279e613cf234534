"""Pictures of a scene, frame after frame: fields by a table of colours, the title anew, the rest kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.inks import Ink, palette_ink, rgb_ink
from binref_sci.notebook.layout import Layout, Rect, layout
from binref_sci.notebook.lines import Diagram
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.reducing import reduced
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.strip import Strip


class Canvas:
    """Draws frames of a scene into an array of pixels.

    Parameters
    ----------
    scene, colourings
        What is shown.
    first
        The frame by whose title all are centred.
    reduce
        What stands for several cells in one pixel; as in `reduced`.
    **options
        `size`, `longest` and `dpi` of `layout`.
    """

    def __init__(
        self,
        scene: Scene,
        colourings: Sequence[Colouring],
        *,
        first: int = 0,
        reduce: str = "mean",
        **options: Any,
    ) -> None:
        self.scene = scene
        self.colourings = tuple(colourings)
        self._first = first
        self._still = still_title(scene)
        self.layout: Layout = layout(scene, colourings, first=self._title(first), **options)
        self._strip = Strip(self.layout)
        self._grids = [
            _Grid(panel, rect, reduce)
            for panel, rect in zip(scene.panels, self.layout.panels, strict=True)
        ]
        self._diagram = Diagram(scene, self.layout) if scene.kind == "line" else None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.layout.size

    def ink(self, *, palette: bool) -> Ink:
        """Return what to draw with: numbers of a palette, or packed RGB."""
        if not palette:
            return rgb_ink(self.layout, self.colourings)
        drawn = None
        if self._diagram is not None:
            with telling(self.scene, self._first):
                drawn = self._diagram.draw(self._first)
        return palette_ink(self.layout, self.colourings, drawn=drawn)

    def _title(self, i: int) -> str:
        label = self.scene.label(i)
        return f"{self._still}, {label}" if self._still else label

    def draw(self, i: int, ink: Ink, pixels: NDArray[Any]) -> None:
        """Draw frame `i` over another one, or over a copy of ``ink.background``.

        An error of the storage is noted to be about this frame.
        """
        with telling(self.scene, i):
            self._draw(i, ink, pixels)

    def _draw(self, i: int, ink: Ink, pixels: NDArray[Any]) -> None:
        if self._diagram is not None:
            pixels[...] = ink.of_rgb(self._diagram.draw(i))
        else:
            for panel, grid in zip(self.scene.panels, self._grids, strict=True):
                codes = self.colourings[panel.colour].codes(grid.field(self.scene, i))
                grid.paint(ink.tables[panel.colour], codes, pixels)
        strip = self._strip.draw(self._title(i))
        pixels[self.layout.title.slices] = ink.shades[strip]


@contextmanager
def telling(scene: Scene, i: int) -> Iterator[None]:
    """Note on every error within that it is about frame `i`."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while frame {i} of {scene.n} ({scene.times.title(i)}) was read and drawn")
        raise


def still_title(scene: Scene) -> str:
    """Return what stands above all frames: scalar coordinates, and where the sliders are.

    Sliders do not move in a film.
    """
    parts = [scene.title] if scene.title else []
    for slider, position in zip(scene.sliders, scene.positions, strict=True):
        _, _, unit = slider.label.partition(" [")
        value = slider.values[position]
        parts.append(f"{slider.dim} = {value} {unit.removesuffix(']')}".rstrip())
    return ", ".join(parts)


class _Grid:
    """From the cells of a panel to the pixels of its rectangle."""

    def __init__(self, panel: Panel, rect: Rect, reduce: str) -> None:
        rows, columns = panel.shape
        self._reduce = reduce
        self._panel = panel
        self._rect = rect
        # More cells than pixels: blocks of them are put together first.
        self._factors = _block(rows, rect.height), _block(columns, rect.width)
        rows, columns = -(-rows // self._factors[0]), -(-columns // self._factors[1])
        self._rows = _nearest(rows, rect.height)
        self._columns = _nearest(columns, rect.width)
        self._same = rows == rect.height, columns == rect.width
        self._colours: NDArray[Any] | None = None

    def field(self, scene: Scene, i: int) -> NDArray[Any]:
        field = scene.field(self._panel, i)
        return field if self._factors == (1, 1) else reduced(field, self._factors, self._reduce)

    def paint(self, table: NDArray[Any], codes: NDArray[np.uint8], pixels: NDArray[Any]) -> None:
        if not self._same[1]:
            codes = codes.take(self._columns, axis=1)
        if not self._same[0]:
            codes = codes.take(self._rows, axis=0)
        if self._colours is None or self._colours.dtype != table.dtype:
            self._colours = np.empty(codes.shape, table.dtype)
        np.take(table, codes, out=self._colours, mode="clip")  # other modes copy twice
        pixels[self._rect.slices] = self._colours


def _block(cells: int, pixels: int) -> int:
    """Return how many cells are put together for one pixel, so that none is left out."""
    block = -(-cells // pixels)
    return block if -(-cells // block) == pixels else max(1, cells // pixels)


def _nearest(cells: int, pixels: int) -> NDArray[np.intp]:
    """Return the cell that the middle of each pixel lies in."""
    return ((2 * np.arange(pixels) + 1) * cells // (2 * pixels)).astype(np.intp)
