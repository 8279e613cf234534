"""Save a scene as a film: read, coloured and encoded frame by frame.

The picture is laid out and drawn by matplotlib once. Of each frame only the fields, by the
tables of the colour scales, and the changing title are drawn. Memory does not depend on the
number of frames.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from binref_sci.errors import FormatError
from binref_sci.notebook.animated import GIF_FPS, Animated, Apng, Film, Gif, WebP
from binref_sci.notebook.canvas import Canvas
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.inks import Ink
from binref_sci.notebook.layout import DPI
from binref_sci.notebook.mp4 import Mp4
from binref_sci.notebook.reducing import HOW
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.standalone import write_page
from binref_sci.progress import ProgressBar
from binref_sci.storage import hidden_beside, local_folder

_LEAST_FPS: Final = 0.001  # MP4 has no room for the ages beyond
_MOST_DPI: Final = 2400.0
_MOST_PIXELS: Final = 1 << 15  # of a side; matplotlib draws no more than 2^16
SUFFIXES: Final = (".mp4", ".gif", ".webp", ".apng", ".png", ".html")

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
    chosen = _chosen(scene, frames, index if suffix == ".png" else None)
    if suffix == ".html":
        index = scene.checked(index)
    if not (_is_number(fps) and _LEAST_FPS <= fps <= 1000):
        raise ValueError(f"fps must be {_LEAST_FPS:g} to 1000, got {fps!r}")
    if suffix == ".gif" and fps > GIF_FPS:
        raise ValueError(f"a GIF has at most {GIF_FPS:g} frames per second, got fps={fps:g}")
    bare = [panel for panel in scene.panels if 0 in panel.shape]
    if bare:
        raise FormatError(
            f"there is nothing to draw: {bare[0].data.name!r} has the sizes "
            f"{dict(bare[0].data.sizes)}"
        )
    _check_size(size, dpi)
    if reduce not in HOW[1:]:
        raise ValueError(f"reduce={reduce!r}: use one of {HOW[1:]}")
    if quality is not None and not (_is_number(quality) and 0 <= quality <= 100):
        raise ValueError(f"quality must be 0 to 100, got {quality!r}")
    if size is not None and suffix == ".mp4" and (size[0] % 2 or size[1] % 2):
        raise ValueError(f"an MP4 has an even width and height, got size={size}")
    bar = ProgressBar(place.name, len(chosen)) if progress else None
    with partial(place) as path_now, _closing(bar, len(chosen)) as update:
        if suffix == ".html":
            options: dict[str, Any] = {"index": index, "fps": fps, "reduce": reduce}
            write_page(scene, colourings, path_now, chosen, **options, update=update)
            return place
        canvas = Canvas(scene, colourings, size=size, dpi=dpi, first=chosen[0], reduce=reduce)
        if suffix == ".png":
            Image.fromarray(picture(canvas, chosen[0])).save(path_now, "PNG", dpi=(dpi, dpi))
        elif suffix == ".mp4":
            _mp4(canvas, path_now, chosen, fps, 80 if quality is None else quality, update)
        else:
            _animated(canvas, path_now, chosen, suffix, fps, loop, quality, update)
    return place


def checked_place(path: str | os.PathLike[str]) -> Path:
    """Return where a film can be saved, before anything is read for it.

    Raises
    ------
    FormatError
        If the suffix is none of `SUFFIXES`.
    OSError
        If the folder is missing or may not be written, or a folder has that name.
    """
    place = Path(local_folder(path))
    refused = f"cannot save to {os.fspath(path)!r}: "
    if place.suffix.lower() not in SUFFIXES:
        raise FormatError(f"{refused}the name must end in {', '.join(SUFFIXES)}")
    if place.is_dir():
        raise IsADirectoryError(f"{refused}that is a folder")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{refused}there is no folder {str(place.parent)!r}")
    trial = hidden_beside(place.resolve())
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise OSError(error.errno, f"{refused}{error.strerror}") from error
    return place


def _is_number(given: Any) -> bool:
    return isinstance(given, Real)


def _check_size(size: Any, dpi: float) -> None:
    if not (_is_number(dpi) and 0 < dpi <= _MOST_DPI):
        raise ValueError(f"dpi must be above 0 and at most {_MOST_DPI:g}, got {dpi!r}")
    if size is None:
        return
    try:
        width, height = (operator.index(length) for length in size)
    except (TypeError, ValueError):
        raise ValueError(f"size must be two whole numbers of pixels, got {size!r}") from None
    if max(width, height) > _MOST_PIXELS:
        raise ValueError(f"size={size}: at most {_MOST_PIXELS} pixels along each side")


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


def _chosen(scene: Scene, frames: Any, index: int | None) -> Sequence[int]:
    """Return numbers of frames, counted from the start."""
    if index is not None and scene.n:
        return [scene.checked(index)]
    if frames is None:
        chosen: Sequence[int] = range(scene.n)
    elif isinstance(frames, slice):
        chosen = range(scene.n)[frames]
    elif isinstance(frames, int | np.integer | str):
        raise ValueError(
            f"frames={frames!r}: give a slice or a list of numbers, as slice(None, None, 10) for "
            "every tenth frame"
        )
    else:
        chosen = [scene.checked(i) for i in frames]
    if not len(chosen):
        raise FormatError(
            f"there are no frames to save: {scene.dim!r} has {scene.n}"
            + ("" if frames is None else f", frames={frames!r} chooses none of them")
        )
    return chosen


@contextmanager
def partial(place: Path) -> Iterator[Path]:
    """Give a path beside `place`; what is written there takes its name in the end, or vanishes."""
    place = place.resolve()  # what a link leads to is replaced, not the link
    path = hidden_beside(place, f".partial{place.suffix}")
    try:
        yield path
        path.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


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
