"""Folders that a caller names: on this disk, or of a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from binref_sci.errors import FormatError
from binref_sci.storage.remote import RemotePath

Root = str | RemotePath
"""Directory that references are relative to: an absolute path, or a folder of a store."""

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+:/")


def place_of(root: Root) -> Path | RemotePath:
    """Return a directory as a path."""
    return root if isinstance(root, RemotePath) else Path(root)


def root_of(place: Path | RemotePath) -> Root:
    """Return a path as the directory that references are relative to."""
    return place if isinstance(place, RemotePath) else os.fspath(place)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a URL, or was one before it became a `Path`.

    Examples
    --------
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
