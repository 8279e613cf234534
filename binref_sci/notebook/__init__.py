"""Trajectories in a notebook: the player, movies and pictures of single frames.

Nothing is imported before it is used: matplotlib and ipywidgets are not needed to open a
run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binref_sci.notebook.animating import animate
    from binref_sci.notebook.picture import plot_frame
    from binref_sci.notebook.player import Player
    from binref_sci.notebook.scene import Scene

__all__ = ["Player", "Scene", "animate", "plot_frame"]

_HOME = {
    "Player": "player",
    "Scene": "scene",
    "animate": "animating",
    "plot_frame": "picture",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
