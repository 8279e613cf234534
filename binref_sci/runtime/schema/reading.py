"""How arrays are to be validated: for whom, and where references lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationInfo

Mode: TypeAlias = Literal["inputs", "outputs", "abstract"]

_READING = "binref_sci.reading"


@dataclass(frozen=True)
class Reading:
    """How arrays are to be validated.

    Parameters
    ----------
    mode
        ``"inputs"``, ``"outputs"`` or ``"abstract"``; see `binref_sci.runtime.schema`.
    input_path
        Directory that references in inputs are resolved in; None refuses them.
    """

    mode: Mode
    input_path: Path | None = None

    def context(self) -> dict[str, Any]:
        """Return the pydantic validation context that says so."""
        return {_READING: self}


def reading_of(info: ValidationInfo) -> Reading | None:
    """Return how arrays are to be validated; None in a model that somebody makes himself."""
    context = info.context
    return context.get(_READING) if isinstance(context, dict) else None
