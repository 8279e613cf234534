"""Whether a path is ours, by content: reads a few KiB, never raises."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

from binref_sci.journal import MAGIC, SUFFIX
from binref_sci.naming import RESULTS_FILE, RUN_FILE

_SNIFFED = 64 * 1024  # bytes of a response in which its first array must begin
_ENTRIES = 1000  # of a folder, looked through for journals
_ARRAY = re.compile(rb'"object_type"\s*:\s*"array"')
_ENCODING = re.compile(rb'"encoding"\s*:\s*"(json|raw|base64|binref)"')
_ZARR = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


def is_ours(source: Any) -> bool:
    """Tell whether a run directory, an output path, a result or a journal lies at a path."""
    try:
        text = os.fspath(source)
        if not isinstance(text, str) or not text or "://" in text:
            return False
        path = Path(text).expanduser()
        if path.is_file():
            return _is_our_file(path)
        return path.is_dir() and (_is_our_folder(path) or _holds_our_folder(path))
    except (OSError, TypeError, ValueError, RuntimeError):
        return False


def _is_our_folder(path: Path) -> bool:
    run = path / RUN_FILE
    if run.is_file() and b'"endpoint": "to_binref"' in run.read_bytes()[:_SNIFFED]:
        return True  # it may have no variables
    results = path / RESULTS_FILE
    if results.is_file() and _is_our_file(results):
        return True
    journals = itertools.islice(path.glob(f"*{SUFFIX}"), 1)
    return any(_is_our_file(journal) for journal in journals)


def _holds_our_folder(path: Path) -> bool:
    if any((path / name).exists() for name in _ZARR):
        return False  # a store that a run was written into is still a store
    return any(
        entry.is_dir() and _is_our_folder(entry)
        for entry in itertools.islice(path.iterdir(), _ENTRIES)
    )


def _is_our_file(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_SNIFFED)
    if head.startswith(b'{"%s"' % MAGIC.encode()):
        return True
    # A response: an array of the wire format, with its encoding.
    return (
        head.lstrip().startswith(b"{")
        and _ARRAY.search(head) is not None
        and _ENCODING.search(head) is not None
    )
