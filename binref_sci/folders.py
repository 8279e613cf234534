"""Folders that a caller names to write into: on this disk, and made if they are missing.

Apart from `storage`, so that a server makes its output path without NumPy.
"""

from __future__ import annotations

import os
import re
from typing import Final

from binref_sci.errors import FormatError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+:/")


def is_url(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a URL, or was one before it became a `Path`.

    Examples
    --------
    >>> from pathlib import Path
    >>> is_url("s3://bucket/run"), is_url(Path("s3://bucket/run")), is_url("run:1/a")
    (True, True, False)
    """
    return _URL.match(os.fspath(path)) is not None


def local_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local folder; ``~`` is home, ``file://`` the disk itself.

    Raises
    ------
    FormatError
        If it is empty, or a URL: buffers are written in place, which no store lets one do.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"the path must be text, got {text!r}")
    text = text.removeprefix("file://")
    if not text:
        raise FormatError("the path is empty; '.' is the working directory")
    if is_url(text):
        raise FormatError(
            f"{text!r} is a URL, and parts of an object cannot be written in place: name a local "
            "folder, and upload it afterwards, run.json last (How to: Open and keep runs at URLs)"
        )
    return os.path.abspath(os.path.expanduser(text))


def made_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local folder, which is made if it is missing.

    Raises
    ------
    FormatError
        If it is a file, or lies in one; and as `local_folder`.
    """
    folder = local_folder(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FormatError(
            f"{folder!r} cannot be a folder to write into: there is a file of this name, or of one "
            "that it should lie in"
        ) from error
    return folder
