"""Files and folders of a store that fsspec reaches: a bucket, a server, memory.

What a store lists, and the small files that describe a run, are fetched once a look; a
look is what `RemotePath`, made anew for each opening, and all that come from it share.
Buffers are read by byte ranges: see `binref_sci.storage.fetching`.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from binref_sci.errors import BinrefError, BufferNotFoundError, InvalidReferenceError, StoreError
from binref_sci.messages import shown
from binref_sci.storage.confinement import confined_text

_VERSIONS: Final = (
    *("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "Digest", "checksum"),
    *("generation", "Last-Modified", "LastModified", "last_modified", "updated", "mtime"),
    *("modified", "created"),
)
"""What stores call the thing that changes with an object's content, the best first."""

_MODIFIED: Final = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


@dataclass(eq=False)
class _Look:
    """What has been seen of a store since an opening began."""

    folders: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    infos: dict[str, dict[str, Any]] = field(default_factory=dict)


class RemotePath:
    """A file or folder of a store, with as much of `pathlib.Path` as reading a run takes.

    As a path (`os.fspath`) it is its URL. Pickled without anything that was read.

    Parameters
    ----------
    fs
        An fsspec file system.
    path
        Of the file or folder, without the protocol.
    """

    # Not derived from os.PathLike, which it is: to ask for an instance of an abstract class
    # costs half a microsecond, and every read asks.
    __slots__ = ("_fs", "_look", "path")

    def __init__(self, fs: Any, path: str, look: _Look | None = None) -> None:
        self._fs = fs
        self.path = path
        self._look = _Look() if look is None else look

    @property
    def fs(self) -> Any:
        """The file system; another one after a fork, which theirs do not survive."""
        fs = self._fs
        if getattr(fs, "_pid", os.getpid()) != os.getpid():
            fs = self._fs = type(fs)(*fs.storage_args, **fs.storage_options)
        return fs

    @property
    def name(self) -> str:
        """Last part of the path."""
        return posixpath.basename(self._split()[0])

    @property
    def suffix(self) -> str:
        """End of the name, from its last dot on."""
        return posixpath.splitext(self.name)[1]

    @property
    def parent(self) -> RemotePath:
        """The folder it lies in."""
        bare, query = self._split()
        return RemotePath(self._fs, posixpath.dirname(bare) + query, self._look)

    def __truediv__(self, name: str) -> RemotePath:
        bare, query = self._split()
        return RemotePath(self._fs, posixpath.join(bare, name) + query, self._look)

    def _split(self) -> tuple[str, str]:
        """Return the path and the query of a web address, such as a token: its files share it."""
        if not self.path.startswith(("http://", "https://")):
            return self.path.rstrip("/"), ""
        bare, mark, query = self.path.partition("?")
        return bare.rstrip("/"), mark + query

    def at(self, path: str) -> RemotePath:
        """Return another path of the same store."""
        return RemotePath(self._fs, path, self._look)

    def within(self, relative: str) -> RemotePath:
        """Return what lies at a path from a reference, or refuse one outside of this folder.

        Raises
        ------
        InvalidReferenceError
            For absolute paths, URLs, ``..`` that leads outside, and names that no file has.
        """
        if "::" in relative:  # chains stores
            raise InvalidReferenceError(
                f"buffer path must lie in the store of {self!r}, got {shown(relative)}"
            )
        return self / confined_text(os.fspath(self), relative)

    def is_file(self) -> bool:
        """Tell whether there is such a file."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Tell whether there is such a folder; a bucket has those that something lies in."""
        return self._kind() == "directory"

    def exists(self) -> bool:
        """Tell whether there is anything."""
        return self._kind() is not None

    def _kind(self) -> str | None:
        try:
            info = self.info()
            # A web server has pages, and one that lists files is a folder.
            page = str(info.get("mimetype", "")).startswith("text/html")
            return "directory" if page and self.entries() else str(info["type"])
        except FileNotFoundError:
            return None
        except StoreError as error:
            # Where nobody may list, what is missing is as forbidden as what is there.
            if _is_refusal(error):
                return None
            raise

    def info(self) -> dict[str, Any]:
        """Return what the store says of this file or folder.

        Raises
        ------
        FileNotFoundError
            If there is nothing.
        """
        listed = self._look.folders.get(self.parent.path)
        if listed is not None:
            if self.name not in listed:
                raise FileNotFoundError(os.fspath(self))
            if listed[self.name]["size"] is not None:  # a web page does not say
                return listed[self.name]
        known = self._look.infos.get(self.path)
        if known is None:
            with asked(self):
                self.fs.invalidate_cache(self.path)  # of an earlier look
                known = self._look.infos[self.path] = self.fs.info(self.path)
        return known

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what the store says of all that lies in this folder, by name.

        Raises
        ------
        FileNotFoundError
            If there is no such folder, or nobody may list it.
        """
        listed = self._look.folders.get(self.path)
        if listed is None:
            own = self._split()[0].strip("/")
            try:
                with asked(self):
                    self.fs.invalidate_cache(self.path)
                    entries = self.fs.ls(self.path, detail=True)
            except StoreError as error:
                if not _is_refusal(error):
                    raise
                raise BufferNotFoundError(f"folder {self!r} cannot be listed: {error}") from error
            found = [(entry["name"].strip("/"), entry) for entry in entries]
            listed = {posixpath.basename(name): entry for name, entry in found if name != own}
            self._look.folders[self.path] = listed
        return listed

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield what lies in this folder."""
        for name in sorted(self.entries()):
            yield self / name

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield files of this folder whose names match."""
        try:
            names = sorted(fnmatch.filter(self.entries(), pattern))
        except FileNotFoundError:
            return
        for name in names:
            yield self / name

    def fetch(self, paths: Iterable[RemotePath]) -> None:
        """Fetch small files of this folder, all at once, to be read next."""
        sizes = {
            path.path: int(path.info()["size"] or 0)
            for path in paths
            if path.path not in self._look.contents and path.is_file()
        }
        names = [name for name, size in sizes.items() if size]
        with asked(self):
            found = self.fs.cat_ranges(
                names, [0] * len(names), [sizes[name] for name in names], on_error="return"
            )
        for name, content in zip(names, found, strict=True):
            if isinstance(content, bytes):  # else it fails again where it is read
                self._look.contents[name] = content

    def read_bytes(self) -> bytes:
        """Return the content of the file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        content = self._look.contents.get(self.path)
        if content is None:
            with asked(self):
                content = bytes(self.fs.cat_file(self.path))
            self._look.contents[self.path] = content
        return content

    def read_head(self, nbytes: int) -> bytes:
        """Return the first bytes of the file, as many as there are."""
        known = self._look.contents.get(self.path)
        size = int(self.info()["size"] or 0) if known is None else 0
        if known is not None:
            return known[:nbytes]
        if not size:
            return b""
        with asked(self):
            return bytes(self.fs.cat_file(self.path, 0, min(nbytes, size)))

    @property
    def size(self) -> int:
        """Bytes of the file.

        Raises
        ------
        BufferNotFoundError
            If there is no such file.
        """
        return int(self._existing()["size"])

    @property
    def version(self) -> tuple[Any, ...]:
        """What changes when the file is written again: its size, and the store's own mark.

        Raises
        ------
        BufferNotFoundError
            If there is no such file.
        """
        info = self._existing()
        for key in _VERSIONS:
            if info.get(key) is not None:
                return int(info["size"]), key, str(info[key])
        return int(info["size"]), "ukey", str(self.fs.ukey(self.path))

    def _existing(self) -> dict[str, Any]:
        with suppress(FileNotFoundError):  # a web server need not list anything
            self.parent.entries()  # all buffers of a folder with one question
        try:
            info = self.info()
        except FileNotFoundError:
            info = {}
        if info.get("type") != "file":
            raise BufferNotFoundError(f"buffer {self.name!r} does not exist under {self.parent!r}")
        return info

    @property
    def modified_ns(self) -> int:
        """When it was last written, in nanoseconds since 1970; 0 if the store does not say."""
        info = self.info()
        when = next((info[key] for key in _MODIFIED if info.get(key) is not None), None)
        if isinstance(when, datetime):
            when = when.timestamp()
        return int(when * 1e9) if isinstance(when, int | float) else 0

    def __fspath__(self) -> str:
        text: str = self._fs.unstrip_protocol(self.path)
        return text

    def __repr__(self) -> str:
        return repr(os.fspath(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemotePath):
            return NotImplemented
        return self.path == other.path and bool(self._fs == other._fs)

    def __lt__(self, other: RemotePath) -> bool:
        return self.path < other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __dask_tokenize__(self) -> Any:
        fs = self._fs
        return type(fs).__qualname__, fs.storage_args, fs.storage_options, self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (self._fs, self.path)


@contextmanager
def asked(place: RemotePath | str) -> Iterator[None]:
    """Turn what a store's own library raises into a `StoreError`; what is missing stays so.

    Raises
    ------
    StoreError
        If the store refuses, fails, or cannot be reached.
    """
    try:
        yield
    except BinrefError:
        raise
    except FileNotFoundError as error:
        # A web server that cannot be reached, or refuses, is a missing file to fsspec.
        cause = error.__cause__
        if cause is not None and _is_failure(cause):
            raise store_error(place, cause) from cause
        raise
    except Exception as error:
        raise store_error(place, error) from error


def _is_failure(error: BaseException) -> bool:
    """Tell whether this stands behind a missing file, and means something else."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status not in (404, 410)
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def _is_refusal(error: StoreError) -> bool:
    cause = error.__cause__
    return isinstance(cause, PermissionError) or getattr(cause, "status", None) in (401, 403, 405)


def store_error(place: RemotePath | str, error: BaseException) -> StoreError:
    """Return the error for what a store's own library has raised."""
    said = str(error) or "it said nothing"
    return StoreError(f"{os.fspath(place)!r}: the store failed: {type(error).__name__}: {said}")
