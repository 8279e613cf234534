"""Paths from the wire or from a journal: confined to their root here, and nowhere else."""

from __future__ import annotations

import os
import posixpath

from binref_sci.errors import InvalidReferenceError
from binref_sci.messages import shown


def confine(root: str | os.PathLike[str], relative: str) -> str:
    """Return the real path of a buffer on disk, or refuse one outside `root`.

    Parameters
    ----------
    root
        Directory that references are relative to; may itself be a link.
    relative
        Path from the wire or from a journal, with ``/`` between folders.

    Raises
    ------
    InvalidReferenceError
        For absolute paths, URLs, ``..`` and links that lead outside, and names
        that no file can have.

    Examples
    --------
    >>> confine("/", "a/../b.bin")
    '/b.bin'
    """
    lexical = confined_text(os.fspath(root), relative)
    real_root = os.path.realpath(root)
    try:
        real = os.path.realpath(os.path.join(real_root, lexical))
    except (OSError, ValueError) as error:
        raise InvalidReferenceError(f"buffer path {shown(relative)} cannot be resolved") from error
    if not real.startswith(real_root.rstrip("/") + "/"):
        raise _outside(real_root, relative)
    return real


def confined_text(root: str, relative: str) -> str:
    """Return a path without ``.`` and ``..``, or refuse one whose text leads outside `root`.

    Raises
    ------
    InvalidReferenceError
        As `confine`, but for links, which are not looked at.
    """
    if not relative or "\0" in relative:
        raise InvalidReferenceError(f"buffer path {shown(relative)} is not a file name")
    # A backslash separates folders on Windows alone; references never hold one that does.
    if relative.startswith("/") or "://" in relative or "\\" in relative:
        raise InvalidReferenceError(
            f"buffer path must be relative to {root!r}, with '/' between folders, got {shown(relative)}"
        )
    lexical = posixpath.normpath(relative)
    if lexical in (".", "..") or lexical.startswith("../"):
        raise _outside(root, relative)
    return lexical


def _outside(root: str, relative: str) -> InvalidReferenceError:
    return InvalidReferenceError(
        f"buffer path must stay under {root!r}, but {shown(relative)} leads outside it"
    )
