"""The one encoder: a validated value becomes pieces of JSON text.

pydantic dumps the models, with all that a model may say about its fields; wherever it
meets an array it gets a mark instead. The dump, small now, becomes text at once; then
the marks are exchanged for the arrays, one after another, in pieces of bounded size. So
a response of any size is made in flat memory, and its plain part is exactly what pydantic
makes of it, except that non-finite numbers are written as on the rest of the wire.

In ``json+binref`` an array on disk is forwarded: its reference is written, its bytes are
not looked at. References that share a layout differ in one number, so a hundred
thousand of them are a few joins of text.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from binref_sci import wire
from binref_sci.array import BinrefArray, Layout
from binref_sci.dtypes import nbytes_of, to_stored
from binref_sci.errors import FormatError
from binref_sci.naming import COMPRESSIONS, OUTPUT_FORMATS
from binref_sci.runtime.references import References, Run, require_whole, runs_of
from binref_sci.runtime.schema import ShapeDType, array_to_json
from binref_sci.runtime.skeleton import Skeleton
from binref_sci.runtime.storing import Store
from binref_sci.storage.remote import RemotePath
from binref_sci.trajectory import Trajectory

Piece = bytes | memoryview

_REFERENCES: Final = 4096  # references joined into one piece
_PIECE: Final = 256 * 1024  # smaller pieces are joined up to this size
_READ: Final = 4 << 20  # bytes of snapshots read at once
_MIB: Final = 1 << 20


def checked_format(output_format: str, compression: str | None = None) -> str:
    """Return an output format, or refuse one that is unknown.

    Raises
    ------
    FormatError
        Naming the formats and compressions there are.
    """
    if output_format not in OUTPUT_FORMATS:
        raise FormatError(
            f"output format {output_format!r} is unknown; there are {', '.join(OUTPUT_FORMATS)}"
        )
    if compression is not None and compression not in COMPRESSIONS:
        raise FormatError(
            f"compression {compression!r} is unknown; there are {', '.join(COMPRESSIONS)}"
        )
    return output_format


def encode(
    value: Any,
    output_format: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    prefix: str = "",
    compression: str | None = None,
) -> Iterator[Piece]:
    """Return a value as pieces of strict JSON text.

    What can fail fails now, except for reading arrays on disk; those are read when the
    pieces are asked for.

    Parameters
    ----------
    value
        A pydantic model, or plain Python values with arrays in them.
    output_format
        ``"json"``, ``"json+base64"`` or ``"json+binref"``.
    directory
        For ``json+binref``: the run directory, where NumPy arrays are written to.
    prefix
        What leads from the output path to `directory`, such as ``run_7f3c/``.
    compression
        ``"lz4"`` for base64 text and for buffers written now; JSON numbers stay as they are.

    Raises
    ------
    FormatError
        If format or compression are unknown, or ``json+binref`` has no directory.
    ComponentError
        If the value holds something that JSON cannot.

    Warns
    -----
    RuntimeWarning
        Once, if arrays on disk have to be read or copied; says how many MiB.

    Examples
    --------
    >>> b"".join(encode({"x": np.array([1.0, np.nan]), "n": float("inf")}, "json"))
    b'{"x":{"object_type":"array","shape":[2],"dtype":"float64","data":{"buffer":[1.0,null],"encoding":"json"}},"n":"Infinity"}'
    """
    made = Encoding(
        value, output_format, directory=directory, prefix=prefix, compression=compression
    )
    return made.pieces()


@dataclass
class Encoding:
    """A value, encoded as far as it can be without reading what is on disk.

    Parameters
    ----------
    value, output_format, directory, prefix, compression
        As in `encode`.
    as_text
        False if the text will not be asked for: nobody is then told what it costs.
    """

    value: Any
    output_format: str
    directory: str | os.PathLike[str] | None = None
    prefix: str = ""
    compression: str | None = None
    as_text: bool = True
    _skeleton: Skeleton = field(init=False, repr=False)
    _known: dict[int, tuple[Layout, str]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        checked_format(self.output_format, self.compression)
        self._skeleton = Skeleton(self.value)
        self._inlined = 0
        self._copied = 0
        if self.output_format == "json+binref":
            if self.directory is None:
                raise FormatError("json+binref needs a run directory to write arrays into")
            # not resolve(): compared with the directories of arrays, which keep links
            self._run_path = os.path.abspath(self.directory)  # noqa: PTH100
            up = [".."] * len(Path(self.prefix).parts)
            self._output_path = os.fspath(Path(self._run_path, *up).resolve())
            self._store()
        else:
            self._leaves = [self._checked(leaf) for leaf in self._skeleton.leaves]
        if self._inlined and self.as_text:
            _warn(
                f"{_amount(self._inlined)} of arrays on disk are read into memory, because a "
                f"{self.output_format!r} response cannot refer to files; ask for 'json+binref' "
                "(Accept: application/json+binref, output_format='json+binref') to have them "
                "forwarded unread"
            )
        if self._copied:
            _warn(
                f"{_amount(self._copied)} of arrays on disk are copied into the run directory, "
                f"because they lie outside the output path {self._output_path!r}, where the caller "
                "cannot see them; write them with BinrefWriter in the call to have them forwarded "
                "unread"
            )

    # ------------------------------------------------------------ json+binref

    def _store(self) -> None:
        """Write what is in memory, copy what lies outside; then there are references alone."""
        with Store(self._run_path, self.compression) as store:
            self._leaves = [self._stored(leaf, store) for leaf in self._skeleton.leaves]
            self._copied = store.copied

    def _stored(self, leaf: Any, store: Store) -> Any:
        if isinstance(leaf, Trajectory):
            return References([self._inside(run, store) for run in runs_of(leaf)])
        if isinstance(leaf, ShapeDType):
            return leaf
        if not isinstance(leaf, list):
            array = leaf if isinstance(leaf, BinrefArray) else store.write(leaf)
            return References([self._inside(run, store) for run in runs_of([array])], single=True)
        if any(isinstance(each, ShapeDType) for each in leaf):
            return leaf
        if set(map(type, leaf)) - {BinrefArray}:
            leaf = [each if isinstance(each, BinrefArray) else store.write(each) for each in leaf]
        return References([self._inside(run, store) for run in runs_of(leaf)])

    def _inside(self, run: Run, store: Store) -> Run:
        """Return references that the caller can follow."""
        return run if self._path(run.layout) else store.copy(run)

    def _path(self, layout: Layout) -> str:
        """Return a buffer's path relative to the output path; empty if it lies outside."""
        known = self._known.get(id(layout))
        if known is None:
            path = self._find(layout)
            # the layout is kept, so that its id is not used again
            self._known[id(layout)] = known = (layout, path)
        return known[1]

    def _find(self, layout: Layout) -> str:
        if layout.directory == self._run_path:
            return self.prefix + layout.path
        if isinstance(layout.directory, RemotePath):
            return ""  # at a URL: it is copied
        real = os.fspath(Path(layout.directory, layout.path).resolve())
        for root, prefix in (
            (os.fspath(Path(self._run_path).resolve()), self.prefix),
            (self._output_path, ""),
        ):
            if real.startswith(root.rstrip("/") + "/"):
                return prefix + os.path.relpath(real, root).replace(os.sep, "/")
        return ""

    # ------------------------------------------------------------ json, base64

    def _checked(self, leaf: Any) -> Any:
        """Count what has to be read; see that all can be had before the first byte is sent."""
        on_disk: Any = leaf
        if not isinstance(leaf, Trajectory):
            items = leaf if isinstance(leaf, list) else [leaf]
            on_disk = [each for each in items if isinstance(each, BinrefArray)]
            for each in items:
                if isinstance(each, np.ndarray):
                    to_stored(each[:0] if each.ndim else each)  # its dtype, not its bytes
        for run in runs_of(on_disk):
            self._inlined += run.nbytes
            require_whole(run)
        return leaf

    # ------------------------------------------------------------ pieces

    def pieces(self, *, of_folder: bool = False) -> Iterator[Piece]:
        """Yield the JSON text.

        Parameters
        ----------
        of_folder
            References relative to the run directory, as in ``results.json``, and not
            to the output path.
        """
        return _joined(self._raw_pieces(of_folder=of_folder))

    def _raw_pieces(self, *, of_folder: bool) -> Iterator[Piece]:
        for text, number in self._skeleton.parts():
            yield text
            if number is None:
                return
            leaf = self._leaves[number]
            if isinstance(leaf, References):
                yield from self._reference_pieces(leaf, of_folder=of_folder)
            elif isinstance(leaf, list | Trajectory):
                yield from _bracketed(self._items(leaf))
            else:
                yield from self._array_pieces(leaf)

    def _reference_pieces(self, leaf: References, *, of_folder: bool) -> Iterator[Piece]:
        if not leaf.single:
            yield b"["
        comma = ""
        for layout, offsets, sizes in leaf.runs:
            path = self._path(layout)
            if of_folder:
                path = self._path_in_folder(layout, path)
            before, after = wire.ref_piece_maker(
                path, layout.shape, layout.dtype, layout.compression
            )
            between = f"{after},{before}"
            for start in range(0, len(offsets), _REFERENCES):
                places = map(str, offsets[start : start + _REFERENCES])
                if sizes is not None:
                    ends = map(str, sizes[start : start + _REFERENCES])
                    places = map(":".join, zip(places, ends, strict=True))
                yield f"{comma}{before}{between.join(places)}{after}".encode()
                comma = ","
        if not leaf.single:
            yield b"]"

    def _path_in_folder(self, layout: Layout, path: str) -> str:
        if path.startswith(self.prefix):
            return path.removeprefix(self.prefix)
        # A shared file of the output path. A second name makes the run directory
        # complete in itself, wherever it is moved; nothing is read or written for it.
        source = os.fspath(Path(layout.directory, layout.path).resolve())
        name = f"shared-{hashlib.sha256(os.fsencode(source)).hexdigest()[:12]}.bin"
        target = Path(self._run_path, name)
        if not target.exists():
            try:
                os.link(source, target)
            except FileExistsError:
                pass  # another thread's
            except OSError:  # no such thing on this file system: it opens where it is
                return os.path.relpath(source, self._run_path).replace(os.sep, "/")
        return name

    def _items(self, leaf: Any) -> Iterator[Iterator[Piece]]:
        """Yield the pieces of each item of a list; those on disk are read many at once."""
        if isinstance(leaf, Trajectory):
            for row in _rows(leaf):
                yield self._array_pieces(row)
            return
        for on_disk, group in itertools.groupby(leaf, key=_same_kind):
            if on_disk is not None and len(members := list(group)) > 1:
                for row in _rows(Trajectory.from_refs(members)):
                    yield self._array_pieces(row)
            else:
                for each in members if on_disk is not None else group:
                    yield self._array_pieces(each)

    def _array_pieces(self, array: Any) -> Iterator[Piece]:
        if isinstance(array, ShapeDType):
            return iter([orjson.dumps(array_to_json(array))])
        if isinstance(array, BinrefArray) and (
            array.compression is not None or array.nbytes <= _READ
        ):
            array = array.load()  # a frame is decoded as a whole anyway
        encoding = "json" if self.output_format == "json" else "base64"
        return wire.array_pieces(array, encoding, self.compression)


def _same_kind(item: Any) -> tuple[Any, ...] | None:
    """Return what items that can be read together share; None if they are in memory."""
    if not isinstance(item, BinrefArray):
        return None
    layout = item.layout
    return layout.directory, layout.shape, layout.dtype, layout.compression


def _rows(trajectory: Trajectory) -> Iterator[Any]:
    """Yield snapshots in memory, read in blocks; large ones lazy."""
    each = nbytes_of(trajectory.shape[1:], trajectory.dtype)
    if each > _READ:
        yield from trajectory
        return
    count = max(1, _READ // max(1, each))
    for start in range(0, len(trajectory), count):
        block = trajectory[start : start + count].load()
        for index in range(len(block)):
            yield block[index]


def _bracketed(items: Iterable[Iterator[Piece]]) -> Iterator[Piece]:
    yield b"["
    for index, pieces in enumerate(items):
        if index:
            yield b","
        yield from pieces
    yield b"]"


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Join small pieces; what takes them pays for each."""
    small: list[Piece] = []
    size = 0
    for piece in pieces:
        if len(piece) >= _PIECE:
            if small:
                yield b"".join(small)
                small, size = [], 0
            yield piece
            continue
        small.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)


def _amount(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < _MIB else f"{nbytes / _MIB:.1f} MiB"


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=5)
