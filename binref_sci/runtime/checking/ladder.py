"""Derivatives along a direction, by steps of several lengths where one does not settle it.

Nobody knows beforehand on which scale a function bends. The usual step goes by the size of the
elements it moves (the cube root of the rounding unit times it: Nocedal and Wright, Numerical
Optimization, chapter 8.1); so that small elements are not moved by the size of large ones, those
of one magnitude are moved at a time. Where an endpoint does not agree, steps between a
ten-thousandth of the usual (for zeros, which have no size: 1e-14) and ten thousand times it, or
what the largest element asks for, are tried, each a hundred times the one before.

Then that derivative counts which is surest by itself, whatever the endpoint said: with the least
relative error, which is what rounding of the outputs leaves of the difference, and how far it
lies from that by the next shorter step (the shortest: the next longer). Curvature spoils the
longer of the two more; noise, such as an iteration's that stops early, the shorter: so that is
more than either has done to the one that counts. If rounding alone may have set the two that far
apart, it tells nothing of curvature: a hundredth of how far the next longer step leads does, for
curvature grows with the square of the step. Where no step gives a derivative to a digit, the
usual one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

RUNG: Final = 100.0
"""How much longer each step is than the one before."""

_SURE: Final = 0.1
"""Relative error of a derivative that is worth more than the usual one."""

_MAGNITUDE: Final = 4
"""Decades that elements are moved together in."""


@dataclass(frozen=True)
class Estimate:
    """An output's derivative along a direction, and how far rounding may have spoiled it.

    Parameters
    ----------
    value
        The derivative, in the shape of the output.
    rounding
        How far each element may be off.
    """

    value: NDArray[Any]
    rounding: float


class Sizes(NamedTuple):
    """Sizes of elements that steps are made for: the usual, the least and the greatest."""

    usual: float
    shortest: float
    longest: float


Measure = Callable[[float], dict[str, Estimate]]
"""Returns the derivatives of all outputs, by a step for elements of the size that is given."""


class Ladder:
    """The derivatives of the outputs along one direction, by steps of several lengths.

    Parameters
    ----------
    direction
        How far each element of the input is moved, relative to the others.
    measure
        Has the derivatives along it.
    sizes
        Of the elements that are moved.
    """

    def __init__(self, direction: NDArray[Any], measure: Measure, sizes: Sizes) -> None:
        self.direction = direction
        self._measure = measure
        self._sizes = sizes
        self.estimates = measure(sizes.usual)
        self._all: list[dict[str, Estimate]] | None = None

    def settle(self, output: str) -> Estimate:
        """Return the surest derivative of an output, which is its estimate from now on."""
        if self._all is None:
            self._all = list(self._steps())
        values = [each[output] for each in self._all]
        errors = list(map(_relative_error, [None, *values], values, [*values[1:], None]))
        error, surest = min(zip(errors, values, strict=True), key=itemgetter(0))
        if error < _SURE:
            self.estimates[output] = surest
        return self.estimates[output]

    def _steps(self) -> Iterator[dict[str, Estimate]]:
        """Yield what steps give, the shortest first."""
        usual, shortest, longest = self._sizes
        below = round(math.log(usual / shortest, RUNG))
        above = math.ceil(math.log(longest / usual, RUNG))
        for rung in range(-below, above + 1):
            if not rung:
                yield dict(self.estimates)
                continue
            try:
                yield self._measure(usual * RUNG**rung)
            except Exception:  # too short to move anything, or too far for the component
                pass


def _relative_error(shorter: Estimate | None, estimate: Estimate, longer: Estimate | None) -> float:
    """Return what is likely to be wrong with a derivative, relative to it."""
    size = float(np.max(np.abs(estimate.value), initial=0.0))
    if not size or not math.isfinite(size):
        return math.inf
    other = shorter or longer
    if other is None:
        return math.inf
    apart = _apart(estimate, other)
    if shorter is not None and longer is not None and apart <= shorter.rounding:
        apart = _apart(estimate, longer) / RUNG
    return (estimate.rounding + apart) / size


def _apart(one: Estimate, other: Estimate) -> float:
    with np.errstate(invalid="ignore"):
        found = float(np.max(np.abs(one.value - other.value), initial=0.0))
    return found if math.isfinite(found) else math.inf


def magnitudes(point: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool], Sizes]]:
    """Yield which elements of an input are of one magnitude, and the sizes to move them by.

    The largest come first. Zeros have no magnitude: they come by themselves, as large as the
    largest. What is not finite goes with the largest.

    Examples
    --------
    >>> for chosen, sizes in magnitudes(np.array([1e6, 0.0, 1e-6, 2e6])):
    ...     print(chosen.astype(int), sizes.usual)
    [1 0 0 1] 2000000.0
    [0 0 1 0] 1e-06
    [0 1 0 0] 2000000.0
    """
    sizes = np.abs(point).astype(np.float64)
    counts = np.isfinite(sizes) & (sizes >= np.finfo(point.dtype).tiny)
    largest = float(np.max(sizes, initial=0.0, where=counts))
    if not largest:
        yield np.ones(point.shape, bool), _of_zeros(1.0)
        return
    decades = np.log10(largest / np.where(counts, sizes, largest))
    group = np.where(counts | ~np.isfinite(sizes), decades // _MAGNITUDE, math.inf)
    for each in np.unique(group):
        chosen = group == each
        if math.isinf(each):
            yield chosen, _of_zeros(largest)
            continue
        usual = float(np.max(sizes, initial=0.0, where=chosen & counts))
        yield chosen, Sizes(usual, usual / RUNG**2, max(usual * RUNG**2, largest))


def _of_zeros(largest: float) -> Sizes:
    return Sizes(largest, largest / RUNG**7, largest)
