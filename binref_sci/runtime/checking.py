"""Holding a component's gradient endpoints against finite differences.

For each input a few random directions are drawn, and the outputs' derivatives along them
are had by central differences. Then, for each output and input,

- the block of ``jacobian`` times the direction,
- ``jacobian_vector_product`` along the direction,
- the direction's product with ``vector_jacobian_product`` of a random cotangent

are compared with what the differences say, and so are both products for all inputs and
outputs at once, which are the sums of those for each. A wrong entry shows in every direction, so a
few do for inputs of any size, and the number of evaluations does not depend on it.

The error is the largest difference, relative to the largest derivative that either side
has along this direction. What the rounding of the outputs leaves of a difference is allowed
on top: below it nothing is known. Of complex products the real parts are compared, along
complex directions: all that a real input by a complex output has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.call import entering
from binref_sci.errors import BinrefError, ComponentError, PayloadError
from binref_sci.matrix import Matrix
from binref_sci.runtime import paths
from binref_sci.runtime.comparing import drawn, error_of
from binref_sci.runtime.component import Component
from binref_sci.runtime.endpoint import checked_payload, differentiated
from binref_sci.runtime.gradients.arrays import derivative_dtype
from binref_sci.runtime.gradients.kinds import GRADIENTS, Asked
from binref_sci.runtime.gradients.requests import points_of
from binref_sci.runtime.probing import fresh, scratch
from binref_sci.runtime.run import RunDirectory
from binref_sci.runtime.stepping import LostStepError, Stepping
from binref_sci.runtime.together import ALL, Together

DIRECTIONS: Final = 3
"""Random directions for each input."""

_ROUNDING: Final = 4.0  # roundings of an output that are allowed for in a difference


@dataclass(frozen=True)
class Comparison:
    """One endpoint, for one output and one input.

    Parameters
    ----------
    endpoint, output, path
        What was compared; `path` is that of the input. ``"(all)"`` stands for all that were
        asked for at once.
    error
        Largest error, relative as the module tells; infinite for what is not finite.
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


def check_gradients(
    component: Component,
    payload: bytes | str | Mapping[str, Any],
    *,
    folder: Path,
    inputs: list[str] | None = None,
    outputs: list[str] | None = None,
    endpoints: list[str] | None = None,
    directions: int = DIRECTIONS,
    eps: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    input_path: Path | None = None,
) -> Iterator[Comparison]:
    """Compare a component's gradient endpoints with central differences.

    Parameters
    ----------
    component
        The component.
    payload
        As for ``apply``: ``{"inputs": {...}}``.
    folder
        To compute in; nothing is left there.
    inputs, outputs
        Paths; default: all differentiable ones with elements.
    endpoints
        Default: all that the component has.
    directions
        Random directions for each input.
    eps
        Length of a step; default: see `binref_sci.runtime.finite`.
    rtol
        Largest relative error allowed; default: ten times the square of the relative step,
        and at least 1e-5: for float64 1e-5, for float32 2.5e-4.
    seed
        Of the random numbers.
    input_path
        Folder that references in the payload resolve in.

    Yields
    ------
    Comparison
        For each endpoint, output and input; of products also for all at once.

    Raises
    ------
    PayloadError
        If the payload does not fit, there is nothing to compare, or `eps` moves nothing.
    ComponentError
        If ``apply`` fails.
    """
    values, _ = checked_payload(component, "apply", payload, input_path)
    there = [name for name in GRADIENTS if name in component.endpoints]
    chosen = _chosen(endpoints, there, f"gradient endpoint of component {component.name!r}")
    with scratch(folder) as place:
        run = RunDirectory(place)
        try:
            with entering(run.call):
                made = component.module.apply(fresh(values))
                fields = component.output_schema, component.input_schema
                if not isinstance(made, fields[0]):
                    made = fields[0].model_validate(made)
                known = {
                    path: np.asarray(paths.get(made, path)) for path in _existing(made, fields[0])
                }
        except (Exception, SystemExit) as error:
            raise ComponentError(
                f"component {component.name!r} failed in apply: {type(error).__name__}: {error}"
            ) from error
        filled = {
            path: np.asarray(paths.get(values, path)).dtype
            for path in _existing(values, fields[1])
            if np.size(paths.get(values, path))
        }
        floating = [path for path, dtype in filled.items() if dtype.kind in "fc"]
        wrt = _chosen(inputs, floating, "differentiable input with floating-point elements")
        of = _chosen(
            outputs, [path for path, each in known.items() if each.size], "differentiable output"
        )
        check = _Check(component, run, values, of, wrt, known, eps, rtol)
        yield from check.all(chosen, directions, np.random.default_rng(seed))
        if inputs is None:
            for endpoint, output, path in itertools.product(chosen, of, filled):
                if path not in floating:
                    reason = f"{filled[path].name}: whole numbers cannot be moved a little"
                    yield Comparison(
                        endpoint, output, path, math.nan, math.nan, reason, compared=False
                    )


def _existing(tree: Any, schema: type[BaseModel]) -> list[str]:
    return list(paths.existing(tree, schema))


def _chosen(asked: list[str] | None, there: list[str], what: str) -> list[str]:
    wrong = [each for each in asked or () if each not in there]
    if wrong or not there:
        first = f"{wrong[0]!r} is no {what}" if wrong else f"there is no {what}"
        raise PayloadError(f"{first}; there are {paths.listed(iter(there))}")
    return list(dict.fromkeys(asked or there))


@dataclass
class _Check:
    component: Component
    run: RunDirectory
    values: BaseModel
    outputs: list[str]
    inputs: list[str]
    known: dict[str, NDArray[Any]]
    eps: float | None
    rtol: float | None

    def all(
        self, endpoints: list[str], directions: int, random: np.random.Generator
    ) -> Iterator[Comparison]:
        """Yield all comparisons."""
        worst: dict[tuple[str, str, str], tuple[float, str]] = {}
        jacobian: Any = None
        if "jacobian" in endpoints:
            jacobian = self._ask("jacobian", self.inputs, self.outputs, {})
        several = [each for each in endpoints if each != "jacobian"]
        if len(self.inputs) == len(self.outputs) == 1:
            several = []
        sums = [Together(self._cotangents(random)) for _ in range(directions)]
        for path in self.inputs:
            point = np.asarray(paths.get(self.values, path))
            steps = self._stepping(path)
            for together in sums:
                tangent = drawn(random, point.shape, point.dtype)
                slopes = self._slopes(path, steps, tangent)
                if several:
                    together.add(path, tangent, slopes)
                for endpoint in endpoints:
                    made = jacobian
                    if endpoint == "jacobian_vector_product":
                        made = self._ask(endpoint, [path], self.outputs, {path: tangent.copy()})
                    for output in self.outputs:
                        key = endpoint, output, path
                        try:
                            found = self._compare(key, tangent, slopes[output], made, random)
                        except (BinrefError, OSError) as failure:
                            found = math.inf, str(failure)
                        worst[key] = max(worst.get(key, (0.0, "")), found)
        for endpoint in endpoints:
            for output, path in itertools.product(self.outputs, self.inputs):
                error, reason = worst.pop((endpoint, output, path))
                allowed = self._tolerance(output, path)
                yield Comparison(endpoint, output, path, error, allowed, reason)
        for endpoint, together in itertools.product(several, sums):
            for key, found in together.errors(endpoint, self._ask, self._tolerance):
                worst[key] = max(worst.get(key, (0.0, "")), found)
        for key, (error, reason) in worst.items():
            yield Comparison(*key, error, self._tolerance(*key[1:]), reason)

    def _cotangents(self, random: np.random.Generator) -> dict[str, NDArray[Any]]:
        known = ((output, self.known[output]) for output in self.outputs)
        return {output: drawn(random, each.shape, each.dtype) for output, each in known}

    def _stepping(self, path: str) -> Stepping:
        with self._moving(path):
            return Stepping.of(
                self.component.module.apply,
                self.values,
                [path],
                self.outputs,
                "central",
                self.eps,
                1,
                map,
            )

    def _slopes(
        self, path: str, steps: Stepping, tangent: NDArray[Any]
    ) -> dict[str, tuple[NDArray[Any], float]]:
        """Return each output's derivative along a direction, and what rounding leaves of it."""
        with self._moving(path):
            found = steps.along({path: tangent})
        width = 2 * steps.distance({path: tangent})
        made = {}
        for output, slope in found.items():
            known = self.known[output]
            unit = float(np.finfo(derivative_dtype(known.dtype)).eps)
            size = float(np.max(np.abs(known), initial=0.0))
            made[output] = slope, _ROUNDING * unit * size / width
        return made

    @contextmanager
    def _moving(self, path: str) -> Iterator[None]:
        try:
            with entering(self.run.call):
                yield
        except PayloadError:
            raise
        except LostStepError as error:
            raise PayloadError(str(error)) from error
        except (Exception, SystemExit) as error:
            raise ComponentError(
                f"component {self.component.name!r} failed in apply with {path!r} moved a little: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _compare(
        self,
        key: tuple[str, str, str],
        tangent: NDArray[Any],
        known: tuple[NDArray[Any], float],
        made: Any,
        random: np.random.Generator,
    ) -> tuple[float, str]:
        """Return the error of an output along a direction, and what went wrong if it failed.

        Parameters
        ----------
        key
            Endpoint, output and input.
        tangent
            The direction.
        known
            The derivative along it, and what rounding leaves of that.
        made
            What the endpoint returned for all outputs, or why it did not.
        random
            To draw a cotangent with, for which the endpoint is asked here.
        """
        endpoint, output, path = key
        slope, rounding = known
        allowed = self._tolerance(output, path)
        if endpoint == "jacobian":
            if isinstance(made, str):
                return math.inf, made
            block = made[output][path]
            rows = block.ndim - tangent.ndim
            found = Matrix(block, rows).times(tangent.reshape(-1)).reshape(block.shape[:rows])
            return error_of(found, slope, rounding, allowed)
        if endpoint == "jacobian_vector_product":
            if isinstance(made, str):
                return math.inf, made
            return error_of(np.asarray(made[output]), slope, rounding, allowed)
        cotangent = drawn(random, slope.shape, self.known[output].dtype)
        made = self._ask(endpoint, [path], [output], {output: cotangent.copy()})
        if isinstance(made, str):
            return math.inf, made
        return error_of(
            np.sum(np.asarray(made[path]) * tangent).real,
            np.sum(cotangent * slope).real,
            rounding * float(np.sum(np.abs(cotangent))),
            allowed,
            float(np.sum(np.abs(cotangent * slope))),
        )

    def _ask(self, endpoint: str, wrt: list[str], of: list[str], vector: dict[str, Any]) -> Any:
        """Return an endpoint's result, or why there is none."""
        points = points_of(self.values, wrt)
        asked = Asked(GRADIENTS[endpoint], tuple(wrt), tuple(of), vector, points)
        try:
            return differentiated(self.component, asked, fresh(self.values), self.run)
        except (ComponentError, PayloadError) as error:
            return str(error)

    def _tolerance(self, output: str, path: str) -> float:
        if self.rtol is not None:
            return self.rtol
        outputs = self.outputs if output == ALL else [output]
        inputs = self.inputs if path == ALL else [path]
        kinds = [self.known[each].dtype for each in outputs]
        kinds += [np.asarray(paths.get(self.values, each)).dtype for each in inputs]
        unit = max(float(np.finfo(derivative_dtype(kind)).eps) for kind in kinds)
        return max(1e-5, 10 * math.pow(unit, 2 / 3))
