"""`BinrefArray`: one array on disk, read where it is indexed."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from binref_sci import lazy
from binref_sci.call import output_path as running_output_path
from binref_sci.call import running_call
from binref_sci.codec import compress
from binref_sci.dtypes import (
    checked_count,
    checked_dtype,
    checked_shape,
    dtype_on_disk,
    nbytes_of,
    to_stored,
)
from binref_sci.errors import BufferNotFoundError, InvalidReferenceError, NoOutputPathError
from binref_sci.html import facts_html, size_text
from binref_sci.labels import Labels
from binref_sci.plan import ON_DISK, REMOTE, Segment, Stored
from binref_sci.reference import ArrayRef, checked_compression
from binref_sci.storage import (
    Root,
    create_buffer,
    identity,
    is_known,
    made_folder,
    place_of,
    status_of,
    truncated,
    write_at,
)
from binref_sci.storage.remote import RemotePath
from binref_sci.unread import Unread

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr

_CLOCK_GRAIN_NS = 20_000_000
"""How far a file's time stamp may lag behind the clock: kernels stamp at their tick."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What equal arrays in one buffer share; a reference adds its offset.

    Parameters
    ----------
    directory
        Absolute directory that `path` is relative to, or a folder of a store.
    path
        Buffer, with ``/`` between folders.
    shape, dtype, compression
        As in `ArrayRef`.
    owner
        Kept alive with the arrays: a scratch folder that ends with them.
    part_of
        Shape of the whole field, where the arrays are one block of it.
    """

    directory: Root
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str | None = None
    owner: object = field(default=None, compare=False, repr=False)
    part_of: tuple[int, ...] | None = field(default=None, compare=False)


class BinrefArray(Unread):
    """An array in a buffer: lazy, read-only, sliceable.

    It holds a reference and the directory it is resolved in, and no open file. Indexing
    reads just the bytes it needs and returns a new NumPy array. Made by
    `BinrefArray.write`, `BinrefArray.from_file`, a `BinrefWriter` or a lazy result.

    Two are equal if they name the same bytes with the same shape, dtype and codec.
    """

    __slots__ = ("compressed_size", "layout", "offset")

    layout: Layout
    offset: int
    compressed_size: int | None

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            "BinrefArray is not constructed directly; use BinrefArray.write(array), "
            "BinrefArray.from_file(path, shape, dtype) or BinrefWriter(...).write(array)"
        )

    @classmethod
    def at(cls, layout: Layout, offset: int, compressed_size: int | None = None) -> BinrefArray:
        """Return the array at `offset`, of a checked layout; no file is looked at."""
        self = object.__new__(cls)
        self.layout = layout
        self.offset = offset
        self.compressed_size = compressed_size
        return self

    @classmethod
    def from_ref(
        cls, ref: ArrayRef, directory: str | os.PathLike[str], *, owner: object = None
    ) -> BinrefArray:
        """Return the array that `ref` names below `directory`; no file is looked at."""
        root = directory if isinstance(directory, RemotePath) else os.path.abspath(directory)
        layout = Layout(root, ref.path, ref.shape, ref.dtype, ref.compression, owner)
        return cls.at(layout, ref.offset, ref.compressed_size)

    @classmethod
    def write(
        cls,
        array: ArrayLike,
        *,
        compression: str | None = None,
        output_path: str | os.PathLike[str] | None = None,
    ) -> BinrefArray:
        """Write an array to a buffer of its own.

        Parameters
        ----------
        array
            Anything NumPy makes an array of, of one of the fourteen dtypes. It is
            stored little-endian and in C order.
        compression
            ``"lz4"`` or None.
        output_path
            Directory to write into; default: the running call's.

        Raises
        ------
        UnsupportedDTypeError
            Before a byte is written.
        NoOutputPathError
            If there is no running call and no `output_path`.
        OSError
            As the system reports it; no file is left behind.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> final = BinrefArray.write([[1.0, 2.0], [3.0, 4.0]], output_path=folder.name)
        >>> final[1]
        array([3., 4.])
        >>> folder.cleanup()
        """
        checked_compression(compression)
        data = to_stored(array)
        directory = _directory(output_path)
        stored = data if compression is None else compress(data)
        name, fd = create_buffer(directory)
        try:
            write_at(fd, stored, 0)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
            raise
        finally:
            os.close(fd)
        size = len(stored) if compression is not None else None
        layout = Layout(directory, name, data.shape, checked_dtype(data.dtype), compression)
        return cls.at(layout, 0, size)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        shape: int | tuple[int, ...],
        dtype: DTypeLike,
        *,
        offset: int = 0,
        compression: str | None = None,
        compressed_size: int | None = None,
        shared: bool = False,
        output_path: str | os.PathLike[str] | None = None,
    ) -> BinrefArray:
        """Refer to bytes that another program has written.

        Parameters
        ----------
        path
            Relative path of the file, looked up in the run directory, then in the
            output path.
        shape, dtype
            Of the array; the file holds it little-endian and in C order.
        offset
            First byte of the array in the file.
        compression, compressed_size
            ``"lz4"`` and the bytes of the frame, if the array is compressed.
        shared
            Accept a file of the output path that is older than the running call.
        output_path
            The one directory to look in, instead of the running call's.

        Raises
        ------
        BufferNotFoundError
            If the file is not there, or is older than the call; names both places.
        TruncatedBufferError
            If it does not hold the bytes that shape, dtype and offset ask for.
        InvalidReferenceError
            If the path leads outside, or a size or offset is negative or fractional.
        """
        relative = os.fspath(path)
        if not isinstance(relative, str):
            raise InvalidReferenceError(f"buffer path must be text, got {relative!r}")
        layout_of: Callable[..., Layout] = _layout if _plain(shape, dtype) else _layout.__wrapped__
        directory, status = _find(relative, shared=shared, output_path=output_path)
        layout = layout_of(directory, relative, shape, dtype, compression)
        if type(offset) is not int or offset < 0:
            offset = checked_count(offset, f"offset into {relative!r}")
        if (compression is None) != (compressed_size is None):
            raise InvalidReferenceError(
                f"{relative!r}: compression ({compression!r}) and compressed_size "
                f"({compressed_size!r}) must be given together"
            )
        if compressed_size is not None:
            compressed_size = checked_count(compressed_size, f"compressed size in {relative!r}")
            nbytes = compressed_size
        else:
            nbytes = nbytes_of(layout.shape, layout.dtype)
        if offset + nbytes > status.st_size:
            raise truncated(os.path.join(directory, relative), offset, nbytes, status.st_size)
        return cls.at(layout, offset, compressed_size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.layout.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array once loaded."""
        return nbytes_of(self.layout.shape, self.layout.dtype)

    @property
    def directory(self) -> Path | RemotePath:
        """Absolute directory that `path` is relative to, or a folder of a store."""
        return place_of(self.layout.directory)

    @property
    def path(self) -> str:
        """Buffer, relative to `directory`."""
        return self.layout.path

    @property
    def compression(self) -> str | None:
        """Codec of the stored bytes, or None."""
        return self.layout.compression

    @property
    def buffer(self) -> str:
        """Text form of the place, ``path:offset[:compressed_size]``."""
        size = "" if self.compressed_size is None else f":{self.compressed_size}"
        return f"{self.layout.path}:{self.offset}{size}"

    @property
    def ref(self) -> ArrayRef:
        """The reference, without its directory."""
        layout = self.layout
        return ArrayRef(
            layout.path,
            self.offset,
            layout.shape,
            layout.dtype,
            layout.compression,
            self.compressed_size,
        )

    @property
    def stored(self) -> Stored:
        """The array as one snapshot of the planner."""
        layout = self.layout
        offsets = sizes = None
        if self.compressed_size is not None:
            offsets = np.array([self.offset], dtype=np.int64)
            sizes = np.array([self.compressed_size], dtype=np.int64)
        segment = Segment(layout.path, self.offset, 1, self.nbytes, offsets, sizes)
        return Stored(layout.directory, (segment,), layout.shape, layout.dtype, layout.compression)

    def __getitem__(self, key: Any) -> Any:
        """Read a part, by NumPy's indexing rules, into a new array."""
        return self.stored.read_snapshot(0, key)

    def load(self) -> NDArray[Any]:
        """Read the whole array into memory: new, writable, private."""
        return self.stored.load().reshape(self.shape)

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001  # NumPy's protocol
    ) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a BinrefArray is on disk: making a NumPy array of it reads a copy")
        made = self.load()
        return made if dtype is None else made.astype(dtype, copy=False)

    def reshape(self, *shape: Any) -> BinrefArray:
        """Return the same bytes with another shape; one length may be -1.

        Raises
        ------
        ValueError
            If the number of elements differs.
        """
        wanted = shape[0] if len(shape) == 1 and not np.isscalar(shape[0]) else shape
        lengths = [operator.index(length) for length in wanted]
        unknown = [axis for axis, length in enumerate(lengths) if length == -1]
        if len(unknown) == 1:
            known = math.prod(length for length in lengths if length != -1)
            lengths[unknown[0]] = self.size // known if known else -1
        if any(length < 0 for length in lengths) or math.prod(lengths) != self.size:
            raise ValueError(
                f"cannot reshape {self.size} elements of shape {self.shape} into {tuple(wanted)}"
            )
        layout = self.layout
        made = Layout(
            layout.directory,
            layout.path,
            tuple(lengths),
            layout.dtype,
            layout.compression,
            layout.owner,
        )
        return BinrefArray.at(made, self.offset, self.compressed_size)

    def to_dask(self, chunks: Any = None) -> da.Array:
        """Return a dask array that reads when computed; nothing is read now.

        Parameters
        ----------
        chunks
            As for `dask.array.from_array`; default: whole rows of axis 0 in blocks
            of about 16 MiB, or everything at once if it is compressed.
        """
        preferred = lazy.preferred_chunks(self.shape, self.dtype)
        if self.compression is not None:
            preferred = tuple((length,) for length in self.shape)
        return lazy.to_dask(self, chunks, preferred)

    def to_xarray(
        self, labels: Labels | None = None, *, name: str | None = None, chunks: Any = None
    ) -> xr.DataArray:
        """Return a labelled DataArray over `to_dask`; nothing is read now."""
        data = self.to_dask(chunks)
        return lazy.to_xarray(self, data, name=name, labels=labels or Labels())

    def __dask_tokenize__(self) -> Any:
        layout = self.layout
        return (
            "BinrefArray",
            layout.directory,
            self.buffer,
            layout.shape,
            layout.dtype.name,
            layout.compression,
            tuple(identity(layout.directory, layout.path)),
        )

    def __len__(self) -> int:
        if not self.layout.shape:
            raise TypeError("len() of a 0-d array")
        return self.layout.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for index in range(len(self)):
            yield self[index]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                "the truth value of an array with other than one element is ambiguous: "
                "compare with None, or load() it"
            )
        return bool(self.load())

    def __float__(self) -> float:
        return float(self.load())

    def __int__(self) -> int:
        return int(self.load())

    def __complex__(self) -> complex:
        return complex(self.load())

    def __copy__(self) -> BinrefArray:
        return self  # read-only, and a copy would not keep `owner`

    def __deepcopy__(self, memo: dict[int, Any]) -> BinrefArray:
        return self

    def __eq__(self, other: object) -> Any:
        """Compare references; with a number or list of the same shape, as with an array, by element."""
        if isinstance(other, Number | list | tuple):
            return equals_list(self, other)
        if not isinstance(other, BinrefArray):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.compressed_size == other.compressed_size
            and (self.layout is other.layout or self.layout == other.layout)
        )

    def __hash__(self) -> int:
        layout = self.layout
        return hash((layout.directory, layout.path, self.offset, layout.shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.layout, self.offset, self.compressed_size)

    @property
    def state(self) -> str:
        """``"on disk"``, or what is wrong with its file; no data is read."""
        return self.stored.state

    def __repr__(self) -> str:
        codec = "" if self.compression is None else f", {self.compression}"
        state = self.state
        wrong = "" if state in (ON_DISK, REMOTE) else f", {state}"
        return (
            f"BinrefArray(shape={self.shape}, dtype={self.dtype.name}, {size_text(self.nbytes)}, "
            f"{self.buffer!r} in {os.fspath(self.layout.directory)!r}{codec}{wrong})"
        )

    def _repr_html_(self) -> str:
        facts = [
            ("shape", str(self.shape)),
            ("dtype", self.dtype.name),
            ("size", size_text(self.nbytes)),
            ("buffer", self.buffer),
            ("folder", os.fspath(self.layout.directory)),
        ]
        if self.compressed_size is not None:
            stored = f"{self.compression}, {size_text(self.compressed_size)} on disk"
            facts.append(("compression", stored))
        summary = f"{self.shape} {self.dtype.name} {size_text(self.nbytes)}"
        return facts_html("BinrefArray", summary, facts, state=self.state)


def equals_list(array: Any, values: Sequence[Any] | Number) -> Any:
    """Compare an array on disk with a number or lists by element; unequal if shapes differ."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        return False
    return np.asarray(array) == given if given.shape == array.shape else False


def _rebuild(layout: Layout, offset: int, compressed_size: int | None) -> BinrefArray:
    return BinrefArray.at(layout, offset, compressed_size)


def _directory(output_path: str | os.PathLike[str] | None) -> str:
    """Return the absolute directory to write into, made if it was named and is missing."""
    if output_path is None:
        return os.fspath(running_output_path())
    return made_folder(output_path)


def _find(
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
    known = is_known(outer, relative) and not is_known(run_directory, relative)
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
    if not shared and status.st_mtime_ns < call.started_ns - _CLOCK_GRAIN_NS:
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


def _plain(shape: Any, dtype: Any) -> bool:
    """Tell whether these can be a cache key: (True, 2) and (1.0, 2) equal (1, 2)."""
    return (
        type(shape) is tuple
        and _INT.issuperset(map(type, shape))
        and isinstance(dtype, _HASHABLE_DTYPES)
    )


_INT = frozenset([int])
_HASHABLE_DTYPES = (str, type, np.dtype)


@lru_cache(maxsize=256)
def _layout(directory: str, path: str, shape: Any, dtype: Any, compression: str | None) -> Layout:
    return Layout(
        directory,
        path,
        checked_shape(shape),
        dtype_on_disk(dtype),
        checked_compression(compression),
    )
