"""The player as a widget: traits, messages, and what Python can ask and set."""

from __future__ import annotations

import base64
import math
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets as t
import xarray as xr
from matplotlib.animation import FuncAnimation

from binref_sci.notebook import movie, savable, script
from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.colours import Colours, coloured
from binref_sci.notebook.frames import CACHE_BYTES
from binref_sci.notebook.limits import Limits
from binref_sci.notebook.live import Live
from binref_sci.notebook.picture import draw_frame, to_animation
from binref_sci.notebook.pins import Pins
from binref_sci.notebook.reducing import HOW
from binref_sci.notebook.scene import Scene
from binref_sci.notebook.session import Session
from binref_sci.notebook.still import png

_MODES: Final = ("every", "realtime", "timed")
_LOOPS: Final = ("once", "loop", "bounce")
_CODES: Final = 2 * 252  # the error of a colour is at most its range over this


class Player(anywidget.AnyWidget):
    """Plays a trajectory in the notebook; made by `animate`.

    An ipywidgets `DOMWidget`: it can stand in boxes, be linked and observed. `index`,
    `playing`, `fps`, `mode`, `loop`, `direction`, `stride`, `part` (first and last frame of
    what is played; empty: all), `reduce`, `sync` and `positions` (one of each slider) are
    traits.
    """

    # Text, not a path: anywidget watches files, and then holds every widget for ever.
    _esm = script.widget_script()
    _css = script.style()

    scene = t.Dict().tag(sync=True)
    n = t.Int(0).tag(sync=True)
    ver = t.Int(0).tag(sync=True)
    colours = t.List(t.Dict()).tag(sync=True)
    luts = t.Bytes().tag(sync=True)
    index = t.Int(0).tag(sync=True)
    playing = t.Bool(False).tag(sync=True)
    fps = t.Float(20.0, min=0.1, max=1000.0).tag(sync=True)
    mode = t.Enum(_MODES, "every").tag(sync=True)
    loop = t.Enum(_LOOPS, "loop").tag(sync=True)
    direction = t.Enum((1, -1), 1).tag(sync=True)
    stride = t.Int(1, min=1).tag(sync=True)
    part = t.List(t.Int()).tag(sync=True)
    reduce = t.Enum(HOW[1:], HOW[1]).tag(sync=True)
    sync = t.Unicode("").tag(sync=True)
    positions = t.List(t.Int()).tag(sync=True)
    pinned = t.List(t.Dict()).tag(sync=True)
    live = t.Dict().tag(sync=True)
    status = t.Dict().tag(sync=True)
    options = t.Dict().tag(sync=True)

    def __init__(
        self,
        scene: Scene,
        limits: Limits,
        *,
        live: Live | None = None,
        cache_bytes: int = CACHE_BYTES,
        **traits: Any,
    ) -> None:
        self._live = live
        self._browser: dict[str, Any] = {}
        self._session = Session(self.send, scene, limits.colourings, cache_bytes=cache_bytes)
        self._colours = Colours(self._session, limits, self._set)
        self._pins = Pins(self._session)
        self._own_layout: Any = None  # a trait that is refused closes the player here
        super().__init__(
            scene=scene.to_json(),
            n=scene.n,
            **coloured(limits.colourings),
            positions=list(scene.positions),
            live={} if live is None else live.to_json(attached=True),
            status={"text": "", "fraction": None},
            **traits,
        )
        self._own_layout = self.layout
        self.on_msg(_received)
        self.observe(_moved, names="positions")
        self.observe(_pinned, names="pinned")
        if live is not None:
            self._session.every(self._look)

    # --- what Python can ask and set ----------------------------------------------------------

    @property
    def time(self) -> Any:
        """Time of the frame that is shown, as its coordinate has it; settable, to the nearest."""
        values = self._session.scene.times.values
        return self.index if values is None else values[self.index]

    @time.setter
    def time(self, value: Any) -> None:
        self.index = self._session.scene.times.nearest(value)

    def shared_clock(self) -> str:
        """Return the name that players with this one's clock have in common as `sync`."""
        if not self.sync:
            self.sync = uuid.uuid4().hex
        return str(self.sync)

    @property
    def frame(self) -> xr.DataArray | list[xr.DataArray]:
        """The frame that is shown, lazily; of several variables a list."""
        return self._session.scene.frame(self.index)

    @property
    def colourings(self) -> tuple[Colouring, ...]:
        """The colour scale of each variable."""
        return self._colours.now

    @property
    def vmin(self) -> float:
        """Lower limit of the (first) colour scale; setting it sets it of all."""
        return self._colours.now[0].vmin

    @vmin.setter
    def vmin(self, value: float) -> None:
        self.set_limits(value, None)

    @property
    def vmax(self) -> float:
        """Upper limit of the (first) colour scale; setting it sets it of all."""
        return self._colours.now[0].vmax

    @vmax.setter
    def vmax(self, value: float) -> None:
        self.set_limits(None, value)

    @property
    def cmap(self) -> str:
        """Name of the (first) colormap; setting it sets it of all."""
        return self._colours.now[0].cmap.name

    @cmap.setter
    def cmap(self, value: Any) -> None:
        self._colours.rule(cmap=value)

    def set_limits(
        self, vmin: float | None = None, vmax: float | None = None, *, colour: int | None = None
    ) -> None:
        """Set limits of the colours.

        Parameters
        ----------
        vmin, vmax
            In the variable's unit; None: as it is.
        colour
            Which colour scale, counted by variables; default: all.

        Raises
        ------
        ValueError
            If `vmin` is above `vmax`.
        IndexError
            If there is no such colour scale.
        """
        self._colours.set(vmin, vmax, colour=colour)

    @property
    def pins(self) -> list[xr.DataArray]:
        """Time series of the points that are pinned, as far as they have been read."""
        return self._pins.arrays([pin["id"] for pin in self.pinned])

    def pin(self, *, panel: int = 0, **at: Any) -> None:
        """Pin a point, as a click does: its time series is read and drawn.

        Parameters
        ----------
        panel
            Number of the panel.
        **at
            Value of the coordinate of each axis, as ``pin(x=0.5, y=2.0)``; the nearest
            cell counts.

        Raises
        ------
        TypeError
            If the names are not those of the panel's axes.
        """
        fx, fy = self._session.scene.panels[panel].parts_at(at)
        number = max((int(pin["id"]) for pin in self.pinned), default=0) + 1
        self.pinned = [*self.pinned, {"id": number, "panel": panel, "fx": fx, "fy": fy}]

    def unpin(self) -> None:
        """Take all pins away."""
        self.pinned = []

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        index: int | None = None,
        fps: float | None = None,
        **options: Any,
    ) -> Path:
        """Save it as a film, a picture or a page, with the colours and sliders that are shown.

        Parameters
        ----------
        path
            Its suffix says what is made: ``.mp4``, ``.gif``, ``.webp``, ``.apng``, ``.png``
            (one frame) or ``.html`` (the player itself, which needs no kernel).
        index
            Frame of a picture, and the one that a page begins with; default: the one shown.
        fps
            Frames per second; default: those of the player.
        **options
            `frames`, `size`, `dpi`, `loop`, `quality`, `progress`; see
            `binref_sci.notebook.movie.save`. Default of `frames`: the `part` that is played.

        Returns
        -------
        Path
            Of the file.

        Raises
        ------
        FormatError, ValueError
            Naming the argument.
        """
        savable.checked_place(path)  # colours may have to be waited for
        if options.get("frames") is None and self.part:
            options["frames"] = range(self.part[0], self.part[1] + 1)
        options.setdefault("reduce", self.reduce)
        one = str(path).lower().endswith(".png")
        return movie.save(
            self._session.scene,
            self._colours.now if one else self._colours.settled(),
            path,
            index=self.index if index is None else index,
            fps=self.fps if fps is None else fps,
            **options,
        )

    def plot_frame(self, i: int | None = None, ax: Any = None, **options: Any) -> Any:
        """Draw one frame on matplotlib's axes, with the colours that are shown.

        Parameters
        ----------
        i
            Number of the frame; default: the one shown.
        ax
            Axes; of several panels one each. Default: the current ones, or new ones.
        **options
            As for `binref_sci.plot_frame`: `add_colorbar`, `add_labels`, `cbar_kwargs` and
            those of `matplotlib.axes.Axes.imshow`.

        Returns
        -------
        AxesImage, or list of Line2D
            The artist; of several panels a list of these.
        """
        scene, colourings = self._session.scene, self._colours.now
        return draw_frame(scene, colourings, self.index if i is None else i, ax=ax, **options)

    def to_animation(self, **options: Any) -> FuncAnimation:
        """Return a `matplotlib.animation.FuncAnimation`, for those who want to style a film.

        `save` is many times faster.

        Parameters
        ----------
        **options
            As for `plot_frame`.
        """
        scene, colourings = self._session.scene, self._colours.now
        return to_animation(scene, colourings, fps=self.fps, **options)

    def stats(self) -> dict[str, Any]:
        """Return what the player has done: frames, bytes, milliseconds; with the browser's view."""
        return {**self._session.stats(), "browser": dict(self._browser)}

    def close(self) -> None:
        """End it and let go of the data; the widget vanishes from the page."""
        self._colours.stop()
        self._session.close()
        self._pins.clear()
        self._live = None
        self.unobserve_all()
        self.on_msg(_received, remove=True)
        super().close()
        if self._own_layout is not None:
            self._own_layout.close()  # ipywidgets keeps each widget until it is closed

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the widget, and beside it a picture for where no kernel runs, and text."""
        made: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**kwargs)
        if made is None or self._session.closed:
            return made
        data, metadata = made
        try:
            image = png(self._session.scene, self._colours.now, self.index, reduce=self.reduce)
        except Exception:  # whatever the storage raises: the player itself tells of it
            return made
        return {**data, "image/png": base64.b64encode(image).decode()}, metadata

    def __repr__(self) -> str:
        if self._session.closed:
            return "Player(closed)"
        scene = self._session.scene
        rows, columns = scene.panels[0].shape
        size = f"{rows} x {columns} cells" if scene.kind == "image" else f"{columns} points"
        colours = "; ".join(
            f"{one.vmin:g} to {one.vmax:g} ({one.rule}), "
            f"colours within {(one.vmax - one.vmin) / _CODES:.2g}"
            if type(one.norm).__name__ == "Normalize"
            else f"{one.vmin:g} to {one.vmax:g} ({one.rule})"
            for one in self._colours.now
        )
        panels = f", {len(scene.panels)} panels" if len(scene.panels) > 1 else ""
        return (
            f"Player({scene.name or 'array'!r}, {self.n} frames along {scene.dim!r}, "
            f"{size}{panels}, {colours})"
        )

    @t.validate("index")
    def _index_there(self, proposal: Any) -> int:
        scene, asked = self._session.scene, int(proposal["value"])
        if asked == 0:
            return 0  # of a run without frames too
        try:
            return scene.checked(asked)
        except IndexError as error:
            raise t.TraitError(f"index: {error}") from None

    @t.validate("fps")
    def _fps_sound(self, proposal: Any) -> float:
        if math.isnan(proposal["value"]):
            raise t.TraitError("fps: expected 0.1 to 1000 frames per second, got nan")
        return float(proposal["value"])

    @t.validate("positions")
    def _positions_there(self, proposal: Any) -> list[int]:
        try:
            return list(self._session.scene.at(proposal["value"]).positions)
        except (IndexError, ValueError) as error:
            raise t.TraitError(f"positions: {error}") from None

    @t.validate("part")
    def _part_there(self, proposal: Any) -> list[int]:
        made = [int(i) for i in proposal["value"]]
        if not made:
            return made
        try:
            first, last = (self._session.scene.checked(i) for i in made)
        except (IndexError, ValueError) as error:
            raise t.TraitError(f"part: expected the first and the last frame: {error}") from None
        if first > last:
            raise t.TraitError(f"part: its first frame {first} comes after its last, {last}")
        return [first, last]

    @t.validate("pinned")
    def _pins_there(self, proposal: Any) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = proposal["value"]
        try:
            for pin in made:
                self._pins.check(pin)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise t.TraitError(f"pinned: {type(error).__name__} {error}") from None
        return made

    # --- what comes from the browser ----------------------------------------------------------

    def _receive(self, content: dict[str, Any]) -> None:
        """Take a message; called on a thread of the kernel's choice, so it only notes."""
        session = self._session
        match content.get("type"):
            case "pin":
                pin = {key: content[key] for key in ("id", "panel", "fx", "fy")}
                self.pinned = [*(p for p in self.pinned if p["id"] != pin["id"]), pin]
            case "unpin":
                self.pinned = [pin for pin in self.pinned if pin["id"] != content["id"]]
            case "limits":
                self._colours.handle({"i": self.index, **content})
            case "stop" | "colour" | "norm":
                self._colours.handle(content)
            case "times":
                session.do(lambda: self._tell_times(int(content.get("from", 0))))
            case "attach":
                self.live = {**self.live, "attached": bool(content["on"])}
            case "stats":
                self._browser = {key: content[key] for key in content if key != "type"}
            case _:
                session.handle(content)

    def _tell_times(self, first: int) -> None:
        """Send the times of all frames from `first` on."""
        clock = self._session.scene.times.clock
        if clock is not None:
            numbers = clock[1][max(first, 0) :]
            told = {"type": "times", "from": max(first, 0)}
            self._session.send(told, [numbers.astype("<f8").tobytes()])

    def _slide(self, positions: Sequence[int]) -> None:
        """Show another position of the sliders."""
        scene = self._colours.move(positions, self.index)
        if scene is not None:
            self._pins.restart(scene, self.pinned)

    def _look(self) -> float | None:
        """Look at the run; return the seconds until it should be looked at again."""
        live = self._live
        if live is None:
            return None
        scene = live.look(self._session.scene)
        if scene is not None:
            self._session.grow(scene)
            self._pins.grow(scene)
        told = live.to_json(attached=bool(self.live.get("attached")))
        if scene is not None or told["state"] != self.live.get("state"):
            changed: dict[str, Any] = {} if scene is None else {"n": scene.n}
            if scene is not None and self.scene["pace"] is None and scene.times.clock:
                changed["scene"] = scene.to_json()  # the second frame tells how time passes
            self._set(live=told, **changed)
        return live.pause

    def _set(self, **traits: Any) -> None:
        """Set traits in one message to the browser."""
        if not self._session.closed:
            with self.hold_sync():
                for name, value in traits.items():
                    setattr(self, name, value)


def _received(player: Player, content: Any, buffers: Any) -> None:
    try:
        player._receive(content)
    except Exception as error:  # whatever a page sends: the player goes on
        kind = content.get("type") if isinstance(content, dict) else content
        text = f"message {str(kind)[:80]!r}: {type(error).__name__} {error}"
        player._session.send({"type": "error", "i": None, "text": text})


def _moved(change: Any) -> None:
    player, positions = change["owner"], list(change["new"])
    player._session.do(lambda: player._slide(positions))


def _pinned(change: Any) -> None:
    change["owner"]._pins.update(change["new"])
