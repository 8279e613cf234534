"""What a path or URL names: a run directory, an output path, a result or a journal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from binref_sci.engine.manifest import manifest_of
from binref_sci.errors import BufferNotFoundError, FormatError, StoreError
from binref_sci.folders import is_url
from binref_sci.hints import meant
from binref_sci.journal import MAGIC, SUFFIX, locked
from binref_sci.naming import PREFIX, RESULTS_FILE, RUN_FILE
from binref_sci.storage import Root, place_of, root_of
from binref_sci.storage.remote import RemotePath, asked

AnyPath = Path | RemotePath


_SNIFFED = 256  # bytes of a file that tell what it is
_NETCDF = (b"\x89HDF", b"CDF\x01", b"CDF\x02", b"CDF\x05")
_ZARR = frozenset(["zarr.json", ".zgroup", ".zarray"])
_EXPECTED = f"expected {RESULTS_FILE}, {RUN_FILE} or journals (*{SUFFIX})"


@dataclass(frozen=True)
class Source:
    """Where a run lies.

    Parameters
    ----------
    path
        What was asked for, absolute, or its URL.
    directory
        What references are relative to: absolute, or a folder of a store.
    results
        The response, if there is one.
    journals
        All journals to be looked at, of any run.
    run
        Content of ``run.json``; empty if there is none.
    followed
        Whether it is watched for more. In a store nobody can tell whether a writer lives;
        of a run that is watched there it is taken for granted until the end is written.
    """

    path: str
    directory: Root
    results: AnyPath | None = None
    journals: tuple[AnyPath, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    followed: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether it lies in a store."""
        return isinstance(self.directory, RemotePath)

    @property
    def started_ns(self) -> int:
        """When the call of ``run.json`` began; 0 if that is not known."""
        return _started_ns(self.run)

    @property
    def call_lives(self) -> bool:
        """Whether a process holds ``run.json``: it says "running" for ever if one is killed."""
        return locked(place_of(self.directory) / RUN_FILE)


def find(
    source: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Source:
    """Return what lies at a path or URL.

    Parameters
    ----------
    source
        Path, or a URL that fsspec knows.
    storage_options
        For the file system of a URL.

    Raises
    ------
    BufferNotFoundError
        If nothing does.
    FormatError
        If it is something else; says what was found.
    StoreError
        If the store refuses, fails, or cannot be reached.
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"expected the path of one run directory, {RESULTS_FILE} or journal, got "
            f"{type(source).__name__}"
        )
    text = os.fspath(source)
    if not isinstance(text, str):
        raise TypeError(f"the path must be text, got {text!r}")
    if not text:
        raise BufferNotFoundError("the path is empty; '.' is the working directory")
    path = place_at(text, storage_options)
    if path.is_dir():
        return _directory(path)
    if not path.exists():
        if isinstance(path, RemotePath):
            with suppress(FileNotFoundError):
                path.info()  # says so if the store refuses
        was_url = isinstance(path, Path) and is_url(text)
        hint = (
            "; a URL is given as text, since a Path takes '//' for '/'" if was_url else _near(path)
        )
        raise BufferNotFoundError(f"there is no file or folder {os.fspath(path)!r}{hint}")
    if path.name in (RESULTS_FILE, RUN_FILE):  # stands for its folder
        found = run_directory(path.parent)
        return Source(os.fspath(path), found.directory, found.results, found.journals, found.run)
    return _file(path)


def _near(path: AnyPath) -> str:
    """Return what is there instead of a local path that is not."""
    if isinstance(path, RemotePath):
        return ""
    if any(sign in path.name for sign in "*?["):
        return "; patterns are not expanded: give a list of folders, as sorted(glob.glob(...))"
    there = next(folder for folder in path.parents if folder.exists())
    if not there.is_dir():
        return f"; {os.fspath(there)!r} is a file"
    missing = path.relative_to(there).parts[0]
    where = "" if there == path.parent else f"; {os.fspath(there)!r} has no {missing!r}"
    if (there / f"{PREFIX}{missing}").exists():
        return f"{where}; did you mean {PREFIX + missing!r}?"
    with suppress(OSError):  # a folder that may not be listed
        return where + meant(missing, (entry.name for entry in there.iterdir()))
    return where


def place_at(text: str, storage_options: Mapping[str, Any] | None = None) -> AnyPath:
    """Return the place that a path or URL names; ``file://`` is a path.

    Raises
    ------
    FormatError
        If fsspec does not know the protocol, or its options, or a package for it is missing.
    BufferNotFoundError, StoreError
        If the first part of a chain is missing, or cannot be read.
    ValueError
        If there are options for a local path.
    """
    if "://" not in text and ("::" not in text or Path(text).exists()):
        if storage_options:
            raise ValueError(
                f"storage_options are for URLs, and {text!r} is a local path; leave them out"
            )
        return Path(text).expanduser().absolute()
    options = {} if storage_options is None else storage_options
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TypeError(f"storage_options must be a dict with names as keys, got {options!r}")
    try:
        with asked(text):  # of a chain, such as zip://::s3://..., the first part is read now
            fs, path = url_to_fs(text, **options)
    except FileNotFoundError as error:
        raise BufferNotFoundError(f"there is no file or folder {text!r}: {error}") from error
    except StoreError as error:
        if isinstance(error.__cause__, ImportError | ValueError | TypeError):
            raise FormatError(f"{text!r} cannot be opened: {error.__cause__}") from error
        raise
    if isinstance(fs, LocalFileSystem):
        return Path(path)
    return RemotePath(fs, path.rstrip("/"))


def _file(path: AnyPath) -> Source:
    head = _head(path, _SNIFFED)
    given, directory = os.fspath(path), root_of(path.parent)
    if path.name.endswith(SUFFIX) or head.startswith(b'{"%s"' % MAGIC.encode()):
        return Source(given, directory, journals=(path,))
    if not head.lstrip().startswith(b"{"):
        hint = "; open the folder it lies in" if path.suffix == ".bin" else ""
        if head.startswith(_NETCDF):
            hint = "; that is netCDF, which xarray.open_dataset opens"
        raise FormatError(
            f"{given!r} is neither a result nor a journal: {_EXPECTED}, found a file that begins "
            f"with {head[:16]!r}{hint}"
        )
    return Source(given, directory, results=path, run={})


def _head(path: AnyPath, nbytes: int) -> bytes:
    if isinstance(path, RemotePath):
        return path.read_head(nbytes)
    with path.open("rb") as file:
        return file.read(nbytes)


def entries(folder: AnyPath, pattern: str = "*") -> list[AnyPath]:
    """Return what lies in a folder, by name."""
    found: list[AnyPath] = [*folder.glob(pattern)]
    return sorted(found, key=lambda path: path.name)


def first_line(path: AnyPath) -> bytes:
    """Return the first line of a file."""
    if isinstance(path, RemotePath):
        return path.read_bytes().partition(b"\n")[0]
    with path.open("rb") as file:
        return file.readline()


def modified_ns(path: AnyPath) -> int:
    """Return when a file was last written, in nanoseconds since 1970."""
    return path.modified_ns if isinstance(path, RemotePath) else path.stat().st_mtime_ns


def _directory(path: AnyPath) -> Source:
    if is_run_directory(path):
        found = run_directory(path)
        # A run.json alone may be another program's.
        if found.results is not None or found.journals or "run_id" in found.run:
            return found
    runs = list(_runs_in(path))
    if not runs:
        entries = sorted(entry.name for entry in path.iterdir())
        shown = ", ".join(entries[:5]) + (", …" if len(entries) > 5 else "")
        hint = "; that is Zarr, which xarray.open_zarr opens" if _ZARR & {*entries} else ""
        raise FormatError(
            f"folder {os.fspath(path)!r} is no run directory and holds none: {_EXPECTED}, found "
            f"{f'{len(entries)} entries ({shown})' if entries else 'nothing'}{hint}"
        )
    return run_directory(max(runs, key=_age))


def is_run_directory(path: AnyPath) -> bool:
    """Tell whether a folder holds what one call, or a writer on its own, has written."""
    return (
        (path / RUN_FILE).is_file()
        or (path / RESULTS_FILE).is_file()
        or next(path.glob(f"*{SUFFIX}"), None) is not None
    )


def _runs_in(path: AnyPath) -> Iterator[AnyPath]:
    for entry in path.iterdir():
        # One that begins with a dot is still being written.
        if entry.is_dir() and not entry.name.startswith(".") and is_run_directory(entry):
            yield entry


def _age(path: AnyPath) -> tuple[int, str]:
    started = _started_ns(_run(path))
    if not started:
        started = max((modified_ns(journal) for journal in path.iterdir()), default=0)
    return started, path.name


def run_directory(path: AnyPath) -> Source:
    """Return what lies in a run directory."""
    results, run = path / RESULTS_FILE, _run(path)
    manifest = manifest_of(run, os.fspath(path))
    journals: list[AnyPath] = (
        [*path.glob(f"*{SUFFIX}")]
        if manifest is None
        else [path / name for name in manifest.journals]
    )
    if isinstance(path, RemotePath):
        path.fetch(journals)  # type: ignore[arg-type]  # those of a store lie in it
    return Source(
        os.fspath(path),
        root_of(path),
        results if results.is_file() else None,
        tuple(sorted(journals)),
        run,
    )


def _run(path: AnyPath) -> Mapping[str, Any]:
    """Return the content of ``run.json``; empty if there is none, or another program's."""
    try:
        content = orjson.loads((path / RUN_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _started_ns(run: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(run["started"]).timestamp() * 1e9)
    except (KeyError, TypeError, ValueError):
        return 0
