"""Where the paths that a solver gives lie: in the run directory, or in the output path."""

from __future__ import annotations

import os
from functools import lru_cache

from binref_sci.call import output_path as running_output_path
from binref_sci.call import running_call
from binref_sci.errors import BufferNotFoundError, NoOutputPathError
from binref_sci.folders import made_folder
from binref_sci.storage import found_before, may_be_from, status_of


def folder_to_write(output_path: str | os.PathLike[str] | None) -> str:
    """Return the absolute directory to write into, made if it was named and is missing."""
    if output_path is None:
        return os.fspath(running_output_path())
    return made_folder(output_path)


def find(
    relative: str, *, shared: bool, output_path: str | os.PathLike[str] | None
) -> tuple[str, os.stat_result]:
    """Return the directory that a relative path is found in, and the file's status."""
    if output_path is not None:
        directory = _absolute(output_path)
        return directory, status_of(directory, relative)
    call = running_call()
    if call is None:
        raise NoOutputPathError(
            f"from_file({relative!r}) needs the directory it is relative to: there is no running "
            "call here (the threads of a pool do not see it); pass output_path="
        )
    run_directory, outer = os.fspath(call.run_directory), os.fspath(call.output_path)
    # A file known to lie in the output path, and not in the run directory, is looked for
    # there at once, unless one has come in its place: telling so by an error is slow.
    known = found_before(outer, relative) and not found_before(run_directory, relative)
    if not known or os.path.lexists(f"{run_directory}/{relative}"):
        try:
            return run_directory, status_of(run_directory, relative)
        except BufferNotFoundError:
            if outer == run_directory:
                raise
    places = f"neither in the run directory {run_directory!r} nor in the output path {outer!r}"
    try:
        status = status_of(outer, relative)
    except BufferNotFoundError as error:
        raise BufferNotFoundError(
            f"file {relative!r} exists {places}; binref_sci.output_path() tells a program where to "
            "write it"
        ) from error
    if not shared and not may_be_from(status.st_mtime_ns, call.started_ns):
        raise BufferNotFoundError(
            f"file {relative!r} of this call exists {places}: the one in the output path was last "
            "modified before the call began; pass shared=True if it is meant all the same"
        )
    return outer, status


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return _normal(text) if text.startswith("/") else os.path.abspath(text)


@lru_cache(maxsize=256)
def _normal(path: str) -> str:
    return os.path.abspath(path)  # of an absolute path: no matter of the working directory
