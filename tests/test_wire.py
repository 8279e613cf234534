"""The wire format: text and arrays, both ways."""

import math
import tracemalloc

import lz4.frame
import numpy as np
import orjson
import pybase64
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from binref_sci import wire
from binref_sci.dtypes import DTYPES
from binref_sci.errors import InvalidReferenceError, PayloadError
from binref_sci.reference import ArrayRef
from binref_sci.wire.places import NUMBERED
from tests.policy import FULL

ENCODINGS = [("json", None), ("base64", None), ("base64", "lz4")]
dtypes = st.sampled_from(sorted(DTYPES))
shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def text(array, encoding="json", compression=None):
    return b"".join(wire.array_pieces(array, encoding, compression))


def back(array, encoding="json", compression=None):
    return wire.decode_inline(strict_loads(text(array, encoding, compression)))


def strict_loads(body):
    return orjson.loads(body)  # refuses NaN and Infinity


def array_json(buffer, dtype, shape, encoding="json", **more):
    data = {"buffer": buffer, "encoding": encoding, **more}
    return {"object_type": "array", "shape": shape, "dtype": dtype, "data": data}


# ---------------------------------------------------------------- references


@given(
    path=st.text(min_size=1).filter(lambda name: not NUMBERED.search(name) and name[0] != ":"),
    offset=st.integers(0, 2**63 - 1),
    size=st.none() | st.integers(0, 2**63 - 1),
)
def test_a_formatted_place_is_parsed_as_it_was(path, offset, size):
    assert wire.parse_buffer(wire.format_buffer(path, offset, size)) == (path, offset, size)


def test_a_bare_path_means_offset_zero():
    assert wire.parse_buffer("run_1/a.bin") == ("run_1/a.bin", 0, None)


def test_a_colon_inside_a_path_is_part_of_it():
    assert wire.parse_buffer("a:b/c.bin:3") == ("a:b/c.bin", 3, None)


def test_the_offset_is_written_even_if_it_is_zero():
    assert wire.format_buffer("a.bin", 0) == "a.bin:0"


@pytest.mark.parametrize("name", ["run:42", "a.bin:0", "a:1:2"])
def test_a_buffer_name_that_readers_would_misread_is_refused(name):
    with pytest.raises(InvalidReferenceError, match="rename"):
        wire.format_buffer(name, 0)
    with pytest.raises(InvalidReferenceError, match="rename"):
        wire.ref_piece_maker(name, (), DTYPES["int8"])


@pytest.mark.parametrize(
    "bad",
    ["", ":5", "a.bin:-5", "a.bin:1:-2", "a.bin:-1:2", "a:1:2:3", "a.bin:9223372036854775808",
     "a.bin:" + "9" * 6000, None, 5, ["a"], {"a": 1}],
)  # fmt: skip
def test_a_malformed_place_is_refused(bad):
    with pytest.raises(InvalidReferenceError, match="field x"):
        wire.parse_buffer(bad, "field x")


def test_digits_of_other_scripts_are_no_offset():
    assert wire.parse_buffer("a.bin:٣") == ("a.bin:٣", 0, None)


references = st.builds(
    lambda path, offset, shape, dtype, size: ArrayRef(
        path, offset, shape, DTYPES[dtype], None if size is None else "lz4", size
    ),
    st.from_regex(r"[a-zA-Z/ äß\"\\.]+x", fullmatch=True),
    st.integers(0, 2**40),
    shapes,
    dtypes,
    st.none() | st.integers(0, 2**40),
)


@given(references, st.randoms())
def test_a_reference_survives_the_wire_in_any_order_of_keys(ref, random):
    made = wire.ref_to_json(ref)
    keys = list(made)
    random.shuffle(keys)
    shuffled = {key: made[key] for key in keys}
    assert wire.is_array_json(made)
    assert wire.ref_from_json(orjson.loads(orjson.dumps(shuffled))) == ref


@given(references, st.sampled_from(["", "run_7/"]))
def test_the_pieces_of_a_reference_are_its_json_text(ref, prefix):
    before, after = wire.ref_piece_maker(prefix + ref.path, ref.shape, ref.dtype, ref.compression)
    place = str(ref.offset) if ref.compression is None else f"{ref.offset}:{ref.compressed_size}"
    assert (before + place + after).encode() == orjson.dumps(wire.ref_to_json(ref, prefix))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [-1]}, "negative"),
        ({"shape": [1.5]}, "whole number"),
        ({"shape": [True]}, "whole number"),
        ({"shape": 3}, "shape is 3"),
        ({"shape": [2**40, 2**40]}, "more elements than an array|larger than any memory"),
        ({"shape": [0, 2**80]}, "more elements than an array|larger than any memory"),
        ({"shape": [1] * 65}, "64"),
        ({"dtype": "<f8"}, "dtype is '<f8'"),
        ({"dtype": "object"}, "dtype is 'object'"),
        ({"dtype": None}, "dtype is None"),
        ({"object_type": "image"}, "object_type"),
        ({"data": None}, "data is None"),
        ({"data": {"buffer": "a.bin:0", "encoding": "base64"}}, "expected 'binref'"),
        ({"data": {"buffer": "a.bin:0", "encoding": "binref", "compression": "zip"}}, "compress"),
        ({"data": {"buffer": "a.bin:0", "encoding": "binref", "compression": "lz4"}}, "lacks"),
        ({"data": {"buffer": "a.bin:0:7", "encoding": "binref"}}, "7 bytes"),
        ({"data": {"buffer": "a.bin:9223372036854775800", "encoding": "binref"}}, "beyond"),
        ({"data": {"encoding": "binref"}}, "buffer is None"),
    ],
)
def test_a_reference_that_cannot_be_meant_is_refused_by_name(change, words):
    good = array_json("a.bin:0", "float64", [2], "binref")
    assert wire.ref_from_json(good).nbytes == 16
    with pytest.raises(InvalidReferenceError, match=words) as caught:
        wire.ref_from_json(good | change, "out.field")
    assert "out.field" in str(caught.value)


def test_a_redundant_right_size_without_compression_is_read():
    assert wire.ref_from_json(array_json("a.bin:8:16", "float64", [2], "binref")).stop == 24


# ---------------------------------------------------------------- inline arrays


@settings(deadline=None)
@given(data=st.data(), name=dtypes, shape=shapes, kind=st.sampled_from(ENCODINGS))
def test_arrays_of_all_dtypes_and_shapes_come_back_equal(data, name, shape, kind):
    dtype = DTYPES[name]
    array = data.draw(npst.arrays(dtype, shape))
    given_ = data.draw(
        st.sampled_from([array, array.astype(dtype.newbyteorder(">")), array.copy(order="F")])
    )
    made = back(given_, *kind)
    assert (made.dtype, made.shape) == (dtype, shape)
    np.testing.assert_array_equal(made, array)
    assert made.flags.writeable
    assert made.flags.owndata or made.base is not None


@pytest.mark.parametrize("name", ["float32", "float64", "complex128"])
def test_base64_keeps_every_bit(name):
    raw = np.random.default_rng(3).integers(0, 256, 16 * 1000, dtype=np.uint8)
    array = raw.view(DTYPES[name])
    assert back(array, "base64").tobytes() == raw.tobytes()


# R01
def test_the_infinities_and_nan_are_told_apart_in_strict_json():
    array = np.array([np.nan, np.inf, -np.inf, 1.5])
    assert strict_loads(text(array))["data"]["buffer"] == [None, "Infinity", "-Infinity", 1.5]
    np.testing.assert_array_equal(back(array), array)
    assert math.isnan(wire.decode_inline(array_json(None, "float64", [])).item())


def test_null_in_an_integer_array_is_an_error():
    with pytest.raises(PayloadError, match="null in an array of int32"):
        wire.decode_inline(array_json([1, None], "int32", [2]))


# R05
@pytest.mark.parametrize("kind", ENCODINGS)
def test_big_endian_arrays_are_stored_little_endian(kind):
    array = np.array([1.0, 2.0], ">f8")
    made = strict_loads(text(array, *kind))
    assert made["dtype"] == "float64"
    np.testing.assert_array_equal(wire.decode_inline(made), [1.0, 2.0])
    if kind == ("base64", None):
        raw = pybase64.b64decode(made["data"]["buffer"])
        assert raw[:8] == bytes.fromhex("000000000000f03f")


# R39
@pytest.mark.parametrize("kind", ENCODINGS)
def test_column_major_arrays_are_not_transposed(kind):
    array = np.array([[1, 2, 3], [4, 5, 6]], "int32", order="F")
    np.testing.assert_array_equal(back(array, *kind), [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(back(array[:, ::-1].T, *kind), array[:, ::-1].T)


# R47
@pytest.mark.parametrize("kind", ENCODINGS)
def test_complex_numbers_are_pairs(kind):
    array = np.array([1 + 2j, -0.5j, complex(np.nan, 1)])
    made = back(array, *kind)
    np.testing.assert_array_equal(made, array)
    assert strict_loads(text(np.array(1 + 2j)))["data"]["buffer"] == [1.0, 2.0]


def test_real_numbers_may_stand_for_complex_ones():
    made = wire.decode_inline(array_json([1, 2.5], "complex64", [2]))
    np.testing.assert_array_equal(made, np.array([1, 2.5], "complex64"))


# R48
@pytest.mark.parametrize("kind", ENCODINGS)
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,), (0, 0, 5)])
def test_zero_length_axes_keep_their_shape(kind, shape):
    assert back(np.empty(shape), *kind).shape == shape


# R55
@pytest.mark.parametrize("kind", ENCODINGS)
def test_an_array_without_axes_keeps_none(kind):
    made = back(np.array(0.7, "float32"), *kind)
    assert made.shape == ()
    assert float(made) == np.float32(0.7)
    assert strict_loads(text(np.float32(0.5)))["data"]["buffer"] == 0.5


# R61
def test_decoded_arrays_are_writable_and_private():
    objects = [strict_loads(text(np.arange(4.0), *kind)) for kind in ENCODINGS]
    arrays = [wire.decode_inline(each) for each in objects for _ in range(2)]
    arrays[0] *= 2
    arrays[2] *= 2
    arrays[4] *= 2
    for changed, other in zip(arrays[::2], arrays[1::2], strict=True):
        np.testing.assert_array_equal(changed, [0, 2, 4, 6])
        np.testing.assert_array_equal(other, [0, 1, 2, 3])


def test_large_unsigned_integers_are_exact_in_any_company():
    values = [2**64 - 1, 2**63 + 1, 1, 0]
    assert wire.numbers(values).tolist() == values
    assert wire.numbers(values, DTYPES["uint64"]).tolist() == values
    assert back(np.array(values, "uint64")).tolist() == values
    assert wire.numbers([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize("values", [[2**63, -1], [2**64], [-(2**63) - 1]])
def test_integers_that_no_dtype_holds_are_refused(values):
    with pytest.raises(PayloadError, match="does not fit"):
        wire.numbers(values)


def test_a_float_beyond_2_53_is_no_integer():
    # what a JSON parser makes of 18446744073709551616, or of -9223372036854775809
    with pytest.raises(PayloadError, match=r"beyond 2\*\*53"):
        wire.decode_inline(array_json([-9.223372036854775809e18], "int64", [1]))


def test_whole_floats_may_stand_for_integers():
    assert wire.decode_inline(array_json([1.0, 2], "int8", [2])).tolist() == [1, 2]


def test_a_flat_list_is_read_in_c_order():
    assert wire.decode_inline(array_json([1, 2, 3, 4], "int8", [2, 2])).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("encoding", ["json", "raw"])
def test_raw_is_another_name_for_json(encoding):
    assert wire.decode_inline(array_json([[1], [2]], "int8", [2, 1], encoding)).shape == (2, 1)


def test_the_mark_of_an_array_may_be_missing():
    made = array_json([1], "int8", [1], "raw")
    del made["object_type"]
    assert wire.is_array_json(made)
    assert wire.decode_inline(made).tolist() == [1]
    assert not wire.is_array_json({**made, "note": "a user's own dict"})
    assert not wire.is_array_json([made])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (array_json([[1], [2, 3]], "int8", [2, 2]), "not an array|ragged"),
        (array_json([1, "2"], "int8", [2]), "not a number: '2'"),
        (array_json([1.0, "inf"], "float64", [2]), "not a number: 'inf'"),
        (array_json([1, {}], "int8", [2]), "not a number"),
        (array_json({}, "int8", [1]), "json buffer is"),
        (array_json([1, 2, 3], "int8", [2]), "shape \\[3\\]"),
        (array_json([[1, 2], [3, 4]], "int8", [4]), "shape \\[2, 2\\]"),
        (array_json([1, 0], "bool", [2]), "cannot become bool"),
        (array_json([True, None], "bool", [2]), "not a bool"),
        (array_json([1, 2, 3], "complex64", [1]), "pairs"),
        (array_json([1], "int8", [1], compression="lz4"), "cannot be compressed"),
        ({"shape": [1], "dtype": "int8", "data": {"encoding": "json"}}, "missing"),
        (array_json("AAA", "int8", [2], "base64"), "does not decode"),
        (array_json("A-_A", "int8", [3], "base64"), "does not decode"),
        (array_json("ÄÄÄÄ", "int8", [3], "base64"), "does not decode"),
        (array_json([1], "int8", [1], "base64"), "expected text"),
        (array_json("AAAA", "int8", [4], "base64"), "holds 3 bytes"),
        (array_json("AAAA", "int8", [3], "base64", compression="lz4"), "lz4"),
        (array_json("AAAA", "int8", [3], "base64", compression="zip"), "compression is 'zip'"),
        (array_json("a.bin:0", "int8", [3], "binref"), "not inline"),
        (array_json("x", "int8", [3], "cuda_ipc"), "encoding is 'cuda_ipc'"),
        (array_json([1], "int8", [-1]), "negative"),
        ({"shape": [1], "dtype": "int8"}, "lacks 'data'"),
        ("text", "not a number"),
        ([[1], 2], "not an array|ragged"),
        (object(), "not a number"),
    ],
)
def test_a_malformed_inline_array_is_refused_by_name(bad, words):
    with pytest.raises(PayloadError, match=words) as caught:
        wire.decode_inline(bad, "inputs.x")
    assert str(caught.value).startswith("inputs.x: ")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("more", [1, 10**9])
def test_a_frame_that_unpacks_to_too_much_is_stopped(more):
    zeros = np.zeros(100 + min(more, 50_000_000), np.uint8)
    bomb = pybase64.b64encode_as_string(lz4.frame.compress(zeros))
    del zeros
    tracemalloc.start()
    with pytest.raises(PayloadError, match="more than 100"):
        wire.decode_inline(array_json(bomb, "uint8", [100], "base64", compression="lz4"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("values", "dtype", "words"),
    [
        (np.array([300]), "int8", "value 300 does not fit int8"),
        (np.array([-1]), "uint64", "value -1 does not fit uint64"),
        (np.array([2**64 - 1], "uint64"), "int64", "value 18446744073709551615"),
        (np.array([1.0, 1.5]), "int32", "value 1.5"),
        (np.array([1e40, 1]), "float32", "value 1e\\+40 does not fit float32"),
        (np.array([70000]), "float16", "value 70000 does not fit float16"),
        (np.array([1 + 1e300j]), "complex64", "1e\\+300j"),
        (np.array([complex(np.inf, 1e300)]), "complex64", "1e\\+300j"),
        (np.array([1 + 2j]), "float64", "cannot become float64"),
        (np.array([2]), "bool", "cannot become bool"),
    ],
)
def test_a_cast_that_loses_a_value_is_refused_with_one(values, dtype, words):
    with pytest.raises(PayloadError, match=words):
        wire.cast(values, DTYPES[dtype])


def test_a_cast_may_round_but_keeps_infinities():
    made = wire.cast(np.array([np.inf, np.nan, 0.1]), DTYPES["float32"])
    np.testing.assert_array_equal(made, np.array([np.inf, np.nan, 0.1], "float32"))


@pytest.mark.parametrize("shape", [(3, 700_001), (700_001, 3), (2_100_003,), (1, 1, 2_100_003)])
@pytest.mark.parametrize("kind", ENCODINGS)
def test_large_arrays_come_in_small_pieces(shape, kind):
    array = np.arange(math.prod(shape), dtype="float64").reshape(shape)
    pieces = list(wire.array_pieces(array, *kind))
    assert max(map(len, pieces)) < 8 << 20
    np.testing.assert_array_equal(wire.decode_inline(orjson.loads(b"".join(pieces))), array)


@settings(max_examples=3000 if FULL else 200)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats()
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["object_type", "shape", "dtype", "data", "buffer", "encoding", "x"]
                ),
                inner
                | st.sampled_from(["array", "json", "base64", "binref", "float64", "int8", "lz4"]),
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_is_sent_gives_an_array_or_a_clean_error(anything):
    wire.is_array_json(anything)
    try:
        made = wire.decode_inline(anything, "x")
    except PayloadError:
        pass
    else:
        assert made.dtype.name in DTYPES
    try:
        wire.ref_from_json(anything, "x")
    except InvalidReferenceError:
        pass


def test_complex_numbers_as_tesseract_core_writes_them_are_read():
    made = wire.decode_inline(array_json(["(1+2j)", "-0.5j", "(nan+infj)"], "complex128", [3]))
    np.testing.assert_array_equal(made, np.array([1 + 2j, -0.5j, complex(np.nan, np.inf)]))
    with pytest.raises(PayloadError, match="not a number"):
        wire.decode_inline(array_json(["1+2j"], "float64", [1]))
    with pytest.raises(PayloadError, match="not a number"):
        wire.decode_inline(array_json(["1+2k"], "complex128", [1]))
