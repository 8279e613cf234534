"""A component evaluated beside its inputs, and the differences divided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.call import running_call
from binref_sci.errors import ComponentError
from binref_sci.messages import listed, shown
from binref_sci.runtime import paths
from binref_sci.runtime.gradients.arrays import derivative_dtype
from binref_sci.runtime.probing import Evaluation, scratch

Algorithm = Literal["central", "forward"]
Eps = float | Mapping[str, float] | None
Mapper = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]
Values = dict[str, NDArray[Any]]


class LostStepError(ValueError):
    """A step that was given is too short to move an input."""


@dataclass(frozen=True)
class Difference:
    """Outputs on two sides of a point, and the derivatives that they give.

    Parameters
    ----------
    upper, lower
        By path. Of a forward difference `lower` is at the point.
    width
        Tangent vectors between the two.
    slopes
        Derivatives along the tangent vector, by output.
    """

    upper: Values
    lower: Values
    width: float
    slopes: Values


@dataclass(frozen=True)
class Stepping:
    """Evaluates a component beside the inputs and divides; steps as `finite` tells.

    Parameters
    ----------
    evaluation
        The component.
    inputs, base
        Where to differentiate, and the outputs there.
    algorithm, eps, batch_size, mapper
        As of `finite_difference_jacobian`.
    """

    evaluation: Evaluation
    inputs: BaseModel
    base: Values
    algorithm: Algorithm
    eps: dict[str, float | None]
    batch_size: int
    mapper: Mapper

    @classmethod
    def of(
        cls,
        apply_fn: Callable[[Any], Any],
        inputs: BaseModel,
        chosen: list[str],
        outputs: list[str],
        algorithm: Algorithm,
        eps: Eps,
        batch_size: int,
        mapper: Mapper,
    ) -> Stepping:
        """Evaluate the component at the inputs, and check the settings."""
        if algorithm not in ("central", "forward"):
            raise ValueError(f"algorithm must be 'central' or 'forward', got {algorithm!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        for path in chosen:
            dtype = np.asarray(paths.get(inputs, path)).dtype
            if dtype.kind not in "fc":
                raise ComponentError(
                    f"input {shown(path)} has dtype {dtype.name}, and whole numbers cannot be moved a "
                    "little: finite differences need a floating-point input"
                )
        call = running_call()
        parent: Path | None = None if call is None else call.run_directory
        evaluation = Evaluation(apply_fn, tuple(outputs), parent)
        base = evaluation(inputs)
        evaluation = replace(evaluation, quiet=True)  # the others print much the same
        return cls(evaluation, inputs, base, algorithm, _steps(eps, chosen), batch_size, mapper)

    def _relative(self, *points: NDArray[Any]) -> float:
        """Return the step relative to an element, by the coarsest dtype involved."""
        kinds = [derivative_dtype(each.dtype) for each in (*points, *self.base.values())]
        unit = max((float(np.finfo(kind).eps) for kind in kinds), default=2.0**-52)
        power = 1 / 3 if self.algorithm == "central" else 1 / 2
        return math.pow(unit, power)

    def nothing(self) -> Values:
        """Return derivatives of zero, for their shapes."""
        return {path: np.zeros_like(value) for path, value in self.base.items()}

    def columns(self, path: str) -> Iterator[Values]:
        """Yield the derivatives of the outputs by each element of an input."""
        if self.mapper is not map:
            yield from self._columns(path, self.evaluation)
            return
        with scratch(self.evaluation.parent) as folder:
            yield from self._columns(path, replace(self.evaluation, folder=folder))

    def _columns(self, path: str, evaluation: Evaluation) -> Iterator[Values]:
        point = np.asarray(paths.get(self.inputs, path))
        relative = self._relative(point)
        given = self.eps[path]
        for batch in _batches(point.size, self.batch_size):
            moved: list[Any] = []
            widths: list[Any] = []
            for place in batch:
                step = relative * _scale(point) if given is None else given
                above = self._moved(path, point, place, step)
                below = point
                moved.append(paths.replaced(self.inputs, {path: _plain(above)}))
                if self.algorithm == "central":
                    below = self._moved(path, point, place, -step)
                    moved.append(paths.replaced(self.inputs, {path: _plain(below)}))
                widths.append(_minus(above.reshape(-1)[place], below.reshape(-1)[place]))
            found = iter(self.mapper(evaluation, moved))
            for width in widths:
                upper = self._next(found, len(moved))
                central = self.algorithm == "central"
                lower = self._next(found, len(moved)) if central else self.base
                yield self._quotients(upper, lower, width, point.dtype)

    def _next(self, found: Iterator[Any], count: int) -> Values:
        try:
            made: Values = next(found)
        except StopIteration:
            raise ValueError(
                f"mapper {self.mapper!r} has returned fewer results than the {count} points it was "
                "given"
            ) from None
        return made

    def _moved(self, path: str, point: NDArray[Any], place: int, step: float) -> NDArray[Any]:
        made = point.copy()
        flat = made.reshape(-1)
        flat[place] += np.asarray(step, point.real.dtype)
        before = point.reshape(-1)[place]
        if flat[place] == before and np.isfinite(before):
            raise _lost(step, before, path, point.dtype)
        return made

    def along(self, tangents: Values) -> Values:
        """Return the derivatives of the outputs along a tangent vector."""
        for path, tangent in tangents.items():
            shape = np.shape(paths.get(self.inputs, path))
            if tangent.shape != shape:
                raise ComponentError(
                    f"the tangent vector of {shown(path)} has shape {tangent.shape}, but the input has "
                    f"shape {shape}"
                )
        return self.difference(tangents, self.distance(tangents)).slopes

    def difference(self, tangents: Values, step: float) -> Difference:
        """Return what the outputs do if the inputs are moved by `step` tangent vectors.

        By 0, which asks for no evaluation, they stay as they are.
        """
        points = {path: np.asarray(paths.get(self.inputs, path)) for path in tangents}
        upper, lower, width = self.base, self.base, 1.0
        if step:
            upper, width = self._beside(points, tangents, step), step
            if self.algorithm == "central":
                lower, width = self._beside(points, tangents, -step), 2 * step
        dtype = np.result_type(*(derivative_dtype(each.dtype) for each in points.values()))
        return Difference(upper, lower, width, self._quotients(upper, lower, width, dtype))

    def _beside(self, points: Values, tangents: Values, distance: float) -> Values:
        moved = {
            path: (point + distance * _wide(tangents[path])).astype(point.dtype)
            for path, point in points.items()
        }
        for path, point in points.items():
            if np.any(tangents[path]) and np.array_equal(moved[path], point, equal_nan=True):
                raise _lost(abs(distance), _largest(point), path, point.dtype)
        moved = {path: _plain(array) for path, array in moved.items()}
        return self.evaluation(paths.replaced(self.inputs, moved))

    def distance(self, tangents: Values, size: float | None = None) -> float:
        """Return how many tangent vectors the inputs are moved by; 0 if they lead nowhere.

        Parameters
        ----------
        tangents
            By path.
        size
            Of the elements that are moved; default: the largest element's.
        """
        longest = max((_largest(each) for each in tangents.values()), default=0.0)
        if longest == 0.0:
            return 0.0
        given = next(iter({self.eps[path] for path in tangents}))
        if given is not None:
            return given
        points = [np.asarray(paths.get(self.inputs, path)) for path in tangents]
        size = max(map(_scale, points)) if size is None else size
        return self._relative(*points) * size / longest

    def _quotients(self, upper: Values, lower: Values, width: Any, dtype: np.dtype[Any]) -> Values:
        made: Values = {}
        for output, value in upper.items():
            if value.shape != self.base[output].shape:
                raise ComponentError(
                    f"output {shown(output)} has shape {value.shape} beside the inputs and "
                    f"{self.base[output].shape} at them"
                )
            kind = np.result_type(derivative_dtype(value.dtype), dtype)
            with np.errstate(all="ignore"):  # what is not finite stands in the result
                made[output] = np.asarray(_minus(value, lower[output]) / width).astype(kind)
        return made


def _lost(step: float, value: Any, path: str, dtype: np.dtype[Any]) -> LostStepError:
    return LostStepError(
        f"step {step} is lost beside {value} in input {shown(path)} ({dtype.name}); choose a larger eps"
    )


def _steps(eps: Eps, chosen: list[str]) -> dict[str, float | None]:
    """Return the step that was given for each input."""
    if eps is None:
        return dict.fromkeys(chosen)
    if not isinstance(eps, Mapping):
        eps = dict.fromkeys(chosen, float(eps))
    missing, extra = sorted(set(chosen) - set(eps)), sorted(set(eps) - set(chosen))
    if missing or extra:
        raise ValueError(
            f"eps must have a step for each input that is differentiated by; missing: "
            f"{listed(missing)}, not asked for: {listed(extra)}"
        )
    wrong = [path for path in chosen if not 0 < eps[path] < math.inf]
    if wrong:
        raise ValueError(
            f"the step in eps must be positive and finite, got {eps[wrong[0]]} for {shown(wrong[0])}"
        )
    return {path: float(eps[path]) for path in chosen}


def _batches(total: int, size: int) -> Iterator[range]:
    for start in range(0, total, size):
        yield range(start, min(start + size, total))


def _wide(value: Any) -> Any:
    """Return numbers with enough digits to be subtracted."""
    array = np.asarray(value)
    return array.astype(np.result_type(array.dtype, np.float64))


def _minus(upper: Any, lower: Any) -> Any:
    with np.errstate(invalid="ignore"):  # of two infinities
        return _wide(upper) - _wide(lower)


def _largest(values: NDArray[Any]) -> float:
    """Return the size of the largest element that is finite."""
    return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def _scale(point: NDArray[Any]) -> float:
    """Return the size of an input's elements; 1 where a part of it would be lost."""
    largest = _largest(point)
    return largest if largest >= np.finfo(point.dtype).tiny else 1.0


def _plain(array: NDArray[Any]) -> Any:
    """Return an input as a component gets it: a single number without axes."""
    return array[()] if array.ndim == 0 else array
