"""SIGTERM, by which batch systems end a job: nothing half-made stays behind."""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import binref_sci as brs
from binref_sci.naming import SCRATCH_PREFIX
from tests.components import component
from tests.kit import ended, until
from tests.serving import COMMAND, ENVIRONMENT, serving

SLOW = """
import os, time
from pathlib import Path
import numpy as np
from pydantic import BaseModel
from binref_sci.runtime import Array, Differentiable, Float64, jacobian_from_vjp

class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x)

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    Path(__file__).with_name("started").touch()
    time.sleep(60)

def jacobian(inputs, jac_inputs, jac_outputs):
    return jacobian_from_vjp(vector_jacobian_product, apply, inputs, jac_inputs, jac_outputs)
"""
JACOBIAN = {"inputs": {"x": [1.0, 2.0]}, "jac_inputs": ["x"], "jac_outputs": ["y"]}


@pytest.fixture
def slow(tmp_path):
    return component(tmp_path / "slow", SLOW)


def terminate(arguments, begun, folder, *, twice=False):
    """Run a command with temporary files in `folder`; once `begun`, send it SIGTERM."""
    with ended(
        subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            env=ENVIRONMENT | {"TMPDIR": os.fspath(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    ) as process:
        until(lambda: begun() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        if twice:
            process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143, stderr
    assert "ended by SIGTERM" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("twice", [False, True])  # as by `timeout`: to the process and to its group
def test_a_run_that_is_ended_leaves_no_scratch(slow, tmp_path, twice):
    out = tmp_path / "out"
    arguments = ["run", slow, "jacobian", json.dumps(JACOBIAN), "--output-path", out]

    def begun():
        return (slow / "started").exists() and list(out.glob(f"{SCRATCH_PREFIX}*"))

    terminate(arguments, begun, tmp_path, twice=twice)
    assert [path.name for path in out.iterdir()] == ["run.json"]
    assert json.loads((out / "run.json").read_text())["state"] == "failed"


def test_gradients_whose_check_is_ended_leave_no_scratch(slow, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    payload = json.dumps({"inputs": JACOBIAN["inputs"]})
    terminate(["check-gradients", slow, payload], (slow / "started").exists, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["export", "animate"])
def test_what_is_copied_or_drawn_when_it_is_ended_goes(tmp_path, command):
    rng = np.random.default_rng(0)
    fields = {f"v{n}": (("time", "y", "x"), rng.random((64, 16, 16))) for n in range(200)}
    brs.to_binref(xr.Dataset(fields), tmp_path / "source")
    folder = tmp_path / "folder"
    folder.mkdir()
    arguments = {
        "export": ["export", tmp_path / "source", "-o", folder / "x.zarr"],
        "animate": ["animate", tmp_path / "source", "-o", folder / "x.gif", "--variable", "v0"],
    }[command]
    terminate(arguments, lambda: any(folder.iterdir()), folder)
    assert list(folder.iterdir()) == []


def test_a_server_that_is_ended_leaves_no_scratch(slow, tmp_path):
    out = tmp_path / "out"
    options = ["--output-path", out, "--grace", "0"]
    with (
        serving(slow, *options, log_file=tmp_path / "log") as server,
        server.client() as client,
        ThreadPoolExecutor() as threads,
    ):
        call = threads.submit(client.post, "/jacobian", json=JACOBIAN)
        until((slow / "started").exists)
        assert list(out.glob(f"run_*/{SCRATCH_PREFIX}*"))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert call.exception() is not None or call.result().status_code >= 500
    (run,) = out.iterdir()
    assert [path.name for path in run.iterdir()] == ["run.json"]
    assert json.loads((run / "run.json").read_text())["state"] == "failed"


FORKS = (
    SLOW
    + """
def apply(inputs):
    import signal
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    return OutputSchema(y=np.array([float(os.WTERMSIG(status))]))
"""
)


def test_a_child_that_the_component_forks_ends_at_once(tmp_path):
    # What is open is its parent's to close.
    folder = component(tmp_path / "forks", FORKS)
    done = subprocess.run(
        [*COMMAND, "run", folder, "apply", '{"inputs": {"x": [1.0]}}', "--output-format", "json"],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["y"]["data"]["buffer"] == [float(signal.SIGTERM)]


def test_sigterm_that_is_ignored_stays_ignored(slow, tmp_path):
    command = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + COMMAND[-1]
    quick = SLOW.replace("time.sleep(60)", "time.sleep(1); return {'x': np.zeros(2)}")
    (slow / "tesseract_api.py").write_text(quick)
    with ended(
        subprocess.Popen(
            [*COMMAND[:-1], command, "run", slow, "jacobian", json.dumps(JACOBIAN)],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
        )
    ) as process:
        until((slow / "started").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
