import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.dtypes import (
    DTYPES,
    checked_count,
    checked_dtype,
    checked_shape,
    nbytes_of,
    to_stored,
)
from binref_sci.errors import InvalidReferenceError, UnsupportedDTypeError
from tests.kit import assert_same, held_anyhow

REFUSED = {
    "object": np.array([object()]),
    "text": np.array(["a"]),
    "bytes": np.array([b"a"]),
    "variable text": np.array(["a"], np.dtypes.StringDType()),
    "datetime": np.array(["2020-01-01"], "M8[ns]"),
    "timedelta": np.array([1], "m8[s]"),
    "structured": np.zeros(2, [("a", "f8"), ("b", "i4")]),
    "void": np.zeros(2, "V8"),
    "long double": np.zeros(2, np.longdouble),
    "complex long double": np.zeros(2, np.clongdouble),
    "masked": np.ma.masked_array([1.0, 2.0], [False, True]),
    "masked constant": np.ma.masked,
    "masked part of a list": [np.ma.masked_array([1.0, 2.0], [False, True])],
    "too large for 64 bits": [2**64],
    "None": None,
}


def test_there_are_fourteen_dtypes_all_little_endian_and_named_as_in_numpy():
    assert len(DTYPES) == 14
    for name, dtype in DTYPES.items():
        assert dtype.name == name == np.dtype(name).name
        assert dtype.newbyteorder("<") == dtype


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_is_known_in_each_byte_order(name):
    for order in "<>=|":
        assert checked_dtype(np.dtype(name).newbyteorder(order)) is DTYPES[name]


def test_types_that_mean_the_same_are_the_same():
    assert checked_dtype(float) is checked_dtype("double") is checked_dtype("f8")
    assert checked_dtype(np.longlong) is checked_dtype("int64")


@pytest.mark.parametrize(
    "dtype",
    ["O", "U3", "S3", "M8[s]", "m8", "f8,i4", "V4", "g", "G", ("f8", 3), "nonsense", None, 7, ""],
)
def test_a_dtype_that_the_format_lacks_is_refused(dtype):
    with pytest.raises(UnsupportedDTypeError, match="dtype"):
        checked_dtype(dtype)


@pytest.mark.parametrize("array", REFUSED.values(), ids=REFUSED)
def test_an_array_that_the_format_cannot_hold_is_refused(array):
    with pytest.raises(UnsupportedDTypeError):
        to_stored(array)


@given(held_anyhow())
def test_stored_bytes_are_little_endian_in_c_order_with_the_shape_kept(array):
    stored = to_stored(array)
    assert stored.flags.c_contiguous
    assert stored.dtype == DTYPES[array.dtype.name]
    assert_same(stored, array)
    assert stored.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes("C")


def test_the_bytes_of_a_big_endian_array_are_turned():
    assert (
        to_stored(np.array([1.0, 2.0], ">f8")).tobytes()[:8].hex(" ") == "00 00 00 00 00 00 f0 3f"
    )


def test_the_bytes_of_a_column_major_array_are_in_row_order():
    stored = to_stored(np.array([[1, 2, 3], [4, 5, 6]], "i4", order="F"))
    assert np.frombuffer(stored.tobytes(), "<i4").tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [0.7, 3, True, 1j, np.float32(0.7), np.int8(-1)])
def test_a_single_number_has_no_axes(number):
    assert to_stored(number).shape == ()


@pytest.mark.parametrize("value", [-1, np.int8(-1), 1.5, 2.0, "2", None, True, np.True_, [2]])
def test_a_count_is_a_whole_number_that_is_not_negative(value):
    with pytest.raises(InvalidReferenceError, match="offset must"):
        checked_count(value, "offset")
    with pytest.raises(InvalidReferenceError):
        checked_shape((2, value))


@pytest.mark.parametrize("kind", [int, np.uint8, np.int64, np.uint64, np.array])
def test_a_count_comes_back_as_a_python_integer(kind):
    assert type(checked_count(kind(200), "n")) is int
    assert checked_shape((kind(200), 2)) == (200, 2)
    assert checked_shape(kind(200)) == (200,)


def test_an_array_of_lengths_is_a_shape():
    assert checked_shape(np.array([200, 100], np.uint8)) == (200, 100)


@pytest.mark.parametrize("shape", ["3", b"33", None, 1.0, [[1, 2]], ["3"]])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(InvalidReferenceError, match="shape"):
        checked_shape(shape)


@pytest.mark.parametrize("shape", [(1,) * 65, (2**70,), (2**32, 2**32), (0, 2**40, 2**40)])
def test_a_shape_that_no_array_can_have_is_refused(shape):
    with pytest.raises(InvalidReferenceError, match=r"axes|more elements"):
        checked_shape(shape)


@given(st.lists(st.integers(0, 2**40), max_size=6), st.sampled_from(sorted(DTYPES)))
def test_a_size_in_bytes_never_wraps(shape, name):
    wanted = math.prod(shape) * np.dtype(name).itemsize
    assert nbytes_of(tuple(shape), DTYPES[name]) == wanted
