"""The kernel's half of the protocol: answers want-lists, never more than was asked for.

One thread a player does all reading and encoding. Handlers of messages only note what is
wanted and return. The newest want-list replaces the one before, so nothing queues up: a
frame that is no longer wanted is dropped before it is read, and again before it is encoded.
"""

from __future__ import annotations

import base64
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.frames import CACHE_BYTES, Frames, Item, View
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.worker import Worker

Send = Callable[[dict[str, Any], list[bytes]], None]

MESSAGE_BYTES: Final = 4 * 1024 * 1024
SMALL_BYTES: Final = 300_000
"""Frames up to this size travel together."""
TOGETHER: Final = 4
_MOST_CREDIT = 64
_MOST_WANTED = 4096  # frames of one want-list: it is looked through for each that is sent
_LINGER = 0.008  # seconds that a frame waits for others to travel with
_PROBE = bytes(range(16))


@dataclass(frozen=True)
class Want:
    """The newest want-list."""

    gen: int
    ver: int
    view: View
    view_id: Any
    idx: tuple[int, ...]
    fmt: str
    credit: int

    @classmethod
    def of(cls, made: dict[str, Any]) -> Want:
        """Return what a message says."""
        view = made.get("view") or {}
        return cls(
            int(made["gen"]),
            int(made["ver"]),
            View.of(view),
            view.get("id"),
            tuple(int(i) for i in islice(made["idx"], _MOST_WANTED)),
            str(made.get("fmt", "u8")),
            min(int(made.get("credit", 4)), _MOST_CREDIT),
        )

    def kind(self, i: int) -> tuple[Any, ...]:
        """Return what tells one frame that is sent from another."""
        return i, self.ver, self.view, self.fmt


class Session(Worker):
    """Serves one player.

    Parameters
    ----------
    send
        Carries a message and its buffers to the browser; called from the thread.
    scene, colourings
        What is shown.
    cache_bytes
        Of frames kept as they are sent.
    """

    def __init__(
        self,
        send: Send,
        scene: Scene,
        colourings: Sequence[Colouring],
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__()
        self._send_message = send
        self._sending = threading.Lock()
        self._frames: Frames | None = Frames(scene, colourings, cache_bytes=cache_bytes)
        self.ver = 0
        self._want: Want | None = None
        self._seq = 0
        self._flying: dict[int, tuple[Any, ...]] = {}
        self._failed: set[tuple[Any, ...]] = set()
        self._text = False
        self.sent = 0
        self.dropped = 0
        self.sent_bytes = 0
        self.times: deque[dict[str, float]] = deque(maxlen=256)

    @property
    def frames(self) -> Frames:
        """What frames are made by now.

        Raises
        ------
        RuntimeError
            If the player has been closed.
        """
        frames = self._frames
        if frames is None:
            raise RuntimeError("the player has been closed")
        return frames

    @property
    def scene(self) -> Scene:
        """What is shown."""
        return self.frames.scene

    # --- what handlers of messages call: they note, and return -------------------------------

    def handle(self, content: dict[str, Any]) -> bool:
        """Take a message; return whether it was one of this session's.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not what the protocol says.
        """
        match content.get("type"):
            case "ready":
                self.do(self._hello)
            case "fallback":
                self._text = True
            case "want":
                self.want(Want.of(content), seen=int(content.get("seen", 0)))
            case "value":
                self.do(lambda: self._value(content))
            case _:
                return False
        return True

    def want(self, want: Want, *, seen: int) -> None:
        """Replace the want-list; frames up to number `seen` have arrived."""
        with self._changed:
            for seq in [seq for seq in self._flying if seq <= seen]:
                del self._flying[seq]
            if self._want is None or want.gen != self._want.gen:
                self._failed.clear()
            self._want = want
            self._begin()

    # --- what changes the picture ------------------------------------------------------------

    def recolour(self, colourings: Sequence[Colouring]) -> None:
        """Show other colours or limits: frames that were sent are wrong."""
        self._replace(self.frames.recoloured(colourings))

    def move(self, scene: Scene, colourings: Sequence[Colouring]) -> None:
        """Show another scene: frames that were sent are wrong."""
        self._replace(Frames(scene, colourings, cache_bytes=self.frames.cache_bytes))

    def grow(self, scene: Scene) -> None:
        """Show a scene that has got longer: frames that were sent stay right."""
        self.frames.scene = scene
        with self._changed:
            self._begin()

    def _replace(self, frames: Frames) -> None:
        with self._changed:
            if self._closed:
                return
            self._frames = frames
            self.ver += 1
            self._failed.clear()
            self._begin()

    def close(self) -> None:
        """End the thread and let go of everything; frames on their way are dropped."""
        self.end()
        self._want = None
        frames, self._frames = self._frames, None
        if frames is not None:
            frames.drop()
        self._send_message = _nowhere

    def send(self, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message; as text to a browser that binary messages do not reach whole."""
        if self._closed:
            return
        if self._text and buffers:
            content = {**content, "data": [base64.b64encode(b).decode() for b in buffers]}
            buffers = ()
        with self._sending:
            self.sent_bytes += sum(map(len, buffers))  # first: who has the message finds it counted
            self._send_message(content, list(buffers))

    # --- the thread --------------------------------------------------------------------------

    def _urgent(self) -> Callable[[], None] | None:
        return None if self._pick() is None else self._serve

    def _pick(self) -> tuple[Want, int] | None:
        """Return the frame that is wanted most and may be sent; called with the lock."""
        want, frames = self._want, self._frames
        if want is None or frames is None or want.ver != self.ver:
            return None
        if len(self._flying) >= want.credit:
            return None
        flying = set(self._flying.values())
        for i in want.idx:
            kind = want.kind(i)
            if 0 <= i < frames.scene.n and kind not in flying and kind not in self._failed:
                return want, i
        return None

    def _wanted(self, kind: tuple[Any, ...]) -> bool:
        with self._changed:
            want = self._want
            return (
                want is not None
                and want.ver == self.ver
                and kind[0] in want.idx
                and want.kind(kind[0]) == kind
            )

    def _serve(self) -> None:
        """Send the frame that is wanted most, and small ones that are there at once with it."""
        batch: list[tuple[tuple[Any, ...], Item]] = []
        began = time.monotonic()
        while len(batch) < TOGETHER:
            with self._changed:
                picked = self._pick()
                frames = self._frames
                if picked is None or frames is None or (batch and self._tasks):
                    break
                want, i = picked
                kind = want.kind(i)
                self._seq += 1
                self._flying[self._seq] = kind
                seq = self._seq
            try:
                item = frames.item(i, want.view, want.fmt, wanted=partial(self._wanted, kind))
            except Exception as error:  # whatever the storage raises: the film goes on
                with self._changed:
                    self._flying.pop(seq, None)
                    self._failed.add(kind)
                self.send({"type": "error", "i": i, "text": _said(error)})
                continue
            if item is None or not self._wanted(kind):
                self.dropped += 1
                with self._changed:
                    self._flying.pop(seq, None)
                continue
            item[0].update(seq=seq, ver=want.ver, view=want.view_id)
            self.times.append(item[0]["ms"])
            batch.append((kind, item))
            size = sum(map(len, item[1]))
            if size > SMALL_BYTES or time.monotonic() - began > _LINGER:
                break
        if batch:
            self._send_items([item for _, item in batch])

    def _send_items(self, items: list[Item]) -> None:
        with self._changed:
            gen = self._want.gen if self._want is not None else 0
        self.sent += len(items)
        if len(items) == 1 and sum(map(len, items[0][1])) > MESSAGE_BYTES:
            for about, buffers in _parts(*items[0]):
                self.send({"type": "frames", "gen": gen, "items": [about]}, buffers)
            return
        whole: list[Item] = []
        for item in items:
            if sum(map(len, item[1])) > SMALL_BYTES and whole:
                self._send_whole(gen, whole)
                whole = []
            whole.append(item)
        self._send_whole(gen, whole)

    def _send_whole(self, gen: int, items: list[Item]) -> None:
        self.send(
            {"type": "frames", "gen": gen, "items": [about for about, _ in items]},
            [buffer for _, buffers in items for buffer in buffers],
        )

    def stats(self) -> dict[str, Any]:
        """Return counts of frames and bytes, and the milliseconds of the last frames."""
        with self._changed:
            frames = self._frames
            flying = len(self._flying)
            times = list(self.times)
        return {
            "sent": self.sent,
            "dropped": self.dropped,
            "in_flight": flying,
            "sent_bytes": self.sent_bytes,
            "hits": 0 if frames is None else frames.hits,
            "reads": 0 if frames is None else frames.reads,
            "cached_bytes": 0 if frames is None else frames.nbytes,
            "cache_bytes": 0 if frames is None else frames.cache_bytes,
            "read_ms": float(np.median([one["read"] for one in times])) if times else None,
            "enc_ms": float(np.median([one["enc"] for one in times])) if times else None,
        }

    # --- answers -----------------------------------------------------------------------------

    def _hello(self) -> None:
        with self._changed:
            self._flying.clear()  # a page that was loaded again has got none of them
        self.send({"type": "probe"}, [_PROBE])
        scene = self.scene
        if scene.kind == "line":
            for number, panel in enumerate(scene.panels):
                values = panel.x.values[panel.x.places]
                numbers = values if values.dtype.kind in "biuf" else np.arange(len(values))
                self.send({"type": "coords", "panel": number}, [numbers.astype("<f8").tobytes()])

    def _value(self, content: dict[str, Any]) -> None:
        scene = self.scene
        panel = scene.panels[int(content["panel"])]
        row, column = cell_at(panel.shape, float(content["fx"]), float(content["fy"]))
        answer = {"type": "value", "id": content["id"], "i": content["i"], "cell": [row, column]}
        try:
            value, text = scene.value(panel, int(content["i"]), row, column)
        except Exception as error:  # whatever the storage raises
            self.send({**answer, "value": None, "text": _said(error)})
            return
        number = None if value is None or not np.isfinite(value) else float(value)
        shown = "" if value is None else str(value)
        self.send({**answer, "value": number, "text": text, "exact": shown})

    def _complain(self, error: Exception) -> None:
        if self._closed:
            return
        try:
            self.send({"type": "error", "i": None, "text": _said(error)})
        except Exception:  # the browser has gone: nobody to tell
            traceback.clear_frames(error.__traceback__)


def cell_at(shape: tuple[int, int], fx: float, fy: float) -> tuple[int, int]:
    """Return row and column of the cell at a part of the width and of the height."""
    rows, columns = shape
    row = min(max(int(fy * rows), 0), max(rows - 1, 0))
    return row, min(max(int(fx * columns), 0), max(columns - 1, 0))


def _parts(about: dict[str, Any], buffers: list[bytes]) -> Iterator[Item]:
    """Cut a frame into messages of whole rows; all bear its number."""
    shapes = about["shapes"]
    most = max(shape[0] for shape in shapes)
    row_bytes = [
        len(buffer) // max(shape[0], 1) for buffer, shape in zip(buffers, shapes, strict=True)
    ]
    count = max(MESSAGE_BYTES // max(sum(row_bytes), 1), 1)
    for first in range(0, most, count):
        rows = [[min(first, shape[0]), min(first + count, shape[0])] for shape in shapes]
        yield (
            {**about, "rows": rows},
            [
                buffer[start * width : stop * width]
                for buffer, width, (start, stop) in zip(buffers, row_bytes, rows, strict=True)
            ],
        )


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _nowhere(content: dict[str, Any], buffers: list[bytes]) -> None:
    """Send nothing: the player has been closed."""
