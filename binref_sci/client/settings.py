"""What a `Tesseract` is told once and each call may refine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from binref_sci.errors import FormatError
from binref_sci.folders import local_folder
from binref_sci.runtime.encoder import checked_format


@dataclass(frozen=True)
class Settings:
    """How results are asked for.

    Parameters
    ----------
    output_path
        Absolute folder that references in results are relative to, or None.
    input_path
        Absolute folder that references in inputs are relative to, or None.
    output_format
        What the caller asked for; None leaves the choice to `lazy`.
    compression
        ``"lz4"`` or None.
    lazy
        Whether results stay on disk unless a call says otherwise.
    """

    output_path: Path | None = None
    input_path: Path | None = None
    output_format: str | None = None
    compression: str | None = None
    lazy: bool = False

    def __post_init__(self) -> None:
        if self.output_format is not None or self.compression is not None:
            checked_format(self.output_format or "json", self.compression)
        self.choose()

    def choose(self, *, lazy: bool | None = None) -> tuple[str, bool]:
        """Return output format and laziness of one call.

        Raises
        ------
        FormatError
            If a lazy result is asked for in a format that has no references.

        Examples
        --------
        >>> Settings().choose(), Settings().choose(lazy=True)
        (('json+base64', False), ('json+binref', True))
        """
        lazy = self.lazy if lazy is None else lazy
        if not lazy:
            return self.output_format or "json+base64", False
        if self.output_format not in (None, "json+binref"):
            raise FormatError(
                f"a lazy result consists of references, which output format "
                f"{self.output_format!r} does not have; leave output_format= out, or make it "
                "'json+binref'"
            )
        return "json+binref", True


def absolute(path: str | os.PathLike[str] | None) -> Path | None:
    """Return a folder so that a later change of directory does not move it.

    Raises
    ------
    FormatError
        If it is empty, or a URL.
    """
    return None if path is None else Path(local_folder(path))
