"""The engine as xarray finds it, and what `open_dataset` adds to it."""

import asyncio
import json
import os
import pickle
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import dask
import numpy as np
import pytest
import xarray as xr
import xarray.testing.strategies as xrst
from hypothesis import given, settings
from hypothesis import strategies as st
from xarray.backends import list_engines

import binref_sci
from binref_sci import BinrefArray, BinrefWriter, open_dataset, open_datatree, to_binref
from binref_sci.engine import BinrefBackendEntrypoint
from binref_sci.errors import BufferNotFoundError, FormatError
from binref_sci.wire import ref_to_json
from tests.kit import bytes_read, descriptors_at_rest, open_descriptors

ENGINE = BinrefBackendEntrypoint
installed = pytest.mark.skipif(
    "binref" not in list_engines(), reason="the package is not installed, so xarray cannot find it"
)


def stream(folder, count=30, shape=(4, 5), name="u", **kwargs):
    kwargs.setdefault("dims", ("time", "y", "x"))
    field = np.arange(count * np.prod(shape), dtype="f8").reshape(count, *shape)
    with BinrefWriter(name, output_path=folder, **kwargs) as writer:
        for step, snapshot in enumerate(field):
            writer.write(snapshot, time=0.5 * step)
    return field


def respond(folder, fields):
    def to_json(value):
        if isinstance(value, BinrefArray):
            return ref_to_json(value.ref, "")
        if isinstance(value, dict):
            return {key: to_json(item) for key, item in value.items()}
        return [to_json(item) for item in value] if isinstance(value, list) else value

    Path(folder, "results.json").write_text(json.dumps(to_json(fields)))


# --- found by xarray


@installed
def test_xarray_finds_the_engine_by_name_and_by_content(tmp_path):
    field = stream(tmp_path)
    for kwargs in ({"engine": "binref"}, {}):
        with xr.open_dataset(tmp_path, **kwargs) as ds:
            assert ds.u.chunks is None
            np.testing.assert_array_equal(ds.u, field)
            assert ds.encoding["source"] == str(tmp_path)
            assert ds.u.encoding["preferred_chunks"] == {"time": 30, "y": 4, "x": 5}


@installed
def test_a_netcdf_file_opens_as_before_with_no_engine_named(tmp_path):
    """R66."""
    ds = xr.Dataset({"a": ("x", [1.0, 2.0])})
    ds.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "x.nc") as found:
        assert found.identical(ds)
    ds.to_zarr(tmp_path / "x.zarr", consolidated=False)
    with xr.open_dataset(tmp_path / "x.zarr", consolidated=False) as found:
        assert found.identical(ds)


def test_the_guess_claims_our_runs_and_nothing_else(tmp_path):
    """R66."""
    guess = ENGINE().guess_can_open
    run, empty = tmp_path / "out" / "run", tmp_path / "empty"
    empty.mkdir()
    stream(run)
    respond(run, {"a": BinrefArray.write([1.0], output_path=run)})
    journal = next(run.glob("*.jsonl"))
    for ours in (run, str(run), tmp_path / "out", journal, run / "results.json"):
        assert guess(ours)
    ds = xr.Dataset({"a": ("x", [1.0, 2.0])})
    ds.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    ds.to_zarr(tmp_path / "x.zarr", consolidated=False)
    (tmp_path / "random.json").write_text('{"type": "Topology"}')
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe")
    kerchunk = {"version": 1, "refs": {"a/0": ["x.bin", 0, 8]}}
    (tmp_path / "kerchunk.json").write_text(json.dumps(kerchunk))
    stream(tmp_path / "x.zarr" / "notes")  # within another engine's store
    features = {"features": [{"object_type": "building", "encoding": "utf8"}]}
    (tmp_path / "places.json").write_text(json.dumps(features))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "results.json").write_text(json.dumps(features))
    os.mkfifo(tmp_path / "pipe")
    names = (
        "x.nc", "x.zarr", "random.json", "odd.jsonl", "kerchunk.json", "empty", "nowhere", "shop",
        "places.json", "pipe",
    )  # fmt: skip
    foreign = [tmp_path / name for name in names]
    foreign += ["https://example.org/results.json", "memory://run", b"CDF\x01", None, 3, "a\0b"]
    foreign += [next(run.glob("*.bin")), ds, object()]
    for theirs in foreign:
        assert not guess(theirs)


def test_the_guess_opens_no_large_file(tmp_path):
    with (tmp_path / "results.json").open("wb") as file:
        file.truncate(2**31)
    before = bytes_read()
    assert not ENGINE().guess_can_open(tmp_path)
    assert bytes_read() - before < 2**20


def test_a_foreign_file_with_our_engine_is_an_error_that_says_what_was_found(tmp_path):
    path = tmp_path / "random.json"
    path.write_text('{"type": "Topology"}')
    with pytest.raises(ValueError, match=r"random\.json' is no result: .*'type'"):
        xr.open_dataset(path, engine=ENGINE)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        xr.open_dataset(tmp_path / "nowhere", engine=ENGINE)


def test_the_parameters_that_xarray_is_told_are_those_of_the_engine():
    code = ENGINE.open_dataset.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    assert ENGINE.open_dataset_parameters == names


# --- the options of xarray


@pytest.mark.parametrize(
    ("chunks", "lengths"),
    [
        ({}, (10, 10, 10)),
        ("auto", (30,)),
        ({"time": 10}, (10, 10, 10)),
        ({"time": 5}, (5,) * 6),
        ({"time": "auto"}, (30,)),
        (None, None),
    ],
)
def test_chunks_follow_the_buffers(tmp_path, chunks, lengths):
    """R59."""
    field = stream(tmp_path, shape=(64, 64), max_file_size=10 * 64 * 64 * 8)
    ds = open_dataset(tmp_path, chunks=chunks)
    assert ds.u.chunks == (None if lengths is None else (lengths, (64,), (64,)))
    assert ds.u.encoding["preferred_chunks"] == {"time": 10, "y": 64, "x": 64}
    np.testing.assert_array_equal(ds.u[7:23:5], field[7:23:5])


def test_automatic_chunks_are_whole_multiples_of_the_preferred_ones(tmp_path):
    stream(tmp_path, shape=(64, 64), max_file_size=10 * 64 * 64 * 8)
    with dask.config.set({"array.chunk-size": "700KiB"}):
        assert open_dataset(tmp_path, chunks="auto").u.chunks[0] == (20, 10)


def test_decoders_are_xarrays_own(tmp_path):
    attrs = {"scale_factor": np.float32(0.5), "_FillValue": np.int16(-1), "units": "K"}
    with BinrefWriter("t", dims=("time",), attrs=attrs, output_path=tmp_path,
                      coords={"time": {"units": "days since 2000-01-01"}}) as writer:  # fmt: skip
        for step, value in enumerate([2, -1, 4]):
            writer.write(np.int16(value), time=float(step))
    for chunks in ({}, None):
        ds = open_dataset(tmp_path, chunks=chunks)
        np.testing.assert_array_equal(ds.t, np.array([1, np.nan, 2], "f4"))
        assert ds.time.dtype.kind == "M"
        assert ds.t.dtype == np.float32
        raw = open_dataset(tmp_path, chunks=chunks, mask_and_scale=False, decode_times=False)
        np.testing.assert_array_equal(raw.t, [2, -1, 4])
        assert raw.time.attrs["units"] == "days since 2000-01-01"
        none = open_dataset(tmp_path, chunks=chunks, decode_cf=False)
        assert none.t.attrs["scale_factor"] == np.float32(0.5)
    assert open_dataset(tmp_path, decode_times={"time": False}).time.dtype == np.float64


def test_what_lasts_seconds_stays_a_number_unless_it_is_asked_for(tmp_path):
    with BinrefWriter("period", dims=("n",), attrs={"units": "seconds"}, output_path=tmp_path) as w:
        for value in (0.25, 1.5):
            w.write(np.float64(value))
    for ds in (open_dataset(tmp_path), xr.open_dataset(tmp_path, engine=ENGINE)):
        assert ds.period.dtype == np.float64
        assert ds.period.attrs == {"units": "seconds"}
    asked = open_dataset(tmp_path, decode_timedelta=True)
    assert asked.period.dtype.kind == "m"


def test_a_variable_that_is_dropped_may_have_lost_its_buffer(tmp_path):
    refs = {name: BinrefArray.write([1.0, 2.0], output_path=tmp_path) for name in ("a", "b")}
    respond(tmp_path, refs)
    (tmp_path / refs["b"].path).unlink()
    with pytest.raises(BufferNotFoundError, match="'b'"):
        open_dataset(tmp_path)
    assert list(open_dataset(tmp_path, drop_variables="b")) == ["a"]
    assert list(xr.open_dataset(tmp_path, engine=ENGINE, drop_variables=["b"])) == ["a"]
    for opener in (open_datatree, lambda path, **kw: xr.open_datatree(path, engine=ENGINE, **kw)):
        assert list(opener(tmp_path, drop_variables="b").ds) == ["a"]


def test_what_is_dropped_leaves_all_else_as_it_is(tmp_path):
    """As with any engine of xarray: coordinates and the names of dimensions stay."""
    stream(tmp_path, name="often", coords={"x": np.arange(5.0)})
    stream(tmp_path, name="seldom", count=3)
    for options in ({}, {"chunks": None}):
        whole = open_dataset(tmp_path, **options)
        assert whole.seldom.dims[0] == "seldom_time"
        for dropped in ("often", ["often", "x"], ["often", "seldom"], "time"):
            found = open_dataset(tmp_path, drop_variables=dropped, **options)
            xr.testing.assert_identical(found, whole.drop_vars(dropped))
            same = xr.open_dataset(tmp_path, engine=ENGINE, drop_variables=dropped)
            xr.testing.assert_identical(same, found)


def test_values_are_cached_unless_that_is_refused(tmp_path):
    stream(tmp_path)
    for cache, again in ((True, 0), (False, 30 * 20 * 8)):
        ds = xr.open_dataset(tmp_path, engine=ENGINE, cache=cache)
        ds.u.values  # noqa: B018  # reads
        before = bytes_read()
        ds.u.values  # noqa: B018  # reads, or not
        assert bytes_read() - before - 200 <= again <= bytes_read() - before


def test_a_closed_dataset_has_kept_no_file_open(tmp_path):
    stream(tmp_path)
    before = descriptors_at_rest()
    with xr.open_dataset(tmp_path, engine=ENGINE) as ds:
        loaded = ds.u[:3].load()
    assert open_descriptors() == before
    assert loaded.shape == (3, 4, 5)


def test_load_async_reads_as_load_does(tmp_path):
    field = stream(tmp_path)
    ds = xr.open_dataset(tmp_path, engine=ENGINE, cache=False)
    loaded = asyncio.run(ds.isel(time=[3, 1]).load_async())
    np.testing.assert_array_equal(loaded.u, field[[3, 1]])


def test_open_mfdataset_combines_runs(tmp_path):
    stream(tmp_path / "a", name="u")
    stream(tmp_path / "b", name="v")
    with xr.open_mfdataset(
        [tmp_path / "a", tmp_path / "b"],
        engine=ENGINE,
        compat="override",
        preprocess=lambda ds: ds.isel(time=slice(3)),
    ) as ds:
        assert set(ds) == {"u", "v"}
        assert ds.sizes["time"] == 3
        assert ds.u.chunks is not None


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("combine", [{}, {"combine": "nested", "concat_dim": "time"}])
def test_open_mfdataset_puts_saved_parts_together_and_closes_them(tmp_path, combine, parallel):
    ds = xr.Dataset({"u": (("time", "x"), np.random.default_rng(0).random((6, 3)))})
    ds = ds.assign_coords(time=np.arange(6.0))
    for number, part in enumerate((ds[{"time": slice(4)}], ds[{"time": slice(4, 6)}])):
        to_binref(part, tmp_path / f"part{number}")
    paths = sorted(tmp_path.iterdir())
    with xr.open_mfdataset(paths, engine=ENGINE, parallel=parallel, **combine) as found:
        xr.testing.assert_equal(found, ds)
        pickle.loads(pickle.dumps(found)).close()


# --- groups


def nested(folder):
    a, b, c = (BinrefArray.write(np.arange(3.0) + n, output_path=folder) for n in range(3))
    respond(folder, {"a": a, "flow": {"speed": b, "note": "fast", "deep": {"c": c}}, "loss": 0.5})


def test_nested_results_are_groups(tmp_path):
    nested(tmp_path)
    flat = open_dataset(tmp_path)
    assert set(flat) == {"a", "flow.speed", "flow.deep.c", "loss"}
    flow = open_dataset(tmp_path, group="flow")
    assert set(flow) == {"speed"}
    assert flow.attrs["note"] == "fast"
    assert flow.speed.dims == ("speed_dim_0",)
    tree = open_datatree(tmp_path)
    assert [node.path for node in tree.subtree] == ["/", "/flow", "/flow/deep"]
    np.testing.assert_array_equal(tree["flow/deep/c"], np.arange(3.0) + 2)
    assert tree["flow/deep/c"].chunks is not None
    assert set(xr.open_groups(tmp_path, engine=ENGINE)) == {"/", "/flow", "/flow/deep"}
    assert set(xr.open_groups(tmp_path, engine=ENGINE, group="flow")) == {"/", "/deep"}
    inner = xr.open_datatree(tmp_path, engine=ENGINE, group="flow")
    assert [node.path for node in inner.subtree] == ["/", "/deep"]
    for opener in (open_dataset, xr.open_dataset, xr.open_groups, xr.open_datatree, open_datatree):
        engine = {} if opener in (open_dataset, open_datatree) else {"engine": ENGINE}
        with pytest.raises(FormatError, match=r"no group 'flwo'.*'flow'"):
            opener(tmp_path, group="flwo", **engine)


def test_a_nested_result_of_text_alone_is_a_group(tmp_path):
    respond(tmp_path, {"a": BinrefArray.write([1.0], output_path=tmp_path), "by": {"who": "me"}})
    assert open_datatree(tmp_path)["by"].attrs["who"] == "me"
    assert open_dataset(tmp_path, group="by").attrs["who"] == "me"


def test_any_key_of_a_dict_is_in_the_tree(tmp_path):
    """xarray has no names with slashes, no empty ones, and no variable called like a group."""
    field = {"data": {"encoding": "json", "buffer": [1.0]}, "shape": [1], "dtype": "float64"}
    field["object_type"] = "array"
    keys = {
        "a/b": field,
        "a_b": field,
        "c": field,
        "c.d": field,
        "": {"e/f": {"": field, "note": "fast"}},
    }
    (tmp_path / "results.json").write_text(json.dumps({"keys": keys}))
    assert len(open_dataset(tmp_path)) == 5
    tree = open_datatree(tmp_path)
    found = {f"{node.path}/{name}" for node in tree.subtree for name in node.data_vars}
    assert found == {"/keys/a_b", "/keys/a_b_", "/keys/c_", "/keys/c/d", "/keys/_/e_f/_"}
    assert set(open_dataset(tmp_path, group="keys")) == {"a_b", "a_b_", "c_"}
    inner = open_dataset(tmp_path, group="keys/_/e_f")
    assert inner["_"].dims == ("__dim_0",)
    assert inner.attrs["note"] == "fast"


def test_a_group_whose_dimension_differs_from_the_one_above_is_told_apart(tmp_path):
    respond(tmp_path, {"x": BinrefArray.write([1.0, 2.0], output_path=tmp_path), "g": {
        "x": BinrefArray.write([1.0, 2.0, 3.0], output_path=tmp_path)}})  # fmt: skip
    tree = open_datatree(tmp_path)
    assert tree["g/x"].shape == (3,)


def test_a_nested_field_is_not_hidden_by_a_coordinate_of_the_group_above(tmp_path):
    with BinrefWriter(
        "u", dims=("time", "x"), coords={"x": [1.0, 2.0]}, output_path=tmp_path
    ) as writer:
        refs = [writer.write(np.full(2, n, "f8"), time=0.5 * n) for n in range(3)]
    times, grid = (
        BinrefArray.write(made, output_path=tmp_path) for made in (np.arange(4.0), np.eye(2))
    )
    respond(tmp_path, {"u": refs, "diag": {"time": times, "deep": {"x": grid, "time": 7.0}}})
    for tree in (open_datatree(tmp_path), xr.open_datatree(tmp_path, engine=ENGINE)):
        np.testing.assert_array_equal(tree["diag/time_"], np.arange(4.0))
        np.testing.assert_array_equal(tree["diag/deep/x_"], np.eye(2))
        assert float(tree["diag/deep/time_"]) == 7.0
        np.testing.assert_array_equal(tree["diag/deep/time"], [0.0, 0.5, 1.0])  # inherited
    np.testing.assert_array_equal(open_dataset(tmp_path, group="diag").time, np.arange(4.0))


@pytest.mark.parametrize("path", [("x",), ("diag", "x")])
def test_a_group_may_be_called_as_a_coordinate_above_it(tmp_path, path):
    with BinrefWriter(
        "u", dims=("time", "x"), coords={"x": [1.0, 2.0]}, output_path=tmp_path
    ) as writer:
        refs = [writer.write(np.full(2, n, "f8"), time=0.5 * n) for n in range(3)]
    nested = {"v": BinrefArray.write(np.arange(4.0), output_path=tmp_path)}
    for step in reversed(path):
        nested = {step: nested}
    respond(tmp_path, {"u": refs, **nested})
    tree = open_datatree(tmp_path)
    np.testing.assert_array_equal(tree["/".join(path)]["v"], np.arange(4.0))
    assert tree["x_"].dims == ("x",)
    np.testing.assert_array_equal(tree["x_"], [1.0, 2.0])


# --- never stale


def rewrite(folder, value):
    """Put other values into the same buffers, in the same time stamp of the folder."""
    stamp = folder.stat()
    (path,) = folder.glob("*.bin")
    path.write_bytes(np.full(4, value).tobytes())
    os.utime(folder, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def test_a_rewritten_buffer_has_another_name_though_no_entry_of_the_folder_has_changed(tmp_path):
    """R12."""
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        writer.write(np.zeros(4))
    one = open_dataset(tmp_path)
    assert open_dataset(tmp_path).u.data.name == one.u.data.name
    time.sleep(0.01)
    rewrite(tmp_path, 1.0)
    other = open_dataset(tmp_path)
    assert other.u.data.name != one.u.data.name
    np.testing.assert_array_equal(other.u, np.ones((1, 4)))


def test_other_attributes_or_options_are_another_name(tmp_path):
    stream(tmp_path)
    names = {
        open_dataset(tmp_path, **options).u.data.name
        for options in ({}, {"mask_and_scale": False}, {"chunks": {"time": 3}}, {"mmap": True})
    }
    assert len(names) == 4


@pytest.mark.long
def test_what_a_cluster_holds_is_never_taken_for_what_was_rewritten(tmp_path):
    distributed = pytest.importorskip("distributed")
    run = tmp_path / "run"
    with BinrefWriter("u", dims=("time", "x"), output_path=run) as writer:
        writer.write(np.zeros(4))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        held = open_dataset(run).persist()
        assert float(held.u.sum()) == 0
        rewrite(run, 8.0)
        again = open_dataset(run).persist()
        assert float(again.u.sum()) == 32
        assert float(held.u.sum()) == 0


def test_plain_xarray_warns_of_a_run_still_going_and_ours_does_not(tmp_path):
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        writer.write(np.zeros(4))
        with pytest.warns(UserWarning, match=r"still going.*binref_sci\.open_dataset") as told:
            xr.open_dataset(tmp_path, engine=ENGINE)
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one = open_dataset(tmp_path)
            writer.write(np.ones(4))
            other = open_dataset(tmp_path)
    assert (one.sizes["time"], other.sizes["time"]) == (1, 2)
    assert one.u.data.name != other.u.data.name
    np.testing.assert_array_equal(one.u, np.zeros((1, 4)))


# --- any index


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """One field over several buffers: plain, compressed, mapped; with and without dask."""
    made = []
    for options in ({}, {"compression": "lz4"}):
        folder = tmp_path_factory.mktemp("run")
        field = stream(folder, 9, max_file_size=4 * 20 * 8, **options)
        for kwargs in ({}, {"chunks": None}, {"chunks": None, "mmap": True}, {"mmap": True}):
            made.append(open_dataset(folder, cache=False, **kwargs).u)
    expected = xr.DataArray(field, dims=("time", "y", "x"))
    return made, expected


@given(data=st.data())
@settings(max_examples=40)
@pytest.mark.parametrize("kind", ["basic", "outer_array", "vectorized"])
def test_any_kind_of_index_equals_numpy(opened, data, kind):
    arrays, expected = opened
    indexers = data.draw(getattr(xrst, f"{kind}_indexers")(sizes=dict(expected.sizes)))
    wanted = expected.isel(indexers)
    for array in arrays:
        found = array.isel(indexers)
        assert found.dims == wanted.dims
        np.testing.assert_array_equal(found.values, wanted.values)


@given(data=st.data())
@settings(max_examples=5 if os.environ.get("BINREF_SCI_FULL", "") in ("", "0") else 60)
def test_a_chain_of_indices_equals_numpy(opened, data):
    arrays, expected = opened
    found, wanted = list(arrays), expected
    for _ in range(300):
        if not wanted.size or not wanted.dims:
            break
        indexers = data.draw(xrst.basic_indexers(sizes=dict(wanted.sizes), max_dims=1))
        if any(isinstance(part, int) for part in indexers.values()) and wanted.ndim == 1:
            break
        wanted = wanted.isel(indexers)
        found = [array.isel(indexers) for array in found]
    for array in found:
        np.testing.assert_array_equal(array.values, wanted.values)


@pytest.mark.parametrize("chunks", [{}, None])
@pytest.mark.parametrize("mmap", [False, True])
def test_axes_may_be_reversed_picked_masked_and_emptied(tmp_path, chunks, mmap):
    """R43."""
    field = stream(tmp_path, 8, max_file_size=3 * 20 * 8)
    u = open_dataset(tmp_path, chunks=chunks, mmap=mmap).u
    mask = np.arange(8) % 3 == 0
    keys = [
        np.s_[::-1], np.s_[:, ::-2], np.s_[5:1:-1], np.s_[-1], np.s_[[2, 0, 2]], np.s_[mask],
        np.s_[:, 0:0:-1], np.s_[3:3], np.s_[0, 1, 2], np.s_[..., -1], np.s_[7:0:-3, ::-1, ::-1],
    ]  # fmt: skip
    times = 0.5 * np.arange(8)
    for key in keys:
        found = u[key]
        np.testing.assert_array_equal(found, field[key])
        along = key[0] if isinstance(key, tuple) else key
        np.testing.assert_array_equal(found.time, times if along is Ellipsis else times[along])


# --- mapped


def test_mapped_buffers_are_views_and_the_file_is_safe(tmp_path):
    field = stream(tmp_path)
    path = max(tmp_path.glob("*.bin"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    ds = open_dataset(tmp_path, chunks=None, mmap=True)
    before = bytes_read()
    values = ds.u.values
    assert bytes_read() - before < 200
    np.testing.assert_array_equal(values, field)
    values[...] = 0
    assert path.read_bytes() == content
    again = pickle.loads(pickle.dumps(ds.u[3]))
    assert len(pickle.dumps(open_dataset(tmp_path, mmap=True).u.data.dask)) < 20_000
    assert again.shape == (4, 5)


def test_a_run_still_going_is_read_and_not_mapped(tmp_path):
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        writer.write(np.ones(4))
        values = open_dataset(tmp_path, chunks=None, mmap=True).u.values
        os.truncate(tmp_path / writer.write(np.ones(4)).path, 0)  # would kill a reader that maps
        np.testing.assert_array_equal(values, np.ones((1, 4)))


# --- at scale


def test_opening_twenty_thousand_references_takes_time_in_proportion(tmp_path):
    """R57."""
    with (tmp_path / "a.bin").open("wb") as file:
        file.truncate(20_000 * 2048)
    took = {}
    for count in (5_000, 20_000):
        items = [
            {"object_type": "array", "shape": [16, 16], "dtype": "float64",
             "data": {"buffer": f"a.bin:{2048 * n}", "encoding": "binref"}}
            for n in range(count)
        ]  # fmt: skip
        (tmp_path / "results.json").write_text(json.dumps({"u": items}))
        for chunks in ({}, {"u_dim_0": 1}):
            best = float("inf")
            for _ in range(5):  # of the processor: other processes may want it too
                began = time.process_time()
                ds = open_dataset(tmp_path, chunks=chunks)
                best = min(best, time.process_time() - began)
            took[count, bool(chunks)] = best
            limit = 100_000 if not chunks else 10_000 * count
            assert len(pickle.dumps(ds.u.data.dask)) < limit
    for single in (False, True):  # were it quadratic, sixteen times
        assert took[20_000, single] < 10 * max(took[5_000, single], 0.01)


def test_a_thousand_buffers_and_two_thousand_openings_under_128_descriptors(tmp_path):
    """R31."""
    stream(tmp_path / "many", 1000, shape=(1, 2), max_file_size=16)
    stream(tmp_path / "one", 2, shape=(1, 2))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors_at_rest()
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        for mmap in (False, True):
            with open_dataset(tmp_path / "many", mmap=mmap) as ds:
                assert float(ds.u.mean()) == 999.5
        for _ in range(200):
            with xr.open_dataset(tmp_path / "one", engine=ENGINE) as ds:
                assert float(ds.u.mean()) == 1.5
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_descriptors() == before


def test_importing_the_package_imports_no_xarray():
    code = "import binref_sci, sys; assert 'xarray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"follow", "open_datatree"} <= set(binref_sci.__all__)


def test_a_saved_tree_opens_with_its_groups(tmp_path):
    tree = xr.DataTree.from_dict({
        "/": xr.Dataset({"a": ("x", [1.0, 2.0])}),
        "/g": xr.Dataset({"b": ("y", [1, 2, 3])}),
    })  # fmt: skip
    to_binref(tree, tmp_path / "saved")
    assert open_datatree(tmp_path / "saved").identical(tree)
    assert list(open_dataset(tmp_path / "saved")) == ["a"]
    assert list(open_dataset(tmp_path / "saved", group="g")) == ["b"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"chunk": {"time": 3}}, "'chunk'; did you mean 'chunks'?"),
        ({"drop_variable": "u"}, "'drop_variable'; did you mean 'drop_variables'?"),
        ({"engine": "binref"}, "'engine'; it takes "),
    ],
)
@pytest.mark.parametrize("function", [open_dataset, open_datatree])
def test_an_option_that_is_not_there_is_told_with_what_may_be_meant(
    tmp_path, function, given, message
):
    stream(tmp_path)
    with pytest.raises(TypeError) as caught:
        function(tmp_path, **given)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{function.__name__}()")


@pytest.mark.parametrize("function", [open_dataset, open_datatree])
@pytest.mark.parametrize("saved", [False, True])
def test_a_group_that_is_a_variable_or_misspelled_is_told(tmp_path, function, saved):
    if saved:
        ds = xr.Dataset({"u": ("x", [1.0])})
        to_binref(xr.DataTree.from_dict({"/": ds, "/flow": ds}), tmp_path / "run")
    else:
        ref = BinrefArray.write([1.0], output_path=tmp_path / "run")
        field = ref_to_json(ref.ref, "")
        text = json.dumps({"u": field, "flow": {"u": field}})
        (tmp_path / "run" / "results.json").write_text(text)
    for group in ("u", "flow/u"):
        with pytest.raises(FormatError, match=f"no group '{group}'.*flow.*that is a variable"):
            function(tmp_path / "run", group=group)
    with pytest.raises(FormatError, match=r"no group 'flo'.*did you mean '/?flow'"):
        function(tmp_path / "run", group="flo")


def test_a_path_that_is_not_there_is_told_with_what_may_be_meant(tmp_path):
    stream(tmp_path / "output" / "run_first")
    for path, message in (
        ("outptu", r"outptu'; did you mean 'output'\?"),
        ("output/first", r"did you mean 'run_first'\?"),
        ("output/run_frst", r"did you mean 'run_first'\?"),
        ("outpt/run_first", r"'; '.*' has no 'outpt'; did you mean 'output'\?"),
        ("output/run_*", r"patterns are not expanded: give a list"),
        ("zebra", r"zebra'$"),
        ("output/run_first/run.txt/x", r"has no 'run.txt'"),
    ):
        with pytest.raises(BufferNotFoundError, match=message):
            open_dataset(tmp_path / path)
    journal = next((tmp_path / "output" / "run_first").glob("*.jsonl"))
    with pytest.raises(BufferNotFoundError, match="jsonl' is a file"):
        open_dataset(journal / "u")


def test_what_others_open_is_told_with_how(tmp_path):
    ds = xr.Dataset({"u": ("x", [0.0, 1.0])})
    ds.to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    ds.to_netcdf(tmp_path / "old.nc", engine="scipy")
    ds.to_zarr(tmp_path / "u.zarr", zarr_format=2)
    for name, message in (
        ("u.nc", r"netCDF, which xarray\.open_dataset opens"),
        ("old.nc", r"netCDF, which xarray\.open_dataset opens"),
        ("u.zarr", r"Zarr, which xarray\.open_zarr opens"),
    ):
        with pytest.raises(FormatError, match=message):
            open_dataset(tmp_path / name)
    with pytest.raises(TypeError, match=r"expected the path of one run directory, .* got Dataset$"):
        open_dataset(ds)


@pytest.mark.parametrize(("stamp", "shown"), [("00.0", True), ("00.5", False), ("01.0", True)])
def test_a_programs_own_journal_is_of_its_call_where_stamps_are_whole_seconds(
    tmp_path, stamp, shown
):
    """As file systems keep them that are far away, and as tar does."""
    (tmp_path / "run.json").write_text(
        """{"format": 1, "run_id": "r", "component": "c", "version": "1", "endpoint": "apply",
        "output_format": "json+binref", "labels": {}, "started": "2026-01-01T00:00:00.900000+00:00",
        "ended": "2026-01-01T00:00:02+00:00", "state": "complete"}"""
    )
    (tmp_path / "u.bin").write_bytes(np.arange(6.0).tobytes())
    journal = tmp_path / "u.binref.jsonl"
    journal.write_text(
        """{"binref_journal": 1, "name": "u"}
{"segment": {"buffer": "u.bin", "offset": 0, "shape": [2], "dtype": "float64"}}
{"end": {"count": 3}}
"""
    )
    at = np.datetime64(f"2026-01-01T00:00:{stamp}", "ns").astype(int)
    os.utime(journal, ns=(at, at))
    assert list(open_dataset(tmp_path)) == (["u"] if shown else [])
