"""The planner against NumPy: any key, however the snapshots lie."""

import itertools
import tempfile
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from binref_sci.errors import BufferNotFoundError, CorruptBufferError, TruncatedBufferError
from binref_sci.plan import Segment, Stored
from tests.kit import bytes_read, descriptors_at_rest, open_descriptors

LAYOUTS = ["dense", "gaps", "reversed", "scattered", "lz4"]


def laid_out(folder, array, cuts, layout, gap=3):
    """Write snapshots as `layout` says, one buffer between two cuts."""
    segments = []
    for number, (first, last) in enumerate(itertools.pairwise([0, *cuts, len(array)])):
        if first == last:
            continue
        rows = [row.tobytes() for row in array[first:last]]
        if layout == "lz4":
            rows = [lz4.frame.compress(row) for row in rows]
        pad = b"p" * (0 if layout == "dense" else gap)
        order = list(range(len(rows)))
        if layout in ("reversed", "scattered"):
            order.reverse()
        if layout == "scattered":
            order = order[1:] + order[:1]
        content = b"head"
        offsets = np.zeros(len(rows), np.int64)
        for index in order:
            offsets[index] = len(content)
            content += rows[index] + pad
        path = f"{number}.bin"
        (folder / path).write_bytes(content)
        count, nbytes = len(rows), len(rows[0])
        if layout in ("scattered", "lz4"):
            sizes = np.array([len(row) for row in rows]) if layout == "lz4" else None
            segments.append(Segment(path, 0, count, 0, offsets, sizes))
        else:
            stride = nbytes + len(pad)
            if layout == "reversed":
                stride = -stride
            segments.append(Segment(path, int(offsets[0]), count, stride))
    compression = "lz4" if layout == "lz4" else None
    return Stored(str(folder), tuple(segments), array.shape[1:], array.dtype, compression)


@st.composite
def keys(draw, shape):
    """Anything NumPy takes as an index of `shape`."""
    kind = draw(st.sampled_from(["basic", "integers", "mask", "mixed"]))
    if kind == "integers" and 0 not in shape:
        return draw(npst.integer_array_indices(shape))
    if kind == "mask":
        return draw(npst.arrays(bool, shape))
    if kind == "mixed":
        parts = []
        for length in shape:
            part = draw(st.sampled_from(["slice", "integer", "list", "mask"]))
            if part == "mask":
                parts.append(draw(npst.arrays(bool, length)))
                # two masks that select differently many do not go together
                parts[-1][:] = parts[-1] if sum(map(np.ndim, parts)) == 1 else False
            elif part == "slice" or not length:
                parts.append(draw(st.slices(length)))
            elif part == "integer":
                parts.append(draw(st.integers(-length, length - 1)))
            else:
                index = st.integers(-length, length - 1)
                parts.append(draw(st.lists(index, min_size=2, max_size=2)))
        at = draw(st.integers(0, len(parts)))
        return (*parts[:at], ..., *parts[at:]) if draw(st.booleans()) else tuple(parts)
    return draw(npst.basic_indices(shape, allow_newaxis=True))


def outcome(read):
    """What was read, or that NumPy's kind of error came."""
    try:
        return read()
    except IndexError:
        return IndexError


def assert_reads_like(found, wanted):
    assert type(found) is type(wanted)
    if wanted is not IndexError:
        np.testing.assert_array_equal(found, wanted)
        assert (np.shape(found), found.dtype) == (np.shape(wanted), wanted.dtype)


@pytest.mark.parametrize("part", [np.zeros(0, bool), np.array([2, 0]), np.array([True] * 3), [1]])
def test_an_index_array_behind_an_integer_is_no_whole_snapshot(tmp_path, part):
    array = np.arange(12.0).reshape(4, 3)
    if len(part) == 0:
        array = array[:, :0]
    stored = laid_out(tmp_path, array, [], "dense")
    np.testing.assert_array_equal(stored.read((1, part)), array[1, part])


@given(st.data())
def test_any_key_reads_what_numpy_selects_however_snapshots_lie(data):
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))
    array = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[0]), max_size=3)))
    layout = data.draw(st.sampled_from(LAYOUTS))
    key = data.draw(keys(shape))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        gap = data.draw(st.sampled_from([0, 8, 64, 2**14]))
        patch.setattr("binref_sci.plan.boxes.MERGE_GAP", gap)
        patch.setattr("binref_sci.plan.reading.MERGE_GAP", gap)
        limit = data.draw(st.sampled_from([1, 64, 2**26]))
        patch.setattr("binref_sci.plan.boxes.MERGE_LIMIT", limit)
        patch.setattr("binref_sci.ranges.WIDE", data.draw(st.sampled_from([1, 2**25])))
        patch.setattr("binref_sci.ranges.PIECE", data.draw(st.sampled_from([1, 7, 64])))
        stored = laid_out(Path(folder), array, cuts, layout)
        assert_reads_like(outcome(lambda: stored.read(key)), outcome(lambda: array[key]))
        np.testing.assert_array_equal(stored.load(), array)


@given(st.data())
def test_one_snapshot_is_indexed_like_an_array_of_its_own(data):
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    array = np.arange(3 * np.prod(shape), dtype="<c16").reshape(3, *shape)
    layout = data.draw(st.sampled_from(LAYOUTS))
    index = data.draw(st.integers(0, 2))
    key = data.draw(keys(shape))
    with tempfile.TemporaryDirectory() as folder:
        stored = laid_out(Path(folder), array, [1], layout)
        found = outcome(lambda: stored.read_snapshot(index, key))
        assert_reads_like(found, outcome(lambda: array[index][key]))


@given(st.data())
def test_cutting_twice_selects_what_slicing_twice_does(data):
    length = data.draw(st.integers(0, 12))
    array = np.arange(2 * length, dtype="<i2").reshape(length, 2)
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=3)))
    with tempfile.TemporaryDirectory() as folder:
        stored = laid_out(Path(folder), array, cuts, data.draw(st.sampled_from(LAYOUTS)))
        for _ in range(2):
            key = data.draw(st.slices(len(array)))
            start, _, step = key.indices(len(array))
            array = array[key]
            stored = stored.cut(start, step, len(array))
        np.testing.assert_array_equal(stored.load(), array)


@pytest.mark.parametrize(
    "key",
    [
        3,
        (0, 0, 0, 0),
        (..., ...),
        "x",
        1.5,
        (0, 1.5),
        np.ones(4, bool),
        (..., np.ones(5, bool)),
        (..., np.zeros(2, bool)),
        np.ones((3, 3), bool),
        [0, 9],
        ([0, 1], [0, 1, 2]),
        {},
    ],
    ids=repr,
)
def test_a_key_that_numpy_refuses_is_refused(tmp_path, key):
    array = np.zeros((3, 4, 3))
    stored = laid_out(tmp_path, array, [], "dense")
    with pytest.raises(IndexError):
        array[key]
    with pytest.raises(IndexError):
        stored.read(key)


def test_a_small_part_reads_few_bytes(tmp_path):
    array = np.zeros((4, 1024, 1024))
    stored = laid_out(tmp_path, array, [], "dense")
    stored.read((0, 0, 0))
    for key, most in [((2, 7, 5), 8), ((1, slice(10, 20)), 10 * 8192), ((3, [5, 900]), 2 * 8192)]:
        before = bytes_read()
        stored.read(key)
        assert bytes_read() - before < most + 200  # of /proc itself


def test_many_points_of_a_compressed_snapshot_decode_it_once(tmp_path):
    array = np.random.default_rng(0).random((2, 100_000))
    stored = laid_out(tmp_path, array, [], "lz4")
    picks = np.arange(500) % 2, np.arange(500)
    before = bytes_read()
    np.testing.assert_array_equal(stored.read(picks), array[picks])
    assert bytes_read() - before < 2.2 * array[0].nbytes


def test_reading_leaves_no_descriptor_open(tmp_path):
    stored = laid_out(tmp_path, np.zeros((9, 2)), [3, 6], "dense")
    before = descriptors_at_rest()
    stored.read(slice(None))
    (tmp_path / "2.bin").unlink()
    with pytest.raises(BufferNotFoundError):
        stored.read(slice(None))
    assert open_descriptors() == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_short_buffer_is_an_error_where_it_is_short(tmp_path, layout):
    array = np.arange(30.0).reshape(10, 3)
    stored = laid_out(tmp_path, array, [], layout, gap=0)
    content = (tmp_path / "0.bin").read_bytes()
    (tmp_path / "0.bin").write_bytes(content[:-3])
    last = {"reversed": 0, "scattered": 9}.get(layout, 9)
    with pytest.raises(TruncatedBufferError, match=f"holds {len(content) - 3} bytes"):
        stored.load()
    bad = [n for n in range(10) if outcome_of(stored, n) is TruncatedBufferError]
    assert bad == [last]


def outcome_of(stored, index):
    try:
        stored.read(index)
    except TruncatedBufferError:
        return TruncatedBufferError


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_false_claim_of_size_is_an_error_about_the_file_not_about_memory(tmp_path, compression):
    (tmp_path / "0.bin").write_bytes(lz4.frame.compress(b"12345678"))
    offsets = None if compression is None else np.zeros(1, np.int64)
    sizes = None if compression is None else np.array([27])
    segment = Segment("0.bin", 0, 1, 2**58, offsets, sizes)
    stored = Stored(str(tmp_path), (segment,), (2**55,), np.dtype("f8"), compression)
    with pytest.raises(
        CorruptBufferError if compression else TruncatedBufferError, match=r"0\.bin"
    ):
        stored.load()


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"not a frame at all",
        lz4.frame.compress(bytes(16))[:-2],
        lz4.frame.compress(bytes(15)),
        lz4.frame.compress(bytes(17)),
        lz4.frame.compress(bytes(2**20)),
    ],
    ids=["empty", "garbage", "cut", "too short", "too long", "far too long"],
)
def test_a_frame_that_does_not_hold_the_array_is_corrupt(tmp_path, frame):
    (tmp_path / "0.bin").write_bytes(frame)
    segment = Segment("0.bin", 0, 1, 0, np.array([0]), np.array([len(frame)]))
    stored = Stored(str(tmp_path), (segment,), (2,), np.dtype("f8"), "lz4")
    with pytest.raises(CorruptBufferError, match=r"0\.bin' at byte 0"):
        stored.load()


@given(st.binary(max_size=200), st.integers(0, 40))
def test_damage_to_a_frame_is_noticed_or_harmless(noise, place):
    frame = bytearray(lz4.frame.compress(np.arange(40, dtype="<i4").tobytes()))
    frame[place : place + len(noise)] = noise
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "0.bin").write_bytes(frame)
        segment = Segment("0.bin", 0, 1, 0, np.array([0]), np.array([len(frame)]))
        stored = Stored(folder, (segment,), (40,), np.dtype("<i4"), "lz4")
        try:
            assert stored.load().shape == (1, 40)
        except CorruptBufferError:
            pass


def test_an_ellipsis_that_stands_for_no_axis_still_parts_two_indices(tmp_path):
    array = np.arange(24.0).reshape(1, 2, 3, 4)
    array.tofile(tmp_path / "x.bin")
    stored = Stored(str(tmp_path), (Segment("x.bin", 0, 1, 192),), (2, 3, 4), array.dtype)
    for key in [(slice(None), 0, ..., [0, 3]), (slice(None), [1, 0], ..., 2), (0, ..., 1, [0, 3])]:
        np.testing.assert_array_equal(stored.read_snapshot(0, key), array[0][key])
        np.testing.assert_array_equal(stored.read((slice(None), *key)), array[(slice(None), *key)])
