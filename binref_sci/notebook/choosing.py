"""Which variables are played, along which dimension, and which dimensions are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

_TIMES = ("time", "t", "step")


@dataclass(frozen=True)
class Dims:
    """The job of each dimension of a variable.

    Parameters
    ----------
    time
        Played.
    x
        Drawn to the right.
    y
        Drawn upwards; of lines: has one line each, or None for a single line.
    lines
        Whether lines are drawn.
    col
        Has a panel each.
    sliders
        The others.
    """

    time: str
    x: str
    y: str | None
    lines: bool
    col: str | None
    sliders: tuple[str, ...]


def choose(obj: Any, names: str | Sequence[str] | None) -> list[xr.DataArray]:
    """Return the variables that are to be played.

    Parameters
    ----------
    obj
        DataArray, Dataset, dask or NumPy array, or anything with ``to_xarray()``.
    names
        Of variables of a Dataset.

    Raises
    ------
    TypeError, KeyError, ValueError
        If there is nothing that can be played; says what there is.
    """
    if isinstance(obj, np.ndarray | da.Array):
        obj = xr.DataArray(obj, dims=("time", *(f"dim_{axis}" for axis in range(1, obj.ndim))))
    elif not isinstance(obj, xr.DataArray | xr.Dataset) and hasattr(obj, "to_xarray"):
        obj = obj.to_xarray()
    if isinstance(obj, xr.DataArray):
        if names is not None:
            raise TypeError(f"names={names!r} is for a Dataset; this is the DataArray {obj.name!r}")
        return [_playable(obj)]
    if not isinstance(obj, xr.Dataset):
        raise TypeError(
            "expected a DataArray, Dataset, Trajectory, dask or NumPy array to play, got "
            f"{type(obj).__name__}"
        )
    return _most_dimensions(obj) if names is None else _named(obj, names)


def _named(obj: xr.Dataset, names: str | Sequence[str]) -> list[xr.DataArray]:
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise ValueError("names=[] leaves nothing to play")
    for name in wanted:
        if name not in obj.variables:
            raise KeyError(f"no variable {name!r}; there are {sorted(map(str, obj.data_vars))}")
    return [_playable(obj[name]) for name in wanted]


def _most_dimensions(obj: xr.Dataset) -> list[xr.DataArray]:
    """Return the variables of numbers with the most dimensions, as long as these are the same."""
    numeric = [v for v in obj.data_vars.values() if v.dtype.kind in "biuf" and v.ndim > 1]
    if not numeric:
        raise ValueError(
            "the Dataset has no variable of numbers with two dimensions or more; it has "
            f"{ {str(name): v.dims for name, v in obj.data_vars.items()} }"
        )
    most = max(numeric, key=lambda v: v.ndim)
    return [v for v in numeric if v.dims == most.dims]


def _playable(obj: xr.DataArray) -> xr.DataArray:
    odd = [dim for dim in obj.dims if not isinstance(dim, str)]
    if odd:
        raise TypeError(
            f"variable {obj.name!r} has the dimension {odd[0]!r}, whose name is no text: rename it"
        )
    if obj.dtype.kind == "c":
        raise TypeError(f"variable {obj.name!r} is complex: play its .real, .imag or abs()")
    if obj.dtype.kind not in "biuf":
        raise TypeError(f"variable {obj.name!r} has dtype {obj.dtype}, which is no number")
    return obj


def moving(
    obj: xr.DataArray,
    dim: Hashable | None,
    *,
    x: Hashable | None,
    y: Hashable | None,
    hue: Hashable | None,
    col: Hashable | None,
) -> Dims:
    """Return the job of each dimension; arguments as in `Scene.of`.

    Raises
    ------
    ValueError
        Naming argument and dimensions.
    """
    given = {"dim": dim, "x": x, "y": y, "hue": hue, "col": col}
    if y is not None and hue is not None:
        raise ValueError(f"y={y!r} draws a picture and hue={hue!r} draws lines: give one of them")
    drawn = _drawn(obj, x, y)
    for name in ("dim", "hue", "col"):
        if given[name] is not None and given[name] not in obj.dims:
            raise ValueError(
                f"{name}={given[name]!r} is no dimension of {obj.name!r}, which has {obj.dims}"
            )
    taken = [d for d in (dim, *drawn.values(), hue, col) if d is not None]
    if len(set(taken)) != len(taken):
        raise ValueError(
            f"dim={dim!r}, x={x!r}, y={y!r}, hue={hue!r} and col={col!r} use one dimension twice"
        )
    rest = [str(d) for d in obj.dims if d not in taken]
    time = str(dim) if dim is not None else _time(obj, rest, drawn)
    rest = [d for d in rest if d != time]
    right = drawn.get("x")
    if right is None:
        if not rest:
            raise ValueError(
                f"{obj.name!r} has dimensions {obj.dims}: beside dim={time!r} there is none to draw"
            )
        right = rest.pop()
    up = drawn.get("y", None if hue is None else str(hue))
    lines = hue is not None
    if up is None:
        if rest:
            up = rest.pop()
        else:
            lines = True
    return Dims(time, right, up, lines, None if col is None else str(col), tuple(rest))


def _drawn(obj: xr.DataArray, x: Hashable | None, y: Hashable | None) -> dict[str, str]:
    """Return the dimension of each axis that is given, by a dimension's or a coordinate's name."""
    along = {
        axis: _along(obj, axis, name) for axis, name in (("x", x), ("y", y)) if name is not None
    }
    made = {axis: str(dims[0]) for axis, dims in along.items() if len(dims) == 1}
    planes = [dims for dims in along.values() if len(dims) == 2]
    if not planes:
        return made
    if x is None or y is None:
        raise ValueError(
            f"a coordinate with dimensions {planes[-1]} needs both x= and y=, got x={x!r}, y={y!r}"
        )
    left = [d for d in planes[-1] if d not in made.values()]
    if len(left) + len(made) != 2:
        raise ValueError(f"x={x!r} and y={y!r} do not lie along the same two dimensions")
    for axis in ("x", "y"):
        if axis not in made:
            made[axis] = str(left.pop())  # x along the last
    return made


def _along(obj: xr.DataArray, axis: str, name: Hashable) -> tuple[Hashable, ...]:
    """Return the dimensions of what is drawn along an axis."""
    if name in obj.dims:
        return (name,)
    if name not in obj.coords:
        raise ValueError(
            f"{axis}={name!r} is neither a dimension nor a coordinate of {obj.name!r}, "
            f"which has {obj.dims} and {sorted(map(str, obj.coords))}"
        )
    dims: tuple[Hashable, ...] = obj.coords[name].dims
    if len(dims) not in (1, 2):
        raise ValueError(
            f"{axis}={name!r} is a coordinate with dimensions {dims}; one or two can be drawn"
        )
    return dims


def _time(obj: xr.DataArray, rest: list[str], drawn: dict[str, str]) -> str:
    like = [d for d in rest if _is_time(obj, d)]
    if len(like) > 1:
        named = [d for d in like if d in _TIMES]
        like = named if len(named) == 1 else like
    if len(like) == 1:
        return like[0]
    spare = len(rest) - (2 - len(drawn))
    if not like and spare == 1:
        return rest[0]
    raise ValueError(f"along which of {tuple(obj.dims)} is {obj.name!r} to be played? Give dim=")


def _is_time(obj: xr.DataArray, dim: str) -> bool:
    if dim in _TIMES:
        return True
    along = [c for c in obj.coords.values() if c.dims == (dim,)]
    return any(
        c.dtype.kind in "Mm"
        or c.attrs.get("axis") == "T"
        or c.attrs.get("standard_name") == "time"
        or (c.dtype.kind == "O" and c.size > 0 and hasattr(c.values[0], "isoformat"))
        for c in along
    )
