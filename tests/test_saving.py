"""`to_binref`: what is saved opens again as it was; a reader sees the old or the new."""

import warnings

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import xarray.testing.strategies as xrst
from dask.diagnostics import Callback
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import binref_sci as brs
from binref_sci.engine.checks import check
from binref_sci.engine.inspect import inspect
from binref_sci.engine.manifest import read_manifest
from binref_sci.engine.saved import open_saved
from binref_sci.errors import (
    DatasetExistsError,
    FormatError,
    UnsupportedDTypeError,
    WriterError,
)


def everything():
    """A Dataset of all that can be saved."""
    t = np.datetime64("2000-01-01", "ns") + np.arange(4) * np.timedelta64(6, "h")
    ds = xr.Dataset(
        {
            "u": (("time", "y", "x"), np.arange(60, dtype="f4").reshape(4, 3, 5), {"units": "K"}),
            "flag": (("y", "x"), np.eye(3, 5, dtype=bool)),
            "z": (("x",), np.exp(1j * np.arange(5))),
            "z32": (("x",), np.exp(1j * np.arange(5)).astype("c8")),
            "scalar": ((), np.float32(0.7)),
            "empty": (("none", "x"), np.empty((0, 5), "i2")),
            "hollow": (("y", "none"), np.empty((3, 0), "f8")),
            "label": (("y",), np.array(["a", "bcd", "ümläut"])),
            "word": ((), np.array("text")),
            "bytes": (("y",), np.array([b"a", b"bc", b""])),
            "object": (("y",), np.array(["", "b", "cc"], dtype=object)),
            "lag": (("y",), np.array([1, 2, 3], "m8[s]")),
            "period": (("y",), np.array([0.5, 1.5, 2.5]), {"units": "seconds"}),
            "big": (("x",), np.arange(5, dtype=">i4")),
        },
        coords={
            "time": t,
            "x": ("x", np.linspace(0, 1, 5), {"units": "m"}),
            "area": (("y", "x"), np.ones((3, 5))),
            "two words": ("y", [1, 2, 3]),
            "run": 7,
        },
        attrs={"title": "all", "scale": np.float32(1.5), "levels": np.arange(3, dtype="i1")},
    )
    return ds


def dtypes_of(ds):
    return {name: ds[name].dtype.newbyteorder("=") for name in ds.variables}


@pytest.mark.parametrize("chunks", [None, {}, {"time": 2, "x": 2}], ids=["numpy", "whole", "cut"])
@pytest.mark.parametrize("opened", [None, {}])
def test_what_is_saved_opens_as_it_was(tmp_path, chunks, opened):
    ds = everything()
    given_ = ds if chunks is None else ds.chunk(chunks)
    assert brs.to_binref(given_, tmp_path / "a") is None
    back = brs.open_dataset(tmp_path / "a", chunks=opened)
    xr.testing.assert_identical(back.load(), ds)
    assert dtypes_of(back) == dtypes_of(ds)
    assert set(back.coords) == set(ds.coords)
    assert back.attrs["scale"].dtype == "f4" and back.attrs["levels"].dtype == "i1"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    # And once more, through the encoding that it was opened with.
    brs.to_binref(back, tmp_path / "b")
    again = brs.open_dataset(tmp_path / "b")
    xr.testing.assert_identical(again.load(), ds)
    assert again.u.encoding["dtype"] == back.u.encoding["dtype"]


def test_a_saved_run_can_be_shown_and_checked(tmp_path):
    brs.to_binref(everything(), tmp_path / "a")
    facts = inspect(tmp_path / "a")
    assert facts.state == "complete" and len(facts.variables) == 19
    report = check(tmp_path / "a")
    assert report.problems == [] and report.notes == []


def test_the_bytes_are_plain(tmp_path):
    field = np.arange(24.0).reshape(2, 3, 4)
    brs.to_binref(da.from_array(field, chunks=(1, 2, 2)), tmp_path / "a")
    (buffer,) = (tmp_path / "a").glob("*.bin")
    assert buffer.read_bytes() == field.tobytes()
    assert brs.open_dataset(tmp_path / "a")["data"].dims == ("dim_0", "dim_1", "dim_2")


def test_a_dataarray_keeps_its_name_and_may_have_none(tmp_path):
    brs.to_binref(xr.DataArray(np.ones(3), dims="x", name="u"), tmp_path / "a")
    assert list(brs.open_dataset(tmp_path / "a").data_vars) == ["u"]
    brs.to_binref(xr.DataArray(np.ones(3), dims="x"), tmp_path / "b")
    assert len(brs.open_dataset(tmp_path / "b").data_vars) == 1


def test_a_tree_is_saved_in_one_folder(tmp_path):
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"a": 1}), "/a": everything(), "/a/b": xr.Dataset({"v": 1.0})}
    )
    brs.to_binref(tree, tmp_path / "t")
    manifest = read_manifest(tmp_path / "t")
    assert set(manifest.groups) == {"/", "/a", "/a/b"}
    for path in manifest.groups:
        back = open_saved(manifest, str(tmp_path / "t"), chunks=None, group=path)
        xr.testing.assert_identical(back.load(), tree[path].to_dataset(inherit=False))
    assert check(tmp_path / "t").problems == []
    with pytest.raises(FormatError, match="/a/b"):
        open_saved(manifest, str(tmp_path / "t"), chunks=None, group="/c")


names = st.sampled_from(["u", "v", "w", "long name", "a/b", "../evil", "ü"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    variables=st.dictionaries(
        names,
        xrst.variables(
            array_strategy_fn=lambda *, shape, dtype: npst.arrays(shape=shape, dtype=dtype),
            dims=xrst.dimension_sizes(
                dim_names=st.sampled_from(["x", "y", "z"]), min_dims=0, max_dims=3, max_side=3
            ),
            dtype=st.one_of(
                npst.floating_dtypes(sizes=(16, 32, 64)),
                npst.integer_dtypes(),
                npst.unsigned_integer_dtypes(),
                npst.complex_number_dtypes(sizes=(64, 128)),
                npst.boolean_dtypes(),
                npst.unicode_string_dtypes(max_len=4),
            ),
            attrs=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-9, 9) | st.text()),
        ),
        max_size=3,
    ),
    chunked=st.booleans(),
)
def test_any_variable_makes_the_round_trip(tmp_path_factory, variables, chunked):
    sizes = {}
    for name, one in [*variables.items()]:
        if any(sizes.setdefault(dim, n) != n for dim, n in one.sizes.items()):
            del variables[name]
    ds = xr.Dataset(variables)
    place = tmp_path_factory.mktemp("saved") / "a"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN of a signalling kind
        brs.to_binref(ds.chunk() if chunked else ds, place)
        back = brs.open_dataset(place, chunks={} if chunked else None).load()
    xr.testing.assert_identical(back, ds)
    assert dtypes_of(back) == dtypes_of(ds)
