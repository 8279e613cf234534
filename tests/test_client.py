import contextlib
import copy
import gc
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import psutil
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import BaseModel

from binref_sci import BinrefArray, BinrefWriter, Tesseract, Trajectory, open_dataset
from binref_sci.client.plain import Plain
from binref_sci.client.remote import normal_url
from binref_sci.dtypes import DTYPES
from binref_sci.errors import (
    BufferNotFoundError,
    ComponentError,
    FormatError,
    InvalidReferenceError,
    PayloadError,
    RemoteConnectionError,
    RemoteError,
    UnsupportedDTypeError,
)
from tests.components import ECHO, HEAT, component
from tests.kit import descriptors_at_rest, open_descriptors
from tests.serving import held_port, serving

FORMATS = ["json", "json+base64", "json+binref"]
DOORS = ["served", "in process"]
READ_AND_SAID = "ignore:.*of arrays on disk are read into memory:RuntimeWarning"


class Place:
    """One component, reachable through both doors."""

    def __init__(self, folder, source, *options):
        self.folder = folder
        self.component = component(folder / "component", source)
        self.output = folder / "output"
        self.input = folder / "input"
        self.input.mkdir()
        self.options = ("--output-path", self.output, "--input-path", self.input, *options)
        self.url = ""

    @contextmanager
    def served(self):
        with serving(self.component, *self.options, log_file=self.folder / "log") as server:
            self.url = server.url
            yield self

    def open(self, door, **options):
        if door == "served":
            return Tesseract.from_url(self.url, **{"output_path": self.output, **options})
        return Tesseract.from_tesseract_api(self.component, **options)


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("echo"), ECHO).served() as place:
        yield place


@pytest.fixture(scope="module")
def heat(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("heat"), HEAT).served() as place:
        yield place


@pytest.fixture(params=DOORS)
def door(request):
    return request.param


@contextmanager
def replying(reply, *, times=1):
    """A server on loopback that answers each request with the bytes of `reply`, then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(30)

    def serve():
        for _ in range(times):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(EOFError):
                connection.settimeout(30)
                if callable(reply):
                    reply(connection)
                    continue
                _take_request(connection)
                connection.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        listener.close()
        thread.join(5)


def _take_request(connection):
    def more():
        piece = connection.recv(65536)
        if not piece:
            raise EOFError("the client has hung up")
        return piece

    got = b""
    while b"\r\n\r\n" not in got:
        got += more()
    head, _, body = got.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += more()


def http(body, status="200 OK", kind="application/json", length=None, more=""):
    body = body if isinstance(body, bytes) else orjson.dumps(body)
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def told(url, reply, **options):
    """What a client makes of a reply to apply(); the first request is for the labels."""
    with replying(reply, times=2) as url:
        return Tesseract.from_url(url, **options).apply({})


def same(got, wanted):
    """Equal with shape, dtype and NaN."""
    assert isinstance(got, np.ndarray)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype.newbyteorder("="))
    np.testing.assert_array_equal(got, wanted)


ARRAYS = {
    **{name: np.array([[0, 1, 2], [3, 4, 1]], dtype) for name, dtype in DTYPES.items()},
    "big-endian": np.array([1.0, 2.0], ">f8"),
    "column-major": np.asfortranarray(np.array([[1, 2, 3], [4, 5, 6]], "int32")),
    "strided": np.arange(12.0)[::-3],
    "no axes": np.array(0.7, "float32"),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((2, 0), "complex64"),
    "special": np.array([np.nan, np.inf, -np.inf, 1.5]),
    "largest": np.array([2**64 - 1, 2**63, 1], "uint64"),
    "smallest": np.array([-(2**63), 2**63 - 1], "int64"),
    "complex": np.array([1 + 2j, -0.5j, complex(np.nan, 1), complex(0, np.inf)]),
}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("disk", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.filterwarnings(READ_AND_SAID)
def test_every_array_comes_back_as_it_went_writable_and_private(
    echo, door, case, disk, output_format
):
    array = ARRAYS[case]
    sim = echo.open(door, output_format=output_format)
    inner = {"values": [array, array], "named": {"k.1": array}}
    out = sim.apply({"array": array, "inner": inner, "disk": disk})
    got = [out["array"], *out["inner"]["values"], out["inner"]["named"]["k.1"]]
    for each in got:
        same(each, array)
        assert each.flags.writeable
    for number, each in enumerate(got):  # R61: none shares memory with another, or with ours
        each[...] = number % 2
    for number, each in enumerate(got):
        assert (each == number % 2).all()
    same(sim.apply({"array": array})["array"], array)
    assert out["text"] == "Grüße"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    array=npst.arrays(
        st.sampled_from(list(DTYPES.values())), npst.array_shapes(min_dims=0, min_side=0)
    ),
    output_format=st.sampled_from(FORMATS),
)
def test_any_array_comes_back_through_either_door(echo, door, array, output_format):
    out = echo.open(door, output_format=output_format).apply({"array": array})
    if output_format == "json" and array.dtype.kind in "fc":
        np.testing.assert_allclose(out["array"], array, rtol=0)  # the payload of a NaN is lost
    else:
        same(out["array"], array)


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("form", [np.generic, np.ndarray])
def test_a_single_number_of_numpy_keeps_its_dtype(echo, door, form, output_format):
    sim = echo.open(door, output_format=output_format)
    for dtype in DTYPES.values():
        array = np.array(1, dtype)
        single = array[()] if form is np.generic else array
        inner = {"values": [single, single], "named": {"a": single}}
        out = sim.apply({"array": single, "inner": inner})
        got = [out["array"], *out["inner"]["values"], out["inner"]["named"]["a"]]
        for each in got:
            same(each, array)


@pytest.mark.parametrize("form", [np.generic, np.ndarray])
def test_a_single_number_of_numpy_is_a_plain_one_where_the_schema_has_one(echo, door, form):
    sim = echo.open(door)
    for dtype in DTYPES.values():
        if dtype.kind == "c":
            continue
        array = np.array(1, dtype)
        single = array[()] if form is np.generic else array
        plain = {"loss": single, "losses": [single, single], "table": {"a": [single, "x"]}}
        out = sim.apply({"number": single, "plain": plain, "disk": np.array(False)[()]})
        assert out["number"] == out["plain"]["loss"] == 1.0
        assert out["plain"]["losses"] == [1.0, 1.0]
        assert out["plain"]["table"] == {"a": [1.0, "x"]}
    assert np.isnan(sim.apply({"number": np.array(np.nan)})["number"])
    shapes = sim.abstract_eval({"array": np.float32(1), "number": np.array(2.0)})
    assert shapes["array"] == {"shape": [], "dtype": "float32"}


@pytest.mark.parametrize("output_format", FORMATS)
def test_numbers_lists_and_foreign_arrays_are_inputs_too(echo, door, output_format):
    sim = echo.open(door, output_format=output_format)

    def echoed(value):
        return sim.apply({"array": value})["array"]

    same(echoed(3), np.array(3))
    same(echoed(0.5), np.array(0.5))
    same(echoed([np.array(1.5), np.float32(2)]), np.array([1.5, 2.0]))
    same(echoed(True), np.array(True))
    same(echoed(1 - 2j), np.array(1 - 2j))
    same(echoed(float("nan")), np.array(np.nan))
    same(echoed([1, 2]), np.array([1, 2]))
    same(echoed(((1.5, float("nan")), (float("inf"), 0.0))), np.array([[1.5, np.nan], [np.inf, 0]]))
    same(echoed([2**64 - 1]), np.array([2**64 - 1], "uint64"))
    same(echoed(xr.DataArray([1.0, 2.0], dims="x")), np.array([1.0, 2.0]))
    same(echoed({"shape": [1], "dtype": "int8", "data": {"buffer": [7], "encoding": "raw"}}),
         np.array([7], "int8"))  # fmt: skip
    assert sim.apply({"number": np.float64(0.5)})["number"] == 0.5
    assert sim.apply({"number": np.int8(2)})["number"] == 2


def test_lists_of_numbers_of_numpy_may_be_mixed(echo, door):
    sim = echo.open(door)
    mixed = [np.float64(0.5), 1.5, np.float32(np.inf), np.int8(-3), np.bool(True), 2, np.nan]
    mixed += [np.uint64(2**63), np.float64(np.nan)]
    out = sim.apply({"plain": {"losses": mixed}, "array": [mixed[:2], tuple(mixed[2:4])]})
    np.testing.assert_array_equal(out["plain"]["losses"], np.array(mixed, "f8"))
    same(out["array"], np.array([[0.5, 1.5], [np.inf, -3]]))
    singles = [np.float64(0.5), np.int8(3)]  # each an array of its own
    back = sim.apply({"inner": {"values": singles}})["inner"]["values"]
    for got, sent in zip(back, singles, strict=True):
        same(got, np.asarray(sent))
    with pytest.raises(UnsupportedDTypeError, match=r"inputs\.plain\.losses\[1\]: .*float"):
        sim.apply({"plain": {"losses": [0.5, np.longdouble(1)]}})


@pytest.mark.parametrize("nested", [False, True])
def test_a_list_of_numbers_of_numpy_costs_no_call_for_each(nested):
    schema = {"properties": {"x": {"type": "array", "items": {"type": "number"}}}}
    if nested:
        schema["properties"]["x"] = {"type": "array", "items": schema["properties"]["x"]}
    schemas = {"ApplyInputSchema": {"properties": {"inputs": schema}}}

    def calls(count):
        called = 0

        def count_calls(frame, event, argument):
            nonlocal called
            called += event == "call"

        numbers = list(np.linspace(0, 1, count))
        value = {"x": [numbers, numbers] if nested else numbers}
        plain = Plain(lambda: {"components": {"schemas": schemas}})
        sys.setprofile(count_calls)
        try:
            plain.of(value, ("inputs",))
        finally:
            sys.setprofile(None)
        return called

    assert calls(1000) == calls(10)


@pytest.mark.parametrize("output_format", FORMATS)
def test_plain_numbers_that_json_lacks_come_back_where_the_schema_says_number(
    echo, door, output_format
):
    nan, inf = float("nan"), float("inf")
    plain = {
        "loss": nan, "losses": [1.0, inf, -inf, nan], "table": {"a": [inf, "Infinity"]},
        "perhaps": None, "word": "-Infinity", "either": "Infinity",
    }  # fmt: skip
    out = echo.open(door, output_format=output_format).apply({"plain": plain})["plain"]
    np.testing.assert_array_equal(out.pop("losses"), plain.pop("losses"))
    assert np.isnan(out.pop("loss"))
    del plain["loss"]
    assert out == plain


def test_inputs_may_be_an_instance_of_a_schema(echo, door):
    class Inputs(BaseModel, arbitrary_types_allowed=True):
        array: np.ndarray
        number: float = 1.0

    out = echo.open(door).apply(Inputs(array=np.arange(3)))
    same(out["array"], np.arange(3))
    assert out["number"] == 1.0


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.array([object()]), "object"),
        (np.array(["a"]), "str"),
        (np.array([1], "datetime64[s]"), "datetime64"),
        (np.longdouble([1]), "longdouble|float128"),
        (np.ma.masked_array([1.0], [True]), "masked"),
    ],
)
def test_an_array_that_the_wire_does_not_have_is_refused_by_its_place(echo, door, value, found):
    with pytest.raises(UnsupportedDTypeError, match=rf"inputs\.inner\.values\[1\].*({found})"):
        echo.open(door).apply({"inner": {"values": [1, value]}})


def test_what_json_does_not_have_is_refused(echo, door):
    with pytest.raises(PayloadError, match=r"JSON: \w+ .* is nothing that JSON has"):
        echo.open(door).apply({"array": [object()]})
    with pytest.raises(PayloadError, match="must be a dict"):
        echo.open(door).apply([1, 2])


def test_arrays_on_disk_are_inputs_referred_to_where_the_server_sees_them(echo, door):
    below = BinrefArray.write(np.arange(4.0), output_path=echo.input / "deep")
    packed = BinrefArray.write(np.arange(5.0), output_path=echo.input, compression="lz4")
    beside = BinrefArray.write(np.arange(3.0), output_path=echo.folder / "elsewhere")
    with BinrefWriter(output_path=echo.input) as writer:
        for step in range(3):
            writer.write(np.full(2, step))
    inputs = {
        "array": beside,
        "inner": {"values": writer.trajectory(), "named": {"a": below, "b": packed}},
    }
    for input_path in (None, echo.input):
        out = echo.open(door, input_path=input_path).apply(inputs)
        same(out["array"], np.arange(3.0))
        same(out["inner"]["named"]["a"], np.arange(4.0))
        same(out["inner"]["named"]["b"], np.arange(5.0))
        assert [each.tolist() for each in out["inner"]["values"]] == [[0, 0], [1, 1], [2, 2]]


def test_a_shared_input_is_sent_unread(echo):
    array = BinrefArray.write(np.zeros(1_000_000), output_path=echo.input)
    sizes = []

    class Counting(httpx.HTTPTransport):
        def handle_request(self, request):
            sizes.append(len(request.read()))
            return super().handle_request(request)

    sim = echo.open("served", input_path=echo.input, transport=Counting())
    same(sim.apply({"inner": {"named": {"a": array}}})["inner"]["named"]["a"], np.zeros(1_000_000))
    assert max(sizes) < 500


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_each_input_has_its_own_encoding_whatever_the_output(echo, door, output_format, order):
    array = np.arange(3.0)
    stored = BinrefArray.write(array, output_path=echo.input)
    reference = {
        "object_type": "array", "shape": [3], "dtype": "float64",
        "data": {"buffer": stored.buffer, "encoding": "binref"},
    }  # fmt: skip
    kinds = [reference, array, [0.0, 1.0, 2.0]]
    a, b, c = (kinds[index] for index in order)
    sim = echo.open(door, input_path=echo.input, output_format=output_format)
    out = sim.apply({"array": a, "inner": {"values": [b], "named": {"c": c}}})
    for each in (out["array"], out["inner"]["values"][0], out["inner"]["named"]["c"]):
        same(each, array)


def test_large_inputs_are_sent_in_pieces(echo, door):
    array = np.random.default_rng(7).normal(size=(3, 1_000_003))
    same(echo.open(door).apply({"array": array})["array"], array)


def test_compressed_replies_are_read(echo, door):
    array = np.zeros((4, 1000))
    for output_format in ("json+base64", "json+binref"):
        sim = echo.open(door, output_format=output_format, compression="lz4")
        same(sim.apply({"array": array})["array"], array)
    out = sim.apply({"inner": {"values": [array, array]}}, lazy=True)
    packed = out["inner"]["values"]
    assert packed.compression == "lz4"
    np.testing.assert_array_equal(packed[1][2, ::100], np.zeros(10))
    eager = echo.open(door, output_format="json+binref")
    out = eager.apply({"inner": {"values": [array] * 3}, "disk": True, "compression": "lz4"})
    for each in out["inner"]["values"]:
        same(each, array)


# ------------------------------------------------------------------ lazy


def test_lazy_results_are_references_with_labels_and_times(heat, door):
    for options in ({}, {"fold": True}):
        out = heat.open(door, lazy=True).apply({"steps": 3, **options})
        field = out["heat"]
        assert isinstance(field, Trajectory)
        assert isinstance(out["final"], BinrefArray)
        assert field.shape == (3, 4)
        assert field.labels.dims == ("time", "x")
        assert field.labels.attrs == {"units": "K", "long_name": "temperature"}
        np.testing.assert_array_equal(field.times, [0, 0.5, 1])
        np.testing.assert_array_equal(field[1:].times, [0.5, 1])
        np.testing.assert_array_equal(field[2][:], np.full(4, 2.0))
        np.testing.assert_array_equal(out["final"][:], np.full(4, 2.0))


def test_a_lazy_result_becomes_a_dataset(heat, door):
    out = heat.open(door, lazy=True).apply({"steps": 3})
    ds = out.to_dataset()
    assert ds.heat.dims == ("time", "x")
    assert ds.heat.attrs["units"] == "K"
    assert ds.heat.chunks is not None
    assert ds.final.dims == ("x",)
    assert ds.attrs["where"] == out["where"]
    np.testing.assert_array_equal(ds.heat.sel(time=0.5), np.full(4, 1.0))
    assert out.to_dataset(chunks={"time": 1}).heat.chunks[0] == (1, 1, 1)


def test_an_eager_result_becomes_a_dataset_too(heat, door):
    ds = heat.open(door).apply({"steps": 3}).to_dataset()
    assert ds.heat.dims == ("time", "x")
    assert ds.heat.attrs == {"units": "K"}
    assert ds.heat.values[:, 0].tolist() == [0, 1, 2]


def test_ragged_lists_are_lists(heat, door):
    out = heat.open(door).apply({"ragged": True, "plain": True})
    assert [each.shape for each in out["heat"]] == [(4,), (5,), (6,)]
    out = heat.open(door).apply({"ragged": True, "plain": True}, lazy=True)
    assert [type(each) for each in out["heat"]] == [BinrefArray] * 3
    np.testing.assert_array_equal(out["heat"][2][:], np.full(6, 2.0))
    with pytest.raises(FormatError, match=r"'heat' is a ragged list.*element 1 has shape"):
        out.to_dataset()


@pytest.mark.filterwarnings(READ_AND_SAID)
@pytest.mark.parametrize("lazy", [False, True])
def test_an_output_that_is_not_there_is_told_with_those_that_are(heat, door, lazy):
    out = heat.open(door).apply({"steps": 3}, lazy=lazy)
    with pytest.raises(KeyError, match=r"no output 'haet'; there are .*'heat'.*mean 'heat'\?"):
        out["haet"]
    assert out.get("haet") is None
    assert "haet" not in out


def test_nested_results_are_a_flat_dataset(echo, door):
    inner = {"values": [[1.0, 2.0], [3.0, 4.0]], "named": {"a": 1.5}}
    out = echo.open(door, lazy=True).apply({"inner": inner})
    ds = out.to_dataset()
    assert ds["inner.values"].values.tolist() == [[1, 2], [3, 4]]
    assert float(ds["inner.named.a"]) == 1.5
    assert ds.attrs["text"] == "Grüße"


def test_lazy_is_chosen_once_or_for_each_call(heat, door):
    assert isinstance(heat.open(door, lazy=True).apply({})["heat"], Trajectory)
    assert isinstance(heat.open(door).apply({}, lazy=True)["heat"], Trajectory)
    sim = heat.open(door, lazy=True, output_format="json+binref")
    assert isinstance(sim.apply({}, lazy=False)["heat"], list)
    for output_format in ("json", "json+base64"):
        with pytest.raises(FormatError, match="output_format="):
            heat.open(door, lazy=True, output_format=output_format)
        with pytest.raises(FormatError, match="output_format="):
            heat.open(door, output_format=output_format).apply({}, lazy=True)
    with pytest.raises(FormatError, match="'yaml' is unknown"):
        heat.open(door, output_format="yaml")


def test_a_run_whose_results_went_into_the_response_says_so_when_it_is_opened(tmp_path):
    sim = Tesseract.from_tesseract_api(component(tmp_path / "echo", ECHO), output_path=tmp_path)
    sim.apply({}, run_id="eager")
    with pytest.warns(RuntimeWarning, match=r"answered in json\+base64.*lazy=True"):
        assert not open_dataset(tmp_path / "run_eager").variables
    sim.apply({}, run_id="lazy", lazy=True)
    open_dataset(tmp_path / "run_lazy")


def test_nothing_is_deleted_and_no_descriptor_kept(heat, door, tmp_path):
    output = heat.output if door == "served" else tmp_path
    for lazy in (True, False):
        with heat.open(door, lazy=lazy, output_format="json+binref", output_path=output) as sim:
            sim.apply({})
            before = sorted(output.rglob("*")), descriptors_at_rest()
            results = [sim.apply({"steps": 50}) for _ in range(5)]
            assert open_descriptors() == before[1]
        kept = set(output.rglob("*"))
        del results
        gc.collect()
        assert set(output.rglob("*")) == kept > set(before[0])


def test_a_run_is_named_and_lies_in_the_output_path(heat, door, tmp_path):
    output = heat.output if door == "served" else tmp_path
    name = f"mine-{DOORS.index(door)}"
    out = heat.open(door, output_path=output).apply({}, run_id=name, lazy=True)
    assert Path(out["where"]) == output / f"run_{name}"
    assert (output / f"run_{name}" / "results.json").exists()
    assert out["final"].path.startswith(f"run_{name}/")


def test_a_scratch_folder_lasts_as_long_as_a_result_refers_to_it(heat):
    sim = heat.open("in process")
    out = sim.apply({}, lazy=True)
    folder = out["heat"].directory
    field, twin = out["heat"][1:], copy.deepcopy(out["heat"])
    loaded = pickle.loads(pickle.dumps(field))
    del sim, out, field, loaded  # a pickle does not own it, and does not remove it either
    gc.collect()
    assert folder.exists()
    array = twin.to_xarray()
    del twin
    gc.collect()
    assert float(array.sum()) == 12.0
    del array
    gc.collect()
    assert not folder.exists()


def test_a_forked_child_leaves_its_parents_scratch_alone(heat):
    code = f"""
import os, sys
from binref_sci import Tesseract
out = Tesseract.from_tesseract_api({str(heat.component)!r}).apply({{}}, lazy=True)
if os.fork() == 0:
    sys.exit(0)  # runs what is to be run at exit
os.wait()
print(out["heat"].load().sum(), out["heat"].directory)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    total, folder = done.stdout.split()
    assert float(total) == 12.0
    assert not Path(folder).exists()  # and the parent, at its own exit, does not


def test_nobody_is_warned_of_a_format_that_he_did_not_choose(heat, door):
    out = heat.open(door).apply({"steps": 3})  # a server says it in its log
    assert [each[0] for each in out["heat"]] == [0, 1, 2]
    with pytest.warns(RuntimeWarning, match=r"128 bytes of arrays on disk are read into memory"):
        heat.open("in process", output_format="json").apply({"steps": 3})


@pytest.mark.filterwarnings(READ_AND_SAID)
def test_a_scratch_folder_is_removed_after_an_eager_call(heat):
    for output_format in FORMATS:
        out = heat.open("in process", output_format=output_format).apply({})
        assert not Path(out["where"]).exists()
    with pytest.raises(ComponentError):
        heat.open("in process").apply({"fail": "x"})


def test_relative_paths_are_meant_from_where_they_were_given(heat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = heat.open("in process", output_path="out", lazy=True)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert sim.apply({})["heat"].load().sum() == 12.0
    assert (tmp_path / "out").is_dir()


def test_references_need_a_folder_that_both_sides_see(heat, tmp_path):
    url = heat.url
    with pytest.raises(FormatError, match="output_path="):
        Tesseract.from_url(url, lazy=True)
    with pytest.raises(FormatError, match="output_path="):
        Tesseract.from_url(url, output_format="json+binref")
    with pytest.raises(FormatError, match="output_path="):
        Tesseract.from_url(url).apply({}, lazy=True)
    elsewhere = Tesseract.from_url(url, output_path=tmp_path)
    with pytest.raises(BufferNotFoundError, match=r"heat: .*is output_path=.*the folder that http"):
        elsewhere.apply({}, lazy=True)


# ------------------------------------------------------------------ errors


def test_both_doors_tell_the_same_about_a_wrong_payload(echo):
    told = []
    for door in DOORS:
        with pytest.raises(PayloadError) as caught:
            echo.open(door).apply({"number": "x", "array": {"shape": [1]}, "unknown": 1})
        told.append((str(caught.value), caught.value.errors))
    assert told[0] == told[1]
    places = [entry["loc"] for entry in told[0][1]]
    assert ["inputs", "number"] in places
    assert ["inputs", "unknown"] in places
    assert all(entry.keys() == {"loc", "msg", "type"} for entry in told[0][1])
    assert "inputs.number" in told[0][0]


@pytest.mark.parametrize("run_id", ["../x", "", "a/b", ".hidden", "x" * 129, "a\0b"])
def test_a_run_id_that_leads_elsewhere_is_refused_by_either_door(heat, door, run_id):
    with pytest.raises(PayloadError, match="run_id") as caught:
        heat.open(door).apply({}, run_id=run_id)
    assert caught.value.errors[0]["loc"] == ["query", "run_id"]


def test_a_component_that_fails_in_process_is_the_cause(heat):
    with pytest.raises(ComponentError, match="ArithmeticError: no way") as caught:
        heat.open("in process").apply({"fail": "no way"})
    assert isinstance(caught.value.__cause__, ArithmeticError)


def test_a_component_that_fails_on_a_server_is_told_with_its_status(heat):
    with pytest.raises(RemoteError, match=r"answered 500: .*ArithmeticError: no way") as caught:
        heat.open("served").apply({"fail": "no way"})
    assert caught.value.status == 500
    assert heat.open("served").health() == {"status": "ok"}


def test_a_format_the_server_cannot_produce_is_a_format_error(tmp_path):
    place = Place(tmp_path, HEAT)
    place.options = ()
    with place.served():
        sim = Tesseract.from_url(place.url, output_path=tmp_path, output_format="json+binref")
        with pytest.raises(FormatError, match="--output-path"):
            sim.apply({})


def test_an_endpoint_that_is_not_there_is_told(heat):
    with pytest.raises(RemoteError, match=r"404.*no /abstract_eval") as caught:
        heat.open("served").abstract_eval({})
    assert caught.value.status == 404
    with pytest.raises(PayloadError, match="no endpoint 'abstract_eval'"):
        heat.open("in process").abstract_eval({})


def test_nothing_listens():
    with held_port() as port:
        told = f"nothing answers at http://localhost:{port}"
        with pytest.raises(RemoteConnectionError, match=told):
            Tesseract.from_url(f"localhost:{port}").health()
        with pytest.raises(ConnectionError):
            Tesseract.from_url(f"localhost:{port}").apply({})
    with pytest.raises(RemoteConnectionError, match="nothing answers at http://no-such-host"):
        Tesseract.from_url("http://no-such-host.invalid", timeout=20).health()


def test_a_server_that_hangs_up_is_told():
    with pytest.raises(RemoteConnectionError, match="broke before the reply was complete"):
        told("", b"")
    with pytest.raises(RemoteConnectionError, match="broke before the reply was complete"):
        told("", http({"a": 1}, length=1000))
    half = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with pytest.raises(RemoteConnectionError, match="broke before the reply was complete"):
        told("", half + b'5\r\n{"a":\r\n')


def test_a_server_that_says_nothing_is_waited_for_as_long_as_wanted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for timeout in (0.2, (100.0, 0.2)):
            started = time.monotonic()
            with pytest.raises(RemoteConnectionError, match="no sign of life within timeout="):
                Tesseract.from_url(url, timeout=timeout).health()
            assert time.monotonic() - started < 50


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (http(b"<html>hello", kind="text/html"), RemoteError, "Content-Type 'text/html'.*<html>"),
        (http(b'{"a": 1', kind="application/json"), RemoteError, "7 bytes that are not valid JSON"),
        (http(b'{"a": NaN}'), RemoteError, "not valid JSON"),
        (http(b""), RemoteError, "0 bytes that are not valid JSON"),
        (http(b"[" * 100_000), RemoteError, "not valid JSON"),
        (http(b"oops", "503 Busy", "text/plain"), RemoteError, "answered 503: oops"),
        (http({"detail": "gone"}, "410 Gone"), RemoteError, "answered 410: gone"),
        (http(b"", "302 Found", more="Location: /else\r\n"), RemoteError, "moved to '/else'"),
        (http(b"\xff\xfe", "500 No"), RemoteError, "answered 500"),
        (http({"detail": "odd"}, "422 No"), PayloadError, "odd"),
        (http({"detail": [{"loc": ["body", 3], "msg": "bad"}]}, "422 No"), PayloadError,
         "3: bad"),
        (http({"x": {"object_type": "array", "shape": [2], "dtype": "int8",
                     "data": {"buffer": "AQ==", "encoding": "base64"}}}), RemoteError,
         "the reply cannot be read: x: base64 buffer holds 1 bytes"),
        (http({"x": {"object_type": "array", "shape": [2], "dtype": "int8",
                     "data": {"buffer": [1, None], "encoding": "json"}}}), RemoteError,
         "null in an array of int8"),
        (http({"x": [{"shape": [2], "dtype": "int8",
                      "data": {"buffer": "a.bin:0", "encoding": "binref"}}]}), FormatError,
         "x: .*output_path="),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", RemoteConnectionError, "broke before"),
    ],
)  # fmt: skip
def test_a_reply_that_is_none_is_a_clear_error(reply, error, words):
    with pytest.raises(error, match=words):
        told("", reply)


def test_null_is_nan_in_a_reply_of_floats():
    reply = {"x": {"object_type": "array", "shape": [3], "dtype": "float32",
                   "data": {"buffer": [1, None, "-Infinity"], "encoding": "json"}}}  # fmt: skip
    same(told("", http(reply))["x"], np.array([1, np.nan, -np.inf], "float32"))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    "buffer", ["../x.bin:0", "{outside}:0", "link.bin:0", "../root-not/x.bin:0", "x.bin:-8", "f:0"]
)
def test_a_reply_leads_nowhere_but_into_the_output_path(tmp_path, buffer, lazy, listed):
    root = tmp_path / "root"
    (tmp_path / "root-not").mkdir()
    root.mkdir()
    for place in (tmp_path, tmp_path / "root-not"):
        (place / "x.bin").write_bytes(bytes(16))
    (root / "x.bin").write_bytes(bytes(16))
    (root / "link.bin").symlink_to(tmp_path / "x.bin")
    os.mkfifo(root / "f")
    buffer = buffer.format(outside=tmp_path / "x.bin")
    item = {"shape": [2], "dtype": "float64", "data": {"buffer": buffer, "encoding": "binref"}}
    body = http({"x": [item, item] if listed else item})
    error = BufferNotFoundError if buffer == "f:0" else InvalidReferenceError
    with pytest.raises(error, match=r"^x"):
        told("", body, output_path=root, output_format="json+binref", lazy=lazy)


def test_a_reply_may_wander_within_the_output_path(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "b.bin").write_bytes(np.arange(2.0).tobytes())
    (tmp_path / "root").symlink_to(tmp_path / "real")
    for buffer in ("a/../b.bin:0", "b.bin"):
        item = {"data": {"encoding": "binref", "buffer": buffer}, "dtype": "float64", "shape": [2]}
        for lazy in (True, False):
            out = told("", http({"x": item, "y": [item]}), output_path=tmp_path / "root",
                       output_format="json+binref", lazy=lazy)  # fmt: skip
            np.testing.assert_array_equal(np.asarray(out["x"]), [0, 1])
            np.testing.assert_array_equal(np.asarray(out["y"][0]), [0, 1])


def test_a_torn_buffer_opens_and_only_what_is_missing_fails(heat):
    out = heat.open("served", lazy=True).apply({"steps": 10, "plain": True})
    field = out["heat"]
    (path,) = {segment.path for segment in field.segments}
    with open(field.directory / path, "r+b") as file:
        file.truncate(10 * 32 - 3)
    np.testing.assert_array_equal(field[8][:], np.full(4, 8.0))
    with pytest.raises(EOFError, match="holds 317 bytes, but bytes 288 to 320"):
        field[9][:]


# ------------------------------------------------------------------ the object


def test_a_client_says_what_it_is(heat):
    sim = heat.open("served", lazy=True)
    assert repr(sim) == (
        f"<Tesseract {heat.url}: json+binref, lazy, output_path={str(heat.output)!r}>"
    )
    assert repr(heat.open("in process")) == "<Tesseract component in this process: json+base64>"
    with pytest.raises(TypeError, match=r"Tesseract\.from_url"):
        Tesseract("http://x")


def test_both_doors_describe_the_component_alike(echo):
    served, local = (echo.open(door) for door in DOORS)
    assert served.available_endpoints == local.available_endpoints == [
        "apply", "abstract_eval", "health"
    ]  # fmt: skip
    assert served.openapi_schema["components"] == local.openapi_schema["components"]
    assert served.health() == local.health() == {"status": "ok"}


def test_abstract_evaluation_takes_shapes_or_arrays_and_sends_no_data(echo, door):
    sim = echo.open(door)
    wanted = {"shape": [2, 3], "dtype": "float32"}
    huge = BinrefArray.write(np.zeros((2, 3), "float32"), output_path=echo.folder / "elsewhere")
    Path(huge.directory, huge.path).unlink()
    for given_ in (wanted, np.zeros((2, 3), "float32"), huge):
        assert sim.abstract_eval({"array": given_})["array"] == wanted


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/", "127.0.0.1:1", "HTTP://127.0.0.1:1", "http://127.0.0.1:1//?x=1#y"],
)
def test_an_address_may_be_written_loosely(url):
    assert normal_url(url) == "http://127.0.0.1:1"


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "file:///etc/passwd", "http://[::1"])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(ValueError, match="not the address of a server"):
        Tesseract.from_url(url)


def test_a_client_goes_on_after_it_was_closed(heat):
    with heat.open("served") as sim:
        sim.health()
    assert sim.health() == {"status": "ok"}


def test_one_connection_serves_many_calls(heat):
    process = psutil.Process()

    def ports():
        port = int(heat.url.rpartition(":")[2])
        return {c.laddr.port for c in process.net_connections() if c.raddr and c.raddr.port == port}

    others = ports()  # of clients that nobody has closed yet
    with heat.open("served", lazy=True) as sim:
        sim.health()
        first = ports() - others
        for _ in range(5):
            sim.apply({})
        assert ports() - others == first
        assert len(first) == 1


def test_a_kept_connection_that_the_server_closed_is_no_error():
    """As after a failure in some servers: the reply promises to go on, then they hang up."""
    polite = http({"detail": "no"}, "500 No").replace(b"Connection: close\r\n", b"")
    with replying(polite, times=3) as url:
        sim = Tesseract.from_url(url)
        for _ in range(3):
            with pytest.raises(RemoteError, match="answered 500"):
                sim.health()


def test_a_request_that_may_have_been_taken_is_not_sent_again():
    taken = []

    def slowly(connection):
        for _ in range(2):
            taken.append(_take_request(connection))
            if len(taken) == 2:
                time.sleep(1.5)
                return
            connection.sendall(http({}).replace(b"Connection: close\r\n", b""))

    with replying(slowly) as url:
        sim = Tesseract.from_url(url)
        sim.health()
        with pytest.raises(RemoteConnectionError, match="broke before"):
            sim.health()
    assert len(taken) == 2


def test_threads_share_a_client(echo, door):
    sim = echo.open(door)
    wrong = []

    def call(number):
        for step in range(5):
            array = np.full(1000, 10.0 * number + step)
            if not (sim.apply({"array": array})["array"] == array).all():
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_instances_in_one_process_never_share_settings(heat, tmp_path):
    a = heat.open("in process", output_path=tmp_path / "a", output_format="json+binref")
    b = heat.open("in process", output_format="json+binref")
    c = heat.open("in process", output_path=tmp_path / "c", lazy=True)
    failures = []

    def go():
        for _ in range(10):
            made = [(sim, sim.apply({})) for sim in (b, a, c)]
            places = [Path(out["where"]).parent for _, out in made]
            fine = (
                places[1] == tmp_path / "a"
                and places[2] == tmp_path / "c"
                and tmp_path not in places[0].parents
                and isinstance(made[1][1]["heat"], list)
                and isinstance(made[2][1]["heat"], Trajectory)
                and made[2][1]["heat"].load().sum() == 12.0
            )
            if not fine:
                failures.append(places)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]
    assert len(list((tmp_path / "a").iterdir())) == len(list((tmp_path / "c").iterdir())) == 20


def test_a_fork_has_connections_of_its_own(heat):
    code = f"""
import os, sys
from binref_sci import Tesseract
sim = Tesseract.from_url({heat.url!r})
sim.health()
child = os.fork()
for _ in range(20):
    out = sim.apply({{"steps": 2}})
    assert out["heat"][1].tolist() == [1.0] * 4
if child:
    assert os.wait()[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_a_client_can_be_sent_to_workers(heat, door):
    sim = heat.open(door, lazy=True)
    sim.health()
    again = pickle.loads(pickle.dumps(sim))
    assert repr(again) == repr(sim)
    assert again.apply({})["heat"].load().sum() == 12.0


def test_a_result_can_be_pickled(heat, door):
    out = heat.open(door, lazy=True).apply({})
    again = pickle.loads(pickle.dumps(out))
    assert type(again) is type(out)
    np.testing.assert_array_equal(again["heat"].load(), out["heat"].load())
    np.testing.assert_array_equal(again["heat"].times, out["heat"].times)
    assert again["final"] == out["final"]
    assert again.to_dataset().heat.attrs["units"] == "K"
    assert copy.deepcopy(out).to_dataset().heat.attrs["units"] == "K"


def test_many_snapshots_are_one_trajectory_without_an_object_each(heat, tmp_path):
    count, root = 100_000, tmp_path
    with open(root / "a.bin", "wb") as file:
        file.truncate(count * 2048)
    refs = [
        {"object_type": "array", "shape": [16, 16], "dtype": "float64",
         "data": {"buffer": f"a.bin:{2048 * n}", "encoding": "binref"}}
        for n in range(count)
    ]  # fmt: skip
    body = http({"x": refs})
    gc.collect()
    before = len(gc.get_objects())
    out = told("", body, output_path=root, lazy=True)
    assert out["x"].shape == (count, 16, 16)
    assert len(out["x"].segments) == 1
    assert len(gc.get_objects()) - before < 5000
    out = told("", body, output_path=root, output_format="json+binref")
    assert len(out["x"]) == count
    assert out["x"][0].base is None


def test_an_address_that_is_no_text_and_inputs_that_never_end_are_refused(tmp_path):
    with pytest.raises(TypeError, match="must be text, got None"):
        Tesseract.from_url(None)
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(PayloadError, match="contain themselves"):
        Tesseract.from_url("http://127.0.0.1:1").apply(endless)
