"""The examples, run the three ways a user runs them, against slow and obvious NumPy."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest

import binref_sci
from binref_sci import BinrefArray, Tesseract, Trajectory
from binref_sci.errors import ComponentError
from binref_sci.journal import hold
from tests.serving import COMMAND, serving

EXAMPLES = Path(__file__).parents[1] / "examples"
PASSTHROUGH = EXAMPLES / "binref_passthrough"
COMPILED = EXAMPLES / "compiled_solver"
HEAT = EXAMPLES / "heat_diffusion"

with_compiler = pytest.mark.needs("cc")
EACH = pytest.mark.parametrize(
    "example", [PASSTHROUGH, pytest.param(COMPILED, marks=with_compiler), HEAT],
    ids=lambda path: path.name,
)  # fmt: skip


# --- what the solvers compute, cell by cell ------------------------------------------------------


def torus(size, steps, diffusivity):
    """Snapshots of the passthrough example."""
    field = np.zeros((size, size))
    for y in range(size):
        for x in range(size):
            if size // 4 <= y < size - size // 4 and size // 4 <= x < size - size // 4:
                field[y, x] = 1
    made = [field]
    for _ in range(steps):
        new = np.empty_like(field)
        for y in range(size):
            for x in range(size):
                around = field[y - 1, x] + field[(y + 1) % size, x]
                around += field[y, x - 1] + field[y, (x + 1) % size]
                new[y, x] = field[y, x] + diffusivity * (around - 4 * field[y, x])
        field = new
        made.append(field)
    return np.array(made)


def waves(size, steps, courant):
    """Snapshots of the compiled example."""
    line = np.linspace(0, 1, size)
    now = np.exp(-((line - 0.35) ** 2 + (line[:, None] - 0.4) ** 2) / 0.08**2)
    now[0] = now[-1] = now[:, 0] = now[:, -1] = 0
    before = now.copy()
    made = []
    for _ in range(steps + 1):
        made.append(now)
        after = np.zeros_like(now)
        for y in range(1, size - 1):
            for x in range(1, size - 1):
                around = now[y - 1, x] + now[y + 1, x] + now[y, x - 1] + now[y, x + 1]
                after[y, x] = 2 * now[y, x] - before[y, x] + courant**2 * (around - 4 * now[y, x])
        before, now = now, after
    return np.array(made)


def plate(size, steps, time_step, *, duration=8.0, drawing=0.625, power=1200.0):
    """Snapshots of the heat example, at the time step that it says it took."""
    width, thickness, heat_of_volume, diffusivity, beam = 0.2, 1e-3, 8000 * 500, 4e-6, 3e-3
    angle = np.linspace(0, 2 * np.pi, 4001)
    path = -1j * (0.060 * np.exp(1j * angle) + 0.028 * np.exp(-4j * angle))
    path += (1 + 1j) * width / 2
    gone = np.append(0, np.cumsum(abs(np.diff(path))))
    spacing = width / size
    cells = (np.arange(size) + 0.5) * spacing
    field = np.full((size, size), 293.15)
    made = [field]
    per_snapshot = round(duration / steps / time_step)
    for step in range(steps * per_snapshot):
        begin = step * time_step
        end = min(begin + time_step, duration * drawing)
        if end > begin:
            at = np.interp((begin + end) / 2 / (duration * drawing) * gone[-1], gone, path)
            square = (cells - at.real) ** 2 + (cells[:, None] - at.imag) ** 2
            spot = np.exp(-square / (2 * beam**2))
            energy = power * (end - begin) * spot / spot.sum()
            field = field + energy / (heat_of_volume * thickness * spacing**2)
        edge = np.pad(field, 1, mode="edge")  # no heat flows through the edges
        around = edge[:-2, 1:-1] + edge[2:, 1:-1] + edge[1:-1, :-2] + edge[1:-1, 2:]
        field = field + diffusivity * time_step / spacing**2 * (around - 4 * field)
        if (step + 1) % per_snapshot == 0:
            made.append(field)
    return np.array(made)


# --- values --------------------------------------------------------------------------------------


def values(example, inputs, **options):
    """Run an example in this process; its arrays in memory."""
    sim = Tesseract.from_tesseract_api(example, output_format="json+binref", **options)
    return sim.apply(inputs)


def test_the_passthrough_example_gives_the_numbers_of_the_specification():
    out = values(PASSTHROUGH, {"size": 4, "steps": 1})
    second = [[0, 0.1, 0.1, 0], [0.1, 0.8, 0.8, 0.1], [0.1, 0.8, 0.8, 0.1], [0, 0.1, 0.1, 0]]
    np.testing.assert_allclose(out["trajectory"][1], second, atol=1e-15)
    np.testing.assert_array_equal(out["final"], out["trajectory"][1])


def test_the_passthrough_example_has_the_defaults_of_the_specification():
    out = values(PASSTHROUGH, {})
    np.testing.assert_allclose(out["trajectory"], torus(16, 20, 0.1), atol=1e-14)


@pytest.mark.parametrize(("size", "steps", "diffusivity"), [(1, 2, 0.1), (7, 5, 0.2), (8, 0, 0.1)])
def test_the_passthrough_example_equals_the_reference(size, steps, diffusivity):
    inputs = {"size": size, "steps": steps, "diffusivity": diffusivity}
    out = values(PASSTHROUGH, inputs)
    np.testing.assert_allclose(out["trajectory"], torus(**inputs), atol=1e-14)


@with_compiler
def test_the_compiled_example_equals_the_reference(tmp_path):
    inputs = {"size": 12, "steps": 9, "courant": 0.6}
    out = values(COMPILED, inputs, output_path=tmp_path)
    np.testing.assert_allclose(out["height"], waves(**inputs), atol=1e-14)
    np.testing.assert_array_equal(out["final"], out["height"][-1])


def test_the_heat_example_equals_the_reference(tmp_path):
    out = values(HEAT, {"size": 20, "steps": 8}, output_path=tmp_path)
    expected = plate(20, 8, float(out["time_step"]))
    # the example cuts the beam off at five standard deviations
    np.testing.assert_allclose(out["temperature"], expected, rtol=1e-5)
    np.testing.assert_array_equal(out["final"], out["temperature"][-1])
    assert out["hottest"] == np.max(out["temperature"])


@pytest.mark.parametrize("size", [16, 50, 128])
def test_the_heat_example_loses_no_heat_and_is_stable(size):
    out = values(HEAT, {"size": size, "steps": 5, "duration": 4})
    r = 4e-6 * float(out["time_step"]) * 2 * (size / 0.2) ** 2
    assert 0 < r <= 0.5
    assert out["heat_absorbed"] == pytest.approx(1200 * 4 * 0.625)
    assert out["heat_stored"] == pytest.approx(float(out["heat_absorbed"]), rel=1e-9)
    assert np.min(out["temperature"]) >= 293.15 - 1e-9  # a stable step makes nothing colder


# --- what is returned is where it lies -----------------------------------------------------------


def test_the_heat_example_returns_a_folded_and_labelled_trajectory(tmp_path):
    sim = Tesseract.from_tesseract_api(HEAT, output_path=tmp_path, lazy=True)
    out = sim.apply({"size": 16, "steps": 4})
    assert isinstance(out["temperature"], Trajectory)
    assert isinstance(out["final"], BinrefArray)
    ds = out.to_dataset()
    assert ds.temperature.dims == ("time", "y", "x")
    assert ds.temperature.attrs["units"] == "K"
    assert ds.time.attrs["units"] == "s"
    assert ds.x.attrs["units"] == "m"
    np.testing.assert_allclose(ds.time, [0, 2, 4, 6, 8])
    np.testing.assert_allclose(ds.x, (np.arange(16) + 0.5) * 0.2 / 16)
    assert ds.final.dims == ("y", "x")


def test_the_heat_example_shows_how_far_it_is(tmp_path):
    values(HEAT, {"size": 16, "steps": 4}, output_path=tmp_path)
    [journal] = tmp_path.rglob("temperature-*.binref.jsonl")
    assert orjson.loads(journal.read_text().splitlines()[0])["total"] == 5


@with_compiler
def test_the_compiled_example_refers_to_the_programs_own_file(tmp_path):
    sim = Tesseract.from_tesseract_api(COMPILED, output_path=tmp_path, lazy=True)
    out = sim.apply({"size": 16, "steps": 5}, run_id="waves")
    assert out["height"].buffer.endswith("wave.bin:0")
    assert out["final"].buffer.endswith(f"wave.bin:{5 * 16 * 16 * 8}")
    # what is on disk is what the program wrote, and nothing else
    buffers = {path.name for path in (tmp_path / "run_waves").glob("*.bin")}
    assert buffers == {"wave.bin", "times.bin"}


@with_compiler
def test_the_compiled_program_leaves_a_directory_that_opens_by_itself(tmp_path):
    sim = Tesseract.from_tesseract_api(COMPILED, output_path=tmp_path, lazy=True)
    sim.apply({"size": 12, "steps": 3, "courant": 0.5}, run_id="waves")
    run = tmp_path / "run_waves"
    ds = binref_sci.open_dataset(run)
    assert ds.height.dims == ("time", "y", "x")
    np.testing.assert_allclose(ds.time, np.arange(4) * 0.5 / 11)

    for name in ("run.json", "results.json"):  # the program alone has no such files
        (run / name).unlink()
    alone = binref_sci.open_dataset(run)
    assert alone.height.dims == ("time", "y", "x")
    np.testing.assert_allclose(alone.height, waves(12, 3, 0.5), atol=1e-14)


@with_compiler
def test_a_compiled_program_can_be_watched_within_its_call(tmp_path):
    sim = Tesseract.from_tesseract_api(COMPILED, output_path=tmp_path, lazy=True)
    sim.apply({"size": 12, "steps": 3, "courant": 0.5}, run_id="waves")
    run = tmp_path / "run_waves"
    (run / "results.json").unlink()  # as long as the call runs there is none
    told = orjson.loads((run / "run.json").read_bytes())
    (run / "run.json").write_bytes(orjson.dumps(told | {"state": "running", "ended": None}))
    lock = hold(run / "run.json")
    ds = binref_sci.open_dataset(run)
    os.close(lock)
    assert ds.encoding["binref_state"] == "writing"
    np.testing.assert_allclose(ds.height, waves(12, 3, 0.5), atol=1e-14)


@with_compiler
def test_a_compiled_program_that_was_killed_loses_no_complete_snapshot(tmp_path):
    sim = Tesseract.from_tesseract_api(COMPILED, output_path=tmp_path, lazy=True)
    sim.apply({"size": 12, "steps": 9, "courant": 0.5}, run_id="waves")
    run = tmp_path / "run_waves"
    for name in ("run.json", "results.json"):
        (run / name).unlink()
    journal = run / "height.binref.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    os.truncate(run / "wave.bin", 6 * 12 * 12 * 8 + 5)
    ds = binref_sci.open_dataset(run)
    assert ds.encoding["binref_state"] == "interrupted"
    np.testing.assert_allclose(ds.height, waves(12, 5, 0.5), atol=1e-14)


# --- over HTTP and from the command line ---------------------------------------------------------


def reference(example, inputs, out):
    if example == PASSTHROUGH:
        return "trajectory", torus(inputs["size"], inputs["steps"], 0.1)
    if example == COMPILED:
        return "height", waves(inputs["size"], inputs["steps"], 0.5)
    return "temperature", plate(inputs["size"], inputs["steps"], float(out["time_step"]))


@EACH
@pytest.mark.parametrize("lazy", [False, True])
def test_an_example_gives_the_same_over_a_real_server(example, lazy, tmp_path):
    inputs = {"size": 16, "steps": 3}
    output = tmp_path / "output"
    with (
        serving(example, "--output-path", output, log_file=tmp_path / "log") as server,
        Tesseract.from_url(server.url, output_path=output, lazy=lazy) as sim,
    ):
        out = sim.apply(inputs)
    name, expected = reference(example, inputs, out)
    np.testing.assert_allclose(np.asarray(out[name]), expected, rtol=1e-5, atol=1e-14)


@EACH
def test_an_example_gives_the_same_from_the_command_line(example, tmp_path):
    inputs = {"size": 16, "steps": 3}
    output = tmp_path / "output"
    payload = orjson.dumps({"inputs": inputs}).decode()
    options = ("--output-path", str(output), "--output-format", "json+binref")
    done = subprocess.run(
        [*COMMAND, "run", str(example), "apply", *options, payload],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ds = binref_sci.open_dataset(Path(done.stdout.strip()))
    name, expected = reference(example, inputs, ds)
    np.testing.assert_allclose(ds[name], expected, rtol=1e-5, atol=1e-14)


# --- what the pages say about them ---------------------------------------------------------------


def test_the_passthrough_example_imports_only_what_tesseract_core_has_too():
    source = (PASSTHROUGH / "tesseract_api.py").read_text()
    imports = re.findall(r"^from binref_sci(\S*) import (.*)$", source, re.MULTILINE)
    assert imports == [
        (".runtime", "Array, Float64"),
        (".runtime.experimental", "BinrefWriter"),
    ]
    assert "import binref_sci" not in source


def load(path):
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@with_compiler
def test_the_program_is_compiled_once_and_again_when_it_has_changed(tmp_path):
    compiled = load(COMPILED / "tesseract_api.py").compiled
    source = tmp_path / "wave.c"
    source.write_text("int main(void) { return 0; }\n")
    program = compiled(source)
    made = program.stat().st_mtime_ns
    assert subprocess.run([program]).returncode == 0
    assert compiled(source) == program
    assert program.stat().st_mtime_ns == made

    source.write_text("int main(void) { return 7; }\n")
    assert subprocess.run([compiled(source)]).returncode == 7


@with_compiler
def test_the_program_compiles_without_a_warning(tmp_path):
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(["cc", *flags, "-o", tmp_path / "wave", COMPILED / "wave.c", "-lm"], check=True)


@with_compiler
def test_a_source_that_does_not_compile_says_what_the_compiler_said(tmp_path):
    compiled = load(COMPILED / "tesseract_api.py").compiled
    (tmp_path / "wave.c").write_text("this is no C\n")
    with pytest.raises(RuntimeError, match=r"wave\.c does not compile:\n(.|\n)*error"):
        compiled(tmp_path / "wave.c")
    assert list((tmp_path / "build").iterdir()) == []


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    sim = Tesseract.from_tesseract_api(COMPILED)
    with pytest.raises(ComponentError, match="'no-such-compiler' is not on PATH; install one"):
        sim.apply({"size": 8, "steps": 1})


@with_compiler
def test_a_program_that_fails_says_why(monkeypatch, tmp_path):
    module = load(COMPILED / "tesseract_api.py")
    (tmp_path / "wave.c").write_text(
        '#include <stdio.h>\nint main(void) { fputs("out of luck", stderr); return 3; }\n'
    )
    monkeypatch.setattr(module, "SOURCE", tmp_path / "wave.c")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sim = Tesseract.from_tesseract_api(module)
    with pytest.raises(ComponentError, match="ended with code 3: out of luck"):
        sim.apply({"size": 8, "steps": 1})
