"""What an array on disk leaves to NumPy and xarray: refused with the way to have it."""

import copy
import math
import operator
import pickle

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from binref_sci import BinrefArray, BinrefWriter

FIELD = np.arange(12.0).reshape(3, 4) + 0.5
BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.fixture(params=["array", "trajectory"])
def stored(request, tmp_path):
    if request.param == "array":
        return BinrefArray.write(FIELD, output_path=tmp_path)
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        for row in FIELD:
            writer.write(row)
    return writer.trajectory()


@pytest.fixture
def number(tmp_path):
    return BinrefArray.write(2.4375, output_path=tmp_path)


@pytest.mark.parametrize("function", BINARY)
def test_an_operation_that_would_read_unasked_is_refused_with_the_ways_to_have_it(stored, function):
    way = (
        rf"has no arithmetic: np.asarray\(a\) reads all of it \({FIELD.nbytes} bytes\), a.to_xarray"
    )
    for left, right in ((stored, 2), (2.0, stored), (stored, stored), (stored, [1.0] * 4)):
        with pytest.raises(TypeError, match=way):
            function(left, right)


@pytest.mark.parametrize("function", [operator.neg, abs, operator.pos, sum, sorted])
def test_so_is_one_without_an_operand(stored, function):
    given = [stored, stored] if function in (sum, sorted) else stored
    with pytest.raises(TypeError, match=r"np\.asarray\(a\)"):
        function(given)


@pytest.mark.parametrize("function", BINARY)
def test_an_array_in_memory_reads_it_from_either_side(stored, function):
    other = np.full(4, 2.0)
    np.testing.assert_array_equal(function(stored, other), function(FIELD, other))
    np.testing.assert_array_equal(function(other, stored), function(other, FIELD))
    np.testing.assert_array_equal(function(stored, other[0]), function(FIELD, 2.0))
    np.testing.assert_array_equal(function(stored, da.asarray(other)), function(FIELD, other))
    labelled = xr.DataArray(np.full((3, 4), 2.0), dims=("y", "x"))
    np.testing.assert_array_equal(function(labelled, stored), function(labelled.values, FIELD))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("mean", r"np\.asarray\(a\) reads all of it"),
        ("T", r"np\.asarray\(a\) reads all of it"),
        ("item", r"np\.asarray\(a\) reads all of it"),
        ("sel", r"a\.to_xarray\(\) has it"),
        ("dims", r"a\.to_xarray\(\) has it"),
        ("values", r"a\.to_xarray\(\) has it"),
        ("nonsense", r"no attribute 'nonsense'$"),
    ],
)
def test_an_attribute_of_other_arrays_is_told_with_the_way_to_have_it(stored, name, way):
    with pytest.raises(AttributeError, match=way) as caught:
        getattr(stored, name)
    assert type(stored).__name__ in str(caught.value)
    assert caught.value.name == name
    assert caught.value.obj is stored  # Python then finds what is spelled nearly so
    assert not hasattr(stored, name)
    assert not hasattr(stored, "__cuda_array_interface__")


def test_numpy_s_own_functions_read(stored):
    np.testing.assert_array_equal(np.mean(stored, axis=0), FIELD.mean(axis=0))
    np.testing.assert_array_equal(np.add(stored, 1), FIELD + 1)


def test_one_number_is_formatted_rounded_and_compared_as_a_number(number):
    assert f"{number:.2f}" == "2.44"
    assert f"{number:>8.1e}|" == " 2.4e+00|"
    assert f"{number}" == str(number)
    assert round(number, 1) == 2.4
    assert round(number) == 2
    assert math.floor(float(number)) == 2
    assert number == 2.4375
    assert number == np.float64(2.4375)
    assert number != 2.5
    assert 2.4375 == number  # noqa: SIM300
    assert (number == None) is False  # noqa: E711


def test_more_than_one_number_is_not(stored):
    for refused in (lambda: f"{stored:.2f}", lambda: round(stored, 1)):
        with pytest.raises(
            TypeError, match=r"one number, and this has the shape \(3, 4\); index it"
        ):
            refused()
    assert (stored == 1.5) is False
    assert (stored != 1.5) is True
    np.testing.assert_array_equal(stored != FIELD.tolist(), np.zeros((3, 4), bool))


def test_copies_and_pickles_are_as_before(stored):
    assert copy.deepcopy(stored) is stored
    again = pickle.loads(pickle.dumps(stored))
    np.testing.assert_array_equal(again, FIELD)
