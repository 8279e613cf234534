"""A small picture of one frame: what is seen of a player where no kernel runs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import numpy as np
from PIL import Image

from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.inks import rgb_ink
from binref_sci.notebook.scene import Scene

MOST_BYTES: Final = 100_000
"""Of a picture that is kept in a notebook."""

_LONGEST = (480, 320, 200)  # pixels of the longer side of a panel, until it is small enough


def png(scene: Scene, colourings: Sequence[Colouring], i: int, most: int = MOST_BYTES) -> bytes:
    """Return a frame as a PNG file with axes and colour bar.

    Parameters
    ----------
    scene, colourings
        What is shown, and its colours.
    i
        Number of the frame.
    most
        Bytes: a noisy field gets fewer colours, and then fewer pixels. The smallest picture
        is returned if it has more all the same.
    """
    made = b""
    for longest in _LONGEST:
        canvas = Canvas(scene, colourings, longest=longest)
        ink = rgb_ink(canvas.layout, canvas.colourings)
        pixels = ink.background.copy()
        canvas.draw(i, ink, pixels)
        whole = Image.fromarray(
            np.ascontiguousarray(pixels.view(np.uint8).reshape(*pixels.shape, 4)[..., :3])
        )
        for image in (whole, whole.quantize(256), whole.quantize(64)):
            file = io.BytesIO()
            image.save(file, "PNG", optimize=True)
            made = file.getvalue()
            if len(made) <= most:
                return made
    return made
