"""What cannot be saved is refused, by the name of the argument, before a frame is read."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np

from binref_sci.errors import FormatError
from binref_sci.folders import local_folder
from binref_sci.notebook.animated import GIF_FPS
from binref_sci.notebook.reducing import HOW
from binref_sci.notebook.scene import Scene
from binref_sci.storage import hidden_beside

SUFFIXES: Final = (".mp4", ".gif", ".webp", ".apng", ".png", ".html")

_LEAST_FPS: Final = 0.001  # MP4 has no room for the ages beyond
_MOST_DPI: Final = 2400.0
_MOST_PIXELS: Final = 1 << 15  # of a side; matplotlib draws no more than 2^16


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


def chosen_frames(scene: Scene, frames: Any, index: int | None) -> Sequence[int]:
    """Return numbers of frames, counted from the start; of a picture the one at `index`.

    Raises
    ------
    FormatError
        If there are none.
    ValueError, IndexError
        If `frames` is one number, or there is no such frame.
    """
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


def check_pace(suffix: str, fps: float) -> None:
    """Refuse frames per second that a kind of file cannot have."""
    if not (_is_number(fps) and _LEAST_FPS <= fps <= 1000):
        raise ValueError(f"fps must be {_LEAST_FPS:g} to 1000, got {fps!r}")
    if suffix == ".gif" and fps > GIF_FPS:
        raise ValueError(f"a GIF has at most {GIF_FPS:g} frames per second, got fps={fps:g}")


def check_cells(scene: Scene) -> None:
    """Refuse a scene with a panel of no cells."""
    bare = [panel for panel in scene.panels if 0 in panel.shape]
    if bare:
        raise FormatError(
            f"there is nothing to draw: {bare[0].data.name!r} has the sizes "
            f"{dict(bare[0].data.sizes)}"
        )


def check_size(suffix: str, size: Any, dpi: float) -> None:
    """Refuse a width and height that a kind of file cannot have, and text of no size."""
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
    if suffix == ".mp4" and (width % 2 or height % 2):
        raise ValueError(f"an MP4 has an even width and height, got size={size}")


def check_choices(reduce: str, quality: int | None) -> None:
    """Refuse an unknown way to reduce, and a quality beyond the scale."""
    if reduce not in HOW[1:]:
        raise ValueError(f"reduce={reduce!r}: use one of {HOW[1:]}")
    if quality is not None and not (_is_number(quality) and 0 <= quality <= 100):
        raise ValueError(f"quality must be 0 to 100, got {quality!r}")


def _is_number(given: Any) -> bool:
    return isinstance(given, Real)
