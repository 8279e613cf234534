"""The gradient endpoints: what they take, and what they have to return.

The payloads are tesseract-core's. A component's function is called with keywords:
``jacobian(inputs, jac_inputs, jac_outputs)``, where the selections are sets of paths, and
``tangent_vector`` or ``cotangent_vector`` are dicts of NumPy arrays by path.

Whatever a caller asks for is checked before the component runs: each path leads to a
differentiable array of these inputs, the vector has exactly the keys that were selected,
and each of its arrays the shape and kind of number of what it belongs to. What the
component returns is checked in the same way, arrays on disk by their metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final, NoReturn

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from binref_sci import wire
from binref_sci.array import BinrefArray
from binref_sci.dtypes import DTYPES, checked_dtype
from binref_sci.errors import BinrefError, ComponentError, PayloadError
from binref_sci.labels import Labels
from binref_sci.runtime import models, paths
from binref_sci.runtime.schema import Array, ArrayType, json_schema
from binref_sci.trajectory import Trajectory


@dataclass(frozen=True)
class Gradient:
    """One gradient endpoint.

    Parameters
    ----------
    endpoint
        Its name.
    title
        Its name in schemas.
    inputs, outputs
        Fields of the payload with the selected paths.
    vector
        Field of the payload with the arrays that the Jacobian is multiplied with, if any.
    summary
        What it computes.
    """

    endpoint: str
    title: str
    inputs: str
    outputs: str
    vector: str | None
    summary: str

    @property
    def takes_outputs(self) -> bool:
        """Whether the vector belongs to the outputs."""
        return self.vector == "cotangent_vector"


GRADIENTS: Final = {
    each.endpoint: each
    for each in (
        Gradient(
            "jacobian",
            "Jacobian",
            "jac_inputs",
            "jac_outputs",
            None,
            "Compute the Jacobian: for each output and input a block whose shape is that of the "
            "output followed by that of the input.",
        ),
        Gradient(
            "jacobian_vector_product",
            "JVP",
            "jvp_inputs",
            "jvp_outputs",
            "tangent_vector",
            "Compute how the outputs change along a tangent vector of the inputs.",
        ),
        Gradient(
            "vector_jacobian_product",
            "VJP",
            "vjp_inputs",
            "vjp_outputs",
            "cotangent_vector",
            "Compute the gradient, with respect to the inputs, of the outputs' product with a "
            "cotangent vector.",
        ),
    )
}
"""Gradient endpoints by name."""


@dataclass(frozen=True)
class Asked:
    """What a caller asked of a gradient endpoint, checked.

    Parameters
    ----------
    gradient
        The endpoint.
    inputs, outputs
        Selected paths, each once, in the order given.
    vector
        Arrays by path, in the dtypes that the schema declares.
    """

    gradient: Gradient
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    vector: dict[str, Any]

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the component's function, beside ``inputs``."""
        made: dict[str, Any] = {
            self.gradient.inputs: set(self.inputs),
            self.gradient.outputs: set(self.outputs),
        }
        if self.gradient.vector is not None:
            made[self.gradient.vector] = dict(self.vector)
        return made


# ------------------------------------------------------------ schemas


def require_differentiable(
    name: str, endpoint: str, inputs: type[BaseModel], outputs: type[BaseModel]
) -> None:
    """Refuse a component with a gradient endpoint and nothing to differentiate.

    Raises
    ------
    ComponentError
        Naming the schema that has no differentiable array.
    """
    for schema in (inputs, outputs):
        if not any(leaf.array.differentiable for leaf in models.arrays(schema)):
            raise ComponentError(
                f"component {name!r} has the endpoint {endpoint!r}, but {schema.__name__} has no "
                "differentiable array; declare one as Differentiable[Array[...]]"
            )


def payload_model(gradient: Gradient, inputs: type[BaseModel]) -> type[BaseModel]:
    """Return the model of an endpoint's payload; `asked` checks the rest."""
    fields: dict[str, Any] = {
        "inputs": (inputs, Field(description="Where to differentiate.")),
        gradient.inputs: (list[str], Field(min_length=1)),
        gradient.outputs: (list[str], Field(min_length=1)),
    }
    if gradient.vector is not None:
        fields[gradient.vector] = (dict[str, Array[..., None]], ...)
    made: type[BaseModel] = create_model(
        f"{gradient.title}InputSchema", __config__=ConfigDict(extra="forbid"), **fields
    )
    return made


def payload_schema(
    gradient: Gradient, given: Any, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return the JSON schema of an endpoint's payload.

    Parameters
    ----------
    gradient
        The endpoint.
    given
        JSON schema of the inputs.
    inputs, outputs
        The component's schemas.
    """
    properties: dict[str, Any] = {
        "inputs": given,
        gradient.inputs: _selection(inputs, "Differentiable inputs to differentiate by."),
        gradient.outputs: _selection(outputs, "Differentiable outputs to differentiate."),
    }
    if gradient.vector is not None:
        side, which = (
            (outputs, gradient.outputs) if gradient.takes_outputs else (inputs, gradient.inputs)
        )
        properties[gradient.vector] = _by_path(
            side, f"One array for each of {which}, of its shape.", json_schema
        )
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def result_schema(
    gradient: Gradient, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return the JSON schema of an endpoint's result."""
    if gradient.endpoint == "jacobian":

        def row(_: ArrayType) -> dict[str, Any]:
            return _by_path(inputs, "Blocks by input.", lambda _: json_schema(Array[..., None]))

        return _by_path(
            outputs,
            "Blocks by output and input; their shape is that of the output followed by that of "
            "the input.",
            row,
        )
    if gradient.takes_outputs:
        return _by_path(inputs, "One array for each of vjp_inputs, of its shape.", json_schema)
    return _by_path(outputs, "One array for each of jvp_outputs, of its shape.", json_schema)


def _selection(schema: type[BaseModel], description: str) -> dict[str, Any]:
    exact, patterns = _spellings(schema)
    choices: list[dict[str, Any]] = [{"enum": list(exact)}] if exact else []
    choices += [{"pattern": each} for each in patterns]
    return {
        "type": "array",
        "uniqueItems": True,
        "minItems": 1,
        "description": description,
        "items": {"type": "string"} | (choices[0] if len(choices) == 1 else {"anyOf": choices}),
    }


def _by_path(schema: type[BaseModel], description: str, value: Any) -> dict[str, Any]:
    exact, patterns = _spellings(schema)
    return {
        "type": "object",
        "description": description,
        "properties": {path: value(array) for path, array in exact.items()},
        "patternProperties": {path: value(array) for path, array in patterns.items()},
        "additionalProperties": False,
    }


def _spellings(schema: type[BaseModel]) -> tuple[dict[str, ArrayType], dict[str, ArrayType]]:
    """Return differentiable arrays by path, and by regular expression where there are many."""
    exact: dict[str, ArrayType] = {}
    patterns: dict[str, ArrayType] = {}
    for leaf in models.arrays(schema):
        if not leaf.array.differentiable:
            continue
        steps = leaf.path.split(".")
        if models.ITEM in steps or models.VALUE in steps:
            general = {models.ITEM: r"\[\d+\]", models.VALUE: r"\{(?:[^{}\\]|\\.)+\}"}
            patterns["^" + r"\.".join(general.get(step, step) for step in steps) + "$"] = leaf.array
        else:
            exact[leaf.path] = leaf.array
    return exact, patterns


# ------------------------------------------------------------ what is asked


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
    fields: dict[str, ArrayType] = {}
    for which, chosen, schema, tree in (
        (gradient.inputs, chosen_inputs, inputs, values),
        (gradient.outputs, chosen_outputs, outputs, None),
    ):
        for index, path in enumerate(chosen):
            try:
                field = _differentiable(schema, path, tree)
            except paths.PathError as error:
                faults.append(_fault((which, index), str(error), "path"))
            else:
                fields[f"{which}:{path}"] = field
    vector: dict[str, Any] = {}
    if gradient.vector is not None:
        which = gradient.outputs if gradient.takes_outputs else gradient.inputs
        chosen = chosen_outputs if gradient.takes_outputs else chosen_inputs
        given: dict[str, Any] = getattr(found, gradient.vector)
        for path in [path for path in given if path not in chosen]:
            faults.append(
                _fault(
                    (gradient.vector, path),
                    f"{path!r} is not among {which}: {paths.listed(iter(chosen))}",
                    "extra_key",
                )
            )
        for path in chosen:
            if path not in given:
                message = (
                    f"{path!r} is missing: {gradient.vector} needs an array for each of {which}; "
                    f"it has {paths.listed(iter(given))}"
                )
                faults.append(_fault((gradient.vector, path), message, "missing_key"))
            elif (known := fields.get(f"{which}:{path}")) is not None:
                point = None if gradient.takes_outputs else paths.get(values, path)
                try:
                    vector[path] = _along(known, given[path], point)
                except BinrefError as error:
                    message = f"{path!r}: {error}"
                    faults.append(_fault((gradient.vector, path), message, "vector"))
    if faults:
        _refuse(gradient, faults)
    return Asked(gradient, tuple(chosen_inputs), tuple(chosen_outputs), vector)


def require_outputs(asked: Asked, shapes: Any) -> None:
    """Hold what is asked for against the outputs that ``abstract_eval`` foresees.

    So lengths that the schema leaves open, and items of lists, are known before the
    component computes.

    Raises
    ------
    PayloadError
        With an entry for each output that there is not, and each cotangent of another shape.
    """
    faults: list[dict[str, Any]] = []
    for index, output in enumerate(asked.outputs):
        try:
            found = paths.get(shapes, output)
        except paths.PathError as error:
            message = f"{output!r}: {error}"
            faults.append(_fault((asked.gradient.outputs, index), message, "path"))
            continue
        shape = found.get("shape") if isinstance(found, Mapping) else getattr(found, "shape", None)
        if asked.gradient.takes_outputs and shape is not None:
            given = np.shape(asked.vector[output])
            if given != tuple(shape):
                message = (
                    f"{output!r}: shape {given} does not fit the output, which has shape "
                    f"{tuple(shape)} for these inputs"
                )
                faults.append(_fault((str(asked.gradient.vector), output), message, "vector"))
    if faults:
        _refuse(asked.gradient, faults)


def _refuse(gradient: Gradient, faults: list[dict[str, Any]]) -> NoReturn:
    told = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in faults[:10])
    more = f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
    raise PayloadError(f"the payload does not fit {gradient.endpoint}: {told}{more}", faults)


def _fault(loc: tuple[str | int, ...], message: str, kind: str) -> dict[str, Any]:
    return {"loc": list(loc), "msg": message, "type": kind}


def _differentiable(schema: type[BaseModel], path: str, tree: BaseModel | None) -> ArrayType:
    """Return the annotation at a path that can be differentiated by, or say why there is none."""
    try:
        found = paths.declared(schema, path)
        usable = [each for each in found if each.differentiable]
        if not usable:
            what = "is not differentiable" if found else f"is no array of {schema.__name__}"
            raise paths.PathError(f"{path!r} {what}")
        value = None if tree is None else paths.get(tree, path)
        if tree is not None and not hasattr(value, "shape"):
            raise paths.PathError(f"{path!r} is {value!r} in these inputs, which is no array")
    except paths.PathError as error:
        reason = str(error) if repr(path) in str(error) else f"{path!r}: {error}"
        raise paths.PathError(f"{reason}; differentiable are {_offered(schema, tree)}") from error
    return usable[0]


def _offered(schema: type[BaseModel], tree: BaseModel | None) -> str:
    if tree is not None:
        return paths.listed(paths.existing(tree, schema))
    patterns = (leaf.path for leaf in models.arrays(schema) if leaf.array.differentiable)
    return paths.listed(iter(dict.fromkeys(patterns)))


def _along(field: ArrayType, value: Any, point: Any) -> Any:
    """Return a tangent or cotangent in the dtype of what it belongs to."""
    array = np.asarray(value)
    if point is not None:
        if array.shape != np.shape(point):
            raise PayloadError(
                f"shape {array.shape} does not fit the input, which has shape {np.shape(point)}"
            )
    elif not _fits(field, array.shape):
        raise PayloadError(f"shape {array.shape} does not fit the output {field!r}")
    dtype = field.expected_dtype
    if dtype is None:
        dtype = array.dtype if point is None else np.asarray(point).dtype
    return wire.cast(array, _real(dtype))


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of derivatives: that of the array, or float64 where it holds integers."""
    return DTYPES["float64"] if dtype.kind in "iub" else dtype


def _fits(field: ArrayType, shape: tuple[int, ...]) -> bool:
    expected = field.expected_shape
    return isinstance(expected, EllipsisType) or (
        len(expected) == len(shape)
        and all(want in (None, got) for want, got in zip(expected, shape, strict=True))
    )


# ------------------------------------------------------------ what is returned


def checked_result(
    asked: Asked, made: Any, values: BaseModel, inputs: type[BaseModel], outputs: type[BaseModel]
) -> dict[str, Any]:
    """Return a component's result in the order asked for; nothing on disk is read.

    Parameters
    ----------
    asked
        What was asked for.
    made
        What the component returned.
    values
        The inputs of the call.
    inputs, outputs
        The component's schemas.

    Raises
    ------
    ComponentError
        Naming the key whose array is missing, too many, or does not fit.
    """
    gradient = asked.gradient
    if gradient.endpoint == "jacobian":
        rows = _keyed(made, asked.outputs, "", gradient.outputs)
        return {
            output: {
                path: _block(block, outputs, output, values, path)
                for path, block in _keyed(
                    rows[output], asked.inputs, f"[{output!r}]", gradient.inputs
                ).items()
            }
            for output in asked.outputs
        }
    if gradient.takes_outputs:
        return {
            path: _product(
                array, paths.declared(inputs, path)[0], f"[{path!r}]", paths.get(values, path)
            )
            for path, array in _keyed(made, asked.inputs, "", gradient.inputs).items()
        }
    return {
        path: _product(array, paths.declared(outputs, path)[0], f"[{path!r}]", None)
        for path, array in _keyed(made, asked.outputs, "", gradient.outputs).items()
    }


def _keyed(made: Any, wanted: tuple[str, ...], where: str, which: str) -> dict[str, Any]:
    """Return what a result has by path, if it is exactly what was asked for."""
    if isinstance(made, BaseModel):
        made = dict(made)
    if not isinstance(made, Mapping):
        raise ComponentError(
            f"{where or 'it'} is of type {type(made).__name__}, expected a dict with an entry for "
            f"each of {which}"
        )
    missing = [path for path in wanted if path not in made]
    if missing:
        raise ComponentError(f"{where or 'it'} lacks {paths.listed(iter(missing))} of {which}")
    extra = [path for path in made if path not in wanted]
    if extra:
        raise ComponentError(
            f"{where or 'it'} holds {paths.listed(map(str, extra))}, which is not among {which}"
        )
    return {path: made[path] for path in wanted}


def _numbers(value: Any, where: str) -> Any:
    """Return a result as an array of the wire; one on disk as it is."""
    if isinstance(value, BinrefArray):
        return value
    if value is None or isinstance(value, Trajectory | Mapping | str | np.ma.MaskedArray):
        raise ComponentError(
            f"{where} is of type {type(value).__name__}, expected one array"
            + ("; BinrefWriter.stack() makes one of it" if isinstance(value, Trajectory) else "")
        )
    try:
        array = np.asarray(value)
        return array.astype(checked_dtype(array.dtype), copy=False)
    except (BinrefError, TypeError, ValueError) as error:
        raise ComponentError(f"{where} is no array: {error}") from error


def _block(value: Any, outputs: type[BaseModel], output: str, values: BaseModel, path: str) -> Any:
    where = f"[{output!r}][{path!r}]"
    array = _numbers(value, where)
    inner = np.shape(paths.get(values, path))
    split = len(array.shape) - len(inner)
    outer = array.shape[:split] if split >= 0 else ()
    field = paths.declared(outputs, output)[0]
    if split < 0 or array.shape[split:] != inner or not _fits(field, outer):
        raise ComponentError(
            f"{where} has shape {array.shape}, expected that of the output ({field!r}) followed by "
            f"that of the input, {inner}"
        )
    return array


def _product(value: Any, field: ArrayType, where: str, point: Any) -> Any:
    array = _numbers(value, where)
    if point is not None and array.shape != np.shape(point):
        raise ComponentError(
            f"{where} has shape {array.shape}, but the input has shape {np.shape(point)}"
        )
    if not _fits(field, array.shape):
        raise ComponentError(f"{where} has shape {array.shape}, expected {field!r}")
    if field.expected_dtype is None:
        return array
    dtype = _real(field.expected_dtype)
    if array.dtype == dtype:
        return array
    if isinstance(array, BinrefArray):
        raise ComponentError(
            f"{where} has dtype {array.dtype.name}, and an array on disk is never cast: write it as "
            f"{dtype.name}"
        )
    try:
        return wire.cast(array, dtype)
    except BinrefError as error:
        raise ComponentError(f"{where} does not fit {field!r}: {error}") from error


# ------------------------------------------------------------ labels


def labels_of(
    gradient: Gradient,
    chosen_inputs: Sequence[str],
    chosen_outputs: Sequence[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    ndims: Mapping[tuple[str, str], tuple[int, int]],
) -> dict[str, Any]:
    """Return the labels of a result by path, as ``run.json`` has them.

    A block of a Jacobian is found under ``output.input`` and has the dimensions of both;
    those of the input get the suffix ``_in`` where the output has a dimension of that name.

    Parameters
    ----------
    gradient
        The endpoint.
    chosen_inputs, chosen_outputs
        What was selected.
    inputs, outputs
        Labels of the component's schemas by path.
    ndims
        Number of axes of output and input, by output and input; where they are not known, a
        block has no labels.
    """
    if gradient.endpoint == "jacobian":
        made = {}
        for output in chosen_outputs:
            for path in chosen_inputs:
                if (known := ndims.get((output, path))) is not None:
                    sides = label_of(outputs, output), label_of(inputs, path)
                    joined = joined_labels(*sides, output=output, path=path, ndims=known)
                    made[f"{output}.{path}"] = joined.to_json()
        return made
    side, chosen = (inputs, chosen_inputs) if gradient.takes_outputs else (outputs, chosen_outputs)
    return {path: found.to_json() for path in chosen if (found := label_of(side, path)) is not None}


def label_of(labels: Mapping[str, Any], path: str) -> Labels | None:
    """Return the labels of what lies at a path, if its schema has some."""
    steps = paths.parse(path)
    found = labels.get(paths.pattern(path))
    if found is not None:
        return Labels.from_json(found)
    if steps and steps[-1].kind == "item":  # labels of a list, whose first axis is the list's
        found = labels.get(paths.pattern(paths.spell(steps[:-1])))
        if found is not None:
            whole = Labels.from_json(found)
            return whole.replace(dims=None if whole.dims is None else whole.dims[1:])
    return None


def joined_labels(
    outer: Labels | None,
    inner: Labels | None,
    *,
    output: str,
    path: str,
    ndims: tuple[int, int],
) -> Labels:
    """Return the labels of a block of a Jacobian.

    Parameters
    ----------
    outer, inner
        Labels of output and input.
    output, path
        Their paths; dimensions without a name are called after them.
    ndims
        Number of axes of both.

    Examples
    --------
    >>> field = Labels(dims=("y", "x"))
    >>> joined_labels(field, field, output="u", path="u0", ndims=(2, 2)).dims
    ('y', 'x', 'y_in', 'x_in')
    """
    rows = _dims(outer, output, ndims[0])
    columns = _dims(inner, path, ndims[1])
    taken = set(rows)
    renamed: dict[str, str] = {}
    for dim in columns:
        free = dim
        while free in taken:
            free += "_in"
        renamed[dim] = free
        taken.add(free)
    coords: dict[str, Any] = {}
    if outer is not None:
        coords |= {key: each for key, each in outer.coords.items() if set(each[0]) <= set(rows)}
    if inner is not None:
        for key, (axes, values, attrs) in inner.coords.items():
            if set(axes) <= set(columns):
                name = renamed.get(key, key)
                name = name if name not in coords else f"{name}_in"
                coords[name] = (tuple(renamed[axis] for axis in axes), values, attrs)
    return Labels((*rows, *renamed.values()), coords, long_name=f"d {output} / d {path}")


def _dims(labels: Labels | None, path: str, ndim: int) -> tuple[str, ...]:
    if labels is not None and labels.dims is not None and len(labels.dims) == ndim:
        return labels.dims
    return tuple(f"{path}_dim_{axis}" for axis in range(ndim))
