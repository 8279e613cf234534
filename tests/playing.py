"""What the tests of the player share: a comm that records, and fields whose values tell where they are."""

import threading
import time
from collections.abc import Callable

import comm.base_comm
import numpy as np
import pytest
import xarray as xr


class RecordingComm(comm.base_comm.BaseComm):
    """Notes what would go to the browser."""

    def __init__(self, *args, **kwargs):
        self.sent = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        # As the kernel does it: buffers are views, and are copied when they are sent.
        self.sent.append((data, [bytes(buffer) for buffer in buffers or []]))

    @property
    def messages(self):
        """Custom messages, each with its buffers."""
        return [
            (data["content"], buffers)
            for data, buffers in list(self.sent)
            if data.get("method") == "custom"
        ]

    def frames(self):
        """Frames that were sent, in order: item and buffers."""
        made = []
        for content, buffers in self.messages:
            if content["type"] == "frames":
                each = len(buffers) // len(content["items"])
                for k, item in enumerate(content["items"]):
                    made.append((content | item, buffers[k * each : (k + 1) * each]))
        return made


class Log:
    """What a session sends, without a widget."""

    def __init__(self):
        self.messages = []
        self.threads = set()

    def __call__(self, content, buffers):
        self.threads.add(threading.current_thread())
        self.messages.append((content, buffers))

    frames = RecordingComm.frames

    def of(self, kind):
        return [(content, buffers) for content, buffers in self.messages if content["type"] == kind]


def still(condition: Callable[[], object], seconds: float = 0.15) -> None:
    """Check that something does not change for a while."""
    before = condition()
    time.sleep(seconds)
    assert condition() == before


def threads_of_players() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "binref-player"}


def want(
    gen,
    idx,
    *,
    ver=0,
    seen=0,
    credit=16,
    fmt="u8",
    lod=1,
    window=None,
    reduce="stride",
    id=0,  # noqa: A002  # as the protocol
):
    return {
        "type": "want",
        "gen": gen,
        "ver": ver,
        "view": {"id": id, "window": window, "lod": lod, "reduce": reduce},
        "idx": list(idx),
        "fmt": fmt,
        "seen": seen,
        "credit": credit,
    }


def telling(n=20, rows=6, columns=8, **kwargs):
    """A field whose value at step t, row y, column x is 10000 t + 100 y + x."""
    t, y, x = np.ogrid[:n, :rows, :columns]
    values = (10000 * t + 100 * y + x).astype("f8")
    coords = {"time": 0.5 * np.arange(n), "y": np.arange(rows) * 1.0, "x": np.arange(columns) * 2.0}
    return xr.DataArray(values, coords, ("time", "y", "x"), name="told", **kwargs)


class Backed:
    """Something to be read lazily by dask, that notes what is read.

    From read number `hold_at` on it waits until it may `go_on`.
    """

    def __init__(self, values, *, pause=0.0, hold_at=float("inf")):
        self._values = values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.pause, self.hold_at = pause, hold_at
        self.go_on = threading.Event()
        self.keys = []
        self.bytes = 0

    def __getitem__(self, key):
        self.keys.append(key)
        time.sleep(self.pause)
        if len(self.keys) >= self.hold_at:
            assert self.go_on.wait(60)
        made = self._values[key]
        self.bytes += made.nbytes
        return made


needs_comm = pytest.mark.usefixtures("comms")


@pytest.fixture
def comms(monkeypatch):
    """Comms of the widgets made in a test, in order."""
    made = []

    def create(**kwargs):
        made.append(RecordingComm(**kwargs))
        return made[-1]

    monkeypatch.setattr(comm, "create_comm", create)
    return made
