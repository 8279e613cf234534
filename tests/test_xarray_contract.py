"""xarray's own tests of a backend, on this one: written by `to_binref`, read by ``engine="binref"``.

What binds a format of numbers and JSON passes as it stands. What does not apply is listed with
the reason, and fails here once it does apply: xarray's test is then run, and must fail.
"""

import contextlib

import pytest
import xarray as xr
from xarray.tests.conftest import time_unit, use_dask  # noqa: F401  # fixtures
from xarray.tests.test_backends import CFEncodedBase

from binref_sci import to_binref
from binref_sci.engine import BinrefBackendEntrypoint

pytestmark = [
    # Warnings that xarray's tests know and raise on purpose; here they would be errors.
    pytest.mark.filterwarnings("default"),
]


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


class TestBinref(Binref):
    """Lazily indexed, without dask."""


class TestBinrefWithDask(Binref):
    """Over dask."""

    chunks = {}  # noqa: RUF012  # never written to
