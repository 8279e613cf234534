"""The colours of a player that is running: limits, colormap and norm as they are changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.limits import Limits, scanned
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.session import Session


class Colours:
    """Changes the colours of a session, and tells of it.

    Parameters
    ----------
    session
        Whose frames are coloured.
    limits
        At the start.
    tell
        Takes what has changed: `colours`, `luts`, `ver`, `status`.
    """

    def __init__(self, session: Session, limits: Limits, tell: Callable[..., None]) -> None:
        self._session = session
        self._limits = limits
        self._tell = tell
        self._lock = threading.RLock()
        self._stop = threading.Event()

    @property
    def now(self) -> tuple[Colouring, ...]:
        """The colour scale of each variable."""
        return self._limits.colourings

    def handle(self, content: Mapping[str, Any]) -> None:
        """Take a message of the browser's; it only notes."""
        session = self._session
        match content["type"]:
            case "limits" if content["how"] == "full":
                self._stop.set()
                stop = self._stop = threading.Event()
                session.later(self._scan(stop))
            case "limits":
                self._stop.set()
                session.do(lambda: self._relimit(content))
            case "stop":
                self._stop.set()
            case "colour":
                session.do(lambda: self.rule(cmap=content["cmap"]))
            case "norm":
                session.do(lambda: self.rule(norm=content["kind"]))

    def set(self, vmin: float | None, vmax: float | None, *, colour: int | None = None) -> None:
        """Set limits; None: as they are. Of one colour scale, or of all.

        Raises
        ------
        ValueError
            If `vmin` is above `vmax`.
        IndexError
            If there is no such colour scale.
        """
        with self._lock:
            made = self._limits
            if colour is not None and not 0 <= colour < len(made.colourings):
                raise IndexError(f"colour scale {colour} is not among {len(made.colourings)}")
            for k, one in enumerate(made.colourings):
                if colour in (None, k):
                    low = one.vmin if vmin is None else float(vmin)
                    high = one.vmax if vmax is None else float(vmax)
                    if low > high:
                        raise ValueError(f"vmin={low:g} is above vmax={high:g}")
                    made = made.given(k, low, high)
            self._recolour(made)

    def rule(self, **rules: Any) -> None:
        """Change the colormap or the norm of all colour scales."""
        with self._lock:
            self._recolour(self._limits.ruled(**rules))

    def stop(self) -> None:
        """Stop a scan."""
        self._stop.set()

    def _relimit(self, content: Mapping[str, Any]) -> None:
        scene = self._session.scene
        with self._lock:
            match content["how"]:
                case "sampled":
                    self._recolour(self._limits.open().sampled(scene))
                case "frame":
                    frame = int(content["i"])
                    self._recolour(self._limits.open().frame(scene, frame))
                case "given":
                    k = int(content.get("colour", 0))
                    low, high = float(content["lo"]), float(content["hi"])
                    self._recolour(self._limits.given(k, low, high))
                case how:
                    raise ValueError(f"limits: {how!r} is not known")

    def _scan(self, stop: threading.Event) -> Iterator[None]:
        """Scan all frames for their extremes; what is wanted meanwhile goes first."""
        session = self._session
        said = -1.0

        def progress(done: int, n: int) -> None:
            nonlocal said
            fraction = done / max(n, 1)
            if fraction - said >= 0.01:
                said = fraction
                self._tell(status={"text": "scanning all frames", "fraction": round(fraction, 3)})
            session.breathe()

        def stopped() -> bool:
            return stop.is_set() or session.closed

        yield
        try:
            found = scanned(session.scene, progress=progress, stopped=stopped)
            with self._lock:
                if not stopped():
                    self._recolour(self._limits.open().of_values(found))
        finally:
            self._tell(status={"text": "", "fraction": None})

    def settled(self) -> tuple[Colouring, ...]:
        """Colour scales for a film: of frames that nobody has seen yet too."""
        with self._lock:
            return self._limits.settled(self._session.scene).colourings

    def move(self, positions: Sequence[int], at: int) -> Scene | None:
        """Show another position of the sliders; return the scene, or None if it is the same.

        Frame `at` is shown.

        Limits that came from values come from those of the new position; limits that were
        given stay.
        """
        with self._lock:
            scene = self._session.scene
            if tuple(positions) == scene.positions:
                return None
            scene = scene.at(positions)
            if any(one.rule in ("sampled", "full", "frame") for one in self.now):
                self._limits = self._limits.sampled(scene, at)
            self._session.move(scene, self.now)
            self._tell(**coloured(self.now), ver=self._session.ver)
            return scene

    def _recolour(self, made: Limits) -> None:
        """Show other colours; called with the lock."""
        before, self._limits = self._limits, made
        if _same_codes(before.colourings, made.colourings):
            self._session.frames.colourings = made.colourings
            self._tell(**coloured(made.colourings))
            return
        self._session.recolour(made.colourings)
        self._tell(**coloured(made.colourings), ver=self._session.ver)


def coloured(colourings: Sequence[Colouring]) -> dict[str, Any]:
    """Return what the browser is told of colour scales."""
    return {
        "colours": [one.to_json() for one in colourings],
        "luts": b"".join(np.ascontiguousarray(one.lut).tobytes() for one in colourings),
    }


def _same_codes(before: Sequence[Colouring], after: Sequence[Colouring]) -> bool:
    """Tell whether every value has the code that it had."""
    return all(
        type(one.norm) is type(other.norm)
        and (one.vmin, one.vmax) == (other.vmin, other.vmax)
        and _boundaries(one) == _boundaries(other)
        and type(one.norm).__name__ in ("Normalize", "LogNorm", "BoundaryNorm")
        for one, other in zip(before, after, strict=True)
    )


def _boundaries(one: Colouring) -> list[float]:
    return list(getattr(one.norm, "boundaries", ()))
