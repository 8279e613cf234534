"""Values that stand for a whole trajectory: a sample within a budget, or a scan of everything."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Read = Callable[[int, tuple[int, ...]], NDArray[Any]]
"""``read(i, strides)``: frame `i`, of each of its axes every so-manieth cell."""

POINTS: Final = 1 << 18
"""Values that are taken of a frame: their percentiles are off by 0.3 % in rank at most."""

BETWEEN: Final = 7
_SEED: Final = 20
_MISSING: Final = 1e30  # what valid_min and valid_max say where they say nothing


@dataclass(frozen=True)
class Sample:
    """Values of a trajectory.

    Parameters
    ----------
    values
        One axis.
    complete
        The smallest and the largest value of the trajectory are among them.
    frames
        Those that were read, in the order of reading.
    unreadable
        Those that could not be read, each with the reason.
    """

    values: NDArray[Any]
    complete: bool
    frames: tuple[int, ...]
    unreadable: Mapping[int, Exception]

    @property
    def rule(self) -> str:
        """Name for limits that come from it."""
        return "full" if self.complete else "sampled"


def known_range(
    attrs: Mapping[Any, Any], encoding: Mapping[Any, Any] | None = None
) -> tuple[float, float] | None:
    """Return the smallest and the largest value that the attributes of a variable tell.

    Parameters
    ----------
    attrs
        `actual_range`, else `valid_range`, else `valid_min` and `valid_max` count.
    encoding
        With a `scale_factor` or `add_offset` the valid range is one of packed values,
        and does not count.

    Examples
    --------
    >>> known_range({"actual_range": [200.0, 320.0]})
    (200.0, 320.0)
    >>> known_range({"valid_min": 0.0}) is None
    True
    """
    found = _pair(attrs.get("actual_range"))
    packed = encoding is not None and not {"scale_factor", "add_offset"}.isdisjoint(encoding)
    if found is None and not packed:
        found = _pair(attrs.get("valid_range"))
        if found is None and "valid_min" in attrs and "valid_max" in attrs:
            found = _pair([attrs["valid_min"], attrs["valid_max"]])
    return found


def _pair(value: Any) -> tuple[float, float] | None:
    try:
        low, high = np.asarray(value, dtype=float).ravel().tolist()
    except (TypeError, ValueError):
        return None
    usable = math.isfinite(low) and math.isfinite(high) and low < high
    return (low, high) if usable and max(abs(low), abs(high)) < _MISSING else None


def sample(
    read: Read,
    n: int,
    shape: tuple[int, ...],
    itemsize: int,
    *,
    budget_bytes: int = 64 * 1024 * 1024,
    budget_seconds: float = 0.2,
    clock: Callable[[], float] = time.monotonic,
) -> Sample:
    """Return values of a few frames: the last, the first, and some between.

    A trajectory that fits into the budget is read whole. Otherwise at most nine frames
    are, of each at most 2^18 values, evenly spread.

    Parameters
    ----------
    read
        ``read(i, strides)`` returns a part of frame `i`.
    n
        Number of frames.
    shape, itemsize
        Of a frame.
    budget_bytes, budget_seconds
        No further frame is read once one more would go beyond the first, or the second
        has passed. One frame is read whatever it costs.
    clock
        What time it is, in seconds.

    Raises
    ------
    Exception
        What `read` raised, if no frame at all could be read.

    Examples
    --------
    >>> def read(i, strides):
    ...     return np.full(3, i)[:: strides[0]]
    >>> taken = sample(read, 1000, (3,), 8, budget_bytes=10_000)
    >>> taken.frames[:2], taken.complete, len(taken.values)
    ((999, 0), False, 27)
    >>> sample(read, 1000, (3,), 8).complete
    True
    """
    size = math.prod(shape)
    whole = n * size * itemsize <= budget_bytes
    steps = strides(shape)
    exact = all(step == 1 for step in steps)
    cost = itemsize * math.prod(
        -(-length // step) for length, step in zip(shape[:-1], steps[:-1], strict=True)
    )
    cost *= shape[-1] if shape else 1  # rows are read whole
    until = clock() + budget_seconds
    parts: list[NDArray[Any]] = []
    frames: list[int] = []
    unreadable: dict[int, Exception] = {}
    spent = 0
    for count, i in enumerate(_spread(n)):
        if frames and ((not whole and count >= BETWEEN + 2) or clock() >= until):
            break
        if frames and spent + cost > budget_bytes:
            break
        try:
            parts.append(np.ravel(read(i, steps)))
        except Exception as error:  # one broken frame must not hide the others
            unreadable[i] = error
            if count >= BETWEEN + 2 and not frames:
                break
        else:
            frames.append(i)
        spent += cost
    if not frames and unreadable:
        raise next(iter(unreadable.values()))
    values = np.concatenate(parts) if parts else np.empty(0)
    return Sample(values, exact and len(frames) == n, tuple(frames), unreadable)


def scan(
    read: Read,
    n: int,
    shape: tuple[int, ...],
    *,
    progress: Callable[[int, int], None] = lambda done, n: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Sample:
    """Return the extremes of all frames, and about a million values between them.

    The memory it takes does not depend on the number of frames.

    Parameters
    ----------
    read
        ``read(i, strides)`` returns a part of frame `i`.
    n
        Number of frames.
    shape
        Of a frame.
    progress
        Called with the number of frames done, and `n`.
    stopped
        Asked before each frame; True ends the scan, which is then not complete.

    Returns
    -------
    Sample
        Its first values are the smallest, the smallest above zero and the largest.

    Examples
    --------
    >>> scan(lambda i, strides: np.array([i - 5.0, np.nan]), 10, (2,)).values[:3].tolist()
    [-5.0, 1.0, 4.0]
    """
    each = max(64, (POINTS * 4) // max(n, 1))
    ones = (1,) * len(shape)
    ends: NDArray[Any] = np.empty(0)
    parts: list[NDArray[Any]] = []
    frames: list[int] = []
    unreadable: dict[int, Exception] = {}
    rng = np.random.default_rng(_SEED)
    for i in range(n):
        if stopped():
            break
        try:
            values = np.ravel(read(i, ones))
        except Exception as error:  # as in `sample`
            unreadable[i] = error
        else:
            ends = _extremes(np.concatenate([ends.astype(values.dtype), _extremes(values)]))
            stride = max(1, len(values) // each)
            # Another cell of each stretch in every frame: a grid may have a period.
            parts.append(values[int(rng.integers(stride)) :: stride].copy())
            frames.append(i)
        progress(i + 1, n)
    if not frames and unreadable:
        raise next(iter(unreadable.values()))
    return Sample(np.concatenate([ends, *parts]), len(frames) == n, tuple(frames), unreadable)


def _extremes(values: NDArray[Any]) -> NDArray[Any]:
    """Return the smallest finite value, the smallest above zero, and the largest."""
    finite = values if values.dtype.kind not in "fc" else values[np.isfinite(values)]
    if not finite.size:
        return values[:0]
    positive = finite[finite > 0] if finite.dtype.kind != "b" else finite
    least = positive.min() if positive.size else finite.max()
    return np.array([finite.min(), least, finite.max()], finite.dtype)


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return one stride for all axes that leaves at most `POINTS` values."""
    stride = 1
    while math.prod(-(-length // stride) for length in shape) > POINTS:
        stride += 1
    return (stride,) * len(shape)


def _spread(n: int) -> Iterator[int]:
    """Yield every frame once: the last, the first, some evenly spread between, then the rest."""
    seen: set[int] = set()
    rng = np.random.default_rng(_SEED)
    between = ((np.arange(BETWEEN) + rng.random(BETWEEN)) / BETWEEN * n).astype(int)
    # The middle first: whatever the budget cuts off, what was read is spread.
    order = sorted(between.tolist(), key=lambda i: abs(2 * i - n))
    for i in [n - 1, 0, *order, *range(n)]:
        if 0 <= i < n and i not in seen:
            seen.add(i)
            yield i
