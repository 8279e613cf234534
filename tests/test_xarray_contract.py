"""xarray's own tests of a backend, on this one: written by `to_binref`, read by its engine.

What binds a format of numbers and JSON passes as it stands. What does not is listed with the
reason, and has to fail: once it passes, its line must go.
"""

import asyncio
import contextlib
import functools
import inspect

import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask  # noqa: F401  # fixtures
from xarray.tests.test_backends import CFEncodedBase
from xarray.tests.test_backends import TestNetCDF4ViaDaskData as NetCDF4ViaDaskData

from binref_sci import to_binref
from binref_sci.engine import BinrefBackendEntrypoint

# xarray's tests raise some warnings on purpose; here they would be errors.
pytestmark = pytest.mark.filterwarnings("default")

# What does not bind this format: the line of xarray that says so, where it stands (a function, a
# class or a module), and why.
NOT_OURS = {
    "test_write_store": (
        "with self.create_store() as store:",
        CFEncodedBase.test_write_store,
        "an AbstractDataStore, which engines of xarray's own have; this one returns Variables",
    ),
    "test_roundtrip_coordinates_with_space": (
        "cannot be marked as a coordinate on disk and will be",
        xr.conventions,
        "run.json can mark it, and it comes back as a coordinate",
    ),
    "test_roundtrip_object_dtype": (
        "floats = np.array([0.0, 0.0, 1.0, 2.0, 3.0], dtype=object)",
        CFEncodedBase.test_roundtrip_object_dtype,
        "Python objects other than text are refused",
    ),
    "test_roundtrip_bytes_with_fill_value": (
        'values = np.array([b"ab", b"cdef", np.nan], dtype=object)',
        CFEncodedBase.test_roundtrip_bytes_with_fill_value,
        "Python objects other than text are refused",
    ),
    "test_roundtrip_string_with_fill_value_nchar": (
        'encoding = {"dtype": "S1", "_FillValue": b"X"}',
        CFEncodedBase.test_roundtrip_string_with_fill_value_nchar,
        "no character arrays; text among numbers is refused with another error",
    ),
    "test_roundtrip_string_encoded_characters": (
        'assert actual["x"].encoding["_Encoding"] == "utf-8"',
        CFEncodedBase.test_roundtrip_string_encoded_characters,
        "no character arrays: fixed-width text is code points",
    ),
    "test_encoding_kwarg_fixed_width_string": (
        'assert actual["x"].encoding["dtype"] == "S1"',
        CFEncodedBase.test_encoding_kwarg_fixed_width_string,
        "no character arrays: fixed-width text is code points",
    ),
    "test_roundtrip_stringdtype_nulls": (
        "null values in StringDType are written as empty strings",
        CFEncodedBase.test_roundtrip_stringdtype_nulls,
        "text that is missing is refused, not made into text",
    ),
    "test_string_object_warning": (
        'with pytest.warns(SerializationWarning, match="dask array with dtype=object"):',
        CFEncodedBase.test_string_object_warning,
        "text is saved as text: nothing to warn of",
    ),
    "test_encoding_unlimited_dims": (
        'assert actual.encoding["unlimited_dims"] == set("y")',
        CFEncodedBase.test_encoding_unlimited_dims,
        "no dimension is limited, so none is unlimited",
    ),
}
WITH_DASK = {
    "test_dataset_caching": (
        'reason="caching behavior differs for dask"',
        NetCDF4ViaDaskData,
        "dask arrays are computed each time",
    ),
}
WITHOUT_A_FILE = {
    "test_coordinate_variables_after_iris_roundtrip": (
        'iris_cube = original["variable"].to_iris()',
        CFEncodedBase.test_coordinate_variables_after_iris_roundtrip,
        "to Iris and back: no backend takes part",
    ),
}


@pytest.mark.parametrize("name", [*NOT_OURS, *WITH_DASK, *WITHOUT_A_FILE])
def test_the_line_that_says_why_is_there(name):
    line, where, _ = (NOT_OURS | WITH_DASK | WITHOUT_A_FILE)[name]
    assert line in inspect.getsource(where)


class Binref(CFEncodedBase):
    """Save and open, as xarray's tests ask for it."""

    chunks = None
    file_format = "NETCDF4"  # what xarray's tests ask for: can bytes without a sign be stored

    def save(self, dataset, path, mode="w", encoding=None, **kwargs):
        return to_binref(dataset, path, mode=mode, encoding=encoding or {}, **kwargs)

    @contextlib.contextmanager
    def open(self, path, **kwargs):
        kwargs.setdefault("chunks", self.chunks)
        with xr.open_dataset(path, engine=BinrefBackendEntrypoint, **kwargs) as ds:
            yield ds


def again(name):
    """Return xarray's test as a function of its own, which marks can be put on."""
    original = getattr(CFEncodedBase, name)

    @functools.wraps(original)
    def test(self, *args, **kwargs):
        return original(self, *args, **kwargs)

    marks = getattr(original, "pytestmark", [])
    test.pytestmark = [mark for mark in marks if mark.name != "skipif"]
    return test


def refused(name, reason):
    """Return xarray's test, marked as one that has to fail."""
    return pytest.mark.xfail(reason=reason, strict=True)(again(name))


for _name, (_, _, _reason) in NOT_OURS.items():
    setattr(Binref, _name, refused(_name, _reason))
for _name in WITHOUT_A_FILE:
    setattr(Binref, _name, None)
# It is skipped where there is no module "netcdf", so everywhere; SciPy reads its file.
NEVER_RUN = ["test_roundtrip_example_1_netcdf"]
for _name in NEVER_RUN:
    setattr(Binref, _name, again(_name))


def test_all_others_run_as_they_stand():
    tests = {name for name in dir(CFEncodedBase) if name.startswith("test_")}
    changed = {name for name in tests if getattr(Binref, name) is not getattr(CFEncodedBase, name)}
    assert changed == {*NOT_OURS, *WITHOUT_A_FILE, *NEVER_RUN}
    assert len(tests - changed) >= 38


class TestBinref(Binref):
    """Lazily indexed, without dask."""

    def test_load_async(self):
        asyncio.run(CFEncodedBase.test_load_async(self))


@pytest.mark.long
class TestBinrefWithDask(Binref):
    """Over dask."""

    chunks = {}  # noqa: RUF012  # never written to

    def test_load_async(self):
        asyncio.run(CFEncodedBase.test_load_async(self))

    test_dataset_caching = refused("test_dataset_caching", WITH_DASK["test_dataset_caching"][2])
