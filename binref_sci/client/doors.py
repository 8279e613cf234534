"""`Door`: what the ways to reach a component have in common."""

from __future__ import annotations

from typing import Any, Protocol

from binref_sci.client.inputs import Inputs
from binref_sci.client.replies import Reply


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
