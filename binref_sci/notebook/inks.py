"""What pixels are made of: packed RGB for films, or numbers of a palette of 256 colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.layout import Layout

_SIZE: Final = 256
_LEAST_SHADES: Final = 2  # between page and text, whatever else the palette holds
_MOST_SHADES: Final = 16


@dataclass(frozen=True)
class Ink:
    """Pixels of one kind.

    Parameters
    ----------
    background
        What never changes, shape ``(height, width)``.
    tables
        Pixel of each of the 256 codes, for each colour scale.
    shades
        Pixel of text by how much of it is covered, 0 to 255.
    palette
        Colours of the pixels' numbers, shape ``(256, 3)``; None: pixels are packed RGB,
        bytes in the order red, green, blue, nothing.
    """

    background: NDArray[Any]
    tables: tuple[NDArray[Any], ...]
    shades: NDArray[Any]
    palette: NDArray[np.uint8] | None = None

    def of_rgb(self, rgb: NDArray[np.uint8]) -> NDArray[Any]:
        """Return pixels for colours, shape ``(..., 3)``; of a palette the nearest ones."""
        packed = _packed(rgb)
        if self.palette is None:
            return packed
        found = self._known[packed]
        if not found.all():
            new = np.unique(packed[found == 0])
            colours = new.view(np.uint8).reshape(-1, 4)[:, :3]
            self._known[new] = _nearest(colours, self.palette).astype(np.uint16) + 1
            found = self._known[packed]
        return (found - 1).astype(np.uint8)

    @cached_property
    def _known(self) -> NDArray[np.uint16]:
        """One more than the number of each colour that has been met; 0 of all others.

        A diagram has the same few thousand colours in every frame.
        """
        return np.zeros(1 << 24, np.uint16)


def rgb_ink(whole: Layout, colourings: Sequence[Colouring]) -> Ink:
    """Return an ink of any colour."""
    return Ink(
        _packed(whole.background),
        tuple(_packed(opaque(one, whole)) for one in colourings),
        _packed(_between(whole, np.arange(256) / 255)),
    )


def palette_ink(
    whole: Layout, colourings: Sequence[Colouring], *, drawn: NDArray[np.uint8] | None = None
) -> Ink:
    """Return an ink of 256 colours that are the colours of the codes themselves.

    Colours of fields are exact, as long as all colour scales together have no more than
    254. What is left goes to shades of the text. A diagram has those colours that are most
    frequent in one of its pictures, `drawn`.
    """
    tables = [opaque(one, whole) for one in colourings]
    ends = np.array([whole.face, whole.text], np.uint8)
    room = _SIZE - (_LEAST_SHADES if drawn is None else _MOST_SHADES)
    if drawn is not None:
        wanted = _most_common(drawn, room)
    else:
        wanted = np.unique(np.concatenate(tables), axis=0)
    if len(np.unique(np.concatenate([wanted, ends]), axis=0)) > _SIZE:
        each = (room - 2) // len(tables)
        wanted = np.unique(np.concatenate([_thinned(table, each) for table in tables]), axis=0)
    chosen = np.unique(np.concatenate([wanted, ends]), axis=0)
    spare = min(_SIZE - len(chosen), _MOST_SHADES)
    mixed = _between(whole, np.arange(1, spare + 1) / (spare + 1))
    chosen = np.unique(np.concatenate([chosen, mixed]), axis=0)
    palette = np.zeros((_SIZE, 3), np.uint8)
    palette[: len(chosen)] = chosen
    palette[len(chosen) :] = chosen[-1]
    # Shades of text keep to those between page and text: a colour beside them would be seen.
    grey = np.concatenate([ends, mixed])
    shades = _between(whole, np.arange(256) / 255)
    return Ink(
        _background(whole, palette, grey),
        tuple(_nearest(table, palette) for table in tables),
        _nearest(grey[_nearest(shades, grey)], palette),
        palette,
    )


def opaque(colouring: Colouring, whole: Layout) -> NDArray[np.uint8]:
    """Return the colours of the codes over the page, shape ``(256, 3)``."""
    lut = colouring.lut.astype(float)
    alpha = lut[:, 3:] / 255
    over = lut[:, :3] * alpha + np.array(whole.face) * (1 - alpha)
    return np.rint(over).astype(np.uint8)


def _between(whole: Layout, parts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return colours from the page's (0) to the text's (1)."""
    face, text = np.array(whole.face, float), np.array(whole.text, float)
    mixed: NDArray[np.uint8] = np.rint(face + parts[:, None] * (text - face)).astype(np.uint8)
    return mixed


def _packed(rgb: NDArray[np.uint8]) -> NDArray[np.uint32]:
    padded = np.zeros((*rgb.shape[:-1], 4), np.uint8)
    padded[..., :3] = rgb
    return padded.view("<u4")[..., 0]


def _background(
    whole: Layout, palette: NDArray[np.uint8], grey: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    colours, places = _distinct(whole.background)
    face, text = np.array(whole.face, float), np.array(whole.text, float)
    line = text - face
    part = ((colours - face) @ line) / max(float(line @ line), 1.0)
    off = np.abs(face + part[:, None] * line - colours).max(axis=1)
    plain = _nearest(grey[_nearest(colours, grey)], palette)
    made = np.where(off <= 2, plain, _nearest(colours, palette))
    return made.astype(np.uint8)[places.reshape(-1)].reshape(whole.background.shape[:2])


def _nearest(colours: NDArray[np.uint8], palette: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the number of the nearest colour of a palette."""
    flat, places = _distinct(colours)
    found = np.empty(len(flat), np.uint8)
    for start in range(0, len(flat), 4096):
        part = flat[start : start + 4096, None].astype(np.int32) - palette[None].astype(np.int32)
        found[start : start + 4096] = (part**2).sum(axis=2).argmin(axis=1)
    return found[places.reshape(-1)].reshape(colours.shape[:-1])


def _thinned(table: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return at most `count` colours, evenly along a table; its ends and its odd ones are kept."""
    ends = table[[0, 1, 255]]
    inner = table[np.linspace(2, 254, max(count - len(ends), 2)).round().astype(int)]
    return np.concatenate([ends, inner])


def _most_common(rgb: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    colours, places = _distinct(rgb)
    return colours[np.argsort(-np.bincount(places))[:count]]


def _distinct(rgb: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Return the different colours, and the place of each pixel's among them."""
    found, places = np.unique(_packed(rgb.reshape(-1, 3)), return_inverse=True)
    return found.view(np.uint8).reshape(-1, 4)[:, :3], places.reshape(-1)
