"""The journal as a format: written by hand, damaged, moved, and read while it grows."""

import json
import shutil
import tempfile
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.errors import BinrefError, BufferNotFoundError, InvalidReferenceError, JournalError
from binref_sci.journal import block_of, read_journal
from binref_sci.trajectory import Trajectory
from binref_sci.writer import BinrefWriter

HEAD = {"binref_journal": 1, "name": "u"}
TEN = np.arange(10.0)
SEGMENT = {"segment": {"buffer": "u.raw", "shape": [2], "dtype": "float64"}}


def by_hand(folder, *lines, end="\n", data=TEN, name="u.binref.jsonl"):
    """What a compiled solver does: raw bytes, and a few lines of JSON."""
    (folder / "u.raw").write_bytes(data.tobytes())
    (folder / name).write_text("\n".join(json.dumps(line) for line in lines) + end)
    return folder / name


def contents(path):
    return Trajectory.from_journal(read_journal(path)).load()


@pytest.mark.parametrize("end", ["\n", "", "\r\n", "\n\n"], ids=repr)
def test_three_lines_written_by_hand_open(tmp_path, end):
    path = by_hand(tmp_path, HEAD, SEGMENT, {"end": {"count": 5}}, end=end)
    journal = read_journal(path)
    assert (journal.state, journal.count, journal.header.name) == ("complete", 5, "u")
    np.testing.assert_array_equal(contents(path), np.arange(10.0).reshape(5, 2))


@pytest.mark.parametrize("end", ["\n", ""], ids=repr)
def test_without_an_end_line_the_files_tell_how_many_there_are(tmp_path, end):
    path = by_hand(tmp_path, HEAD, SEGMENT, end=end, data=np.arange(11.0))
    journal = read_journal(path)
    assert (journal.state, journal.count) == ("interrupted", 5)


def test_a_journal_written_by_hand_can_say_all_that_a_writers_says(tmp_path):
    (tmp_path / "t.raw").write_bytes(np.array([0, 5, 9], "f4").tobytes())
    (tmp_path / "x.raw").write_bytes(np.arange(2.0).tobytes())
    head = {
        **HEAD,
        "labels": {
            "dims": ["time", "x"],
            "coords": {"x": {"dims": ["x"], "buffer": "x.raw", "shape": [2], "dtype": "float64"}},
            "attrs": {"units": "K", "origin": {"code": "f90"}},
        },
        "time": {"buffer": "t.raw", "dtype": "float32", "attrs": {"units": "s"}},
        "total": 7,
    }
    first = {"segment": {"buffer": "u.raw", "offset": 16, "shape": [2], "dtype": "float64"}}
    path = by_hand(tmp_path, head, first)
    made = Trajectory.from_journal(read_journal(path)).to_xarray()
    assert made.dims == ("time", "x")
    assert made.attrs == {"units": "K", "origin": {"code": "f90"}}
    assert made.time.values.tolist() == [0, 5, 9]
    assert made.time.attrs == {"units": "s"}
    assert made.x.values.tolist() == [0, 1]
    assert made[1].values.tolist() == [4, 5]


def test_a_journal_moves_with_its_directory(tmp_path):
    (tmp_path / "a").mkdir()
    path = by_hand(tmp_path / "a", HEAD, SEGMENT)
    wanted = contents(path)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    (tmp_path / "a").rename(tmp_path / "moved")
    for folder in ("copy", "moved"):
        np.testing.assert_array_equal(contents(tmp_path / folder / path.name), wanted)


def test_a_torn_last_line_is_left_out(tmp_path):
    path = by_hand(tmp_path, HEAD, SEGMENT)
    whole = path.read_bytes()
    second = json.dumps({"segment": {**SEGMENT["segment"], "start": 4, "buffer": "v.raw"}})
    for length in range(len(second)):
        path.write_bytes(whole + second[:length].encode())
        assert read_journal(path).count == 5


def test_the_least_of_data_and_times_counts(tmp_path):
    head = {**HEAD, "time": {"buffer": "t.raw", "dtype": "float64"}}
    path = by_hand(tmp_path, head, SEGMENT)
    for times, count in [(0, 0), (7, 0), (8, 1), (33, 4), (40, 5), (800, 5)]:
        (tmp_path / "t.raw").write_bytes(bytes(times))
        assert read_journal(path).count == count


def test_after_a_loss_of_power_earlier_segments_count_no_further_than_the_times(tmp_path):
    head = {**HEAD, "time": {"buffer": "t.raw", "dtype": "float64"}}
    second = {"segment": {**SEGMENT["segment"], "start": 3, "offset": 48}}
    path = by_hand(tmp_path, head, SEGMENT, second)
    (tmp_path / "t.raw").write_bytes(bytes(2 * 8))
    journal = read_journal(path)
    assert journal.counts == (2, 0)
    assert len(Trajectory.from_journal(journal).load()) == 2


def test_after_a_loss_of_power_records_without_their_frames_do_not_count(tmp_path):
    frame = lz4.frame.compress(np.arange(2.0).tobytes())
    records = np.array([[n * len(frame), len(frame)] for n in range(6)], "<i8")
    (tmp_path / "r.raw").write_bytes(records.tobytes() + b"torn")
    head = {**HEAD, "compression": "lz4"}
    segment = {"segment": {**SEGMENT["segment"], "table": "r.raw"}}
    path = by_hand(tmp_path, head, segment)
    for frames in range(7):
        (tmp_path / "u.raw").write_bytes(frame * frames + b"torn")
        assert read_journal(path).count == frames
        assert len(contents(path)) == frames


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "no complete line"),
        ([[1]], "not a JSON object"),
        ([{"name": "u"}], "no journal header"),
        ([{"binref_journal": 2}], "version 2"),
        ([{**HEAD, "compression": "zip"}], "zip"),
        ([{**HEAD, "name": 7}], "name is 7"),
        ([{**HEAD, "labels": []}], "malformed"),
        ([{**HEAD, "labels": {"attrs": []}}], "malformed"),
        ([{**HEAD, "labels": {"dims": ["x", "x"]}}], "differ"),
        ([{**HEAD, "time": "t.raw"}], "malformed"),
        ([{**HEAD, "time": {"buffer": 7}}], "text"),
        ([{**HEAD, "total": -1}], "negative"),
        ([{**HEAD, "block": {"start": [0], "stop": [9], "shape": [4]}}], "0 to 4"),
        ([HEAD, {"segment": {}}], "buffer"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "offset": -8}}], "negative"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "offset": 1.5}}], "whole number"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "start": 1}}], "begin at 0"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "shape": [-2]}}], "negative"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "dtype": "object"}}], "object"),
        ([HEAD, {"segment": {**SEGMENT["segment"], "table": "r.raw"}}], "table"),
        ([{**HEAD, "compression": "lz4"}, SEGMENT], "table"),
        ([HEAD, SEGMENT, {"end": {}}], "count"),
        ([HEAD, SEGMENT, {"end": {"count": -1}}], "negative"),
        (
            [HEAD, SEGMENT, SEGMENT, {"segment": {**SEGMENT["segment"], "start": 3}}, SEGMENT],
            "back",
        ),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, str) else None,
)
def test_a_journal_that_contradicts_itself_is_an_error_that_says_how(tmp_path, lines, words):
    path = by_hand(tmp_path, *lines)
    with pytest.raises(JournalError, match=words):
        read_journal(path)


def test_a_line_that_is_not_json_is_named(tmp_path):
    path = by_hand(tmp_path, HEAD, SEGMENT)
    with path.open("ab") as file:
        file.write(b"{torn}\n")
    with pytest.raises(JournalError, match="line 3"):
        read_journal(path)


@pytest.mark.parametrize("place", ["segment", "time", "coordinate", "table"])
def test_a_journal_leads_to_no_file_outside_its_directory(tmp_path, place):
    (tmp_path / "outside.bin").write_bytes(bytes(64))
    inner = tmp_path / "inner"
    inner.mkdir()
    away = "../outside.bin"
    head, segment = dict(HEAD), dict(SEGMENT["segment"])
    if place == "segment":
        segment["buffer"] = away
    elif place == "time":
        head["time"] = {"buffer": away}
    elif place == "table":
        head["compression"], segment["table"] = "lz4", away
    else:
        coordinate = {"dims": ["x"], "buffer": away, "shape": [2], "dtype": "int8", "attrs": {}}
        head["labels"] = {"coords": {"x": coordinate}}
    path = by_hand(inner, head, {"segment": segment})
    with pytest.raises((InvalidReferenceError, JournalError), match="outside"):
        read_journal(path)
    with pytest.raises((InvalidReferenceError, JournalError), match="outside"):
        BinrefWriter("u", output_path=inner, mode="a", compression=head.get("compression"))
    assert (tmp_path / "outside.bin").read_bytes() == bytes(64)


def test_a_missing_journal_or_buffer_is_named(tmp_path):
    with pytest.raises(BufferNotFoundError, match=r"nothing\.binref"):
        read_journal(tmp_path / "nothing.binref.jsonl")
    with pytest.raises(BufferNotFoundError):
        read_journal(tmp_path)
    path = by_hand(tmp_path, HEAD, SEGMENT)
    (tmp_path / "u.raw").unlink()
    with pytest.raises(BufferNotFoundError, match=r"u\.raw"):
        read_journal(path)


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["u.raw", "../u.raw", "float64", "object", "lz4", "", "a\0b", "x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "buffer",
                    "shape",
                    "dtype",
                    "dims",
                    "coords",
                    "attrs",
                    "count",
                    "binref:type",
                    "data",
                ]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
entries = ["run", "id", "created_ns", "name", "labels", "total", "compression", "time", "block"]
parts = ["start", "buffer", "offset", "shape", "dtype", "table", "first_record"]


@given(
    st.dictionaries(st.sampled_from(entries), json_values, max_size=2),
    st.dictionaries(st.sampled_from(parts), json_values, max_size=2),
    st.one_of(st.none(), json_values),
)
def test_whatever_a_journal_says_the_error_is_a_clean_one(head, segment, end):
    lines = [{**HEAD, **head}, {"segment": {**SEGMENT["segment"], **segment}}]
    lines += [] if end is None else [{"end": end}]
    with tempfile.TemporaryDirectory() as folder:
        path = by_hand(Path(folder), *lines)
        try:
            journal = read_journal(path)
            Trajectory.from_journal(journal).load()
            journal.times()
        except (BinrefError, MemoryError):
            pass


@given(st.data())
def test_whatever_damage_a_journal_has_the_error_is_a_clean_one(data):
    with tempfile.TemporaryDirectory() as folder:
        path = by_hand(Path(folder), HEAD, SEGMENT, {"end": {"count": 5}})
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
        path.write_bytes(content)
        try:
            contents(path)
        except (BinrefError, MemoryError):
            pass


@pytest.mark.parametrize(
    ("block", "shape", "words"),
    [
        ((slice(0, 2),), None, "together"),
        (None, (4,), "together"),
        ((slice(0, 2),), (4, 4), "1 slices"),
        (slice(0, 2), (4, 4), "1 slices"),
        ((slice(0, 4, 2),), (4,), "step 1"),
        ((3,), (4,), "slice"),
        ((slice(-2, None),), (4,), "negative"),
        ((slice(0, 5),), (4,), "0 to 4"),
        ((slice(3, 2),), (4,), "0 to 4"),
        ((slice(0, 1.5),), (4,), "whole number"),
    ],
)
def test_a_block_that_does_not_lie_in_the_field_is_refused(block, shape, words):
    with pytest.raises(InvalidReferenceError, match=words):
        block_of(block, shape)


def test_a_block_is_kept_in_whole_numbers():
    made = block_of((slice(np.int64(1), 3), slice(None)), (4, np.int32(5)))
    assert (made.start, made.stop, made.shape) == ((1, 0), (3, 5), (4, 5))
    assert made.extent == (2, 5)
    assert block_of(slice(1, 3), (4,)).extent == (2,)
    assert block_of(None, None) is None


def test_a_million_snapshots_open_at_once(tmp_path):
    count, nbytes = 1_000_000, 16384
    for name, size in (("u.raw", count * nbytes), ("t.raw", count * 8)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    head = {**HEAD, "time": {"buffer": "t.raw", "dtype": "float64"}}
    segment = {"buffer": "u.raw", "shape": [nbytes], "dtype": "int8"}
    path = tmp_path / "u.binref.jsonl"
    path.write_text(json.dumps(head) + "\n" + json.dumps({"segment": segment}) + "\n")
    journal = read_journal(path)
    assert journal.count == count
    assert path.stat().st_size < 1000
    assert Trajectory.from_journal(journal)[-1][:3].tolist() == [0, 0, 0]
