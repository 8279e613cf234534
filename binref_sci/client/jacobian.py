"""Jacobians at the caller's: `Jacobian`, a dict of arrays, and `JacobianTree`, lazy and labelled."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.array as da
import xarray as xr
from numpy.typing import NDArray

from binref_sci.array import BinrefArray
from binref_sci.client.result import Result
from binref_sci.engine.opening import dataset_of
from binref_sci.errors import FormatError
from binref_sci.messages import listed
from binref_sci.operators import MatrixOperator


@dataclass(frozen=True)
class Blocks:
    """Blocks of a Jacobian, and what is known of them.

    Parameters
    ----------
    arrays
        By output and input.
    ndims
        Number of axes of output and input, where they are known.
    labels
        Of the blocks, by ``output.input``.
    folder
        Absolute output path that lazy ones lie in, or None.
    """

    arrays: Mapping[str, Mapping[str, Any]]
    ndims: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def at(self, output: str, wrt: str) -> Any:
        """Return a block."""
        try:
            return self.arrays[output][wrt]
        except KeyError as error:
            known = (f"{one}, {other}" for one, row in self.arrays.items() for other in row)
            raise KeyError(
                f"there is no block of output {output!r} by input {wrt!r}; there are "
                f"{listed(known)}"
            ) from error

    def output_ndim(self, output: str, wrt: str) -> int:
        """Return how many axes of a block are the output's."""
        shape = self.at(output, wrt).shape
        try:
            return self.ndims[output, wrt][0]
        except KeyError as error:
            raise FormatError(
                f"the block of {output!r} by {wrt!r} has shape {shape}, and neither schema nor "
                "inputs tell how many of its axes are the output's; pass output_ndim="
            ) from error

    def dataset(self, output: str, chunks: Any) -> xr.Dataset:
        """Return the blocks of one output, a variable for each input."""
        row = self.arrays[output]
        folder = os.fspath(self.folder) if self.folder is not None else ""
        fields = [(f"{output}.{path}", block) for path, block in row.items()]
        labels = {name: self.labels[name] for name, _ in fields if name in self.labels}
        made = dataset_of(fields, folder, labels, chunks=chunks)
        names = {f"{output}.{path}": name for path, name in _names(row).items()}
        # The variables keep their names, by which the caller asks for them.
        clashing = sorted(({*made.dims, *made.coords} - set(names)) & set(names.values()), key=str)
        taken = {*made.variables, *made.dims, *names.values()}
        for label in clashing:
            names[label] = _free(f"{label}_dim" if label in made.dims else f"{label}_coord", taken)
            taken.add(names[label])
        return made.rename(names)


def _names(wanted: Iterable[str]) -> dict[str, str]:
    """Return a name in a tree for each path: none has a slash, none is there twice."""
    made: dict[str, str] = {}
    for path in wanted:
        made[path] = _free(path.replace("/", "_"), made.values())
    return made


def _free(name: str, taken: Collection[Any]) -> str:
    while name in taken:
        name += "_"
    return name


class _Products:
    """What any Jacobian can be multiplied with."""

    __slots__ = ()

    _blocks: Blocks

    def block(self, output: str, wrt: str) -> BinrefArray | NDArray[Any]:
        """Return a block as it was returned: of a lazy Jacobian a `BinrefArray`.

        Parameters
        ----------
        output, wrt
            Paths of output and input.

        Raises
        ------
        KeyError
            If there is no such block; names those there are.
        """
        made: BinrefArray | NDArray[Any] = self._known_blocks().at(output, wrt)
        return made

    def linear_operator(
        self, output: str, wrt: str, *, mmap: bool | None = None, output_ndim: int | None = None
    ) -> MatrixOperator:
        """Return a block as a SciPy operator with a row for each element of the output.

        Products go through the file once, in bounded memory, so that `svds`, `lsqr`, `lsmr`
        and `cg` of `scipy.sparse.linalg` work on a block larger than memory.

        Parameters
        ----------
        output, wrt
            Paths of output and input.
        mmap
            Map the file, 64 MiB at a time, instead of reading it, which takes about twice as long
            for what is in the page cache. A file that another program cuts while it is mapped
            ends this process. So by default, None, it is mapped only where the system lets those
            who would write to it wait for the product (a lease: Linux, local disks, files of
            this user that nobody has open for writing), and read elsewhere. True maps it all
            the same, False reads it.
            Compressed blocks are read all the same.
        output_ndim
            How many axes of the block are the output's; needed only if neither the schema
            nor the inputs tell.

        Raises
        ------
        KeyError
            If there is no such block; names those there are.
        FormatError
            If it is not known which axes are the output's.
        """
        blocks = self._known_blocks()
        rows = blocks.output_ndim(output, wrt) if output_ndim is None else output_ndim
        return MatrixOperator(blocks.at(output, wrt), rows, mmap=mmap)

    def to_dask(
        self, output: str, wrt: str, *, chunks: Any = None, output_ndim: int | None = None
    ) -> da.Array:
        """Return a block as a dask matrix, for `dask.array.linalg.svd_compressed` and others.

        Parameters
        ----------
        output, wrt, output_ndim
            As of `linear_operator`.
        chunks
            As for `dask.array.from_array`; default: whole rows, about 16 MiB of them, or everything
            at once if it is compressed.

        Raises
        ------
        KeyError, FormatError
            As `linear_operator`.
        """
        operator = self.linear_operator(output, wrt, output_ndim=output_ndim)
        matrix = operator.array.reshape(operator.shape)
        if isinstance(matrix, BinrefArray):
            return matrix.to_dask(chunks)
        made: da.Array = da.from_array(matrix, chunks="auto" if chunks is None else chunks)
        return made

    def _known_blocks(self) -> Blocks:
        return self._blocks


class Jacobian(_Products, Result):
    """Blocks of a Jacobian in memory, a dict: ``jacobian[output][path]``.

    The shape of a block is that of the output followed by that of the input.

    Parameters
    ----------
    blocks
        NumPy arrays, and what is known of them.
    """

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks.arrays, folder=blocks.folder, labels=blocks.labels)
        self._blocks = blocks

    def to_datatree(self) -> JacobianTree:
        """Return them with labels, as ``lazy=True`` gives those on disk."""
        return JacobianTree.of(self._blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        return Jacobian, (self._blocks,)


class JacobianTree(_Products, xr.DataTree):  # type: ignore[no-untyped-call]  # of xarray's hook
    """Blocks of a Jacobian on disk, a DataTree: ``tree["output/input"]`` is a lazy DataArray.

    It has a group for each output, with a variable for each input. The dimensions of a block
    are those of the output followed by those of the input, which get the suffix ``_in``
    where both have them; a dimension that is called like a variable of its group gets the
    suffix ``_dim``. A slash in a path is an underscore in the tree.

    What xarray makes of it (``tree.isel(...)``, ``tree.copy()``) is a tree of other arrays:
    `linear_operator`, `to_dask` and `block` are those of the tree that a call returned.
    """

    __slots__ = ("_blocks",)

    @classmethod
    def of(cls, blocks: Blocks, *, chunks: Any = {}) -> JacobianTree:  # noqa: B006  # never written to
        """Return the tree of some blocks; of those on disk nothing is read.

        Parameters
        ----------
        blocks
            In memory or on disk.
        chunks
            Of the dask arrays over those on disk, as for `binref_sci.open_dataset`.
        """
        groups = {
            name: xr.DataTree(blocks.dataset(output, chunks))
            for output, name in _names(blocks.arrays).items()
        }
        made = cls(children=groups)
        made._blocks = blocks
        return made

    def _known_blocks(self) -> Blocks:
        try:
            return self._blocks
        except AttributeError as error:
            raise FormatError(
                "this tree was computed or copied from a Jacobian, and is none: ask the tree that "
                "the component's call returned"
            ) from error
