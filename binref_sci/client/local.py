"""A component in this process."""

from __future__ import annotations

import os
import uuid
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from binref_sci.client.inputs import Inputs, joined
from binref_sci.client.replies import Reply, private
from binref_sci.client.scratch import Scratch
from binref_sci.errors import BinrefError, ComponentError
from binref_sci.runtime import endpoint as endpoints
from binref_sci.runtime.component import Component
from binref_sci.runtime.run import RunDirectory
from binref_sci.runtime.skeleton import Skeleton


class Local:
    """Calls a component directly; nothing it is told is shared with another one.

    Parameters
    ----------
    target
        As for `Component.load`.
    output_path
        Folder that run directories are made in; None makes a scratch folder for each call.
    input_path
        Folder that references in encoded inputs are resolved in.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | ModuleType,
        output_path: Path | None,
        input_path: Path | None,
    ) -> None:
        self._made_of = target, output_path, input_path
        self.component = Component.load(target)
        self._output_path = output_path
        self._input_path = input_path

    def __str__(self) -> str:
        return f"{self.component.name} in this process"

    def __reduce__(self) -> tuple[Any, ...]:
        return Local, self._made_of  # loaded again where it arrives

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document of the component."""
        return self._openapi

    @cached_property
    def _openapi(self) -> dict[str, Any]:
        return self.component.openapi()

    def labels(self) -> dict[str, Any]:
        """Return the labels of the outputs by path."""
        return self.component.labels_json()

    def health(self) -> dict[str, Any]:
        """Return what a server would say of itself."""
        return {"status": "ok"}

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
        if self._output_path is not None:
            return self._run(
                endpoint, inputs, self._output_path, None, run_id, output_format, compression
            )
        scratch = Scratch()
        try:
            return self._run(
                endpoint, inputs, scratch.path, scratch, run_id, output_format, compression
            )
        except BaseException:
            scratch.remove()  # what is kept of an error must not keep the folder
            raise

    def _run(
        self,
        endpoint: str,
        inputs: Inputs,
        folder: Path,
        owner: Scratch | None,
        run_id: str | None,
        output_format: str,
        compression: str | None,
    ) -> Reply:
        # What a base64 round trip would give, without the round trip.
        as_value = output_format == "json+base64" and endpoint != "abstract_eval"
        response = endpoints.call(
            self.component,
            endpoint,
            inputs.tree(),
            run=RunDirectory.new(folder, run_id),
            output_format=output_format,
            compression=compression,
            input_path=self._input_path,
            as_text=not as_value,
        )
        if as_value:
            value = _without_text(response.value, self.component.name)
            return Reply(lambda: value, folder, owner, document=self.openapi)
        text = joined(response.pieces)
        return Reply(lambda: orjson.loads(text), folder, owner, document=self.openapi)

    def open(self) -> None:
        """There is nothing to do before a call."""

    def close(self) -> None:
        """Nothing is held open."""


def _without_text(value: Any, name: str) -> Any:
    """Return a result as JSON would bring it, but with its arrays copied in memory."""
    mark = uuid.uuid4().hex
    skeleton = Skeleton(value, mark)
    try:
        leaves = [private(leaf) for leaf in skeleton.leaves]
    except (BinrefError, OSError) as error:
        raise ComponentError(
            f"component {name!r}: an array of the result cannot be read: {error}"
        ) from error

    def filled(node: Any) -> Any:
        if isinstance(node, str) and node.startswith(mark):
            return leaves[int(node.removeprefix(f"{mark}:"))]
        if isinstance(node, dict):
            return {key: filled(item) for key, item in node.items()}
        return [filled(item) for item in node] if isinstance(node, list) else node

    return filled(orjson.loads(skeleton.text))
