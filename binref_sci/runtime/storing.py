"""Arrays of a response that are not in the run directory yet, put there."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from binref_sci.array import BinrefArray, Layout
from binref_sci.dtypes import nbytes_of, to_stored
from binref_sci.memory import page_aligned
from binref_sci.runtime.references import Run
from binref_sci.storage import (
    Root,
    create_buffer,
    open_buffer,
    read_into,
    require,
    write_at,
)
from binref_sci.writer import BinrefWriter

_COPY: Final = 8 << 20


class Store:
    """Puts arrays of one response into the run directory; a context manager."""

    def __init__(self, directory: str, compression: str | None) -> None:
        self._directory = directory
        self._compression = compression
        self._writer: BinrefWriter | None = None
        self._copies: dict[tuple[Root, str, int], tuple[int, Layout]] = {}
        self._fd = -1
        self._name = ""
        self._end = 0
        self.copied = 0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._fd >= 0:
            os.close(self._fd)

    def write(self, array: NDArray[Any] | np.generic) -> BinrefArray:
        """Write an array in memory; all of a response are packed one after another."""
        array = to_stored(array)  # refuses what cannot be stored before there is a file
        if self._writer is None:
            self._writer = BinrefWriter(output_path=self._directory, compression=self._compression)
        return self._writer.write(array)

    def copy(self, run: Run) -> Run:
        """Copy stored bytes from elsewhere, each array once."""
        layout = run.layout
        nbytes = nbytes_of(layout.shape, layout.dtype)
        if self._fd < 0:
            self._name, self._fd = create_buffer(self._directory)
        made = Layout(self._directory, self._name, layout.shape, layout.dtype, layout.compression)
        offsets = []
        with open_buffer(layout.directory, layout.path) as source:
            for index, offset in enumerate(run.offsets):
                size = nbytes if run.sizes is None else run.sizes[index]
                key = (layout.directory, layout.path, offset)
                if key not in self._copies:
                    require(source, offset, size)
                    for done in range(0, size, _COPY):
                        block = page_aligned((min(_COPY, size - done),), np.uint8)
                        read_into(source, offset + done, block)
                        write_at(self._fd, block, self._end + done)
                    self._copies[key] = (self._end, made)
                    self._end += size
                    self.copied += size
                offsets.append(self._copies[key][0])
        return Run(made, offsets, run.sizes)
