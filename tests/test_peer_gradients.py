"""Gradients between tesseract-core and this package, over HTTP on loopback, both ways."""

import itertools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from binref_sci import Tesseract
from binref_sci.errors import PayloadError
from tests.peer.environment import interpreter, peer_serving, swapped
from tests.serving import serving

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:.*are read into memory:RuntimeWarning"),
]

HERE = Path(__file__).parent
FORMATS = ["json", "json+base64", "json+binref"]
PATHS = ["x", "layers.[1].w", "named.{a.b}"]
OUTPUTS = ["y", "total"]
INPUTS = {
    "x": [1.0, 2.0, 3.0],
    "layers": [{"w": [1.0]}, {"w": [2.0, 3.0]}],
    "named": {"a.b": 1.5},
}
SHAPES = {"x": (3,), "layers.[1].w": (2,), "named.{a.b}": (), "y": (2,), "total": ()}


def block(output, path):
    shape = SHAPES[output] + SHAPES[path]
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


TANGENT = {path: np.ones(SHAPES[path]) for path in PATHS}
COTANGENT = {output: np.full(SHAPES[output], 2.0) for output in OUTPUTS}
JVP = {
    output: sum(
        np.tensordot(block(output, path), TANGENT[path], len(SHAPES[path])) for path in PATHS
    )
    for output in OUTPUTS
}
VJP = {
    path: sum(
        np.tensordot(COTANGENT[output], block(output, path), len(SHAPES[output]))
        for output in OUTPUTS
    )
    for path in PATHS
}
CASES = list(itertools.product(FORMATS, [False, True]))


@pytest.fixture(scope="module")
def python():
    return interpreter()


def component(folder, source):
    folder.mkdir()
    (folder / "tesseract_api.py").write_text(source)
    return folder


def questions():
    for form, disk in CASES:
        inputs = INPUTS | {"disk": disk}
        yield {"endpoint": "jacobian", "format": form, "inputs": inputs,
               "jac_inputs": PATHS, "jac_outputs": OUTPUTS}  # fmt: skip
        yield {"endpoint": "jacobian_vector_product", "format": form, "inputs": inputs,
               "jvp_inputs": PATHS, "jvp_outputs": OUTPUTS,
               "tangent_vector": {path: each.tolist() for path, each in TANGENT.items()}}  # fmt: skip
        yield {"endpoint": "vector_jacobian_product", "format": form, "inputs": inputs,
               "vjp_inputs": PATHS, "vjp_outputs": OUTPUTS,
               "cotangent_vector": {path: each.tolist() for path, each in COTANGENT.items()}}  # fmt: skip
    yield {"endpoint": "jacobian", "format": "json", "inputs": INPUTS,
           "jac_inputs": ["layers.[2].w"], "jac_outputs": ["y"]}  # fmt: skip


def same(answer, wanted, dtype="float64"):
    assert isinstance(answer, dict), answer
    assert answer["dtype"] == dtype
    np.testing.assert_allclose(answer["values"], wanted)


def test_its_client_has_gradients_from_our_server(python, tmp_path):
    ours = component(tmp_path / "ours", (HERE / "peer" / "gradients_api.py").read_text())
    (tmp_path / "questions.json").write_text(json.dumps(list(questions())))
    output = tmp_path / "output"
    with serving(ours, "--output-path", output, log_file=tmp_path / "log") as server:
        script = HERE / "peer" / "their_gradients.py"
        command = [python, script, server.url, output, tmp_path / "questions.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for number, _ in enumerate(CASES):
        jacobian, jvp, vjp = answers[3 * number : 3 * number + 3]
        assert isinstance(jacobian, dict), jacobian
        for output, path in itertools.product(OUTPUTS, PATHS):
            same(jacobian[output][path], block(output, path))
        for output in OUTPUTS:
            same(jvp[output], JVP[output])
        for path in PATHS:
            same(vjp[path], VJP[path], "float32" if path.startswith("named") else "float64")
    assert "layers.[2].w" in answers[-1]
    assert "which has 2 items" in answers[-1]


def test_our_client_has_gradients_from_its_server(python, tmp_path):
    source = swapped((HERE / "peer" / "gradients_api.py").read_text())
    api = component(tmp_path / "theirs", source) / "tesseract_api.py"
    output = tmp_path / "output"
    output.mkdir()
    with peer_serving(python, api, output, tmp_path, tmp_path / "log") as url:
        for form, disk in CASES:
            given = INPUTS | {"disk": disk}
            with Tesseract.from_url(url, output_path=output, output_format=form) as sim:
                for lazy in (False, True) if form == "json+binref" else (False,):
                    found = sim.jacobian(given, PATHS, OUTPUTS, lazy=lazy)
                    for one, path in itertools.product(OUTPUTS, PATHS):
                        assert found[one][path].shape == SHAPES[one] + SHAPES[path]
                        np.testing.assert_array_equal(
                            np.asarray(found[one][path]), block(one, path)
                        )
                    operator = found.linear_operator("y", "x")
                    np.testing.assert_allclose(operator @ np.ones(3), [6, 15])
                    found = sim.jacobian_vector_product(given, PATHS, OUTPUTS, TANGENT, lazy=lazy)
                    for one in OUTPUTS:
                        np.testing.assert_allclose(np.asarray(found[one]), JVP[one])
                    found = sim.vector_jacobian_product(given, PATHS, OUTPUTS, COTANGENT, lazy=lazy)
                    for path in PATHS:
                        np.testing.assert_allclose(np.asarray(found[path]), VJP[path])
        with Tesseract.from_url(url) as sim:
            for wrong in ("nothing", "layers.[2].w"):
                with pytest.raises(PayloadError, match="jac_inputs"):
                    sim.jacobian(INPUTS, [wrong], OUTPUTS)
