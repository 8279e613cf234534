"""Lengths of outputs that a schema leaves open: whether a cotangent fits them.

A cotangent of another length is the caller's mistake, and a 422. Where `abstract_eval` does
not tell the lengths only the outputs themselves do, and they cost a run of ``apply``. So they
are had where a cotangent of another shape might go unnoticed, since NumPy spreads a length
of 1 over any other; and where a gradient has failed, to tell whose mistake that was. What
was seen is remembered: inputs that differ in the numbers of their arrays alone, whole ones
excepted, are expected to have outputs of the same shapes, so products one after another cost
one run in all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import EllipsisType
from typing import Any, Final

import numpy as np
from pydantic import BaseModel

from binref_sci.errors import ComponentError, PayloadError
from binref_sci.runtime import paths
from binref_sci.runtime.component import Component
from binref_sci.runtime.fields import fields_of, has_fields
from binref_sci.runtime.gradients import requests
from binref_sci.runtime.gradients.kinds import Asked
from binref_sci.runtime.probing import calling, fresh, scratch, throwaway
from binref_sci.runtime.run import RunDirectory

_REMEMBERED: Final = 64  # kinds of inputs


def require_lengths(
    component: Component, asked: Asked, inputs: BaseModel, run: RunDirectory
) -> None:
    """Hold cotangents that might be spread in silence against the outputs.

    Raises
    ------
    PayloadError
        If one has another shape.
    """
    if asked.foreseen or not _may_be_spread(asked, component):
        return
    known = component.output_shapes.get(_form_of(inputs), {})
    if any(known.get(path) != np.shape(vector) for path, vector in asked.vector.items()):
        _hold_against_outputs(component, asked, inputs, run)


def blame(
    component: Component,
    asked: Asked,
    inputs: BaseModel,
    run: RunDirectory,
    failure: ComponentError,
) -> None:
    """Find out whether a gradient failed because of what was asked for.

    Raises
    ------
    PayloadError
        If so.
    """
    if asked.foreseen or not requests.leaves_open(asked, component.output_schema):
        return
    try:
        _hold_against_outputs(component, asked, inputs, run)
    except PayloadError as error:
        raise error from failure


def _may_be_spread(asked: Asked, component: Component) -> bool:
    """Tell whether a cotangent has a length of 1, or a number of axes, that is left open."""
    if not asked.gradient.takes_outputs:
        return False
    for path, vector in asked.vector.items():
        for shape in requests.shapes_declared(component.output_schema, path):
            if isinstance(shape, EllipsisType):
                return True
            if any(
                want is None and got == 1 for want, got in zip(shape, np.shape(vector), strict=True)
            ):
                return True
    return False


def _hold_against_outputs(
    component: Component, asked: Asked, inputs: BaseModel, run: RunDirectory
) -> None:
    try:
        with scratch(run.path) as folder, calling(throwaway(folder)):
            made = component.module.apply(fresh(inputs))
            made = component.output_schema.model_validate(made)
    except (Exception, SystemExit):  # then the gradient will tell, or has told
        return
    remembered = component.output_shapes
    for oldest in list(remembered)[: len(remembered) + 1 - _REMEMBERED]:
        remembered.pop(oldest, None)  # another thread may have been here
    remembered[_form_of(inputs)] = {
        path: tuple(paths.get(made, path).shape)
        for path in paths.existing(made, component.output_schema)
    }
    requests.require_outputs(
        asked, made, component.output_schema
    )  # of arrays on disk, shapes are known all the same


def _form_of(inputs: BaseModel) -> bytes:
    """Return a digest of inputs that leaves the numbers in their arrays out, save whole ones."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, inputs)
    return digest.digest()


def _add(digest: Any, value: Any) -> None:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        digest.update(f"{value.dtype}{value.shape};".encode())
        if value.dtype.kind in "iub":  # how many there are of something
            digest.update(np.ascontiguousarray(value).data)
        return
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.__pydantic_extra__ or {})}
    elif has_fields(value):
        value = {name: getattr(value, name) for name in fields_of(type(value)) or ()}
    if isinstance(value, Mapping):
        digest.update(b"{")
        for key, item in value.items():
            digest.update(f"{key!r}:".encode())
            _add(digest, item)
        digest.update(b"}")
    elif isinstance(value, list | tuple):
        digest.update(b"[")
        for item in value:
            _add(digest, item)
        digest.update(b"]")
    else:
        digest.update(f"{value!r};".encode())
