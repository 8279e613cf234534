"""A container ends with whoever wanted it, and leaves nothing."""

import gc
import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import psutil
import pytest

from binref_sci import Tesseract, open_dataset
from binref_sci.containers.lending import LENT
from binref_sci.errors import (
    ContainerError,
    EngineError,
    ImageNotFoundError,
    RemoteError,
)
from tests.containers.conftest import keepers, podman
from tests.kit import until
from tests.serving import COMMAND, ENVIRONMENT

pytestmark = [pytest.mark.long, pytest.mark.needs("podman"), pytest.mark.timeout(900)]

GONE_SECONDS = 60

DYING = """
import os, signal, time
import numpy as np
from pydantic import BaseModel
from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64

class InputSchema(BaseModel):
    steps: int = 5
    how: str = "worker"

class OutputSchema(BaseModel):
    heat: list[Array[(None,), Float64]]

def apply(inputs):
    writer = BinrefWriter("heat", dims=("time", "x"), attrs={"units": "K"})
    made = [writer.write(np.full(4, float(step)), time=0.5 * step) for step in range(inputs.steps)]
    if inputs.how == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    if inputs.how == "wait":
        time.sleep(100)
    return OutputSchema(heat=made)
"""


def running(image):
    """Names of the containers of an image."""
    told = podman("ps", "--all", "--filter", f"ancestor={image}", "--format", "{{.Names}}").stdout
    return set(told.split())


def written(folder):
    """Bytes of the buffers in a folder."""
    return sum(each.stat().st_size for each in folder.glob("*.bin"))


def snapshots(count):
    """Bytes of so many snapshots of DYING, and their times."""
    return count * 4 * 8 + count * 8


def kill_keeper():
    (keeper,) = keepers()
    keeper.kill()


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Temporary folders of this test alone, in this process and in those it starts."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def image(passthrough, image_of):
    """An image of this test's own, so that its containers can be told."""
    made = image_of(DYING)
    yield made
    podman("rmi", "--force", made)


def test_a_scratch_folder_lives_as_long_as_a_result_that_refers_to_it(passthrough, scratch):
    component = Tesseract.from_image(passthrough)
    with pytest.raises(ContainerError, match="not being served"):
        component.apply({})
    component.serve()
    component.serve()  # it runs already
    eager = component.apply({"size": 4, "steps": 1})
    until(lambda: {path.name for path in scratch.glob("*/*")} <= {LENT})
    copy = pickle.loads(pickle.dumps(component))  # as a worker on this machine has it
    elsewhere = copy.apply({"size": 4, "steps": 1}, lazy=True)
    np.testing.assert_array_equal(elsewhere["final"], eager["final"])
    lazy = component.apply({"size": 4, "steps": 1}, lazy=True)
    component.teardown()
    component.teardown()
    np.testing.assert_array_equal(lazy["final"], eager["final"])
    final = lazy["final"]
    del lazy, component
    gc.collect()
    assert len(list(scratch.iterdir())) == 1
    np.testing.assert_array_equal(final, eager["final"])
    del final
    gc.collect()
    assert list(scratch.iterdir()) == []


CALLER = """
import sys, time
from binref_sci import Tesseract
component = Tesseract.from_image(sys.argv[1], lazy=True)
with component:
    result = component.apply({"how": "none"})
    print("serving", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("how", ["interrupted", "killed", "killed with its children"])
def test_a_caller_that_ends_takes_its_container_along(image, scratch, how):
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, image],
        env=ENVIRONMENT | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with caller:
        assert caller.stdout.readline() == b"serving\n", caller.stderr.read()
        assert len(running(image)) == 1
        match how:
            case "interrupted":
                caller.send_signal(signal.SIGINT)
            case "killed":
                caller.kill()
            case "killed with its children":
                os.killpg(caller.pid, signal.SIGKILL)
        caller.wait(GONE_SECONDS)
        until(lambda: not running(image))
        until(lambda: list(scratch.iterdir()) == [])


def test_a_keeper_that_is_killed_is_no_loss(image, scratch, tmp_path):
    with Tesseract.from_image(image) as component:
        kill_keeper()
        assert len(component.apply({"how": "none"})["heat"]) == 5
    assert not running(image)
    assert list(scratch.iterdir()) == []
    folder = tmp_path / "out"
    with Tesseract.from_image(image, output_path=folder, lazy=True) as component:
        kill_keeper()
        heat = component.apply({"how": "none"})["heat"]
    assert not running(image)
    assert len(heat) == 5
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {os.geteuid()}
    assert not (folder / LENT).exists()


def test_a_folder_whose_caller_and_keeper_were_killed_is_mended_by_the_next_use(image, tmp_path):
    folder = tmp_path / "out"
    source = CALLER.replace("lazy=True", f"output_path={str(folder)!r}, lazy=True")
    caller = subprocess.Popen(
        [sys.executable, "-c", source, image],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with caller:
        assert caller.stdout.readline() == b"serving\n", caller.stderr.read()
        for keeper in psutil.Process(caller.pid).children():
            keeper.kill()
        caller.kill()
    until(lambda: not running(image))
    with Tesseract.from_image(image, output_path=folder, lazy=True) as component:
        component.apply({"how": "none"})
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {os.geteuid()}
    assert not (folder / LENT).exists()


def test_one_that_has_ended_is_started_again_beside_many_open_files_and_a_full_disk(
    image, tmp_path, monkeypatch
):
    # Its log needs no disk, and its pipes may have any number.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such folder"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(open(os.devnull))
            with Tesseract.from_image(image, output_path=tmp_path / "out") as component:
                podman("kill", *running(image))
                until(lambda: not running(image))
                component.serve()
                assert len(component.apply({"how": "none"})["heat"]) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not running(image)


def test_a_forked_child_leaves_its_parents_container_alone(image, scratch):
    with Tesseract.from_image(image) as component:
        component.apply({"how": "none"})
        child = os.fork()
        if child == 0:
            try:
                component.apply({"how": "none"})
                component.teardown()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert component.apply({"how": "none"})["heat"][4][0] == 4.0
        assert len(running(image)) == 1
        idle = os.fork()  # holds copies of all pipes
        if idle == 0:
            time.sleep(60)
            os._exit(0)
    try:
        assert not running(image)
    finally:
        os.kill(idle, signal.SIGKILL)
        os.waitpid(idle, 0)


def test_what_a_solver_that_died_had_written_opens_lazily(image, tmp_path):
    with Tesseract.from_image(image, output_path=tmp_path / "out", lazy=True) as component:
        with pytest.raises(RemoteError, match="SIGKILL"):
            component.apply({"steps": 7}, run_id="dead")
        # The next call works, and the dead one's snapshots are there.
        assert len(component.apply({"how": "none"})["heat"]) == 5
        dataset = open_dataset(tmp_path / "out" / "run_dead")
        assert dataset.heat.shape == (7, 4)
        np.testing.assert_array_equal(dataset.heat[:, 0], np.arange(7.0))


def test_a_container_that_is_killed_in_a_call_says_so(image, tmp_path):
    with Tesseract.from_image(image, output_path=tmp_path / "out", lazy=True) as component:
        (name,) = running(image)

        def kill_once_it_has_written():
            until(lambda: written(tmp_path / "out" / "run_dead") == snapshots(9))
            podman("kill", "--signal", "KILL", name)

        with ThreadPoolExecutor() as threads:
            killing = threads.submit(kill_once_it_has_written)
            with pytest.raises(ContainerError, match="exit code 137"):
                component.apply({"steps": 9, "how": "wait"}, run_id="dead")
            killing.result()
        with pytest.raises(ContainerError):
            component.apply({"how": "none"})
        component.teardown()
        component.serve()  # another one
        assert len(component.apply({"how": "none"})["heat"]) == 5
    assert open_dataset(tmp_path / "out" / "run_dead").heat.shape == (9, 4)
    owners = {path.stat().st_uid for path in (tmp_path / "out").rglob("*")}
    assert owners == {os.geteuid()}
    assert not running(image)


def test_cycles_of_start_and_stop_leave_nothing(image, scratch):
    volumes = podman("volume", "ls", "--quiet").stdout
    component = Tesseract.from_image(image)
    for cycle in range(6):
        component.serve()
        if cycle % 3 == 2:
            podman("kill", "--signal", "KILL", *running(image))
        else:
            component.apply({"how": "none"})
        component.teardown()
        assert not running(image)
        assert list(scratch.iterdir()) == []
    assert podman("volume", "ls", "--quiet").stdout == volumes


def test_two_components_side_by_side_share_an_output_path(image, passthrough, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    before = folder.stat()
    with Tesseract.from_image(passthrough, output_path=folder, lazy=True) as one:
        with Tesseract.from_image(image, output_path=folder, lazy=True) as other:
            heat = other.apply({"how": "none"})
            first = one.apply({"size": 4, "steps": 1})
        second = one.apply({"size": 4, "steps": 1})  # the other has gone
        np.testing.assert_array_equal(first["final"], second["final"])
        assert len(heat["heat"]) == 5
    after = folder.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert {path.stat().st_uid for path in folder.rglob("*")} == {os.geteuid()}
    assert not (folder / LENT).exists()


CALLING = '''
"""Asks another component, and forwards what that has written."""
import http.client, json, os
from pydantic import BaseModel
from binref_sci import BinrefArray
from binref_sci.runtime import Array, Float64

class InputSchema(BaseModel):
    port: int

class OutputSchema(BaseModel):
    doubled: Array[(None, None), Float64]

def apply(inputs):
    connection = http.client.HTTPConnection("127.0.0.1", inputs.port)
    body = json.dumps({"inputs": {"size": 4, "steps": 2}})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/apply", body, headers)
    answer = json.loads(connection.getresponse().read())
    import numpy as np
    return OutputSchema(doubled=2 * np.array(answer["final"]["data"]["buffer"]))
'''


def test_a_component_calls_another_one(passthrough, image_of):
    calling = image_of(CALLING)
    try:
        with (
            Tesseract.from_image(passthrough, network="host") as inner,
            Tesseract.from_image(calling, network="host") as outer,
        ):
            port = int(repr(inner).partition("127.0.0.1:")[2].partition(":")[0])
            doubled = outer.apply({"port": port})["doubled"]
            np.testing.assert_array_equal(
                doubled, 2 * inner.apply({"size": 4, "steps": 2})["final"]
            )
    finally:
        podman("rmi", "--force", calling)


def test_a_full_disk_in_the_mount_is_an_error_that_says_so(image, tmp_path, needs):
    needs("mount")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
    try:
        with Tesseract.from_image(image, output_path=folder, lazy=True) as component:
            with pytest.raises(RemoteError, match="No space left"):
                component.apply({"steps": 100_000, "how": "none"})
            for run in folder.glob("run_*"):
                subprocess.run(["rm", "-r", run], check=True)
            assert len(component.apply({"how": "none"})["heat"]) == 5
    finally:
        subprocess.run(["umount", folder], check=True)


def test_limits_variables_and_volumes_reach_the_component(image_of, tmp_path, engine):
    (tmp_path / "in, put").mkdir()
    (tmp_path / "in, put" / "a.txt").write_text("here")
    source = """
import os
from pathlib import Path
from pydantic import BaseModel
class InputSchema(BaseModel):
    pass
class OutputSchema(BaseModel):
    text: str
    word: str
def apply(inputs):
    return OutputSchema(text=Path("/data/a.txt").read_text(), word=os.environ["WORD"])
"""
    image = image_of(source)
    try:
        with Tesseract.from_image(
            image,
            volumes={str(tmp_path / "in, put"): "/data"},
            environment={"WORD": "a $b 'c'"},
            memory="512m",
            cpus=1.5,
        ) as component:
            assert component.apply({}) == {"text": "here", "word": "a $b 'c'"}
            (name,) = running(image)
            (found,) = engine.inspect("container", name)
            assert found["HostConfig"]["Memory"] == 512 * 2**20
            assert found["HostConfig"]["NanoCpus"] == 1_500_000_000
            assert found["HostConfig"]["ReadonlyRootfs"]
    finally:
        podman("rmi", "--force", image)


def test_what_is_wrong_is_said_in_bounded_time(passthrough, base, image_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImageNotFoundError, match="podman has no image 'binref_sci_nowhere'"):
        Tesseract.from_image("binref_sci_nowhere").serve()
    with pytest.raises(ContainerError, match=r"holds no component.*binref-sci build"):
        Tesseract.from_image(base).serve()
    with pytest.raises(ValueError, match="port must be between 1 and 65535, not 70000"):
        Tesseract.from_image(passthrough, port=70000)
    with pytest.raises(ContainerError, match=r"is memory='10m' enough\?"):
        Tesseract.from_image(passthrough, memory="10m").serve()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EngineError, match=r"no such network|unable to find network"):
        Tesseract.from_image(passthrough, network="binref-sci-no-such").serve()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for network in (None, "host"):
            component = Tesseract.from_image(passthrough, port=port, network=network)
            with pytest.raises(ContainerError, match=f"port {port} is taken"):
                component.serve()
    broken = image_of("raise ArithmeticError('the solver is broken')")
    slow = image_of("import time; print('still reading tables', flush=True); time.sleep(100)")
    try:
        with pytest.raises(ContainerError, match="the solver is broken"):
            Tesseract.from_image(broken).serve()
        started = time.monotonic()
        with pytest.raises(ContainerError, match=r"(?s)within 15 seconds.*still reading tables"):
            Tesseract.from_image(slow, startup_timeout=15).serve()
        assert time.monotonic() - started < 95  # it would go on for 100
    finally:
        podman("rmi", "--force", broken, slow)


def test_serve_ps_and_stop(image, tmp_path):
    server = subprocess.Popen(
        [*COMMAND, "serve", image, "--port", "0", "--output-path", tmp_path / "out"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        line = server.stderr.readline()
        assert line.startswith(f"binref-sci: serving {image} on http://127.0.0.1:"), line
        url = line.split()[4]
        with Tesseract.from_url(url, output_path=tmp_path / "out", lazy=True) as component:
            assert len(component.apply({"how": "none"})["heat"]) == 5
        done = subprocess.run(
            [*COMMAND, "ps", "--json"], env=ENVIRONMENT, capture_output=True, check=True
        )
        (name,) = running(image)
        (listed,) = [each for each in json.loads(done.stdout) if each["name"] == name]
        assert (listed["url"], listed["state"]) == (url, "running")
        assert listed["output_path"] == str(tmp_path / "out")
        subprocess.run([*COMMAND, "stop", name], env=ENVIRONMENT, check=True)
        log = server.stderr.read()
        assert server.wait(GONE_SECONDS) == 0, log
        assert "apply run_" in log
        assert "0.0.0.0" not in log
    assert not running(image)
    assert {path.stat().st_uid for path in (tmp_path / "out").rglob("*")} == {os.geteuid()}
    done = subprocess.run(
        [*COMMAND, "stop", "no-such"], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, "no container 'no-such'" in done.stderr) == (2, True)


def test_a_served_image_ends_in_good_order(image):
    server = subprocess.Popen(
        [*COMMAND, "serve", image, "--port", "0"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stderr.readline().startswith(f"binref-sci: serving {image} on ")
        server.send_signal(signal.SIGTERM)
        assert server.wait(GONE_SECONDS) == 0, server.stderr.read()
    assert not running(image)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_of_an_image_removes_its_container(image, tmp_path, number, code):
    running_call = subprocess.Popen(
        [
            *(*COMMAND, "run", image, "apply", '{"inputs": {"how": "wait"}}'),
            *("--output-path", tmp_path / "out"),
        ],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running_call:
        until(lambda: written(tmp_path / "out") == snapshots(5))
        running_call.send_signal(number)
        assert running_call.wait(GONE_SECONDS) == code, running_call.stderr.read()
    assert not running(image)
    assert open_dataset(tmp_path / "out").heat.shape == (5, 4)
    assert {path.stat().st_uid for path in (tmp_path / "out").rglob("*")} == {os.geteuid()}
