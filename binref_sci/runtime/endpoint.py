"""One call of a component, from the payload to the encoded response.

Server, command line and the client in the same process all go through `call`. What went
wrong is told apart by the kind of error: `PayloadError` is the caller's mistake,
`ComponentError` the component's failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from binref_sci.call import entering
from binref_sci.errors import ComponentError, FormatError, PayloadError, told
from binref_sci.messages import complaint, fault, shortened, shown
from binref_sci.runtime import lengths
from binref_sci.runtime.component import Component
from binref_sci.runtime.encoder import Encoding, Piece, checked_format
from binref_sci.runtime.faults import faults_of
from binref_sci.runtime.fields import has_fields
from binref_sci.runtime.gradients import labels, requests, results
from binref_sci.runtime.gradients.kinds import GRADIENTS, Asked
from binref_sci.runtime.probing import fresh
from binref_sci.runtime.run import RunDirectory
from binref_sci.runtime.schema import Mode, Reading
from binref_sci.runtime.skeleton import digest


@dataclass(frozen=True)
class Response:
    """What a call returned.

    Parameters
    ----------
    value
        The validated output, for callers in the same process.
    media_type
        Of the encoded text, such as ``application/json+binref``.
    pieces
        The encoded text; can be gone through once.
    run
        The run directory of the call.
    """

    value: Any = field(repr=False)
    media_type: str
    pieces: Iterator[Piece] = field(repr=False)
    run: RunDirectory

    def body(self) -> bytes:
        """Return the rest of the text at once."""
        return b"".join(self.pieces)


def call(
    component: Component,
    endpoint: str,
    payload: bytes | bytearray | memoryview | str | Mapping[str, Any],
    *,
    run: RunDirectory,
    output_format: str = "json",
    compression: str | None = None,
    input_path: str | os.PathLike[str] | None = None,
    prefix: str | None = None,
    as_text: bool = True,
) -> Response:
    """Call an endpoint of a component.

    Parameters
    ----------
    component
        The component.
    endpoint
        ``"apply"``, ``"abstract_eval"`` or a gradient endpoint.
    payload
        ``{"inputs": {...}}``, and for gradients what of which, as JSON text or as a mapping that
        may hold NumPy arrays.
    run
        The run directory of this call. ``run.json`` is kept there; a ``json+binref`` call
        also leaves its ``results.json``.
    output_format
        ``"json"``, ``"json+base64"`` or ``"json+binref"``.
    compression
        ``"lz4"`` or None.
    input_path
        Directory that references in the inputs are resolved in; without it they are refused.
    prefix
        Put before references on the wire; default: what leads from the output path to
        the run directory.
    as_text
        False for who takes the value and not the text: no warning then tells what it costs
        to have arrays on disk in a text.

    Raises
    ------
    PayloadError
        If the payload does not fit the schema, or the outputs that gradients are asked of;
        `errors` has an entry for each fault.
    ComponentError
        If the component fails, or returns what its schema does not allow.
    FormatError
        If format or compression are unknown.
    """
    checked_format(output_format, compression)
    try:
        inputs, asked = checked_payload(component, endpoint, payload, input_path)
        inputs_digest = _digest(inputs)
    except PayloadError:
        run.discard()
        raise
    run.begin(
        {
            "component": component.name,
            "version": component.version,
            "endpoint": endpoint,
            "output_format": output_format,
            "inputs_digest": inputs_digest,
            "labels": component.labels_json() if asked is None else {},
        }
    )
    result: Any
    learnt: dict[str, Any] = {}
    try:
        if asked is None:
            result = _outputs(component, endpoint, inputs, run)
        else:
            result = differentiated(component, asked, inputs, run)
            learnt["labels"] = _labels(component, asked, result)
        encoding = Encoding(
            result,
            output_format,
            directory=run.path,
            prefix=run.prefix if prefix is None else prefix,
            compression=compression,
            as_text=as_text,
        )
        if output_format == "json+binref" and endpoint != "abstract_eval":
            run.write_results(encoding.pieces(of_folder=True))
    except BaseException as error:
        run.end("failed", {"error": shortened(f"{type(error).__name__}: {told(error)}")})
        known = ComponentError | FormatError | PayloadError
        if isinstance(error, known) or not isinstance(error, Exception):
            raise
        raise ComponentError(
            f"component {component.name!r}: the result of {endpoint} cannot be encoded: {error}"
        ) from error
    run.end("complete", learnt)
    return Response(result, f"application/{output_format}", encoding.pieces(), run)


def parse(payload: bytes | bytearray | memoryview | str) -> Any:
    """Return a payload's JSON value.

    Raises
    ------
    PayloadError
        With the place in the text, if it is not strict JSON.
    """
    try:
        return orjson.loads(payload)
    except (orjson.JSONDecodeError, RecursionError) as error:
        message = f"the payload is not valid JSON: {error}"
        place = getattr(error, "pos", 0)
        raise PayloadError(message, [fault([place], message, "json_invalid")]) from error


def checked_payload(
    component: Component,
    endpoint: str,
    payload: bytes | bytearray | memoryview | str | Mapping[str, Any],
    input_path: str | os.PathLike[str] | None = None,
) -> tuple[BaseModel, Asked | None]:
    """Return the validated inputs, and what is asked of a gradient endpoint.

    All arrays are in memory and the component's own.

    Raises
    ------
    PayloadError
        With an entry for each fault.
    """
    model = component.payloads.get(endpoint)
    if model is None:
        raise PayloadError(
            f"component {component.name!r} has no endpoint {shown(endpoint)}; "
            f"it has {', '.join(component.endpoints)}"
        )
    body = dict(payload) if isinstance(payload, Mapping) else parse(payload)
    mode: Mode = "abstract" if endpoint == "abstract_eval" else "inputs"
    reading = Reading(mode, None if input_path is None else Path(input_path))
    try:
        checked = model.model_validate(body, context=reading.context())
    except ValidationError as error:
        faults = faults_of(error, model)
        raise PayloadError(
            complaint(f"the payload does not fit {endpoint}", faults), faults
        ) from error
    inputs: BaseModel = getattr(checked, "inputs")  # noqa: B009  # a field made at run time
    gradient = GRADIENTS.get(endpoint)
    if gradient is None:
        return inputs, None
    schemas = component.input_schema, component.output_schema
    asked = requests.asked(gradient, checked, *schemas)
    if "abstract_eval" in component.endpoints:
        try:
            shapes = component.module.abstract_eval(fresh(inputs))
        except (Exception, SystemExit):  # the gradient itself may do all the same
            return inputs, asked
        requests.require_outputs(asked, shapes, component.output_schema)
        asked = replace(asked, foreseen=True)
    return inputs, asked


def _digest(inputs: BaseModel) -> str | None:
    try:
        return digest(inputs)
    except ComponentError as error:
        # pydantic says no more than this where a value is nested beyond what it dumps. JSON
        # text may be nested deeper, and a component that hands it back must not be blamed.
        if "depth exceeded" in str(error.__cause__) or isinstance(error.__cause__, RecursionError):
            message = "the inputs are nested too deep: no more than 250 levels can be written again"
            raise PayloadError(message, [fault(["inputs"], message, "too_deep")]) from error
        return None  # a type that has no JSON form; inputs need none


def _run(component: Component, endpoint: str, run: RunDirectory, *given: Any, **named: Any) -> Any:
    """Run a function of the component in its run directory."""
    function = getattr(component.module, endpoint)
    try:
        with entering(run.call):  # which closes the writers of the call, or says why not
            return function(*given, **named)
    except (Exception, SystemExit) as error:
        raise ComponentError(
            f"component {component.name!r} failed in {endpoint}: {type(error).__name__}: {error}"
        ) from error


def differentiated(
    component: Component, asked: Asked, inputs: BaseModel, run: RunDirectory
) -> dict[str, Any]:
    """Run a gradient endpoint; return what it made, held against what was asked.

    Raises
    ------
    ComponentError
        If the component fails, or returns something else.
    PayloadError
        If what was asked for does not fit the outputs, as far as that can be told.
    """
    endpoint = asked.gradient.endpoint
    schemas = component.input_schema, component.output_schema
    lengths.require_lengths(component, asked, inputs, run)
    try:
        made = _run(component, endpoint, run, inputs=inputs, **asked.arguments())
        try:
            return results.checked_result(asked, made, *schemas)
        except ComponentError as error:
            raise ComponentError(
                f"component {component.name!r}: the result of {endpoint} does not fit: {error}"
            ) from error
    except ComponentError as failure:
        lengths.blame(component, asked, inputs, run, failure)
        raise


def _labels(component: Component, asked: Asked, result: dict[str, Any]) -> dict[str, Any]:
    """Return the labels of a gradient's result, as ``run.json`` has them."""
    ndims = {}
    if asked.gradient.endpoint == "jacobian":
        for path in asked.inputs:
            inner = len(asked.points[path].shape)
            for output, row in result.items():
                ndims[output, path] = (row[path].ndim - inner, inner)
    return labels.labels_of(
        asked.gradient,
        asked.inputs,
        asked.outputs,
        component.labels_json(component.input_schema),
        component.labels_json(component.output_schema),
        ndims,
    )


def _outputs(
    component: Component, endpoint: str, inputs: BaseModel, run: RunDirectory
) -> BaseModel:
    """Run the component; return what it made, held against the schema."""
    made = _run(component, endpoint, run, inputs)
    schema = component.output_schema
    mode: Mode = "abstract" if endpoint == "abstract_eval" else "outputs"
    context = Reading(mode).context()
    try:
        if isinstance(made, schema):
            checked: BaseModel = _again(made, context)
        else:
            checked = schema.model_validate(_again(made, context), context=context)
    except ValidationError as error:
        if made is None:
            raise ComponentError(
                f"component {component.name!r}: {endpoint} has returned nothing; end it with "
                "return OutputSchema(...)"
            ) from error
        what = f"component {component.name!r}: the result of {endpoint} does not fit OutputSchema"
        raise ComponentError(complaint(what, faults_of(error, schema))) from error
    return checked


def _again(value: Any, context: dict[str, Any]) -> Any:
    """Validate models and dataclasses once more.

    Models may have been changed since, or made unvalidated, and dataclasses pydantic takes as
    they are. Each by its own class, so that a union keeps the member it has.
    """
    if isinstance(value, RootModel):
        return type(value).model_validate(_again(value.root, context), context=context)
    if isinstance(value, BaseModel):
        held = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        given = {name: _again(each, context) for name, each in held.items()}
        return type(value).model_validate(given, context=context, by_name=True, by_alias=True)
    if has_fields(value):
        held = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        given = {name: _again(each, context) for name, each in held.items()}
        kind: type = type(value)
        return _adapter(kind).validate_python(given, context=context, by_name=True, by_alias=True)
    if type(value) is list and any(
        issubclass(kind, _HOLDERS) or is_dataclass(kind) for kind in set(map(type, value))
    ):
        return [_again(each, context) for each in value]
    if type(value) is dict:
        return {key: _again(each, context) for key, each in value.items()}
    return value


_HOLDERS = (BaseModel, list, dict)
_adapter = cache(TypeAdapter)
