"""Interleaved rounds, best of each: what makes a ratio trustworthy on a noisy machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

ROUNDS = 9


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    what
        The work that is measured.
    limit, product
        Best of the rounds, in `unit`.
    bar
        What the product is held to: a ratio to the limit, or a figure in `unit`.
    peers
        Best figure of each peer, in `unit`.
    """

    what: str
    unit: str
    product: float
    bar: str
    passed: bool
    limit: float | None = None
    limit_name: str = ""
    peers: tuple[tuple[str, float], ...] = ()

    @property
    def ratio(self) -> float | None:
        """Product over limit."""
        return None if not self.limit else self.product / self.limit

    def cells(self) -> list[str]:
        """Return the cells of the row, as text."""
        limit = "" if self.limit is None else f"{figure(self.limit)} ({self.limit_name})"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        peers = ", ".join(
            f"{name} {figure(value)}" + (f" ({value / self.limit:.1f} x)" if self.limit else "")
            for name, value in self.peers
        )
        verdict = "yes" if self.passed else "**no**"
        return [
            self.what,
            self.unit,
            limit,
            figure(self.product),
            ratio,
            self.bar,
            verdict,
            peers or "-",
        ]


HEADINGS = ["what", "unit", "limit", "binref_sci", "x limit", "bar", "met", "peers (x limit)"]


def figure(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def against(
    what: str,
    unit: str,
    best: dict[str, float],
    *,
    bar: float,
    limit: str,
    scale: float = 1.0,
    product: str = "binref_sci",
) -> Row:
    """Return a row whose bar is a ratio to the limit.

    Parameters
    ----------
    best
        Seconds by contestant, as `interleaved` returns them.
    scale
        From seconds to `unit`.
    """
    peers = tuple(
        (name, seconds * scale) for name, seconds in best.items() if name not in (product, limit)
    )
    ratio = best[product] / best[limit]
    return Row(
        what,
        unit,
        best[product] * scale,
        f"{bar:g} x",
        ratio <= bar,
        best[limit] * scale,
        limit,
        peers,
    )


def under(
    what: str,
    unit: str,
    product: float,
    *,
    bar: float,
    limit: float | None = None,
    limit_name: str = "",
    peers: Mapping[str, float] | None = None,
) -> Row:
    """Return a row whose bar is a figure in `unit`."""
    return Row(
        what,
        unit,
        product,
        f"{figure(bar)} {unit}",
        product <= bar,
        limit,
        limit_name,
        tuple((peers or {}).items()),
    )


def over(
    what: str,
    unit: str,
    product: float,
    *,
    bar: float,
    limit: float | None = None,
    limit_name: str = "",
) -> Row:
    """Return a row whose bar is the least figure in `unit`; 0: it is only reported."""
    told = f"at least {figure(bar)} {unit}" if bar else "reported"
    return Row(what, unit, product, told, product >= bar, limit, limit_name)


def interleaved(
    contestants: dict[str, Callable[[], float | None]],
    *,
    rounds: int = ROUNDS,
    between: Callable[[], None] = lambda: None,
    few: Collection[str] = (),
    few_rounds: int = 2,
) -> dict[str, float]:
    """Run each contestant once a round, in turn; return the best seconds of each.

    Parameters
    ----------
    contestants
        By name; each does the work and returns the seconds it took, or None to be
        timed from outside.
    between
        Runs after each: clears what it has left behind.
    few, few_rounds
        Contestants that run in the first rounds alone, being slow.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for number in range(rounds):
        for name, work in contestants.items():
            if number >= few_rounds and name in few:
                continue
            gc.collect()
            started = time.perf_counter()
            seconds = work()
            elapsed = time.perf_counter() - started
            best[name] = min(best[name], elapsed if seconds is None else seconds)
            between()
    return best


def stopwatch(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
