"""`Tesseract`: a component, wherever it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType, TracebackType
from typing import Any, Self

import httpx

from binref_sci.client.calls import Calls
from binref_sci.client.doors import Door
from binref_sci.client.image import Image
from binref_sci.client.local import Local
from binref_sci.client.remote import Remote, Timeout
from binref_sci.client.settings import Settings, absolute
from binref_sci.containers.options import Options, Volumes
from binref_sci.containers.serving import START_SECONDS


class Tesseract(Calls):
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
