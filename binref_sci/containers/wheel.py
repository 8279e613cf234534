"""A wheel of this package, made from the files that are running.

So an image has the code that built it, whether that was installed from an index or is a
checkout in which somebody works; nothing is downloaded or built for it.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from binref_sci.containers.slim import DISTRIBUTION

_PACKAGE: Final = Path(__file__).parents[1]
_WHEEL: Final = (
    "Wheel-Version: 1.0\nGenerator: binref-sci\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
)
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the same files make the same wheel


def pack(folder: Path) -> Path:
    """Write the wheel into `folder`; return its path.

    Raises
    ------
    PackageNotFoundError
        If the package is not installed, so that its metadata are not known.
    """
    installed = distribution(DISTRIBUTION)
    stem = f"{DISTRIBUTION.replace('-', '_')}-{installed.version}"
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")

        for file in _files():
            add(file.relative_to(_PACKAGE.parent).as_posix(), file.read_bytes())
        for name in ("METADATA", "entry_points.txt"):
            add(f"{info}/{name}", (installed.read_text(name) or "").encode())
        add(f"{info}/WHEEL", _WHEEL.encode())
        record.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", _LONG_AGO), "".join(record))
    return path


def _files() -> Iterator[Path]:
    for path in sorted(_PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
