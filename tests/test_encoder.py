"""The encoder: values to text in pieces."""

import datetime
import enum
import math
import os
import tracemalloc
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import BaseModel, Field, computed_field, field_serializer

from binref_sci import BinrefArray, BinrefWriter, Trajectory, wire
from binref_sci.dtypes import DTYPES
from binref_sci.errors import (
    BufferNotFoundError,
    ComponentError,
    FormatError,
    TruncatedBufferError,
)
from binref_sci.runtime import Array, Float64, models
from binref_sci.runtime.encoder import Encoding, encode
from tests.decoding import decode

FORMATS = ["json", "json+base64", "json+binref"]
FORMS = [(name, None) for name in FORMATS] + [("json+base64", "lz4"), ("json+binref", "lz4")]


def text(value, output_format="json", **more):
    return b"".join(encode(value, output_format, **more))


def snapshots(folder, count=5, shape=(2, 2), **more):
    with BinrefWriter(output_path=folder, **more) as writer:
        for number in range(count):
            writer.write(np.full(shape, number, float))
    return writer.trajectory()


def bytes_read():
    """Bytes this process has asked the system for, in all."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise AssertionError("no rchar in /proc/self/io")


def same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(np.asarray(found), expected)
    else:
        assert found == expected


@settings(deadline=None, max_examples=60)
@given(data=st.data(), form=st.sampled_from(FORMS))
def test_nested_values_come_back_equal_in_every_format(tmp_path_factory, data, form):
    arrays = st.sampled_from(sorted(DTYPES)).flatmap(
        lambda name: npst.arrays(
            DTYPES[name], npst.array_shapes(min_dims=0, max_side=3, min_side=0)
        )
    )
    plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5)
    value = data.draw(
        st.dictionaries(
            st.text(max_size=3),
            st.recursive(
                plain | arrays,
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=3), inner, max_size=3)
                ),
                max_leaves=8,
            ),
            max_size=4,
        )
    )
    folder = tmp_path_factory.mktemp("run")
    body = text(value, form[0], directory=folder, compression=form[1])
    same(decode(body, directory=folder), value)
    lazily = decode(body, directory=folder, lazy=True)
    same(decode(text(lazily, "json+binref", directory=folder), directory=folder), value)


def test_everything_a_model_may_say_about_its_fields_counts(tmp_path):
    class Colour(enum.Enum):
        RED = "red"

    class Inner(BaseModel):
        w: Array[(None,), Float64]

    class Out(BaseModel):
        when: datetime.datetime
        colour: Colour
        amount: Decimal
        where: Path
        inner: Inner
        anything: Any
        pair: tuple[int, Array[(), Float64]]
        hidden: int = Field(1, exclude=True)
        renamed: int = Field(2, serialization_alias="new")
        shouted: str = "a"

        model_config = {"serialize_by_alias": True}

        @computed_field
        @property
        def double(self) -> float:
            return 2.5

        @field_serializer("shouted")
        def shout(self, value):
            return value.upper()

    models.prepare(Out, {})
    made = Out(
        when=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        colour=Colour.RED,
        amount="1.5",
        where="a/b",
        inner={"w": [1, 2]},
        anything={"array": np.array([1, 2]), "number": np.int64(3), "list": [np.zeros(1)]},
        pair=(1, 2.0),
    )
    for form, compression in FORMS:
        found = decode(
            text(made, form, directory=tmp_path, compression=compression), directory=tmp_path
        )
        same(
            found,
            {
                "when": "2026-01-02T00:00:00Z",
                "colour": "red",
                "amount": "1.5",
                "where": "a/b",
                "inner": {"w": np.array([1.0, 2.0])},
                "anything": {"array": np.array([1, 2]), "number": 3, "list": [np.zeros(1)]},
                "pair": [1, np.array(2.0)],
                "new": 2,
                "shouted": "A",
                "double": 2.5,
            },
        )


def test_plain_numbers_that_json_lacks_are_written_as_in_arrays():
    class Out(BaseModel):
        x: float
        y: list[float]
        z: dict[str, Any]

    models.prepare(Out, {})
    made = Out(x=math.inf, y=[-math.inf, math.nan, 1.0], z={"a": [math.inf]})
    assert orjson.loads(text(made)) == {
        "x": "Infinity",
        "y": ["-Infinity", None, 1.0],
        "z": {"a": ["Infinity"]},
    }


def test_text_that_looks_like_a_mark_is_only_text():
    made = Encoding({"a": np.zeros(1)}, "json")
    mark = made._skeleton.text.split(b'"')[3].decode()
    same(decode(text({mark: mark, "x": [mark, np.ones(1)]})), {mark: mark, "x": [mark, np.ones(1)]})


@pytest.mark.parametrize(
    "value", [{"x": object()}, {"x": 2**64}, {"x": "\ud800"}, {"x": np.array([object()])}]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_json_cannot_hold_is_the_components_fault(value, tmp_path):
    for form in FORMATS:
        with pytest.raises((ComponentError, TypeError)):
            text(value, form, directory=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("form", "compression"), [("xml", None), ("json", "zip"), ("JSON", None)])
def test_an_unknown_format_is_refused_with_the_known_ones(form, compression):
    with pytest.raises(FormatError, match=r"lz4|json\+base64"):
        encode({}, form, compression=compression)
    with pytest.raises(FormatError, match="run directory"):
        encode({}, "json+binref")


# ---------------------------------------------------------------- forwarding


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("folded", [True, False])
def test_arrays_on_disk_are_forwarded_though_their_files_are_gone(tmp_path, compression, folded):
    run = tmp_path / "run_1"
    many = snapshots(run, compression=compression, max_file_size=100)
    one = BinrefArray.write(np.ones(3), output_path=run)
    value = {"many": many if folded else list(many), "one": one}
    before = {entry.name: entry.read_bytes() for entry in run.iterdir()}
    for buffer in run.iterdir():
        buffer.unlink()
    body = text(value, "json+binref", directory=run, prefix="run_1/")
    assert not list(run.iterdir())
    for name, content in before.items():
        (run / name).write_bytes(content)
    back = decode(body, directory=tmp_path, lazy=True)
    assert isinstance(back["many"], Trajectory)
    np.testing.assert_array_equal(back["many"].load(), many.load())
    assert back["one"].path == f"run_1/{one.path}"


def test_forwarding_reads_nothing(tmp_path):
    many = snapshots(tmp_path, shape=(100, 1000))
    value = {"many": many, "list": list(many)}
    text(value, "json+binref", directory=tmp_path)
    start = bytes_read()
    text(value, "json+binref", directory=tmp_path)
    assert bytes_read() - start < 4096  # what looking at the counter takes


def test_a_trajectory_of_many_snapshots_is_encoded_in_little_memory(tmp_path):
    (tmp_path / "a.bin").touch()
    os.truncate(tmp_path / "a.bin", 8 * 200_000)
    many = Trajectory.from_refs(
        [
            BinrefArray.from_file("a.bin", (1,), "float64", offset=8 * n, output_path=tmp_path)
            for n in (0, 1)
        ]
    )
    many = Trajectory(
        type(many.stored)(
            many.stored.root,
            (many.segments[0].__class__("a.bin", 0, 200_000, 8),),
            many.stored.inner,
            many.stored.dtype,
        )
    )
    tracemalloc.start()
    total = sum(map(len, encode({"x": many}, "json+binref", directory=tmp_path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > 20_000_000
    assert peak < 8_000_000


def test_scattered_and_reversed_references_keep_their_places(tmp_path):
    many = snapshots(tmp_path, count=40, shape=(3,))
    order = np.random.default_rng(1).permutation(40)
    refs = [many[int(index)] for index in order]
    for value, expected in (
        (Trajectory.from_refs(refs), order),
        (refs, order),
        (many[::-1], range(39, -1, -1)),
        (many[::7], range(0, 40, 7)),
        ([refs[0]] * 3, [order[0]] * 3),
    ):
        body = text({"x": value}, "json+binref", directory=tmp_path)
        for found in (
            decode(body, directory=tmp_path),
            decode(body, directory=tmp_path, lazy=True),
        ):
            assert [float(np.asarray(each)[0]) for each in found["x"]] == list(expected)
        with pytest.warns(RuntimeWarning):
            found = decode(text({"x": value}))
        assert [float(each[0]) for each in found["x"]] == list(expected)


def test_numpy_arrays_of_one_response_share_a_buffer(tmp_path):
    text({"a": np.zeros(3), "b": [np.ones((2, 2)), np.array(1)]}, "json+binref", directory=tmp_path)
    assert len(list(tmp_path.glob("*.bin"))) == 1


def test_an_array_outside_the_output_path_is_copied_once_with_a_warning(tmp_path):
    outside, run = tmp_path / "elsewhere", tmp_path / "out" / "run_1"
    run.mkdir(parents=True)
    big = BinrefArray.write(np.arange(1 << 17, dtype=float), output_path=outside)
    many = snapshots(outside, compression="lz4")
    with pytest.warns(RuntimeWarning, match=r"1\.0 MiB .* copied") as caught:
        body = text(
            {"a": big, "b": [big, big], "c": many}, "json+binref", directory=run, prefix="run_1/"
        )
    assert len(caught) == 1
    assert sum(entry.stat().st_size for entry in run.iterdir()) < (1 << 20) + 10_000
    back = decode(body, directory=tmp_path / "out")
    np.testing.assert_array_equal(back["a"], np.arange(1 << 17))
    np.testing.assert_array_equal(back["b"][1], np.arange(1 << 17))
    np.testing.assert_array_equal(back["c"], many.load())


def test_a_shared_file_of_the_output_path_is_forwarded_as_it_is(tmp_path):
    run = tmp_path / "run_1"
    run.mkdir()
    np.arange(3.0).tofile(tmp_path / "grid.bin")
    grid = BinrefArray.from_file("grid.bin", (3,), "float64", output_path=tmp_path)
    made = Encoding({"grid": grid}, "json+binref", directory=run, prefix="run_1/")
    assert b'"grid.bin:0"' in b"".join(made.pieces())
    assert not list(run.iterdir())
    inside = b"".join(made.pieces(of_folder=True))
    (tmp_path / "grid.bin").unlink()
    run.rename(tmp_path / "moved")  # opens by itself all the same
    np.testing.assert_array_equal(decode(inside, directory=tmp_path / "moved")["grid"], [0, 1, 2])


# ---------------------------------------------------------------- inlining


@pytest.mark.parametrize("form", [("json", None), ("json+base64", None), ("json+base64", "lz4")])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_arrays_on_disk_are_inlined_with_one_warning(tmp_path, form, compression):
    many = snapshots(tmp_path, shape=(100, 100), compression=compression)
    one = BinrefArray.write(
        np.arange(700_000.0).reshape(70, 100, 100), output_path=tmp_path, compression=compression
    )
    value = {"many": many, "list": [*many, np.zeros((100, 100)), one], "one": one}
    with pytest.warns(RuntimeWarning, match=r"11\.4 MiB .*json\+binref") as caught:
        body = text(value, form[0], compression=form[1])
    assert len(caught) == 1
    back = decode(body)
    np.testing.assert_array_equal(back["many"], many.load())
    np.testing.assert_array_equal(back["one"], one.load())
    np.testing.assert_array_equal(back["list"][6], one.load())


def test_nothing_is_said_where_nothing_is_read(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for form in FORMATS:
            text({"x": np.zeros(3), "y": []}, form, directory=tmp_path)


@pytest.mark.parametrize("form", ["json", "json+base64"])
@pytest.mark.parametrize("source", ["disk", "memory"])
def test_large_arrays_are_encoded_in_flat_memory(tmp_path, form, source):
    array = np.zeros((40, 1 << 17))  # 40 MiB
    if source == "disk":
        array = BinrefArray.write(array, output_path=tmp_path)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        pieces = encode({"x": array}, form)
    largest = max(map(len, pieces))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 8 << 20
    assert peak < 24 << 20


@pytest.mark.parametrize("form", ["json", "json+base64"])
def test_missing_or_short_buffers_are_found_before_the_first_piece(tmp_path, form):
    one = BinrefArray.write(np.zeros(100), output_path=tmp_path)
    os.truncate(tmp_path / one.path, 799)
    for value in (one, [one], Trajectory.from_refs([one])):
        with pytest.raises(TruncatedBufferError, match="799 bytes"):
            encode({"x": value}, form)
    (tmp_path / one.path).unlink()
    for value in (one, [one], Trajectory.from_refs([one])):
        with pytest.raises(BufferNotFoundError, match=one.path):
            encode({"x": value}, form)


# R61
@pytest.mark.parametrize(("form", "compression"), FORMS)
def test_decoded_arrays_are_writable_and_nobody_elses(tmp_path, form, compression):
    value = {"x": np.arange(4.0), "y": [np.arange(4.0)] * 3}
    body = text(value, form, directory=tmp_path, compression=compression)
    first, second = (decode(body, directory=tmp_path) for _ in range(2))
    first["x"] *= 2
    first["y"][0] *= 2
    same(first["y"][1:], [np.arange(4.0)] * 2)
    same(second, value)


# R41
def test_offsets_beyond_four_gigabytes_are_exact(tmp_path):
    place = 2**32 + 8
    with (tmp_path / "a.bin").open("wb") as file:
        file.seek(place)
        file.write(np.float64(2.5).tobytes())
    far = BinrefArray.from_file(
        "a.bin", (), "float64", offset=np.int64(place), output_path=tmp_path
    )
    whole = BinrefArray.from_file(
        "a.bin", ((place - 8) // 8,), "float64", offset=np.uint32(16), output_path=tmp_path
    )
    body = text({"far": far, "whole": whole, "list": [far, far]}, "json+binref", directory=tmp_path)
    found = decode(body, directory=tmp_path, lazy=True)
    assert float(found["far"]) == 2.5
    assert found["whole"][-1] == 2.5
    assert [float(each) for each in found["list"]] == [2.5, 2.5]
    assert wire.parse_buffer(found["far"].buffer) == ("a.bin", place, None)
