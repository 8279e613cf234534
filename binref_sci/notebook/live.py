"""A run that is still going: how long it has become, and how fast it goes."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import xarray as xr

from binref_sci.engine import Follower, follow
from binref_sci.errors import BinrefError
from binref_sci.notebook.fields import whole_of
from binref_sci.notebook.scene import Scene
from binref_sci.trajectory import Trajectory

_POLL: Final = 0.5  # seconds between two looks at the folder of the run
_POLL_STORE: Final = 3.0  # at a URL, where a look is a few requests
_POLL_MISSING: Final = 5.0  # where the folder is no longer there
MISSING: Final = "missing"

_RATE_FROM = 12  # looks that the speed of the solver is taken from


class Live:
    """Looks at a run, and makes a longer scene when there are more frames.

    Parameters
    ----------
    follower
        Of the run.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._seen: deque[tuple[float, int]] = deque(maxlen=_RATE_FROM)
        self._pause = _POLL_STORE if "://" in follower.path else _POLL
        self._total: int | None = None
        self.state = "writing"

    def look(self, scene: Scene) -> Scene | None:
        """Return a longer scene, or None if there is nothing new; notes the state.

        A run whose folder has been deleted or moved away is ``"missing"``; it may come back.
        """
        try:
            state = self._follower.state  # before the length: what is complete then is all there
            there = len(self._follower)
        except (BinrefError, OSError):
            if "://" in self._follower.path or Path(self._follower.path).is_dir():
                raise
            self.state = MISSING
            return None
        self.state = state
        if not self._seen or there != self._seen[-1][1]:
            self._seen.append((time.monotonic(), there))
        if there <= scene.n:
            return None
        longer = scene.continued(self._follower.refresh())
        return longer if longer.n > scene.n else None

    @property
    def pause(self) -> float | None:
        """Seconds until the next look; None: there is nothing more to come."""
        if self.state == MISSING:
            return _POLL_MISSING
        return self._pause if self.state == "writing" else None

    @property
    def rate(self) -> float | None:
        """Frames a second, as of the last looks."""
        if len(self._seen) < 2 or self.state != "writing":
            return None
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        # The time since the last frame counts too: a solver may have come to rest.
        ended = max(ended, time.monotonic() - (ended - began) / max(len(self._seen) - 1, 1))
        return (last - first) / (ended - began) if ended > began else None

    def to_json(self, *, attached: bool) -> dict[str, Any]:
        """Return what the browser is told."""
        rate = self.rate
        with contextlib.suppress(BinrefError, OSError):
            self._total = self._follower.total
        return {
            "state": self.state,
            "total": self._total,
            "rate": None if rate is None else float(f"{rate:.3g}"),
            "attached": attached,
        }


def still_going(obj: Any) -> Follower | None:
    """Return who follows the run of an object; None if it has ended, or is of no run.

    Parameters
    ----------
    obj
        A Dataset as it was opened, or a variable of it: one that computes, or a part, has
        no run to be continued from.
    """
    variables = (
        list(obj.data_vars.values())
        if isinstance(obj, xr.Dataset)
        else [obj]
        if isinstance(obj, xr.DataArray)
        else []
    )
    if isinstance(obj, xr.Dataset) and obj.encoding.get("binref_state") not in (None, "writing"):
        return None
    for one in variables:
        folder = _folder(one)
        if folder is None or one.name is None:
            continue
        try:
            follower = follow(folder)
            if follower.state != "writing":
                return None
            there = follower.refresh()
        except BinrefError:
            return None
        if _same(one, there):
            return follower
    return None


def _same(one: xr.DataArray, there: xr.Dataset) -> bool:
    if one.name not in there.variables:
        return False
    other = there[one.name]
    return one.dims == other.dims and one.shape[1:] == other.shape[1:]


def _folder(one: xr.DataArray) -> str | None:
    """Return the folder of the run that a variable lies in, if it is all of it."""
    data = whole_of(one)
    parts = getattr(data, "parts", [data])  # blocks of one field lie in one folder
    directory = parts[0].directory if isinstance(parts[0], Trajectory) else None
    return str(directory) if isinstance(directory, Path) else None  # a store needs its options
