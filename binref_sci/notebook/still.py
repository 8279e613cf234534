"""A small picture of one frame: what is seen of a player where no kernel runs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from PIL import Image

from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.scene import Scene

MOST_BYTES: Final = 100_000
"""Of a picture that is kept in a notebook."""

_LONGEST = (480, 320, 200, 100)  # pixels of the longer side of a panel, until it is small enough


def png(
    scene: Scene,
    colourings: Sequence[Colouring],
    i: int,
    most: int = MOST_BYTES,
    *,
    reduce: str = "mean",
) -> bytes:
    """Return a frame as a PNG file with axes and colour bar.

    Parameters
    ----------
    scene, colourings
        What is shown, and its colours.
    i
        Number of the frame.
    most
        Bytes: of a noisy field the picture has fewer pixels. The smallest is returned if it
        has more all the same.
    reduce
        What stands for several cells in one pixel.
    """
    if not all(min(panel.shape) for panel in scene.panels):
        raise ValueError(f"{scene.name or 'the array'} has no cells to be drawn")
    made = b""
    for longest in _LONGEST:
        canvas = Canvas(scene, colourings, longest=longest, first=scene.checked(i), reduce=reduce)
        # As many colours as a colour scale has: exact, and a third of the bytes.
        ink = canvas.ink(palette=True)
        assert ink.palette is not None
        pixels = ink.background.copy()
        canvas.draw(scene.checked(i), ink, pixels)
        image = Image.fromarray(pixels).convert("P")
        image.putpalette(ink.palette.tobytes())
        file = io.BytesIO()
        image.save(file, "PNG", compress_level=9)
        made = file.getvalue()
        if len(made) <= most:
            break
    return made
