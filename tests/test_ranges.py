"""Many byte ranges of one buffer: warm, cold and on threads, and what is kept of lz4 frames."""

import os
import tempfile
import threading
import time
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci import BinrefArray, BinrefWriter, Trajectory, frames, ranges
from binref_sci.errors import TruncatedBufferError
from binref_sci.frames import FrameCache
from binref_sci.plan import Segment, Stored
from binref_sci.storage import open_buffer
from tests.kit import bytes_read, descriptors_at_rest, open_descriptors


def read(folder, offsets, nbytes):
    out = np.zeros(len(offsets) * nbytes, np.uint8)
    with open_buffer(folder, "a.bin") as buffer:
        waited = ranges.read_ranges(buffer, np.array(offsets, np.int64), nbytes, out)
    return out.reshape(len(offsets), nbytes), waited


@pytest.fixture
def content(tmp_path):
    made = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
    made.tofile(tmp_path / "a.bin")
    return made


@pytest.mark.parametrize("warm", ["as it is", "none", "some", "not told"])
@pytest.mark.parametrize("count", [1, 63, 64, 500])
def test_ranges_are_read_the_same_from_memory_and_from_disk(
    tmp_path, content, monkeypatch, warm, count
):
    if warm != "as it is":
        done = {"none": 0, "some": count // 3, "not told": -1}[warm]

        def read_warm(buffer, places, nbytes, view):
            ranges._read_all(buffer, places[: max(done, 0)], nbytes, view)
            return done

        monkeypatch.setattr(ranges, "_read_warm", read_warm)
    offsets = np.random.default_rng(1).integers(0, 99_000, count)
    before = descriptors_at_rest()
    found, waited = read(tmp_path, offsets, 17)
    np.testing.assert_array_equal(found, content[offsets[:, None] + np.arange(17)])
    assert open_descriptors() == before
    if warm in ("none", "some"):
        assert waited == (count >= ranges.MANY)


@pytest.mark.parametrize("count", [1, 5])
def test_what_is_large_is_copied_by_several_threads(tmp_path, content, monkeypatch, count):
    monkeypatch.setattr(ranges, "WIDE", 1000)
    monkeypatch.setattr(ranges, "PIECE", 300)
    monkeypatch.setattr(ranges, "COPIERS", 3)
    names = set()

    def seen(fd, targets, offset):
        names.add(threading.current_thread().name)
        return preadv(fd, targets, offset)

    preadv = os.preadv
    monkeypatch.setattr(ranges.os, "preadv", seen)
    offsets = np.arange(count)[::-1] * 10_000 + 77
    found, _ = read(tmp_path, offsets, 8001)
    assert len(names) == 3
    np.testing.assert_array_equal(found, content[offsets[:, None] + np.arange(8001)])
    with pytest.raises(TruncatedBufferError):
        read(tmp_path, [95_000], 8001)
    stored = Stored(str(tmp_path), (Segment("a.bin", 0, 2, 50_000),), (50_000,), content.dtype)
    np.testing.assert_array_equal(stored.read((1, slice(None))), content[50_000:])


def test_a_file_that_ends_first_is_an_error_in_every_thread(tmp_path, content, monkeypatch):
    offsets = np.arange(500) * 200  # all within 100,000 bytes, the file holds half
    with (tmp_path / "a.bin").open("r+b") as file:
        file.truncate(50_000)
    for done in (None, 0):
        if done is not None:
            monkeypatch.setattr(ranges, "_read_warm", lambda *_: 0)
        with pytest.raises(TruncatedBufferError, match="50000 bytes"):
            read(tmp_path, offsets, 17)


@given(
    keys=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=60),
)
def test_the_cache_holds_the_newest_frames_and_no_more_than_its_limit(keys):
    cache = FrameCache(limit=20)
    for key, size in keys:
        cache.put(key, bytearray(size))
        assert cache.get(key) == bytearray(size)
        assert cache._bytes == sum(map(len, cache._frames.values())) <= 20
    cache.put("large", bytearray(21))
    assert cache.get("large") is None


def test_a_decoded_snapshot_is_read_once_and_a_rewritten_one_again(tmp_path):
    field = np.random.default_rng(0).random((4, 100, 100))

    def write():
        with BinrefWriter("u", output_path=tmp_path, compression="lz4") as writer:
            for snapshot in field:
                writer.write(snapshot)
            return writer.trajectory()

    trajectory = write()
    for buffer in tmp_path.glob("*.bin"):
        os.utime(buffer, (0, 0))  # what has just been written is not kept
    np.testing.assert_array_equal(trajectory[:, 5, 6], field[:, 5, 6])
    before = bytes_read()
    np.testing.assert_array_equal(trajectory[:, 7, 8], field[:, 7, 8])
    assert bytes_read() - before < 1000
    field += 1
    np.testing.assert_array_equal(write()[:, 5, 6], field[:, 5, 6])
    assert frames.FRAMES._bytes <= frames.LIMIT


def test_what_is_written_again_at_the_same_time_is_read_again(tmp_path):
    """Clocks of file systems go in steps: many have one of milliseconds, and some of seconds."""
    soon, path = time.time_ns() + 10**11, tmp_path / "x.bin"
    for seed in range(3):
        field = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 1000)
        packed = lz4.frame.compress(field.tobytes())  # of the same size, since it has no order
        path.write_bytes(packed)
        os.utime(path, ns=(soon, soon))
        layout = {"compression": "lz4", "compressed_size": len(packed), "output_path": tmp_path}
        stored = BinrefArray.from_file("x.bin", (1000,), "int64", **layout)
        np.testing.assert_array_equal(stored[:], field)


def sparse(folder, count, shape):
    """A trajectory of zeros that takes no room."""
    nbytes = int(np.prod(shape)) * 8
    with Path(folder, "a.bin").open("wb") as file:
        file.truncate(count * nbytes)
    return Trajectory(
        Stored(str(folder), (Segment("a.bin", 0, count, nbytes),), shape, np.dtype("f8"))
    )


@pytest.mark.parametrize(
    ("shape", "key", "needed"),
    [
        ((128, 1024), np.s_[:, 7, 9], 200 * 8),  # 1 MiB apart: single numbers
        ((32, 64), np.s_[:, 7, 9], 200 * 8),  # 16 KiB apart: still
        ((128, 1024), np.s_[::10, 7], 20 * 8192),  # whole rows
        ((128, 1024), np.s_[[3, 150, 4], 7, 9], 3 * 8),
        ((128, 1024), np.s_[[3, 150, 4], [7, 8, 9], [1, 2, 3]], 3 * 8),
        ((128, 1024), np.s_[::-20, 7, 100:110], 10 * 80),
        ((128, 1024), np.s_[100, 5:1:-1, 3:5], 3 * 8192 + 16),  # gaps of 8 KiB are merged
    ],
)
def test_no_more_bytes_are_asked_for_than_needed(tmp_path, shape, key, needed):
    trajectory = sparse(tmp_path, 200, shape)
    (tmp_path / "other").mkdir()
    bytes_read(), sparse(tmp_path / "other", 200, shape)[key]  # what is imported is not counted
    before = bytes_read()
    values = trajectory[key]
    asked = bytes_read() - before
    assert not np.any(values)
    assert asked <= 1.05 * needed + 200  # and what asking for the figure costs


@given(data=st.data())
def test_outer_and_vectorised_indices_equal_numpy(data):
    shape = data.draw(st.tuples(*[st.integers(1, 6)] * 3))
    field = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        with BinrefWriter("u", output_path=folder, max_file_size=2 * field[0].nbytes) as writer:
            for snapshot in field:
                writer.write(snapshot)
            stored = writer.trajectory().stored
        key = []
        for length in shape:
            index = st.integers(-length, length - 1)
            key.append(data.draw(st.one_of(index, st.slices(length), st.lists(index, max_size=5))))
        key = tuple(np.array(part, np.intp) if isinstance(part, list) else part for part in key)
        wanted = field
        for axis in (2, 1, 0):
            part = key[axis]
            wanted = wanted[(slice(None),) * axis + (part,)]
        np.testing.assert_array_equal(stored.read_outer(key), wanted)
        count = data.draw(st.integers(0, 4))
        points = [
            np.array(
                data.draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)), int
            )
            for n in shape
        ]
        np.testing.assert_array_equal(
            stored.read_vectorized((slice(None), points[1], points[2])),
            np.moveaxis(field[:, points[1], points[2]], 1, 0),
        )
        np.testing.assert_array_equal(stored.read_vectorized(tuple(points)), field[tuple(points)])
