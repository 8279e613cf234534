import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binref_sci.errors import FormatError
from binref_sci.server.listener import STALL_SECONDS
from binref_sci.server.serve import Options, serve
from tests.kit import until
from tests.serving import COMMAND, ENVIRONMENT, serving

MIX = '''
"""Adds three arrays."""
from pydantic import BaseModel, Field
from binref_sci.runtime import Array, Float64, Labels

class InputSchema(BaseModel):
    a: Array[(3,), Float64] = Field(description="first summand")
    b: Array[(3,), Float64] = [0.0, 0.0, 0.0]
    c: Array[(3,), Float64] = [0.0, 0.0, 0.0]

class OutputSchema(BaseModel):
    total: Array[(3,), Float64]

def apply(inputs: InputSchema) -> OutputSchema:
    return OutputSchema(total=inputs.a + inputs.b + inputs.c)

def abstract_eval(abstract_inputs):
    return {"total": {"shape": [3], "dtype": "float64"}}
'''

WORK = """
import ctypes, os, sys, time
from pathlib import Path
import numpy as np
from pydantic import BaseModel
from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64

class InputSchema(BaseModel):
    do: str = "nothing"
    seconds: float = 0.0
    size: int = 1
    note: str = ""
    until: str = ""

class OutputSchema(BaseModel):
    pid: int
    field: Array[(None,), Float64]

def apply(inputs: InputSchema) -> OutputSchema:
    here = Path(__file__).parent
    until = here / (inputs.until or "never")  # there is such a file, or so many seconds passed
    if inputs.note:
        (here / inputs.note).touch()
    if inputs.do == "spin":
        end = time.monotonic() + inputs.seconds
        while time.monotonic() < end and not until.exists():
            pass
    elif inputs.do == "hold":
        hold = ctypes.PyDLL(str(here / "hold.so")).hold
        hold(ctypes.c_double(inputs.seconds), str(until).encode())
    elif inputs.do == "print":
        print("a word from Python")
        os.write(1, b"a word from C\\n")
    elif inputs.do == "exit":
        os._exit(3)
    elif inputs.do == "kill":
        os.kill(os.getpid(), 9)
    elif inputs.do == "segfault":
        ctypes.string_at(0)
    elif inputs.do == "memory":
        raise MemoryError
    elif inputs.do == "raise":
        raise ValueError("diverged at step 7")
    elif inputs.do == "sys.exit":
        sys.exit(4)
    elif inputs.do == "fork and die":
        if os.fork() == 0:
            time.sleep(60)
        os._exit(3)
    field = np.zeros(inputs.size)
    if inputs.do == "write":
        field = BinrefWriter("field").write(np.arange(float(inputs.size)))
    return OutputSchema(pid=os.getpid(), field=field)
"""

STREAM = """
import numpy as np
from pydantic import BaseModel
from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64

class InputSchema(BaseModel):
    steps: int

class OutputSchema(BaseModel):
    trajectory: list[Array[(None, None), Float64]]

def apply(inputs: InputSchema) -> OutputSchema:
    writer = BinrefWriter("field")
    field = np.zeros((512, 512))
    for step in range(inputs.steps):
        field += 1
        writer.write(field, time=float(step))
    return OutputSchema(trajectory=writer.trajectory())
"""

HOLD = """
#include <time.h>
#include <unistd.h>
void hold(double seconds, const char *until) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) + 1e-9 * (now.tv_nsec - start.tv_nsec) < seconds
           && access(until, F_OK));
}
"""

FORMATS = ["json", "json+base64", "json+binref"]


def strictly(text):
    """Parse JSON as the standard has it."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def component(folder, source):
    folder.mkdir()
    (folder / "tesseract_api.py").write_text(source)
    return folder


def decoded(array, root):
    """Read an encoded array the slow and obvious way."""
    data, dtype, shape = array["data"], np.dtype(array["dtype"]), array["shape"]
    if data["encoding"] == "json":
        return np.array(data["buffer"], dtype).reshape(shape)
    if data["encoding"] == "base64":
        import base64

        return np.frombuffer(base64.b64decode(data["buffer"]), dtype).reshape(shape)
    path, offset = data["buffer"].rsplit(":", 1)
    return np.fromfile(root / path, dtype, int(np.prod(shape)), offset=int(offset)).reshape(shape)


@pytest.fixture(scope="module")
def mix(tmp_path_factory):
    """A server with both folders; with its output and input path."""
    root = tmp_path_factory.mktemp("mix")
    (root / "in").mkdir()
    with serving(
        component(root / "adder", MIX),
        *("--output-path", root / "out", "--input-path", root / "in"),
        log_file=root / "log",
    ) as server:
        server.root = root
        with server.client() as server.http:
            yield server


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A server that keeps nothing, with two workers."""
    root = tmp_path_factory.mktemp("work")
    folder = component(root / "worker", WORK)
    (root / "hold.c").write_text(HOLD)
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-o", folder / "hold.so", root / "hold.c"], check=True
    )
    with serving(folder, "--workers", "2", log_file=root / "log") as server:
        server.folder = folder
        with server.client() as server.http:
            yield server


def do(server, what="nothing", *, client=None, headers=None, params=None, **more):
    return (client or server.http).post(
        "/apply", json={"inputs": {"do": what, **more}}, headers=headers, params=params
    )


@contextmanager
def computing(server, what, name, *, times=1, **more):
    """Calls that have begun, and end no sooner than the block: futures of their answers."""
    with (
        server.client(timeout=100) as client,
        concurrent.futures.ThreadPoolExecutor() as threads,
    ):
        more |= {"seconds": 60, "until": f"{name}.end", "client": client}
        notes = [f"{name}.{number}" for number in range(times)]
        calls = [threads.submit(do, server, what, note=note, **more) for note in notes]
        try:
            until(lambda: all((server.folder / note).exists() for note in notes))
            yield calls
            assert not any(call.done() for call in calls)
        finally:
            (server.folder / f"{name}.end").touch()


def answers_others(server):
    """Check that health, and other calls, are answered now."""
    for _ in range(5):
        assert server.http.get("/health").json() == {"status": "ok"}
        assert do(server).status_code == 200


# --- what is there ------------------------------------------------------------------------------


def test_health_and_schema_and_docs_are_there(mix):
    assert mix.http.get("/health").content == b'{"status":"ok"}'
    openapi = strictly(mix.http.get("/openapi.json").content)
    assert {"/apply", "/abstract_eval", "/health"} <= set(openapi["paths"])
    assert openapi["x-supported-output-formats"] == FORMATS
    assert openapi["x-supported-compressions"] == ["none", "lz4"]
    page = mix.http.get("/docs").text
    assert "POST /apply" in page
    assert "http://" not in page
    assert "https://" not in page  # nothing fetched from elsewhere


def test_an_unknown_path_is_404_and_says_what_there_is(mix):
    response = mix.http.post("/aply", json={})
    assert response.status_code == 404
    assert "/apply" in strictly(response.content)["detail"]


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json"])
def test_the_headers_alone_may_be_asked_for(mix, path):
    whole, head = mix.http.get(path), mix.http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_a_wrong_method_is_405(mix):
    response = mix.http.get("/apply")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert "takes POST" in strictly(response.content)["detail"]


def test_abstract_eval_answers_json_whatever_is_accepted(mix):
    body = {"inputs": {name: {"shape": [3], "dtype": "float64"} for name in "abc"}}
    for accept in ("*/*", "application/json+binref"):
        response = mix.http.post("/abstract_eval", json=body, headers={"Accept": accept})
        assert response.json() == {"total": {"shape": [3], "dtype": "float64"}}
        assert response.headers["content-type"] == "application/json"


# --- R63 and negotiation ------------------------------------------------------------------------


def encoded(array, encoding, folder):
    if encoding == "list":
        return array.tolist()
    if encoding == "base64":
        buffer = b64encode(array.tobytes()).decode()
    else:
        array.tofile(folder / "input.bin")
        buffer = "input.bin:0"
    data = {"buffer": buffer, "encoding": encoding}
    return {"object_type": "array", "shape": [3], "dtype": "float64", "data": data}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("encoding", ["binref", "base64", "list"])
def test_r63_each_input_encoding_goes_with_each_output_format(mix, encoding, output):
    array = np.array([0.5, -1.0, 1e300])
    response = mix.http.post(
        "/apply",
        json={"inputs": {"a": encoded(array, encoding, mix.root / "in")}},
        headers={"Accept": f"application/{output}"},
    )
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == f"application/{output}"
    total = strictly(response.content)["total"]
    np.testing.assert_array_equal(decoded(total, mix.root / "out"), array)


@pytest.mark.parametrize("output", FORMATS)
def test_r63_input_encodings_mix_in_one_request(mix, output):
    array = np.array([1.0, 2.0, 3.0])
    inputs = {
        "a": encoded(array, "binref", mix.root / "in"),
        "b": encoded(array, "base64", None),
        "c": encoded(array, "list", None),
    }
    response = mix.http.post(
        "/apply", json={"inputs": inputs}, headers={"Accept": f"application/{output}"}
    )
    total = strictly(response.content)["total"]
    assert total["data"]["encoding"] == output.removeprefix("json").removeprefix("+") or "json"
    np.testing.assert_array_equal(decoded(total, mix.root / "out"), 3 * array)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "json+base64"),
        ("", "json+base64"),
        ("*/*", "json+base64"),
        ("application/*", "json+base64"),
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("APPLICATION/JSON+BINREF", "json+binref"),
        ("application/json, application/json+binref", "json"),
        ("application/json;q=0.1, application/json+binref;q=0.9", "json+binref"),
        ("application/json+base64;q=0, */*", "json"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "json+base64"),
        ("application/foo, application/json", "json"),
        ("application/json;q=nonsense, application/json+binref;q=0.001", "json+binref"),
        ("application/json;q=nan, application/json+binref;q=0.001", "json+binref"),
        ("application/json+base64; gpu_transport=none", "json+base64"),
        ('application/json+base64; compression="none"', "json+base64"),
        ("application/foo", 406),
        ("text/html", 406),
        ("application/json;q=0", 406),
        ("application/json;compression=zip", 406),
        ("application/json;gpu_transport=cuda_ipc", 406),
        (";;;,,,;q=", 406),
    ],
)
def test_the_accept_header_chooses(mix, accept, expected):
    headers = {} if accept is None else {"Accept": accept}
    request = mix.http.build_request("POST", "/apply", json={"inputs": {"a": [1.0, 2, 3]}})
    request.headers.pop("accept", None)
    request.headers.update(headers)
    response = mix.http.send(request)
    if expected == 406:
        assert response.status_code == 406
        detail = strictly(response.content)["detail"]
        assert detail["available_formats"] == FORMATS
        assert detail["available_compressions"] == ["none", "lz4"]
    else:
        assert response.status_code == 200
        assert response.headers["content-type"] == f"application/{expected}"


@pytest.mark.parametrize("output", ["json+base64", "json+binref"])
def test_compression_is_negotiated(mix, output):
    accept = {"Accept": f"application/{output};compression=lz4"}
    response = mix.http.post("/apply", json={"inputs": {"a": [1.0, 2, 3]}}, headers=accept)
    assert response.json()["total"]["data"]["compression"] == "lz4"


def test_references_need_an_output_path(work):
    response = do(work, headers={"Accept": "application/json+binref"})
    assert response.status_code == 406
    detail = strictly(response.content)["detail"]
    assert "--output-path" in detail["message"]
    assert detail["available_formats"] == FORMATS[:2]


def test_a_run_id_that_a_file_has_is_refused(mix):
    (mix.root / "out" / "run_taken").touch()
    response = mix.http.post("/apply", params={"run_id": "taken"}, json={"inputs": {"a": [1.0]}})
    assert response.status_code == 422
    (fault,) = strictly(response.content)["detail"]
    assert "there is a file of this name" in fault["msg"]


@pytest.mark.parametrize("place", ["file", "file/inside", "s3://bucket/runs"])
def test_an_output_path_that_is_no_folder_is_refused_before_a_worker_starts(tmp_path, place):
    (tmp_path / "file").touch()
    folder = Path(place) if "://" in place else tmp_path / place
    options = Options(port=0, output_path=folder)
    with pytest.raises(FormatError, match=r"there is a file of this name|is a URL"):
        serve(str(tmp_path / "no component"), options, ready=print)


# --- R14 and run directories --------------------------------------------------------------------


@pytest.mark.parametrize(
    "run_id", ["../x", "..", ".", "", "a/b", "a\\b", "a\n", "ü", "x" * 129, "a:1"]
)
def test_r14_a_run_id_cannot_name_another_folder(mix, run_id):
    before = sorted(mix.root.rglob("*"))
    response = mix.http.post(
        "/apply", params={"run_id": run_id}, json={"inputs": {"a": [1.0, 2, 3]}}
    )
    assert response.status_code == 422
    (entry,) = strictly(response.content)["detail"]
    assert entry["loc"] == ["query", "run_id"]
    assert sorted(mix.root.rglob("*")) == before


def test_a_run_id_names_the_run_directory(mix):
    accept = {"Accept": "application/json+binref"}
    body = {"inputs": {"a": [1.0, 2, 3]}}
    first = mix.http.post("/apply", params={"run_id": "mine.1"}, json=body, headers=accept).json()
    buffer = first["total"]["data"]["buffer"]
    assert buffer.startswith("run_mine.1/")
    folder = mix.root / "out" / "run_mine.1"
    inside = json.loads((folder / "results.json").read_text())
    assert f"run_mine.1/{inside['total']['data']['buffer']}" == buffer
    assert json.loads((folder / "run.json").read_text())["state"] == "complete"

    body["inputs"]["a"] = [4.0, 5, 6]
    second = mix.http.post("/apply", params={"run_id": "mine.1"}, json=body, headers=accept).json()
    np.testing.assert_array_equal(decoded(first["total"], mix.root / "out"), [1, 2, 3])
    np.testing.assert_array_equal(decoded(second["total"], mix.root / "out"), [4, 5, 6])


def test_the_same_run_id_at_once_is_a_conflict(work):
    with computing(work, "spin", "conflict", params={"run_id": "one"}) as [long]:
        response = do(work, params={"run_id": "one"})
        assert response.status_code == 409
        assert "'one'" in strictly(response.content)["detail"]
    assert long.result().status_code == 200
    assert do(work, params={"run_id": "one"}).status_code == 200


@pytest.mark.parametrize(
    "buffer",
    ["../secret.bin:0", "/etc/hostname:0", "link.bin:0", "../in-other/x.bin:0", "none.bin"],
)
def test_r14_a_reference_in_a_request_cannot_leave_the_input_path(mix, buffer):
    (mix.root / "in-other").mkdir(exist_ok=True)
    for outside in (mix.root / "secret.bin", mix.root / "in-other" / "x.bin"):
        outside.write_bytes(bytes(24))
    link = mix.root / "in" / "link.bin"
    if not link.is_symlink():
        link.symlink_to(mix.root / "secret.bin")
    reference = encoded(np.zeros(3), "base64", None)
    reference["data"] = {"buffer": buffer, "encoding": "binref"}
    response = mix.http.post("/apply", json={"inputs": {"a": reference}})
    assert 400 <= response.status_code < 500, response.text
    assert "a" in strictly(response.content)["detail"][0]["loc"]


def test_r14_a_roundabout_reference_inside_the_input_path_works(mix):
    (mix.root / "in" / "a").mkdir(exist_ok=True)
    np.array([1.0, 2, 3]).tofile(mix.root / "in" / "b.bin")
    reference = encoded(np.zeros(3), "base64", None)
    reference["data"] = {"buffer": "a/../b.bin:0", "encoding": "binref"}
    response = mix.http.post("/apply", json={"inputs": {"a": reference}})
    assert response.status_code == 200, response.text


def test_a_reference_needs_an_input_path(tmp_path):
    with (
        serving(component(tmp_path / "adder", MIX), log_file=tmp_path / "log") as server,
        server.client() as client,
    ):
        reference = encoded(np.zeros(3), "binref", tmp_path)
        response = client.post("/apply", json={"inputs": {"a": reference}})
    assert 400 <= response.status_code < 500
    assert "--input-path" in response.text or "input_path" in response.text


def test_without_an_output_path_nothing_is_kept(work, tmp_path_factory):
    scratch = next(
        Path(folder)
        for worker in work.workers()
        for argument in worker.cmdline()
        if argument.startswith("{") and (folder := json.loads(argument)["output_path"])
    )
    response = do(work, "write", size=3)
    np.testing.assert_array_equal(decoded(response.json()["field"], None), [0, 1, 2])
    until(lambda: not [*scratch.glob("*/*")])


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"inputs": {"a": "x"}}', "a"),
        (b'{"inputs": {"a": [1, [2]]}}', "a"),
        (b'{"inputs": {}}', "a"),
        (b'{"inputs": {"a": [1, 2, 3], "z": 1}}', None),
        (b"{}", "inputs"),
        (b"[]", None),
        (b"", None),
        (b'{"inputs": {"a": [NaN]}}', None),
        (b"\xff\xfe", None),
        (b'{"inputs"', None),
    ],
)
def test_a_payload_that_does_not_fit_is_422(mix, body, named):
    response = mix.http.post("/apply", content=body, headers={"Content-Type": "application/json"})
    if b'"z"' in body:  # whether unknown names pass is the schema's business
        assert response.status_code in (200, 422)
        return
    assert response.status_code == 422, response.text
    detail = strictly(response.content)["detail"]
    assert all({"loc", "msg", "type"} <= set(entry) for entry in detail)
    if named is not None:
        assert any(named in entry["loc"] for entry in detail)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", ";", ""]
)
def test_a_body_that_does_not_say_it_is_json_is_415(mix, content_type):
    response = mix.http.post(
        "/apply", content=b'{"inputs": {"a": [1]}}', headers={"Content-Type": content_type}
    )
    assert response.status_code == 415
    assert "application/json" in strictly(response.content)["detail"]


def test_a_compressed_body_is_415(mix):
    response = mix.http.post(
        "/apply",
        content=b"\x1f\x8b",
        headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    assert response.status_code == 415


@pytest.mark.parametrize("what", ["raise", "memory", "sys.exit"])
def test_a_component_that_fails_is_500_with_an_id_that_the_log_has(work, what):
    response = do(work, what)
    assert response.status_code == 500
    detail = strictly(response.content)["detail"]
    assert f"error {detail['error_id']}" in work.log
    assert "Traceback" not in detail["message"]
    if what == "raise":
        assert "diverged at step 7" in detail["message"]
        assert 'raise ValueError("diverged at step 7")' in work.log


def test_what_a_component_prints_goes_to_the_log(work):
    assert do(work, "print").status_code == 200
    until(lambda: "a word from Python" in work.log and "a word from C" in work.log)


# --- R17: nothing holds up anything else --------------------------------------------------------


@pytest.mark.parametrize("what", ["spin", "hold"])
def test_r17_health_and_other_calls_are_answered_while_one_computes(work, what):
    with computing(work, what, f"computes-{what}") as [long]:
        answers_others(work)
    assert long.result().status_code == 200


@pytest.mark.parametrize("size", [2_000_000, pytest.param(62_500_000, marks=pytest.mark.long)])
def test_r17_health_and_other_calls_are_answered_while_a_large_answer_is_sent(work, size):
    body = {"inputs": {"size": size}}
    with work.client() as client, client.stream("POST", "/apply", json=body) as response:
        assert response.status_code == 200
        pieces = response.iter_raw()
        got = len(next(pieces))
        for _ in range(3):
            answers_others(work)
            got += len(next(pieces))
        got += sum(map(len, pieces))
    assert got > size * 8 * 4 / 3


@pytest.mark.parametrize("what", ["exit", "kill", "segfault", "fork and die"])
def test_r17_a_crash_is_one_calls_own(work, what):
    with computing(work, "spin", f"beside-{what}") as [other]:
        response = do(work, what)
        assert response.status_code == 500
        detail = strictly(response.content)["detail"]
        assert "died" in detail["message"]
        assert detail["error_id"] in work.log
        assert do(work).status_code == 200
    assert other.result().status_code == 200
    until(lambda: len(work.workers()) == 2)


def test_a_worker_killed_while_idle_costs_no_call(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    with (
        serving(folder, "--workers", "1", log_file=tmp_path / "log") as server,
        server.client() as client,
    ):
        for _ in range(5):
            assert do(server, client=client).status_code == 200
            [worker] = server.workers()  # it has answered, so it is idle
            worker.kill()
            psutil.wait_procs([worker], 60)
        assert do(server, client=client).status_code == 200


def test_a_run_whose_process_died_says_so(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    with (
        serving(folder, "--output-path", tmp_path / "out", log_file=tmp_path / "log") as server,
        server.client() as client,
    ):
        assert do(server, "kill", client=client, params={"run_id": "x"}).status_code == 500
    facts = json.loads((tmp_path / "out" / "run_x" / "run.json").read_text())
    assert facts["state"] == "failed"
    assert "SIGKILL" in facts["error"]


@pytest.mark.long
def test_crashing_all_workers_many_times_leaves_a_server_that_works(work):
    def crash_all():
        with concurrent.futures.ThreadPoolExecutor(8) as threads, work.client() as client:
            calls = [threads.submit(do, work, "exit", client=client) for _ in range(8)]
            assert [call.result().status_code for call in calls] == [500] * 8
        # They take turns, so both have started.
        until(lambda: len({do(work).json()["pid"] for _ in range(4)}) == 2)

    crash_all()
    descriptors = psutil.Process(work.process.pid).num_fds()
    crash_all()
    until(lambda: psutil.Process(work.process.pid).num_fds() <= descriptors)


def test_a_component_that_can_no_longer_be_loaded_is_503_until_it_can(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    source = folder / "tesseract_api.py"
    with serving(folder, log_file=tmp_path / "log") as server, server.client() as client:
        source.write_text("raise ValueError('half edited')")
        assert do(server, "exit", client=client).status_code == 500
        response = do(server, client=client)
        assert response.status_code == 503
        assert "half edited" in strictly(response.content)["detail"]["message"]
        source.write_text(WORK)
        until(lambda: do(server, client=client).status_code == 200)


def test_calls_beyond_the_workers_wait_their_turn(work):
    with concurrent.futures.ThreadPoolExecutor(8) as threads, work.client() as client:
        calls = [threads.submit(do, work, "spin", client=client, seconds=0.1) for _ in range(8)]
        answers = [call.result() for call in calls]
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["pid"] for answer in answers}) <= 2


def test_a_client_that_leaves_the_queue_is_not_run(work):
    with computing(work, "spin", "busy", times=2) as busy:
        with work.client(timeout=0.3) as impatient, pytest.raises(httpx.TimeoutException):
            do(work, client=impatient, note="never")
        for _ in range(5):  # who is answered after it left knows that the server has seen it go
            assert work.http.get("/health").status_code == 200
    assert [call.result().status_code for call in busy] == [200, 200]
    assert do(work).status_code == 200
    assert not (work.folder / "never").exists()


def test_a_client_that_leaves_a_running_call_disturbs_nobody(work):
    for _ in range(3):
        with work.client(timeout=0.2) as impatient, pytest.raises(httpx.TimeoutException):
            do(work, "spin", client=impatient, seconds=0.6)
    pids = {worker.pid for worker in work.workers()}
    assert do(work, size=100_000).status_code == 200
    assert pids == {worker.pid for worker in work.workers()}


def test_a_client_that_leaves_in_mid_answer_disturbs_nobody(work):
    pids = {worker.pid for worker in work.workers()}
    for _ in range(3):
        with work.client() as client:
            body = {"inputs": {"size": 3_000_000}}
            with client.stream("POST", "/apply", json=body) as response:
                next(response.iter_raw())
    assert do(work).status_code == 200
    assert pids == {worker.pid for worker in work.workers()}


def test_a_slow_upload_holds_no_worker(work):
    host, port = work.url.removeprefix("http://").split(":")
    with (
        socket.create_connection((host, int(port))) as slow,
        socket.create_connection((host, int(port))) as slower,
    ):
        for connection in (slow, slower):
            connection.sendall(
                b"POST /apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b'Content-Length: 100\r\n\r\n{"inputs": '
            )
        time.sleep(0.2)
        assert do(work).status_code == 200


def test_a_client_that_takes_nothing_of_a_small_answer_holds_no_worker(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    with serving(folder, log_file=tmp_path / "log") as server, ExitStack() as opened:
        lazy = []
        body = b'{"inputs": {"size": 600000}}'  # 6.4 MB in base64
        for _ in range(3):
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = server.url.removeprefix("http://").split(":")
            connection.connect((host, int(port)))
            head = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
            connection.sendall(
                f"POST /apply HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n".encode()
                + body
            )
            lazy.append(connection)
        with server.client(timeout=30) as client:  # well below the patience with those
            assert do(server, client=client).status_code == 200
        for connection in lazy:  # and they miss nothing
            with connection.makefile("rb") as file:
                text = file.read()
            assert text.startswith(b"HTTP/1.1 200")
            assert text.endswith(b"\r\n0\r\n\r\n")
            assert len(text) > 6_400_000


def test_a_client_that_takes_nothing_loses_its_worker_in_the_end(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    before = "from binref_sci.server import listener; listener.STALL_SECONDS = 3.0"
    with (
        serving(folder, log_file=tmp_path / "log", before=before) as server,
        server.client() as client,
        server.client() as lazy,
        lazy.stream("POST", "/apply", json={"inputs": {"size": 8_000_000}}) as response,
    ):
        start = time.monotonic()
        assert response.status_code == 200
        assert do(server, client=client).status_code == 200  # it has waited for the only worker
        assert time.monotonic() - start > 1
        assert "a client took nothing for 3 s" in server.log
        with pytest.raises(httpx.RemoteProtocolError):  # cut, not quietly short
            response.read()
    assert STALL_SECONDS == 60  # where no test asks for less


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_gigabytes_of_snapshots_pass_in_flat_memory(tmp_path):
    folder = component(tmp_path / "streamer", STREAM)
    accept = {"Accept": "application/json+binref"}
    with (
        serving(folder, "--output-path", tmp_path / "out", log_file=tmp_path / "log") as server,
        server.client(timeout=500) as client,
        concurrent.futures.ThreadPoolExecutor() as threads,
    ):
        processes = [psutil.Process(server.process.pid), *server.workers()]

        def resident():
            return sum(process.memory_info().rss for process in processes)

        idle = peak = resident()
        call = threads.submit(
            client.post, "/apply", json={"inputs": {"steps": 1024}}, headers=accept
        )
        while not call.done():
            peak = max(peak, resident())
            time.sleep(0.01)
        assert len(call.result().json()["trajectory"]) == 1024
        written = sum(file.stat().st_size for file in (tmp_path / "out").rglob("*.bin"))
    for file in (tmp_path / "out").rglob("*.bin"):
        file.unlink()  # pytest keeps folders
    assert written >= 2**31
    assert peak - idle < 60e6


# --- R33: calls do not meet ---------------------------------------------------------------------


def test_r33_formats_and_folders_of_calls_at_once_do_not_meet(mix):
    def call(number):
        output = FORMATS[number % 3]
        array = np.full(3, float(number))
        response = mix.http.post(
            "/apply",
            params={"run_id": f"n{number}"},
            json={"inputs": {"a": array.tolist()}},
            headers={"Accept": f"application/{output}"},
        )
        assert response.headers["content-type"] == f"application/{output}"
        total = response.json()["total"]
        np.testing.assert_array_equal(decoded(total, mix.root / "out"), array)
        if output == "json+binref":
            assert total["data"]["buffer"].startswith(f"run_n{number}/")

    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        list(threads.map(call, range(24)))


def test_r33_two_servers_share_nothing(tmp_path):
    accept = {"Accept": "application/json+binref"}
    body = {"inputs": {"a": [1.0, 2, 3]}}
    folder = component(tmp_path / "adder", MIX)
    with (
        serving(folder, "--output-path", tmp_path / "x", log_file=tmp_path / "1") as one,
        serving(folder, log_file=tmp_path / "2") as two,
        one.client() as first,
        two.client() as second,
    ):
        assert second.post("/apply", json=body, headers=accept).status_code == 406
        assert first.post("/apply", json=body, headers=accept).status_code == 200
        assert second.post("/apply", json=body).status_code == 200
    assert len(list((tmp_path / "x").iterdir())) == 1


# --- starting and stopping ----------------------------------------------------------------------


def test_a_running_call_is_finished_when_the_server_is_stopped(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    with serving(folder, log_file=tmp_path / "log") as server:
        server.folder = folder

        def refuses_new_ones():
            try:
                httpx.get(f"{server.url}/health")
            except httpx.TransportError as error:
                return isinstance(error, httpx.ConnectError)
            return False

        with computing(server, "spin", "running", size=2_000_000) as [call]:
            workers = server.workers()
            server.process.send_signal(signal.SIGTERM)
            until(refuses_new_ones)
        answer = call.result()
        assert answer.status_code == 200
        assert len(decoded(answer.json()["field"], None)) == 2_000_000
        assert server.process.wait(60) == 0
        assert not any(worker.is_running() for worker in workers)
        assert "Traceback" not in server.log


def test_the_grace_is_bounded(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    with serving(folder, "--grace", "1", log_file=tmp_path / "log") as server:
        with server.client() as client, concurrent.futures.ThreadPoolExecutor() as threads:
            call = threads.submit(do, server, "spin", client=client, seconds=60, note="running")
            until((folder / "running").exists)
            workers = server.workers()
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(60) == 0
            assert call.exception() is not None or call.result().status_code >= 500
        assert not any(worker.is_running() for worker in workers)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("nothing", marks=pytest.mark.long),
        pytest.param("spin", marks=pytest.mark.long),
        "hold",
    ],
)
def test_no_worker_outlives_a_server_that_is_killed(tmp_path, what, work):
    with serving(work.folder, "--workers", "2", log_file=tmp_path / "log") as server:
        until(lambda: len(server.workers()) == 2)
        workers = server.workers()
        if what != "nothing":
            note = f"killed-{what}"
            thread = threading.Thread(target=_call_until_cut, args=(server, what, note))
            thread.start()
            until((work.folder / note).exists)
        server.process.kill()
        gone, alive = psutil.wait_procs(workers, timeout=60)
        assert len(gone) == 2
        assert not alive
        if what != "nothing":
            thread.join(60)


def _call_until_cut(server, what, note):
    with server.client() as client, pytest.raises(httpx.TransportError):
        do(server, what, client=client, seconds=30, note=note)


def test_a_component_that_cannot_be_loaded_is_said_at_once(tmp_path):
    for source, code in (("raise ValueError('no licence')", 1), (None, 2)):
        folder = tmp_path / str(code)
        if source is not None:
            component(folder, source)
        done = subprocess.run(
            [*COMMAND, "serve", str(folder), "--port", "0"], capture_output=True, timeout=100
        )
        assert done.returncode == code, done.stderr
        assert str(folder) in done.stderr.decode() or "no licence" in done.stderr.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_component_is_loading_leaves_nothing(tmp_path, number, code):
    source = "import time\nfrom pathlib import Path\n"
    source += "(Path(__file__).parent / 'loading').touch()\ntime.sleep(60)"
    folder = component(tmp_path / "slow", source)
    with serving(folder, log_file=tmp_path / "log", ready=False) as server:
        until((folder / "loading").exists)
        workers = server.workers()
        server.process.send_signal(number)
        assert server.process.wait(60) == code
        assert workers
        assert not any(worker.is_running() for worker in workers)
    assert "Traceback" not in server.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_can_be_stopped_from_the_moment_it_says_that_it_is_ready(number, work):
    command = [*COMMAND, "serve", str(work.folder), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True) as process:
        try:
            assert process.stderr.readline().startswith("binref-sci: serving ")
            process.send_signal(number)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_signal_before_there_is_http_leaves_nothing(tmp_path):
    # While the first worker has been started already, and this process imports.
    source = "import time\nfrom pathlib import Path\n(Path(__file__).parent / 'loading').touch()"
    folder = component(tmp_path / "slow", f"{source}\ntime.sleep(60)")
    (tmp_path / "uvicorn.py").write_text("import time\ntime.sleep(60)\n")
    (tmp_path / "temporary").mkdir()
    environment = ENVIRONMENT | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]]),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    command = [*COMMAND, "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        until((folder / "loading").exists)
        (worker,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143, process.stderr.read()
    assert not worker.is_running()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_taken_port_is_the_callers_mistake(tmp_path, work):
    port = work.url.rpartition(":")[2]
    done = subprocess.run(
        [*COMMAND, "serve", str(work.folder), "--port", port], capture_output=True, timeout=100
    )
    assert done.returncode == 2
    assert port in done.stderr.decode()
    assert "--port" in done.stderr.decode()


# --- what nobody would send ---------------------------------------------------------------------

garbage = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "inputs",
                        "a",
                        "b",
                        "object_type",
                        "shape",
                        "dtype",
                        "data",
                        "buffer",
                        "encoding",
                    ]
                )
                | st.text(max_size=4),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode()),
)
references = st.fixed_dictionaries(
    {
        "object_type": st.just("array"),
        "shape": st.lists(st.integers(-3, 2**70), max_size=3),
        "dtype": st.sampled_from(
            ["float64", "float32", "object", "<f8", "int128", "", "complex64"]
        ),
        "data": st.fixed_dictionaries(
            {
                "buffer": st.text(max_size=20)
                | st.sampled_from(
                    ["input.bin:0", "x:-1", "x:1e3", "x:99999999999999999999", ":", "x:0:0"]
                )
                | st.lists(st.floats() | st.none()),
                "encoding": st.sampled_from(["binref", "base64", "json", "raw", "zip"]),
            },
            optional={"compression": st.sampled_from(["lz4", "zip", None, 3])},
        ),
    }
).map(lambda array: json.dumps({"inputs": {"a": array}}).encode())
header_text = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40)


def _check_no_blame(mix, body, accept, content_type, run_id):
    response = mix.http.post(
        "/apply",
        params={"run_id": run_id} if run_id is not None else None,
        content=body,
        headers={
            "Accept": accept.strip().encode("latin-1"),
            "Content-Type": content_type.strip().encode("latin-1"),
        },
    )
    assert response.status_code < 500, (response.text, mix.log[-2000:])
    if response.status_code >= 400:
        strictly(response.content)["detail"]


requests = {
    "body": garbage | references,
    "accept": header_text | st.just("*/*"),
    "content_type": st.just("application/json") | header_text,
    "run_id": st.none() | st.text(max_size=10),
}
relaxed = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, **relaxed)
@given(**requests)
def test_what_nobody_would_send_is_refused_and_not_a_failure(
    mix, body, accept, content_type, run_id
):
    _check_no_blame(mix, body, accept, content_type, run_id)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=4000, **relaxed)
@given(**requests)
def test_thousands_of_what_nobody_would_send(mix, body, accept, content_type, run_id):
    _check_no_blame(mix, body, accept, content_type, run_id)


def test_bytes_that_are_not_http_are_refused(work):
    host, port = work.url.removeprefix("http://").split(":")
    for noise in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(noise)
            assert connection.recv(1000).startswith(b"HTTP/1.1 400")
    assert do(work).status_code == 200
