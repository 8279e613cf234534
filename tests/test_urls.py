"""Runs at URLs: a real S3 server on loopback, and fsspec's memory."""

import functools
import json
import pickle
import shutil
import subprocess
import textwrap
import threading
import warnings
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dask
import fsspec
import numpy as np
import pytest
import s3fs
import uvicorn
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from typer.testing import CliRunner

import binref_sci as brs
from binref_sci import BinrefWriter, Tesseract, follow, open_dataset, open_datatree
from binref_sci.cli.app import app
from binref_sci.engine.checks import check
from binref_sci.engine.exporting import export
from binref_sci.errors import (
    BufferNotFoundError,
    CorruptBufferError,
    FormatError,
    InvalidReferenceError,
    RunEndedError,
    StoreError,
    TruncatedBufferError,
)
from binref_sci.storage import fetching
from tests.kit import run, until
from tests.serving import COMMAND

FIELD = np.random.default_rng(7).random((40, 32, 24))


@pytest.fixture(scope="module")
def server():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def options(server):
    return {
        "key": "test",
        "secret": "test",
        "client_kwargs": {"endpoint_url": server},
    }


@pytest.fixture(scope="module")
def bucket(options):
    fs = s3fs.S3FileSystem(**options)
    fs.mkdir("bucket")
    return fs


@pytest.fixture(params=["memory", "s3"])
def place(request, tmp_path_factory):
    """A store: its file system, the URL of an empty folder in it, and storage_options."""
    name = tmp_path_factory.mktemp("store").name
    if request.param == "memory":
        fs = fsspec.filesystem("memory")
        yield fs, f"memory://{name}", None
        fs.rm(f"/{name}", recursive=True)
        return
    yield (
        request.getfixturevalue("bucket"),
        f"s3://bucket/{name}",
        request.getfixturevalue("options"),
    )


def write(folder, *, times=range(40), **kwargs):
    with BinrefWriter(
        "heat",
        dims=("time", "y", "x"),
        coords={"x": np.arange(24.0)},
        attrs={"units": "K"},
        output_path=folder,
        **kwargs,
    ) as writer:
        for step in times:
            writer.write(FIELD[step], time=0.5 * step)


def upload(fs, folder, url):
    fs.put(f"{folder}/", f"{url}/", recursive=True)


def test_a_run_directory_opens_at_its_url_as_it_does_on_a_disk(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "run", max_file_size=60_000)
    upload(fs, tmp_path / "run", url)
    here = open_dataset(tmp_path / "run")
    there = open_dataset(url, storage_options=options)
    xr.testing.assert_identical(there.load(), here.load())
    assert there.encoding["binref_state"] == "complete"
    assert there.encoding["source"].endswith(url.partition("://")[2])
    with xr.open_dataset(url, engine="binref", storage_options=options, chunks=None) as lazy:
        np.testing.assert_array_equal(lazy.heat[::-3, 5, ::2], FIELD[::-3, 5, ::2])
    many = xr.open_mfdataset(
        [url, url],
        engine="binref",
        combine="nested",
        concat_dim="copy",
        backend_kwargs={"storage_options": options},
    )
    np.testing.assert_array_equal(many.heat, [FIELD, FIELD])


def test_journals_results_and_output_paths_open_at_their_urls(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "out" / "run_1")
    reference = {
        "object_type": "array",
        "shape": [32, 24],
        "dtype": "float64",
        "data": {"encoding": "binref", "buffer": ""},
    }
    (buffer,) = (
        path for path in (tmp_path / "out" / "run_1").glob("*.bin") if path.stat().st_size > 10_000
    )
    refs = [
        {**reference, "data": {"encoding": "binref", "buffer": f"run_1/{buffer.name}:{n * 6144}"}}
        for n in range(40)
    ]
    results = {"flow": {"heat": refs}, "note": "done"}
    (tmp_path / "out" / "run_1" / "results.json").write_text(json.dumps(results))
    upload(fs, tmp_path / "out", url)
    (journal,) = (path.name for path in (tmp_path / "out" / "run_1").glob("*.jsonl"))
    for source in (url, f"{url}/run_1", f"{url}/run_1/results.json"):
        ds = open_dataset(source, storage_options=options)
        np.testing.assert_array_equal(ds["flow.heat"], FIELD)
        np.testing.assert_array_equal(ds.time, 0.5 * np.arange(40))
        assert ds.attrs["note"] == "done"
    tree = open_datatree(f"{url}/run_1", storage_options=options)
    np.testing.assert_array_equal(tree["flow/heat"][3], FIELD[3])
    ds = open_dataset(f"{url}/run_1/{journal}", storage_options=options)
    np.testing.assert_array_equal(ds.heat[-1], FIELD[-1])
    found = brs.open_references(f"{url}/run_1", storage_options=options)
    np.testing.assert_array_equal(found["flow.heat"][2], FIELD[2])
    assert pickle.loads(pickle.dumps(found["flow.heat"]))[2] == found["flow.heat"][2]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
@given(data=st.data())
def test_every_index_reads_what_numpy_gives(tmp_path_factory, data):
    from xarray.testing.strategies import basic_indexers, outer_array_indexers, vectorized_indexers

    fs = fsspec.filesystem("memory")
    if not fs.exists("/indexed"):
        folder = tmp_path_factory.mktemp("indexed")
        write(folder / "plain", max_file_size=60_000)
        write(folder / "small", max_file_size=60_000, compression="lz4")
        upload(fs, folder, "memory://indexed")
    sizes = {"time": 40, "y": 32, "x": 24}
    indexers = data.draw(
        st.one_of(
            basic_indexers(sizes=sizes),
            outer_array_indexers(sizes=sizes),
            vectorized_indexers(sizes=sizes),
        )
    )
    name = data.draw(st.sampled_from(["plain", "small"]))
    lazy = xr.open_dataset(f"memory://indexed/{name}", engine="binref").heat
    wanted = xr.DataArray(FIELD, dims=("time", "y", "x")).isel(indexers)
    np.testing.assert_array_equal(lazy.isel(indexers).values, wanted.values)


def test_ranges_larger_than_a_window_or_a_part_arrive_whole(monkeypatch, tmp_path):
    monkeypatch.setattr(fetching, "WINDOW", 10_000)
    monkeypatch.setattr(fetching, "PART", 3_000)
    monkeypatch.setattr(fetching, "MERGE_GAP", 500)
    write(tmp_path, max_file_size=60_000)
    fs = fsspec.filesystem("memory")
    upload(fs, tmp_path, "memory://windows")
    lazy = xr.open_dataset("memory://windows", engine="binref").heat
    for key in (..., np.s_[:, 3, 4], np.s_[::-2, 4:9, ::5], np.s_[[5, 5, 0, 39], 1:3], np.s_[7]):
        np.testing.assert_array_equal(lazy[key], FIELD[key])
    fs.rm("/windows", recursive=True)


def asked_of(fs, monkeypatch):
    """Byte ranges that are asked of a store from now on."""
    asked = []
    real = type(fs).cat_ranges

    def cat_ranges(self, paths, starts, ends, **kwargs):
        asked.append(sum(b - a for a, b in zip(starts, ends, strict=True)))
        return real(self, paths, starts, ends, **kwargs)

    monkeypatch.setattr(type(fs), "cat_ranges", cat_ranges)
    return asked


def test_only_the_bytes_that_are_needed_are_asked_for_and_all_at_once(monkeypatch, tmp_path):
    fs = fsspec.filesystem("memory")
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path, max_file_size=4 << 20) as w:
        for step in range(16):
            w.write(np.full(1 << 17, float(step)))  # 1 MiB
    upload(fs, tmp_path, "memory://ranges")
    lazy = xr.open_dataset("memory://ranges", engine="binref").u
    asked = asked_of(fs, monkeypatch)
    np.testing.assert_array_equal(lazy[:, 7], np.arange(16.0))
    assert asked == [16 * 8]  # four files, one round
    np.testing.assert_array_equal(lazy[3], np.full(1 << 17, 3.0))
    assert asked[1:] == [1 << 20]
    fs.rm("/ranges", recursive=True)


@pytest.mark.long
def test_a_graph_and_a_pickle_hold_no_data_and_work_in_another_process(bucket, options, tmp_path):
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path / "run") as writer:
        for step in range(64):
            writer.write(np.full(1 << 16, float(step)), time=step)
    upload(bucket, tmp_path / "run", "s3://bucket/pickled")
    ds = open_dataset("s3://bucket/pickled", storage_options=options, chunks={"time": 8})
    assert len(pickle.dumps(ds.u.data)) < 20_000
    with dask.config.set(scheduler="processes"):
        assert float(ds.u.mean()) == 31.5
    lazy = xr.open_dataset("s3://bucket/pickled", engine="binref", storage_options=options)
    (tmp_path / "lazy.pickle").write_bytes(pickle.dumps(lazy))
    assert len(pickle.dumps(lazy)) < 20_000
    code = """
        import pickle, sys
        lazy = pickle.loads(open(sys.argv[1], "rb").read())
        print(float(lazy.u[5, 3]))
    """
    assert run(code, tmp_path / "lazy.pickle", cwd=tmp_path) == "5.0\n"


@pytest.mark.long
def test_workers_of_a_cluster_read_from_a_bucket(bucket, options, tmp_path):
    from dask.distributed import Client, LocalCluster

    write(tmp_path / "run", max_file_size=60_000)
    upload(bucket, tmp_path / "run", "s3://bucket/cluster")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        ds = open_dataset("s3://bucket/cluster", storage_options=options)
        np.testing.assert_allclose(ds.heat.mean("time").compute(), FIELD.mean(0))


def test_names_of_chunks_follow_the_objects_and_are_the_same_in_every_process(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "run")
    upload(fs, tmp_path / "run", url)
    first = open_dataset(url, storage_options=options).heat.data.name
    assert open_dataset(url, storage_options=options).heat.data.name == first
    if url.startswith("s3"):
        code = """
            import json, sys, binref_sci
            ds = binref_sci.open_dataset(sys.argv[1], storage_options=json.loads(sys.argv[2]))
            print(ds.heat.data.name)
        """
        assert run(code, url, json.dumps(options)).strip() == first
    (buffer,) = (p for p in (tmp_path / "run").glob("*.bin") if p.stat().st_size > 10_000)
    fs.pipe(f"{url}/{buffer.name}", FIELD[::-1].tobytes())
    again = open_dataset(url, storage_options=options)
    assert again.heat.data.name != first
    np.testing.assert_array_equal(again.heat, FIELD[::-1])


def test_what_is_missing_or_short_is_an_error_and_never_zeros(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "run", max_file_size=60_000)
    upload(fs, tmp_path / "run", url)
    ds = open_dataset(url, storage_options=options, chunks=None)
    buffer = sorted(p.name for p in (tmp_path / "run").glob("*.bin") if p.stat().st_size > 10_000)[
        0
    ]
    content = (tmp_path / "run" / buffer).read_bytes()
    fs.pipe(f"{url}/{buffer}", content[:100])
    with pytest.raises(TruncatedBufferError, match=rf"'heat'.*{buffer}.* holds 100 bytes, but"):
        ds.heat.load()
    fs.rm(f"{url}/{buffer}")
    with pytest.raises(BufferNotFoundError, match=rf"'heat'.*{buffer}.*does not exist"):
        ds.heat.load()
    with pytest.raises(BufferNotFoundError, match=buffer):
        open_dataset(url, storage_options=options)
    with pytest.raises(BufferNotFoundError, match="no file or folder"):
        open_dataset(f"{url}/nothing", storage_options=options)


def test_damaged_frames_at_a_url_are_found(tmp_path):
    fs = fsspec.filesystem("memory")
    write(tmp_path, compression="lz4")
    upload(fs, tmp_path, "memory://damaged")
    ds = open_dataset("memory://damaged", chunks=None)
    np.testing.assert_array_equal(ds.heat[4, 5:7], FIELD[4, 5:7])
    buffer = max(fs.ls("/damaged", detail=True), key=lambda entry: entry["size"])["name"]
    fs.pipe(buffer, bytes(fs.cat(buffer)[:1000]) + bytes(fs.size(buffer) - 1000))
    with pytest.raises(CorruptBufferError, match="'heat'"):
        open_dataset("memory://damaged", chunks=None).heat.load()
    fs.rm("/damaged", recursive=True)


@pytest.mark.parametrize(
    "path", ["../secret.bin", "/other/secret.bin", "a/../../secret.bin", "memory://other/x.bin"]
)
def test_references_stay_inside_their_folder_at_a_url_too(path, tmp_path):
    fs = fsspec.filesystem("memory")
    fs.pipe("/secret.bin", bytes(8))
    fs.pipe("/other/x.bin", bytes(8))
    field = {
        "object_type": "array",
        "shape": [1],
        "dtype": "float64",
        "data": {"encoding": "binref", "buffer": f"{path}:0"},
    }
    fs.pipe("/inside/results.json", json.dumps({"f": field}).encode())
    with pytest.raises(InvalidReferenceError, match="must"):
        open_dataset("memory://inside").load()
    for name in ("/secret.bin", "/other", "/inside"):
        fs.rm(name, recursive=True)


def test_file_urls_are_paths(tmp_path):
    write(tmp_path / "run")
    ds = open_dataset(f"file://{tmp_path}/run", chunks=None, mmap=True)
    np.testing.assert_array_equal(ds.heat, FIELD)
    assert ds.encoding["source"] == str(tmp_path / "run")


class Quiet(SimpleHTTPRequestHandler):
    """Lists folders, and gives all of a file whatever range is asked for."""

    def log_message(self, *_):
        pass


@contextmanager
def web(app):
    """A web server on loopback; gives its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def test_a_web_server_that_knows_byte_ranges_is_enough(tmp_path):
    write(tmp_path)
    (buffer,) = (path for path in tmp_path.glob("*.bin") if path.stat().st_size > 10_000)
    field = {
        "object_type": "array",
        "shape": [40, 32, 24],
        "dtype": "float64",
        "data": {"encoding": "binref", "buffer": f"{buffer.name}:0"},
    }
    (tmp_path / "results.json").write_text(json.dumps({"heat": field}))
    (journal,) = tmp_path.glob("*.jsonl")
    with web(Starlette(routes=[Mount("/", StaticFiles(directory=tmp_path))])) as url:
        for name in ("results.json", journal.name):  # there is no listing
            ds = open_dataset(f"{url}/{name}", chunks=None)
            np.testing.assert_array_equal(ds.heat[3:9, :, 4], FIELD[3:9, :, 4])
        with pytest.raises(BufferNotFoundError, match="nothing"):
            open_dataset(f"{url}/nothing.json")


def test_a_web_server_without_byte_ranges_is_an_error_and_not_the_wrong_bytes(tmp_path):
    write(tmp_path / "run")
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            ds = open_dataset(f"http://127.0.0.1:{server.server_port}/run", chunks=None)
            with pytest.raises(TruncatedBufferError, match="does the store know byte ranges"):
                ds.heat[3].load()
        finally:
            server.shutdown()
            thread.join()


def test_what_cannot_be_says_so(tmp_path):
    fs = fsspec.filesystem("memory")
    write(tmp_path)
    upload(fs, tmp_path, "memory://said")
    with pytest.raises(ValueError, match="mmap=True maps files of this machine"):
        open_dataset("memory://said", mmap=True)
    with pytest.raises(ValueError, match="mmap=True maps files of this machine"):
        open_datatree("memory://said", mmap=True)
    with pytest.raises(ValueError, match="storage_options are for URLs"):
        open_dataset(tmp_path, storage_options={"anon": True})
    with pytest.raises(FormatError, match=r"'nope://x' cannot be opened"):
        open_dataset("nope://x")
    with pytest.raises(BufferNotFoundError, match="the path is empty"):
        open_dataset("")
    with pytest.raises(FormatError, match=r"name a local folder.*upload"):
        brs.to_binref(xr.Dataset({"u": ("x", [1.0])}), "memory://said2")
    with pytest.raises(TypeError, match="storage_options must be a dict"):
        open_dataset("memory://said", storage_options="anon")
    with pytest.raises(BufferNotFoundError, match="a URL is given as text"):
        open_dataset(Path("memory://said"))
    fs.pipe("/foreign/a.txt", b"hello")
    with pytest.raises(FormatError, match="no run directory"):
        open_dataset("memory://foreign")
    with pytest.raises(FormatError, match="neither a result nor a journal"):
        open_dataset("memory://foreign/a.txt")
    for name in ("/said", "/foreign"):
        fs.rm(name, recursive=True)


class Gate:
    """Lets nobody in whose address does not end with the word."""

    def __init__(self, app, word):
        self.app, self.word = app, word

    async def __call__(self, scope, receive, send):
        if scope["query_string"].decode() != self.word:
            await PlainTextResponse("no", status_code=403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def test_a_token_in_a_web_address_goes_with_all_files_of_its_folder(tmp_path):
    write(tmp_path)
    (journal,) = tmp_path.glob("*.jsonl")
    gate = Gate(Starlette(routes=[Mount("/", StaticFiles(directory=tmp_path))]), "token=abc")
    with web(gate) as url:
        ds = open_dataset(f"{url}/{journal.name}?token=abc", chunks=None)
        np.testing.assert_array_equal(ds.heat[3:9, :, 4], FIELD[3:9, :, 4])
        gate.word = "token=new"
        with pytest.raises(StoreError, match=r"the store failed: ClientResponseError: 403"):
            ds.heat[0].load()
        with pytest.raises(StoreError, match="403"):
            open_dataset(f"{url}/{journal.name}?token=abc")


def test_a_web_server_that_forbids_what_it_does_not_have_is_enough(tmp_path):
    write(tmp_path)
    (journal,) = tmp_path.glob("*.jsonl")
    files = StaticFiles(directory=tmp_path)

    async def stores(scope, receive, send):  # like buckets that may be read but not listed
        if (tmp_path / scope["path"].strip("/")).is_file():
            await files(scope, receive, send)
        else:
            await PlainTextResponse("no", status_code=403)(scope, receive, send)

    with web(stores) as url:
        ds = open_dataset(f"{url}/{journal.name}", chunks=None)
        np.testing.assert_array_equal(ds.heat[3], FIELD[3])
        with pytest.raises(StoreError, match="403"):
            open_dataset(url)


NOWHERE = {"endpoint_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("http://127.0.0.1:1/run", None, "ClientConnectorError"),
        (
            "s3://bucket/run",
            {
                "key": "a",
                "secret": "b",
                "client_kwargs": NOWHERE,
                "config_kwargs": {"retries": {"max_attempts": 0}},
            },
            "EndpointConnectionError",
        ),
        ("s3://bucket/run", {"client_kwargs": NOWHERE}, "NoCredentialsError"),
        ("s3://bucket/run", {"secrte": "b"}, "secrte"),
    ],
)
def test_a_store_that_refuses_or_cannot_be_reached_is_told_from_a_missing_run(
    url, options, said, monkeypatch
):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreError, match=said):
        open_dataset(url, storage_options=options)
    with pytest.raises(StoreError, match=said):
        xr.open_dataset(url, engine="binref", storage_options=options)
    asked = ["show", url, "--storage-options", json.dumps(options or {})]
    done = subprocess.run([*COMMAND, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_part_of_a_chain_may_be_missing_or_broken(tmp_path):
    write(tmp_path / "run")
    packed = shutil.make_archive(str(tmp_path / "run"), "zip", tmp_path / "run")
    np.testing.assert_array_equal(open_dataset(f"zip://::file://{packed}").heat, FIELD)
    with pytest.raises(BufferNotFoundError, match=r"none\.zip"):
        open_dataset(f"zip://::file://{tmp_path}/none.zip")
    (tmp_path / "bad.zip").write_text("no archive")
    with pytest.raises(StoreError, match="BadZipFile"):
        open_dataset(f"zip://::file://{tmp_path}/bad.zip")
    (tmp_path / "a::b").symlink_to("run")
    np.testing.assert_array_equal(open_dataset(tmp_path / "a::b").heat, FIELD)


def test_restarted_runs_at_urls_are_one_trajectory(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "a", times=range(20))
    write(tmp_path / "b", times=range(10, 40))
    upload(fs, tmp_path, url)
    whole = open_dataset([f"{url}/a", f"{url}/b"], storage_options=options)
    np.testing.assert_array_equal(whole.heat, FIELD)
    np.testing.assert_array_equal(whole.time, 0.5 * np.arange(40))
    if options is None:
        with pytest.raises(FormatError, match="different stores"):
            open_dataset([f"{url}/a", tmp_path / "b"])


def test_blocks_of_ranks_come_together_at_a_url(place, tmp_path):
    fs, url, options = place
    for rank in range(2):
        with BinrefWriter(
            "wave",
            dims=("time", "y", "x"),
            block=(slice(16 * rank, 16 * rank + 16), slice(0, 24)),
            shape=(32, 24),
            run_id="r",
            output_path=tmp_path / "run",
        ) as writer:
            for step in range(5):
                writer.write(FIELD[step, 16 * rank : 16 * rank + 16], time=step)
    upload(fs, tmp_path / "run", url)
    np.testing.assert_array_equal(open_dataset(url, storage_options=options).wave, FIELD[:5])


def test_a_saved_dataset_is_uploaded_and_published_last(place, tmp_path):
    """The way that the error of to_binref names."""
    fs, url, options = place
    ds = xr.Dataset(
        {"u": (("time", "x"), FIELD[0]), "word": ("time", [f"w{n}" for n in range(32)])},
        {"time": np.arange(32).astype("M8[D]").astype("M8[ns]")},
    )
    brs.to_binref(ds.chunk(time=5), tmp_path / "saved")
    files = [path for path in (tmp_path / "saved").iterdir() if path.name != "run.json"]
    fs.put([str(path) for path in files], [f"{url}/{path.name}" for path in files])
    fs.put(f"{tmp_path}/saved/run.json", f"{url}/run.json")
    shutil.rmtree(tmp_path / "saved")
    xr.testing.assert_identical(open_dataset(url, storage_options=options).load(), ds)
    tree = open_datatree(url, storage_options=options)
    xr.testing.assert_identical(tree.to_dataset().load(), ds)


def test_an_unfinished_run_at_a_url_is_interrupted_and_followed_until_its_end(place, tmp_path):
    """Nobody can see there whether its writer lives."""
    fs, url, options = place
    writer = BinrefWriter("u", dims=("time", "x"), output_path=tmp_path)
    for step in range(3):
        writer.write(np.full(4, float(step)), time=step)
    upload(fs, tmp_path, url)
    ds = open_dataset(url, storage_options=options)
    assert (ds.encoding["binref_state"], ds.sizes["time"]) == ("interrupted", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing says that it still goes on
        xr.open_dataset(url, engine="binref", storage_options=options)
    live = follow(url, storage_options=options)
    assert live.state == "writing"
    with pytest.raises(TimeoutError, match="3 complete snapshots"):
        live.wait(n=4, timeout=0.01)
    writer.write(np.full(4, 3.0), time=3)
    writer.close()
    upload(fs, tmp_path, url)
    assert live.wait(n=4, timeout=60).sizes["time"] == 4
    assert live.state == "complete"
    assert [float(snapshot.u[0]) for snapshot in live] == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RunEndedError):
        live.wait(n=5, timeout=10)
    np.testing.assert_array_equal(ds.u[:, 0], [0.0, 1.0, 2.0])


def test_show_check_and_export_take_urls(place, tmp_path):
    fs, url, options = place
    write(tmp_path / "run", max_file_size=60_000)
    upload(fs, tmp_path / "run", url)
    given = ["--storage-options", json.dumps(options)] if options else []
    for command, said in (("show", "heat"), ("check", "no problems")):
        done = CliRunner().invoke(app, [command, url, *given])
        assert done.exit_code == 0
        assert said in done.output
    done = CliRunner().invoke(app, ["show", url, "--storage-options", "[1"])
    assert done.exit_code == 2
    assert "not JSON" in done.output
    export(url, tmp_path / "copy.zarr", storage_options=options)
    copied = xr.open_zarr(tmp_path / "copy.zarr", consolidated=False)
    np.testing.assert_array_equal(copied.heat, FIELD)
    buffer = sorted((tmp_path / "run").glob("*.bin"))[0].name
    fs.rm(f"{url}/{buffer}")
    report = check(url, options)
    assert any(buffer in problem for problem in report.problems)


COMPONENT = """
    from pydantic import BaseModel
    from binref_sci import open_references
    from binref_sci.runtime import Array, Float64

    class InputSchema(BaseModel):
        url: str

    class OutputSchema(BaseModel):
        all: list[Array[(None, None), Float64]]
        one: Array[(None, None), Float64]

    def apply(inputs):
        heat = open_references(inputs.url)["heat"]
        return OutputSchema(all=heat[:3], one=heat[7])
"""


def test_arrays_of_a_url_that_a_component_returns_are_copied_into_its_run(tmp_path):
    fs = fsspec.filesystem("memory")
    write(tmp_path / "run")
    upload(fs, tmp_path / "run", "memory://returned")
    (tmp_path / "tesseract_api.py").write_text(textwrap.dedent(COMPONENT))
    sim = Tesseract.from_tesseract_api(tmp_path, output_path=tmp_path / "out", lazy=True)
    with pytest.warns(RuntimeWarning, match="are copied into the run directory"):
        made = sim.apply({"url": "memory://returned"})
    fs.rm("/returned", recursive=True)
    np.testing.assert_array_equal(made["all"], FIELD[:3])
    np.testing.assert_array_equal(made["one"], FIELD[7])
