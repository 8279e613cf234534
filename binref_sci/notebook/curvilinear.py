"""Coordinates with two dimensions each: which cell of the data a picture's cell lies in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from binref_sci.notebook.axes import edges_of

_MOST_CELLS = 1024  # of the picture along each axis, unless the data has more
_FEWEST_CELLS = 512  # so that slanted edges look like lines
_FINER = 2  # times as many cells as the data has
_PAIRS = 1 << 18  # of a quadrilateral and a pixel that are looked at in one go
_LARGE = 64  # pixels of a quadrilateral that lies under the others
_MOST_PAIRS = 16  # times the pixels of the picture, of all large ones
_SLACK = 1e-3  # of a pixel: a centre on an edge lies in both cells, not in none


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
    # In cells of the picture, whose centres are whole numbers: column from the left, row from the top.
    columns = (corners_x - x_edges[0]) * (cells / (x_edges[1] - x_edges[0])) - 0.5
    rows = (y_edges[1] - corners_y) * (cells / (y_edges[1] - y_edges[0])) - 0.5
    return _filled(rows.astype("f4"), columns.astype("f4"), cells), x_edges, y_edges


def continued(longitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return longitudes in degrees that go on past 180 or 360, where they begin anew.

    Examples
    --------
    >>> continued(np.array([[350.0, 358.0, 6.0]]))
    array([[350., 358., 366.]])
    """
    along: NDArray[np.float64] = np.unwrap(longitudes, period=360.0, axis=1)
    first = np.unwrap(along[:, :1], period=360.0, axis=0) - along[:, :1]
    return along + first


def _filled(
    rows: NDArray[np.float64], columns: NDArray[np.float64], cells: int
) -> NDArray[np.intp]:
    """Return the quadrilateral that the centre of each pixel lies in, -1 for none.

    Where several overlap, as at the seam of a globe, the smaller ones count, and of small ones
    the last, as in `pcolormesh`.

    Parameters
    ----------
    rows, columns
        Of the corners, shape ``(m + 1, n + 1)``.
    cells
        Pixels along each side.
    """
    n = rows.shape[1] - 1
    first_row, tall = _span(rows, cells)
    first_column, wide = _span(columns, cells)
    count = tall * wide
    places = np.full(cells * cells, -1, dtype=np.intp)
    y, x = rows.ravel(), columns.ravel()
    ring = (0, 1, n + 2, n + 1)  # corners, from the first one on
    for quads in _portions(count, cells * cells):
        each = count[quads]
        local = np.repeat(np.arange(len(quads)), each)
        nth = np.arange(len(local), dtype=np.int32) - np.repeat(_before(each), each)
        down, right = np.divmod(nth, wide[quads][local])
        row, column = first_row[quads][local] + down, first_column[quads][local] + right
        v, u = row.astype(np.float32), column.astype(np.float32)
        corner = quads + quads // n  # its first, in the flat corners
        ys, xs = ([part[corner + k] for k in ring] for part in (y, x))
        turn = np.sign((xs[2] - xs[0]) * (ys[3] - ys[1]) - (xs[3] - xs[1]) * (ys[2] - ys[0]))
        inside = np.ones(len(local), dtype=bool)
        for a, b in itertools.pairwise((0, 1, 2, 3, 0)):
            across, along = (ys[a] - ys[b]) * turn, (xs[b] - xs[a]) * turn
            slack = _SLACK * (np.abs(across) + np.abs(along))
            rest = slack - across * xs[a] - along * ys[a]
            inside &= across[local] * u + along[local] * v + rest[local] >= 0
        places[(row * cells + column)[inside]] = quads[local[inside]]
    return places.reshape(cells, cells)


def _before(counts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the sum of all counts before each."""
    ends = np.cumsum(counts, dtype=np.int32)
    return ends - counts


def _span(corners: NDArray[np.float64], cells: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first pixel centre within each quadrilateral along an axis, and how many."""
    low, high = (
        f(f(corners[:-1, :-1], corners[:-1, 1:]), f(corners[1:, :-1], corners[1:, 1:])).ravel()
        for f in (np.minimum, np.maximum)
    )
    first = np.ceil(low - _SLACK).clip(0, cells).astype(np.int32)
    stop = np.floor(high + _SLACK).clip(-1, cells - 1).astype(np.int32) + 1
    return first, (stop - first).clip(0)


def _portions(count: NDArray[np.int32], pixels: int) -> Iterator[NDArray[np.intp]]:
    """Yield quadrilaterals, the large ones first, with not too many pixels at a time."""
    there = np.flatnonzero(count)
    large = count[there] > _LARGE
    big = there[large][np.argsort(-count[there[large]], kind="stable")]
    # Of coordinates without order, each may span the picture: the largest are left out.
    left = np.cumsum(count[big][::-1], dtype=np.int64)[::-1]
    order = np.concatenate([big[left <= _MOST_PAIRS * pixels], there[~large]])
    ends = np.cumsum(count[order], dtype=np.int64)
    start = 0
    while start < len(order):
        done = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, done + _PAIRS, side="right")), start + 1)
        yield order[start:stop]
        start = stop
