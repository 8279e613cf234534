"""Asking the endpoints of a component for what the differences say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.call import entering
from binref_sci.errors import BinrefError, ComponentError, PayloadError
from binref_sci.matrix import Matrix
from binref_sci.messages import shown
from binref_sci.runtime import paths
from binref_sci.runtime.checking.comparison import Comparison, drawn, error_of
from binref_sci.runtime.checking.ladder import Estimate, Ladder, Sizes, magnitudes
from binref_sci.runtime.checking.together import ALL, Together
from binref_sci.runtime.component import Component
from binref_sci.runtime.endpoint import differentiated
from binref_sci.runtime.gradients.arrays import derivative_dtype
from binref_sci.runtime.gradients.kinds import GRADIENTS, Asked
from binref_sci.runtime.gradients.requests import points_of
from binref_sci.runtime.printing import held_back
from binref_sci.runtime.probing import fresh
from binref_sci.runtime.run import RunDirectory
from binref_sci.runtime.stepping import LostStepError, Stepping

_Key = tuple[str, str, str]  # endpoint, output, input
_Error = tuple[float, str]  # how large it is, and what went wrong if that is infinite

_ROUNDING: Final = 4.0  # roundings of an output that are allowed for in a difference


@dataclass
class Check:
    """One component at some inputs.

    Parameters
    ----------
    component
        The component.
    run
        To call it in.
    values
        Its inputs.
    outputs, inputs
        Paths of what is compared.
    known
        The outputs at these inputs, by path.
    eps, rtol
        As for `check_gradients`.
    heard
        Endpoints that have printed what they print.
    """

    component: Component
    run: RunDirectory
    values: BaseModel
    outputs: list[str]
    inputs: list[str]
    known: dict[str, NDArray[Any]]
    eps: float | None
    rtol: float | None
    heard: frozenset[str] = frozenset()

    def all(
        self, endpoints: list[str], directions: int, random: np.random.Generator
    ) -> Iterator[Comparison]:
        """Yield all comparisons."""
        sums = [Together(self._cotangents(random)) for _ in range(directions)]
        keys = itertools.product(endpoints, self.outputs, self.inputs)
        yield from self._worst(self._one_by_one(endpoints, sums, random), keys)
        if len(self.inputs) == len(self.outputs) == 1:
            return  # all at once is the same
        products = [each for each in endpoints if each != "jacobian"]
        at_once = (
            found
            for endpoint, together in itertools.product(products, sums)
            for found in together.errors(endpoint, self._ask, self._tolerance)
        )
        yield from self._worst(at_once)

    def _worst(
        self, found: Iterable[tuple[_Key, _Error]], keys: Iterable[_Key] = ()
    ) -> Iterator[Comparison]:
        """Yield the largest error of each key: of `keys` in their order, then as they come."""
        worst: dict[_Key, _Error] = dict.fromkeys(keys, (0.0, ""))
        for key, error in found:
            worst[key] = max(worst.get(key, error), error)
        for key, (size, reason) in worst.items():
            yield Comparison(*key, size, self._tolerance(*key[1:]), reason)

    def _one_by_one(
        self, endpoints: list[str], sums: list[Together], random: np.random.Generator
    ) -> Iterator[tuple[_Key, _Error]]:
        """Yield the errors of each output by each input along each direction; add them up."""
        jacobian: Any = None
        alone: dict[tuple[str, str], Any] = {}
        if "jacobian" in endpoints:
            jacobian = self._ask("jacobian", self.inputs, self.outputs, {})
            alone = self._blocks_alone()
        for path in self.inputs:
            for together, ladder in self._directions(path, sums, random):
                for endpoint in endpoints:
                    made = jacobian
                    if endpoint == "jacobian_vector_product":
                        tangent = {path: ladder.direction.copy()}
                        made = self._ask(endpoint, [path], self.outputs, tangent)
                    for output in self.outputs:
                        key = endpoint, output, path
                        error = self._compare(key, ladder, made, random)
                        if endpoint == "jacobian" and error[0] <= self._tolerance(output, path):
                            one = alone.pop((output, path), None)
                            if one is not None:
                                error = self._compare_alone(key, ladder, one, random)
                        yield key, error
                together.add(path, ladder.direction, ladder.estimates)

    def _directions(
        self, path: str, sums: list[Together], random: np.random.Generator
    ) -> Iterator[tuple[Together, Ladder]]:
        """Yield the derivatives along each part of an input's directions, and what adds them up."""
        point = np.asarray(paths.get(self.values, path))
        steps = self._stepping(path)
        for together in sums:
            whole = drawn(random, point.shape, point.dtype)
            for ladder in self._ladders(path, steps, whole, point):
                yield together, ladder

    def _blocks_alone(self) -> dict[tuple[str, str], Any]:
        """Ask for single blocks of the Jacobian: as few as have each output and each input once."""
        pairs = len(self.outputs), len(self.inputs)
        if pairs == (1, 1):
            return {}
        made = {}
        for number in range(max(pairs)):
            output, path = self.outputs[number % pairs[0]], self.inputs[number % pairs[1]]
            made[output, path] = self._ask("jacobian", [path], [output], {})
        return made

    def _compare_alone(
        self,
        key: _Key,
        ladder: Ladder,
        made: Any,
        random: np.random.Generator,
    ) -> _Error:
        """Return the error of a block that was asked for alone; that of the whole is right."""
        size, reason = self._compare(key, ladder, made, random)
        if size <= self._tolerance(*key[1:]):
            return size, reason
        why = "asked for alone, it is wrong; among all it is right"
        return size, f"{why}: {reason}" if reason else why

    def _cotangents(self, random: np.random.Generator) -> dict[str, NDArray[Any]]:
        known = ((output, self.known[output]) for output in self.outputs)
        return {output: drawn(random, each.shape, each.dtype) for output, each in known}

    def _stepping(self, path: str) -> Stepping:
        with self._moving(path), held_back():
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

    def _ladders(
        self, path: str, steps: Stepping, whole: NDArray[Any], point: NDArray[Any]
    ) -> Iterator[Ladder]:
        """Yield the derivatives along each part of a direction."""
        if self.eps is not None:
            only = Sizes(1.0, 1.0, 1.0)  # a step that is given stays as it is
            yield Ladder(whole, partial(self._slopes, path, steps, whole), only)
            return
        for chosen, sizes in magnitudes(point):
            tangent = np.where(chosen, whole, np.zeros_like(whole))
            yield Ladder(tangent, partial(self._slopes, path, steps, tangent), sizes)

    def _slopes(
        self, path: str, steps: Stepping, tangent: NDArray[Any], size: float
    ) -> dict[str, Estimate]:
        """Return each output's derivative along a direction, by a step for elements of a size."""
        tangents = {path: tangent}
        step = steps.distance(tangents, size)
        with self._moving(path):
            found = steps.difference(tangents, step)
        made = {}
        for output, slope in found.slopes.items():
            unit = float(np.finfo(derivative_dtype(self.known[output].dtype)).eps)
            sides = np.abs([found.upper[output], found.lower[output]])
            largest = float(np.max(sides, initial=0.0, where=np.isfinite(sides)))
            made[output] = Estimate(slope, _ROUNDING * unit * largest / found.width)
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
                f"component {self.component.name!r} failed in apply with {shown(path)} moved a little: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _compare(
        self,
        key: _Key,
        ladder: Ladder,
        made: Any,
        random: np.random.Generator,
    ) -> _Error:
        try:
            return self._error(key, ladder, made, random)
        except (BinrefError, OSError) as failure:  # what is on disk cannot be read
            return math.inf, str(failure)

    def _error(
        self,
        key: _Key,
        ladder: Ladder,
        made: Any,
        random: np.random.Generator,
    ) -> _Error:
        """Return the error of an output along a direction, and what went wrong if it failed.

        Parameters
        ----------
        key
            Endpoint, output and input.
        ladder
            The direction, and the derivatives along it.
        made
            What the endpoint returned for all outputs, or why it did not.
        random
            To draw a cotangent with, for which the endpoint is asked here.
        """
        endpoint, output, path = key
        if endpoint == "vector_jacobian_product":
            here = self.known[output]
            cotangent = drawn(random, here.shape, here.dtype)
            made = self._ask(endpoint, [path], [output], {output: cotangent.copy()})
        if isinstance(made, str):
            return math.inf, made
        found = _said(key, made, ladder.direction)
        allowed = self._tolerance(output, path)

        def error(estimate: Estimate, rounding: float) -> _Error:
            if endpoint != "vector_jacobian_product":
                return error_of(found, estimate.value, rounding, allowed)
            products = cotangent * estimate.value
            return error_of(
                found,
                np.sum(products).real,
                rounding * float(np.sum(np.abs(cotangent))),
                allowed,
                float(np.sum(np.abs(products))),
            )

        size, reason = error(ladder.estimates[output], 0.0)
        if size <= allowed or (reason and np.all(np.isfinite(ladder.estimates[output].value))):
            return size, reason
        settled = ladder.settle(output)
        return error(settled, settled.rounding)

    def _ask(self, endpoint: str, wrt: list[str], of: list[str], vector: dict[str, Any]) -> Any:
        """Return an endpoint's result, or why there is none."""
        points = points_of(self.values, wrt)
        asked = Asked(GRADIENTS[endpoint], tuple(wrt), tuple(of), vector, points)
        again, self.heard = endpoint in self.heard, self.heard | {endpoint}
        try:
            with held_back() if again else nullcontext():
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


def _said(key: _Key, made: Any, tangent: NDArray[Any]) -> Any:
    """Return the derivative along a direction that an endpoint's result holds."""
    endpoint, output, path = key
    if endpoint == "jacobian":
        block = made[output][path]
        rows = block.ndim - tangent.ndim
        return Matrix(block, rows).times(tangent.reshape(-1)).reshape(block.shape[:rows])
    if endpoint == "jacobian_vector_product":
        return np.asarray(made[output])
    return np.sum(np.asarray(made[path]) * tangent).real
