"""How far two derivatives are apart, and whether that is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Comparison:
    """One endpoint, for one output and one input.

    Parameters
    ----------
    endpoint, output, path
        What was compared; `path` is that of the input.
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
    if not np.all(np.isfinite(found)):
        return math.inf, "holds numbers that are not finite"
    sides = [float(np.max(np.abs(each), initial=0.0)) for each in (found, expected)]
    # an error as large as the rounding is just allowed
    largest = max(*sides, scale, rounding / allowed if allowed > 0 else 0.0)
    if largest == 0.0:
        return 0.0, ""
    return float(np.max(np.abs(found - expected), initial=0.0)) / largest, ""
