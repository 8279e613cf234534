"""`to_binref` where a place, an object or a disk is not what it should be."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import binref_sci as brs
from binref_sci import BinrefArray, BinrefWriter, Tesseract
from binref_sci.engine import job
from binref_sci.engine.exporting import export
from binref_sci.errors import (
    BufferNotFoundError,
    DatasetExistsError,
    FormatError,
    UnsupportedDTypeError,
    WriterError,
)
from binref_sci.runtime.run import RunDirectory
from tests.policy import FULL
from tests.serving import ENVIRONMENT


def field(steps=4):
    return xr.Dataset({"v": (("time", "x"), np.arange(3.0 * steps).reshape(steps, 3))})


def test_a_folder_is_not_made_inside_a_file(tmp_path):
    (tmp_path / "file").touch()
    for place in ("file/a", "file/inside/a"):
        with pytest.raises(FormatError, match="there is a file of this name"):
            brs.to_binref(field(), tmp_path / place)


def test_the_working_directory_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetExistsError, match="working directory"):
        brs.to_binref(field(), ".")
    with pytest.raises(FormatError, match="the path is empty"):
        brs.to_binref(field(), "")
    assert list(Path.cwd().iterdir()) == []
    brs.to_binref(field(), "a")
    monkeypatch.chdir(tmp_path / "a")
    brs.to_binref(field(5), ".", mode="w")  # in place
    assert brs.open_dataset(".").sizes["time"] == 5


IN_A_MOUNT = """
import os, sys
import numpy as np
import binref_sci as brs
from binref_sci.errors import DatasetExistsError
place = sys.argv[1]
try:
    brs.to_binref(np.ones(3), place)
except DatasetExistsError as error:
    assert "mount point" in str(error)
brs.to_binref(np.ones(3), f"{place}/a")
try:
    brs.to_binref(np.ones((100, 1000)), f"{place}/b")
except OSError as error:
    assert error.filename.startswith(f"{place}/.b."), error
    print(os.listdir(place), brs.open_dataset(f"{place}/a").sizes["dim_0"], error.strerror)
"""


def test_a_mount_point_is_kept_and_a_full_disk_is_named(tmp_path, needs):
    inside = [os.fspath(needs("unshare")), "--user", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        (pytest.fail if FULL else pytest.skip)("the system allows no file systems of one's own")
    mount = f'mount -t tmpfs -o size=400k tmpfs {tmp_path} && exec "$@"'
    child = [sys.executable, "-c", IN_A_MOUNT, tmp_path]
    done = subprocess.run(
        [*inside, "sh", "-c", mount, "sh", *child],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['a'] 3 No space left on device\n", done.stderr


def test_a_link_is_followed_and_stays(tmp_path):
    for name in ("empty", "saved"):
        (tmp_path / name).mkdir()
    for name in ("empty", "saved", "missing"):
        (tmp_path / f"to-{name}").symlink_to(name)
    for name in ("empty", "saved", "missing"):
        brs.to_binref(field(), tmp_path / f"to-{name}")
    brs.to_binref(field(5), tmp_path / "to-saved", mode="w")
    for name, steps in (("empty", 4), ("saved", 5), ("missing", 4)):
        assert (tmp_path / f"to-{name}").is_symlink()
        assert brs.open_dataset(tmp_path / name).sizes["time"] == steps
    assert len(list(tmp_path.iterdir())) == 6


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    for letter in ("n", "ü"):
        name = letter * (255 // len(letter.encode()))
        brs.to_binref(field(), tmp_path / name)
        assert brs.open_dataset(tmp_path / name).sizes["time"] == 4
        export(tmp_path / name, tmp_path / f"{name[:-5]}.json")


URL = "memory://bucket/a"


@pytest.mark.parametrize(
    "write",
    [
        lambda url: brs.to_binref(field(), url),
        lambda url: BinrefWriter("v", output_path=url),
        lambda url: BinrefArray.write(np.ones(3), output_path=url),
        lambda url: RunDirectory(url),
        lambda url: Tesseract.from_tesseract_api("c", output_path=url),
        lambda url: export("a", f"{url}.json"),
    ],
)
@pytest.mark.parametrize("url", [URL, Path(URL)])
def test_no_url_becomes_a_local_folder(write, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=r"is a URL.*name a local folder"):
        write(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "encoding", "error", "message"),
    [
        (pd.Categorical(["a", "b"]), None, UnsupportedDTypeError, "'v' has the dtype category"),
        (pd.array([1, None], dtype="Int64"), None, UnsupportedDTypeError, "'v' has the dtype Int"),
        (da.ones(4, chunks=2)[da.ones(4) > 0], None, WriterError, "'v'.*compute_chunk_sizes"),
        (np.ones(2), "lz4", TypeError, "encoding must be a dict"),
        (np.ones(2), {"v": "lz4"}, ValueError, "variable 'v' must be castable to a dict"),
    ],
)
def test_what_is_odd_is_named_before_a_byte_is_written(tmp_path, values, encoding, error, message):
    ds = xr.Dataset({"v": ("x", values)})
    with pytest.raises(error, match=message):
        brs.to_binref(ds, tmp_path / "a", encoding=encoding)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_chunk_of_another_shape_than_dask_says_is_refused(tmp_path, compression):
    lies = da.ones((4, 3), chunks=(2, 3)).map_blocks(lambda block: block[:1], dtype="f8")
    ds = xr.Dataset({"v": (("time", "x"), lies)})
    with pytest.raises(WriterError, match=r"'v': a chunk has shape \(1, 3\).*says \(2, 3\)"):
        brs.to_binref(ds, tmp_path / "a", encoding={"v": {"compression": compression}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize(
    ("block", "message"),
    [
        (np.full((2, 3), 0.1), r"a chunk has dtype float64.*says float32"),
        (np.ma.masked_all((2, 3)), r"'v'.*a masked array cannot be stored"),
    ],
)
def test_a_chunk_of_another_dtype_than_dask_says_is_refused(tmp_path, block, message, compression):
    lies = da.ones((4, 3), chunks=(2, 3)).map_blocks(
        lambda _: block, dtype="f4", meta=np.empty((0, 0), "f4")
    )
    ds = xr.Dataset({"v": (("time", "x"), lies)})
    with pytest.raises(UnsupportedDTypeError, match=message):
        brs.to_binref(ds, tmp_path / "a", encoding={"v": {"compression": compression}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_dates_over_dask_lie_as_the_integers_that_are_asked_for(tmp_path, compression):
    """xarray says that dtype of the dask array, but its chunks are int64."""
    dates = np.array([["2026-01-01", "2026-01-02"]] * 4, "M8[ns]")
    ds = xr.Dataset({"v": (("time", "x"), dates)}).chunk(time=2)
    asked = {"units": "days since 2025-01-01", "dtype": "i2", "compression": compression}
    brs.to_binref(ds, tmp_path / "a", encoding={"v": asked})
    found = brs.open_dataset(tmp_path / "a").load()
    assert found.v.encoding["dtype"] == np.int16
    xr.testing.assert_equal(found, ds)
    asked["units"] = "milliseconds since 2025-01-01"
    with pytest.raises(UnsupportedDTypeError, match=r"'v': a chunk has dtype int64.*says int16"):
        brs.to_binref(ds, tmp_path / "b", encoding={"v": asked})


def test_two_that_append_at_the_same_time_lose_nothing(tmp_path, monkeypatch):
    """One of them begins when the other has published or is about to, and looks what to remove."""
    brs.to_binref(field(), tmp_path / "a")
    real, others = job.read_journal, [field(2)]

    def interrupted(path):
        if others:
            brs.to_binref(others.pop(), tmp_path / "a", append_dim="time")
        return real(path)

    monkeypatch.setattr(job, "read_journal", interrupted)
    with pytest.raises(WriterError, match="saved by another to_binref in the meantime"):
        brs.to_binref(field(3), tmp_path / "a", append_dim="time")
    found = brs.open_dataset(tmp_path / "a").load()
    assert found.identical(xr.concat([field(), field(2)], "time"))
    brs.to_binref(field(3), tmp_path / "a", append_dim="time")
    assert brs.open_dataset(tmp_path / "a").sizes["time"] == 9
    assert len([*(tmp_path / "a").iterdir()]) == 5  # run.json, a journal, three buffers


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_chunks_that_come_after_a_failure_leave_nothing_behind(tmp_path, compression):
    failed = threading.Event()

    def block(block_info):
        if block_info[None]["chunk-location"][0] == 1:
            raise RuntimeError("boom")
        failed.wait(60)
        return np.ones((2, 3))

    brs.to_binref(field(), tmp_path / "a")
    before = sorted((tmp_path / "a").iterdir())
    late = da.map_blocks(block, chunks=((2, 2), (3,)), dtype="f8", meta=np.empty((0, 0)))
    ds = xr.Dataset({"w": (("time", "x"), late)})
    with ThreadPoolExecutor(2) as pool, dask.config.set(pool=pool):
        with pytest.raises(RuntimeError, match="boom"):
            brs.to_binref(
                ds, tmp_path / "a", mode="a", encoding={"w": {"compression": compression}}
            )
        failed.set()  # only now the other chunk arrives
    assert sorted((tmp_path / "a").iterdir()) == before


def test_what_was_computed_once_says_so(tmp_path):
    delayed = brs.to_binref(field().chunk(time=2), tmp_path / "a", compute=False)
    delayed.compute()
    with pytest.raises(BufferNotFoundError, match="was published, replaced or removed since"):
        delayed.compute()
    assert brs.open_dataset(tmp_path / "a").load().identical(field())


def test_a_tree_grows_where_its_groups_have_the_dimension(tmp_path):
    tree = xr.DataTree.from_dict({"/one": field(), "/two/three": field(3)})
    brs.to_binref(tree, tmp_path / "a")
    brs.to_binref(tree, tmp_path / "a", append_dim="time")
    grown = brs.open_datatree(tmp_path / "a")
    assert grown["one"].sizes["time"] == 8
    assert grown["two/three"].sizes["time"] == 6
    with pytest.raises(WriterError, match="no variable has it"):
        brs.to_binref(tree, tmp_path / "a", append_dim="day")


def test_a_run_json_of_another_program_makes_no_run(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "other"}')
    with pytest.raises(FormatError, match="no run directory and holds none"):
        brs.open_dataset(tmp_path)
    with BinrefWriter("v", output_path=tmp_path / "run_1") as writer:
        writer.write(np.ones(3))
    assert brs.open_dataset(tmp_path).sizes["time"] == 1


def test_a_region_is_not_found_by_a_coordinate_that_repeats(tmp_path):
    part = xr.Dataset({"u": ("x", [1.0, 2.0])}, {"x": [0, 1]})
    brs.to_binref(part, tmp_path / "a")
    brs.to_binref(part, tmp_path / "a", append_dim="x")
    with pytest.raises(ValueError, match="'x' of what was saved has 0 more than once"):
        brs.to_binref(part, tmp_path / "a", region="auto")
