"""Where the limits of the colours come from, and how they are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook import sampling
from binref_sci.notebook.colouring import Colouring, colouring
from binref_sci.notebook.scene import Scene

HOW = ("sampled", "full", "frame")
SHOWN = "shown"
"""Rule of values that are of the frame that was shown first, and decide about no limit."""

Progress = Callable[[int, int], None]
Found = tuple[NDArray[Any], str]


@dataclass(frozen=True)
class Rules:
    """What the user said of the colours; arguments as of `DataArray.plot.imshow`.

    Each may be a dict by variable.
    """

    vmin: Any = None
    vmax: Any = None
    cmap: Any = None
    center: Any = None
    robust: Any = False
    norm: Any = None
    levels: Any = None
    extend: Any = None

    def check(self, names: Iterable[Any]) -> None:
        """Check that a dict by variable has no other names.

        Raises
        ------
        ValueError
            Naming the argument, and what there is.
        """
        there = list(dict.fromkeys(names))
        for key, value in vars(self).items():
            unknown = (
                [name for name in value if name not in there] if isinstance(value, Mapping) else []
            )
            if unknown:
                raise ValueError(f"{key}= is given for {unknown}; the variables shown are {there}")

    def of(self, name: Any) -> dict[str, Any]:
        """Return the rules of one variable."""
        return {
            key: value.get(name) if isinstance(value, Mapping) else value
            for key, value in vars(self).items()
            if not (isinstance(value, Mapping) and name not in value)
        }


@dataclass(frozen=True)
class Values:
    """What the limits of one colour scale are computed from."""

    sample: NDArray[Any]
    rule: str
    rules: dict[str, Any]
    label: str

    def colouring(self) -> Colouring:
        """Return the colour scale."""
        return colouring(self.sample, rule=self.rule, label=self.label, **self.rules)


@dataclass(frozen=True)
class Limits:
    """The colour scales of a scene. Immutable: a change gives another one.

    Made by `Limits.of`.
    """

    values: tuple[Values, ...]
    colourings: tuple[Colouring, ...] = field(default=())

    @classmethod
    def of(
        cls,
        scene: Scene,
        rules: Rules,
        limits: Any = "sampled",
        *,
        label: str | None = None,
        at: int | None = None,
    ) -> Limits:
        """Return limits as they are asked for.

        Parameters
        ----------
        scene
            What is shown; with its sliders in place.
        rules
            What the user said.
        limits
            ``"sampled"``: from attributes of the variable that tell its range, else from a
            few frames; ``"full"``: from all frames, read now; ``"frame"``: from frame 0; or
            ``(vmin, vmax)``.
        label
            Of each colour bar; default: that of the variable.
        at
            Number of the frame that is shown first. Where both limits are given no other
            is read, and it decides whether the bar has arrows; None: a sample does.

        Raises
        ------
        ValueError
            If `limits` is something else, or contradicts the rules, or a rule is given for
            a variable that is not shown.
        """
        rules.check(panel.data.name for panel in scene.panels)
        if isinstance(limits, str):
            if limits not in HOW:
                raise ValueError(f"limits={limits!r}: use one of {HOW}, or (vmin, vmax)")
        else:
            try:
                low, high = (float(limit) for limit in limits)
            except (TypeError, ValueError):
                raise ValueError(
                    f"limits={limits!r}: use one of {HOW}, or two numbers (vmin, vmax)"
                ) from None
            if rules.vmin is not None or rules.vmax is not None:
                raise ValueError(
                    f"limits={limits!r} and vmin= or vmax= are given: give one of them"
                )
            rules = replace(rules, vmin=low, vmax=high)
        made = []
        for k in range(scene.colours):
            panel = next(panel for panel in scene.panels if panel.colour == k)
            own = rules.of(panel.data.name)
            if scene.kind == "line":
                own["center"] = False  # an axis of values has no middle
            shown = panel.label if label is None else label
            made.append(Values(np.empty(0), "sampled", own, shown))
        start = cls(tuple(made))
        if limits == "full":
            return start.full(scene)
        if limits == "frame":
            return start.frame(scene, 0)
        return start.sampled(scene, at)

    def sampled(self, scene: Scene, at: int | None = None) -> Limits:
        """Return limits from what attributes tell, else from a few frames; see `of` for `at`."""

        def found(k: int) -> Found:
            known = _known(scene, k)
            if known is None and at is not None and self._both_given(k):
                return _shown(scene, k, at)
            return _sampled(scene, k) if known is None else known

        return self.of_values(found(k) for k in range(scene.colours))

    def settled(self, scene: Scene) -> Limits:
        """Return the same limits; a sample decides about arrows where one frame has till now."""
        if all(one.rule != SHOWN for one in self.values):
            return self
        return self.of_values(
            _sampled(scene, k) if one.rule == SHOWN else (one.sample, one.rule)
            for k, one in enumerate(self.values)
        )

    def _both_given(self, k: int) -> bool:
        rules = self.values[k].rules
        return rules.get("vmin") is not None and rules.get("vmax") is not None

    def full(self, scene: Scene) -> Limits:
        """Return limits from all frames, read now."""
        return self.of_values(scanned(scene))

    def frame(self, scene: Scene, i: int) -> Limits:
        """Return limits from one frame, for all."""
        made = []
        for k in range(scene.colours):
            read, shape = _reading(scene, k)
            made.append((np.ravel(read(i, (1,) * len(shape))), "frame"))
        return self.of_values(made)

    def given(self, k: int, vmin: float | None, vmax: float | None) -> Limits:
        """Return limits that are given for one colour scale; None: computed."""
        one = self.values[k]
        norm = one.rules.get("norm")
        if norm is not None and not isinstance(norm, str):
            norm = _unlimited(norm)  # its own limits would contradict
        rules = {**one.rules, "vmin": vmin, "vmax": vmax, "norm": norm}
        if isinstance(rules.get("levels"), list | tuple | np.ndarray):
            rules["levels"] = len(rules["levels"])
        return self._changed(k, replace(one, rules=rules))

    def ruled(self, **rules: Any) -> Limits:
        """Return all colour scales with other rules, from the same sample."""
        made = self
        for k, one in enumerate(self.values):
            made = made._changed(k, replace(one, rules={**one.rules, **rules}))
        return made

    def open(self) -> Limits:
        """Return all colour scales without limits that were given, from the same sample."""
        made = self
        for k in range(len(self.values)):
            made = made.given(k, None, None)
        return made

    def _changed(self, k: int, values: Values) -> Limits:
        if not 0 <= k < len(self.values):
            raise IndexError(f"colour scale {k} is not among {len(self.values)}")
        all_values = (*self.values[:k], values, *self.values[k + 1 :])
        kept = list(self.colourings)
        kept[k] = values.colouring()
        return Limits(all_values, tuple(kept))

    def of_values(self, found: Iterable[Found]) -> Limits:
        """Return limits from values, and where these are from, of each colour scale."""
        values = tuple(
            replace(one, sample=sample, rule=rule)
            for one, (sample, rule) in zip(self.values, found, strict=True)
        )
        return Limits(values, tuple(one.colouring() for one in values))


def scanned(
    scene: Scene,
    *,
    progress: Progress = lambda done, n: None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Found]:
    """Return the extremes of all frames, and values between; of those read, if it is stopped.

    Parameters
    ----------
    scene
        What is shown.
    progress
        Called with the number of frames done, and of all.
    stopped
        Asked before each frame.
    """
    made = []
    for k in range(scene.colours):
        read, shape = _reading(scene, k)

        def told(done: int, n: int, k: int = k) -> None:
            progress(k * n + done, scene.colours * n)

        found = sampling.scan(read, scene.n, shape, progress=told, stopped=stopped)
        made.append((found.values, found.rule))
    return made


def _known(scene: Scene, k: int) -> Found | None:
    panel = next(panel for panel in scene.panels if panel.colour == k)
    known = sampling.known_range(panel.data.attrs, panel.data.encoding)
    return None if known is None else (np.array(known), "attribute")


def _sampled(scene: Scene, k: int) -> Found:
    read, shape = _reading(scene, k)
    itemsize = next(p.data.dtype.itemsize for p in scene.panels if p.colour == k)
    found = sampling.sample(read, scene.n, shape, itemsize)
    return found.values, found.rule


def _shown(scene: Scene, k: int, i: int) -> Found:
    """Return values of one frame, the one that is read in any case."""
    read, shape = _reading(scene, k)
    try:
        return np.ravel(read(i, sampling.strides(shape))), SHOWN
    except Exception:  # whatever the storage raises: it is told where the frame is drawn
        return np.empty(0), SHOWN


def _reading(scene: Scene, k: int) -> tuple[sampling.Read, tuple[int, ...]]:
    """Return a reader of all panels of one colour scale, and the shape of what it reads."""
    panels = [panel for panel in scene.panels if panel.colour == k]

    def read(i: int, strides: tuple[int, ...]) -> NDArray[Any]:
        parts = [scene.raw(panel, i, strides[1:]) for panel in panels[:: strides[0]]]
        return parts[0] if len(parts) == 1 else np.stack(parts)

    return read, (len(panels), *scene.raw_shape(panels[0]))


def _unlimited(norm: Any) -> str | None:
    """Return a norm's kind, without its limits."""
    kinds = {"LogNorm": "log", "SymLogNorm": "symlog"}
    return kinds.get(type(norm).__name__)
