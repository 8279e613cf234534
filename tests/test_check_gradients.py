"""``binref-sci check-gradients``, and the example that it is shown with."""

import math
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import orjson
import pytest
from scipy.sparse import linalg

from binref_sci import BinrefArray, Tesseract, open_dataset
from binref_sci.cli import main
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.runtime.checking import check_gradients
from binref_sci.runtime.component import Component
from tests.serving import COMMAND, ENVIRONMENT

ADJOINT = Path(__file__).parents[1] / "examples" / "heat_adjoint"

COMPONENT = """
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        x: Differentiable[Array[(None,), Float64]]
        f: Differentiable[Float32] = 2.0
        n: Differentiable[Array[(None,), None]] = [1, 2]
        fault: str = ""

    class OutputSchema(BaseModel):
        y: Differentiable[Array[(None,), Float64]]
        flat: Differentiable[Float64]

    def apply(inputs):
        if inputs.fault == "apply":
            raise ArithmeticError("diverged")
        return OutputSchema(y=np.sin(inputs.x) * inputs.f, flat=3.0)

    def jacobian(inputs, jac_inputs, jac_outputs):
        made = finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs)
        if inputs.fault == "entry" and "x" in jac_inputs and "y" in jac_outputs:
            y = np.array(made["y"]["x"])
            y[1, 1] *= 1.01
            made["y"]["x"] = y
        return made

    def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
        made = jvp_from_jacobian(jacobian, inputs, jvp_inputs, jvp_outputs, tangent_vector)
        if inputs.fault == "shape":
            made["y"] = made["y"][:1]
        if inputs.fault == "nan":
            made["y"] = made["y"] * np.nan
        return made

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        if inputs.fault == "raise":
            raise ArithmeticError("no adjoint here")
        made = vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
        if inputs.fault == "sign":
            made = {path: -value for path, value in made.items()}
        return made
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "component"
    folder.mkdir()
    (folder / "tesseract_api.py").write_text(textwrap.dedent(COMPONENT))
    return folder


def found(folder, tmp_path, fault="", **more):
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    payload = {"inputs": {"x": [1.0, 2.0, 3.5], "fault": fault}}
    made = list(check_gradients(Component.load(folder), payload, folder=place, **more))
    assert list(place.iterdir()) == []
    return made


def wrong(made):
    return {(each.endpoint, each.output, each.path) for each in made if not each.agrees}


def test_right_gradients_agree(folder, tmp_path):
    made = found(folder, tmp_path)
    compared = [each for each in made if each.compared]
    assert len(compared) == 3 * 2 * 2 + 2 + 2
    assert wrong(made) == set()
    assert {each.path for each in compared} == {"x", "f", "(all)"}
    left = [each for each in made if not each.compared]
    assert {(each.path, each.reason[:20]) for each in left} == {("n", "int64: whole numbers")}
    assert len(left) == 3 * 2
    assert max(each.error for each in made if each.path == "x") < 1e-8


ROWS = {("vector_jacobian_product", output, path) for output in ("y", "(all)") for path in "xf"}
COLUMNS = {("jacobian_vector_product", "y", path) for path in ("x", "f", "(all)")}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("sign", ROWS),
        ("shape", COLUMNS),
        ("nan", COLUMNS),
        ("raise", ROWS | {("vector_jacobian_product", "flat", path) for path in "xf"}),
    ],
)  # fmt: skip
def test_wrong_gradients_are_found(folder, tmp_path, fault, expected):
    assert wrong(found(folder, tmp_path, fault)) == expected


def test_one_wrong_entry_is_found_in_all_that_is_made_of_it(folder, tmp_path):
    made = found(folder, tmp_path, "entry")
    assert {each[1:] for each in wrong(made)} == {("y", "x"), ("y", "(all)"), ("(all)", "x")}
    assert {each[0] for each in wrong(made)} == {
        "jacobian", "jacobian_vector_product", "vector_jacobian_product"
    }  # fmt: skip


SUMS = """
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        a: Differentiable[Array[(None,), Float64]]
        b: Differentiable[Array[(None,), Float64]] = [3.0, 4.0]
        sets: str

    class OutputSchema(BaseModel):
        p: Differentiable[Array[(None,), Float64]]
        q: Differentiable[Float64]

    def apply(inputs):
        return OutputSchema(p=inputs.a**2 + 3 * inputs.b, q=(inputs.a * inputs.b).sum())

    def blocks(inputs):
        a, b = inputs.a, inputs.b
        return {"p": {"a": np.diag(2 * a), "b": 3 * np.eye(2)}, "q": {"a": b, "b": a}}

    def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
        made = {}
        for output in jvp_outputs:
            for path in jvp_inputs:
                part = blocks(inputs)[output][path] @ tangent_vector[path]
                set_it = output not in made or inputs.sets == "jvp"
                made[output] = part if set_it else made[output] + part
        return made

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        made = {}
        for path in vjp_inputs:
            for output in vjp_outputs:
                part = np.dot(cotangent_vector[output], blocks(inputs)[output][path])
                set_it = path not in made or inputs.sets == "vjp"
                made[path] = part if set_it else made[path] + part
        return made
"""


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ("", set()),
        ("jvp", {("jacobian_vector_product", output, "(all)") for output in "pq"}),
        ("vjp", {("vector_jacobian_product", "(all)", path) for path in "ab"}),
    ],
)
def test_what_sets_its_result_where_it_should_add_is_found(tmp_path, sets, expected):
    """It is right for each input and output alone."""
    (tmp_path / "sums.py").write_text(textwrap.dedent(SUMS))
    payload = {"inputs": {"a": [1.0, 2.0], "sets": sets}}
    made = list(check_gradients(Component.load(tmp_path / "sums.py"), payload, folder=tmp_path))
    assert wrong(made) == expected


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("first", "lacks"), ("inputs", ""), ("outputs", ""), ("fails", "no such selection")],
)
def test_a_jacobian_that_is_right_only_as_a_whole_is_found(tmp_path, fault, reason):
    source = (
        textwrap.dedent(SUMS)
        + """
def jacobian(inputs, jac_inputs, jac_outputs):
    made = {output: {path: blocks(inputs)[output][path] for path in jac_inputs} for output in jac_outputs}
    weight = 1
    match inputs.sets:
        case "inputs":
            weight = len(jac_inputs) / 2
        case "outputs":
            weight = len(jac_outputs) / 2
        case "first" if len(jac_inputs) == 1:
            return {output: {"a": blocks(inputs)[output]["a"]} for output in jac_outputs}
        case "fails" if len(jac_inputs) == 1:
            raise ValueError("no such selection")
    return {output: {path: weight * block for path, block in row.items()} for output, row in made.items()}
"""
    )
    (tmp_path / "sums.py").write_text(source)
    component = Component.load(tmp_path / "sums.py")

    def wrong_ones(sets):
        payload = {"inputs": {"a": [1.0, 2.0], "sets": sets}}
        made = check_gradients(component, payload, folder=tmp_path)
        return [each for each in made if not each.agrees]

    assert wrong_ones("") == []
    made = wrong_ones(fault)
    assert made
    for each in made:
        assert each.endpoint == "jacobian"
        assert each.reason.startswith("asked for alone, it is wrong")
        assert reason in each.reason


def test_a_failing_endpoint_is_told_with_its_reason(folder, tmp_path):
    made = [each for each in found(folder, tmp_path, "raise") if not each.agrees]
    assert all("no adjoint here" in each.reason for each in made)
    assert all(math.isinf(each.error) for each in made)


def test_what_a_component_prints_is_heard_once_for_each_endpoint(folder, tmp_path, capsys):
    file = folder / "tesseract_api.py"
    source = file.read_text()
    for name in ("apply", "jacobian", "jacobian_vector_product", "vector_jacobian_product"):
        start = source.index(f"def {name}(")
        end = source.index("\n", start)
        source = f"{source[:end]}\n    print('in {name}'){source[end:]}"
    file.write_text(source)
    found(folder, tmp_path)
    # apply at first and below each endpoint, jacobian also below the two products
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == [
        *["in apply"] * 4, *["in jacobian"] * 3,
        "in jacobian_vector_product", "in vector_jacobian_product",
    ]  # fmt: skip


def test_what_is_checked_can_be_chosen(folder, tmp_path):
    made = found(folder, tmp_path, inputs=["x"], outputs=["y"], endpoints=["jacobian"])
    assert [(each.endpoint, each.output, each.path) for each in made] == [("jacobian", "y", "x")]
    for more in ({"inputs": ["n"]}, {"outputs": ["q"]}, {"endpoints": ["apply"]}):
        with pytest.raises(PayloadError, match="there are"):
            found(folder, tmp_path, **more)


def test_a_component_that_fails_is_not_compared(folder, tmp_path):
    with pytest.raises(ComponentError, match="diverged"):
        found(folder, tmp_path, "apply")


@pytest.mark.parametrize(("fault", "code"), [("", 0), ("sign", 1), ("apply", 1), (3, 2)])
def test_the_exit_code_tells(folder, fault, code):
    payload = orjson.dumps({"inputs": {"x": [1.0, 2.0], "fault": fault}}).decode()
    command = [*COMMAND, "check-gradients", folder, payload]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=ENVIRONMENT | {"COLUMNS": "80"}
    )
    assert done.returncode == code, done.stderr
    if fault == "":
        assert done.stdout.split()[:5] == ["endpoint", "output", "input", "error", "allowed"]
        assert done.stdout.count("agrees") == 16
        assert done.stdout.count("\nvector_jacobian_product ") == 8  # in one piece
        assert done.stdout.count("not compared") == 6
    if fault == "sign":
        assert done.stdout.count("DIFFERS") == 4
        assert "4 of 16 gradients do not agree" in done.stderr


@pytest.mark.parametrize(
    "option",
    [("--eps", "0"), ("--eps", "nan"), ("--rtol", "-1"), ("--rtol", "inf"), ("--seed", "-1")],
)
def test_an_option_that_cannot_be_meant_is_a_mistake_in_the_call(
    folder, option, monkeypatch, capfd
):
    command = ["check-gradients", str(folder), '{"inputs": {"x": [1.0]}}', *option]
    monkeypatch.setattr("sys.argv", ["binref-sci", *command])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert option[0] in capfd.readouterr().err


def test_a_step_that_moves_nothing_is_a_mistake_in_the_call(folder, tmp_path):
    with pytest.raises(PayloadError, match=r"step 1e-30 is lost beside 3\.5 in input 'x'"):
        found(folder, tmp_path, eps=1e-30)


def test_what_is_named_twice_is_compared_once(folder, tmp_path):
    made = found(folder, tmp_path, outputs=["y", "y"], inputs=["x", "x"])
    assert len(made) == 3


# ------------------------------------------------------------------- the example

INPUTS = {
    "initial": 300 + np.random.default_rng(2).normal(size=(5, 4)),
    "steps": 6,
    "sensors": [[0, 1], [4, 3], [4, 3]],
}


def test_the_examples_adjoint_agrees_with_differences(tmp_path):
    made = check_gradients(Component.load(ADJOINT), {"inputs": INPUTS}, folder=tmp_path)
    assert wrong(list(made)) == set()


def test_the_examples_fields_are_those_of_a_dense_matrix():
    size = 5 * 4
    laplacian = np.zeros((size, size))
    for row, column in np.ndindex(5, 4):
        for other in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if 0 <= other[0] < 5 and 0 <= other[1] < 4:
                laplacian[4 * row + column, 4 * row + column] -= 1
                laplacian[4 * row + column, 4 * other[0] + other[1]] += 1
    step = np.eye(size) + 4e-6 * 0.05 / 1e-3**2 * laplacian
    sim = Tesseract.from_tesseract_api(ADJOINT, output_format="json+binref")
    out = sim.apply(INPUTS)
    u = INPUTS["initial"].ravel()
    for number, field in enumerate(out["temperature"]):
        np.testing.assert_allclose(field.ravel(), np.linalg.matrix_power(step, number) @ u)
    jacobian = sim.jacobian(INPUTS, ["initial"], ["final"], lazy=True)
    found = jacobian["final/initial"].values.reshape(size, size)
    np.testing.assert_allclose(found, np.linalg.matrix_power(step, 6), atol=1e-14)


def test_the_adjoint_fields_are_streamed_and_the_last_one_is_forwarded(tmp_path):
    sim = Tesseract.from_tesseract_api(ADJOINT, output_path=tmp_path)
    weights = np.ones((6, 3))
    made = sim.vector_jacobian_product(
        INPUTS, ["initial"], ["readings"], {"readings": weights}, lazy=True, run_id="adjoint"
    )
    gradient = made["initial"]
    assert isinstance(gradient, BinrefArray)
    ds = open_dataset(tmp_path / "run_adjoint")
    assert ds.sizes["time"] == 6
    np.testing.assert_array_equal(ds["adjoint"].sel(time=0.0), gradient.load())
    # five times the 160 bytes of a field lie before the last one: nothing was written anew
    assert gradient.offset == 5 * 160


def test_the_initial_field_is_recovered_from_what_sensors_read():
    sensors = [[row, column] for row in range(5) for column in range(4)]
    given = {**INPUTS, "steps": 2, "sensors": sensors}
    sim = Tesseract.from_tesseract_api(ADJOINT, output_format="json+binref")
    readings = sim.apply(given)["readings"]
    guess = {**given, "initial": np.full((5, 4), 300.0)}
    jacobian = sim.jacobian(guess, ["initial"], ["readings"], lazy=True)
    misfit = readings - sim.apply(guess)["readings"]
    operator = jacobian.linear_operator("readings", "initial")
    change = linalg.lsqr(operator, misfit.ravel(), atol=1e-12, btol=1e-12)[0]
    np.testing.assert_allclose(
        guess["initial"].ravel() + change, INPUTS["initial"].ravel(), rtol=1e-6
    )


def test_the_example_refuses_a_step_that_is_unstable():
    sim = Tesseract.from_tesseract_api(ADJOINT)
    with pytest.raises(ComponentError, match=r"steps longer than 0\.0625 s are unstable"):
        sim.apply({**INPUTS, "time_step": 0.1})


def test_lengths_that_the_schema_leaves_open_are_known_before_it_computes():
    sim = Tesseract.from_tesseract_api(ADJOINT)
    with pytest.raises(PayloadError, match=r"shape \(6, 2\).*has shape \(6, 3\)") as caught:
        sim.vector_jacobian_product(
            INPUTS, ["initial"], ["readings"], {"readings": np.ones((6, 2))}
        )
    assert caught.value.errors[0]["loc"] == ["cotangent_vector", "readings"]


# ------------------------------------------------------------------- sizes far apart

SIZES = """
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        x: Differentiable[Array[(None,), Float64]]
        a: Differentiable[Float64] = 1e-6
        b: Differentiable[Float64] = 1e6
        kind: str
        wrong: str = ""

    class OutputSchema(BaseModel):
        y: Differentiable[Array[(None,), Float64]]
        s: Differentiable[Float64]

    KINDS = {
        # every element bends on a scale of its own size
        "bent": (lambda x, w: np.sin(x * w), lambda x, w: w * np.cos(x * w)),
        # large elements count for next to nothing
        "weighed": (lambda x, w: x * w, lambda x, w: w),
        # small elements count for next to nothing
        "plain": (lambda x, w: x**2, lambda x, w: 2 * x),
        # all bend on a scale far below their size
        "fast": (lambda x, w: np.sin(3e4 * w * x), lambda x, w: 3e4 * w * np.cos(3e4 * w * x)),
        # nothing is exact to more than nine digits
        "rough": (
            lambda x, w: np.tanh(x * w) + 1e-9 * np.sin(1e15 * w * x),
            lambda x, w: w / np.cosh(np.minimum(x * w, 300)) ** 2,
        ),
    }

    def weights(x):
        return 1 / np.where(x == 0, 1e-6, x)

    def apply(inputs):
        terms = KINDS[inputs.kind][0](inputs.x, weights(at(inputs)))
        return OutputSchema(y=np.append(np.cumsum(terms), terms), s=inputs.a + inputs.b)

    def at(inputs):  # where the weights are those of
        return np.array({AT})

    def jacobian(inputs, jac_inputs, jac_outputs):
        terms = KINDS[inputs.kind][1](inputs.x, weights(at(inputs)))
        terms = np.broadcast_to(terms, inputs.x.shape).copy()
        size = terms.size
        match inputs.wrong:
            case "factor":
                terms[1] *= 1.001
            case "sign":
                terms[1] *= -1
        block = np.append(np.tril(np.ones((size, size))) * terms, np.diag(terms), axis=0)
        if inputs.wrong == "entry":
            block[size + 1, 1] *= -1
        if inputs.wrong == "column":
            block[:, 2] = block[:, 1]
        scalars = {"a": -1.0 if inputs.wrong == "a" else 1.0, "b": 1.0}
        zeros = {"y": {"a": np.zeros(2 * size), "b": np.zeros(2 * size)}, "s": {"x": np.zeros(size)}}
        blocks = {"y": {"x": block, **zeros["y"]}, "s": {"x": np.zeros(size), **scalars}}
        return {output: {path: blocks[output][path] for path in jac_inputs} for output in jac_outputs}

    def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
        return jvp_from_jacobian(jacobian, inputs, jvp_inputs, jvp_outputs, tangent_vector)

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        return vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
"""
POINTS = {
    "alike": [0.5, 1.5, -2.0],
    "apart": [1e6, 1e-6, -3.0],
    "far apart": [1e-9, 1e9, -1.0],
    "with zeros": [1e6, 0.0, -1.0],
}


def checked(tmp_path, kind, point, wrong=""):
    source = textwrap.dedent(SIZES.replace("{AT}", repr(point)))
    (tmp_path / "sizes.py").write_text(source)
    (tmp_path / "place").mkdir(exist_ok=True)
    payload = {"inputs": {"x": point, "kind": kind, "wrong": wrong}}
    component = Component.load(tmp_path / "sizes.py")
    return list(check_gradients(component, payload, folder=tmp_path / "place"))


@pytest.mark.parametrize("kind", ["bent", "weighed", "plain", "fast", "rough"])
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_right_gradients_agree_whatever_the_sizes(tmp_path, kind, point):
    assert wrong(checked(tmp_path, kind, point)) == set()


@pytest.mark.parametrize("fault", ["factor", "sign", "entry", "column"])
@pytest.mark.parametrize(
    ("kind", "point"),
    [
        *(("bent", point) for point in POINTS.values()),
        *((kind, POINTS["far apart"]) for kind in ("weighed", "fast", "rough")),
        *((kind, POINTS["with zeros"]) for kind in ("weighed", "fast", "rough")),
    ],
)
def test_wrong_gradients_are_found_whatever_the_sizes(tmp_path, kind, point, fault):
    made = wrong(checked(tmp_path, kind, point, fault))
    assert {each[0] for each in made if each[1:] == ("y", "x")} == {
        "jacobian", "jacobian_vector_product", "vector_jacobian_product"
    }  # fmt: skip


def test_what_rounding_hides_by_a_short_step_is_found_by_a_long_one(tmp_path):
    # a is a millionth, and goes into a sum of a million
    made = wrong(checked(tmp_path, "plain", [1.0], "a"))
    assert {each[1:] for each in made} >= {("s", "a")}
