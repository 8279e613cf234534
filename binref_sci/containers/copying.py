"""A folder of the component, copied into the context of a build."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from binref_sci.errors import PayloadError


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder: links that stay in it as links, of others what they lead to.

    Raises
    ------
    PayloadError
        If a link leads nowhere or to a folder that holds it, or there is something that is
        neither file nor folder.
    """
    try:
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    except shutil.Error as error:
        first, _, why = error.args[0][0]
        raise PayloadError(f"package_data: cannot copy {str(first)!r}: {why}") from error
    inside = source.resolve()
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            copied = Path(folder, name)
            if copied.is_symlink():
                _settle(source / copied.relative_to(target), copied, inside)


def _settle(link: Path, copied: Path, inside: Path) -> None:
    """Put what a link leads to in the place of its copy, if that is not in the folder."""
    try:
        real = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PayloadError(
            f"package_data: link {str(link)!r} leads nowhere; remove it, or mend it"
        ) from error
    if real.is_relative_to(inside) and not link.readlink().is_absolute():
        return
    if inside.is_relative_to(real):
        raise PayloadError(f"package_data: link {str(link)!r} leads to a folder that holds it")
    copied.unlink()
    if real.is_dir():
        copy_folder(real, copied)
    else:
        shutil.copy(real, copied)
