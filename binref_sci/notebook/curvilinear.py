"""Coordinates with two dimensions each: which cell of the data a picture's cell lies in."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from binref_sci.notebook.axes import edges_of

_MOST_CELLS = 1024  # of the picture along each axis, unless the data has more
_FEWEST_CELLS = 512  # so that slanted edges look like lines
_FINER = 2  # times as many cells as the data has


def nearest_cells(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.intp], tuple[float, float], tuple[float, float]]:
    """Return a map from even cells onto the cells of a curvilinear grid.

    The cell of a value is the quadrilateral halfway to its neighbours, as in `pcolormesh`
    after xarray has inferred the edges.

    Parameters
    ----------
    x, y
        Coordinates of the values, shape ``(m, n)``.

    Returns
    -------
    places : ndarray of int, shape (rows, columns)
        Flat index into ``(m, n)``, -1 outside of all cells; row 0 has the largest `y`,
        column 0 the smallest `x`.
    x_edges, y_edges : tuple of float
        Smallest and largest coordinate of the picture's edges.

    Raises
    ------
    ValueError
        If fewer than two values lie along an axis, a coordinate is not finite everywhere, or
        all of one are equal.
    """
    if min(x.shape) < 2:
        raise ValueError(f"need at least two values along each dimension, have shape {x.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("have values that are not finite: fill them, or play by dimensions")
    corners_x, corners_y = (edges_of(edges_of(c, 0), 1) for c in (x, y))
    x_edges = float(corners_x.min()), float(corners_x.max())
    y_edges = float(corners_y.min()), float(corners_y.max())
    for edges in (x_edges, y_edges):
        if not 0 < edges[1] - edges[0] < np.inf or not np.isfinite(1 / (edges[1] - edges[0])):
            raise ValueError(f"span {edges[0]:g} to {edges[1]:g}, which is no area to draw")
    most = max(*x.shape, _MOST_CELLS)
    cells = min(max(_FINER * max(x.shape), _FEWEST_CELLS), most)
    columns = rows = cells
    # Distances in cells of the picture: the two coordinates may have different units.
    scale_x = columns / (x_edges[1] - x_edges[0])
    scale_y = rows / (y_edges[1] - y_edges[0])
    px = (np.arange(columns) + 0.5)[None, :] + np.zeros((rows, 1))
    py = (rows - np.arange(rows) - 0.5)[:, None] + np.zeros((1, columns))
    cx, cy = (corners_x - x_edges[0]) * scale_x, (corners_y - y_edges[0]) * scale_y
    centres = np.stack([(x - x_edges[0]) * scale_x, (y - y_edges[0]) * scale_y], -1)
    radius = _radius(cx, cy, centres)
    points = np.stack([px, py], -1).reshape(-1, 2)
    _, near = cKDTree(centres.reshape(-1, 2), balanced_tree=False, compact_nodes=False).query(
        points, distance_upper_bound=radius, workers=-1
    )
    m, n = x.shape
    places = np.full(len(points), -1, dtype=np.intp)
    left = np.flatnonzero(near < m * n)  # the tree says m * n where nothing is near
    i0, j0 = np.divmod(near[left], n)
    for di, dj in sorted(
        ((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)), key=lambda d: abs(d[0]) + abs(d[1])
    ):
        i, j = (i0 + di).clip(0, m - 1), (j0 + dj).clip(0, n - 1)
        hit = _contains(cx, cy, i, j, points[left])
        places[left[hit]] = (i * n + j)[hit]
        left, i0, j0 = left[~hit], i0[~hit], j0[~hit]
    return places.reshape(rows, columns), x_edges, y_edges


def _radius(
    cx: NDArray[np.float64], cy: NDArray[np.float64], centres: NDArray[np.float64]
) -> float:
    """Return the largest distance of a corner from the value of its cell."""
    return max(
        float(np.hypot(cx[a, b] - centres[..., 0], cy[a, b] - centres[..., 1]).max())
        for a in (slice(None, -1), slice(1, None))
        for b in (slice(None, -1), slice(1, None))
    )


def _contains(
    cx: NDArray[np.float64],
    cy: NDArray[np.float64],
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    points: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Tell which points lie in the quadrilaterals ``(i, j)``, whichever way those turn."""
    ring = [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]
    inside_left = np.ones(len(points), dtype=bool)
    inside_right = np.ones(len(points), dtype=bool)
    for (a, b), (c, d) in itertools.pairwise(ring):
        x0, y0 = cx[i + a, j + b], cy[i + a, j + b]
        x1, y1 = cx[i + c, j + d], cy[i + c, j + d]
        side = (x1 - x0) * (points[:, 1] - y0) - (y1 - y0) * (points[:, 0] - x0)
        inside_left &= side >= 0
        inside_right &= side <= 0
    return inside_left | inside_right
