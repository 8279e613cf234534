"""Reported failures of others that need more than one part of the package: they do not happen here."""

import json
import os
import pickle

import dask
import numpy as np
import pytest
import xarray as xr

from binref_sci import BinrefArray, BinrefWriter, open_dataset, open_references
from tests.kit import run


def solve(folder, shape, count, value):
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=folder) as writer:
        for step in range(count):
            writer.write(np.full(shape, value + step), time=step)


@pytest.mark.parametrize("chunks", [{}, None])
def test_r12_a_rerun_into_the_same_folder_shows_its_own_shape_and_values(tmp_path, chunks):
    solve(tmp_path, (4, 5), 3, 0.0)
    first = open_dataset(tmp_path, chunks=chunks)
    assert "time: 3" in repr(first)
    assert first._repr_html_()
    assert float(first.u.sum()) == 4 * 5 * 3
    solve(tmp_path, (2, 7), 6, 100.0)
    second = open_dataset(tmp_path, chunks=chunks)  # the first is not closed
    assert second.u.shape == (6, 2, 7)
    np.testing.assert_array_equal(second.u[:, 0, 0], 100.0 + np.arange(6))
    if chunks is not None:
        assert second.u.data.name != first.u.data.name
    np.testing.assert_array_equal(first.u[:, 0, 0], np.arange(3.0))


@pytest.mark.parametrize("units", ["seconds", "days"])
def test_r25_quantities_in_seconds_or_days_stay_numbers(tmp_path, units):
    with BinrefWriter(
        "period",
        dims=("time", "n"),
        attrs={"units": units},
        coords={"time": {"units": "s" if units == "seconds" else "days"}},
        output_path=tmp_path,
    ) as writer:
        for step in range(3):
            writer.write([0.25, 1.5], time=0.1 * step)
    for ds in (open_dataset(tmp_path), xr.open_dataset(tmp_path, engine="binref")):
        assert ds.period.dtype == ds.time.dtype == np.float64
        assert ds.period.attrs["units"] == units
        np.testing.assert_allclose(ds.time, [0.0, 0.1, 0.2])


def test_r27_references_datasets_and_dask_arrays_pickle_small_and_read_elsewhere(tmp_path):
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(2**30)
        os.pwrite(file.fileno(), np.float64(7.0).tobytes(), (5 * 64 * 128 + 6 * 128 + 7) * 8)
    big = BinrefArray.from_file("big.bin", (2**14, 64, 128), "f8", output_path=tmp_path)
    field = {"object_type": "array", "shape": list(big.shape), "dtype": "float64",
             "data": {"buffer": big.buffer, "encoding": "binref"}}  # fmt: skip

    (tmp_path / "results.json").write_text(json.dumps({"u": field}))
    ds = open_dataset(tmp_path)
    for number, made in enumerate(
        (big, open_references(tmp_path)["u"], ds, open_dataset(tmp_path, chunks=None), ds.u.data)
    ):
        text = pickle.dumps(made)
        assert len(text) < 20_000
        (tmp_path / f"{number}.pickle").write_bytes(text)
    code = """
        import pathlib, pickle, sys
        import numpy as np
        for place in sorted(pathlib.Path(sys.argv[1]).glob("*.pickle")):
            made = pickle.loads(place.read_bytes())
            made = getattr(made, "u", made)
            print(float(np.asarray(made[5, 6, 7])))
    """
    assert run(code, tmp_path, cwd="/") == "7.0\n" * 5
    with dask.config.set(scheduler="processes", num_workers=1):
        assert float(ds.u[5, 6, 7]) == 7.0


def test_r29_a_relative_path_is_resolved_once(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    solve("out", (2, 2), 3, 1.0)
    ds = open_dataset("out")
    monkeypatch.chdir(tmp_path / "there")
    np.testing.assert_array_equal(ds.u[:, 0, 0], [1.0, 2.0, 3.0])
    (tmp_path / "ds.pickle").write_bytes(pickle.dumps(ds))
    code = """
        import pathlib, pickle, sys
        print(float(pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()).u.sum()))
    """
    assert run(code, tmp_path / "ds.pickle", cwd=tmp_path / "there") == "24.0\n"
    (tmp_path / "here" / "out").rename(tmp_path / "there" / "moved")
    np.testing.assert_array_equal(open_dataset("moved").u[:, 0, 0], [1.0, 2.0, 3.0])
