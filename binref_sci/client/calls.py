"""What can be asked of a component, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from binref_sci.client.doors import Door
from binref_sci.client.gradients import blocks_of, product_of
from binref_sci.client.inputs import Inputs
from binref_sci.client.jacobian import Jacobian, JacobianTree
from binref_sci.client.remote import Remote
from binref_sci.client.replies import Reply
from binref_sci.client.result import Result
from binref_sci.client.settings import Settings
from binref_sci.errors import FormatError, PayloadError, RemoteError
from binref_sci.messages import fault
from binref_sci.naming import checked_run_id
from binref_sci.runtime.gradients.kinds import GRADIENTS, Gradient


class Calls:
    """The calls of a `Tesseract`: each goes through its door, as its settings say."""

    _door: Door
    _settings: Settings

    @property
    def openapi_schema(self) -> dict[str, Any]:
        """OpenAPI document of the component."""
        return self._door.openapi()

    @property
    def available_endpoints(self) -> list[str]:
        """Names of the endpoints."""
        return [path.lstrip("/") for path in self.openapi_schema.get("paths", {})]

    def health(self) -> dict[str, Any]:
        """Return what the component says of itself, ``{"status": "ok"}`` if it is well."""
        return self._door.health()

    def apply(
        self,
        inputs: Mapping[str, Any] | BaseModel,
        *,
        run_id: str | None = None,
        lazy: bool | None = None,
    ) -> Any:
        """Run the component.

        Parameters
        ----------
        inputs
            As its ``InputSchema`` names them: numbers, text, lists, NumPy arrays or what
            converts to them, arrays on disk, encoded arrays, or an instance of the schema.
        run_id
            Name of the run directory, ``run_<run_id>``; default: a new one.
        lazy
            Instead of this component's own setting.

        Returns
        -------
        Result
            A dict, as the component's ``OutputSchema`` nests it.

        Raises
        ------
        PayloadError
            If the inputs do not fit the schema; its `errors` name each place.
        ComponentError
            If the component fails in this process; the cause is chained.
        RemoteError
            If a server answers with an error, such as a component's failure; has its status.
        RemoteConnectionError
            If there is no answer, or not all of it.
        FormatError
            If the result cannot be had in the format asked for.
        """
        output_format, lazy = self._format(lazy=lazy)
        ready = Inputs(inputs, document=self._known)
        labels = self._door.labels()  # before the call: no result is lost for them
        reply = self._ask("apply", ready, run_id, output_format)
        made = reply.decoded(lazy=lazy, labels=labels)
        return Result(made, folder=reply.folder, labels=labels) if isinstance(made, dict) else made

    def jacobian(
        self,
        inputs: Mapping[str, Any] | BaseModel,
        jac_inputs: Iterable[str],
        jac_outputs: Iterable[str],
        *,
        run_id: str | None = None,
        lazy: bool | None = None,
    ) -> Jacobian | JacobianTree:
        """Return the Jacobian at some inputs.

        Parameters
        ----------
        inputs, run_id, lazy
            As for `apply`.
        jac_inputs
            Paths of the inputs to differentiate by: ``["x"]``, ``["layers.[0].w"]``,
            ``["named.{key}"]``.
        jac_outputs
            Paths of the outputs to differentiate.

        Returns
        -------
        Jacobian
            Blocks by output and input, of the output's shape followed by the input's: a dict
            of dicts of NumPy arrays.
        JacobianTree
            With ``lazy=True``: a DataTree, whose blocks are lazy DataArrays and stay on disk.

        Raises
        ------
        PayloadError
            If a path does not lead to a differentiable array; its `errors` name each.
        ComponentError, RemoteError, RemoteConnectionError, FormatError
            As `apply`.
        """
        gradient = GRADIENTS["jacobian"]
        asked = {"jac_inputs": _paths(jac_inputs), "jac_outputs": _paths(jac_outputs)}
        made, openapi, folder = self._differentiated(gradient, inputs, asked, run_id, lazy)
        blocks = blocks_of(made, inputs, openapi, folder=folder)
        _, lazily = self._settings.choose(lazy=lazy)
        return JacobianTree.of(blocks) if lazily else Jacobian(blocks)

    def jacobian_vector_product(
        self,
        inputs: Mapping[str, Any] | BaseModel,
        jvp_inputs: Iterable[str],
        jvp_outputs: Iterable[str],
        tangent_vector: Mapping[str, Any],
        *,
        run_id: str | None = None,
        lazy: bool | None = None,
    ) -> Result:
        """Return how the outputs change along a tangent vector.

        Parameters
        ----------
        inputs, jvp_inputs, jvp_outputs, run_id, lazy
            As for `jacobian`.
        tangent_vector
            An array for each of `jvp_inputs`, of the input's shape.

        Returns
        -------
        Result
            An array for each of `jvp_outputs`.

        Raises
        ------
        PayloadError
            As `jacobian`, and if an array of the vector is missing, too many, or does not fit.
        ComponentError, RemoteError, RemoteConnectionError, FormatError
            As `apply`.
        """
        asked = {
            "jvp_inputs": _paths(jvp_inputs),
            "jvp_outputs": _paths(jvp_outputs),
            "tangent_vector": _vector("tangent_vector", tangent_vector),
        }
        return self._product("jacobian_vector_product", inputs, asked, run_id, lazy)

    def vector_jacobian_product(
        self,
        inputs: Mapping[str, Any] | BaseModel,
        vjp_inputs: Iterable[str],
        vjp_outputs: Iterable[str],
        cotangent_vector: Mapping[str, Any],
        *,
        run_id: str | None = None,
        lazy: bool | None = None,
    ) -> Result:
        """Return the gradient of the outputs' product with a cotangent vector.

        Parameters
        ----------
        inputs, vjp_inputs, vjp_outputs, run_id, lazy
            As for `jacobian`.
        cotangent_vector
            An array for each of `vjp_outputs`, of the output's shape.

        Returns
        -------
        Result
            An array for each of `vjp_inputs`.

        Raises
        ------
        PayloadError, ComponentError, RemoteError, RemoteConnectionError, FormatError
            As `jacobian_vector_product`.
        """
        asked = {
            "vjp_inputs": _paths(vjp_inputs),
            "vjp_outputs": _paths(vjp_outputs),
            "cotangent_vector": _vector("cotangent_vector", cotangent_vector),
        }
        return self._product("vector_jacobian_product", inputs, asked, run_id, lazy)

    def _product(
        self,
        endpoint: str,
        inputs: Mapping[str, Any] | BaseModel,
        asked: dict[str, Any],
        run_id: str | None,
        lazy: bool | None,  # noqa: FBT001  # of a method of our own
    ) -> Result:
        gradient = GRADIENTS[endpoint]
        made, openapi, folder = self._differentiated(gradient, inputs, asked, run_id, lazy)
        wrt, of = asked[gradient.inputs], asked[gradient.outputs]
        return product_of(gradient, made, wrt, of, openapi, folder=folder)

    def _differentiated(
        self,
        gradient: Gradient,
        inputs: Mapping[str, Any] | BaseModel,
        asked: dict[str, Any],
        run_id: str | None,
        lazy: bool | None,  # noqa: FBT001  # of a method of our own
    ) -> tuple[Any, dict[str, Any], Path | None]:
        """Return what an endpoint made, what is known of the component, and the result's folder."""
        output_format, lazy = self._format(lazy=lazy)
        ready = Inputs(inputs, beside=asked, document=self._known)
        openapi = self._known()  # before the call: no result is lost for it
        reply = self._ask(gradient.endpoint, ready, run_id, output_format)
        return reply.decoded(lazy=lazy, labels={}), openapi, reply.folder

    def _known(self) -> dict[str, Any]:
        """Return the OpenAPI document, or nothing where a server has none."""
        try:
            return self._door.openapi()
        except RemoteError:
            return {}

    def _ask(self, endpoint: str, ready: Inputs, run_id: str | None, output_format: str) -> Reply:
        return self._door.call(
            endpoint,
            ready,
            run_id=_checked(run_id),
            output_format=output_format,
            compression=self._settings.compression,
        )

    def abstract_eval(self, inputs: Mapping[str, Any] | BaseModel) -> Any:
        """Return shapes and dtypes of the outputs; nothing is computed.

        Parameters
        ----------
        inputs
            As for `apply`, with ``{"shape": ..., "dtype": ...}`` or a `ShapeDType` in
            place of each array; of real arrays just these are sent.

        Returns
        -------
        dict
            With ``{"shape": ..., "dtype": ...}`` in place of each array.

        Raises
        ------
        PayloadError, ComponentError, RemoteError, RemoteConnectionError
            As `apply`.
        """
        reply = self._door.call(
            "abstract_eval",
            Inputs(inputs, abstract=True, document=self._known),
            run_id=None,
            output_format="json",
            compression=None,
        )
        return reply.read()

    def _format(self, *, lazy: bool | None = None) -> tuple[str, bool]:
        output_format, lazy = self._settings.choose(lazy=lazy)
        if (
            output_format == "json+binref"
            and isinstance(self._door, Remote)
            and self._door.output_path is None
        ):
            raise FormatError(
                f"{'a lazy result' if lazy else 'json+binref'} refers to files that {self._door} "
                "writes, and this client does not know where they are; pass output_path=, the "
                "server's output path as it is seen from here"
            )
        return output_format, lazy


def _paths(chosen: Any) -> list[str]:
    """Return selected paths; sets in an order that is the same in every process."""
    if isinstance(chosen, str):
        raise PayloadError(
            f"paths are given as a list, got the text {chosen!r}; write [{chosen!r}]"
        )
    if not isinstance(chosen, Iterable):
        raise PayloadError(f"paths are given as a list, got {chosen!r}; name each, as ['x']")
    return sorted(chosen) if isinstance(chosen, Set) else list(chosen)


def _vector(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise PayloadError(
            f"{name} has an array for each path, as {{'x': array}}, got {type(given).__name__}"
        )
    return dict(given)


def _checked(run_id: str | None) -> str | None:
    """Return a run id that a server will take, whichever door leads there."""
    if run_id is None:
        return None
    try:
        return checked_run_id(run_id)
    except PayloadError as error:
        entry = fault(["query", "run_id"], str(error), "run_id")
        raise PayloadError(str(error), [entry]) from error
