"""How far two derivatives are apart, and whether that is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binref_sci.runtime.gradients.arrays import derivative_dtype


@dataclass(frozen=True)
class Comparison:
    """One endpoint, for one output and one input.

    Parameters
    ----------
    endpoint, output, path
        What was compared; `path` is that of the input. ``"(all)"`` stands for all that were
        asked for at once.
    error
        Largest error, relative as the package tells; infinite for what is not finite.
    tolerance
        What is allowed.
    reason
        Why there is no error to tell, if the endpoint failed or they could not be compared.
    compared
        False for an input of whole numbers, which finite differences cannot move.
    """

    endpoint: str
    output: str
    path: str
    error: float
    tolerance: float
    reason: str = ""
    compared: bool = True

    @property
    def agrees(self) -> bool:
        """Whether the error is allowed, as far as they were compared."""
        return not self.compared or self.error <= self.tolerance


def error_of(
    found: Any, expected: Any, rounding: float, allowed: float, scale: float = 0.0
) -> tuple[float, str]:
    """Return the error of a derivative, and what is wrong with it if it is no number.

    Parameters
    ----------
    found, expected
        What the component and what the differences say.
    rounding
        How far the differences may be off.
    allowed
        Largest relative error that is allowed.
    scale
        Size of what was summed up, if it was.
    """
    if np.shape(found) != np.shape(expected):
        return math.inf, f"shape {np.shape(found)}, expected {np.shape(expected)}"
    if not np.all(np.isfinite(expected)):
        return math.inf, (
            "beside these inputs the output is not finite: nothing to compare with, unless a shorter "
            "step (eps) helps"
        )
    if not np.all(np.isfinite(found)):
        return math.inf, "holds numbers that are not finite"
    sides = [float(np.max(np.abs(each), initial=0.0)) for each in (found, expected)]
    # an error as large as the rounding is just allowed
    largest = max(*sides, scale, rounding / allowed if allowed > 0 else 0.0)
    if largest == 0.0:
        return 0.0, ""
    return float(np.max(np.abs(found - expected), initial=0.0)) / largest, ""


def drawn(
    random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return random numbers, none of them small, so that none goes unseen."""
    made = random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        made = made * np.exp(1j * random.uniform(0, 2 * np.pi, shape))
    return np.asarray(made).astype(derivative_dtype(dtype))
