"""Roots of references: folders of this disk, or of a store."""

from __future__ import annotations

import os
from pathlib import Path

from binref_sci.storage.remote import RemotePath

Root = str | RemotePath
"""Directory that references are relative to: an absolute path, or a folder of a store."""


def place_of(root: Root) -> Path | RemotePath:
    """Return a directory as a path."""
    return root if isinstance(root, RemotePath) else Path(root)


def root_of(place: Path | RemotePath) -> Root:
    """Return a path as the directory that references are relative to."""
    return place if isinstance(place, RemotePath) else os.fspath(place)
