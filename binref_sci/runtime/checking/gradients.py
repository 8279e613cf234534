"""What of a component is checked, and where its apply is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.call import entering
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.messages import listed, shown
from binref_sci.runtime import paths
from binref_sci.runtime.checking.check import Check
from binref_sci.runtime.checking.comparison import Comparison
from binref_sci.runtime.component import Component
from binref_sci.runtime.endpoint import checked_payload
from binref_sci.runtime.gradients.kinds import GRADIENTS
from binref_sci.runtime.probing import fresh, scratch
from binref_sci.runtime.run import RunDirectory

DIRECTIONS: Final = 3
"""Random directions for each input."""


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
        Length of a step; default: see `binref_sci.runtime.checking.ladder`.
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
        known = _known(component, values, run)
        filled = {
            path: np.asarray(paths.get(values, path)).dtype
            for path in paths.existing(values, component.input_schema)
            if np.size(paths.get(values, path))
        }
        floating = [path for path, dtype in filled.items() if dtype.kind in "fc"]
        wrt = _chosen(inputs, floating, "differentiable input with floating-point elements")
        of = _chosen(
            outputs, [path for path, each in known.items() if each.size], "differentiable output"
        )
        check = Check(component, run, values, of, wrt, known, eps, rtol)
        yield from check.all(chosen, directions, np.random.default_rng(seed))
        if inputs is None:
            for endpoint, output, path in itertools.product(chosen, of, filled):
                if path not in floating:
                    reason = f"{filled[path].name}: whole numbers cannot be moved a little"
                    yield Comparison(
                        endpoint, output, path, math.nan, math.nan, reason, compared=False
                    )


def _known(component: Component, values: BaseModel, run: RunDirectory) -> dict[str, NDArray[Any]]:
    """Return the differentiable outputs at some inputs by path."""
    schema = component.output_schema
    try:
        with entering(run.call):
            made = component.module.apply(fresh(values))
            if not isinstance(made, schema):
                made = schema.model_validate(made)
            return {
                path: np.asarray(paths.get(made, path)) for path in paths.existing(made, schema)
            }
    except (Exception, SystemExit) as error:
        raise ComponentError(
            f"component {component.name!r} failed in apply: {type(error).__name__}: {error}"
        ) from error


def _chosen(asked: list[str] | None, there: list[str], what: str) -> list[str]:
    wrong = [each for each in asked or () if each not in there]
    if wrong or not there:
        first = f"{shown(wrong[0])} is no {what}" if wrong else f"there is no {what}"
        raise PayloadError(f"{first}; there are {listed(there)}")
    return list(dict.fromkeys(asked or there))
