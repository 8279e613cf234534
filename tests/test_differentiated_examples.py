"""The examples that JAX and PyTorch differentiate, against NumPy and finite differences.

They run in processes of their own, as a user runs them: both packages start threads, beside
which the test process could not fork any more.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import orjson
import pytest

from binref_sci import Tesseract, Trajectory
from binref_sci.errors import PayloadError, RemoteError
from tests.serving import COMMAND, ENVIRONMENT, serving

EXAMPLES = Path(__file__).parents[1] / "examples"
BURGERS = EXAMPLES / "jax_burgers"
CHAIN = EXAMPLES / "torch_chain"

with_jax = pytest.mark.needs_module("jax")
with_torch = pytest.mark.needs_module("torch")

SMOOTH = (1 + np.sin(np.arange(12) / 2)).tolist()
BURGERS_INPUTS = {"initial": SMOOTH, "viscosity": 0.03, "snapshots": 3, "steps": 5}
CHAIN_INPUTS = {
    "start": {"position": [0.1, 0.5, -0.2], "velocity": [0.0, 1.0, 0.0]},
    "stiffness": [1.0, 2.0, 3.0, 1.0],
    "steps": 7,
}
WRT = {BURGERS: ["initial", "viscosity"], CHAIN: ["start.position", "stiffness", "friction"]}
OF = {BURGERS: ["final", "energy"], CHAIN: ["position", "energy"]}


def burgers(initial, viscosity, snapshots, steps, length=2.0, time_step=1e-3):
    """Snapshots, cell by cell."""
    u = np.array(initial)
    n, dx = len(u), length / len(u)
    made = [u]
    for number in range(snapshots * steps):
        new = np.empty_like(u)
        for i in range(n):
            left, right = u[i - 1], u[(i + 1) % n]
            change = viscosity * (right - 2 * u[i] + left) / dx**2
            change -= (right**2 - left**2) / 2 / (2 * dx)
            new[i] = u[i] + time_step * change
        u = new
        if (number + 1) % steps == 0:
            made.append(u)
    return np.array(made)


def chain(start, stiffness, steps, friction=0.1, time_step=0.05):
    """Positions after each step and the kinetic energy at the end, mass by mass."""
    x, v = list(start["position"]), list(start["velocity"])
    n = len(x)
    made = []
    for _ in range(steps):
        at = [0.0, *x, 0.0]
        pull = []
        for spring in range(n + 1):
            stretch = at[spring + 1] - at[spring]
            pull.append(stiffness[spring] * (stretch + 0.5 * stretch**3))
        for mass in range(n):
            v[mass] += time_step * (pull[mass + 1] - pull[mass] - friction * v[mass])
        for mass in range(n):
            x[mass] += time_step * v[mass]
        made.append(list(x))
    return np.array(made), sum(each**2 for each in v) / 2


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Each example, served once for all tests."""
    running = {}

    def serve(example):
        if example not in running:
            folder = tmp_path_factory.mktemp(example.name)
            context = serving(example, "--output-path", folder / "out", log_file=folder / "log")
            server = context.__enter__()
            running[example] = context, Tesseract.from_url(server.url, output_path=folder / "out")
        return running[example][1]

    yield serve
    for context, sim in running.values():
        sim.close()
        context.__exit__(None, None, None)


@with_jax
def test_the_example_with_jax_equals_numpy_and_streams(served):
    out = served(BURGERS).apply(BURGERS_INPUTS, lazy=True)
    assert isinstance(out["velocity"], Trajectory)
    expected = burgers(**BURGERS_INPUTS)
    np.testing.assert_allclose(out["velocity"].load(), expected, rtol=1e-13)
    assert out["final"].dtype == "float64"
    np.testing.assert_array_equal(out["final"].load(), out["velocity"][-1])
    assert float(out["energy"]) == pytest.approx(np.sum(expected[-1] ** 2) / 2 * 2.0 / 12)
    ds = out.to_dataset()
    assert ds.velocity.dims == ("time", "x")
    np.testing.assert_allclose(ds.time, [0, 5e-3, 10e-3, 15e-3])


@with_torch
def test_the_example_with_torch_equals_numpy(served):
    out = served(CHAIN).apply(CHAIN_INPUTS)
    positions, energy = chain(**CHAIN_INPUTS)
    assert out["position"].dtype == "float64"
    np.testing.assert_allclose(out["position"], positions, rtol=1e-12)
    assert float(out["energy"]) == pytest.approx(energy)


@with_torch
def test_a_chain_with_springs_missing_is_told(served):
    with pytest.raises(RemoteError, match="3 masses need 3 velocities and 4 springs, got 3 and 2"):
        served(CHAIN).apply({**CHAIN_INPUTS, "stiffness": [1.0, 2.0]})


EACH = pytest.mark.parametrize(
    ("example", "inputs"),
    [
        pytest.param(BURGERS, BURGERS_INPUTS, marks=with_jax, id="jax"),
        pytest.param(CHAIN, CHAIN_INPUTS, marks=with_torch, id="torch"),
    ],
)


@EACH
def test_the_endpoints_agree_with_each_other(example, inputs, served):
    sim, wrt, of = served(example), WRT[example], OF[example]
    random = np.random.default_rng(3)
    jacobian = sim.jacobian(inputs, wrt, of)
    out = sim.apply(inputs)
    tangent, cotangent = {}, {}
    for path in wrt:
        inner = jacobian["energy"][path].shape  # the energy has no axes
        tangent[path] = random.normal(size=inner)
        for output in of:
            block = jacobian[output][path]
            assert block.shape == np.shape(out[output]) + inner
            assert block.dtype == "float64"
    for output in of:
        cotangent[output] = random.normal(size=np.shape(out[output]))
    pushed = sim.jacobian_vector_product(inputs, wrt, of, tangent)
    pulled = sim.vector_jacobian_product(inputs, wrt, of, cotangent)
    for output in of:
        expected = sum(
            np.tensordot(jacobian[output][path], tangent[path], tangent[path].ndim) for path in wrt
        )
        np.testing.assert_allclose(pushed[output], expected, rtol=1e-10, atol=1e-12)
    for path in wrt:
        expected = sum(
            np.tensordot(cotangent[output], jacobian[output][path], cotangent[output].ndim)
            for output in of
        )
        np.testing.assert_allclose(pulled[path], expected, rtol=1e-10, atol=1e-12)


@EACH
def test_one_output_by_one_input(example, inputs, served):
    sim, path, output = served(example), WRT[example][0], OF[example][0]
    whole = sim.jacobian(inputs, WRT[example], OF[example])
    part = sim.jacobian(inputs, [path], [output])
    assert list(part) == [output]
    assert list(part[output]) == [path]
    np.testing.assert_allclose(part[output][path], whole[output][path], rtol=1e-12, atol=1e-14)


@EACH
def test_a_cotangent_of_another_length_is_refused_before_it_computes(example, inputs, served):
    output = OF[example][0]
    wrong = {output: np.ones((99,) * (2 if example == CHAIN else 1))}
    with pytest.raises(PayloadError, match="does not fit the output, which has shape"):
        served(example).vector_jacobian_product(inputs, WRT[example], [output], wrong)


@EACH
def test_finite_differences_agree(example, inputs):
    payload = orjson.dumps({"inputs": inputs}).decode()
    command = [*COMMAND, "check-gradients", example, payload]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrt = 2 if example == BURGERS else 4
    assert done.stdout.count("agrees") == 3 * 2 * wrt + 2 + wrt  # and all at once


@EACH
def test_the_readme_says_what_runs(example, inputs):
    [command] = re.findall(
        r"^binref-sci (check-gradients examples/\S+) '([^']*)'",
        (example / "README.md").read_text(),
        re.MULTILINE,
    )
    name, folder = command[0].split()
    done = subprocess.run(
        [*COMMAND, name, EXAMPLES.parent / folder, command[1]],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
