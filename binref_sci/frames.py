"""Decoded snapshots of compressed buffers, the last few of them, once a process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

LIMIT = 64 * 1024 * 1024
"""Bytes of decoded snapshots that are kept."""


class FrameCache:
    """Least recently used frames, bounded by their bytes; safe from many threads.

    Parameters
    ----------
    limit
        Bytes that are kept; a frame that is larger is not.

    Examples
    --------
    >>> cache = FrameCache(limit=4)
    >>> cache.put("a", bytearray(3)); cache.put("b", bytearray(2))
    >>> cache.get("a") is None, len(cache.get("b"))
    (True, 2)
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        """Forget everything; also the lock, which a fork may have left taken."""
        self._lock = threading.Lock()
        self._frames: OrderedDict[Hashable, bytearray] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> bytearray | None:
        """Return a frame, which nobody may change, if it is kept."""
        with self._lock:
            frame = self._frames.get(key)
            if frame is not None:
                self._frames.move_to_end(key)
            return frame

    def put(self, key: Hashable, frame: bytearray) -> None:
        """Keep a frame; the oldest make room for it."""
        if len(frame) > self.limit:
            return
        with self._lock:
            old = self._frames.pop(key, None)
            self._bytes += len(frame) - (0 if old is None else len(old))
            self._frames[key] = frame
            while self._bytes > self.limit:
                _, gone = self._frames.popitem(last=False)
                self._bytes -= len(gone)


FRAMES = FrameCache()
os.register_at_fork(after_in_child=FRAMES.clear)
