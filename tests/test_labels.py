import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from binref_sci.errors import UnsupportedDTypeError
from binref_sci.labels import Labels
from tests.kit import arrays, assert_same


def round_trip(labels):
    """Through strict JSON text, as a journal does."""
    return Labels.from_json(json.loads(json.dumps(labels.to_json(), allow_nan=False)))


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
)
numpy_scalars = arrays.filter(lambda a: a.size).map(lambda a: a.flat[0])
values = st.recursive(
    st.one_of(plain, numpy_scalars, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def same(found, wanted):
    if isinstance(wanted, list):
        return isinstance(found, list) and all(map(same, found, wanted))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, np.ndarray | np.generic):
        # to the value, not to the bit: JSON has one NaN
        np.testing.assert_array_equal(found, wanted)
        return (type(found), found.dtype) == (type(wanted), wanted.dtype)
    return type(found) is type(wanted) and (found == wanted or found != found)


@given(st.dictionaries(st.text("abcxyz", min_size=1), values, max_size=4))
def test_attributes_come_back_with_their_values_and_types(attrs):
    back = round_trip(Labels.of(None, {}, attrs))
    assert same(back.attrs, attrs)


def test_float32_int8_nan_and_infinities_survive():
    attrs = {
        "scale": np.float32(0.1),
        "fill": np.int8(-128),
        "missing": math.nan,
        "range": [-math.inf, math.inf],
        "bounds": np.array([0.1, np.nan, np.inf], "f4"),
        "phase": 1 - 2j,
        "flag": np.bool_(True),
    }
    back = round_trip(Labels(None, None, **attrs)).attrs
    assert type(back["scale"]) is np.float32
    assert type(back["fill"]) is np.int8
    assert math.isnan(back["missing"])
    assert back["range"] == [-math.inf, math.inf]
    assert_same(back["bounds"], attrs["bounds"])
    assert back["phase"] == 1 - 2j
    assert back["flag"] is np.True_


@pytest.mark.parametrize("name", ["dims", "coords", "self", "cls", "attrs", "binref:type"])
def test_an_attribute_may_have_any_name(name):
    labels = Labels.of(("x",), {}, {name: 1})
    assert round_trip(labels).attrs == {name: 1}
    assert pickle.loads(pickle.dumps(labels)) == labels
    assert labels.replace(dims=("y",)).attrs == {name: 1}


@pytest.mark.parametrize(
    "value", [object(), b"x", np.datetime64("2020-01-01"), np.array([None]), {1, 2}, 2**64]
)
def test_an_attribute_that_cannot_be_kept_is_refused_at_once(value):
    with pytest.raises((UnsupportedDTypeError, ValueError), match="odd"):
        Labels(odd=value)
    with pytest.raises((UnsupportedDTypeError, ValueError), match="odd"):
        Labels(nested={"odd": [value]})


@given(arrays)
def test_coordinates_come_back_with_values_dims_and_attributes(array):
    dims = tuple("abcd"[: array.ndim])
    back = round_trip(Labels(coords={"c": (dims, array, {"units": "m"})})).coords["c"]
    assert back[0] == dims
    np.testing.assert_array_equal(back[1], array)
    assert back[1].dtype == array.dtype
    assert back[2] == {"units": "m"}


def test_coordinates_are_taken_as_xarray_users_give_them():
    grid = xr.Dataset(
        coords={
            "x": ("x", [1.0, 2.0], {"units": "m"}),
            "lat": (("y", "x"), np.zeros((3, 2))),
            "station": ("x", ["a", "b"]),
            "run": 7,
        }
    )
    coords = Labels(coords=dict(grid.coords)).coords
    assert {name: c[0] for name, c in coords.items()} == {
        "x": ("x",),
        "lat": ("y", "x"),
        "station": ("x",),
        "run": (),
    }
    assert coords["x"][2] == {"units": "m"}
    index = pd.Index(["u", "v"], name="component")
    text = Labels(coords={"component": index}).coords["component"][1]
    assert text.tolist() == ["u", "v"]
    assert round_trip(Labels(coords={"c": index})).coords["c"][1].tolist() == ["u", "v"]


def test_labels_keep_what_was_given_whatever_happens_to_it_afterwards():
    x, bounds, attrs = np.arange(3.0), np.array([0.0, 1.0]), {"valid": [0, 1]}
    labels = Labels(coords={"x": ("x", x, attrs)}, bounds=bounds, **attrs)
    x[:], bounds[:] = 9, 9
    attrs["valid"].append(2)
    assert labels.coords["x"][1].tolist() == [0, 1, 2]
    assert labels.attrs["bounds"].tolist() == [0, 1]
    assert labels.attrs["valid"] == labels.coords["x"][2]["valid"] == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        labels.coords["x"][1][0] = 5
    with pytest.raises(AttributeError, match="immutable"):
        labels.dims = ("y",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dims": ("x", "x")}, "differ"),
        ({"dims": ("x", "")}, "non-empty"),
        ({"dims": (1,)}, "non-empty"),
        ({"coords": {"x": [[1, 2]]}}, "'x' has 2 axes"),
        ({"coords": {"x": (("x", "y"), [1])}}, "'x' has 1 axes"),
    ],
)
def test_labels_that_contradict_themselves_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Labels(**arguments)


@pytest.mark.parametrize(
    "value", [[object()], [b"a"], np.array(["2020-01-01"], "M8[ns]"), np.ma.masked_array([1], [1])]
)
def test_a_coordinate_that_cannot_be_kept_is_refused_by_name(value):
    with pytest.raises(UnsupportedDTypeError, match="coordinate 'x'"):
        Labels(coords={"x": value})


def test_labels_written_by_hand_may_be_short():
    labels = Labels.from_json(
        {
            "dims": ["t", "x"],
            "coords": {
                "x": {"dims": "x", "values": {"dtype": "int8", "shape": [2], "data": [1, 2]}}
            },
            "attrs": {"units": "K", "source": {"code": "solver.c"}},
        }
    )
    assert labels.attrs == {"units": "K", "source": {"code": "solver.c"}}
    assert labels.coords["x"][0] == ("x",)
