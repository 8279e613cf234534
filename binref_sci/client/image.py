"""A component in a container of its own."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import Any

from binref_sci.client.inputs import Inputs
from binref_sci.client.remote import Remote, Timeout
from binref_sci.client.replies import Reply
from binref_sci.client.scratch import Scratch
from binref_sci.containers.engine import checked_image, find_engine
from binref_sci.containers.options import Options
from binref_sci.containers.serving import START_SECONDS, Served
from binref_sci.errors import ContainerError, RemoteConnectionError
from binref_sci.naming import PREFIX

_GOING_SECONDS = 10.0  # for one that answers no more to be gone, before it counts as running
_ENDING_SECONDS = 2.0  # from a broken connection to the end of a container that has died


class Image:
    """Starts a container when it is opened, and calls the component in it.

    Parameters
    ----------
    image
        Name of the image.
    engine
        Name of the engine, or None for the first that is installed.
    options
        What the container is given. Without an output path it gets a scratch folder, which
        lasts as long as the container or a result that refers to it.
    timeout
        As for `Remote`.
    start_seconds
        Longest wait until the component is healthy.
    """

    def __init__(
        self,
        image: str,
        engine: str | None,
        options: Options,
        timeout: Timeout = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._made_of = image, engine, options, timeout, start_seconds
        self.image = checked_image(image)
        self._engine = find_engine(engine)
        self._options = options
        self._timeout = timeout
        self._start_seconds = start_seconds
        self._lock = threading.Lock()
        self._served: Served | None = None
        self._remote: Remote | None = None
        self._scratch: Scratch | None = None

    def __str__(self) -> str:
        served = self._served
        return f"image {self.image!r}" + ("" if served is None else f" at {served.url}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere it is a server like any other, as long as this process keeps it.
        return (Image, self._made_of) if self._remote is None else self._remote.__reduce__()

    def open(self) -> None:
        """Start the container, unless it runs; return when the component is healthy."""
        with self._lock:
            if self._served is not None and self._served.lives(_GOING_SECONDS):
                return
        self.close()  # one that has ended by itself
        with self._lock:
            if self._served is not None:
                return
            options, scratch = self._options, None
            if options.output_path is None:
                scratch = Scratch()
                options = replace(options, output_path=scratch.path)
            try:
                served = Served(
                    self._engine,
                    self.image,
                    options,
                    scratch=None if scratch is None else scratch.path,
                    seconds=self._start_seconds,
                )
            except BaseException:
                if scratch is not None:
                    scratch.remove()
                raise
            if scratch is not None:
                scratch.then(served.container.scratch_release)
            self._served, self._scratch = served, scratch
            self._remote = Remote(
                served.url, options.output_path, options.input_path, self._timeout
            )

    def close(self) -> None:
        """Remove the container. Results stay valid."""
        with self._lock:
            served, remote, scratch = self._served, self._remote, self._scratch
            self._served = self._remote = self._scratch = None
        if remote is not None:
            remote.close()
        if served is not None:
            served.container.stop()
        del scratch  # not before: the container writes there until it has ended

    def log(self) -> str:
        """Return what the container has said."""
        return "" if self._served is None else self._served.container.log()

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the component."""
        return self._running().openapi()

    def labels(self) -> dict[str, Any]:
        """Return the labels of the outputs by path."""
        return self._running().labels()

    def health(self) -> dict[str, Any]:
        """Return what the server in the container says of itself."""
        return self._running().health()

    def call(
        self,
        endpoint: str,
        inputs: Inputs,
        *,
        run_id: str | None,
        output_format: str,
        compression: str | None,
    ) -> Reply:
        """Run an endpoint; see `Tesseract` for what it raises."""
        remote, served, scratch = self._running(), self._served, self._scratch
        owner = None
        if scratch is not None:
            if run_id is None:
                run_id = uuid.uuid4().hex
            else:
                scratch.settle()  # an older run of this id is not to take the new one along
            owner = scratch.part(f"{PREFIX}{run_id}")
        try:
            reply = remote.call(
                endpoint,
                inputs,
                run_id=run_id,
                output_format=output_format,
                compression=compression,
            )
        except RemoteConnectionError as error:
            code = None if served is None else served.container.wait(_ENDING_SECONDS)
            if served is None or code is None:
                raise
            killed = " (killed; was it the memory limit?)" if code == 137 else ""
            raise ContainerError(
                f"the container of {self.image!r} ended with exit code {code}{killed} during "
                f"{endpoint}{served.told()}"
            ) from error
        return replace(reply, owner=owner)

    def _running(self) -> Remote:
        remote = self._remote
        if remote is None:
            raise ContainerError(
                f"{self} is not being served; use it as a context manager "
                "(with Tesseract.from_image(...) as component: ...), or call serve() before and "
                "teardown() after"
            )
        return remote
