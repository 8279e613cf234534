"""One frame as a picture: on matplotlib's axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from binref_sci.notebook.colouring import Colouring
from binref_sci.notebook.formulas import drawable, mend
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.lines import MOST_NAMED, positions
from binref_sci.notebook.panel import Panel
from binref_sci.notebook.scene import Scene

_LOOK: Final = ("names", "x", "y", "hue", "col", "col_wrap", "xincrease", "yincrease", "aspect")
_RULES: Final = ("vmin", "vmax", "cmap", "center", "robust", "norm", "levels", "extend")

Artist = AxesImage | list[Line2D]


def plot_frame(
    obj: Any,
    i: int = 0,
    dim: Any = None,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    limits: Any = "sampled",
    add_colorbar: bool = True,
    add_labels: bool = True,
    cbar_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Draw one frame of a trajectory on matplotlib's axes, as the player shows it.

    Given the same limits it is the picture of ``obj.isel({dim: i}).plot.imshow()``. Limits
    that are not given are those of the player: steady for the whole run.

    Parameters
    ----------
    obj
        As for `binref_sci.animate`.
    i
        Number of the frame; negative: from the end.
    dim
        Along which it is played.
    ax
        Axes; of several panels one each. Default: the current ones, or new ones.
    limits
        ``"sampled"``, ``"full"``, ``"frame"`` (of this frame) or ``(vmin, vmax)``.
    add_colorbar, add_labels, cbar_kwargs
        As for `xarray.DataArray.plot.imshow`.
    **options
        `x`, `y`, `hue`, `col`, `names`, `vmin`, `vmax`, `cmap`, `center`, `robust`, `norm`,
        `levels`, `extend`, `xincrease`, `yincrease` as for `binref_sci.animate`; all others
        go to `matplotlib.axes.Axes.imshow` or `plot`.

    Returns
    -------
    AxesImage, or list of Line2D
        The artist; of several panels a list of these.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> field = xr.DataArray(np.arange(12.0).reshape(3, 2, 2), dims=("time", "y", "x"))
    >>> plot_frame(field, 2).get_clim()
    (0.0, 11.0)
    """
    look = {key: options.pop(key) for key in _LOOK if key in options}
    rules = Rules(**{key: options.pop(key) for key in _RULES if key in options})
    scene = Scene.of(obj, dim, **look)
    if not isinstance(limits, str):
        rules, limits = replace(rules, vmin=limits[0], vmax=limits[1]), "frame"
    elif rules.vmin is not None and rules.vmax is not None:
        limits = "frame"  # which then only tells whether the bar has arrows
    found = Limits.of(scene, rules, limits)
    if limits == "frame":
        found = found.frame(scene, scene.checked(i))
    return draw_frame(
        scene,
        found.colourings,
        i,
        ax=ax,
        add_colorbar=add_colorbar,
        add_labels=add_labels,
        cbar_kwargs=cbar_kwargs,
        **options,
    )


def draw_frame(
    scene: Scene,
    colourings: Sequence[Colouring],
    i: int,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    add_colorbar: bool = True,
    add_labels: bool = True,
    cbar_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Draw one frame of a scene; see `plot_frame`."""
    i = scene.checked(i)
    count = len(scene.panels)
    if ax is None:
        if count == 1:
            axes: list[Axes] = [plt.gca()]
        else:
            lines = -(-count // scene.columns)
            size = 4.5 * scene.columns, 3.6 * lines
            made = plt.subplots(lines, scene.columns, figsize=size, squeeze=False, layout="tight")
            axes = list(made[1].flat)
            for spare in axes[count:]:
                spare.set_visible(False)
    else:
        axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) < count:
            raise ValueError(f"there are {count} panels, but ax= has {len(axes)} axes")
    artists: list[Artist] = []
    for panel, one in zip(scene.panels, axes, strict=False):
        colouring = colourings[panel.colour]
        if scene.kind == "line":
            artists.append(_plot_lines(scene, panel, colouring, i, one, add_labels, kwargs))
        else:
            image = _plot_image(
                scene, panel, colouring, i, one, (add_colorbar, add_labels), cbar_kwargs, kwargs
            )
            artists.append(image)
            if image.colorbar is not None:
                mend(image.colorbar.ax)
        mend(one)
    return artists[0] if count == 1 else artists


def _plot_image(
    scene: Scene,
    panel: Panel,
    colouring: Colouring,
    i: int,
    ax: Axes,
    add: tuple[bool, bool],
    cbar_kwargs: dict[str, Any] | None,
    kwargs: dict[str, Any],
) -> AxesImage:
    """Draw as xarray does, where the cells are even; else the even cells of the picture."""
    field = _field(scene, panel, i)
    norm, cmap = colouring.drawn
    if field is None:
        values = np.ma.masked_invalid(scene.field(panel, i))
        x, y = panel.x, panel.y
        field = xr.DataArray(
            values.filled(np.nan),
            dims=("y", "x"),
            coords={
                "x": _middles(x.lo, x.hi, panel.shape[1]),
                "y": _middles(y.hi, y.lo, panel.shape[0]),
            },
            name="field",
        )
        image: AxesImage = field.plot.imshow(
            ax=ax, add_colorbar=False, add_labels=False, yincrease=y.lo <= y.hi,
            xincrease=x.lo <= x.hi, norm=norm, cmap=cmap, **kwargs,
        )  # fmt: skip
        if add[1]:
            ax.set(xlabel=x.label, ylabel=y.label, title=_title(scene, panel, i))
        if add[0]:
            bar: dict[str, Any] = {"extend": colouring.extend, "ax": ax, **(cbar_kwargs or {})}
            bar.setdefault("label", panel.label if add[1] else "")
            ax.figure.colorbar(image, **bar)
        return image
    drawn: AxesImage = field.plot.imshow(
        x=panel.x.dim,
        y=panel.y.dim,
        ax=ax,
        norm=norm,
        cmap=cmap,
        extend=colouring.extend,
        xincrease=panel.x.lo <= panel.x.hi,
        yincrease=panel.y.lo <= panel.y.hi,
        add_colorbar=add[0],
        add_labels=add[1],
        cbar_kwargs=cbar_kwargs,
        **kwargs,
    )
    return drawn


def _field(scene: Scene, panel: Panel, i: int) -> xr.DataArray | None:
    """Return the frame as xarray would draw it right, or None."""
    if panel.grid.places is not None or not (panel.x.even and panel.y.even):
        return None
    if any(axis.name not in (axis.dim,) for axis in (panel.x, panel.y)):
        return None  # a coordinate of another name than its dimension
    if any(axis.label.endswith("(index)") for axis in (panel.x, panel.y)):
        return None
    index: dict[Any, int] = {scene.dim: i, **scene.where}
    index |= {panel.data.dims[axis]: place for axis, place in panel.fixed.items()}
    frame = panel.data.isel({d: p for d, p in index.items() if d in panel.data.dims})
    key = panel.key(i, slice(None), slice(None), scene.where)
    values = panel.turned(panel.reader.read(key))
    return frame.transpose(panel.y.dim, panel.x.dim).copy(data=values)


def _plot_lines(
    scene: Scene,
    panel: Panel,
    colouring: Colouring,
    i: int,
    ax: Axes,
    add_labels: bool,  # noqa: FBT001  # of this module alone
    kwargs: dict[str, Any],
) -> list[Line2D]:
    along, rows = positions(panel), scene.field(panel, i)
    made = [
        ax.plot(along, row, label=name, **kwargs)[0]
        for name, row in zip(panel.lines, rows, strict=True)
    ]
    low, high = colouring.vmin, colouring.vmax
    ax.set_ylim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_xlim(panel.x.lo, panel.x.hi)
    if add_labels:
        ax.set(xlabel=panel.x.label, ylabel=panel.label, title=_title(scene, panel, i))
        if 1 < len(made) <= MOST_NAMED:
            ax.legend()
    return made


def _title(scene: Scene, panel: Panel, i: int) -> str:
    return ", ".join(text for text in (panel.title, scene.title, scene.label(i)) if text)


def _middles(first: float, last: float, count: int) -> Any:
    return first + (np.arange(count) + 0.5) * (last - first) / count


def to_animation(
    scene: Scene, colourings: Sequence[Colouring], *, fps: float = 20.0, **kwargs: Any
) -> FuncAnimation:
    """Return a `matplotlib.animation.FuncAnimation`, for those who want to style the figure.

    Parameters
    ----------
    scene, colourings
        What is shown.
    fps
        Frames per second.
    **kwargs
        Of `draw_frame`.
    """
    artists = draw_frame(scene, colourings, 0, **kwargs)
    several = artists if len(scene.panels) > 1 else [artists]
    first = several[0] if isinstance(several[0], AxesImage) else several[0][0]
    figure = first.get_figure()
    assert isinstance(figure, Figure)

    def update(i: int) -> list[Any]:
        changed: list[Any] = []
        for panel, artist in zip(scene.panels, several, strict=True):
            if isinstance(artist, AxesImage):
                field = _field(scene, panel, i)
                artist.set_data(scene.field(panel, i) if field is None else field.values)
                axes = artist.axes
                changed.append(artist)
            else:
                for line, row in zip(artist, scene.field(panel, i), strict=True):
                    line.set_ydata(row)
                axes = artist[0].axes
                changed += artist
            assert axes is not None  # they were drawn on some
            axes.set_title(drawable(_title(scene, panel, i)))
        return changed

    return FuncAnimation(figure, update, frames=scene.n, interval=1000 / fps, blit=False)
