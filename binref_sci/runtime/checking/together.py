"""Products by several inputs or outputs at once: the sum of those by each alone.

A function that sets its result where it should add to it is right for each input and output
alone, and so is one that keeps something between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.errors import BinrefError
from binref_sci.runtime.checking.comparison import error_of
from binref_sci.runtime.checking.ladder import Estimate

ALL: Final = "(all)"
"""Stands for all inputs, or all outputs, where a path would: no path begins with a parenthesis."""

Ask = Callable[[str, list[str], list[str], dict[str, Any]], Any]
"""Asks an endpoint: (endpoint, inputs, outputs, vector); a text is the reason why there is none."""


@dataclass
class _Sum:
    """Derivatives added up, what rounding leaves of them, and the size of the largest."""

    value: Any = 0.0
    rounding: float = 0.0
    scale: float = 0.0

    def add(self, value: Any, rounding: float, scale: float) -> None:
        self.value = self.value + value
        self.rounding += rounding
        self.scale = max(self.scale, scale)


@dataclass(frozen=True)
class Together:
    """One direction of all inputs and one cotangent of all outputs.

    Parameters
    ----------
    cotangents
        By output.
    """

    cotangents: dict[str, NDArray[Any]]
    _tangents: dict[str, NDArray[Any]] = field(init=False, default_factory=dict)
    _outputs: dict[str, _Sum] = field(init=False, default_factory=dict)
    _inputs: dict[str, _Sum] = field(init=False, default_factory=dict)

    def add(self, path: str, tangent: NDArray[Any], slopes: Mapping[str, Estimate]) -> None:
        """Add the derivatives of all outputs along a part of the direction of an input.

        Parameters
        ----------
        path
            Of the input.
        tangent
            The part of its direction; 0 where another has moved it, or will.
        slopes
            By output.
        """
        self._tangents[path] = self._tangents.get(path, np.zeros_like(tangent)) + tangent
        along = self._inputs.setdefault(path, _Sum())
        with np.errstate(invalid="ignore"):  # what is not finite is told when it is compared
            for output, known in slopes.items():
                slope, rounding = known.value, known.rounding
                size = float(np.max(np.abs(slope), initial=0.0))
                self._outputs.setdefault(output, _Sum()).add(slope, rounding, size)
                weights = self.cotangents[output]
                products = weights * slope
                along.add(
                    np.sum(products).real,
                    rounding * float(np.sum(np.abs(weights))),
                    float(np.sum(np.abs(products))),
                )

    def errors(
        self, endpoint: str, ask: Ask, tolerance: Callable[[str, str], float]
    ) -> Iterator[tuple[tuple[str, str, str], tuple[float, str]]]:
        """Ask a product for all at once; yield endpoint, output and input, and its error.

        Parameters
        ----------
        endpoint
            Its name.
        ask
            Asks it.
        tolerance
            Largest relative error that is allowed, by output and input.
        """
        forward = endpoint == "jacobian_vector_product"
        vector = self._tangents if forward else self.cotangents
        copied = {path: each.copy() for path, each in vector.items()}
        made = ask(endpoint, list(self._inputs), list(self._outputs), copied)
        for path, known in (self._outputs if forward else self._inputs).items():
            key = (endpoint, path, ALL) if forward else (endpoint, ALL, path)
            if isinstance(made, str):
                yield key, (math.inf, made)
                continue
            try:
                found = np.asarray(made[path])  # it may be on disk
            except (BinrefError, OSError) as failure:
                yield key, (math.inf, str(failure))
                continue
            if not forward:
                found = np.sum(found * self._tangents[path]).real
            allowed = tolerance(*key[1:])
            yield key, error_of(found, known.value, known.rounding, allowed, known.scale)
