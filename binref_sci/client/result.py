"""`Result`: what a call returned, a dict that can become a Dataset."""

from __future__ import annotations

from typing import Any


class Result(dict[str, Any]):
    """Outputs of a call by name, as the component's schema nests them."""
