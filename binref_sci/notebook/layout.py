"""Where everything lies in a picture of a scene, to the pixel; what never changes is drawn once.

No pyplot: a picture may be made in any thread, and leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.formulas import drawable
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.scene import Scene

DPI: Final = 100.0
_LONGEST = 512  # pixels of a picture's longer side that are aimed at
_MOST = 1080  # pixels of a picture that are shown one to one
_WIDEST = 1280  # pixels of panels side by side
_PAD = 0.08  # inches around everything
_BAR, _GAP = 0.16, 0.12  # inches: width of a colour bar, and between it and its picture
_SQUARE = 0.02  # by which cells may miss a square and be drawn as one
_LINE_BOX = 640, 360  # pixels of a diagram of lines


@dataclass(frozen=True)
class Rect:
    """Pixels, the first row at the top."""

    left: int
    top: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns."""
        return (
            slice(self.top, self.top + self.height),
            slice(self.left, self.left + self.width),
        )


@dataclass(frozen=True)
class Layout:
    """A picture without its fields.

    Parameters
    ----------
    background
        RGB, shape ``(height, width, 3)``, uint8.
    panels
        Where each field goes.
    title
        Where the changing title goes, over the whole width.
    title_left
        Pixels from the left to where the title begins.
    figure, axes
        What was drawn.
    face, text
        Colours of page and text, 0 to 255.
    """

    background: NDArray[np.uint8]
    panels: tuple[Rect, ...]
    title: Rect
    title_left: float
    figure: Figure
    axes: tuple[Axes, ...]
    face: tuple[int, int, int]
    text: tuple[int, int, int]
    dpi: float

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.background.shape[1], self.background.shape[0]


def layout(
    scene: Scene,
    colourings: Sequence[Colouring],
    *,
    size: tuple[int, int] | None = None,
    longest: int = _LONGEST,
    dpi: float = DPI,
    first: str = "",
) -> Layout:
    """Return where everything lies.

    Parameters
    ----------
    scene, colourings
        What is shown.
    size
        Width and height of the whole picture, in pixels; default: as its parts need.
    longest
        Pixels that the longer side of a panel is to have about, without a `size`.
    dpi
        Pixels to the inch: 10 points of text are ``10 / 72 * dpi`` pixels high.
    first
        Title of the first frame, by whose length the title is centred.

    Raises
    ------
    ValueError
        If `size` has no room for a picture.
    """
    with np.errstate(all="ignore"):  # a bar of one level, or of all numbers, is drawn all the same
        return _laid_out(scene, colourings, size, longest, dpi, first)


def _laid_out(
    scene: Scene,
    colourings: Sequence[Colouring],
    size: tuple[int, int] | None,
    longest: int,
    dpi: float,
    first: str,
) -> Layout:
    count = len(scene.panels)
    columns = max(1, min(scene.columns, count))
    lines = -(-count // columns)
    made = _Drawing(scene, colourings, dpi)
    boxes = [_box(scene, panel, longest, columns) for panel in scene.panels]
    width, height = max(w for w, _ in boxes), max(h for _, h in boxes)
    if size is not None:
        width, height = _fitted(made, size, columns, lines, boxes[0])
    margins = made.margins(width, height)
    rects = _placed(made, margins, width, height, columns, count)
    total = (
        2 * made.pad + columns * (margins.left + width + margins.right),
        2 * made.pad + made.head + lines * (margins.top + height + margins.bottom),
    )
    shift = (0, 0)
    if size is not None:
        shift = (size[0] - total[0]) // 2, (size[1] - total[1]) // 2
        total = size
    else:
        total = total[0] + total[0] % 2, total[1] + total[1] % 2  # as H.264 needs
    rects = [Rect(r.left + shift[0], r.top + shift[1], r.width, r.height) for r in rects]
    return made.drawn(rects, total, shift[1] + made.pad, first)


@dataclass(frozen=True)
class _Margins:
    left: int
    right: int
    top: int
    bottom: int


class _Drawing:
    """The figure: axes, labels, colour bars."""

    def __init__(self, scene: Scene, colourings: Sequence[Colouring], dpi: float) -> None:
        self.scene = scene
        self.dpi = dpi
        self.figure = Figure(figsize=(8, 6), dpi=dpi)
        self.canvas = FigureCanvasAgg(self.figure)
        self.pad = round(_PAD * dpi)
        self.ring = max(1, round(mpl.rcParams["axes.linewidth"] * dpi / 72))
        size = mpl.font_manager.FontProperties(size=mpl.rcParams["axes.titlesize"])
        self.points = float(size.get_size_in_points())
        self.head = math.ceil(self.points * 1.75 * dpi / 72)
        self.axes: list[Axes] = []
        self.bars: list[Axes] = []
        for panel in scene.panels:
            ax = self.figure.add_axes((0.2, 0.2, 0.5, 0.5))
            _dress(ax, scene, panel, colourings[panel.colour])
            self.axes.append(ax)
            if scene.kind == "image":
                self.bars.append(self._bar(colourings[panel.colour]))

    def _bar(self, colouring: Colouring) -> Axes:
        ax = self.figure.add_axes((0.8, 0.2, 0.02, 0.5))
        norm, cmap = colouring.drawn
        mappable = ScalarMappable(norm=norm, cmap=cmap)
        bar = self.figure.colorbar(mappable, cax=ax, extend=colouring.extend)
        bar.set_label(_wrapped(colouring.label))
        return ax

    def margins(self, width: int, height: int) -> _Margins:
        """Return what stands out beyond pictures of a size, at most, in pixels."""
        gap, bar = self._bar_size()
        # Anywhere on a figure with room: only what stands out counts.
        room = 4 * max(width, height, 300)
        self.figure.set_size_inches(room / self.dpi, room / self.dpi)
        for k, ax in enumerate(self.axes):
            ax.set_position((0.25, 0.25, width / room, height / room))
            if self.bars:
                x = 0.25 + (width + gap) / room
                self.bars[k].set_position((x, 0.25, bar / room, height / room))
        renderer = self.canvas.get_renderer()
        left, bottom = 0.25 * room, 0.25 * room
        right, top = left + width, bottom + height
        boxes = [ax.get_tightbbox(renderer) for ax in (*self.axes, *self.bars)]
        seen = [box for box in boxes if box is not None]
        return _Margins(
            math.ceil(max(left - box.x0 for box in seen)) + self.pad,
            math.ceil(max(box.x1 - right for box in seen)) + self.pad,
            math.ceil(max(max(box.y1 - top for box in seen), 0)) + self.pad // 2,
            math.ceil(max(bottom - box.y0 for box in seen)) + self.pad // 2,
        )

    def _bar_size(self) -> tuple[int, int]:
        return round(_GAP * self.dpi), round(_BAR * self.dpi)

    def drawn(self, rects: Sequence[Rect], total: tuple[int, int], top: int, first: str) -> Layout:
        """Draw everything but fields and title."""
        wide, tall = total
        gap, bar = self._bar_size()
        self.figure.set_size_inches(wide / self.dpi, tall / self.dpi)
        for k, rect in enumerate(rects):
            bottom = (tall - rect.top - rect.height) / tall
            self.axes[k].set_position(
                (rect.left / wide, bottom, rect.width / wide, rect.height / tall)
            )
            if self.bars:
                x = (rect.left + rect.width + gap) / wide
                self.bars[k].set_position((x, bottom, bar / wide, rect.height / tall))
        self.canvas.draw()
        background = np.asarray(self.canvas.buffer_rgba())[..., :3].copy()
        assert background.shape[:2] == (tall, wide)
        if self.scene.kind == "image":
            edge = _bytes(mpl.rcParams["axes.edgecolor"])
            for ax, rect in zip(self.axes, rects, strict=True):
                _ring(background, rect, self.ring, edge, _bytes(ax.get_facecolor()))
        left = self._title_left(rects, first)
        return Layout(
            background,
            tuple(rects),
            Rect(0, top, wide, self.head),
            left,
            self.figure,
            tuple(self.axes),
            _bytes(self.figure.get_facecolor()),
            _bytes(_title_colour()),
            self.dpi,
        )

    def _title_left(self, rects: Sequence[Rect], first: str) -> float:
        text = self.figure.text(0, 0, drawable(first), fontsize=self.points)
        width = text.get_window_extent(self.canvas.get_renderer()).width
        text.remove()
        right = max(rect.left + rect.width for rect in rects)
        middle = (min(rect.left for rect in rects) + right) / 2
        return max(middle - width / 2, float(self.pad))


def _dress(ax: Axes, scene: Scene, panel: Panel, colouring: Colouring) -> None:
    x, y = panel.x, panel.y
    ax.set_xlim(x.lo, x.hi)
    ax.set_xlabel(_wrapped(x.label))
    _ticks(ax.xaxis, x)
    if scene.kind == "image":
        ax.set_ylim(y.lo, y.hi)
        ax.set_ylabel(_wrapped(y.label))
        _ticks(ax.yaxis, y)
        for spine in ax.spines.values():
            spine.set_visible(False)  # a ring around the pixels of the field takes their place
    else:
        if colouring.to_json()["norm"] in ("log", "symlog"):
            ax.set_yscale(colouring.to_json()["norm"])
        low, high = colouring.vmin, colouring.vmax
        room = 0.0 if colouring.to_json()["norm"] == "log" else 0.03 * (high - low)
        ax.set_ylim(low - room, high + room)
        ax.set_ylabel(_wrapped(panel.label))
    if panel.title:
        ax.set_title(drawable(panel.title), fontsize=mpl.rcParams["axes.labelsize"])


def _ticks(axis: Any, along: Any) -> None:
    if along.ticks is not None:  # dates or text: as the player has them
        width = along.hi - along.lo
        axis.set_ticks([along.lo + place * width for place, _ in along.ticks])
        axis.set_ticklabels([drawable(text) for _, text in along.ticks])


def _box(scene: Scene, panel: Panel, longest: int, columns: int) -> tuple[int, int]:
    """Return width and height in pixels that suit a panel."""
    if scene.kind == "line":
        scale = min(1.0, _WIDEST / columns / _LINE_BOX[0]) * longest / _LONGEST
        return round(_LINE_BOX[0] * scale), round(_LINE_BOX[1] * scale)
    rows, cells = panel.shape
    ratio = panel.aspect
    if ratio is None:
        ratio = min(max(cells / rows, 0.5), 2.0) if rows and cells else 1.0
    limit = min(longest, _WIDEST // columns)
    most = _MOST if longest == _LONGEST and columns == 1 else limit
    if rows and cells and abs(ratio * rows / cells - 1) < _SQUARE:
        side = max(rows, cells)
        if side >= limit:
            block = -(-side // most)
            return -(-cells // block), -(-rows // block)
        zoom = max(1, round(limit / side))
        return cells * zoom, rows * zoom
    width = _suited(cells, limit if ratio >= 1 else limit * ratio, most)
    height = _suited(rows, limit if ratio <= 1 else limit / ratio, most)
    # One of the two decides, by whole pixels a cell; the other follows the shape.
    if ratio >= 1:
        exact = round(width / ratio)
        return width, height if abs(height - exact) <= 0.02 * exact else max(exact, 1)
    exact = round(height * ratio)
    return width if abs(width - exact) <= 0.02 * exact else max(exact, 1), height


def _suited(cells: int, wanted: float, most: int) -> int:
    """Return a number of pixels near `wanted` that shows all cells alike."""
    if cells >= wanted:
        return -(-cells // -(-cells // most))  # one pixel for one cell, or for so many
    return cells * max(1, round(wanted / max(cells, 1)))


def _fitted(
    made: _Drawing, size: tuple[int, int], columns: int, lines: int, box: tuple[int, int]
) -> tuple[int, int]:
    """Return the size of a panel's picture for which the whole has `size`."""
    width, height = box
    ratio = width / height
    for _ in range(3):  # labels depend on the size, a little
        margins = made.margins(width, height)
        room = (
            (size[0] - 2 * made.pad) // columns - margins.left - margins.right,
            (size[1] - 2 * made.pad - made.head) // lines - margins.top - margins.bottom,
        )
        width = min(room[0], round(room[1] * ratio))
        height = min(room[1], round(room[0] / ratio))
        if width < 16 or height < 16:
            raise ValueError(
                f"size={size} has no room for {columns} x {lines} pictures with their labels: "
                "make it larger, or dpi smaller"
            )
    return width, height


def _placed(
    made: _Drawing, margins: _Margins, width: int, height: int, columns: int, count: int
) -> list[Rect]:
    across = margins.left + width + margins.right
    down = margins.top + height + margins.bottom
    return [
        Rect(
            made.pad + k % columns * across + margins.left,
            made.pad + made.head + k // columns * down + margins.top,
            width,
            height,
        )
        for k in range(count)
    ]


def _ring(
    background: NDArray[np.uint8],
    rect: Rect,
    width: int,
    edge: tuple[int, int, int],
    face: tuple[int, int, int],
) -> None:
    """Draw a frame just outside of a rectangle; inside there is nothing."""
    outer = Rect(
        rect.left - width, rect.top - width, rect.width + 2 * width, rect.height + 2 * width
    )
    background[outer.slices] = edge
    background[rect.slices] = face


def _bytes(colour: Any) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in to_rgb(colour))
    return red, green, blue


def _title_colour() -> Any:
    colour = mpl.rcParams["axes.titlecolor"]
    return mpl.rcParams["text.color"] if colour == "auto" else colour


def _wrapped(label: str) -> str:
    """Return a long label in two lines, unless it is a formula."""
    if len(label) <= 40 or "$" in label:
        return drawable(label)
    middle = min(
        (i for i, c in enumerate(label) if c == " "),
        key=lambda i: abs(2 * i - len(label)),
        default=0,
    )
    return f"{label[:middle]}\n{label[middle + 1 :]}" if middle else label
