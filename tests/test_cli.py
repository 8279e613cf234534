import io
import json
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

from binref_sci.cli import main
from tests.kit import ended, until
from tests.serving import COMMAND, ENVIRONMENT
from tests.test_server import FORMATS, MIX, WORK, component, decoded, strictly

SLOW = '''
import time
from pathlib import Path
import numpy as np
from pydantic import BaseModel, Field
from binref_sci import BinrefWriter
from binref_sci.runtime import Array, Float64

class Material(BaseModel):
    """What the plate is made of."""
    diffusivity: float = Field(0.1, gt=0, description="in m2/s")

class InputSchema(BaseModel):
    size: int = Field(16, description="points along each side")
    start: Array[(None, 3), Float64] = Field(description="where it starts")
    material: Material = Material()

class OutputSchema(BaseModel):
    trajectory: list[Array[(None, None), Float64]] = Field(description="one snapshot a step")

def apply(inputs: InputSchema) -> OutputSchema:
    """Heat up a plate."""
    writer = BinrefWriter("temperature")
    trajectory = []
    for step in range(10_000):
        trajectory.append(writer.write(np.full((4, 4), float(step))))
        if step:
            (Path(__file__).parent / "started").touch()
        time.sleep(0.01)
    return OutputSchema(trajectory=trajectory)
'''


def in_a_process(*arguments):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], env=ENVIRONMENT, capture_output=True, timeout=100
    )


@pytest.fixture
def cli(capfdbinary, monkeypatch):
    """Run the command line in this process: as a process of its own it starts a hundred times."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["binref-sci", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfdbinary.readouterr()
        return subprocess.CompletedProcess(arguments, end.value.code, out, err)

    return run


@pytest.fixture(scope="module")
def adder(tmp_path_factory):
    return component(tmp_path_factory.mktemp("cli") / "adder", MIX)


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    return component(tmp_path_factory.mktemp("cli") / "worker", WORK)


PAYLOAD = '{"inputs": {"a": [1, 2, 3]}}'


@pytest.mark.parametrize("output", FORMATS[:2])
def test_run_writes_the_response_to_standard_output(cli, adder, output, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("run", adder, "apply", "--output-format", output, PAYLOAD)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(decoded(strictly(done.stdout)["total"], None), [1, 2, 3])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("output", FORMATS)
def test_run_with_an_output_path_writes_results_json_and_names_it(cli, adder, output, tmp_path):
    out = tmp_path / "out"
    done = cli("run", adder, "apply", PAYLOAD, "--output-path", out, "--output-format", output)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip() == str(out / "results.json")
    total = strictly((out / "results.json").read_text())["total"]
    np.testing.assert_array_equal(decoded(total, out), [1, 2, 3])
    assert json.loads((out / "run.json").read_text())["state"] == "complete"


def test_what_the_system_refuses_is_told_in_one_line(cli, adder, tmp_path):
    (tmp_path / "run.json").mkdir()  # so that it cannot be written, by root neither
    done = cli("run", adder, "apply", PAYLOAD, "--output-path", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: [Errno ")
    assert b"run.json" in done.stderr


def test_run_says_what_it_read_into_memory_without_showing_its_code(tmp_path):
    folder = component(tmp_path / "worker", WORK)
    done = in_a_process("run", folder, "apply", '{"inputs": {"do": "write", "size": 10}}')
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.decode().splitlines() if "read into memory" in line]
    assert line.startswith("warning: ")
    assert ".py" not in done.stderr.decode()


NEEDY = """
import enum
from pydantic import BaseModel, Field
from binref_sci.runtime import Array, Bool, Float64, Int32

class Kind(enum.Enum):
    SLOW = "slow"

class Inner(BaseModel):
    weights: Array[(3, None), Float64]
    note: str

class InputSchema(BaseModel):
    field: Array[(None, 4), Float64]
    mask: Array[(2,), Bool]
    any: Array[..., Int32]
    steps: int = Field(gt=0)
    inner: Inner
    kind: Kind
    parts: list[Inner]
    maybe: float | None
    size: int = 3

class OutputSchema(BaseModel):
    total: Float64

def apply(inputs):
    return OutputSchema(total=inputs.field.sum() + inputs.size)
"""


@pytest.mark.parametrize("source", [WORK, NEEDY], ids=["with defaults", "with what is required"])
def test_the_example_in_the_help_of_a_component_can_be_typed(tmp_path, source):
    folder = component(tmp_path / "a worker", source)
    told = in_a_process("run", folder, "--help").stdout.decode()
    (example,) = re.findall("For example: binref-sci (.*)", told)
    done = subprocess.run(
        [*COMMAND, *shlex.split(example)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_run_compresses_on_request(cli, adder):
    done = cli("run", adder, "apply", PAYLOAD, "--compression", "lz4")
    assert strictly(done.stdout)["total"]["data"]["compression"] == "lz4"


def test_run_reads_the_payload_from_a_file_or_standard_input(cli, adder, tmp_path):
    (tmp_path / "in.json").write_text(PAYLOAD)
    inline = cli("run", adder, "apply", PAYLOAD).stdout
    assert cli("run", adder, "apply", f"@{tmp_path / 'in.json'}").stdout == inline
    assert cli("run", adder, "apply", "-", stdin=PAYLOAD.encode()).stdout == inline


def test_run_resolves_references_in_the_input_path(cli, adder, tmp_path):
    np.array([1.0, 2, 3]).tofile(tmp_path / "a.bin")
    data = {"buffer": "a.bin:0", "encoding": "binref"}
    array = {"object_type": "array", "shape": [3], "dtype": "float64", "data": data}
    payload = json.dumps({"inputs": {"a": array}})
    done = cli("run", adder, "apply", payload, "--input-path", tmp_path)
    np.testing.assert_array_equal(decoded(strictly(done.stdout)["total"], None), [1, 2, 3])
    assert cli("run", adder, "apply", payload).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such/folder", "apply", PAYLOAD], "/no/such/folder"),
        (["ADDER", "aply", PAYLOAD], "aply"),
        (["ADDER", "jacobian", PAYLOAD], "jacobian"),
        (["ADDER", "apply", "{"], ""),
        (["ADDER", "apply", '{"inputs": {"a": "x"}}'], "a"),
        (["ADDER", "apply", "@no-such-file.json"], "no-such-file.json"),
        (["ADDER", "apply", PAYLOAD, "--output-format", "json+binref"], "--output-path"),
        (["ADDER", "apply", PAYLOAD, "--output-format", "yaml"], "yaml"),
        (["ADDER", "apply", PAYLOAD, "--compression", "zip"], "zip"),
        (["ADDER", "apply"], "PAYLOAD"),
        (["ADDER"], "ENDPOINT"),
        ([], "COMPONENT"),
        (["ADDER", "apply", PAYLOAD, "--no-such-option"], "--no-such-option"),
    ],
)
def test_the_callers_mistake_is_exit_code_2(cli, adder, arguments, said):
    done = cli("run", *(adder if word == "ADDER" else word for word in arguments))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert done.stdout == b""


def test_the_components_failure_is_exit_code_1_with_its_traceback(cli, worker, tmp_path):
    payload = '{"inputs": {"do": "raise"}}'
    done = cli("run", worker, "apply", payload, "--output-path", tmp_path / "out")
    assert done.returncode == 1
    assert done.stdout == b""
    assert 'raise ValueError("diverged at step 7")' in done.stderr.decode()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["state"] == "failed"


def test_a_component_that_cannot_be_loaded_is_exit_code_1(cli, tmp_path):
    folder = component(tmp_path / "broken", "raise ValueError('no licence')")
    done = cli("run", folder, "apply", PAYLOAD)
    assert done.returncode == 1
    assert "no licence" in done.stderr.decode()


def test_what_a_component_prints_goes_to_standard_error(worker):
    done = in_a_process("run", worker, "apply", '{"inputs": {"do": "print"}}')
    strictly(done.stdout)
    assert "a word from Python" in done.stderr.decode()
    assert "a word from C" in done.stderr.decode()


def test_ctrl_c_is_exit_code_130_and_keeps_what_was_written(tmp_path):
    folder = component(tmp_path / "slow", SLOW)
    out = tmp_path / "out"
    options = ["--output-path", out, "--output-format", "json+binref"]
    # Tests in the background of a shell (`make test &`) pass on that SIGINT is ignored.
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += COMMAND[-1]
    arguments = ["run", folder, "apply", '{"inputs": {"start": [[0,0,0]]}}', *options]
    with ended(
        subprocess.Popen(
            [*COMMAND[:-1], command, *arguments],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    ) as process:
        until((folder / "started").exists)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == b""
    assert json.loads((out / "run.json").read_text())["state"] == "failed"
    (buffer,) = out.glob("*.bin")
    snapshots = np.fromfile(buffer, "<f8").reshape(-1, 4, 4)
    np.testing.assert_array_equal(snapshots[:, 0, 0], np.arange(len(snapshots)))
    assert len(snapshots) > 1


def test_help_tells_what_a_component_takes(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    folder = component(tmp_path / "slow", SLOW)
    for arguments in (["run", folder, "--help"], ["run", folder, "apply", "--help"]):
        done = cli(*arguments)
        text = " ".join(done.stdout.decode().split())
        assert done.returncode == 0, done.stderr
        assert "size integer, default 16 points along each side" in text
        assert "start Array[(None, 3), Float64], required where it starts" in text
        assert "diffusivity number > 0, default 0.1 in m2/s" in text
        assert "trajectory list of Array[(None, None), Float64]" in text


WIDE = """
import numpy as np
from pydantic import BaseModel
from binref_sci.runtime import Array, Complex128, Differentiable, Float64

class InputSchema(BaseModel):
    initial_temperature: Differentiable[Array[(None, None), Float64]]
    weights: Differentiable[Array[(3,), Float64]] = np.array([1.0, 2.0, np.nan])
    turned: Array[(1,), Complex128] = np.array([1j])
    table: Array[(1000,), Float64] = np.zeros(1000)

class OutputSchema(BaseModel):
    temperature: Differentiable[Array[(None, None), Float64]]

def apply(inputs):
    assert inputs.table.shape == (1000,)
    return OutputSchema(temperature=inputs.initial_temperature)

def jacobian(inputs, jac_inputs, jac_outputs):
    return {}

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    return {}

def abstract_eval(abstract_inputs):
    return {"temperature": abstract_inputs.initial_temperature}
"""


def test_help_of_a_component_fits_a_terminal_and_cuts_no_type(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = component(tmp_path / "wide", WIDE)
    done = cli("run", folder, "--help")
    assert done.returncode == 0, done.stderr
    *lines, example = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    assert "initial_temperature Differentiable[Array[(None, None), Float64]], required" in text
    assert "Differentiable[Array[(3,), Float64]], default [1.0,2.0,null]" in text
    assert "0.0,0.0 ... .0,0.0" in text
    assert text.count("as for apply") == 3  # told once, not for each endpoint
    monkeypatch.chdir(tmp_path)
    assert cli(*shlex.split(example.partition("binref-sci ")[2])).returncode == 0


def test_help_without_a_component_tells_the_options(cli):
    done = cli("run", "--help")
    assert done.returncode == 0
    assert "--output-path" in done.stdout.decode()


def test_there_is_a_version():
    done = in_a_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"binref-sci ")


def test_a_big_response_goes_through_a_pipe_whole(cli, worker):
    done = cli("run", worker, "apply", '{"inputs": {"size": 2000000}}')
    assert len(decoded(strictly(done.stdout)["field"], None)) == 2_000_000


def test_a_reader_that_leaves_is_not_a_traceback(worker):
    with ended(
        subprocess.Popen(
            [*COMMAND, "run", worker, "apply", '{"inputs": {"size": 2000000}}'],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(60) == 1


def test_ctrl_c_while_the_command_is_still_being_imported_is_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    paths = f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"
    done = subprocess.run(
        [*COMMAND, "show"], env=ENVIRONMENT | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
