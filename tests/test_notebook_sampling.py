"""Limits before anything is shown: within a budget, spread over the run, honest about what is left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.notebook.colouring import colouring
from binref_sci.notebook.sampling import POINTS, known_range, sample, scan


class Reader:
    """Counts what it is asked for, as a disk would see it: rows are read whole."""

    def __init__(self, n, shape, dtype="f4", *, seconds=0.0, broken=()):
        self.n, self.shape, self.dtype = n, shape, np.dtype(dtype)
        self.seconds, self.broken = seconds, set(broken)
        self.asked, self.bytes, self.now = [], 0, 0.0

    def clock(self):
        return self.now

    def frame(self, i):
        return (np.arange(math.prod(self.shape)).reshape(self.shape) * 1e-6 + i).astype(self.dtype)

    def __call__(self, i, strides):
        assert len(strides) == len(self.shape)
        self.asked.append(i)
        self.now += self.seconds
        if i in self.broken:
            raise EOFError(f"frame {i} ends early")
        part = self.frame(i)[tuple(slice(None, None, s) for s in strides)]
        rows = math.prod(part.shape[:-1])
        self.bytes += rows * self.shape[-1] * self.dtype.itemsize
        return part

    def sample(self, **kwargs):
        return sample(self, self.n, self.shape, self.dtype.itemsize, clock=self.clock, **kwargs)


def test_a_long_run_is_sampled_at_its_ends_and_between():
    reader = Reader(100_000, (512, 512))
    taken = reader.sample()
    assert taken.frames[:2] == (99_999, 0)
    assert len(taken.frames) == 9
    assert len(set(taken.frames)) == 9
    between = sorted(taken.frames)[1:-1]
    assert [i * 7 // 100_000 for i in between] == list(range(7)), "one in each seventh"
    assert not taken.complete
    assert taken.rule == "sampled"
    assert taken.frames == Reader(100_000, (512, 512)).sample().frames, "the same each time"


@given(
    n=st.integers(1, 3000),
    shape=st.lists(st.integers(1, 60), min_size=1, max_size=3).map(tuple),
    budget=st.integers(0, 100_000),
)
def test_the_budget_of_bytes_is_kept(n, shape, budget):
    reader = Reader(n, shape)
    taken = reader.sample(budget_bytes=budget)
    frame = math.prod(shape) * 4
    assert reader.bytes <= max(budget, frame)
    assert len(taken.frames) == len(set(taken.frames)) >= 1
    assert taken.complete == (len(taken.frames) == n)
    if n * frame <= budget:
        assert taken.complete, "what fits is read whole"
        assert taken.rule == "full"


def test_the_budget_of_time_is_kept():
    reader = Reader(1000, (8,), seconds=0.06)
    assert len(reader.sample().frames) == 4  # the fourth began before 0.2 s had passed
    slow = Reader(1000, (8,), seconds=5.0)
    assert slow.sample().frames == (999,), "one frame there must be"


def test_large_frames_are_strided():
    reader = Reader(1, (4096, 4096))
    taken = reader.sample()
    assert len(taken.values) == POINTS
    assert reader.bytes == 4096 * 4096 * 4 // 8, "every eighth row"
    assert not taken.complete, "what lies between was not seen"
    volume = Reader(1, (100, 200, 300)).sample()
    assert POINTS / 4 < len(volume.values) <= POINTS


def test_a_run_that_fits_is_exact():
    reader = Reader(50, (16, 16))
    taken = reader.sample()
    everything = np.stack([reader.frame(i) for i in range(50)])
    assert taken.complete
    assert taken.values.dtype == np.float32
    assert (taken.values.min(), taken.values.max()) == (everything.min(), everything.max())


def test_frames_that_cannot_be_read_are_left_out_and_told():
    taken = Reader(1000, (8,), broken=[999]).sample(budget_bytes=9 * 32)
    assert 999 not in taken.frames
    assert list(taken.unreadable) == [999]
    assert "frame 999 ends early" in str(taken.unreadable[999])
    with pytest.raises(EOFError, match="frame 19 ends early"):
        Reader(20, (8,), broken=range(20)).sample()


def test_a_run_that_has_not_begun_has_no_values():
    taken = sample(Reader(0, (8,)), 0, (8,), 4)
    assert taken.values.size == 0
    assert taken.frames == ()
    assert (colouring(taken.values).vmin, colouring(taken.values).vmax) != (0.0, 0.0)


def test_scalars_and_lines_are_frames_too():
    assert sample(lambda i, strides: np.float64(i), 5, (), 8).complete
    assert sample(lambda i, strides: np.arange(3.0), 5, (3,), 8).complete


# --- everything ---------------------------------------------------------------------------------


@given(st.integers(1, 40), st.sampled_from(["f4", ">f8", "i2", "u1", "?"]), st.randoms())
def test_a_scan_finds_the_extremes(n, kind, random):
    data = np.random.default_rng(random.getrandbits(32)).normal(0, 50, (n, 300)).astype(kind)
    if data.dtype.kind == "f":
        data[0, 0] = np.nan
        data[0, 1] = np.inf
    found = scan(lambda i, strides: data[i], n, (300,))
    good = data[np.isfinite(data)]
    assert found.complete
    assert found.values.dtype.newbyteorder("=") == data.dtype.newbyteorder("=")
    limits = colouring(found.values, center=False)
    assert (limits.vmin, limits.vmax) == (good.min(), good.max()) or good.min() == good.max()
    if data.dtype.kind == "f":
        assert colouring(found.values, norm="log").vmin == good[good > 0].min()


def test_percentiles_of_a_scan_are_near_and_its_memory_is_bounded():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(2000, 4000)).astype("f4")
    found = scan(lambda i, strides: data[i], 2000, (4000,))
    assert len(found.values) < 5 * POINTS
    made = colouring(found.values, robust=True, center=False)
    ranks = np.searchsorted(np.sort(data[:200].ravel()), [made.vmin, made.vmax]) / 800_000
    assert ranks == pytest.approx([0.02, 0.98], abs=0.003)


def test_a_scan_tells_how_far_it_is_and_can_be_stopped():
    told = []
    found = scan(
        Reader(10, (4,)),
        10,
        (4,),
        progress=lambda done, n: told.append((done, n)),
        stopped=lambda: len(told) == 3,
    )
    assert told == [(1, 10), (2, 10), (3, 10)]
    assert not found.complete
    assert found.frames == (0, 1, 2)
    assert found.values.max() == Reader(10, (4,)).frame(2).max()


def test_a_scan_that_misses_a_frame_is_not_complete():
    found = scan(Reader(4, (4,), broken=[2]), 4, (4,))
    assert not found.complete
    assert list(found.unreadable) == [2]
    with pytest.raises(EOFError):
        scan(Reader(2, (4,), broken=[0, 1]), 2, (4,))


# --- attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ({}, None),
        ({"actual_range": [1, 2]}, (1.0, 2.0)),
        ({"actual_range": np.array([1.0, 2.0], "f4"), "valid_range": [0, 9]}, (1.0, 2.0)),
        ({"valid_range": (0.0, 9.0)}, (0.0, 9.0)),
        ({"valid_min": 0, "valid_max": 5}, (0.0, 5.0)),
        ({"valid_min": 0}, None),
        ({"actual_range": [2, 1]}, None),
        ({"actual_range": [0, np.nan]}, None),
        ({"actual_range": "0 to 5"}, None),
        ({"actual_range": ["0", "5"]}, (0.0, 5.0)),
        ({"actual_range": [1, 2, 3]}, None),
        ({"valid_range": [-1e36, 1e36]}, None),
        ({"actual_range": None}, None),
    ],
)
def test_attributes_tell_the_range(attrs, wanted):
    assert known_range(attrs) == wanted


def test_a_valid_range_of_packed_values_does_not_count():
    packed = {"scale_factor": 0.01}
    assert known_range({"valid_range": [-32767, 32767]}, packed) is None
    assert known_range({"actual_range": [0, 5], "valid_range": [0, 9]}, packed) == (0.0, 5.0)
