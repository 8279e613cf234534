import copy
import gc
import os
import pickle
import re
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import lz4.frame
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from binref_sci.array import BinrefArray
from binref_sci.call import Call, entering, output_path
from binref_sci.dtypes import DTYPES
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    InvalidReferenceError,
    NoOutputPathError,
    TruncatedBufferError,
    UnsupportedDTypeError,
)
from binref_sci.labels import Labels
from binref_sci.reference import ArrayRef
from tests.kit import (
    arrays,
    assert_same,
    bytes_read,
    descriptors_at_rest,
    held_anyhow,
    open_descriptors,
    resident,
    run,
    sample,
)
from tests.test_dtypes import REFUSED

COMPRESSIONS = [None, "lz4"]
compressions = st.sampled_from(COMPRESSIONS)


@pytest.fixture
def call(tmp_path):
    """A running call whose run directory lies in its output path."""
    (tmp_path / "run_a").mkdir()
    with entering(Call(tmp_path / "run_a", tmp_path, "a", time.time_ns())) as made:
        yield made


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0), (7,), (3, 4, 2)])
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_shape_comes_back_to_the_bit(tmp_path, name, shape, compression):
    array = sample(name, shape)
    made = BinrefArray.write(array, output_path=tmp_path, compression=compression)
    assert (made.shape, made.dtype, made.ndim) == (shape, DTYPES[name], len(shape))
    assert (made.size, made.nbytes) == (array.size, array.nbytes)
    assert_same(made.load(), array)
    assert_same(np.asarray(made), array)
    assert_same(np.asarray(made[...]), array)


@given(held_anyhow(), compressions)
def test_an_array_is_written_as_its_values_however_it_is_held(tmp_path_factory, array, compression):
    folder = tmp_path_factory.mktemp("out")
    made = BinrefArray.write(array, output_path=folder, compression=compression)
    assert_same(made.load(), array)
    if compression is None:
        content = (folder / made.path).read_bytes()
        assert content == array.astype(array.dtype.newbyteorder("<")).tobytes("C")


@given(st.data(), arrays.filter(lambda a: a.ndim), compressions)
def test_indexing_reads_what_numpy_selects(tmp_path_factory, data, array, compression):
    folder = tmp_path_factory.mktemp("out")
    made = BinrefArray.write(array, output_path=folder, compression=compression)
    key = data.draw(npst.basic_indices(array.shape, allow_newaxis=True))
    found = made[key]
    assert type(found) is type(array[key])
    assert_same(found, array[key])


@pytest.mark.parametrize("array", REFUSED.values(), ids=REFUSED)
def test_what_the_format_lacks_is_refused_and_no_file_appears(tmp_path, array):
    with pytest.raises(UnsupportedDTypeError):
        BinrefArray.write(array, output_path=tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_column_major_array_reads_row_by_row(tmp_path):
    made = BinrefArray.write(
        np.array([[1, 2, 3], [4, 5, 6]], "i4", order="F"), output_path=tmp_path
    )
    assert made[1].tolist() == [4, 5, 6]


def test_a_single_number_stays_one(tmp_path):
    made = BinrefArray.write(np.float32(0.7), output_path=tmp_path)
    assert made.shape == ()
    assert float(made) == np.float32(0.7)
    assert isinstance(made[()], np.float32)
    assert made[...].shape == ()
    assert bool(made) is True
    assert int(BinrefArray.write(7, output_path=tmp_path)) == 7
    assert complex(BinrefArray.write(1 - 2j, output_path=tmp_path)) == 1 - 2j
    with pytest.raises(TypeError, match="0-d"):
        len(made)
    assert made.to_xarray().dims == ()


def test_the_truth_of_many_numbers_is_ambiguous(tmp_path):
    with pytest.raises(ValueError, match="ambiguous"):
        bool(BinrefArray.write([1, 2], output_path=tmp_path))


def test_what_is_read_is_writable_and_private(tmp_path):
    made = BinrefArray.write(np.arange(6.0), output_path=tmp_path)
    for read in (made.load, lambda: made[1:4], lambda: np.asarray(made), lambda: made[[1, 2]]):
        first = read()
        first *= 2
        assert read()[1] != first[1]
    with pytest.raises(TypeError):
        made[0] = 1
    with pytest.raises(ValueError, match="copy"):
        np.array(made, copy=False)
    assert np.asarray(made, dtype="f4").dtype == np.float32


def test_the_constructor_names_the_constructors():
    with pytest.raises(TypeError, match=r"BinrefArray\.write.*from_file.*BinrefWriter"):
        BinrefArray("x.bin", (2,), "f8")


def test_without_a_call_or_a_path_there_is_nowhere_to_write(tmp_path):
    with pytest.raises(NoOutputPathError, match=r"pass output_path="):
        BinrefArray.write([1.0])
    with pytest.raises(NoOutputPathError, match=r"pass output_path="):
        BinrefArray.from_file("x.bin", (1,), "f8")
    with pytest.raises(NoOutputPathError, match=r"no running call.*or write within apply"):
        output_path()


def test_the_running_call_says_where(call):
    made = BinrefArray.write([1.0, 2.0])
    assert made.directory == call.run_directory == output_path()
    assert [path.name for path in call.run_directory.iterdir()] == [made.path]


@given(st.data(), arrays)
def test_reshape_is_numpys(tmp_path_factory, data, array):
    made = BinrefArray.write(array, output_path=tmp_path_factory.mktemp("out"))
    shape = data.draw(st.lists(st.integers(-1, 6), max_size=4).map(tuple))
    try:
        wanted = array.reshape(shape)
    except ValueError:
        with pytest.raises(ValueError, match="cannot reshape"):
            made.reshape(shape)
    else:
        assert_same(made.reshape(shape).load(), wanted)
        assert_same(made.reshape(*shape).load(), wanted)


def test_reshape_refuses_a_fraction(tmp_path):
    with pytest.raises(TypeError):
        BinrefArray.write(np.zeros(6), output_path=tmp_path).reshape(2.5, 3)


def test_equality_and_hash_go_by_the_place_of_the_bytes(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(64))

    def made(**changes):
        return BinrefArray.from_file(
            **{"path": "x.bin", "shape": (2,), "dtype": "f8", "output_path": tmp_path, **changes}
        )

    assert made() == made()
    assert hash(made()) == hash(made())
    others = [made(offset=8), made(shape=(1, 2)), made(dtype="i8"), made(path="./x.bin")]
    assert len({made(), made(), *others}) == 5
    assert made() != "x.bin"


def test_two_arrays_of_one_file_stay_apart_in_dask(tmp_path):
    (tmp_path / "x.bin").write_bytes(np.arange(10).tobytes())
    first, second = (
        BinrefArray.from_file("x.bin", (5,), "i8", offset=offset, output_path=tmp_path)
        for offset in (0, 40)
    )
    stacked = da.stack([first.to_dask(), second.to_dask()])
    assert stacked.compute().tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert first.to_dask().name == first.to_dask().name != second.to_dask().name


def test_one_array_in_two_chunkings_does_not_mix_in_dask(tmp_path):
    array = np.arange(12.0)
    made = BinrefArray.write(array, output_path=tmp_path)
    one, other = made.to_dask(chunks=3), made.to_dask(chunks=4)
    assert one.name != other.name
    np.testing.assert_array_equal((one + other).compute(), 2 * array)
    assert made.to_dask(chunks=(3,)).name == one.name


def test_a_name_in_dask_changes_with_the_file_and_is_the_same_in_every_process(tmp_path):
    array = np.arange(4.0)
    made = BinrefArray.write(array, output_path=tmp_path)
    before = made.to_dask().name
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).to_dask().name)"
    (tmp_path / "ref").write_bytes(pickle.dumps(made))
    assert run(code, tmp_path / "ref", cwd=Path("/")).strip() == before
    (tmp_path / "new").write_bytes((array + 1).tobytes())
    (tmp_path / "new").replace(tmp_path / made.path)
    assert made.to_dask().name != before
    np.testing.assert_array_equal(made.to_dask().compute(), array + 1)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (), (3, 4)])
def test_dask_and_xarray_keep_shape_dtype_and_labels(tmp_path, shape):
    array = sample("float32", shape)
    made = BinrefArray.write(array, output_path=tmp_path)
    lazy = made.to_dask()
    assert (lazy.shape, lazy.dtype) == (shape, np.float32)
    assert_same(lazy.compute(), array)
    dims = ("y", "x")[: len(shape)]
    labels = Labels(dims, {"unrelated": [1, 2]}, units="K")
    labelled = made.to_xarray(labels, name="u")
    assert (labelled.name, labelled.dims, labelled.attrs) == ("u", dims, {"units": "K"})
    xr.testing.assert_identical(
        labelled.load(), xr.DataArray(array, dims=dims, attrs=labelled.attrs, name="u")
    )


def test_labels_that_do_not_fit_are_refused(tmp_path):
    made = BinrefArray.write(np.zeros((2, 2)), output_path=tmp_path)
    with pytest.raises(ValueError, match="has 2 axes"):
        made.to_xarray(Labels(("x",)))


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="counts bytes as Linux does")
def test_a_dask_array_over_two_gib_costs_no_memory_and_its_parts_little(tmp_path):
    sparse(tmp_path / "x.bin", 2**31)
    made = BinrefArray.from_file("x.bin", (2048, 512, 256), "f8", output_path=tmp_path)
    made.to_dask()[0, 0, 0].compute()  # imports
    gc.collect()
    memory, read, began = resident(), bytes_read(), time.process_time()
    lazy = made.to_dask()
    took = time.process_time() - began
    assert resident() - memory < 5 * 2**20
    assert bytes_read() - read < 1000
    assert took < 0.5  # to read it takes longer
    assert len(pickle.dumps(lazy)) < 20_000
    assert lazy[10, 0, :5].compute().tolist() == [0] * 5
    assert bytes_read() - read < 2 * 64 * 2**20
    before = bytes_read()
    assert made[10, 0, :5].tolist() == [0] * 5
    assert bytes_read() - before < 1000


def test_repr_comparison_hash_and_reshape_read_nothing(tmp_path):
    sparse(tmp_path / "x.bin", 2**30)
    made = BinrefArray.from_file("x.bin", (2**27,), "f8", output_path=tmp_path)
    memory, before = resident(), bytes_read()
    described = repr(made)
    made.reshape(2, -1)
    assert made == made.reshape(2**27)
    assert hash(made)
    assert (made.shape, made.nbytes, len(made), made.buffer) == ((2**27,), 2**30, 2**27, "x.bin:0")
    assert bytes_read() - before < 300
    assert resident() - memory < 2**20
    assert "x.bin:0" in described
    assert "134217728" in described


def test_offsets_beyond_four_gib_do_not_wrap(tmp_path):
    path = sparse(tmp_path / "x.bin", 2**32 + 64)
    with path.open("r+b") as file:
        file.seek(2**32 + 8)
        file.write(np.float64(2.5).tobytes())
        file.seek(2**32 + 56)
        file.write(np.float64(3.5).tobytes())
    first = BinrefArray.from_file("x.bin", (1,), "f8", offset=4294967304, output_path=tmp_path)
    assert first[0] == 2.5
    count = (2**32 + 64 - 16) // 8
    second = BinrefArray.from_file(
        "x.bin", (np.uint32(count),), "f8", offset=np.uint32(16), output_path=tmp_path
    )
    assert second[-1] == 3.5
    assert second[[-1, 0]].tolist() == [3.5, 0]


def test_a_pickle_is_small_and_reads_in_a_spawned_process_elsewhere(tmp_path, monkeypatch):
    path = sparse(tmp_path / "x.bin", 2**30)
    with path.open("r+b") as file:
        file.seek(2**30 - 8)
        file.write(np.float64(2.5).tobytes())
    monkeypatch.chdir(tmp_path)
    made = BinrefArray.from_file("x.bin", (2**10, 2**17), "f8", output_path=".")
    pickles = pickle.dumps(made), pickle.dumps(made.to_dask()), pickle.dumps(made.to_xarray())
    assert max(map(len, pickles)) < 20_000
    (tmp_path / "p").write_bytes(pickle.dumps([made, made.to_dask()]))
    code = """
        import pickle, sys
        array, lazy = pickle.load(open(sys.argv[1], "rb"))
        print(array[-1, -1], lazy[-1, -1].compute())
    """
    assert run(code, tmp_path / "p", cwd=Path("/")).split() == ["2.5", "2.5"]


def test_a_relative_path_is_resolved_when_it_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = BinrefArray.write([1.0, 2.0], output_path="out")
    lazy = made.to_dask()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert lazy.sum().compute() == made.load().sum() == 3
    with dask.config.set(scheduler="processes", num_workers=1):
        assert lazy.sum().compute() == 3


def test_a_reference_keeps_no_file_open(tmp_path):
    before = descriptors_at_rest()
    refs = [BinrefArray.write([float(n)], output_path=tmp_path) for n in range(200)]
    assert sum(float(ref[0]) for ref in refs) == sum(range(200))
    assert open_descriptors() == before


def test_a_missing_buffer_is_an_error_never_zeros(tmp_path):
    made = BinrefArray.write([1.0, 2.0], output_path=tmp_path)
    lazy = made.to_dask()
    (tmp_path / made.path).unlink()
    for read in (made.load, lambda: made[0], lambda: lazy.compute(), lambda: made.to_dask()):
        with pytest.raises(FileNotFoundError, match=made.path):
            read()


def test_a_short_buffer_is_an_error_with_exact_bytes(tmp_path):
    made = BinrefArray.write(np.arange(10.0), output_path=tmp_path)
    os.truncate(tmp_path / made.path, 77)
    assert made[:9].tolist() == list(range(9))
    with pytest.raises(
        TruncatedBufferError, match=r"holds 77 bytes, but bytes 72 to 80 are needed"
    ):
        made[9]
    with pytest.raises(TruncatedBufferError, match=r"holds 77 bytes, but bytes 0 to 80 are needed"):
        made.load()


def test_a_copy_is_the_same_array_and_keeps_its_owner_alive(tmp_path):
    class Owner:
        pass

    owner = Owner()
    made = BinrefArray.from_ref(ArrayRef("x.bin", 0, (2,), "f8"), tmp_path, owner=owner)
    for again in (copy.copy(made), copy.deepcopy(made), copy.deepcopy([made])[0]):
        assert again == made
        assert again.layout.owner is owner
    assert made.reshape(2, 1).layout.owner is owner


def test_a_kept_reference_is_small(tmp_path):
    sparse(tmp_path / "x.bin", 2**20)
    gc.collect()
    count = 100_000
    before = resident()
    refs = [
        BinrefArray.from_file("x.bin", (2,), "f8", offset=offset, output_path=tmp_path)
        for offset in range(count)
    ]
    assert (resident() - before) / count < 250
    assert len({id(ref.layout) for ref in refs}) == 1


# --- from_file --------------------------------------------------------------------------------


def test_a_file_is_looked_for_in_the_run_directory_then_in_the_output_path(call):
    outer = BinrefArray.write([1.0], output_path=call.output_path)
    inner = BinrefArray.write([2.0])
    assert BinrefArray.from_file(outer.path, (1,), "f8").directory == call.output_path
    assert BinrefArray.from_file(inner.path, (1,), "f8").directory == call.run_directory
    (call.run_directory / outer.path).write_bytes(np.float64(3).tobytes())
    assert BinrefArray.from_file(outer.path, (1,), "f8")[0] == 3
    (call.run_directory / outer.path).unlink()
    assert BinrefArray.from_file(outer.path, (1,), "f8")[0] == 1


def test_an_older_file_of_the_output_path_is_refused_unless_shared(call):
    old = call.output_path / "mesh.bin"
    old.write_bytes(bytes(8))
    os.utime(old, ns=(call.started_ns - 10**9,) * 2)
    words = (
        f"(?s){re.escape(str(call.run_directory))}.*{re.escape(str(call.output_path))}.*shared=True"
    )
    for _ in range(2):
        with pytest.raises(BufferNotFoundError, match=words):
            BinrefArray.from_file("mesh.bin", (1,), "f8")
        assert BinrefArray.from_file("mesh.bin", (1,), "f8", shared=True)[0] == 0
    os.utime(old)
    assert BinrefArray.from_file("mesh.bin", (1,), "f8")[0] == 0
    second = call.started_ns - call.started_ns % 10**9  # as many file systems keep it
    os.utime(old, ns=(second, second))
    assert BinrefArray.from_file("mesh.bin", (1,), "f8")[0] == 0


def test_an_older_file_of_the_run_directory_is_the_calls_own(call):
    mine = call.run_directory / "restart.bin"
    mine.write_bytes(bytes(8))
    os.utime(mine, ns=(0, 0))
    assert BinrefArray.from_file("restart.bin", (1,), "f8")[0] == 0


def test_a_missing_file_is_reported_with_both_places_and_the_right_one(call):
    words = (
        f"(?s){re.escape(str(call.run_directory))}.*{re.escape(str(call.output_path))}"
        ".*binref_sci.output_path"
    )
    with pytest.raises(BufferNotFoundError, match=words):
        BinrefArray.from_file("nowhere.bin", (1,), "f8")


@pytest.mark.parametrize(
    "path",
    ["../x.bin", "/etc/passwd", "link.bin", "folder/x.bin", "file:///x.bin", "", "a\0b", b"x.bin"],
    ids=repr,
)
def test_from_file_does_not_lead_outside(call, path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x.bin").write_bytes(bytes(8))
    for place in (call.run_directory, call.output_path):
        (place / "link.bin").symlink_to(outside / "x.bin")
        (place / "folder").symlink_to(outside)
    for where in (None, call.output_path):
        with pytest.raises(InvalidReferenceError):
            BinrefArray.from_file(path, (1,), "f8", output_path=where)


def test_a_path_object_and_a_folder_in_between_are_fine(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.bin").write_bytes(bytes(8))
    assert BinrefArray.from_file(Path("a/x.bin"), 1, "f8", output_path=tmp_path)[0] == 0


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    os.mkfifo(tmp_path / "x") if kind == "fifo" else (tmp_path / "x").mkdir()
    with pytest.raises(BufferNotFoundError):
        BinrefArray.from_file("x", (1,), "f8", output_path=tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": -1},
        {"offset": -8.0},
        {"offset": 0.0},
        {"offset": True},
        {"shape": (-1,)},
        {"shape": (1.0,)},
        {"shape": (True,)},
        {"shape": (2**32, 2**32)},
        {"shape": (2**33, 2**31)},
        {"shape": "1"},
        {"compression": "zip", "compressed_size": 8},
        {"compression": "lz4"},
        {"compressed_size": 8},
        {"compression": "lz4", "compressed_size": -8},
        {"compression": "lz4", "compressed_size": 8.0},
    ],
    ids=repr,
)
def test_sizes_that_cannot_be_meant_are_refused_also_after_good_ones(tmp_path, changes):
    (tmp_path / "x.bin").write_bytes(bytes(64))
    good = {"path": "x.bin", "shape": (1,), "dtype": "f8", "output_path": tmp_path}
    BinrefArray.from_file(**good)
    with pytest.raises(InvalidReferenceError):
        BinrefArray.from_file(**{**good, **changes})


@pytest.mark.parametrize(
    ("shape", "offset"),
    [((9,), 0), ((8,), 1), ((1,), 64), ((2**58,), 0), ((1,), 2**70), ((0,), 65)],
)
def test_a_file_that_does_not_hold_the_bytes_is_refused(tmp_path, shape, offset):
    (tmp_path / "x.bin").write_bytes(bytes(64))
    with pytest.raises(TruncatedBufferError, match=r"holds 64 bytes"):
        BinrefArray.from_file("x.bin", shape, "f8", offset=offset, output_path=tmp_path)


@given(
    st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.lists(st.integers(-2, 2**40))),
    st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), st.text()),
    st.one_of(st.none(), st.integers(), st.text(), st.sampled_from(sorted(DTYPES))),
    st.one_of(st.text(), st.just("x.bin")),
)
def test_whatever_from_file_is_given_the_error_is_a_clean_one(
    tmp_path_factory, shape, offset, dtype, path
):
    folder = tmp_path_factory.mktemp("out")
    (folder / "x.bin").write_bytes(bytes(64))
    try:
        made = BinrefArray.from_file(path, shape, dtype, offset=offset, output_path=folder)
    except BinrefError:
        return
    assert made.offset + made.nbytes <= 64
    assert made.load().shape == made.shape


def test_each_call_looks_at_the_file_again(tmp_path):
    path = sparse(tmp_path / "x.bin", 64)
    for size in (64, 56, 64):
        os.truncate(path, size)
        if size == 64:
            BinrefArray.from_file("x.bin", (8,), "f8", output_path=tmp_path)
        else:
            with pytest.raises(TruncatedBufferError):
                BinrefArray.from_file("x.bin", (8,), "f8", output_path=tmp_path)
    path.unlink()
    with pytest.raises(BufferNotFoundError):
        BinrefArray.from_file("x.bin", (8,), "f8", output_path=tmp_path)


def test_a_compressed_file_is_read_from_its_offset(tmp_path):
    array = np.arange(6, dtype="i2").reshape(2, 3)
    frame = lz4.frame.compress(array.tobytes())
    (tmp_path / "x.bin").write_bytes(b"head" + frame + b"tail")
    made = BinrefArray.from_file(
        "x.bin", (2, 3), "i2", offset=4, compression="lz4", compressed_size=len(frame),
        output_path=tmp_path,
    )  # fmt: skip
    assert_same(made.load(), array)
    assert made.buffer == f"x.bin:4:{len(frame)}"
    with pytest.raises(TruncatedBufferError):
        BinrefArray.from_file(
            "x.bin", (2, 3), "i2", offset=4, compression="lz4", compressed_size=len(frame) + 9,
            output_path=tmp_path,
        )  # fmt: skip


def test_two_files_may_have_names_with_colons(tmp_path):
    (tmp_path / "run:42").write_bytes(np.float64(1.5).tobytes())
    assert BinrefArray.from_file("run:42", (), "f8", output_path=tmp_path).buffer == "run:42:0"


# --- the running call ---------------------------------------------------------------------------


class Resource:
    def __init__(self, log, name, failure=None):
        self.log, self.name, self.failure = log, name, failure

    def close(self):
        self.log.append(self.name)
        if self.failure:
            raise self.failure


def test_a_call_closes_everything_even_if_one_fails(tmp_path):
    log = []
    call = Call(tmp_path, tmp_path, "a", 0)
    failures = [None, OSError("full"), KeyboardInterrupt(), None]
    call.resources.extend(Resource(log, n, failure) for n, failure in enumerate(failures))
    with pytest.raises(KeyboardInterrupt), entering(call):
        pass
    assert log == [3, 2, 1, 0]


def test_what_failed_in_a_call_is_not_hidden_by_what_fails_at_its_end(tmp_path):
    call = Call(tmp_path, tmp_path, "a", 0, [Resource([], "w", OSError("full"))])
    with pytest.raises(ZeroDivisionError) as caught, entering(call):
        raise ZeroDivisionError
    assert "full" in caught.value.__notes__[0]


def test_a_call_knows_its_folders_wherever_the_solver_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run_a").mkdir()
    with entering(Call(Path("run_a"), Path(), "a", 0)):
        monkeypatch.chdir("/")
        assert BinrefArray.write([1.0]).directory == tmp_path / "run_a"


def test_dask_takes_no_file_for_what_it_was_in_the_second_of_its_stamp(tmp_path):
    stored = BinrefArray.write(np.zeros(5), output_path=tmp_path)
    second = (time.time_ns() // 10**9 + 100) * 10**9  # to come, so that it is not over yet
    names = set()
    for value in range(3):
        (tmp_path / stored.path).write_bytes(np.full(5, float(value)).tobytes())
        os.utime(tmp_path / stored.path, ns=(second, second))
        names.add(stored.to_dask().name)
    assert len(names) == 3
    os.utime(tmp_path / stored.path, ns=(10**9, 10**9))
    assert stored.to_dask().name == stored.to_dask().name
