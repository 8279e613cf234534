"""The player in one file: a page that plays in a browser, without Python and without a network.

It holds the module of the widget, a model that answers it from the page, and the frames as
deflated codes of colours.
"""

from __future__ import annotations

import base64
import html
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
import orjson
from numpy.typing import NDArray

from binref_sci.errors import FormatError
from binref_sci.notebook.canvas import still_title, telling
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.frames import Frames, View
from binref_sci.notebook.lines import positions
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.script import page_script, style

LONGEST: Final = 1024
"""Rows or columns of a picture; larger ones are put together block by block."""

MOST_BYTES: Final = 512 * 1024 * 1024
"""Size of a page that browsers still open."""

_LEVEL = 6  # of deflate: a page is written once and read often
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


def write_page(
    scene: Scene,
    colourings: Sequence[Colouring],
    path: Path,
    chosen: Sequence[int],
    *,
    index: int = 0,
    fps: float = 20.0,
    reduce: str = "mean",
    update: Callable[[int], None] = lambda done: None,
) -> None:
    """Write a page with some frames of a scene.

    Parameters
    ----------
    scene, colourings
        What is shown, and its colours.
    path
        Of the file.
    chosen
        Numbers of the frames.
    index
        The frame that is shown at first, or the one after it that is there.
    fps
        Frames per second.
    reduce
        What stands for several cells where a picture is too large.
    update
        Called with the number of frames done.

    Raises
    ------
    FormatError
        If the page would have more than 512 MiB.
    """
    first = next((k for k, i in enumerate(chosen) if i >= index), len(chosen) - 1)
    traits = _traits(scene, colourings, chosen, first, fps)
    name = html.escape(scene.name or "film")
    with path.open("w", encoding="utf-8") as page:
        page.write(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" '
            f'content="light dark">\n<style>{style()}\n'
            "body{max-width:1100px;margin:16px auto;padding:0 12px}</style>\n"
            "<noscript>This film needs JavaScript.</noscript>\n"
            '<div id="binref-player"></div>\n<script type="application/json" id="binref-data">'
        )
        _write_data(page, scene, colourings, chosen, traits, reduce, update)
        page.write(
            f'</script>\n<script type="module">{page_script()}\n'
            "start(widget, document);</script></html>\n"
        )


def _write_data(
    page: TextIO,
    scene: Scene,
    colourings: Sequence[Colouring],
    chosen: Sequence[int],
    traits: dict[str, Any],
    reduce: str,
    update: Callable[[int], None],
) -> None:
    lines = scene.kind == "line"
    fmt = "f32" if lines else "u8"
    coords = [_base64(positions(panel).astype("<f8").tobytes()) for panel in scene.panels]
    head = {
        "traits": traits,
        "fmt": fmt,
        "codec": "deflate",
        "values": [_values(one) for one in colourings],
        "coords": coords if lines else [],
        "times": _times(scene, chosen),
    }
    page.write(f'{_json(head)[:-1]},"frames":[')
    frames = Frames(scene, colourings, cache_bytes=0)
    longest = max(max(panel.shape) for panel in scene.panels)
    view = View(lod=1 if lines else -(-longest // LONGEST), reduce=reduce)
    items: list[dict[str, Any]] = []
    for k, i in enumerate(chosen):
        with telling(scene, i):
            made = frames.item(i, view, fmt)
        assert made is not None  # nobody said that it is not wanted
        about, buffers = made
        items.append({**about, "i": k})
        text = _base64(zlib.compress(b"".join(buffers), _LEVEL))
        page.write(f'{"," if k else ""}"{text}"')
        if page.tell() > MOST_BYTES:
            raise FormatError(
                f"a page with {len(chosen)} frames has more than {MOST_BYTES >> 20} MiB after "
                f"{k + 1} of them, which browsers do not open: choose fewer frames="
            )
        update(k + 1)
    page.write(f'],"items":{_json(items)}}}')


def _traits(
    scene: Scene, colourings: Sequence[Colouring], chosen: Sequence[int], index: int, fps: float
) -> dict[str, Any]:
    n, pace = len(chosen), scene.times.pace_of(chosen)
    told = scene.to_json() | {"n": n, "sliders": [], "title": still_title(scene), "pace": pace}
    return {
        "scene": told,
        "n": n,
        "ver": 0,
        "colours": [one.to_json() for one in colourings],
        "luts": _base64(b"".join(np.ascontiguousarray(one.lut).tobytes() for one in colourings)),
        "index": index,
        "fps": fps,
        "mode": "every",
        "loop": "loop",
        "direction": 1,
        "stride": 1,
        "positions": [],
        "options": {"cache_bytes": 64 * 1024 * 1024, "show_bar": True, "theme": "auto"},
    }


def _times(scene: Scene, chosen: Sequence[int]) -> str | None:
    clock = scene.times.clock
    return None if clock is None else _base64(clock[1][np.asarray(chosen)].astype("<f8").tobytes())


def _values(colouring: Colouring) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in colouring.values.tolist()]


def _json(made: Any) -> str:
    # What is in the page's script must not look like its end.
    return orjson.dumps(made, option=orjson.OPT_SERIALIZE_NUMPY).decode().replace("<", "\\u003c")


def _base64(data: bytes | NDArray[Any]) -> str:
    return base64.b64encode(data).decode()
