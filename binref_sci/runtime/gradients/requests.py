"""What a caller asks for, checked before the component runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import EllipsisType
from typing import Any, NoReturn

import numpy as np
from pydantic import BaseModel

from binref_sci import wire
from binref_sci.errors import BinrefError, PayloadError
from binref_sci.messages import fault, listed, shown
from binref_sci.runtime import models, paths
from binref_sci.runtime.gradients.arrays import derivative_dtype, fitting, holding, told
from binref_sci.runtime.gradients.kinds import Asked, Gradient, Point
from binref_sci.runtime.schema import ArrayType, Shape


def asked(
    gradient: Gradient, payload: BaseModel, inputs: type[BaseModel], outputs: type[BaseModel]
) -> Asked:
    """Return what a caller asks for.

    Parameters
    ----------
    gradient
        The endpoint.
    payload
        Its payload, of `payload_model`.
    inputs, outputs
        The component's schemas.

    Raises
    ------
    PayloadError
        With an entry for each path and array that cannot be meant.
    """
    found: Any = payload
    values: BaseModel = found.inputs
    chosen_inputs = list(dict.fromkeys(getattr(found, gradient.inputs)))
    chosen_outputs = list(dict.fromkeys(getattr(found, gradient.outputs)))
    faults: list[dict[str, Any]] = []
    of_inputs = _annotations(gradient.inputs, chosen_inputs, inputs, values, faults)
    of_outputs = _annotations(gradient.outputs, chosen_outputs, outputs, None, faults)
    vector: dict[str, Any] = {}
    if gradient.vector is not None and gradient.takes_outputs:
        vector = _vector(found, gradient, chosen_outputs, of_outputs, None, faults)
    elif gradient.vector is not None:
        vector = _vector(found, gradient, chosen_inputs, of_inputs, values, faults)
    if faults:
        _refuse(gradient, faults)
    points = points_of(values, chosen_inputs)
    return Asked(gradient, tuple(chosen_inputs), tuple(chosen_outputs), vector, points)


def _annotations(
    which: str,
    chosen: list[str],
    schema: type[BaseModel],
    tree: BaseModel | None,
    faults: list[dict[str, Any]],
) -> dict[str, tuple[ArrayType, ...]]:
    """Return what the schema says of each path that can be differentiated by; note the others."""
    made: dict[str, tuple[ArrayType, ...]] = {}
    for index, path in enumerate(chosen):
        try:
            made[path] = _differentiable(schema, path, tree)
        except paths.PathError as error:
            faults.append(fault((which, index), str(error), "path"))
    return made


def _vector(
    payload: Any,
    gradient: Gradient,
    chosen: list[str],
    fields: Mapping[str, tuple[ArrayType, ...]],
    tree: BaseModel | None,
    faults: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the tangents or cotangents, one for each path; note what does not fit."""
    name = str(gradient.vector)
    which = gradient.outputs if gradient.takes_outputs else gradient.inputs
    given: dict[str, Any] = getattr(payload, name)
    wanted = set(chosen)
    for path in [path for path in given if path not in wanted]:
        message = f"{shown(path)} is not among {which}: {listed(chosen)}"
        faults.append(fault((name, path), message, "extra_key"))
    made: dict[str, Any] = {}
    for path in chosen:
        if path not in given:
            message = (
                f"{shown(path)} is missing: {name} needs an array for each of {which}; "
                f"it has {listed(given)}"
            )
            faults.append(fault((name, path), message, "missing_key"))
        elif path in fields:
            point = None if tree is None else paths.get(tree, path)
            try:
                made[path] = _along(fields[path], given[path], point)
            except BinrefError as error:
                faults.append(fault((name, path), f"{shown(path)}: {error}", "vector"))
    return made


def points_of(values: BaseModel, chosen: Iterable[str]) -> dict[str, Point]:
    """Return shapes and dtypes of some inputs."""
    arrays = {path: np.asarray(paths.get(values, path)) for path in chosen}
    return {path: Point(array.shape, array.dtype) for path, array in arrays.items()}


def require_outputs(asked: Asked, shapes: Any, schema: type[BaseModel]) -> None:
    """Hold what is asked for against the outputs, or what ``abstract_eval`` foresees of them.

    So lengths that the schema leaves open, and items of lists, are known.

    Parameters
    ----------
    asked
        What is asked for.
    shapes
        Outputs, or what ``abstract_eval`` returned.
    schema
        Of the outputs.

    Raises
    ------
    PayloadError
        With an entry for each output that there is not, and each cotangent of another shape.
    """
    faults: list[dict[str, Any]] = []
    for index, output in enumerate(asked.outputs):
        try:
            found = paths.get(shapes, output)
            wrong = f"{shown(output)} is None for these inputs" if found is None else ""
        except paths.PathError as error:
            wrong = f"{shown(output)}: {error}"
        if wrong:
            message = f"{wrong}; differentiable are {_offered_by(shapes, schema)}"
            faults.append(fault((asked.gradient.outputs, index), message, "path"))
            continue
        shape = _shape_of(found)
        if asked.gradient.takes_outputs and shape is not None:
            given = np.shape(asked.vector[output])
            if given != shape:
                message = (
                    f"{shown(output)}: shape {given} does not fit the output, which has shape "
                    f"{shape} for these inputs"
                )
                faults.append(fault((str(asked.gradient.vector), output), message, "vector"))
    if faults:
        _refuse(asked.gradient, faults)


def leaves_open(asked: Asked, outputs: type[BaseModel]) -> bool:
    """Return whether only the outputs themselves can tell if what is asked for fits them."""
    for output in asked.outputs:
        if not paths.is_certain(outputs, output):
            return True
        if asked.gradient.takes_outputs and any(
            isinstance(shape, EllipsisType) or None in shape
            for shape in shapes_declared(outputs, output)
        ):
            return True
    return False


def shapes_declared(schema: type[BaseModel], path: str) -> list[Shape]:
    """Return the shapes of differentiable arrays that a schema has at a path.

    A union may hold any of them: several leave the number of axes open.
    """
    fields = [each for each in paths.declared(schema, path) if each.differentiable]
    shapes = list(dict.fromkeys(each.expected_shape for each in fields))
    return shapes if len(shapes) == 1 else [..., *shapes]


def _shape_of(found: Any) -> tuple[int, ...] | None:
    """Return the shape of an output or of what stands for it; None if it has none."""
    shape = found.get("shape") if isinstance(found, Mapping) else getattr(found, "shape", None)
    return tuple(shape) if isinstance(shape, list | tuple) else None


def _offered_by(made: Any, schema: type[BaseModel]) -> str:
    if isinstance(made, schema):
        return listed(paths.existing(made, schema))
    return _offered(schema, None)


def _refuse(gradient: Gradient, faults: list[dict[str, Any]]) -> NoReturn:
    told = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in faults[:10])
    more = f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
    raise PayloadError(f"the payload does not fit {gradient.endpoint}: {told}{more}", faults)


def _differentiable(
    schema: type[BaseModel], path: str, tree: BaseModel | None
) -> tuple[ArrayType, ...]:
    """Return the annotations at a path that can be differentiated by, or say why there are none.

    Of an input, the one that its value belongs to.
    """
    try:
        found = paths.declared(schema, path, tree)
        usable = tuple(each for each in found if each.differentiable)
        if not usable:
            what = "is not differentiable" if found else f"is no array of {schema.__name__}"
            raise paths.PathError(f"{shown(path)} {what}")
        if tree is None:
            return usable  # any of them: the output is not there yet
        value = paths.get(tree, path)
        if not hasattr(value, "shape"):
            raise paths.PathError(
                f"{shown(path)} is {shown(value)} in these inputs, which is no array"
            )
        field = holding(found, value)
        if field is not None and field.differentiable:
            return (field,)
        raise paths.PathError(
            f"{shown(path)} is of shape {value.shape} in these inputs, which is not differentiable"
        )
    except paths.PathError as error:
        reason = str(error) if shown(path) in str(error) else f"{shown(path)}: {error}"
        raise paths.PathError(f"{reason}; differentiable are {_offered(schema, tree)}") from error


def _offered(schema: type[BaseModel], tree: BaseModel | None) -> str:
    if tree is not None:
        return listed(paths.existing(tree, schema))
    return listed(models.differentiable(schema))


def _along(fields: tuple[ArrayType, ...], value: Any, point: Any) -> Any:
    """Return a tangent or cotangent in the dtype of what it belongs to."""
    array = np.asarray(value)
    if point is not None:
        if array.shape != np.shape(point):
            raise PayloadError(
                f"shape {array.shape} does not fit the input, which has shape {np.shape(point)}"
            )
    field = fitting(fields, array.shape, array.dtype) if point is None else fields[0]
    if field is None:
        raise PayloadError(f"shape {array.shape} does not fit the output {told(fields)}")
    dtype = field.expected_dtype
    if dtype is None:
        dtype = array.dtype if point is None else np.asarray(point).dtype
    return wire.cast(array, derivative_dtype(dtype))
