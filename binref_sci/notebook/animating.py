"""`animate`: from an object and arguments to a player."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from binref_sci.engine import Follower, open_dataset
from binref_sci.notebook.frames import CACHE_BYTES
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.live import Live, still_going
from binref_sci.notebook.player import Player
from binref_sci.notebook.scene import Scene

_THEMES: Final = ("auto", "light", "dark")
_PIXELS: Final = 96  # of a style sheet to the inch


def animate(
    obj: Any,
    dim: Any = None,
    *,
    names: str | Sequence[str] | None = None,
    x: Any = None,
    y: Any = None,
    hue: Any = None,
    col: Any = None,
    col_wrap: int | None = None,
    vmin: Any = None,
    vmax: Any = None,
    cmap: Any = None,
    center: Any = None,
    robust: Any = False,
    norm: Any = None,
    levels: Any = None,
    extend: Any = None,
    xincrease: bool | None = True,
    yincrease: bool | None = True,
    aspect: float | str | None = None,
    size: float | None = None,
    add_colorbar: bool = True,
    add_labels: bool = True,
    cbar_kwargs: Mapping[str, Any] | None = None,
    limits: Any = "sampled",
    fps: float = 20.0,
    mode: str = "every",
    loop: str = "loop",
    index: int | None = None,
    playing: bool = False,
    reduce: str = "mean",
    sync: Player | str | None = None,
    follow: Follower | bool | None = None,
    cache_bytes: int = CACHE_BYTES,
    theme: str = "auto",
) -> Player:
    """Play a trajectory in the notebook.

    Parameters
    ----------
    obj
        DataArray or Dataset, lazy or not; a run directory, a `Trajectory`, a `Follower`, or
        a dask or NumPy array.
    dim
        Along which it is played. Default: the one that is like time (its coordinate holds
        dates or time differences, or it is called time, t or step), else the one that is
        neither `x` nor `y`.
    names
        Variables of a Dataset, a panel each, on one clock.
    x, y
        Dimensions or coordinates (of one or two dimensions) of the picture; default: the
        last and the last but one dimension. One dimension beside `dim` gives lines, more
        than two get sliders.
    hue
        Dimension of lines in one diagram.
    col, col_wrap
        Dimension with a panel for each position; panels side by side.
    vmin, vmax, cmap, center, robust, norm, levels, extend
        Colours, by the rules of `xarray.DataArray.plot.imshow`, for the whole run. A dict
        gives them by variable.
    xincrease, yincrease
        As there.
    aspect
        Width over height of a picture, ``"equal"`` or ``"auto"``; default: equal if both
        axes have one unit.
    size
        Height of each picture in inches, as there; default: 5, of several rows 3.1. No picture
        is wider than the page.
    add_colorbar, add_labels
        As there.
    cbar_kwargs
        ``{"label": ...}`` of the colour bar.
    limits
        ``"sampled"``: from a few frames, within 0.2 s; ``"full"``: from all, read now;
        ``"frame"``: from frame 0; or ``(vmin, vmax)``.
    fps
        Frames per second.
    mode
        ``"every"`` frame; ``"realtime"`` leaves some out rather than slow down; ``"timed"``
        does so too, and uneven steps last as long as their times say.
    loop
        ``"once"``, ``"loop"`` or ``"bounce"``.
    index
        Frame to begin with; default: 0, and of a run still going the last one.
    playing
        Whether it begins to play at once.
    reduce
        What stands for several cells in one pixel, where a frame is larger than the screen
        or a film: their ``"mean"``, ``"max"``, ``"min"`` or ``"absmax"`` (the value farthest
        from zero), which keep a front or a shock.
    sync
        Another player whose clock it shares, or a name in common with others on the page.
        Frames of one time belong together if both have times, else those of one number.
    follow
        A `Follower` of the run whose frames these are; False: do not follow. Default: a
        run still going is followed if `obj` is one of its variables as it was opened.
    cache_bytes
        Of frames kept in the kernel, and as much in the browser.
    theme
        ``"light"``, ``"dark"``, or ``"auto"``: as the page.

    Returns
    -------
    Player
        A widget. Show it as the last line of a cell; ``close()`` frees what it holds.

    Raises
    ------
    TypeError, ValueError
        Naming the argument or the dimension.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> field = xr.DataArray(np.zeros((5, 8, 8)), dims=("time", "y", "x"), name="heat")
    >>> player = animate(field, vmin=0, vmax=1)
    >>> player.index = 3
    >>> player.frame.sizes
    Frozen({'y': 8, 'x': 8})
    >>> player.close()
    """
    if theme not in _THEMES:
        raise ValueError(f"theme={theme!r}: use one of {_THEMES}")
    if size is not None and not (isinstance(size, int | float) and 0.5 <= size <= 100):
        raise ValueError(f"size must be a height of 0.5 to 100 inches, got {size!r}")
    if not isinstance(cache_bytes, int | np.integer) or cache_bytes < 0:
        raise ValueError(f"cache_bytes must be a whole number, 0 or more, got {cache_bytes!r}")
    if isinstance(obj, str | os.PathLike):
        obj = open_dataset(obj)
    if isinstance(obj, Follower):
        follow, obj = obj, obj.refresh()
    scene = Scene.of(
        obj,
        dim,
        names=names,
        x=x,
        y=y,
        hue=hue,
        col=col,
        col_wrap=col_wrap,
        xincrease=xincrease,
        yincrease=yincrease,
        aspect=aspect,
    )
    rules = Rules(vmin, vmax, cmap, center, robust, norm, levels, extend)
    if not add_labels:
        scene = scene.unlabelled()
    unknown = set(cbar_kwargs or {}) - {"label"}
    if unknown:
        raise ValueError(
            f"cbar_kwargs: the player's colour bar has a 'label', got {sorted(unknown)}; "
            "plot_frame draws one of matplotlib's"
        )
    found = _following(obj, follow=follow)
    live: Live | None = None
    if found is not None:
        scene = scene.continued(found.refresh())  # or it could not be, later
        live = Live(found)
    first = index if index is not None else (scene.n - 1 if live is not None else 0)
    index = scene.checked(first) if scene.n else 0
    label = (cbar_kwargs or {}).get("label")
    if isinstance(sync, Player):
        sync = sync.shared_clock()
    elif sync is not None and not isinstance(sync, str):
        raise TypeError(f"sync must be a Player or a name, got {sync!r}")
    return Player(
        scene,
        Limits.of(scene, rules, limits, label=label, at=index if scene.n else None),
        live=live,
        cache_bytes=cache_bytes,
        index=index,
        reduce=reduce,
        sync=sync or "",
        fps=fps,
        mode=mode,
        loop=loop,
        playing=playing,
        options={
            "cache_bytes": cache_bytes,
            "show_bar": add_colorbar,
            "autoplay": playing,
            "theme": theme,
            "height": None if size is None else round(_PIXELS * size),
        },
    )


def _following(obj: Any, *, follow: Follower | bool | None) -> Follower | None:
    if isinstance(follow, Follower):
        return follow
    if follow is False:
        return None
    if follow is not None and follow is not True:
        raise TypeError(f"follow must be a Follower, True or False, got {follow!r}")
    found = still_going(obj)
    if found is None and follow is True:
        raise ValueError(
            "follow=True: this is no variable, as it was opened, of a run that is still going; "
            "pass follow=binref_sci.follow(folder)"
        )
    return found
