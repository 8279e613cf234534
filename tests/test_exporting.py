"""Exports: other programs open what a run has written, with or without a copy."""

import io
import json
import sys

import dask
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import binref_sci as brs
from binref_sci import progress
from binref_sci.cli.app import app
from binref_sci.engine.exporting import export
from binref_sci.errors import DatasetExistsError, FormatError

pytestmark = pytest.mark.filterwarnings(
    # Of the packages that read and write the other formats.
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",
    "ignore::ResourceWarning",
)


@pytest.fixture
def run(tmp_path):
    """Twelve snapshots in three buffers, with times and coordinates."""
    x = np.linspace(0, 1, 8)
    with brs.BinrefWriter(
        "heat",
        dims=("time", "y", "x"),
        coords={"x": ("x", x, {"units": "m"}), "time": {"units": "s"}},
        attrs={"units": "K", "limit": np.float32(1.5)},
        max_file_size=4 * 6 * 8 * 8,
        output_path=tmp_path / "run",
    ) as writer:
        for step in range(12):
            writer.write(np.full((6, 8), step, "f8") + x, time=0.5 * step)
    return tmp_path / "run"


def opened(path):
    with dask.config.set(scheduler="sync"):
        if path.suffix == ".nc":
            return xr.load_dataset(path, engine="h5netcdf")
        engine = {"engine": "kerchunk"} if path.suffix != ".zarr" else {"engine": "zarr"}
        keywords = {"consolidated": False} if path.suffix == ".zarr" else {}
        return xr.open_dataset(str(path), **engine, **keywords).load()


@pytest.mark.parametrize("kind", ["json", "parquet", "zarr", "nc"])
def test_a_run_is_exported(run, tmp_path, kind):
    target = tmp_path / f"x.{kind}"
    done = CliRunner().invoke(app, ["export", str(run), "-o", str(target)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(target)), done.output
    ours = brs.open_dataset(run).load()
    back = opened(target)
    xr.testing.assert_equal(back, ours)
    assert back.heat.attrs["units"] == "K"
    assert back.x.attrs == {"units": "m"}
    assert back.heat.attrs["limit"] == 1.5
    assert {path.name for path in tmp_path.iterdir()} == {"run", f"x.{kind}"}


def test_references_copy_nothing_and_are_few(run, tmp_path):
    export(run, tmp_path / "x.json")
    refs = json.loads((tmp_path / "x.json").read_text())["refs"]
    chunks = {
        key: value for key, value in refs.items() if key.startswith("heat/") and key[5] != "."
    }
    assert set(chunks) == {"heat/0.0.0", "heat/1.0.0", "heat/2.0.0"}
    assert all(nbytes == 4 * 6 * 8 * 8 for _, _, nbytes in chunks.values())
    export(run, tmp_path / "y.json", prefix="s3://bucket/run/")
    refs = json.loads((tmp_path / "y.json").read_text())["refs"]
    assert refs["heat/0.0.0"][0].startswith("s3://bucket/run/")


@pytest.mark.parametrize("kind", ["json", "parquet", "zarr", "nc"])
def test_a_restarted_run_is_exported_as_one(run, tmp_path, kind):
    with brs.BinrefWriter(
        "heat", dims=("time", "y", "x"), coords={"time": {"units": "s"}}, output_path=tmp_path / "b"
    ) as writer:
        for step in range(8, 16):
            writer.write(np.full((6, 8), -step, "f8"), time=0.5 * step)
    target = tmp_path / f"x.{kind}"
    done = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "b"), "-o", str(target)])
    assert done.exit_code == 0, done.output
    whole = brs.open_dataset([run, tmp_path / "b"]).load()
    assert whole.sizes["time"] == 16
    xr.testing.assert_equal(opened(target), whole)


ATTRS = {
    "flag": True, "flags": np.array([True, False]), "z": 1 - 2j, "none": None, "table": {"a": [1, 2]},
    "mixed": [1, "a"], "ragged": [[1], [2, 3]], "words": np.array(["a", "b"]), "half": np.float16(2),
    "nan": float("nan"), "many": np.arange(3, dtype="i2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["json", "zarr", "nc"])
def test_attributes_that_a_format_lacks_do_not_hinder_the_export(tmp_path, kind):
    brs.to_binref(xr.Dataset({"u": ("x", [1.0], ATTRS)}, attrs=ATTRS), tmp_path / "a")
    export(tmp_path / "a", tmp_path / f"x.{kind}")
    back = opened(tmp_path / f"x.{kind}")
    for attrs in (back.attrs, back.u.attrs):
        assert set(attrs) == set(ATTRS)
        assert (bool(attrs["flag"]), attrs["half"], list(attrs["many"])) == (True, 2, [0, 1, 2])
        assert list(attrs["words"]) == ["a", "b"]
        assert attrs["table"] == ('{"a":[1,2]}' if kind == "nc" else {"a": [1, 2]})
        assert attrs["z"] == ("[1.0,-2.0]" if kind == "nc" else [1.0, -2.0])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", ["parquet", "zarr", "nc"])
def test_progress_is_shown_on_a_terminal(run, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    export(run, tmp_path / f"x.{kind}")
    assert f"export {kind}" in sys.stderr.getvalue()
    assert "100%" in sys.stderr.getvalue()


def saved():
    return xr.Dataset(
        {
            "u": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"}),
            "packed": ("x", [0.0, 0.5, np.nan]),
            "flag": ("x", [True, False, True]),
            "label": ("x", ["a", "bc", "ü"]),
            "scalar": np.float32(0.5),
            "empty": (("none", "x"), np.empty((0, 3))),
        },
        coords={"time": np.array("2000-01-01", "M8[ns]") + np.arange(4) * np.timedelta64(1, "D")},
        attrs={"title": "saved"},
    )


@pytest.mark.parametrize("kind", ["json", "zarr", "nc"])
def test_a_saved_dataset_is_exported(tmp_path, kind):
    ds = saved()
    if kind == "nc":
        ds = ds.drop_vars("label")
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    brs.to_binref(ds.chunk(time=3), tmp_path / "a", encoding={"packed": packed})
    export(tmp_path / "a", tmp_path / f"x.{kind}")
    xr.testing.assert_equal(opened(tmp_path / f"x.{kind}"), ds)


def test_blocks_are_referenced_where_they_form_a_grid(tmp_path):
    field = np.arange(3 * 4 * 6, dtype="f4").reshape(3, 4, 6)
    for rank in range(2):
        block = (slice(0, 4), slice(3 * rank, 3 * rank + 3))
        with brs.BinrefWriter(
            "u",
            dims=("time", "y", "x"),
            block=block,
            shape=(4, 6),
            run_id="r",
            output_path=tmp_path / "run",
        ) as writer:
            for snapshot in field:
                writer.write(snapshot[block])
    export(tmp_path / "run", tmp_path / "x.json")
    np.testing.assert_array_equal(opened(tmp_path / "x.json").u, field)


def test_what_cannot_be_exported_says_why(run, tmp_path):
    with brs.BinrefWriter("z", compression="lz4", output_path=tmp_path / "packed") as writer:
        writer.write(np.ones(4))
    with pytest.raises(FormatError, match=r"'z' is compressed.*\.zarr"):
        export(tmp_path / "packed", tmp_path / "x.json")
    with pytest.raises(FormatError, match="must end in"):
        export(run, tmp_path / "x.grib")
    with pytest.raises(FormatError, match="prefix"):
        export(run, tmp_path / "x.zarr", prefix="s3://a/")
    brs.to_binref(xr.Dataset({"z": ("x", [1j])}), tmp_path / "complex")
    with pytest.raises(FormatError, match="complex"):
        export(tmp_path / "complex", tmp_path / "x.nc")
    (tmp_path / "x.json").write_text("mine")
    with pytest.raises(DatasetExistsError, match="exists"):
        export(run, tmp_path / "x.json")
    export(run, tmp_path / "x.json", overwrite=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"run", "packed", "complex", "x.json"}


@pytest.mark.parametrize("kind", ["json", "parquet", "zarr", "nc"])
def test_only_an_export_is_replaced(run, tmp_path, kind):
    target, link = tmp_path / f"x.{kind}", tmp_path / f"link.{kind}"
    export(run, target)
    link.symlink_to(target)
    brs.to_binref(brs.open_dataset(run)[{"time": slice(2)}], tmp_path / "short")
    for place in (target, link):
        export(run, place, overwrite=True)
        assert opened(target).sizes["time"] == 12
        export(tmp_path / "short", place, overwrite=True)
        assert opened(target).sizes["time"] == 2
    assert link.is_symlink()
    other = tmp_path / f"run.{kind}"
    run.rename(other)  # a folder of data, not a file or folder that an export has made
    with pytest.raises(DatasetExistsError, match=rf"is a folder and no \.{kind}.*another name"):
        export(tmp_path / "short", other, overwrite=True)
    assert brs.open_dataset(other).sizes["time"] == 12
    if kind in ("parquet", "zarr"):
        (tmp_path / f"y.{kind}").write_text("mine")
        with pytest.raises(DatasetExistsError, match="is a file and no"):
            export(other, tmp_path / f"y.{kind}", overwrite=True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("kind", ["zarr", "nc"])
def test_a_tree_is_exported_with_its_groups(tmp_path, kind):
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"t": ("time", [0.0, 1.0])}),
            "/flow": xr.Dataset({"u": (("time", "x"), np.eye(2, 5))}),
            "/flow/deep": xr.Dataset({"n": ("x", np.arange(5))}, attrs={"title": "deep"}),
        }
    )
    brs.to_binref(tree.chunk(time=1), tmp_path / "tree")
    target = tmp_path / f"copy.{kind}"
    done = CliRunner().invoke(app, ["export", str(tmp_path / "tree"), "-o", str(target)])
    assert done.exit_code == 0, done.output
    options = (
        {"engine": "zarr", "consolidated": False} if kind == "zarr" else {"engine": "h5netcdf"}
    )
    with xr.open_datatree(target, **options) as found:
        xr.testing.assert_identical(found.load(), tree)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_of_a_tree_one_group_has_references(tmp_path, kind):
    tree = xr.DataTree.from_dict({"/flow": xr.Dataset({"u": (("time", "x"), np.eye(2, 5))})})
    brs.to_binref(tree, tmp_path / "tree")
    with pytest.raises(FormatError, match=r"'/flow'.*no variables in groups.*\.zarr.*group="):
        export(tmp_path / "tree", tmp_path / f"x.{kind}")
    flow = brs.open_dataset(tmp_path / "tree", group="flow")
    brs.to_binref(flow, tmp_path / "flow")
    export(tmp_path / "flow", tmp_path / f"x.{kind}")
    xr.testing.assert_identical(opened(tmp_path / f"x.{kind}"), flow.load())


@pytest.mark.parametrize("kind", ["json", "parquet", "zarr", "nc"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_name_that_is_a_path_elsewhere_is_refused(tmp_path, kind, saved):
    with brs.BinrefWriter("a/b", output_path=tmp_path / "run") as writer:
        writer.write(np.ones(3))
    if saved:
        brs.to_binref(brs.open_dataset(tmp_path / "run"), tmp_path / "saved")
    source = tmp_path / ("saved" if saved else "run")
    with pytest.raises(FormatError, match=r"'a/b'.*for groups.*rename"):
        export(source, tmp_path / f"x.{kind}")
    assert not [path for path in tmp_path.iterdir() if path.suffix]
