"""The time of each frame as text of one width, and as a number.

As many digits as tell neighbours apart, and no more: the label does not jitter while the
film runs. Numbers are padded on the left with a space as wide as a digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from binref_sci.notebook.naming import unit_of

Text = Callable[[int], str]

_PAD = "\u2007"  # as wide as a digit
_LOOKED_AT = 2000  # values of Python's own kind, such as cftime's, that are looked at
_SHARE = 0.01  # of a step: what rounding may move a time by
_DATE_UNITS = ("Y", "M", "D", "m", "s", "ms", "us", "ns")
_DAY = 86_400_000_000_000  # ns
_EVEN = 0.01  # of a step: what steps may differ by and be even
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "fs": 1e-15,
}


class Times:
    """The coordinate along which a trajectory is played.

    Parameters
    ----------
    dim
        Name of the dimension.
    size
        Number of frames.
    coordinate
        1-D along `dim`; None: frames are only numbered.

    Examples
    --------
    >>> time = xr.DataArray([0.0, 0.25, 0.5], dims="time", name="time", attrs={"units": "s"})
    >>> Times("time", 3, time).label(1)
    't = 0.25 s'
    """

    def __init__(self, dim: str, size: int, coordinate: xr.DataArray | None = None) -> None:
        self.dim = dim
        self.size = size
        self.values: NDArray[Any] | None = None if coordinate is None else coordinate.values
        self.name = "step" if coordinate is None else str(coordinate.name)
        self.unit = "" if coordinate is None else unit_of(coordinate)
        kind = "i" if self.values is None else self.values.dtype.kind
        self._is_date = kind == "M" or (
            kind == "O" and size > 0 and hasattr(self.values[0], "isoformat")  # type: ignore[index]  # has values
        )
        self._format = self._formatter(kind)
        short = "t" if self.name == "time" else self.name
        self._prefix = "" if self._is_date else f"{short} = "
        self._suffix = f" {self.unit}" if self.unit and not self._is_date and kind != "m" else ""

    def label(self, i: int) -> str:
        """Return the time of frame `i`, with name and unit."""
        return f"{self._prefix}{self.text(i)}{self._suffix}"

    def title(self, i: int) -> str:
        """Return the same for where it stands alone: without padding."""
        return self.label(i).replace(_PAD, "")

    def text(self, i: int) -> str:
        """Return the time of frame `i` without name and unit."""
        return self._format(i)

    def time(self, i: int) -> float:
        """Return the time of frame `i` as a number: dates and differences in seconds.

        Dates count from the first. Without a coordinate, or with one of text, it is `i`.
        """
        values = self.values
        if values is None or (values.dtype.kind not in "biufMm" and not self._is_date):
            return float(i)
        value = values[i]
        if values.dtype.kind == "M":
            return float((value - values[0]) / np.timedelta64(1, "s"))
        if values.dtype.kind == "m":
            return float(value / np.timedelta64(1, "s"))
        if values.dtype.kind == "O":
            return float((value - values[0]).total_seconds())
        return float(value)

    @cached_property
    def clock(self) -> tuple[str, NDArray[np.float64]] | None:
        """What the times count in, and the times; None if they are none, or in no order.

        Dates are seconds since 1970 (of cftime since 2000, in their calendar); times in a unit
        that is known are seconds.
        """
        values = self.values
        if values is None or self.size < 2:
            return None
        kind, what = values.dtype.kind, self.unit
        if kind == "M":
            what, numbers = "date", (values - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        elif kind == "m":
            what, numbers = "s", values / np.timedelta64(1, "s")
        elif self._is_date:
            first = values[0]
            start = first.replace(
                year=2000, month=1, day=1, hour=0, minute=0, second=0, microsecond=0
            )
            what = f"date, {getattr(first, 'calendar', 'standard')}"
            numbers = np.array([(value - start).total_seconds() for value in values])
        elif kind in "iuf":
            scale = _SECONDS.get(self.unit)
            what = self.unit if scale is None else "s"
            numbers = values.astype("f8") * (1.0 if scale is None else scale)
        else:
            return None
        steps = np.diff(numbers)
        if not np.isfinite(numbers).all() or not ((steps > 0).all() or (steps < 0).all()):
            return None
        return what, numbers

    def pace_of(self, frames: Sequence[int]) -> dict[str, Any] | None:
        """What the browser is told of the times: unit, mean step, and whether all are alike.

        Parameters
        ----------
        frames
            Numbers of those that are played, one after another.
        """
        if self.clock is None or len(frames) < 2:
            return None
        what, numbers = self.clock
        chosen = numbers if len(frames) == self.size else numbers[np.asarray(frames)]
        steps = np.abs(np.diff(chosen))
        step = float(steps.mean())
        even = bool(np.abs(steps - step).max() <= _EVEN * step)
        unit = "s" if what.startswith("date") else what
        return {"clock": what, "unit": unit, "step": step, "even": even}

    def nearest(self, value: Any) -> int:
        """Return the frame whose time is nearest.

        Parameters
        ----------
        value
            A number in the coordinate's unit, a date, a time difference, or text that
            NumPy reads as one. Without a coordinate: the number of the frame.

        Raises
        ------
        TypeError, ValueError
            If it is not of the coordinate's kind; names the coordinate.
        """
        values = self.values
        if not self.size:
            raise ValueError(f"dimension {self.dim!r} has no frames")
        if values is None:
            return min(max(round(float(value)), 0), self.size - 1)
        try:
            if values.dtype.kind == "M":
                distance = np.abs(values - np.datetime64(value))
            elif values.dtype.kind == "m":
                distance = np.abs(values - _difference(value))
            elif values.dtype.kind in "USO" and isinstance(value, str):
                found = [i for i in range(self.size) if str(values[i])[: len(value)] == value]
                if not found:
                    raise ValueError("there is no such value")
                return found[0]
            elif values.dtype.kind == "O":
                distance = np.abs(values - value).astype("m8[us]")
            else:
                distance = np.abs(values.astype(float) - float(value))
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"time={value!r} does not fit coordinate {self.name!r} of dtype {values.dtype} "
                f"(its first is {self.text(0)!r}): {error}"
            ) from None
        return int(distance.argmin())

    def _formatter(self, kind: str) -> Text:
        values = self.values
        if values is None:
            return _padded(lambda i: str(i), (0, max(self.size - 1, 0)))
        if not self.size:
            return str
        if kind == "f":
            return _floats(values)
        if kind in "iu":
            ends = (int(values.argmin()), int(values.argmax()))
            return _padded(lambda i: str(int(values[i])), ends)
        if kind == "M":
            unit = _date_unit(values)
            return lambda i: _date(values[i], unit)
        if kind == "m":
            return _differences(values)
        if kind == "O" and self._is_date:
            spec = _cftime_spec(values)
            return lambda i: _cftime_text(values[i], spec)
        return lambda i: str(values[i])


def _padded(text: Text, ends: tuple[int, ...]) -> Text:
    width = max(len(text(i)) for i in ends)
    return lambda i: text(i).rjust(width, _PAD)


def _floats(values: NDArray[Any]) -> Text:
    """Return a formatter with the digits that tell neighbours apart."""
    values = values.astype("f8")
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    steps = np.abs(np.diff(finite))
    steps = steps[steps > 0]
    step = float(steps.min()) if steps.size else largest
    if not step:
        return _padded(lambda i: f"{values[i]:g}", (0,))
    # Digits that a float64 does not have are noise.
    step = max(step, largest * 1e-14)
    first = -math.floor(math.log10(step) + 1e-6)  # 0.09999999 means 0.1
    decimals = first
    for decimals in range(first, first + 3):
        scale = 10.0**-decimals
        moved = np.abs(finite - np.round(finite / scale) * scale)
        if float(moved.max()) <= _SHARE * step:
            break
    rounded = np.round(values, decimals) + 0.0  # no minus before a zero
    if largest >= 1e9 or decimals > 6:
        digits = max(math.floor(math.log10(largest)) + decimals, 0)
        text = lambda i: f"{rounded[i]:.{digits}e}"  # noqa: E731  # one of several
    else:
        places = max(decimals, 0)
        text = lambda i: f"{rounded[i]:.{places}f}"  # noqa: E731  # one of several
    return _padded(text, tuple({0, len(values) - 1, *_ends(values)}))


def _ends(values: NDArray[Any]) -> tuple[int, ...]:
    if np.isnan(values).all():
        return ()
    return int(np.nanargmin(values)), int(np.nanargmax(values))


def _date_unit(values: NDArray[Any]) -> str:
    """Return the coarsest unit in which all dates are whole."""
    there = values[~np.isnat(values)]
    for unit in _DATE_UNITS:
        if (there.astype(f"M8[{unit}]") == there).all():
            return unit
    return "auto"


def _date(value: Any, unit: str) -> str:
    if np.isnat(value):
        return "NaT"
    text = str(np.datetime_as_string(value, unit=unit))  # type: ignore[call-overload]  # a unit
    return text.replace("T", " ")


def _difference(value: Any) -> np.timedelta64:
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        value = np.timedelta64(int(number), unit)  # type: ignore[call-overload]  # NumPy checks the unit
    return np.timedelta64(value, "ns")


def _differences(values: NDArray[Any]) -> Text:
    """Return a formatter like ``3 d 04:00``, with the parts that vary."""
    ns = values.astype("m8[ns]").astype("i8")
    there = ns[~np.isnat(values)]
    largest = int(np.abs(there).max()) if there.size else 0
    days = len(str(largest // _DAY)) if largest >= _DAY else 0
    sign = bool((there < 0).any())
    rests = np.abs(there) % _DAY
    clock = bool(rests.any()) or not days
    seconds = bool((rests % 60_000_000_000).any()) or not days
    digits = next((d for d in (0, 3, 6, 9) if not (rests % 10 ** (9 - d)).any()), 9)

    def text(i: int) -> str:
        if np.isnat(values[i]):
            return "NaT"
        one = abs(int(ns[i]))
        parts = [f"{str(one // _DAY).rjust(days, _PAD)} d"] if days else []
        if clock:
            whole, rest = divmod(one % _DAY, 10**9)
            part = f"{whole // 3600:02}:{whole % 3600 // 60:02}"
            if seconds:
                part += f":{whole % 60:02}"
                part += f".{rest // 10 ** (9 - digits):0{digits}}" if digits else ""
            parts.append(part)
        minus = "-" if ns[i] < 0 else _PAD
        return (minus if sign else "") + " ".join(parts)

    return text


def _cftime_spec(values: NDArray[Any]) -> str:
    """Return what the texts of cftime dates have to show."""
    spread = np.linspace(0, len(values) - 1, min(len(values), _LOOKED_AT)).astype(int)
    dates = [values[i] for i in spread]
    if any(date.microsecond for date in dates):
        return "microseconds"
    if any(date.second for date in dates):
        return "seconds"
    return "minutes" if any(date.hour or date.minute for date in dates) else "days"


def _cftime_text(date: Any, spec: str) -> str:
    text = str(date.isoformat(" ", "minutes" if spec == "days" else spec))
    return text.partition(" ")[0] if spec == "days" else text
