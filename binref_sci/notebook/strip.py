"""The line of text that changes from frame to frame, drawn anew only where it is new.

matplotlib takes milliseconds to draw a line of text, longer than a field needs to be read
and coloured. In a row of times only digits change. So each digit is drawn once at each place
where there are any, and lines are put together from these. Whether that gives the same
picture is not assumed: the first lines of each kind are drawn whole, and compared.
"""

from __future__ import annotations

import re
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from binref_sci.notebook.formulas import drawable
from binref_sci.notebook.layout import Layout

_CHANGING = re.compile("[0-9\u2007]")  # with the space as wide as a digit
_PARTS = re.compile("[0-9\u2007]|[^0-9\u2007]+")
_DIGITS = "0123456789\u2007"
_REACH = 2  # pixels from where one part ends to where there must be a gap
_CHECKS = 3
_MOST_KINDS = 6  # beyond these lines differ in more than digits


class Strip:
    """Draws lines of text over the whole width of a picture.

    They are drawn white on black, so that a pixel tells how much of it is covered.
    """

    def __init__(self, whole: Layout) -> None:
        rect = whole.title
        self._width, self._left = rect.width, whole.title_left
        figure = Figure(
            figsize=(rect.width / whole.dpi, rect.height / whole.dpi),
            dpi=whole.dpi,
            facecolor="black",
        )
        self._canvas = FigureCanvasAgg(figure)
        self._text = figure.text(
            whole.title_left / rect.width,
            0.28,  # of its height: room for what goes below the line
            "",
            color="white",
            fontsize=mpl.rcParams["axes.titlesize"],
            fontweight=mpl.rcParams["axes.titleweight"],
            ha="left",
            va="baseline",
        )
        self._lines: dict[str, _Line | None] = {}

    def draw(self, text: str) -> NDArray[np.uint8]:
        """Return how much of each pixel the text covers, 0 to 255, shape ``(height, width)``."""
        if not text or "$" in text or "\n" in text:
            return self._whole(text)
        kind = _CHANGING.sub("0", text)
        if kind not in self._lines:
            self._lines[kind] = self._learnt(kind) if len(self._lines) < _MOST_KINDS else None
        line = self._lines[kind]
        if line is None:
            return self._whole(text)
        made = line.joined(text)
        if line.checked < _CHECKS:
            line.checked += 1
            drawn = self._whole(text)
            if not np.array_equal(made, drawn):
                self._lines[kind] = None
            return drawn
        return made

    def _learnt(self, kind: str) -> _Line | None:
        drawn = {digit: self._whole(kind.replace("0", digit)) for digit in _DIGITS}
        ink = np.logical_or.reduce([picture.any(axis=0) for picture in drawn.values()])
        gaps = [_gap(ink, end) for end in self._ends(kind)]
        cuts = [0, *(gap for gap in gaps if gap is not None), len(ink)]
        if None in gaps or sorted(set(cuts)) != cuts:
            return None
        return _Line(cuts, drawn, _PARTS.findall(kind))

    def _whole(self, text: str) -> NDArray[np.uint8]:
        self._text.set_text(drawable(text))
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., 0].copy()

    def _ends(self, text: str) -> list[float]:
        """Return where each part but the last ends."""
        renderer: Any = self._canvas.get_renderer()

        def width(part: str) -> float:
            self._text.set_text(part)
            return float(self._text.get_window_extent(renderer).width)

        bar = width("|")
        stops = [found.end() for found in _PARTS.finditer(text)][:-1]
        return [self._left + width(f"{text[:stop]}|") - bar for stop in stops]


class _Line:
    """Lines that differ in nothing but digits: their parts, each in every digit it may show."""

    def __init__(
        self, cuts: list[int], drawn: dict[str, NDArray[np.uint8]], parts: list[str]
    ) -> None:
        self.checked = 0
        self._parts: list[dict[str, NDArray[np.uint8]]] = []
        for part, left, right in zip(parts, cuts, cuts[1:], strict=False):
            shown = _DIGITS if part == "0" else "0"
            self._parts.append(
                {digit if part == "0" else part: drawn[digit][:, left:right] for digit in shown}
            )

    def joined(self, text: str) -> NDArray[np.uint8]:
        """Return a line put together."""
        found = zip(self._parts, _PARTS.findall(text), strict=True)
        return np.concatenate([shown[part] for shown, part in found], axis=1)


def _gap(ink: NDArray[np.bool_], end: float) -> int | None:
    """Return an empty column near where a part ends, or None."""
    middle = round(end)
    near = sorted(range(middle - _REACH, middle + _REACH + 1), key=lambda c: abs(c - end))
    return next((c for c in near if 0 < c < len(ink) and not ink[c]), None)
