"""`Tesseract`: a component, wherever it runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol, Self

import httpx
from pydantic import BaseModel

from binref_sci.client.gradients import blocks_of, product_of
from binref_sci.client.image import Image
from binref_sci.client.inputs import Inputs
from binref_sci.client.jacobian import Jacobian, JacobianTree
from binref_sci.client.local import Local
from binref_sci.client.remote import Remote, Timeout
from binref_sci.client.replies import Reply
from binref_sci.client.result import Result
from binref_sci.client.settings import Settings, absolute
from binref_sci.containers.options import Options, Volumes
from binref_sci.containers.serving import START_SECONDS
from binref_sci.errors import FormatError, PayloadError, RemoteError
from binref_sci.messages import fault
from binref_sci.naming import checked_run_id
from binref_sci.runtime.gradients.kinds import GRADIENTS, Gradient


class Door(Protocol):
    """A way to reach a component."""

    def openapi(self) -> dict[str, Any]:
        """Return its OpenAPI document."""

    def labels(self) -> dict[str, Any]:
        """Return the labels of its outputs by path, as its OpenAPI document has them."""

    def health(self) -> dict[str, Any]:
        """Return what it says of itself."""

    def call(
        self,
        endpoint: str,
        inputs: Inputs,
        *,
        run_id: str | None,
        output_format: str,
        compression: str | None,
    ) -> Reply:
        """Run an endpoint."""

    def open(self) -> None:
        """Make it ready to be called."""

    def close(self) -> None:
        """Let go of what is open."""


class Tesseract:
    """A component to call: behind a server, in a container, or in this process.

    Made by `Tesseract.from_url`, `Tesseract.from_image` and `Tesseract.from_tesseract_api`,
    which differ in where the component runs and in nothing else. A context manager; safe
    from many threads.

    Results are dicts with NumPy arrays, writable and private whatever the encoding was
    (single numbers of an array field are 0-d arrays). With ``lazy=True`` arrays stay on
    disk: `BinrefArray` for one, `Trajectory` for a list of equal ones, a list of
    `BinrefArray` for a ragged one. Nothing is ever deleted, and no file kept open.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("tesseract_api.py").write_text('''
    ... from pydantic import BaseModel
    ... from binref_sci.runtime import Array, Float64
    ...
    ... class InputSchema(BaseModel):
    ...     x: Array[(None,), Float64]
    ...
    ... class OutputSchema(BaseModel):
    ...     double: Array[(None,), Float64]
    ...
    ... def apply(inputs):
    ...     return OutputSchema(double=2 * inputs.x)
    ... ''')
    >>> with Tesseract.from_tesseract_api("tesseract_api.py") as doubling:
    ...     doubling.apply({"x": [1, 2, 3]})
    {'double': array([2., 4., 6.])}
    """

    _door: Door
    _settings: Settings

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            "Tesseract is not constructed directly; use Tesseract.from_url(address), "
            "Tesseract.from_image(name) or Tesseract.from_tesseract_api(folder, file or module)"
        )

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        output_path: str | os.PathLike[str] | None = None,
        input_path: str | os.PathLike[str] | None = None,
        output_format: str | None = None,
        compression: str | None = None,
        lazy: bool = False,
        timeout: Timeout = None,
        transport: httpx.BaseTransport | None = None,
    ) -> Self:
        """Return a component behind a server; no request is sent yet.

        Parameters
        ----------
        url
            Of the server, such as ``http://localhost:8000``.
        output_path
            The folder that the server writes to, as it is seen from here; needed where
            results are references.
        input_path
            The folder that the server resolves input references in, as it is seen from
            here. Arrays on disk below it are referred to; others are read and sent.
        output_format
            ``"json"``, ``"json+base64"`` (the default) or ``"json+binref"`` (the default
            where `lazy` is set).
        compression
            ``"lz4"`` to have arrays compressed on the way, and in buffers written for it.
        lazy
            Whether results stay on disk.
        timeout
            Seconds to wait for a connection and for each sign of life, or a pair of
            both. A component says nothing while it computes; the default waits.
        transport
            An httpx transport, for tests and unusual networks.

        Raises
        ------
        FormatError
            If references are asked for without an `output_path`, or `lazy` results in a
            format that has none.
        ValueError
            If `url` is no address.
        """
        settings = _settings(output_path, input_path, output_format, compression, lazy=lazy)
        door = Remote(url, settings.output_path, settings.input_path, timeout, transport)
        made = cls._through(door, settings)
        made._format()
        return made

    @classmethod
    def from_image(
        cls,
        image: str,
        *,
        output_path: str | os.PathLike[str] | None = None,
        input_path: str | os.PathLike[str] | None = None,
        output_format: str | None = None,
        compression: str | None = None,
        lazy: bool = False,
        volumes: Volumes = (),
        environment: Mapping[str, str] | None = None,
        port: int | None = None,
        network: str | None = None,
        memory: str | int | None = None,
        cpus: float | None = None,
        engine: str | None = None,
        timeout: Timeout = None,
        startup_timeout: float = START_SECONDS,
    ) -> Self:
        """Return a component in a container, which is started on entering the context.

        The container goes with the context, and with this process if that ends first,
        however it ends. It runs without rights: as the caller, or as nobody in particular
        if that is root; its file system is read-only but for the output path and ``/tmp``.
        What it leaves in the output path is the caller's.

        Parameters
        ----------
        image
            Name of the image, as ``binref-sci build`` made it.
        output_path
            Folder that run directories are made in, seen by both sides. Without it there is
            a scratch folder, which lasts as long as the container or a lazy result.
        input_path
            Folder that the container sees, too, and may not change. Arrays on disk below it
            are referred to; others are read and sent.
        output_format, compression, lazy
            As in `from_url`.
        volumes
            Further folders for the container, ``{source: target}`` or a list of
            ``"source:target[:ro]"``.
        environment
            Environment variables of the component.
        port
            To publish the component at, on this machine only; default: a free one.
        network
            ``"host"`` shares the network of this machine; another name is a network of the
            engine's.
        memory
            Most memory of the container, such as ``"2g"``.
        cpus
            Most processors, such as 1.5.
        engine
            ``"podman"`` or ``"docker"``; default: the first of these that is installed.
        timeout
            As in `from_url`.
        startup_timeout
            Seconds in which the component has to be ready.

        Raises
        ------
        EngineError
            If there is no engine. On entering: if it fails.
        ImageNotFoundError
            On entering: if there is no such image.
        ContainerError
            On entering: if the component does not get ready; has its log. In a call: if the
            container has ended.
        FormatError
            If `lazy` results are asked for in a format that has no references.
        ValueError
            If an option cannot be meant.
        """
        settings = _settings(output_path, input_path, output_format, compression, lazy=lazy)
        options = Options(
            output_path=settings.output_path,
            input_path=settings.input_path,
            volumes=volumes,
            environment=dict(environment or {}),
            port=port,
            network=network,
            memory=memory,
            cpus=cpus,
        )
        return cls._through(Image(image, engine, options, timeout, startup_timeout), settings)

    @classmethod
    def from_tesseract_api(
        cls,
        target: str | os.PathLike[str] | ModuleType,
        *,
        output_path: str | os.PathLike[str] | None = None,
        input_path: str | os.PathLike[str] | None = None,
        output_format: str | None = None,
        compression: str | None = None,
        lazy: bool = False,
    ) -> Self:
        """Return a component that runs in this process.

        Parameters
        ----------
        target
            The component's folder, its ``tesseract_api.py``, the name of a module, or a
            module.
        output_path
            Folder that a run directory is made in for each call. Without it each call
            has a scratch folder, which lasts as long as its lazy result.
        input_path
            Folder that references in encoded inputs are resolved in.
        output_format, compression, lazy
            As in `from_url`. ``"json"`` shows what JSON makes of the numbers; the others
            bring them unchanged.

        Raises
        ------
        PayloadError
            If there is no such component.
        ComponentError
            If it fails to load.
        FormatError
            If `lazy` results are asked for in a format that has no references.
        """
        settings = _settings(output_path, input_path, output_format, compression, lazy=lazy)
        return cls._through(Local(target, settings.output_path, settings.input_path), settings)

    @classmethod
    def _through(cls, door: Door, settings: Settings) -> Self:
        self = object.__new__(cls)
        self._door = door
        self._settings = settings
        return self

    def __enter__(self) -> Self:
        self._door.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections and end the container, if there is one. Results stay valid."""
        self._door.close()

    def serve(self) -> None:
        """Start the container of `from_image`, unless it runs; `teardown` ends it.

        For use outside of a ``with`` block.

        Raises
        ------
        TypeError
            If the component is not from an image.
        EngineError, ImageNotFoundError, ContainerError
            As `from_image` says of entering.
        """
        self._image().open()

    def teardown(self) -> None:
        """End and remove the container of `from_image`, if it runs. Results stay valid.

        Raises
        ------
        TypeError
            If the component is not from an image.
        """
        self._image().close()

    def server_logs(self) -> str:
        """Return what the container of `from_image` has said.

        Raises
        ------
        TypeError
            If the component is not from an image.
        """
        return self._image().log()

    def _image(self) -> Image:
        if not isinstance(self._door, Image):
            raise TypeError(
                f"{self._door} is not a container of this client's; Tesseract.from_image makes one"
            )
        return self._door

    def __repr__(self) -> str:
        output_format, lazy = self._settings.choose()
        parts = [output_format, "lazy"] if lazy else [output_format]
        if self._settings.output_path is not None:
            parts.append(f"output_path={os.fspath(self._settings.output_path)!r}")
        return f"<Tesseract {self._door}: {', '.join(parts)}>"

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
            "tangent_vector": dict(tangent_vector),
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
            "cotangent_vector": dict(cotangent_vector),
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


def _settings(
    output_path: str | os.PathLike[str] | None,
    input_path: str | os.PathLike[str] | None,
    output_format: str | None,
    compression: str | None,
    *,
    lazy: bool,
) -> Settings:
    return Settings(
        absolute(output_path), absolute(input_path), output_format, compression, bool(lazy)
    )


def _paths(chosen: Iterable[str]) -> list[str]:
    """Return selected paths; sets in an order that is the same in every process."""
    if isinstance(chosen, str):
        raise PayloadError(
            f"paths are given as a list, got the text {chosen!r}; write [{chosen!r}]"
        )
    return sorted(chosen) if isinstance(chosen, Set) else list(chosen)


def _checked(run_id: str | None) -> str | None:
    """Return a run id that a server will take, whichever door leads there."""
    if run_id is None:
        return None
    try:
        return checked_run_id(run_id)
    except PayloadError as error:
        entry = fault(["query", "run_id"], str(error), "run_id")
        raise PayloadError(str(error), [entry]) from error
