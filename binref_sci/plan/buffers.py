"""The buffers that a plan reads from: on disk one pass over it, at a store two."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from binref_sci.codec import decompress
from binref_sci.frames import FRAMES
from binref_sci.memory import empty
from binref_sci.storage import Buffer, Identity, Root, opened_buffer, read_into, require
from binref_sci.storage.fetching import Fetching
from binref_sci.storage.remote import RemotePath


class Buffers:
    """The buffers of one read plan, one descriptor each while neighbours use it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path: str | None = None
        self._open: Buffer | None = None
        self._last: tuple[Hashable, bytearray] | None = None

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()

    def open(self, path: str) -> Buffer:
        """Return a buffer, open; it may be closed when the next one is asked for."""
        if self._open is None or path != self._path:
            # At most one is open: a thousand buffers need one descriptor.
            if self._open is not None:
                self._open.close()
                self._open = None
            self._open = opened_buffer(self._root, path)
            self._path = path
        return self._open

    def decoded(self, buffer: Buffer, offset: int, size: int | None, nbytes: int) -> bytearray:
        """Return what a frame holds, which nobody may change."""
        assert size is not None  # compressed segments carry their sizes
        identity = buffer.identity
        key = (*identity, offset, size, nbytes)
        if self._last is not None and self._last[0] == key:
            return self._last[1]  # the rest of this plan's points in it
        frame = FRAMES.get(key)
        if frame is None:
            # Asked before the read. What a store has is told apart by its version at any time.
            settled = not isinstance(identity, Identity) or identity.is_settled
            require(buffer, offset, size)
            encoded = empty((size,), np.uint8)
            read_into(buffer, offset, encoded)
            where = f"buffer {buffer.name!r} at byte {offset}"
            frame = self._frame(encoded, nbytes, where, key if settled else None)
        self._last = key, frame
        return frame

    def _frame(
        self, encoded: NDArray[np.uint8], nbytes: int, where: str, key: Hashable | None
    ) -> bytearray:
        frame = decompress(encoded.data, nbytes, where)
        if key is not None:
            FRAMES.put(key, frame)
        return frame


class _StoreBuffers(Buffers):
    """The buffers of one pass over a plan at a store."""

    def __init__(self, fetching: Fetching, *, planning: bool) -> None:
        super().__init__("")
        self._fetching = fetching
        self._planning = planning

    def __enter__(self) -> Buffers:
        self._fetching.planning = self._planning
        return self

    def open(self, path: str) -> Buffer:
        """Return a buffer of the store."""
        return self._fetching.buffer(path)

    def _frame(
        self, encoded: NDArray[np.uint8], nbytes: int, where: str, key: Hashable | None
    ) -> bytearray:
        if self._planning:
            return bytearray(nbytes)  # nothing has been read yet
        return super()._frame(encoded, nbytes, where, key)


def passes(root: Root) -> tuple[Buffers, ...]:
    """Return the buffers of each pass over a plan: one on disk, at a store two."""
    if not isinstance(root, RemotePath):
        return (Buffers(root),)
    fetching = Fetching(root)
    return _StoreBuffers(fetching, planning=True), _StoreBuffers(fetching, planning=False)
