"""`Jacobian`: blocks by output and input, as arrays, Datasets and operators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.client.result import Result
from binref_sci.engine.opening import dataset_of
from binref_sci.errors import FormatError
from binref_sci.operators import MatrixOperator
from binref_sci.runtime import paths
from binref_sci.runtime.gradients.kinds import GRADIENTS, Gradient
from binref_sci.runtime.gradients.labels import labels_of

_JACOBIAN = GRADIENTS["jacobian"]

Ndims = Mapping[tuple[str, str], tuple[int, int]]


class Jacobian(Result):
    """Blocks of a Jacobian: ``jacobian[output][path]``.

    The shape of a block is that of the output followed by that of the input. Of a lazy
    Jacobian the blocks are `BinrefArray`: they stay on disk until they are indexed.

    Parameters
    ----------
    blocks
        By output and input.
    folder
        Absolute output path that lazy ones lie in, or None.
    labels
        Of the blocks, by ``output.input``.
    ndims
        Number of axes of output and input, where they are known.
    """

    def __init__(
        self,
        blocks: Mapping[str, Any],
        *,
        folder: Path | None = None,
        labels: Mapping[str, Any] | None = None,
        ndims: Ndims | None = None,
    ) -> None:
        super().__init__(blocks, folder=folder, labels=labels)
        self._ndims = ndims or {}

    def linear_operator(
        self, output: str, wrt: str, *, mmap: bool = False, output_ndim: int | None = None
    ) -> MatrixOperator:
        """Return a block as a SciPy operator with a row for each element of the output.

        Products go through the file once, in bounded memory, so that `svds`, `lsqr`, `lsmr`
        and `cg` of `scipy.sparse.linalg` work on a block larger than memory.

        Parameters
        ----------
        output, wrt
            Paths of output and input.
        mmap
            Map the file, 64 MiB at a time, instead of reading it: products with what is in
            the page cache are several times as fast. A file that another program cuts
            meanwhile then ends this process, so it is for files that nobody writes any more.
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
        block = self._block(output, wrt)
        return MatrixOperator(block, self._split(output, wrt, output_ndim), mmap=mmap)

    def to_dask(
        self, output: str, wrt: str, *, chunks: Any = None, output_ndim: int | None = None
    ) -> da.Array:
        """Return a block as a dask matrix, for `dask.array.linalg.svd_compressed` and others.

        Parameters
        ----------
        output, wrt, output_ndim
            As of `linear_operator`.
        chunks
            As for `dask.array.from_array`; default: whole rows, about 64 MiB of them.

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

    def to_dataarray(self, output: str, wrt: str, *, chunks: Any = {}) -> xr.DataArray:  # noqa: B006  # never written to
        """Return a block with the dimensions of the output followed by those of the input.

        Dimensions of the input that the output has too get the suffix ``_in``.

        Parameters
        ----------
        output, wrt
            Paths of output and input.
        chunks
            Of the dask array over a lazy block, as for `binref_sci.open_dataset`.

        Raises
        ------
        KeyError
            If there is no such block; names those there are.
        """
        name = f"{output}.{wrt}"
        fields = [(name, self._block(output, wrt))]
        folder = os.fspath(self._folder) if self._folder is not None else ""
        return dataset_of(fields, folder, self._labels, chunks=chunks)[name]

    def to_datatree(self, *, chunks: Any = {}) -> xr.DataTree:  # noqa: B006  # never written to
        """Return a group for each output, with a variable for each input.

        Slashes in paths, which lead from group to group in a DataTree, become underscores.

        Parameters
        ----------
        chunks
            Of the dask arrays over lazy blocks, as for `binref_sci.open_dataset`.
        """
        folder = os.fspath(self._folder) if self._folder is not None else ""
        groups: dict[str, xr.Dataset] = {}
        for output, row in self.items():
            names = {f"{output}.{path}": path.replace("/", "_") for path in row}
            fields = [(f"{output}.{path}", block) for path, block in row.items()]
            made = dataset_of(fields, folder, self._labels, chunks=chunks)
            groups[output.replace("/", "_")] = made.rename_vars(names)
        return xr.DataTree.from_dict(groups)

    def _block(self, output: str, wrt: str) -> Any:
        try:
            return self[output][wrt]
        except KeyError as error:
            known = (f"{one}, {other}" for one, row in self.items() for other in row)
            raise KeyError(
                f"there is no block of output {output!r} by input {wrt!r}; there are "
                f"{paths.listed(known)}"
            ) from error

    def _split(self, output: str, wrt: str, output_ndim: int | None) -> int:
        if output_ndim is not None:
            return output_ndim
        known = self._ndims.get((output, wrt))
        if known is None:
            raise FormatError(
                f"the block of {output!r} by {wrt!r} has shape {self[output][wrt].shape}, and "
                "neither schema nor inputs tell how many of its axes are the output's; pass "
                "output_ndim="
            )
        return known[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (dict(self), self._folder, self._labels, self._ndims)


def _rebuilt(
    blocks: dict[str, Any], folder: Path | None, labels: Mapping[str, Any], ndims: Ndims
) -> Jacobian:
    return Jacobian(blocks, folder=folder, labels=labels, ndims=ndims)


def jacobian_of(
    blocks: dict[str, Any],
    inputs: Mapping[str, Any] | BaseModel,
    openapi: Mapping[str, Any],
    *,
    folder: Path | None,
) -> Jacobian:
    """Return the blocks of a reply with what the component's schema says of them.

    Parameters
    ----------
    blocks
        By output and input.
    inputs
        What the caller gave.
    openapi
        Document of the component, or of a server of another kind.
    folder
        Absolute output path that lazy ones lie in, or None.
    """
    outer, inner = _facts(openapi, "ApplyOutputSchema"), _facts(openapi, "ApplyInputSchema")
    ndims: dict[tuple[str, str], tuple[int, int]] = {}
    for output, row in blocks.items():
        for path, block in row.items():
            columns = _first(_declared(inner, path), _given(inputs, path))
            rows = _declared(outer, output)
            if columns is None and rows is not None:
                columns = block.ndim - rows
            if columns is not None and 0 <= columns <= block.ndim:
                ndims[output, path] = (block.ndim - columns, columns)
    chosen: Sequence[str] = list(next(iter(blocks.values()), ()))
    named = labels_of(_JACOBIAN, chosen, list(blocks), *_sides(openapi), ndims)
    return Jacobian(blocks, folder=folder, labels=named, ndims=ndims)


def product_of(
    gradient: Gradient,
    arrays: Mapping[str, Any],
    wrt: Sequence[str],
    of: Sequence[str],
    openapi: Mapping[str, Any],
    *,
    folder: Path | None,
) -> Result:
    """Return the arrays of a reply to a product with the labels that the schema has for them.

    Parameters
    ----------
    gradient
        The endpoint.
    arrays
        By path.
    wrt, of
        Selected inputs and outputs.
    openapi, folder
        As of `jacobian_of`.
    """
    return Result(arrays, folder=folder, labels=labels_of(gradient, wrt, of, *_sides(openapi), {}))


def _sides(openapi: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the labels of inputs and outputs."""
    labels = openapi.get("x-binref-labels", {})
    return labels.get("inputs", {}), labels.get("outputs", {})


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _facts(openapi: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    schema = openapi.get("components", {}).get("schemas", {}).get(name, {})
    found = schema.get("differentiable_arrays", {})
    return found if isinstance(found, Mapping) else {}


def _declared(facts: Mapping[str, Any], path: str) -> int | None:
    """Return the number of axes that a schema declares."""
    shape = facts.get(paths.pattern(path), {}).get("shape")
    return None if shape is None else len(shape)


def _given(inputs: Mapping[str, Any] | BaseModel, path: str) -> int | None:
    """Return the number of axes of what the caller gave, if it is there."""
    try:
        value = paths.get(inputs, path)
    except paths.PathError:
        return None
    if isinstance(value, Mapping):
        shape = value.get("shape")
        return len(shape) if isinstance(shape, Sequence) else None
    return int(np.ndim(value))
