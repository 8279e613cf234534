import copy
import gc
import os
import pickle
import re
import threading
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from binref_sci.array import BinrefArray
from binref_sci.errors import TruncatedBufferError
from binref_sci.labels import Labels
from binref_sci.plan import fold_offsets
from binref_sci.reference import ArrayRef
from binref_sci.trajectory import Trajectory
from binref_sci.writer import BinrefWriter
from tests.kit import assert_same, bytes_read, descriptors_at_rest, open_descriptors, resident, run

FIELD = np.arange(10 * 3 * 4, dtype="f8").reshape(10, 3, 4)


def written(folder, field=FIELD, **options):
    """A trajectory of `field`, three snapshots to a buffer, with times."""
    limit = 3 * field[0].nbytes if len(field) else None
    options = {"max_file_size": limit, "output_path": folder, "name": "u", **options}
    with BinrefWriter(**options) as writer:
        for step, snapshot in enumerate(field):
            writer.write(snapshot, time=0.5 * step)
    return writer.trajectory()


@pytest.fixture
def trajectory(tmp_path):
    return written(
        tmp_path, dims=("time", "y", "x"), coords={"x": np.arange(4.0)}, attrs={"units": "K"}
    )


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_trajectory_is_an_array_with_one_more_axis_in_front(tmp_path, compression):
    made = written(tmp_path, compression=compression)
    assert (made.shape, made.dtype, made.ndim, len(made)) == ((10, 3, 4), np.dtype("f8"), 3, 10)
    assert (made.size, made.nbytes) == (FIELD.size, FIELD.nbytes)
    assert_same(made.load(), FIELD)
    assert_same(np.asarray(made), FIELD)
    np.testing.assert_array_equal(made.times, 0.5 * np.arange(10))
    assert made.load().flags.writeable


def test_integers_and_iteration_give_references_slices_give_trajectories(trajectory):
    assert isinstance(trajectory[np.int8(2)], BinrefArray)
    assert_same(trajectory[-1].load(), FIELD[-1])
    assert [type(ref) for ref in trajectory] == [BinrefArray] * 10
    assert_same(np.stack([ref.load() for ref in trajectory]), FIELD)
    part = trajectory[7:1:-2]
    assert isinstance(part, Trajectory)
    assert_same(part.load(), FIELD[7:1:-2])
    assert part.times.tolist() == [3.5, 2.5, 1.5]
    for index in (10, -11):
        with pytest.raises(IndexError, match="10 snapshots"):
            trajectory[index]


@pytest.mark.parametrize("compression", [None, "lz4"])
@given(data=st.data())
def test_any_other_key_reads_what_numpy_selects(tmp_path_factory, compression, data):
    made = written(tmp_path_factory.mktemp("out"), compression=compression)
    key = data.draw(
        st.one_of(
            npst.basic_indices(FIELD.shape, allow_newaxis=True).filter(
                lambda k: isinstance(k, tuple)
            ),
            npst.integer_array_indices(FIELD.shape),
            npst.arrays(bool, FIELD.shape),
            st.lists(st.integers(-10, 9), min_size=1),
        )
    )
    assert_same(made[key], FIELD[key])


@given(st.data())
def test_slices_of_slices_are_numpys(tmp_path_factory, data):
    made, field = written(tmp_path_factory.mktemp("out")), FIELD
    for _ in range(2):
        key = data.draw(st.slices(len(field)))
        made, field = made[key], field[key]
    assert made.shape == field.shape
    assert_same(made.load(), field)
    assert_same(np.asarray(made.to_dask()), field)
    assert [ref.load().tobytes() for ref in made] == [snapshot.tobytes() for snapshot in field]


@given(
    st.lists(st.one_of(st.integers(0, 12), st.integers(0, 10**6)), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_folding_keeps_every_place(places, nbytes):
    offsets = np.array(places, np.int64) * 8
    segments = fold_offsets("x.bin", offsets, nbytes)
    found = [segment.place(n)[0] for segment in segments for n in range(segment.count)]
    assert found == offsets.tolist()
    assert len(segments) <= max(1, 2 * len(places) // 8 + 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 30), st.sampled_from([8, 16, -8, 0])),
        min_size=1,
        max_size=5,
    )
)
def test_folding_runs_keeps_every_place_in_few_segments(runs):
    offsets = np.concatenate(
        [1000 + 8 * start + step * np.arange(count) for start, count, step in runs]
    )
    segments = fold_offsets("x.bin", offsets, 8)
    found = [segment.place(n)[0] for segment in segments for n in range(segment.count)]
    assert found == offsets.tolist()
    assert len(segments) <= 2 * len(runs)


@given(st.permutations(range(10)), st.sampled_from([None, "lz4"]))
def test_references_in_any_order_fold_and_read(tmp_path_factory, order, compression):
    refs = list(written(tmp_path_factory.mktemp("out"), compression=compression))
    refs = [refs[n] for n in [*order, order[0], order[0]]]
    made = Trajectory.from_refs(refs)
    assert_same(made.load(), FIELD[[*order, order[0], order[0]]])
    assert list(made) == refs


def test_a_hundred_thousand_references_fold_to_one_segment(tmp_path):
    refs = [
        BinrefArray.from_ref(ArrayRef("x.bin", 16 * n, (2,), "f8"), tmp_path) for n in range(10_000)
    ]
    assert len(Trajectory.from_refs(refs).segments) == 1
    assert len(pickle.dumps(Trajectory.from_refs(refs))) < 2000


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (ArrayRef("a.bin", 16, (3,), "f8"), r"reference 2 has shape \(3,\)"),
        (ArrayRef("a.bin", 16, (2,), "f4"), "reference 2 .*float32"),
        (ArrayRef("a.bin", 16, (2,), "f8", "lz4", 9), "reference 2 .*lz4"),
    ],
)
def test_references_that_differ_do_not_fold_and_the_first_odd_one_is_named(tmp_path, other, words):
    first = ArrayRef("a.bin", 0, (2,), "f8")
    refs = [BinrefArray.from_ref(ref, tmp_path) for ref in (first, first, other)]
    with pytest.raises(ValueError, match=words):
        Trajectory.from_refs(refs)
    with pytest.raises(ValueError, match="at least one"):
        Trajectory.from_refs([])


def test_xarray_has_dims_coordinates_times_and_attributes(trajectory):
    made = trajectory.to_xarray()
    assert (made.name, made.dims, made.attrs) == ("u", ("time", "y", "x"), {"units": "K"})
    assert made.x.values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(made.time, 0.5 * np.arange(10))
    np.testing.assert_array_equal(made.sel(time=2.0), FIELD[4])
    assert trajectory.to_xarray(Labels(("n", "a", "b")), name="v").dims == ("n", "a", "b")


def test_units_of_time_stay_text_and_numbers_stay_numbers(tmp_path):
    for unit in ("s", "days"):
        made = written(tmp_path / unit, coords={"time": {"units": unit}}).to_xarray()
        assert made.time.dtype == np.float64
        assert made.time.attrs == {"units": unit}


def test_dates_come_back_as_dates(tmp_path):
    days = np.arange("2024-02-28", "2024-03-02", dtype="M8[D]")
    with BinrefWriter("u", output_path=tmp_path, coords={"time": {"long_name": "date"}}) as writer:
        for day in days:
            writer.write([1.0], time=day)
    made = writer.trajectory()[::-1].to_xarray()
    np.testing.assert_array_equal(made.time, days[::-1].astype("M8[ns]"))
    assert made.time.attrs == {"long_name": "date"}


def test_default_chunks_are_whole_snapshots_of_one_buffer(trajectory):
    assert trajectory.to_dask().chunks == ((3, 3, 3, 1), (3,), (4,))
    assert trajectory.to_dask(chunks={}).chunks == ((3, 3, 3, 1), (3,), (4,))
    assert trajectory.to_dask(chunks=(5, -1, -1)).chunks == ((5, 5), (3,), (4,))


def test_two_chunkings_do_not_mix(trajectory):
    both = trajectory.to_dask() + trajectory.to_dask(chunks=(4, 3, 4))
    np.testing.assert_array_equal(both.compute(), 2 * FIELD)


@pytest.mark.parametrize("shape", [(0,), (0, 3), ()])
def test_snapshots_without_elements_or_axes_are_snapshots(tmp_path, shape):
    made = written(tmp_path, np.ones((4, *shape), "f4"), max_file_size=None)
    assert made.shape == (4, *shape)
    assert made[1].shape == shape
    assert_same(made.load(), np.ones((4, *shape), "f4"))
    assert_same(made.to_dask().compute(), np.ones((4, *shape), "f4"))
    assert len(made.times) == 4


def test_slicing_repr_and_dask_read_no_data(tmp_path):
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        file.truncate(2**31)
    refs = [
        BinrefArray.from_ref(ArrayRef("x.bin", n * 2**20, (2**17,), "f8"), tmp_path)
        for n in range(2048)
    ]
    made = Trajectory.from_refs(refs)
    made.to_dask()
    gc.collect()
    memory, before = resident(), bytes_read()
    assert "2048" in repr(made)
    assert made[5:1000:7][3].shape == (2**17,)
    assert made.to_dask().shape == (2048, 2**17)
    assert bytes_read() - before < 1000
    assert resident() - memory < 5 * 2**20


def test_a_cut_buffer_loses_only_the_snapshots_it_cut(tmp_path):
    made = written(tmp_path, max_file_size=None)
    (buffer,) = {segment.path for segment in made.segments}
    os.truncate(tmp_path / buffer, FIELD.nbytes - 3)
    assert_same(made[8].load(), FIELD[8])
    words = f"{buffer}' holds 957 bytes, but bytes 864 to 960 are needed"
    with pytest.raises(TruncatedBufferError, match=words):
        made[9].load()
    for read in (made.load, made.to_dask().compute):
        with pytest.raises(TruncatedBufferError, match=r"holds 957 bytes"):
            read()
    assert_same(made[:9].load(), FIELD[:9])


def test_a_missing_buffer_is_an_error_never_a_shorter_series(tmp_path):
    made = written(tmp_path)
    lazy = made.to_dask()
    path = made.segments[1].path
    (tmp_path / path).unlink()
    for read in (made.load, lambda: lazy.mean(axis=0).compute(), lambda: made.to_dask()):
        with pytest.raises(FileNotFoundError, match=re.escape(path)):
            read()


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_trajectory_crosses_processes_and_folders(tmp_path, compression, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = written("out", compression=compression)
    (tmp_path / "p").write_bytes(pickle.dumps([made, made.to_dask(), made[::-1]]))
    code = """
        import pickle, sys
        made, lazy, reverse = pickle.load(open(sys.argv[1], "rb"))
        print(made[9, 2, 3], lazy[9, 2, 3].compute(), reverse[0, 2, 3], made.times[9], made.name)
    """
    assert run(code, tmp_path / "p", cwd=Path("/")).split() == [
        "119.0",
        "119.0",
        "119.0",
        "4.5",
        "u",
    ]


def test_a_copy_is_the_same_and_keeps_the_owner(tmp_path):
    owner = threading.Lock()  # anything that cannot be pickled
    refs = [BinrefArray.from_ref(ArrayRef("x.bin", 0, (2,), "f8"), tmp_path, owner=owner)]
    made = Trajectory.from_refs(refs)
    assert made.owner is owner
    assert copy.deepcopy(made[:]).owner is owner
    assert made[0].layout.owner is owner


def test_many_buffers_need_few_descriptors(tmp_path):
    code = """
        import resource, sys, os
        import numpy as np
        from binref_sci.writer import BinrefWriter
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
        with BinrefWriter("u", output_path=sys.argv[1], max_file_size=1) as writer:
            for step in range(1000):
                writer.write(np.full(2, step, "f8"))
        made = writer.trajectory()
        assert len(made.segments) == 1000
        before = len(os.listdir("/proc/self/fd"))
        assert made.load().mean() == 499.5
        lazy = made.to_dask()
        assert lazy.mean().compute(scheduler="threads", num_workers=8) == 499.5
        for step in range(2000):
            assert made[step % 1000][0] == step % 1000
        assert len(os.listdir("/proc/self/fd")) == before
    """
    run(code, tmp_path / "out")


def test_reading_from_many_threads_leaves_no_descriptor(trajectory):
    before = descriptors_at_rest()
    wrong = []

    def read(seed):
        for step in np.random.default_rng(seed).integers(0, 10, 200):
            if not np.array_equal(trajectory[step].load(), FIELD[step]):
                wrong.append(step)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert open_descriptors() == before


def test_a_list_is_no_trajectory_and_the_error_names_what_makes_one():
    with pytest.raises(TypeError, match="from_refs"):
        Trajectory([1, 2])


def test_lists_are_compared_as_arrays_are(trajectory):
    values = np.asarray(trajectory)
    assert (trajectory[-1] == values[-1].tolist()).all()
    assert (trajectory == values.tolist()).all()
    assert (values == trajectory).all()
    assert (trajectory == values).all()
    assert (trajectory[0] == values[0]).all()
    assert not (trajectory[0] == (values[0] + 1).tolist()).any()
    for other in ([], [1], [[1], [2, 3]], None, "text", 3):
        assert not trajectory[0] == other  # noqa: SIM201
        assert not trajectory == other  # noqa: SIM201
    assert trajectory == trajectory
    assert len({trajectory, trajectory}) == 1


def test_trajectories_at_different_offsets_of_one_buffer_have_different_names(tmp_path):
    """R13."""
    with BinrefWriter(output_path=tmp_path) as writer:
        refs = [writer.write(np.full(3, step)) for step in range(4)]
    first, second = Trajectory.from_refs(refs[:2]), Trajectory.from_refs(refs[2:])
    stacked = da.concatenate([first.to_dask(), second.to_dask()])
    np.testing.assert_array_equal(stacked[:, 0], [0, 1, 2, 3])
    again = Trajectory.from_refs(refs[:2])
    assert first.to_dask().name == again.to_dask().name != second.to_dask().name
