"""Times of snapshots: given as a number or as a date and time, stored as eight bytes."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import WriterError

TIME_UNITS = "nanoseconds since 1970-01-01"
"""Of the times that were given as dates."""


def stamp_of(value: Any, what: str, known: np.dtype[Any] | None) -> NDArray[Any]:
    """Return a time as the number that is stored: float64, or int64 in `TIME_UNITS`.

    Parameters
    ----------
    value
        A number, or a date and time.
    what
        Whose snapshots they are, for the message.
    known
        Dtype of the times before; None if there are none.

    Raises
    ------
    WriterError
        If it is neither, is NaN or NaT, cannot be stored exactly, or is not of the
        kind of those before.

    Examples
    --------
    >>> stamp_of(0.5, "'u'", None)
    array(0.5)
    """
    found = np.asarray(_naive(value) if isinstance(value, datetime.datetime) else value)
    if found.ndim or found.dtype.kind not in "iufM":
        raise WriterError(f"time must be a number or a date and time, got {value!r}")
    if found != found:  # NaN and NaT, which equal nothing
        raise WriterError(
            f"{what}: the time is {value!r}, which comes neither before nor after another; give each "
            "snapshot its time, or leave time= out of all writes"
        )
    if found.dtype.kind == "M":
        exact = found.astype("<M8[ns]")
        same, kind = exact.astype(found.dtype) == found, "64-bit nanoseconds"
        number = exact.view("<i8")
    else:
        number = found.astype("<f8")
        same, kind = found.dtype.kind == "f" or int(number) == int(found), "a float64"
    if not same:
        raise WriterError(f"{what}: time {value!r} cannot be stored exactly as {kind}")
    if known is not None and known != number.dtype:
        raise WriterError(
            f"{what}: time {value!r} is not of the kind of the times before; "
            "give numbers only, or dates only"
        )
    return number


def _naive(value: datetime.datetime) -> Any:
    """Return a date and time in UTC, as precise as it was given."""
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    # pandas has nanoseconds, which datetime has not
    precise = getattr(value, "to_datetime64", None)
    return np.datetime64(value) if precise is None else precise()
