"""Colormaps by name, those of cmocean, colorcet and cmasher among them if they are installed."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.colors import BoundaryNorm, Colormap, ListedColormap, from_levels_and_colors
from numpy.typing import NDArray

from binref_sci.hints import meant

# Prefix of the names that a package adds to matplotlib's when it is imported.
_PACKAGES: Final = {"cmo.": "cmocean", "cmr.": "cmasher", "cet_": "colorcet"}


def colormap(wanted: str | Colormap) -> Colormap:
    """Return a colormap by its name, or as it is.

    Parameters
    ----------
    wanted
        A name of matplotlib, or of cmocean, cmasher or colorcet: with their prefix
        (``cmo.thermal``), or without where nobody else has the name (``thermal``).

    Raises
    ------
    ValueError
        If nobody knows it; says what is like it, or what to install.

    Examples
    --------
    >>> colormap("viridis_r").name
    'viridis_r'
    """
    if isinstance(wanted, Colormap):
        return wanted
    if not isinstance(wanted, str):
        raise TypeError(f"cmap must be a name or a matplotlib Colormap, got {wanted!r}")
    if wanted not in mpl.colormaps:
        for prefix, package in _PACKAGES.items():
            bare = not wanted.startswith(tuple(_PACKAGES))
            if (bare or wanted.startswith(prefix)) and _imported(package):
                name = prefix + wanted if bare else wanted
                if name in mpl.colormaps:
                    return mpl.colormaps[name]
        raise ValueError(f"no colormap {wanted!r}{_hint(wanted)}")
    return mpl.colormaps[wanted]


def discrete(
    cmap: str | Colormap, levels: NDArray[np.float64], extend: str
) -> tuple[Colormap, BoundaryNorm]:
    """Return one colour for each interval of `levels`, and for each end that is extended."""
    ends = {"both": 2, "min": 1, "max": 1}.get(extend, 0)
    edges = levels if len(levels) > 1 else np.repeat(levels, 2)
    whole = _named_or_plain(cmap, len(edges) + ends - 1)
    colours = whole(np.linspace(0.0, 1.0, len(edges) + ends - 1))
    made: Colormap
    # Declared for sequences; it takes arrays.
    made, norm = from_levels_and_colors(edges, colours, extend=extend)  # type: ignore[arg-type]
    made.name = whole.name
    if isinstance(cmap, Colormap):  # colours that its maker has set are kept
        bad, under, over = cmap(np.nan), cmap(-np.inf), cmap(np.inf)
        made = made.with_extremes(
            bad=bad,
            under=None if under == cmap(0) else under,
            over=None if over == cmap(cmap.N - 1) else over,
        )
    return made, norm


def _named_or_plain(cmap: str | Colormap, count: int) -> Colormap:
    try:
        return colormap(cmap)
    except ValueError:
        if isinstance(cmap, str) and mpl.colors.is_color_like(cmap):  # as xarray has it
            return ListedColormap([cmap] * max(count, 1), name=cmap)
        raise


def _imported(package: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about matplotlib, of which its maker knows
        try:
            import_module(package)
        except ImportError:
            return False
    return True


def _hint(wanted: str) -> str:
    for prefix, package in _PACKAGES.items():
        if wanted.startswith(prefix) and not _imported(package):
            return f": names with {prefix!r} come with the package {package}, which is missing"
    return meant(wanted, mpl.colormaps) or "; matplotlib.colormaps lists those there are"
