"""Numbers along an axis or a colour bar, as short as they can be told apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import BoundaryNorm, LogNorm, Normalize, SymLogNorm
from matplotlib.ticker import LogLocator, MaxNLocator, SymmetricalLogLocator
from numpy.typing import NDArray

_MOST = 11  # labels at intervals of a discrete scale
_WIDEST = 1e300  # range beyond which matplotlib's arithmetic overflows


def bar_ticks(norm: Normalize) -> list[tuple[float, str]]:
    """Return places from 0 to 1 along a colour bar, each with its label.

    Examples
    --------
    >>> bar_ticks(Normalize(0.0, 4.0))
    [(0.0, '0'), (0.25, '1'), (0.5, '2'), (0.75, '3'), (1.0, '4')]
    >>> bar_ticks(LogNorm(1e-3, 10.0))[:2]
    [(0.0, '10⁻³'), (0.25, '10⁻²')]
    """
    if isinstance(norm, BoundaryNorm):
        edges = np.asarray(norm.boundaries, dtype=float)
        step = -(-len(edges) // _MOST)
        places = np.arange(0, len(edges), step)
        texts = number_labels(edges[places].tolist())
        return list(zip((places / (len(edges) - 1)).tolist(), texts, strict=True))
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    if not high - low < _WIDEST:
        return list(zip((0.0, 1.0), number_labels([low, high]), strict=True))
    values, texts = _values(norm, low, high)
    placed: NDArray[Any] = np.ma.filled(np.ma.asarray(norm(np.asarray(values)), float), np.nan)
    return [
        (min(max(float(place), 0.0), 1.0), text)
        for place, text in zip(placed, texts, strict=True)
        if -1e-9 <= place <= 1 + 1e-9
    ]


def number_labels(values: Sequence[float]) -> list[str]:
    """Return numbers with as many digits as tell them apart, and no more.

    Examples
    --------
    >>> number_labels([0.0, 0.5, 1.0]), number_labels([0.0, 2e-6])
    (['0.0', '0.5', '1.0'], ['0', '2e-6'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    steps = [b - a for a, b in itertools.pairwise(values) if b > a]
    step = min(*steps, largest) if steps else largest  # a difference may be infinite
    if not largest or not math.isfinite(largest):
        return [_minus(f"{value:g}") for value in values]
    if 1e-4 <= largest < 1e6 or (largest < 1e15 and _digits(largest, step) > 5):
        decimals = next(d for d in range(18) if d == 17 or _whole(values, 10.0**d, step))
        return [_minus(f"{value:.{decimals}f}") for value in values]
    return [_minus(_scientific(value, _digits(largest, step))) for value in values]


def _values(norm: Normalize, low: float, high: float) -> tuple[list[float], list[str]]:
    locator: Any = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10])
    if isinstance(norm, LogNorm) and high >= 100 * low:
        locator = LogLocator(numticks=8)
    elif isinstance(norm, SymLogNorm):
        locator = SymmetricalLogLocator(base=10, linthresh=float(norm.linthresh))
        locator.set_params(numticks=9)
    values = [float(v) for v in locator.tick_values(low, high)]
    slack = 1e-9 * (high - low)
    values = [v for v in values if low - slack <= v <= high + slack]
    if isinstance(norm, LogNorm | SymLogNorm) and not isinstance(locator, MaxNLocator):
        return values, [_power(value) for value in values]
    return values, number_labels(values)


_MINUS = "\N{MINUS SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    if value == 0:
        return "0"
    exponent = round(math.log10(abs(value)))
    if not math.isclose(abs(value), 10.0**exponent, rel_tol=1e-6):
        return _minus(f"{value:.3g}")
    sign = _MINUS if value < 0 else ""
    if exponent in (0, 1):
        return f"{sign}{10**exponent}"
    return f"{sign}10{str(exponent).translate(_RAISED)}"


def _whole(values: Sequence[float], scale: float, step: float) -> bool:
    """Tell whether every value is a whole number of units, to a thousandth of a step."""
    return all(abs(v * scale - round(v * scale)) <= 1e-3 * step * scale for v in values)


def _digits(largest: float, step: float) -> int:
    """Return how many digits after the first one tell values `step` apart."""
    return max(0, math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9) + 1)


def _scientific(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def _minus(text: str) -> str:
    return _MINUS + text[1:] if text.startswith("-") else text
