"""Gradients of components as they are written: solvers in place, unions, failures half-way."""

import gc
import json
import math
import os
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import pytest
from pydantic import BaseModel

from binref_sci import Tesseract
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.runtime import (
    Array,
    Differentiable,
    Float64,
    Labels,
    endpoint,
    finite_difference_jacobian,
    finite_difference_jvp,
    finite_difference_vjp,
    jacobian_from_jvp,
    jacobian_from_vjp,
    paths,
)
from binref_sci.runtime.checking import check_gradients
from binref_sci.runtime.component import Component
from binref_sci.runtime.gradients.labels import joined_labels
from binref_sci.runtime.run import RunDirectory
from tests.decoding import decode
from tests.kit import run_on_a_small_disk, until
from tests.serving import serving

HEAD = """
import enum
import numpy as np
from pydantic import BaseModel, RootModel
from binref_sci.runtime import *
from binref_sci.runtime import paths
from binref_sci.runtime.experimental import BinrefArray, BinrefWriter
"""


@pytest.fixture
def load(tmp_path):
    def loading(body, name="component"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tesseract_api.py").write_text(HEAD + textwrap.dedent(body))
        return Component.load(folder)

    return loading


@pytest.fixture
def ask(tmp_path):
    def asking(component, name, inputs, **body):
        run = RunDirectory.new(tmp_path / "out")
        response = endpoint.call(component, name, {"inputs": inputs, **body}, run=run)
        return decode(response.body(), directory=tmp_path / "out")

    return asking


def checked(component, tmp_path, inputs, **more):
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    return list(check_gradients(component, {"inputs": inputs}, folder=place, **more))


def named(path):
    return [each.name for each in path.iterdir()]


# ------------------------------------------------------------------- solvers in place

IN_PLACE = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    table: dict[str, list[Array[(None,), Float64]]] = {"a": [[1.0]]}

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    inputs.table.popitem()
    u = inputs.x
    for _ in range(2):
        u *= u
    return OutputSchema(y=u)

def slope(inputs):
    inputs.table.popitem()
    made = inputs.x
    made **= 3
    made *= 4
    return made

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    made = cotangent_vector["y"]
    made *= slope(inputs)
    return {"x": made}

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    made = tangent_vector["x"]
    made *= slope(inputs)
    return {"y": made}
"""
ONE_LINERS = [
    "jacobian_from_vjp(vector_jacobian_product, apply, inputs, jac_inputs, jac_outputs)",
    "jacobian_from_jvp(jacobian_vector_product, inputs, jac_inputs, jac_outputs)",
    "finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs)",
    "finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs, algorithm='forward')",
]


@pytest.mark.parametrize("line", ONE_LINERS)
@pytest.mark.filterwarnings("ignore:.*are read into memory:RuntimeWarning")
def test_a_solver_that_steps_in_place_has_the_derivatives_of_where_it_was_asked(load, ask, line):
    component = load(
        IN_PLACE + f"\ndef jacobian(inputs, jac_inputs, jac_outputs):\n    return {line}\n"
    )
    found = ask(component, "jacobian", {"x": [1.0, 2.0, 3.0]}, jac_inputs=["x"], jac_outputs=["y"])
    np.testing.assert_allclose(found["y"]["x"], np.diag([4.0, 32.0, 108.0]), rtol=1e-6)


def test_looking_for_a_length_leaves_the_inputs_alone(load, ask):
    """A cotangent of length 1 costs a run of apply."""
    body = {"vjp_inputs": ["x"], "vjp_outputs": ["y"], "cotangent_vector": {"y": [1.0]}}
    found = ask(load(IN_PLACE), "vector_jacobian_product", {"x": [2.0]}, **body)
    np.testing.assert_array_equal(found["x"], [32.0])


def test_gradients_of_a_solver_that_steps_in_place_are_checked(load, tmp_path):
    made = checked(load(IN_PLACE), tmp_path, {"x": [1.0, 2.0, 3.0]})
    assert [each.endpoint for each in made if each.agrees] == [
        "jacobian_vector_product",
        "vector_jacobian_product",
    ]


class Remembering(BaseModel):
    x: Differentiable[Array[..., Float64]]

    @cached_property
    def doubled(self):
        return 2 * self.x


def test_what_inputs_have_worked_out_is_not_taken_to_another_point():
    inputs = Remembering(x=np.ones(3))
    assert inputs.doubled is inputs.doubled
    found = finite_difference_jvp(
        lambda inputs: {"y": inputs.doubled}, inputs, {"x"}, {"y"}, {"x": np.ones(3)}
    )
    np.testing.assert_allclose(found["y"], [2, 2, 2])


CHANGING = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    named: dict[str, Differentiable[Float64]] = {}

class OutputSchema(BaseModel):
    y: Differentiable[Array[(2,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x[:2])

def jacobian(inputs, jac_inputs, jac_outputs):
    made = {path: np.ones((2, *np.shape(paths.get(inputs, path)))) for path in jac_inputs}
    inputs.x = inputs.x.reshape(1, -1)
    inputs.named.clear()
    return {"y": made}
"""


def test_a_result_is_held_against_the_inputs_that_were_given(load, ask):
    inputs = {"x": [1.0, 2.0, 3.0], "named": {"a": 1.0}}
    chosen = ["x", "named.{a}"]
    found = ask(load(CHANGING), "jacobian", inputs, jac_inputs=chosen, jac_outputs=["y"])
    assert {path: block.shape for path, block in found["y"].items()} == {
        "x": (2, 3),
        "named.{a}": (2,),
    }


CIRCLE = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x**2)

def jacobian(inputs, jac_inputs, jac_outputs):
    return jacobian_from_jvp(jacobian_vector_product, inputs, jac_inputs, jac_outputs)

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return jvp_from_jacobian(jacobian, inputs, jvp_inputs, jvp_outputs, tangent_vector)
"""


def test_gradients_that_are_derived_from_each_other_are_told(load, ask, tmp_path):
    component, asked = load(CIRCLE), {"jac_inputs": ["x"], "jac_outputs": ["y"]}
    with pytest.raises(ComponentError, match="derived from each other in a circle"):
        ask(component, "jacobian", {"x": [1.0]}, **asked)
    assert [each.name for each in (tmp_path / "out").rglob("*") if each.is_file()] == ["run.json"]


# ------------------------------------------------------------------- paths and unions


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("l.[00]", "l.[0]"),
        (r"d.{a\.b}", "d.{a.b}"),
        ("d.{{}", r"d.{\{}"),
        ("d.{}}", r"d.{\}}"),
        ("d.{\\}", "d.{}"),
    ],
)
def test_a_path_has_one_spelling(path, meant):
    """Components compare paths as text."""
    with pytest.raises(paths.PathError) as caught:
        paths.parse(path)
    assert f"write {meant!r}" in str(caught.value)


@pytest.mark.parametrize("path", ["{}", "d.{{{}}}"])
def test_a_long_path_is_read_in_one_go(path):
    """A server must not be kept busy by one: in quadratic time this takes minutes."""
    name = "x" * 3_000_000
    assert paths.parse(path.format(name))[-1].name == name


UNIONS = """
class Color(enum.Enum):
    red = "r.d"

class InputSchema(BaseModel):
    u: Differentiable[Array[(None,), Float64]] | Differentiable[Array[(None, None), Float32]]
    v: Float64 | Differentiable[Array[(None,), Float64]] = 1.0
    enums: dict[Color, Differentiable[Float64]] = {}
    flags: dict[bool, Differentiable[Float64]] = {}

class OutputSchema(BaseModel):
    y: Float64 | Differentiable[Float64] | Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=[1.0, 2.0])

def jacobian(inputs, jac_inputs, jac_outputs):
    return {"y": {path: np.ones((2, *np.shape(paths.get(inputs, path)))) for path in jac_inputs}}

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return {"y": np.full(2, sum(each.sum() for each in tangent_vector.values()))}

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    total = (np.ones(2) * cotangent_vector["y"]).sum()
    return {path: np.full(np.shape(paths.get(inputs, path)), total) for path in vjp_inputs}
"""


@pytest.mark.parametrize(
    ("path", "inputs"),
    [
        ("u", {"u": [1.0, 2.0]}),
        ("u", {"u": [[1.0, 2.0, 3.0]]}),
        ("v", {"u": [1.0], "v": [1.0, 2.0]}),
        ("enums.{r.d}", {"u": [1.0], "enums": {"r.d": 1.0}}),
        ("flags.{true}", {"u": [1.0], "flags": {"true": 1.0}}),
    ],
)
def test_a_union_is_what_its_value_is(load, ask, path, inputs):
    component = load(UNIONS)
    point = np.asarray(inputs.get(path, 1.0))
    chosen = {"jac_inputs": [path], "jac_outputs": ["y"]}
    block = ask(component, "jacobian", inputs, **chosen)["y"][path]
    assert block.shape == (2, *point.shape)
    chosen = {"jvp_inputs": [path], "jvp_outputs": ["y"]}
    tangent = {path: np.ones(point.shape).tolist()}
    found = ask(component, "jacobian_vector_product", inputs, **chosen, tangent_vector=tangent)
    np.testing.assert_array_equal(found["y"], [point.size, point.size])
    chosen = {"vjp_inputs": [path], "vjp_outputs": ["y"]}
    cotangent = {"y": [1.0, 2.0]}
    found = ask(component, "vector_jacobian_product", inputs, **chosen, cotangent_vector=cotangent)
    np.testing.assert_array_equal(found[path], np.full(point.shape, 3.0))
    assert found[path].dtype == ("float32" if point.ndim == 2 else "float64")


@pytest.mark.parametrize(
    ("body", "loc", "reason"),
    [
        ({"vjp_inputs": ["v"]}, ["vjp_inputs", 0], r"shape \(\) .* not differentiable.* are 'u'"),
        ({"cotangent_vector": {"y": 1.0}}, ["cotangent_vector", "y"], r"has shape \(2,\)"),
        ({"cotangent_vector": {"y": [[1.0]]}}, ["cotangent_vector", "y"], r"Float64\]\] \| Diff"),
    ],
)
def test_what_a_union_does_not_hold_is_refused(load, ask, body, loc, reason):
    asked = {"vjp_inputs": ["u"], "vjp_outputs": ["y"], "cotangent_vector": {"y": [1, 2]}}
    with pytest.raises(PayloadError, match=reason) as caught:
        ask(load(UNIONS), "vector_jacobian_product", {"u": [1.0]}, **asked | body)
    assert caught.value.errors[0]["loc"] == loc


MODELS = """
from typing import Literal

class Line(BaseModel):
    kind: Literal["line"] = "line"
    w: Differentiable[Array[(None,), Float64]]

class Sheet(BaseModel):
    kind: Literal["sheet"] = "sheet"
    w: Differentiable[Array[(None, None), Float64]]

class Rest(BaseModel):
    kind: Literal["rest"] = "rest"
    w: Array[(None,), Float64]

class InputSchema(BaseModel):
    part: Line | Sheet | Rest
    pair: tuple[Differentiable[Array[(3,), Float64]], Differentiable[Float32]] = ([1, 2, 3], 4)

class OutputSchema(BaseModel):
    y: Differentiable[Array[..., Float64]]
    z: Differentiable[Array[(2,), Float64]] | None = None

def apply(inputs):
    return OutputSchema(y=inputs.part.w.sum() * np.ones((2, 2)) + sum(map(np.sum, inputs.pair)))

def jacobian(inputs, jac_inputs, jac_outputs):
    return finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs)

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    return vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
"""


@pytest.mark.parametrize(
    ("part", "path", "shape"),
    [
        ({"kind": "line", "w": [1.0, 2.0]}, "part.w", (4, 2)),
        ({"kind": "sheet", "w": [[1.0, 2.0, 3.0]]}, "part.w", (4, 3)),
        ({"kind": "rest", "w": [1.0]}, "pair.[0]", (4, 3)),
        ({"kind": "rest", "w": [1.0]}, "pair.[1]", (4, 1)),
    ],
)
def test_the_matrix_of_what_may_have_several_numbers_of_axes(load, tmp_path, part, path, shape):
    load(MODELS)
    sim = Tesseract.from_tesseract_api(tmp_path / "component", output_path=tmp_path / "out")
    inputs = {"part": part, "pair": ([1.0, 2.0, 3.0], 4.0)}
    made = sim.jacobian(inputs, [path], ["y"], lazy=True)
    operator = made.linear_operator("y", path)
    assert operator.shape == shape
    np.testing.assert_allclose(operator @ np.ones(shape[1]), [shape[1]] * 4, rtol=1e-2)


def test_the_document_says_what_several_declarations_have_in_common(load):
    document = load(MODELS).openapi()["components"]["schemas"]
    assert document["ApplyInputSchema"]["differentiable_arrays"] == {
        "part.w": {"shape": None, "dtype": "float64"},
        "pair.[]": {"shape": None, "dtype": None},
    }


def test_of_models_in_a_union_the_one_that_is_there_counts(load, ask, tmp_path):
    """Another would be differentiable, and has an array of the same shape."""
    component = load(MODELS)
    asked = {"jac_inputs": ["part.w"], "jac_outputs": ["y"]}
    reason = r"'part.w' is not differentiable; differentiable are 'pair.\[0\]', 'pair.\[1\]'$"
    with pytest.raises(PayloadError, match=reason):
        ask(component, "jacobian", {"part": {"kind": "rest", "w": [1.0]}}, **asked)
    reason = r"differentiable are 'part\.w', 'pair\.\[0\]', 'pair\.\[1\]'$"
    with pytest.raises(PayloadError, match=reason):
        ask(component, "jacobian", {"part": {"w": [1.0]}}, jac_inputs=["w"], jac_outputs=["y"])


@pytest.mark.parametrize("name", ["jacobian", "vector_jacobian_product"])
def test_an_output_that_is_none_is_the_callers_mistake(load, ask, name):
    asked = {"jac_inputs": ["part.w"], "jac_outputs": ["z"]}
    if name != "jacobian":
        asked = {"vjp_inputs": ["part.w"], "vjp_outputs": ["z"], "cotangent_vector": {"z": [1, 2]}}
    with pytest.raises(PayloadError, match="'z' is None for these inputs; differentiable are 'y'"):
        ask(load(MODELS), name, {"part": {"w": [1.0]}}, **asked)


LENGTHS = """
class InputSchema(BaseModel):
    n: Int64
    x: Differentiable[Float64] = 1.0

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]
    parts: list[Differentiable[Array[(None,), Float64]]] = []

def apply(inputs):
    writer = BinrefWriter()
    for _ in range(2):
        writer.write(np.ones(inputs.n))
    return OutputSchema(y=np.ones(inputs.n), parts=writer.trajectory())

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    if "parts.[2]" in cotangent_vector:
        raise IndexError("list index out of range")
    return {"x": (np.ones(inputs.n) * cotangent_vector["y"]).sum()}
"""
FAILING_EVAL = """
def abstract_eval(abstract_inputs):
    raise SystemExit(abstract_inputs.n)
"""
ODD_EVAL = """
def abstract_eval(abstract_inputs):
    return {"y": {"shape": 7, "dtype": "float64"}, "parts": None}
"""


@pytest.mark.parametrize("more", ["", FAILING_EVAL])
def test_lengths_that_a_whole_number_sets_are_known_anew(load, ask, more):
    component = load(LENGTHS + more)
    chosen = {"vjp_inputs": ["x"], "vjp_outputs": ["y"], "cotangent_vector": {"y": [1.0]}}
    assert ask(component, "vector_jacobian_product", {"n": 1}, **chosen)["x"] == 1.0
    with pytest.raises(PayloadError, match=r"has shape \(3,\) for these inputs"):
        ask(component, "vector_jacobian_product", {"n": 3}, **chosen)


def test_shapes_foreseen_that_are_none_do_not_matter(load, ask):
    chosen = {"vjp_inputs": ["x"], "vjp_outputs": ["y"], "cotangent_vector": {"y": [1.0, 2.0]}}
    found = ask(load(LENGTHS + ODD_EVAL), "vector_jacobian_product", {"n": 2}, **chosen)
    assert found["x"] == 3.0


def test_outputs_that_there_are_not_are_told_with_those_there_are(load, ask):
    chosen = {"vjp_inputs": ["x"], "vjp_outputs": ["parts.[2]"]}
    with pytest.raises(PayloadError, match=r"2 items; differentiable are 'y', 'parts.\[0\]'"):
        ask(
            load(LENGTHS),
            "vector_jacobian_product",
            {"n": 2},
            **chosen,
            cotangent_vector={"parts.[2]": [1.0, 2.0]},
        )


def test_a_coordinate_may_be_called_like_a_dimension_of_the_other_side():
    outer = Labels(dims=("x",), coords={"time": ((), 2.0)})
    inner = Labels(dims=("time",), coords={"x": ((), 5.0), "time": [0.0, 1.0]})
    made = joined_labels(outer, inner, output="u", path="q", ndims=(1, 1))
    assert made.dims == ("x", "time")
    found = {name: (dims, values.tolist()) for name, (dims, values, _) in made.coords.items()}
    assert found == {"time_coord": ((), 2.0), "x_in": ((), 5.0), "time": (("time",), [0.0, 1.0])}


# ------------------------------------------------------------------- failures half-way


class Two(BaseModel):
    x: Differentiable[Array[..., Float64]]
    z: Differentiable[Array[..., Float64]] = 1.0


TWO = Two(x=np.ones(3))


def outputs_of(_):
    return {"a": np.ones(2), "b": np.ones(2)}


def failing_vjp(vjp_outputs, **_):
    if "b" in vjp_outputs:
        raise ArithmeticError("no")
    return {"x": np.ones(3)}


def failing_jvp(jvp_inputs, **_):
    if "z" in jvp_inputs:
        raise ArithmeticError("no")
    return {"a": np.ones(2)}


def failing_apply(inputs):
    if inputs.z != 1.0:
        raise ArithmeticError("no")
    return {"a": np.ones(2)}


@pytest.mark.parametrize(
    "make",
    [
        lambda place: jacobian_from_vjp(
            failing_vjp, outputs_of, TWO, ["x"], ["a", "b"], output_path=place
        ),
        lambda place: jacobian_from_jvp(failing_jvp, TWO, ["x", "z"], ["a"], output_path=place),
        lambda place: finite_difference_jacobian(
            failing_apply, TWO, ["x", "z"], ["a"], output_path=place
        ),
    ],
)
def test_blocks_that_were_finished_go_with_the_one_that_fails(tmp_path, make):
    with pytest.raises(ArithmeticError):
        make(tmp_path)
    assert named(tmp_path) == []


SHAPES = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x)

calls = []

def product(**_):
    calls.append(1)
    return {"y": np.ones(2 + len(calls))}

def jacobian(inputs, jac_inputs, jac_outputs):
    return jacobian_from_jvp(product, inputs, jac_inputs, jac_outputs)
"""


def test_no_scratch_folder_waits_for_an_error_to_be_forgotten(load, tmp_path):
    component = load(SHAPES)
    run = RunDirectory.new(tmp_path / "out")
    payload = {"inputs": {"x": [1.0, 2.0]}, "jac_inputs": ["x"], "jac_outputs": ["y"]}
    gc.disable()
    try:
        with pytest.raises(ComponentError, match=r"has shape \(4,\), expected \(3,\)"):
            endpoint.call(component, "jacobian", payload, run=run)
        assert named(run.path) == ["run.json"]
    finally:
        gc.enable()


DYING = """
import os, signal, time

class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    dies: bool = True
    sleeps: bool = False

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x)

def product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    BinrefWriter("adjoint").write(inputs.x)
    if inputs.sleeps:
        time.sleep(600)
    if inputs.dies and cotangent_vector["y"][1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": cotangent_vector["y"]}

def jacobian(inputs, jac_inputs, jac_outputs):
    BinrefWriter("kept").write(inputs.x)
    return jacobian_from_vjp(product, apply, inputs, jac_inputs, jac_outputs)
"""


def test_of_a_process_that_is_killed_what_was_streamed_stays_and_half_a_block_goes(load, tmp_path):
    load(DYING)
    options = ["--output-path", tmp_path / "out"]
    asked = {"jac_inputs": ["x"], "jac_outputs": ["y"]}
    with (
        serving(tmp_path / "component", *options, log_file=tmp_path / "log") as server,
        server.client(params={"run_id": "1"}) as client,
    ):
        died = client.post("/jacobian", json={"inputs": {"x": [1, 2, 3]}, **asked})
        assert died.status_code == 500
        assert "SIGKILL" in died.text
        (stored,) = (tmp_path / "out" / "run_1").glob("*.bin")
        assert stored.stat().st_size == 24
        assert [name for name in named(stored.parent) if name.startswith(".")] == []
        again = client.post("/jacobian", json={"inputs": {"x": [1, 2, 3], "dies": False}, **asked})
        assert again.status_code == 200


def test_a_server_that_stops_leaves_no_half_block_of_a_call_it_cuts_short(load, tmp_path):
    load(DYING)
    options = ["--output-path", tmp_path / "out", "--grace", "1"]
    body = {"inputs": {"x": [1], "sleeps": True}, "jac_inputs": ["x"], "jac_outputs": ["y"]}
    folder = tmp_path / "out" / "run_1"
    with (
        serving(tmp_path / "component", *options, log_file=tmp_path / "log") as server,
        server.client(params={"run_id": "1"}) as client,
        ThreadPoolExecutor() as threads,
    ):
        call = threads.submit(client.post, "/jacobian", json=body)
        until(lambda: list(folder.glob(".scratch-*/*.jsonl")))  # the product is running
        assert server.stop() == 0
        assert call.exception() is not None or call.result().status_code == 500
    assert {name.partition(".")[2] for name in named(folder)} == {"json", "bin", "binref.jsonl"}
    said = json.loads((folder / "run.json").read_text())
    assert (said["state"], said["error"]) == ("failed", "the server was stopped")


SMALL_DISK = """
    import os, sys
    from pathlib import Path
    from tests.serving import serving

    component, log = sys.argv[1:]
    disk = Path(os.environ["SMALL_DISK"])

    def seen():
        return sorted(each.relative_to(disk).as_posix() for each in disk.rglob("*"))

    asked = {"jac_inputs": ["x"], "jac_outputs": ["y"]}
    with (
        serving(component, "--output-path", disk, log_file=log) as server,
        server.client(headers={"Accept": "application/json+binref"}) as client,
    ):
        def ask(run, size, mode):
            body = {"inputs": {"x": [1.0] * size, "mode": mode}, **asked}
            return client.post("/jacobian", json=body, params={"run_id": run})

        for mode in ("rows", "columns", "differences"):
            full = ask("full", 300, mode)  # 720 kB
            assert full.status_code == 500, full.text
            assert "No space left on device" in full.text and ".bin" in full.text
            assert seen() == ["run_full", "run_full/run.json"]
            assert ask("small", 3, mode).status_code == 200  # nothing holds the disk
            for each in (disk / "run_small").iterdir():
                each.unlink()
            (disk / "run_small").rmdir()

        died = ask("died", 3, "map")
        assert died.status_code == 500
        assert "died in jacobian: it was killed by signal" in died.text
        assert seen() == ["map", "run_died", "run_died/run.json", "run_full", "run_full/run.json"]

        none = ask("none", 3, "rows")  # not even for run.json
        assert none.status_code == 500
        assert "No space left on device" in none.text and "run_none/run.json" in none.text
        assert not (disk / "run_none").exists()

        (disk / "map").unlink()
        assert ask("again", 3, "rows").status_code == 200
"""
FILLING = """
import os

class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    mode: str

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.x)

def row(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    if inputs.mode == "map":  # as a solver does that writes through a map
        path = os.environ["SMALL_DISK"] + "/map"
        np.memmap(path, mode="w+", dtype="u1", shape=1_000_000)[:] = 1
    return {"x": cotangent_vector["y"]}

def column(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return {"y": tangent_vector["x"]}

def jacobian(inputs, jac_inputs, jac_outputs):
    asked = inputs, jac_inputs, jac_outputs
    if inputs.mode == "columns":
        return jacobian_from_jvp(column, *asked, memory=100_000)
    if inputs.mode == "differences":
        return finite_difference_jacobian(apply, *asked)
    return jacobian_from_vjp(row, apply, *asked)
"""


def test_a_full_disk_costs_one_call_and_leaves_nothing_half_done(load, tmp_path, monkeypatch):
    load(FILLING)
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setenv("SMALL_DISK", os.fspath(disk))
    run_on_a_small_disk(disk, "400k", SMALL_DISK, tmp_path / "component", tmp_path / "log")


def test_a_call_removes_what_a_killed_one_left_in_its_folder(load, tmp_path):
    """Where no server has noticed: the command line, a notebook."""
    folder = tmp_path / "again"
    (folder / ".scratch-1").mkdir(parents=True)
    (folder / ".scratch-1" / "half.bin").write_bytes(bytes(8))
    (folder / "run.json").write_text('{"run_id": "1", "state": "running"}')
    payload = {"inputs": {"x": [1.0], "dies": False}}
    endpoint.call(load(DYING), "apply", payload, run=RunDirectory(folder))
    assert named(folder) == ["run.json"]


def test_rows_that_would_lack_their_imaginary_part_are_refused(load, ask):
    """A vector-Jacobian product of a complex output by a real input has no array to be in."""
    component = load(
        """
        class InputSchema(BaseModel):
            x: Differentiable[Array[(None,), Float64]]

        class OutputSchema(BaseModel):
            y: Differentiable[Array[(None,), Complex128]]

        def apply(inputs):
            return OutputSchema(y=(1 + 2j) * inputs.x)

        def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
            return {"x": ((1 + 2j) * cotangent_vector["y"]).real}

        def jacobian(inputs, jac_inputs, jac_outputs):
            return jacobian_from_vjp(
                vector_jacobian_product, apply, inputs, jac_inputs, jac_outputs
            )
        """
    )
    with pytest.raises(ComponentError, match=r"'y' is complex128, .* lack its imaginary part"):
        ask(component, "jacobian", {"x": [1.0, 2.0]}, jac_inputs=["x"], jac_outputs=["y"])


# ------------------------------------------------------------------- finite differences


def doubled(inputs):
    return {"a": 2 * inputs.x}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("algorithm", ["central", "forward"])
def test_an_element_that_is_not_finite_does_not_spoil_the_others(tmp_path, value, algorithm):
    inputs = Two(x=np.array([1.0, value, 3.0]))
    found = finite_difference_jacobian(
        doubled, inputs, ["x"], ["a"], algorithm=algorithm, output_path=tmp_path
    )["a"]["x"].load()
    np.testing.assert_allclose(found[[0, 2]][:, [0, 2]], 2 * np.eye(2))
    assert np.isnan(found[:, 1]).any()
    ones = {"x": np.ones(3)}
    along = finite_difference_jvp(doubled, inputs, ["x"], ["a"], ones, algorithm=algorithm)
    np.testing.assert_allclose(along["a"], [2, math.nan, 2])


@pytest.mark.parametrize("eps", [1e-30, {"x": 1e-17}])
def test_a_step_that_moves_nothing_is_refused(eps):
    with pytest.raises(ValueError, match="is lost beside"):
        finite_difference_jvp(doubled, TWO, ["x"], ["a"], {"x": np.ones(3)}, eps=eps)


def test_a_step_without_end_is_refused():
    with pytest.raises(ValueError, match="positive and finite, got inf"):
        finite_difference_jvp(doubled, TWO, ["x"], ["a"], {"x": np.ones(3)}, eps=math.inf)


def test_elements_close_to_zero_are_moved_all_the_same(tmp_path):
    inputs = Two(x=np.array([1e-320, 0.0]))
    found = finite_difference_jacobian(doubled, inputs, ["x"], ["a"], output_path=tmp_path)
    np.testing.assert_allclose(found["a"]["x"].load(), 2 * np.eye(2))


def test_a_mapper_that_loses_points_is_told():
    def losing(function, points):
        return [function(point) for point in points][:-1]

    with pytest.raises(ValueError, match="fewer results than the 2 points"):
        finite_difference_vjp(doubled, TWO, ["x"], ["a"], {"a": np.ones(3)}, mapper=losing)


# ------------------------------------------------------------------- checking

LINE = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    offset: float = 0.0
    factor: float = 1.0
    wrong: float = 1.0

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    with np.errstate(invalid="ignore"):
        return OutputSchema(y=inputs.offset + inputs.factor * np.sqrt(inputs.x))

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    with np.errstate(divide="ignore"):
        slope = inputs.factor * inputs.wrong / np.where(inputs.x == 0, 1, 2 * np.sqrt(inputs.x))
    return {"y": slope * tangent_vector["x"]}
"""


def test_differences_that_are_no_numbers_do_not_agree(load, tmp_path):
    """The slope at 0 is infinite, and beside it there is none."""
    (one,) = checked(load(LINE), tmp_path, {"x": [0.0, 1.0]})
    assert not one.agrees
    assert "not finite" in one.reason


@pytest.mark.parametrize(
    ("offset", "factor", "size"),
    [(300, 1e-3, 1), (1e6, 1, 1), (1e8, 1, 1), (1, 1e-3, 1e-6), (0, 1e-12, 1), (0, 1e12, 1e-9)],
)
def test_what_rounding_does_to_large_outputs_is_no_fault_of_the_component(
    load, tmp_path, offset, factor, size
):
    component = load(LINE)
    inputs = {"x": [size, 2 * size, 3 * size], "offset": offset, "factor": factor}
    for seed in range(5):
        (right,) = checked(component, tmp_path, inputs, seed=seed)
        assert right.agrees, right
        for wrong in (2, -1, 0):
            (one,) = checked(component, tmp_path, inputs | {"wrong": wrong}, seed=seed)
            assert not one.agrees


COMPLEX = """
class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    z: Differentiable[Array[(None,), Complex128]]
    wrong: bool = False

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Complex128]]
    size: Differentiable[Float64]

def apply(inputs):
    return OutputSchema(y=(1 + 2j) * inputs.x * inputs.z, size=(abs(inputs.z) ** 2).sum())

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    dx = tangent_vector.get("x", np.zeros(inputs.x.size))
    dz = tangent_vector.get("z", np.zeros(inputs.x.size))
    if inputs.wrong:
        dz = dz.real
    made = {
        "y": (1 + 2j) * (dx * inputs.z + inputs.x * dz),
        "size": (2 * inputs.z.conj() * dz).real.sum(),
    }
    return {path: made[path] for path in jvp_outputs}

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    y = cotangent_vector.get("y", np.zeros(inputs.x.size)) * (1 + 2j)
    size = cotangent_vector.get("size", 0.0)
    z = y * inputs.x + size * 2 * inputs.z.conj()
    made = {"x": (y * inputs.z).real, "z": z.real + 0j if inputs.wrong else z}
    return {path: made[path] for path in vjp_inputs}
"""


GONE = """
class InputSchema(BaseModel):
    a: Differentiable[Array[(None,), Float64]]
    b: Differentiable[Array[(None,), Float64]]

class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]

def apply(inputs):
    return OutputSchema(y=inputs.a + inputs.b)

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    made = BinrefArray.write(cotangent_vector["y"])
    (made.directory / made.path).unlink()
    return {path: made for path in vjp_inputs}
"""


def test_products_whose_files_are_gone_are_told(load, tmp_path):
    made = checked(load(GONE), tmp_path, {"a": [1.0], "b": [2.0]})
    assert [each.path for each in made] == ["a", "b", "a", "b"]
    assert all("No such file" in each.reason or "missing" in each.reason for each in made)


def test_complex_products_are_compared_with_their_imaginary_parts(load, tmp_path):
    component = load(COMPLEX)
    inputs = {"x": [1.0, 2.0], "z": np.array([1 + 1j, 2 - 3j])}
    made = checked(component, tmp_path, inputs)
    assert len(made) == 12
    assert [each for each in made if not each.agrees] == []
    made = checked(component, tmp_path, inputs | {"wrong": True})
    assert {(each.output, each.path) for each in made if not each.agrees} == {
        ("y", "z"),
        ("size", "z"),
        ("y", "(all)"),
        ("size", "(all)"),
        ("(all)", "z"),
    }


def test_outputs_in_a_trajectory_are_checked_too(load, tmp_path):
    made = checked(load(LENGTHS), tmp_path, {"n": 2})
    assert [each.output for each in made] == ["y", "parts.[0]", "parts.[1]", "(all)"]


def test_a_component_that_leaves_is_told(load, tmp_path):
    component = load(
        LINE.replace(
            "with np.errstate(invalid", "raise SystemExit(3)\n    with np.errstate(invalid"
        )
    )
    with pytest.raises(ComponentError, match="SystemExit: 3"):
        checked(component, tmp_path, {"x": [1.0]})
