"""xarray's own tests of a backend, on this one: written by `to_binref`, read by its engine.

What binds a format of numbers and JSON passes as it stands. What does not is listed with the
reason, and has to fail: once it passes, its line must go.
"""

import asyncio
import contextlib
import functools

import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask  # noqa: F401  # fixtures
from xarray.tests.test_backends import CFEncodedBase

from binref_sci import to_binref
from binref_sci.engine import BinrefBackendEntrypoint

# xarray's tests raise some warnings on purpose; here they would be errors.
pytestmark = pytest.mark.filterwarnings("default")

NOT_OURS = {
    # There is no AbstractDataStore: the engine returns Variables (DatasetIOBase.create_store).
    "test_write_store": "needs create_store, an API of xarray's netCDF backends",
    # Names are text here; that of xarray's netCDF writer is None or another message.
    "test_roundtrip_None_variable": "a variable has a name that is text",
    "test_invalid_dataarray_names_raise": "the same, told in our words, which name the way out",
    "test_roundtrip_coordinates_with_space": "coordinates come back as coordinates, spaces or not",
    # `coords` stands in run.json, so the CF attribute is no riddle to solve.
    "test_grid_mapping_and_bounds_are_not_coordinates_in_file": "run.json names the coordinates",
    "test_coordinate_variables_after_dataset_roundtrip": "what was a coordinate comes back as one",
    # Object arrays: numbers and bytes among None.
    "test_roundtrip_object_dtype": "Python objects are refused, save text",
    "test_roundtrip_bytes_with_fill_value": "object arrays of bytes are refused",
    "test_roundtrip_string_with_fill_value_nchar": "object arrays of bytes are refused",
    "test_string_object_warning": "text is saved as text: nothing to warn of",
    # Fixed-width text is codes and a table, not characters along one more dimension.
    "test_roundtrip_string_encoded_characters": "no character arrays, and so no _Encoding",
    "test_encoding_kwarg_fixed_width_string": "no character arrays",
    "test_roundtrip_stringdtype_nulls": "text that is missing is no text",
    # An encoding of text instead of a dict, an unknown key.
    "test_encoding_kwarg": "what is wrong with an encoding is told in our words",
    "test_encoding_unlimited_dims": "no dimension is limited",
    "test_append_with_invalid_dim_raises": "mode='a' replaces variables, of another length too",
}


class Binref(CFEncodedBase):
    """Save and open, as xarray's tests ask for it."""

    chunks = None

    def save(self, dataset, path, mode="w", encoding=None, **kwargs):
        return to_binref(dataset, path, mode=mode, encoding=encoding or {}, **kwargs)

    @contextlib.contextmanager
    def open(self, path, **kwargs):
        kwargs.setdefault("chunks", self.chunks)
        with xr.open_dataset(path, engine=BinrefBackendEntrypoint, **kwargs) as ds:
            yield ds


def refused(name, reason):
    """Return xarray's test, marked as one that has to fail."""
    original = getattr(CFEncodedBase, name)

    @functools.wraps(original)
    def test(self, *args, **kwargs):
        return original(self, *args, **kwargs)

    test.pytestmark = list(getattr(original, "pytestmark", []))
    return pytest.mark.xfail(reason=reason, strict=True)(test)


for _name, _reason in NOT_OURS.items():
    setattr(Binref, _name, refused(_name, _reason))


class TestBinref(Binref):
    """Lazily indexed, without dask."""

    def test_load_async(self):
        asyncio.run(CFEncodedBase.test_load_async(self))


@pytest.mark.long
class TestBinrefWithDask(Binref):
    """Over dask."""

    chunks = {}  # noqa: RUF012  # never written to

    # xarray tells what is in memory by its class, which dask arrays are not.
    test_load_async = None
    test_dataset_caching = refused("test_dataset_caching", "dask arrays are computed each time")
