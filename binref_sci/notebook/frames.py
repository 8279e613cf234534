"""One frame as it is sent: read, reduced to the screen, as codes or as float32.

Works without widget and thread. What has been made is kept, up to a number of bytes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook.codes import Ends
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.grid import Box, Window
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.reducing import HOW, reduced
from binref_sci.notebook.scene import Scene

CACHE_BYTES: Final = 64 * 1024 * 1024
FORMATS: Final = ("u8", "f32")

_DECODED = 2  # fields that are kept as numbers: one that is looked at is asked for again
_LITTLE_FLOAT = np.dtype("<f4")

Item = tuple[dict[str, Any], list[bytes]]


@dataclass(frozen=True)
class View:
    """Which part of a picture is wanted, and how fine.

    Parameters
    ----------
    window
        Part of the picture, or None for all of it.
    lod
        One cell is sent for so many rows and columns.
    reduce
        How: ``"stride"``, the first of them, is fast; ``"mean"``, ``"max"``, ``"min"`` or
        ``"absmax"`` of all.
    """

    window: Window | None = None
    lod: int = 1
    reduce: str = "stride"

    @classmethod
    def of(cls, made: Mapping[str, Any]) -> View:
        """Return the view of a message; what is out of range is brought into it."""
        window = made.get("window")
        edges: Window | None = None
        if window is not None:
            left, right, top, bottom = (min(max(float(edge), 0.0), 1.0) for edge in window)
            edges = min(left, right), max(left, right), min(top, bottom), max(top, bottom)
            edges = None if edges == (0.0, 1.0, 0.0, 1.0) else edges
        how = made.get("reduce", "stride")
        if how not in HOW:
            raise ValueError(f"reduce={how!r} is none of {HOW}")
        return cls(edges, max(int(made.get("lod", 1)), 1), how)


class Frames:
    """Frames of a scene in the colours of each panel.

    Parameters
    ----------
    scene
        What is shown.
    colourings
        One for each colour scale of the scene.
    cache_bytes
        Of frames that are kept as they are sent.
    """

    def __init__(
        self, scene: Scene, colourings: Sequence[Colouring], *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self.scene = scene
        self.colourings = tuple(colourings)
        self.cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, View, str], Item] = OrderedDict()
        self._bytes = 0
        self._decoded: OrderedDict[tuple[int, View], list[NDArray[Any]]] = OrderedDict()
        self.hits = 0
        self.reads = 0

    def recoloured(self, colourings: Sequence[Colouring]) -> Frames:
        """Return the same frames in other colours; fields that were read are not read again."""
        made = Frames(self.scene, colourings, cache_bytes=self.cache_bytes)
        with self._lock:
            made._decoded.update(self._decoded)
        made.hits, made.reads = self.hits, self.reads
        return made

    @property
    def nbytes(self) -> int:
        """Bytes of all frames that are kept."""
        with self._lock:
            fields = sum(field.nbytes for kept in self._decoded.values() for field in kept)
            return self._bytes + fields

    def item(
        self, i: int, view: View, fmt: str = "u8", *, wanted: Callable[[], bool] | None = None
    ) -> Item | None:
        """Return one frame, described for the browser, and one buffer a panel.

        Parameters
        ----------
        i
            Number of the frame.
        view
            Part, and how fine.
        fmt
            ``"u8"``: codes of colours; ``"f32"``: values, little-endian.
        wanted
            Asked between reading and encoding; if it says no, None is returned.
        """
        if fmt not in FORMATS:
            raise ValueError(f"fmt={fmt!r} is none of {FORMATS}")
        key = (i, view, fmt)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                self.hits += 1
                return dict(kept[0]), kept[1]
        began = time.perf_counter()
        fields = self._fields(i, view)
        read = time.perf_counter()
        if wanted is not None and not wanted():
            return None
        item = self._encoded(i, view, fmt, fields)
        item[0]["ms"] = {
            "read": round(1e3 * (read - began), 2),
            "enc": round(1e3 * (time.perf_counter() - read), 2),
        }
        self._keep(key, item)
        return dict(item[0]), item[1]

    def drop(self) -> None:
        """Forget what is kept."""
        with self._lock:
            self._kept.clear()
            self._decoded.clear()
            self._bytes = 0

    def _keep(self, key: tuple[int, View, str], item: Item) -> None:
        size = sum(map(len, item[1]))
        if size > self.cache_bytes:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            if old is not None:
                self._bytes -= sum(map(len, old[1]))
            self._kept[key] = item
            self._bytes += size
            while self._bytes > self.cache_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= sum(map(len, gone[1]))

    def _fields(self, i: int, view: View) -> list[NDArray[Any]]:
        key = (i, view)
        with self._lock:
            kept = self._decoded.get(key)
        if kept is not None:
            return kept
        scene = self.scene
        fields = [_field(scene, panel, i, view) for panel in scene.panels]
        with self._lock:
            self.reads += 1
            self._decoded[key] = fields
            while len(self._decoded) > _DECODED:
                self._decoded.popitem(last=False)
        return fields

    def _encoded(self, i: int, view: View, fmt: str, fields: list[NDArray[Any]]) -> Item:
        scene = self.scene
        first = scene.panels[0].grid
        time_now = scene.time(i)
        about: dict[str, Any] = {
            "i": i,
            "fmt": fmt,
            "label": scene.label(i),
            "t": time_now if math.isfinite(time_now) else None,  # JSON has no NaN
            "window": list(first.window(_box(scene, scene.panels[0], view))),
            "lod": view.lod,
            "shapes": [list(field.shape) for field in fields],
        }
        stats: list[dict[str, Any]] = []
        buffers: list[bytes] = []
        for panel, field in zip(scene.panels, fields, strict=True):
            colouring = self.colourings[panel.colour]
            if fmt == "u8":
                codes, ends = colouring.coded(field)
                buffers.append(codes.tobytes())
            else:
                finite = np.isfinite(field)
                ends = Ends(
                    bad=int(field.size - np.count_nonzero(finite)),
                    under=int(np.count_nonzero(field < colouring.vmin)),
                    over=int(np.count_nonzero(field > colouring.vmax)),
                )
                ends.take(field, finite)
                with np.errstate(over="ignore"):  # beyond float32 is infinite there
                    buffers.append(field.astype(_LITTLE_FLOAT).tobytes())
            there = ends.lo <= ends.hi
            stats.append(
                {
                    "bad": ends.bad,
                    "under": ends.under,
                    "over": ends.over,
                    "lo": ends.lo if there else None,
                    "hi": ends.hi if there else None,
                }
            )
        about["stats"] = stats
        return about, buffers


def _box(scene: Scene, panel: Panel, view: View) -> Box:
    box = panel.grid.box(view.window)
    return (0, panel.shape[0], *box[2:]) if scene.kind == "line" else box


def _field(scene: Scene, panel: Panel, i: int, view: View) -> NDArray[Any]:
    box = _box(scene, panel, view)
    if view.reduce == "stride" or view.lod == 1:
        return scene.cells(panel, i, box, view.lod)
    factors = (1 if scene.kind == "line" else view.lod, view.lod)
    return reduced(scene.cells(panel, i, box), factors, view.reduce)
