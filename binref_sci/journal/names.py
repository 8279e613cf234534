"""What the files of a run are called, beside its buffers."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

SUFFIX = ".binref.jsonl"

RUN_FILE = "run.json"

RESULTS_FILE = "results.json"


def run_id_of(directory: str | os.PathLike[str]) -> str | None:
    """Return the id of the call that is running in a directory, as its ``run.json`` says."""
    try:
        content = orjson.loads(Path(directory, RUN_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("state") != "running":
        return None
    run = content.get("run_id")
    return run if isinstance(run, str) else None
