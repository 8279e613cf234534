"""Save a scene as a film: read, coloured and encoded frame by frame.

The picture is laid out and drawn by matplotlib once. Of each frame only the fields, by the
tables of the colour scales, and the changing title are drawn. Memory does not depend on the
number of frames.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from binref_sci.notebook.animated import Animated, Apng, Film, Gif, WebP
from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.inks import Ink
from binref_sci.notebook.layout import DPI
from binref_sci.notebook.mp4 import Mp4
from binref_sci.notebook.savable import (
    check_cells,
    check_choices,
    check_pace,
    check_size,
    checked_place,
    chosen_frames,
)
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.standalone import write_page
from binref_sci.progress import ProgressBar
from binref_sci.storage import taking_place

_ANIMATED: Final[dict[str, type[Animated]]] = {".gif": Gif, ".apng": Apng, ".webp": WebP}


def save(
    scene: Scene,
    colourings: Sequence[Colouring],
    path: str | os.PathLike[str],
    *,
    frames: slice | range | Sequence[int] | None = None,
    index: int = 0,
    fps: float = 20.0,
    size: tuple[int, int] | None = None,
    dpi: float = DPI,
    loop: bool = True,
    quality: int | None = None,
    reduce: str = "mean",
    progress: bool = True,
) -> Path:
    """Save frames of a scene as a film or a picture.

    The file appears under its name when it is complete; on an error, or Ctrl-C, what was
    there before stays. Where the name is a symbolic link, the file it leads to is written.

    Parameters
    ----------
    scene, colourings
        What is shown, and its colours.
    path
        Its suffix says what is made: ``.mp4`` (H.264); ``.gif``, ``.webp`` and ``.apng``,
        animated pictures with the exact colours of the colormap; ``.png``, a picture of
        frame `index`; ``.html``, the player itself in one file.
    frames
        Which frames, as ``slice(0, None, 10)`` or a sequence of numbers; default: all.
    index
        The frame of a ``.png``, and the one that ``.html`` begins with.
    fps
        Frames per second.
    size
        Width and height in pixels of the whole picture; default: a whole number of pixels
        for a cell, or of cells for a pixel, about 512 pixels for the field.
    dpi
        Pixels to the inch: how large the text is.
    loop
        Whether animated pictures begin again.
    quality
        0 to 100. Of ``.mp4``, 80 by default; a ``.webp`` of less than 100 loses colours.
    reduce
        What stands for several cells in one pixel: their ``"mean"``, ``"max"``, ``"min"`` or
        ``"absmax"``.
    progress
        Show how far it is, if it takes long.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    FormatError
        If the suffix is another one, ffmpeg is missing, or there are no frames or no cells.
    ValueError
        If an argument has no meaning; names it.
    IndexError
        If there is no such frame.
    OSError
        If the folder is missing, or a folder has that name.
    Exception
        What the storage raised for a frame that cannot be read; a note says which frame.
    """
    place = checked_place(path)
    suffix = place.suffix.lower()
    chosen = chosen_frames(scene, frames, index if suffix == ".png" else None)
    if suffix == ".html":
        index = scene.checked(index)
    check_pace(suffix, fps)
    check_cells(scene)
    check_size(suffix, size, dpi)
    check_choices(reduce, quality)
    bar = ProgressBar(place.name, len(chosen)) if progress else None
    final = place.resolve()  # what a link leads to is replaced, not the link
    with taking_place(final, suffix) as partial, _closing(bar, len(chosen)) as update:
        if suffix == ".html":
            options: dict[str, Any] = {"index": index, "fps": fps, "reduce": reduce}
            write_page(scene, colourings, partial, chosen, **options, update=update)
            return place
        canvas = Canvas(scene, colourings, size=size, dpi=dpi, first=chosen[0], reduce=reduce)
        if suffix == ".png":
            Image.fromarray(picture(canvas, chosen[0])).save(partial, "PNG", dpi=(dpi, dpi))
        elif suffix == ".mp4":
            _mp4(canvas, partial, chosen, fps, 80 if quality is None else quality, update)
        else:
            _animated(canvas, partial, chosen, suffix, fps, loop, quality, update)
    return place


def picture(canvas: Canvas, i: int) -> np.ndarray[Any, Any]:
    """Return frame `i` as RGB, shape ``(height, width, 3)``."""
    ink = canvas.ink(palette=False)
    pixels = ink.background.copy()
    canvas.draw(i, ink, pixels)
    return pixels.view(np.uint8).reshape(*pixels.shape, 4)[..., :3]


def _mp4(
    canvas: Canvas,
    path: Path,
    chosen: Sequence[int],
    fps: float,
    quality: int,
    update: Callable[[int], None],
) -> None:
    ink = canvas.ink(palette=False)
    film = Mp4(path, canvas.size, fps, quality)
    try:
        _draw(canvas, ink, chosen, film.add, update)
        film.close()
    except BaseException:
        film.abort()
        raise


def _animated(
    canvas: Canvas,
    path: Path,
    chosen: Sequence[int],
    suffix: str,
    fps: float,
    loop: bool,  # noqa: FBT001  # of this module alone
    quality: int | None,
    update: Callable[[int], None],
) -> None:
    ink = canvas.ink(palette=True)
    assert ink.palette is not None
    film = Film(
        canvas.size, len(chosen), fps, loop, ink.palette, 100 if quality is None else quality
    )
    with path.open("wb") as file:
        made = _ANIMATED[suffix](file, film)
        _draw(canvas, ink, chosen, made.add, update)
        made.close()


def _draw(
    canvas: Canvas,
    ink: Ink,
    chosen: Sequence[int],
    add: Callable[[Any], None],
    update: Callable[[int], None],
) -> None:
    pixels = ink.background.copy()
    for done, i in enumerate(chosen):
        canvas.draw(i, ink, pixels)
        add(pixels)
        update(done + 1)


@contextmanager
def _closing(bar: ProgressBar | None, total: int) -> Iterator[Callable[[int], None]]:
    done = 0

    def update(now: int) -> None:
        nonlocal done
        done = now
        if bar is not None:
            bar.update(now)

    try:
        yield update
    finally:
        if bar is not None:
            bar.close(done)
