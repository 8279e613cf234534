"""Products with a mapped matrix where the system does not play along."""

import os
import platform
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from binref_sci import BinrefArray, matrix
from binref_sci.errors import TruncatedBufferError
from binref_sci.matrix import Matrix
from binref_sci.storage import kept_whole, open_buffer
from tests.kit import run

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells")
told_what_is_gone = pytest.mark.skipif(
    sys.platform != "linux" or tuple(map(int, platform.release().split(".")[:2])) < (5, 14),
    reason="touching mapped bytes that are gone kills the process",
)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A matrix of 50 rows, of which a row is multiplied at a time."""
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(matrix, "MAPPED_BYTES", 4096)
    return BinrefArray.write(np.ones((50, 512)), output_path=tmp_path)


@told_what_is_gone
@pytest.mark.parametrize("window", [4096, 2**20])
def test_mapped_bytes_that_are_gone_are_told(stored, monkeypatch, window):
    """As are those that a disk does not give any more: the bus error is the same."""
    monkeypatch.setattr(matrix, "WINDOW_BYTES", window)

    def cut(*_):
        os.truncate(Path(stored.directory, stored.path), 4096)

    with pytest.raises(TruncatedBufferError, match="holds 4096 bytes"):
        Matrix(stored, 1, True)._summed(50, np.ones(512), cut, apart=True)


@on_linux
@pytest.mark.parametrize("mmap", [None, True])
def test_where_there_is_no_room_to_map_it_is_read(tmp_path, mmap):
    code = """
        import os, resource, sys
        from pathlib import Path
        import numpy as np
        from binref_sci import BinrefArray
        from binref_sci.operators import MatrixOperator

        stored = BinrefArray.write(np.ones((12_000, 1000)), output_path=sys.argv[1])
        right = np.ones(1000)
        np.ones((10, 1000)) @ right  # its threads are there
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, [pages * resource.getpagesize() + 2**25] * 2)
        print((MatrixOperator(stored, 1, mmap=eval(sys.argv[2])) @ right).sum())
    """
    assert float(run(code, tmp_path, mmap)) == 12e6


@on_linux
def test_a_writer_that_waits_sends_no_signal(stored):
    calls, writers = [], []

    def is_asked_for():  # no lease is given while one is asked back
        with open_buffer(stored.directory, stored.path) as buffer, kept_whole(buffer) as is_kept:
            return not is_kept()

    def write(*_):
        if not writers:
            path = Path(stored.directory, stored.path)
            writers.append(threading.Thread(target=lambda: path.open("r+b").close()))
            writers[0].start()
            while not is_asked_for():
                time.sleep(0.001)

    before = signal.signal(signal.SIGURG, lambda *given: calls.append(given))
    try:
        Matrix(stored, 1, None)._summed(50, np.ones(512), write, apart=True)
        writers[0].join(30)
    finally:
        signal.signal(signal.SIGURG, before)
    assert not calls
    assert not writers[0].is_alive()


@pytest.mark.parametrize(("block", "vectors"), [(2**21, 1), (4096, 17)])
def test_where_mapping_gains_nothing_it_is_read(tmp_path, monkeypatch, block, vectors):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", block)
    monkeypatch.setattr(matrix, "kept_whole", None)
    stored = BinrefArray.write(np.ones((50, 512)), output_path=tmp_path)
    found = Matrix(stored, 1, None).times(np.ones((512, vectors)))
    np.testing.assert_array_equal(found, np.full((50, vectors), 512.0))
