"""What a writer promises while nothing goes wrong."""

import datetime
import gc
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.array import BinrefArray
from binref_sci.call import Call, entering
from binref_sci.dtypes import DTYPES
from binref_sci.errors import InvalidReferenceError, UnsupportedDTypeError, WriterError
from binref_sci.journal import SUFFIX, read_journal
from binref_sci.trajectory import Trajectory
from binref_sci.writer import BinrefWriter
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


def journals(folder):
    """The journals of a folder, oldest first."""
    found = [read_journal(path) for path in Path(folder).glob(f"*{SUFFIX}")]
    return sorted(found, key=lambda journal: journal.header.created_ns)


def only_journal(folder):
    (journal,) = journals(folder)
    return journal


def stored(journal):
    return Trajectory.from_journal(journal).load()


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# --- what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_to_the_bit_from_reference_and_journal(tmp_path, name, compression):
    field = sample(name, (5, 3, 4))
    with BinrefWriter("u", output_path=tmp_path, compression=compression) as writer:
        refs = [writer.write(snapshot) for snapshot in field]
    for ref, snapshot in zip(refs, field, strict=True):
        assert_same(ref.load(), snapshot)
    assert_same(stored(only_journal(tmp_path)), field)


@given(st.lists(held_anyhow(), min_size=1, max_size=5), st.sampled_from(COMPRESSIONS))
def test_an_unnamed_writer_packs_arrays_of_any_shape_type_and_layout(
    tmp_path_factory, fields, compression
):
    folder = tmp_path_factory.mktemp("out")
    with BinrefWriter(output_path=folder, compression=compression) as writer:
        refs = [writer.write(array) for array in fields for _ in range(2)]
    for index, ref in enumerate(refs):
        assert_same(ref.load(), fields[index // 2])
    journal = only_journal(folder)
    assert (journal.count, journal.state) == (len(refs), "complete")
    loaded = [ref for part in journal.each_segment() for ref in Trajectory(part)]
    assert loaded == refs


@given(
    st.lists(arrays, min_size=1, max_size=12),
    st.integers(1, 300),
    st.sampled_from(COMPRESSIONS),
)
def test_no_snapshot_lies_in_two_buffers_and_the_ranges_cover_the_files(
    tmp_path_factory, fields, limit, compression
):
    folder = tmp_path_factory.mktemp("out")
    with BinrefWriter(output_path=folder, compression=compression, max_file_size=limit) as writer:
        refs = [writer.write(array).ref for array in fields]
    ranges = {}
    for ref in refs:
        ranges.setdefault(ref.path, []).append((ref.offset, ref.stop))
    for path, parts in ranges.items():
        stops = [stop for _, stop in parts]
        assert [start for start, _ in parts] == [0, *stops[:-1]]
        size = (folder / path).stat().st_size
        assert size == stops[-1]
        assert size <= limit or sum(stop > start for start, stop in parts) == 1


@pytest.mark.parametrize("array", REFUSED.values(), ids=REFUSED)
def test_what_the_format_lacks_is_refused_before_a_byte_is_written(tmp_path, array):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        with pytest.raises(UnsupportedDTypeError):
            writer.write(array)
        assert names(tmp_path) == []
        ref = writer.write([1.0])
    assert ref[0] == 1
    assert only_journal(tmp_path).count == 1


def test_an_array_that_the_solver_refills_is_copied(tmp_path):
    u = np.zeros(1000)
    with BinrefWriter("u", output_path=tmp_path) as writer:
        refs = []
        for step in range(200):
            u[:] = step
            refs.append(writer.write(u))
    for step, ref in enumerate(refs):
        assert (ref.load() == step).all()


def test_the_file_is_readable_by_plain_numpy(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for array in (np.array([1.0, 2.0], ">f8"), np.array([3.0, 4.0])):
            ref = writer.write(array)
    assert np.fromfile(tmp_path / ref.path, "<f8").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_snapshots_without_axes_or_elements_count(tmp_path, shape, compression):
    with BinrefWriter("u", output_path=tmp_path, compression=compression) as writer:
        for step in range(3):
            ref = writer.write(np.ones(shape), time=float(step))
            assert only_journal(tmp_path).count == step + 1
            assert ref.shape == ref.load().shape == shape
    journal = only_journal(tmp_path)
    assert (journal.count, journal.state) == (3, "complete")
    assert Trajectory.from_journal(journal).times.tolist() == [0, 1, 2]


def test_compressed_snapshots_are_frames_that_anyone_can_decode(tmp_path):
    with BinrefWriter("u", output_path=tmp_path, compression="lz4") as writer:
        refs = [writer.write(np.full(100, step, "i2")) for step in range(3)]
    for step, ref in enumerate(refs):
        raw = (tmp_path / ref.path).read_bytes()[ref.offset : ref.ref.stop]
        assert np.frombuffer(lz4.frame.decompress(raw), "<i2").tolist() == [step] * 100


# --- the journal --------------------------------------------------------------------------------


def test_labels_and_total_reach_the_reader_with_their_types(tmp_path):
    long = np.linspace(0, 1, 5000, dtype="f4")
    with BinrefWriter(
        "temperature",
        dims=("time", "x"),
        coords={"x": ("x", long, {"units": "m"}), "time": {"units": "s", "step": np.float32(0.1)}},
        attrs={"units": "K", "fill": np.int8(-1), "limit": np.inf, "bad": np.nan, "dims": 1},
        total=2,
        output_path=tmp_path,
    ) as writer:
        for step in range(2):
            writer.write(np.zeros(5000), time=step)
    journal = only_journal(tmp_path)
    attrs = journal.header.labels.attrs
    assert (attrs["units"], attrs["limit"], attrs["dims"]) == ("K", np.inf, 1)
    assert type(attrs["fill"]) is np.int8
    assert np.isnan(attrs["bad"])
    assert (journal.header.name, journal.header.total) == ("temperature", 2)
    dims, values, coordinate_attrs = journal.header.labels.coords["x"]
    assert (dims, coordinate_attrs) == (("x",), {"units": "m"})
    assert_same(values, long)
    assert type(journal.header.time.attrs["step"]) is np.float32
    assert journal.path.stat().st_size < 2000  # the long coordinate lies in a buffer
    assert writer.trajectory().to_xarray().time.attrs["units"] == "s"


def test_labels_that_change_after_the_writer_is_made_do_not_change_it(tmp_path):
    x, attrs = np.arange(3.0), {"note": ["a"]}
    with BinrefWriter(
        "u", dims=("time", "x"), coords={"x": x}, attrs=attrs, output_path=tmp_path
    ) as writer:
        x[:] = 9
        attrs["note"].append("b")
        writer.write(np.zeros(3))
    labels = only_journal(tmp_path).header.labels
    assert labels.coords["x"][1].tolist() == [0, 1, 2]
    assert labels.attrs == {"note": ["a"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dims": ("y", "x")}, "name 2 axes, .* has 3"),
        ({"dims": ("t", "y", "x"), "coords": {"x": [1.0, 2.0]}}, "'x' has 2 values .* have 4"),
        (
            {"dims": ("t", "y", "x"), "coords": {"lat": (("y", "x"), np.zeros((4, 3)))}},
            "'lat' has 4",
        ),
    ],
)
def test_labels_that_do_not_fit_the_snapshots_are_refused_at_the_first_one(
    tmp_path, options, words
):
    with BinrefWriter("u", output_path=tmp_path, **options) as writer:
        with pytest.raises(WriterError, match=words):
            writer.write(np.zeros((3, 4)))
        assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "non-empty"),
        ({"name": 7}, "non-empty"),
        ({"durability": "none"}, "durability"),
        ({"mode": "x"}, "mode"),
        ({"mode": "a"}, "name"),
        ({"max_file_size": 0}, "at least 1"),
        ({"max_file_size": -5}, "negative"),
        ({"total": -1}, "negative"),
        ({"total": 1.5}, "whole"),
        ({"compression": "zip"}, "zip"),
        ({"dims": ("x", "x")}, "differ"),
        ({"coords": {"x": {"units": "m"}}}, "no values"),
        ({"coords": {"time": {"odd": print}}}, "odd"),
        ({"attrs": {"odd": print}}, "odd"),
        ({"coords": {"x": [print]}}, "'x'"),
        ({"block": (slice(0, 2),)}, "together"),
        ({"shape": (4,)}, "together"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_before_anything_is_made(
    tmp_path, options, words
):
    with pytest.raises((ValueError, TypeError), match=words):
        BinrefWriter(output_path=tmp_path / "new", **options)
    assert names(tmp_path) == []


def test_a_single_dimension_may_be_given_as_text(tmp_path):
    with BinrefWriter("u", dims="step", coords={"step": {"units": "1"}}, output_path=tmp_path) as w:
        w.write(1.5, time=3)
    assert w.trajectory().to_xarray().step.attrs == {"units": "1"}


def test_a_named_writer_holds_one_shape_and_type(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write(np.zeros(3))
        for other in (np.zeros(4), np.zeros((3, 1)), np.zeros(3, "f4"), np.zeros(3, complex)):
            with pytest.raises(WriterError, match=r"'u' holds snapshots of shape \(3,\)") as caught:
                writer.write(other)
            assert ("cast it with .astype('float64')" in str(caught.value)) == (other.dtype == "f4")
        writer.write(np.ones(3, ">f8"))
    assert stored(only_journal(tmp_path)).tolist() == [[0] * 3, [1] * 3]


def test_a_closed_writer_says_so_and_closing_again_is_harmless(tmp_path):
    writer = BinrefWriter("u", output_path=tmp_path)
    writer.write([1.0])
    writer.close()
    writer.close()
    with pytest.raises(WriterError, match="closed"):
        writer.write([1.0])
    assert writer.trajectory().load().tolist() == [[1.0]]
    assert "1 snapshots, closed" in repr(writer)


def test_a_writer_that_wrote_nothing_leaves_nothing(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        with pytest.raises(WriterError, match="no snapshot"):
            writer.trajectory()
        with pytest.raises(WriterError, match="no snapshot"):
            writer.stack()
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["a/b", "..", "température", "x" * 300, "a\nb", " ", "-", "\0"])
def test_any_name_is_kept_in_the_journal_and_none_escapes_the_folder(tmp_path, name):
    (tmp_path / "in").mkdir()
    with BinrefWriter(name, output_path=tmp_path / "in") as writer:
        writer.write([1.0])
    assert only_journal(tmp_path / "in").header.name == name
    assert names(tmp_path) == ["in"]


def test_dims_in_the_order_of_fortran_are_told(tmp_path):
    with BinrefWriter("u", dims=("y", "x", "time"), output_path=tmp_path / "a") as writer:
        with pytest.warns(RuntimeWarning, match=r"is \('time', 'y', 'x'\) meant\?") as caught:
            writer.write(np.zeros((2, 3)), time=0.0)
        assert caught[0].filename == __file__
        writer.write(np.zeros((2, 3)), time=1.0)  # once is enough
    with BinrefWriter("u", dims=("init", "time"), output_path=tmp_path / "b") as writer:
        writer.write(np.zeros(3))  # without times nothing is amiss
    x = np.arange(3.0)
    with (
        BinrefWriter(
            "u", dims=("y", "x", "t"), coords={"x": x}, output_path=tmp_path / "c"
        ) as writer,
        pytest.raises(WriterError, match=r"of which 'y' is along the snapshots"),
    ):
        writer.write(np.zeros((2, 3)))


def test_dims_without_an_order_are_refused(tmp_path):
    with pytest.raises(TypeError, match="a sequence of names, in order"):
        BinrefWriter("u", dims={"time", "y", "x"}, output_path=tmp_path)


def test_a_coordinate_that_is_the_wrong_way_round_is_named(tmp_path):
    with pytest.raises(
        WriterError, match=r"coordinate 'x' is neither an array nor \(dims, values\)"
    ):
        BinrefWriter("u", coords={"x": (np.arange(3.0), "x")}, output_path=tmp_path)


# --- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_times", "wanted"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0.1, np.float32(0.5), np.int8(3)], [0.1, 0.5, 3]),
        ([-np.inf, 0.0], [-np.inf, 0]),
        ([np.array(1.5), True + 1, 2**53], [1.5, 2, 2**53]),
    ],
)
def test_numbers_of_any_kind_are_times(tmp_path, given_times, wanted):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for moment in given_times:
            writer.write([1.0], time=moment)
    np.testing.assert_array_equal(writer.trajectory().times, wanted)


def test_dates_of_any_kind_are_times_in_utc(tmp_path):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = [
        np.datetime64("2024-05-01T10:00"),
        datetime.datetime(2024, 5, 1, 10),
        datetime.datetime(2024, 5, 1, 12, tzinfo=zone),
        pd.Timestamp("2024-05-01T12:00:00.000000001", tz=zone),
        np.array("2024-05-01T10:00", "M8[s]"),
    ]
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for moment in moments:
            writer.write([1.0], time=moment)
    found = writer.trajectory().to_xarray().time.values
    wanted = np.full(5, "2024-05-01T10:00", "M8[ns]")
    wanted[3] += 1
    np.testing.assert_array_equal(found, wanted)
    header = only_journal(tmp_path).header.time
    assert header.attrs["units"] == "nanoseconds since 1970-01-01"


@pytest.mark.parametrize(
    "moment",
    ["1.5", [1.0], 1j, None.__class__, np.timedelta64(1, "s"), True, datetime.date(2024, 1, 1)],
)
def test_what_is_no_time_is_refused(tmp_path, moment):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        with pytest.raises(WriterError, match="time must be"):
            writer.write([1.0], time=moment)
        assert names(tmp_path) == []


@pytest.mark.parametrize("moment", [np.nan, np.float32("nan"), np.datetime64("NaT"), pd.NaT])
def test_a_time_that_is_not_a_number_is_refused(tmp_path, moment):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        with pytest.raises(WriterError, match=r"'u': the time is .*leave time= out"):
            writer.write([1.0], time=moment)
        assert names(tmp_path) == []


@pytest.mark.parametrize(
    "moment",
    [2**53 + 1, np.uint64(2**64 - 1), np.datetime64("3000-01-01"), np.datetime64("0001-01-01")],
)
def test_a_time_that_would_be_changed_is_refused(tmp_path, moment):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        with pytest.raises(WriterError, match="cannot be stored exactly"):
            writer.write([1.0], time=moment)
        assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["u", None])
@pytest.mark.parametrize("dims", [("t", "x"), None])
def test_times_are_given_once(tmp_path, name, dims):
    along = "time" if dims is None else "t"
    message = (
        rf"time= of each write.*values of '{along}'.*coords={{'{along}': {{\"units\": \.\.\.}}}}"
    )
    known = {along: [0.0, 1.0], "x": [5.0]} if dims else {along: [0.0, 1.0]}
    with BinrefWriter(name, dims=dims, coords=known, output_path=tmp_path / "known") as writer:
        with pytest.raises(WriterError, match=message):
            writer.write([1.0], time=7.0)
        assert not list((tmp_path / "known").iterdir()), "nothing has been written"
        writer.write([1.0])  # but these times alone are good
        writer.write([2.0])
    assert writer.trajectory().to_xarray()[along].values.tolist() == [0.0, 1.0]


def test_times_are_given_once_where_a_writer_goes_on(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1.0], time=0.5)
    with pytest.raises(WriterError, match="times of their own"):
        BinrefWriter("u", coords={"time": [0.0, 1.0]}, mode="a", output_path=tmp_path)
    with BinrefWriter("u", coords={"time": {"units": "s"}}, mode="a", output_path=tmp_path) as more:
        more.write([2.0], time=1.0)
    assert more.trajectory().times.tolist() == [0.5, 1.0]


def test_times_do_not_come_and_go_nor_change_their_kind(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1.0], time=0.5)
        with pytest.raises(WriterError, match="has no time"):
            writer.write([1.0])
        with pytest.raises(WriterError, match="numbers only, or dates only"):
            writer.write([1.0], time=np.datetime64("2024-01-01"))
        writer.write([2.0], time=1)
    with BinrefWriter("v", output_path=tmp_path) as writer:
        writer.write([1.0])
        with pytest.raises(WriterError, match="has a time"):
            writer.write([1.0], time=0.5)
    assert [journal.count for journal in journals(tmp_path)] == [2, 1]


# --- trajectory and stack -----------------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_trajectory_is_what_was_written_so_far_and_stays_it(tmp_path, compression):
    with BinrefWriter(
        "u", output_path=tmp_path, max_file_size=50, compression=compression
    ) as writer:
        for step in range(5):
            writer.write(np.full(3, step, "f8"), time=step)
        early = writer.trajectory()
        for step in range(5, 9):
            writer.write(np.full(3, step, "f8"), time=step)
    assert early.load()[:, 0].tolist() == early.times.tolist() == [0, 1, 2, 3, 4]
    assert writer.trajectory().load()[:, 0].tolist() == list(range(9))


def test_a_trajectory_of_many_shapes_is_refused(tmp_path):
    with BinrefWriter(output_path=tmp_path) as writer:
        writer.write(np.zeros(2))
        writer.write(np.zeros(3))
        with pytest.raises(WriterError, match="from 1 on have shape"):
            writer.trajectory()


def test_a_stack_is_one_byte_range_or_an_error_that_says_why(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for step in range(4):
            writer.write(np.full(3, step, "i4"))
        stack = writer.stack()
        writer.write(np.full(3, 9, "i4"))
    assert isinstance(stack, BinrefArray)
    assert (stack.shape, stack.buffer) == ((4, 3), f"{stack.path}:0")
    assert stack.load()[:, 0].tolist() == [0, 1, 2, 3]
    assert writer.stack().shape == (5, 3)
    for options, words in [
        ({"max_file_size": 12}, "2 segments"),
        ({"compression": "lz4"}, "compressed"),
        ({"block": (slice(0, 3),), "shape": (6,)}, "one block"),
    ]:
        with BinrefWriter("v", output_path=tmp_path, **options) as writer:
            writer.write(np.zeros(3, "i4"))
            writer.write(np.zeros(3, "i4"))
            with pytest.raises(WriterError, match=words):
                writer.stack()


def test_asking_for_a_trajectory_reads_nothing(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for step in range(100):
            writer.write(np.zeros(10_000), time=float(step))
        made = writer.trajectory()
        made.to_dask()  # what is imported once is not counted
        before = bytes_read()
        made = writer.trajectory()
        repr(made), repr(writer), made[3:50:2], made.to_dask(), writer.stack()
        assert bytes_read() - before < 300


# --- blocks, reruns, going on -------------------------------------------------------------------


def test_a_block_says_where_it_lies(tmp_path):
    block = (slice(2, 4), slice(None))
    with BinrefWriter("u", output_path=tmp_path, block=block, shape=(4, 3)) as writer:
        with pytest.raises(WriterError, match=r"the block has shape \(2, 3\)"):
            writer.write(np.zeros((4, 3)))
        writer.write(np.zeros((2, 3)))
        with pytest.raises(WriterError, match=r"the block has shape \(2, 3\)"):
            writer.write(np.zeros((3, 3)))
    found = only_journal(tmp_path).header.block
    assert (found.start, found.stop, found.shape) == ((2, 0), (4, 3), (4, 3))
    with pytest.raises(InvalidReferenceError):
        BinrefWriter("u", output_path=tmp_path, block=(slice(0, 9), slice(None)), shape=(4, 3))


def test_a_rerun_overwrites_nothing_and_is_a_run_of_its_own(tmp_path):
    refs = []
    for run_number in range(3):
        for name in ("u", "v"):
            with BinrefWriter(name, output_path=tmp_path) as writer:
                refs += [(writer.write([float(run_number)]), run_number)]
    assert all(ref[0] == number for ref, number in refs)
    runs = [journal.header.run for journal in journals(tmp_path)]
    assert runs[0] == runs[1] != runs[2] == runs[3] != runs[4] == runs[5]


def test_writers_of_a_call_belong_to_its_run_and_are_closed_at_its_end(tmp_path):
    call = Call(tmp_path / "run_a", tmp_path, "a", time.time_ns())
    call.run_directory.mkdir()
    with entering(call):
        writer = BinrefWriter("u")
        ref = writer.write([1.0])
        BinrefWriter("done").close()
        assert call.resources == [writer]
        assert only_journal(call.run_directory).state == "writing"
        assert only_journal(call.run_directory).header.run == "a"
    assert only_journal(call.run_directory).state == "complete"
    assert ref.directory == call.run_directory
    with pytest.raises(WriterError, match="closed"):
        writer.write([1.0])


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("end", ["closed", "killed", "torn"])
def test_mode_a_goes_on_after_the_last_complete_snapshot(tmp_path, compression, end):
    code = """
        import os, sys
        import numpy as np
        from binref_sci.writer import BinrefWriter
        compression = None if sys.argv[2] == "None" else sys.argv[2]
        writer = BinrefWriter("u", output_path=sys.argv[1], compression=compression,
                              dims=("time", "x"), attrs={"units": "K"}, max_file_size=200)
        for step in range(20):
            writer.write(np.full(3, step, "f8"), time=step)
        if sys.argv[3] == "closed":
            writer.close()
        if sys.argv[3] == "torn":  # a snapshot begun, and its time not
            os.pwrite(writer._stream.tail.fd, b"torn" * 5, writer._stream.tail.position)
        os._exit(0)
    """
    run(code, tmp_path, compression, end)
    (before,) = journals(tmp_path)
    assert before.state == ("complete" if end == "closed" else "interrupted")
    assert before.count == 20
    for part in range(2):
        with BinrefWriter("u", output_path=tmp_path, compression=compression, mode="a") as writer:
            assert len(writer.trajectory()) == 20 + 3 * part
            for step in range(3):
                writer.write(np.full(3, 20 + 3 * part + step, "f8"), time=20 + 3 * part + step)
    journal = only_journal(tmp_path)
    assert (journal.state, journal.count, journal.header.id) == ("complete", 26, before.header.id)
    assert journal.header.run == before.header.run
    assert journal.header.labels == before.header.labels
    made = Trajectory.from_journal(journal)
    assert made.load()[:, 0].tolist() == made.times.tolist() == list(range(26))


def test_mode_a_takes_the_newest_of_its_name_and_begins_one_if_there_is_none(tmp_path):
    for value in (1.0, 2.0):
        with BinrefWriter("u", output_path=tmp_path) as writer:
            writer.write([value])
    with BinrefWriter("u", output_path=tmp_path, mode="a") as writer:
        assert writer.stack().load().tolist() == [[2.0]]
        writer.write([3.0])
    with BinrefWriter("new", output_path=tmp_path, mode="a") as writer:
        writer.write([4.0])
    assert [stored(journal).ravel().tolist() for journal in journals(tmp_path)] == [
        [1],
        [2, 3],
        [4],
    ]


def test_mode_a_refuses_what_does_not_go_on(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as living:
        living.write([1.0], time=0)
        before = descriptors_at_rest()
        with pytest.raises(WriterError, match="living writer"):
            BinrefWriter("u", output_path=tmp_path, mode="a")
        living.write([2.0], time=1)
    with pytest.raises(WriterError, match="compression"):
        BinrefWriter("u", output_path=tmp_path, mode="a", compression="lz4")
    assert open_descriptors() <= before
    with BinrefWriter("u", output_path=tmp_path, mode="a") as writer:
        with pytest.raises(WriterError, match="shape"):
            writer.write([1.0, 2.0], time=2)
        with pytest.raises(WriterError, match="no time"):
            writer.write([3.0])
        with pytest.raises(WriterError, match="living writer"):
            BinrefWriter("u", output_path=tmp_path, mode="a")
    assert stored(only_journal(tmp_path)).tolist() == [[1], [2]]


def test_mode_a_goes_on_with_what_was_written_by_hand(tmp_path):
    (tmp_path / "u.raw").write_bytes(np.arange(4.0).tobytes())
    (tmp_path / "by-hand.binref.jsonl").write_text(
        '{"binref_journal": 1, "name": "u"}\n'
        '{"segment": {"buffer": "u.raw", "shape": [2], "dtype": "float64"}}'
    )
    with BinrefWriter("u", output_path=tmp_path, mode="a") as writer:
        writer.write([4.0, 5.0])
    journal = only_journal(tmp_path)
    assert journal.path.name == "by-hand.binref.jsonl"
    assert stored(journal).ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_going_on_with_one_variable_leaves_it_in_the_run_of_the_others(tmp_path):
    code = """
        import sys
        from binref_sci.writer import BinrefWriter
        for name in ("u", "v"):
            with BinrefWriter(name, output_path=sys.argv[1], mode=sys.argv[2]) as writer:
                writer.write([1.0])
            if sys.argv[2] == "a":
                break
    """
    run(code, tmp_path, "w")
    run(code, tmp_path, "a")
    found = journals(tmp_path)
    assert sorted(journal.count for journal in found) == [1, 2]
    assert len({journal.header.run for journal in found}) == 1


# --- states and ends ----------------------------------------------------------------------------


def test_writing_complete_and_interrupted_are_told_apart(tmp_path):
    writer = BinrefWriter("u", output_path=tmp_path)
    writer.write([1.0])
    assert only_journal(tmp_path).state == "writing"
    writer.close()
    assert only_journal(tmp_path).state == "complete"


def test_a_block_that_an_exception_ends_is_interrupted_and_keeps_its_snapshots(tmp_path):
    writer = BinrefWriter("u", output_path=tmp_path)
    writer.write([1.0], time=0)
    with pytest.raises(ZeroDivisionError), writer:
        raise ZeroDivisionError
    journal = only_journal(tmp_path)
    assert (journal.state, journal.count) == ("interrupted", 1)
    assert stored(journal).tolist() == [[1.0]]


def test_a_writer_that_is_forgotten_closes_itself(tmp_path):
    before = descriptors_at_rest()
    writer = BinrefWriter("u", output_path=tmp_path)
    writer.write([1.0])
    gone = weakref.ref(writer)
    del writer
    gc.collect()
    assert gone() is None
    assert only_journal(tmp_path).state == "complete"
    assert open_descriptors() == before


def test_a_program_that_ends_closes_its_writers(tmp_path):
    code = """
        import sys
        from binref_sci.writer import BinrefWriter
        writer = BinrefWriter("u", output_path=sys.argv[1])
        cycle = [writer]
        cycle.append(cycle)
        writer.write([1.0])
    """
    run(code, tmp_path)
    assert only_journal(tmp_path).state == "complete"


def test_descriptors_at_the_end_are_those_of_the_start(tmp_path):
    before = descriptors_at_rest()
    for compression in COMPRESSIONS:
        with BinrefWriter(
            "u", output_path=tmp_path, compression=compression, max_file_size=100
        ) as writer:
            for step in range(50):
                writer.write(np.zeros(7), time=step)
            assert open_descriptors() - before <= 4
    assert open_descriptors() == before


def test_power_durability_writes_the_same(tmp_path):
    with BinrefWriter("u", output_path=tmp_path, durability="power", max_file_size=50) as writer:
        for step in range(5):
            writer.write(np.full(3, step, "f8"), time=step)
    journal = only_journal(tmp_path)
    assert (journal.state, stored(journal)[:, 0].tolist()) == ("complete", [0, 1, 2, 3, 4])


# --- cost ---------------------------------------------------------------------------------------


def test_memory_is_flat_while_streaming_when_references_are_not_kept(tmp_path):
    field = np.zeros(16)
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for step in range(3000):
            writer.write(field, time=float(step))
        gc.collect()
        grown = []  # each time, if each snapshot leaves something
        for _ in range(3):
            before = resident()
            for step in range(10_000):
                writer.write(field, time=float(step))
            grown.append(resident() - before)
        assert min(grown) < 170 * 1024
        assert len(writer.trajectory()) == 33_000
    assert sum(path.stat().st_size for path in tmp_path.glob(f"*{SUFFIX}")) < 1000


def test_a_kept_reference_costs_little(tmp_path):
    count, field = 100_000, np.zeros(1)
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write(field)
        gc.collect()
        before = resident()
        refs = [writer.write(field) for _ in range(count)]
        assert (resident() - before) / count < 250
        assert len(refs) == count


@pytest.mark.skipif(sys.platform != "linux", reason="imports are counted in a process")
def test_a_solver_that_writes_imports_neither_xarray_nor_dask(tmp_path):
    code = """
        import sys
        from binref_sci import BinrefWriter
        with BinrefWriter("u", output_path=sys.argv[1], total=3) as writer:
            for step in range(3):
                writer.write([1.0], time=step)
        heavy = {"xarray", "dask", "pandas", "matplotlib", "fastapi", "IPython", "rich"}
        print(*(heavy & set(sys.modules)))
    """
    assert run(code, tmp_path).strip() == ""


# --- progress -----------------------------------------------------------------------------------


def test_progress_is_silent_where_nobody_looks(tmp_path, capfd):
    with BinrefWriter("u", output_path=tmp_path, total=3) as writer:
        for step in range(3):
            writer.write([1.0])
            time.sleep(0.2 * (step == 1))
    assert capfd.readouterr() == ("", "")


def test_a_terminal_that_goes_away_does_not_stop_the_solver(tmp_path):
    code = """
        import os, pty, sys, time
        terminal, inner = pty.openpty()
        os.dup2(inner, 2)
        os.close(inner)
        from binref_sci.writer import BinrefWriter
        with BinrefWriter("u", output_path=sys.argv[1], total=6) as writer:
            for step in range(6):
                writer.write([float(step)])
                time.sleep(0.15)
                if step == 4:
                    shown = os.read(terminal, 100_000)
                    os.close(terminal)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        print("5/6" in shown.decode(), len(writer.trajectory()))
    """
    assert run(code, tmp_path).split() == ["True", "6"]


def test_a_missing_standard_error_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with BinrefWriter("u", output_path=tmp_path, total=1) as writer:
        writer.write([1.0])
    assert os.listdir(tmp_path)  # noqa: PTH208


def test_a_single_value_for_a_dimension_is_refused_before_a_byte_is_written(tmp_path):
    writer = BinrefWriter("u", dims=("time", "x"), coords={"x": 5}, output_path=tmp_path)
    with pytest.raises(WriterError, match="'x' is a dimension"):
        writer.write(np.zeros(3))
    writer.close()
    assert not list(tmp_path.glob("*.bin"))


ROUND: dict[str, Any] = {}
ROUND["round"] = ROUND


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"coords": 5}, TypeError, "coords must be a dict"),
        ({"attrs": 5}, TypeError, "attrs must be a dict"),
        ({"dims": 5}, TypeError, "dims must be a sequence"),
        ({"run_id": 5}, WriterError, "run_id must be a non-empty string"),
        ({"name": "a\ud800"}, WriterError, "name: .* lone surrogate"),
        ({"attrs": {"units": "\ud800"}}, WriterError, "'units': .* lone surrogate"),
        ({"attrs": {"\ud800": "m"}}, WriterError, "lone surrogate"),
        ({"dims": ("\ud800",)}, WriterError, "lone surrogate"),
        ({"attrs": ROUND}, WriterError, "contain themselves"),
    ],
)
def test_an_argument_that_cannot_be_kept_is_refused_at_once(tmp_path, arguments, error, words):
    with pytest.raises(error, match=words):
        BinrefWriter(**{"name": "u", "output_path": tmp_path} | arguments)
    assert not list(tmp_path.iterdir())
