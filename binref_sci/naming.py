"""Names that several floors know: of a run, of the files in its folder, of formats and codecs.

Whoever needs no more than a name loads no more than this: a server starts without NumPy.
"""

from __future__ import annotations

import re
from typing import Final

from binref_sci.errors import PayloadError
from binref_sci.messages import fault, shown

PREFIX: Final = "run_"
"""Of a run directory's name, before the run id."""

RUN_FILE: Final = "run.json"
RESULTS_FILE: Final = "results.json"
SCRATCH_PREFIX: Final = ".scratch-"
"""Of folders in a run directory that are gone when the call ends, however it ends."""

OUTPUT_FORMATS: Final = ("json", "json+base64", "json+binref")
"""How the arrays of a response can be written; also the media types after ``application/``."""

COMPRESSIONS: Final = ("lz4",)
"""Codecs of the wire format: ``lz4`` is one LZ4 frame an array."""

_RUN_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def is_run_id(text: str) -> bool:
    """Whether a text can be part of a folder's name as a run id.

    Examples
    --------
    >>> is_run_id("7f3c"), is_run_id("../7f3c")
    (True, False)
    """
    return _RUN_ID.fullmatch(text) is not None


def checked_run_id(run_id: str) -> str:
    """Return a run id that can be part of a folder's name.

    Raises
    ------
    PayloadError
        If it could lead elsewhere, or is longer than 128 characters.
    """
    if not is_run_id(run_id):
        message = (
            f"run_id {shown(run_id)} is not valid: up to 128 letters, digits, '.', '_' and '-', "
            "not starting with '.'"
        )
        raise PayloadError(message, [fault(["run_id"], message, "run_id")])
    return run_id
