"""Columns of a Jacobian: they wait in memory, and many are written at once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from binref_sci.array import BinrefArray
from binref_sci.messages import shown
from binref_sci.progress import ProgressBar
from binref_sci.runtime import paths
from binref_sci.runtime.blocks import Block, all_or_none
from binref_sci.runtime.gradients.arrays import derivative_dtype

PANEL_BYTES: Final = 256 * 1024 * 1024
"""Memory for columns that wait to be written, in bytes: for a matrix of 16384 rows twice 1024
columns, so that what is written at a time, a piece of a row, is 8 KiB long."""


def jacobian_by_columns(
    columns_of: Callable[[str, NDArray[Any]], Iterator[Mapping[str, NDArray[Any]]]],
    inputs: BaseModel,
    jac_inputs: Iterable[str],
    jac_outputs: Iterable[str],
    directory: str | os.PathLike[str],
    memory: int,
) -> dict[str, dict[str, BinrefArray]]:
    """Write a Jacobian that comes column by column; all of it or nothing.

    Parameters
    ----------
    columns_of
        Of an input's path and value: for each of its elements the derivatives of the outputs;
        at least one, also where the input has no elements.
    inputs
        Where to differentiate.
    jac_inputs, jac_outputs
        Paths.
    directory
        To write into.
    memory
        For columns that wait, in bytes.
    """
    outputs = sorted(jac_outputs)
    made: dict[str, dict[str, BinrefArray]] = {output: {} for output in outputs}
    with all_or_none(made):
        for path in sorted(jac_inputs):
            point = np.asarray(paths.get(inputs, path))
            columns = columns_of(path, point)
            blocks = _written(columns, path, point.shape, outputs, directory, memory)
            for output, block in blocks.items():
                made[output][path] = block
    return made


def _written(
    columns: Iterator[Mapping[str, NDArray[Any]]],
    path: str,
    inner: tuple[int, ...],
    outputs: list[str],
    directory: str | os.PathLike[str],
    memory: int,
) -> dict[str, BinrefArray]:
    """Write the blocks of all outputs by one input of shape `inner`, as their columns come."""
    total = math.prod(inner)
    bar = ProgressBar(f"Jacobian by {path}", total)
    blocks: dict[str, Block] = {}
    panels: _Panels | None = None
    with ExitStack() as opened:
        if isinstance(columns, Generator):  # what is kept of an error must not keep it waiting
            opened.enter_context(closing(columns))
        for done, column in enumerate(columns):
            if panels is None:
                for output in outputs:
                    found = column[output]
                    block = Block(
                        found.shape,
                        inner,
                        derivative_dtype(found.dtype),
                        what=f"the product for output {shown(output)} and input {shown(path)}",
                        output_path=directory,
                    )
                    blocks[output] = opened.enter_context(block)
                panels = opened.enter_context(_Panels(blocks, total, memory))
            if not total:
                break
            panels.add(column)
            bar.update(done + 1)
        if panels is not None:
            panels.write_rest()
        bar.close(total)
        return {output: block.finish() for output, block in blocks.items()}


class _Panels:
    """Columns that wait; where not all fit, some are filled in while a thread writes others.

    A context manager that does not end before the thread does.

    Parameters
    ----------
    blocks
        Where they go, by output.
    total
        Number of columns to come.
    memory
        For those that wait, in bytes.
    """

    def __init__(self, blocks: dict[str, Block], total: int, memory: int) -> None:
        each = sum(block.rows * block.dtype.itemsize for block in blocks.values())
        width = max(1, memory // max(1, each))
        self._blocks = blocks
        self._all_fit = total <= width
        self._width = total if self._all_fit else max(1, width // 2)
        self._filling = self._made()
        self._spare = {} if self._all_fit else self._made()
        self._first = self._held = 0  # number of the first that waits, and how many do
        self._background = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def __enter__(self) -> _Panels:
        return self

    def __exit__(self, *_: object) -> None:
        self._background.shutdown()

    def _made(self) -> dict[str, NDArray[Any]]:
        return {
            output: np.empty((self._width, block.rows), block.dtype)
            for output, block in self._blocks.items()
        }

    def add(self, column: Mapping[str, NDArray[Any]]) -> None:
        """Take the next column of each block."""
        for output, block in self._blocks.items():
            values = block.fitted(column[output], block.outer)
            self._filling[output][self._held] = values.reshape(-1)
        self._held += 1
        if self._held == self._width and not self._all_fit:
            self._settle()
            full, self._filling, self._spare = self._filling, self._spare, self._filling
            self._writing = self._background.submit(self._write, self._first, self._held, full)
            self._first, self._held = self._first + self._held, 0

    def write_rest(self) -> None:
        """Write what waits, after what is being written."""
        self._settle()
        if self._held:
            self._write(self._first, self._held, self._filling)

    def _settle(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write(self, first: int, count: int, filled: dict[str, NDArray[Any]]) -> None:
        for output, block in self._blocks.items():
            block.write_columns(first, filled[output][:count])
