"""The gradient endpoints: what they take, what they return, and what they refuse."""

import itertools
import sys
import textwrap
import warnings
from contextlib import ExitStack

import httpcore  # noqa: F401  # else httpx imports it in a test, and again after its removal
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binref_sci import BinrefArray, Tesseract, wire
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.runtime import endpoint, paths
from binref_sci.runtime.component import Component
from binref_sci.runtime.run import RunDirectory
from tests.decoding import decode
from tests.serving import serving

FORMATS = ["json", "json+base64", "json+binref"]

COMPONENT = """
    from typing import Annotated
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *
    from binref_sci.runtime import paths
    from binref_sci.runtime.experimental import BinrefArray, BinrefWriter

    class Layer(BaseModel):
        w: Differentiable[Array[(None,), Float64]]
        frozen: Array[(None,), Float64] = [1.0]

    class InputSchema(BaseModel):
        x: Annotated[Differentiable[Array[(None,), Float64]], Labels(dims=("x",), units="m")]
        layers: list[Layer] = []
        named: dict[str, Differentiable[Array[..., Float32]]] = {}
        pair: tuple[Differentiable[Float64], Float64] = (1.0, 2.0)
        count: int = 1
        fixed: Array[(None,), Float64] = [1.0]
        maybe: Differentiable[Float64] | None = None
        on_disk: bool = False
        wrong: str = ""

    class OutputSchema(BaseModel):
        y: Annotated[Differentiable[Array[(2,), Float64]], Labels(dims=("x",))]
        total: Differentiable[Float64]
        parts: list[Differentiable[Array[(None,), Float64]]]
        other: Array[(2,), Float64]

    calls = []

    def apply(inputs):
        return OutputSchema(y=inputs.x[:2], total=inputs.x.sum(), parts=[inputs.x], other=[1, 2])

    def shape_of(inputs, path):
        if path.startswith("parts"):
            return inputs.x.shape
        return (2,) if path == "y" else ()

    def spoilt(made, inputs):
        if inputs.wrong == "missing":
            made.popitem()
        if inputs.wrong == "extra":
            made["q"] = np.zeros(2)
        if inputs.wrong == "shape":
            key = next(iter(made))
            made[key] = np.zeros((7, 7, 7))
        if inputs.wrong == "text":
            made[next(iter(made))] = "text"
        if inputs.wrong == "none":
            return None
        if inputs.wrong == "raise":
            raise RuntimeError("the solver has diverged")
        return made

    def filled(shape, inputs):
        made = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
        return BinrefArray.write(made) if inputs.on_disk else made

    def jacobian(inputs, jac_inputs, jac_outputs):
        calls.append((jac_inputs, jac_outputs))
        return {
            output: spoilt(
                {
                    path: filled(shape_of(inputs, output) + np.shape(paths.get(inputs, path)), inputs)
                    for path in sorted(jac_inputs)
                },
                inputs,
            )
            for output in jac_outputs
        }

    def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
        calls.append(tangent_vector)
        made = {path: filled(shape_of(inputs, path), inputs) for path in sorted(jvp_outputs)}
        return spoilt(made, inputs)

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        calls.append(cotangent_vector)
        made = {
            path: filled(np.shape(paths.get(inputs, path)), inputs) for path in sorted(vjp_inputs)
        }
        return spoilt(made, inputs)
"""

INPUTS = {
    "x": [1.0, 2.0, 3.0],
    "layers": [{"w": [1.0]}, {"w": [2.0, 3.0]}],
    "named": {"a.b": 3.0, "c{d}": [1.0, 2.0], "back\\slash": 1.0},
}
PATHS = ["x", "layers.[1].w", "named.{a.b}", r"named.{c\{d\}}", r"named.{back\\slash}", "pair.[0]"]


@pytest.fixture(autouse=True)
def _imports_are_restored():
    modules, path = set(sys.modules), sys.path[:]
    yield
    for name in set(sys.modules) - modules:
        if not name.startswith(("binref_sci", "scipy")):
            del sys.modules[name]
    sys.path[:] = path


def made_of(folder, body):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tesseract_api.py").write_text(textwrap.dedent(body))
    return folder


@pytest.fixture
def component(tmp_path):
    return Component.load(made_of(tmp_path / "component", COMPONENT))


@pytest.fixture
def ask(component, tmp_path):
    def asking(name, body, inputs=INPUTS, **more):
        run = RunDirectory.new(tmp_path / "out")
        payload = {"inputs": inputs, **body}
        response = endpoint.call(component, name, payload, run=run, **more)
        return decode(response.body(), directory=tmp_path / "out")

    return asking


def refused(ask, name, body, **more):
    with pytest.raises(PayloadError) as caught:
        ask(name, body, **more)
    assert caught.value.errors
    return caught.value.errors


def vjp(vector, inputs=("x",), outputs=("y",)):
    return {
        "vjp_inputs": list(inputs),
        "vjp_outputs": list(outputs),
        "cotangent_vector": vector,
    }


def jvp(vector, inputs=("x",), outputs=("y",)):
    return {"jvp_inputs": list(inputs), "jvp_outputs": list(outputs), "tangent_vector": vector}


# ------------------------------------------------------------------- paths


@given(st.lists(st.one_of(
    st.tuples(st.just("field"), st.from_regex(r"[a-z_]\w*", fullmatch=True).filter(str.isidentifier)),
    st.tuples(st.just("item"), st.integers(0, 99).map(str)),
    st.tuples(st.just("key"), st.text()),
), min_size=1))  # fmt: skip
def test_every_path_is_read_back_as_it_was_spelled(steps):
    made = tuple(paths.Step(kind, name) for kind, name in steps)
    assert paths.parse(paths.spell(made)) == made


@pytest.mark.parametrize(
    "path",
    ["", ".", "x.", "[-1]", "[1.5]", "[]", "a b", "[" + "9" * 5000 + "]", "a..b", "{a"],
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(paths.PathError):
        paths.parse(path)


def test_a_replaced_value_leaves_the_original_alone():
    tree = {"a": [{"b": 1}, {"b": 2}], "c": {"k.l": 3}}
    made = paths.replaced(tree, {"a.[1].b": 9, "c.{k.l}": 8})
    assert made == {"a": [{"b": 1}, {"b": 9}], "c": {"k.l": 8}}
    assert tree == {"a": [{"b": 1}, {"b": 2}], "c": {"k.l": 3}}


# ------------------------------------------------------------------- calling


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_jacobian_has_a_block_for_each_output_and_input(ask, form, on_disk):
    body = {"jac_inputs": PATHS, "jac_outputs": ["total", "y", "parts.[0]"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ask("jacobian", body, INPUTS | {"on_disk": on_disk}, output_format=form)
    assert list(found) == body["jac_outputs"]
    for output, outer in {"total": (), "y": (2,), "parts.[0]": (3,)}.items():
        assert list(found[output]) == PATHS
        for path, inner in zip(PATHS, [(3,), (2,), (), (2,), (), ()], strict=True):
            block = found[output][path]
            assert (block.shape, block.dtype) == (outer + inner, "float64")
            np.testing.assert_array_equal(block.ravel(), np.arange(block.size))


def test_the_component_gets_sets_of_paths_and_arrays_of_the_declared_dtype(ask, component):
    ask("jacobian", {"jac_inputs": ["x", "x", "pair.[0]"], "jac_outputs": ["y"]})
    ask("jacobian_vector_product", jvp({"named.{a.b}": 2, "x": [1, 2, 3]}, ["x", "named.{a.b}"]))
    selected, tangent = component.module.calls
    assert selected == ({"x", "pair.[0]"}, {"y"})
    assert tangent["x"].dtype == "float64"
    assert tangent["named.{a.b}"].dtype == "float32"
    assert tangent["named.{a.b}"].shape == ()


def test_products_come_back_in_the_declared_dtype(ask):
    found = ask("vector_jacobian_product", vjp({"y": [1, 0]}, ["named.{a.b}", "x"]))
    assert (found["named.{a.b}"].dtype, found["x"].dtype) == ("float32", "float64")
    assert found["named.{a.b}"].shape == ()


@pytest.mark.parametrize("encoding", ["list", *FORMATS])
def test_a_vector_may_be_in_any_encoding(ask, component, tmp_path, encoding):
    vector = np.array([0.5, -2.0])
    if encoding == "list":
        sent = vector.tolist()
    elif encoding == "json+binref":
        sent = wire.ref_to_json(BinrefArray.write(vector, output_path=tmp_path / "in").ref)
    else:
        pieces = wire.array_pieces(vector, encoding.removeprefix("json+"))
        sent = orjson.loads(b"".join(pieces))
    ask("vector_jacobian_product", vjp({"y": sent}), input_path=tmp_path / "in")
    np.testing.assert_array_equal(component.module.calls[-1]["y"], vector)


def test_results_on_disk_are_forwarded_unread(ask, component, tmp_path, monkeypatch):
    monkeypatch.setattr(BinrefArray, "load", None)
    body = {"jac_inputs": ["x"], "jac_outputs": ["y"]}
    run = RunDirectory.new(tmp_path / "out")
    payload = {"inputs": INPUTS | {"on_disk": True}, **body}
    response = endpoint.call(component, "jacobian", payload, run=run, output_format="json+binref")
    name = response.value["y"]["x"].path
    told = orjson.loads(response.body())
    assert told["y"]["x"]["data"]["buffer"] == f"run_{run.run_id}/{name}:0"
    assert sorted(path.suffix for path in run.path.iterdir()) == [".bin", ".json", ".json"]


def test_a_scalar_output_by_a_scalar_input_is_a_bare_number(component, tmp_path):
    """R55."""
    run = RunDirectory.new(tmp_path)
    body = {"inputs": INPUTS, "jac_inputs": ["pair.[0]"], "jac_outputs": ["total"]}
    told = orjson.loads(endpoint.call(component, "jacobian", body, run=run).body())
    block = told["total"]["pair.[0]"]
    assert (block["shape"], block["data"]["buffer"]) == ([], 0.0)


@pytest.mark.parametrize("form", FORMATS)
def test_a_complex_block_is_exact_and_without_axes_where_it_has_none(tmp_path, form):
    """R47, R55."""
    body = """
        import numpy as np
        from pydantic import BaseModel
        from binref_sci.runtime import *

        class InputSchema(BaseModel):
            z: Differentiable[Array[(3,), Complex128]]
            s: Differentiable[Float32] = 0.7

        class OutputSchema(BaseModel):
            w: Differentiable[Array[(3,), Complex128]]

        def apply(inputs):
            return {"w": inputs.z}

        def jacobian(inputs, jac_inputs, jac_outputs):
            return {"w": {"z": np.diag(inputs.z), "s": inputs.z}}
    """
    made = Component.load(made_of(tmp_path / "c", body))
    z = np.array([1 + 2j, -0.5j, complex(np.nan, 1)])
    run = RunDirectory.new(tmp_path / "out")
    payload = {"inputs": {"z": z}, "jac_inputs": ["z", "s"], "jac_outputs": ["w"]}
    text = endpoint.call(made, "jacobian", payload, run=run, output_format=form).body()
    found = decode(text, directory=tmp_path / "out")
    np.testing.assert_array_equal(found["w"]["z"], np.diag(z))
    np.testing.assert_array_equal(found["w"]["s"], z)
    assert found["w"]["s"].dtype == "complex128"


def test_run_json_labels_the_blocks(ask, component, tmp_path):
    run = RunDirectory.new(tmp_path / "out")
    payload = {"inputs": INPUTS, "jac_inputs": ["x", "pair.[0]"], "jac_outputs": ["y", "total"]}
    endpoint.call(component, "jacobian", payload, run=run, output_format="json+binref").body()
    labels = orjson.loads((run.path / "run.json").read_bytes())["labels"]
    assert {path: each["dims"] for path, each in labels.items()} == {
        "y.x": ["x", "x_in"],
        "y.pair.[0]": ["x"],
        "total.x": ["x"],
        "total.pair.[0]": [],
    }


# ------------------------------------------------------------------- refusing


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("layers.[2].w", "which has 2 items"),
        ("layers.[-1].w", "positions count from 0"),
        ("layers.[0].frozen", "is not differentiable"),
        ("layers", "is no array of InputSchema"),
        ("named.{e}", "there is no key"),
        ("named.a", "is no array of InputSchema"),
        ("pair.[1]", "is not differentiable"),
        ("pair.[2]", "is no array of InputSchema"),
        ("count", "is no array of InputSchema"),
        ("fixed", "is not differentiable"),
        ("maybe", "is None in these inputs"),
        ("nothing", "is no array of InputSchema"),
        ("x.[0]", "is no array of InputSchema"),
        ("", "is no step of a path"),
    ],
)
def test_an_input_that_cannot_be_meant_is_named_and_those_there_are_listed(ask, path, reason):
    (error,) = refused(ask, "jacobian", {"jac_inputs": ["x", path], "jac_outputs": ["y"]})
    assert error["loc"] == ["jac_inputs", 1]
    assert repr(path) in error["msg"]
    assert reason in error["msg"]
    listed = "'x', 'layers.[0].w', 'layers.[1].w', 'named.{a.b}'"
    assert f"differentiable are {listed}" in error["msg"]


@pytest.mark.parametrize("path", ["other", "z", "parts", "parts.[x]", "x"])
def test_an_output_that_cannot_be_meant_is_named_and_those_there_are_listed(ask, path):
    (error,) = refused(ask, "jacobian", {"jac_inputs": ["x"], "jac_outputs": [path]})
    assert error["loc"] == ["jac_outputs", 0]
    assert repr(path) in error["msg"]
    assert "differentiable are 'y', 'total', 'parts.[]'" in error["msg"]


@pytest.mark.parametrize("name", ["jac_inputs", "jac_outputs"])
def test_an_empty_selection_is_refused(ask, name):
    (error,) = refused(ask, "jacobian", {"jac_inputs": ["x"], "jac_outputs": ["y"], name: []})
    assert error["loc"] == [name]
    assert "at least 1 item" in error["msg"]


@pytest.mark.parametrize(
    "body", [{"jac_inputs": ["x"]}, {"jac_inputs": "x", "jac_outputs": ["y"]},
             {"jac_inputs": [1], "jac_outputs": ["y"]},
             {"jac_inputs": ["x"], "jac_outputs": ["y"], "tangent_vector": {}}]
)  # fmt: skip
def test_a_payload_of_another_form_is_refused(ask, body):
    assert refused(ask, "jacobian", body)


@pytest.mark.parametrize("given", [[1, 0], np.array([1, 0], "float32"), np.array([True, False])])
def test_vectors_of_other_real_numbers_are_cast(ask, component, given):
    """R35."""
    ask("vector_jacobian_product", vjp({"y": given}))
    ask("jacobian_vector_product", jvp({"x": [*given, 0]}))
    ask("vector_jacobian_product", vjp({"y": [1.0, 0.0]}))
    cotangent, tangent, plain = component.module.calls
    assert cotangent["y"].dtype == tangent["x"].dtype == "float64"
    np.testing.assert_array_equal(cotangent["y"], plain["y"])


@pytest.mark.parametrize(
    ("vector", "key", "reason"),
    [
        ({"y": [1.0, 0.0, 0.0]}, "y", "shape (3,)"),
        ({"y": 1.0}, "y", "shape ()"),
        ({"y": [[1.0, 0.0]]}, "y", "shape (1, 2)"),
        ({"y": [1.0]}, "y", "shape (1,)"),
        ({"y": np.array([1j, 0])}, "y", "complex128"),
        ({}, "y", "is missing"),
        ({"y": [1.0, 0.0], "z": 1.0}, "z", "is not among vjp_outputs: 'y'"),
        ({"y": "text"}, "y", ""),
        ({"y": None}, "y", "null"),
    ],
)
def test_a_cotangent_that_does_not_fit_is_named(ask, vector, key, reason):
    """R35."""
    (error, *_) = refused(ask, "vector_jacobian_product", vjp(vector))
    assert error["loc"] == ["cotangent_vector", key]
    assert reason in error["msg"]


@pytest.mark.parametrize(
    ("vector", "key", "reason"),
    [
        ({"x": [1.0]}, "x", "shape (1,) does not fit the input, which has shape (3,)"),
        ({"x": [[1.0, 2.0, 3.0]]}, "x", "shape (1, 3)"),
        ({"x": np.array([1j, 0, 0])}, "x", "complex128"),
        ({}, "x", "is missing"),
        ({"x": [1.0, 0.0, 0.0], "layers.[0].w": [1.0]}, "layers.[0].w", "is not among jvp_inputs"),
    ],
)
def test_a_tangent_that_does_not_fit_is_named(ask, vector, key, reason):
    (error,) = refused(ask, "jacobian_vector_product", jvp(vector))
    assert error["loc"] == ["tangent_vector", key]
    assert reason in error["msg"]


def test_all_faults_are_told_at_once(ask):
    body = vjp({"q": 1.0}, ["x", "nothing"], ["y", "other"])
    errors = refused(ask, "vector_jacobian_product", body)
    assert [error["loc"] for error in errors] == [
        ["vjp_inputs", 1],
        ["vjp_outputs", 1],
        ["cotangent_vector", "q"],
        ["cotangent_vector", "y"],
        ["cotangent_vector", "other"],
    ]


# ------------------------------------------------------------------- lengths that are left open

OPEN = """
    from pathlib import Path
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *
    from binref_sci.runtime.experimental import BinrefWriter

    class InputSchema(BaseModel):
        x: Differentiable[Array[(None,), Float64]]
        wrong: str = ""

    class OutputSchema(BaseModel):
        y: Differentiable[Array[(None,), Float64]]
        parts: list[Differentiable[Array[..., Float64]]]

    applied = []

    def apply(inputs):
        applied.append(1)
        if inputs.wrong == "both":
            raise RuntimeError("no outputs either")
        doubled = BinrefWriter("doubled").write(2 * inputs.x)
        return OutputSchema(y=doubled, parts=[inputs.x, inputs.x[0]])

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        if inputs.wrong:
            raise RuntimeError("the solver has diverged")
        n = len(inputs.x)
        made = 2 * np.eye(n) @ cotangent_vector.get("y", np.zeros(n))
        made += cotangent_vector.get("parts.[0]", np.zeros(n))
        made[0] += cotangent_vector.get("parts.[1]", 0.0)
        if vjp_outputs - {"y", "parts.[0]", "parts.[1]"}:
            raise IndexError("list index out of range")
        return {"x": made}
"""
DERIVED = {
    "written": "",
    "from a Jacobian": """
    product = vector_jacobian_product
    def jacobian(inputs, jac_inputs, jac_outputs):
        return jacobian_from_vjp(product, apply, inputs, jac_inputs, jac_outputs)
    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        return vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
""",
    "from differences": """
    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        return finite_difference_vjp(apply, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
""",
}


@pytest.mark.parametrize("kind", DERIVED)
@pytest.mark.parametrize(
    ("vector", "loc", "reason"),
    [
        ({"y": [1.0, 0.0]}, ["cotangent_vector", "y"], "(2,)"),
        ({"y": [1.0, 0.0, 0.0, 0.0]}, ["cotangent_vector", "y"], "has shape (3,)"),
        ({"parts.[0]": [1.0, 0.0]}, ["cotangent_vector", "parts.[0]"], "has shape (3,)"),
        ({"parts.[2]": 1.0}, ["vjp_outputs", 0], "which has 2 items"),
    ],
)
def test_a_cotangent_that_does_not_fit_the_output_is_the_callers_mistake(
    tmp_path, kind, vector, loc, reason
):
    """R35, where only the output itself can tell."""
    component = Component.load(made_of(tmp_path / "component", OPEN + DERIVED[kind]))
    run = RunDirectory.new(tmp_path / "out")
    payload = {"inputs": {"x": [1.0, 2.0, 3.0]}, **vjp(vector, outputs=vector)}
    with pytest.raises(PayloadError) as caught:
        endpoint.call(component, "vector_jacobian_product", payload, run=run)
    (error,) = caught.value.errors
    assert error["loc"] == loc
    assert reason in error["msg"]
    assert [path.name for path in run.path.iterdir()] == ["run.json"]
    assert orjson.loads((run.path / "run.json").read_bytes())["state"] == "failed"


@pytest.mark.parametrize("wrong", ["vjp", "both"])
def test_a_failure_with_a_cotangent_that_fits_stays_the_components(tmp_path, wrong):
    component = Component.load(made_of(tmp_path / "component", OPEN))
    payload = {"inputs": {"x": [1.0, 2.0], "wrong": wrong}, **vjp({"y": [1.0, 0.0]})}
    with pytest.raises(ComponentError, match="diverged"):
        endpoint.call(
            component, "vector_jacobian_product", payload, run=RunDirectory.new(tmp_path / "out")
        )


def test_the_outputs_are_had_only_if_something_fails(tmp_path):
    component = Component.load(made_of(tmp_path / "component", OPEN))
    payload = {"inputs": {"x": [1.0, 2.0]}, **vjp({"y": [1.0, 0.0]})}
    endpoint.call(
        component, "vector_jacobian_product", payload, run=RunDirectory.new(tmp_path / "out")
    )
    assert component.module.applied == []


SLOPPY = """
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        x: Differentiable[Array[(None,), Float64]]
        copies: int = 2

    class OutputSchema(BaseModel):
        y: Differentiable[Array[(None, None), Float64]]
        any: Differentiable[Array[..., Float64]]
        parts: list[Differentiable[Array[(None,), Float64]]]

    applied = []

    def apply(inputs):
        applied.append(1)
        y = np.stack([inputs.x] * inputs.copies)
        return OutputSchema(y=y, any=y, parts=[inputs.x])

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        made = np.zeros((inputs.copies, len(inputs.x)))
        for cotangent in cotangent_vector.values():
            made += cotangent  # whatever has the length of 1 is spread
        return {"x": made.sum(0)}
"""


def sloppily(component, folder, inputs, vector):
    payload = {"inputs": inputs, **vjp(vector, outputs=vector)}
    run = RunDirectory.new(folder)
    return endpoint.call(component, "vector_jacobian_product", payload, run=run).value["x"]


@pytest.mark.parametrize(
    ("path", "wrong", "right"),
    [
        ("y", [np.ones((1, 3)), np.ones((2, 1)), np.ones((1, 1))], np.ones((2, 3))),
        ("any", [np.ones(()), np.ones(3), np.ones((1, 3)), np.ones((2, 1))], np.ones((2, 3))),
        ("parts.[0]", [np.ones(1)], np.ones(3)),
    ],
)
def test_a_cotangent_that_would_be_spread_in_silence_is_the_callers_mistake(
    tmp_path, path, wrong, right
):
    component = Component.load(made_of(tmp_path / "component", SLOPPY))
    inputs = {"x": [1.0, 2.0, 3.0]}
    for vector in wrong:
        with pytest.raises(PayloadError) as caught:
            sloppily(component, tmp_path / "out", inputs, {path: vector})
        (error,) = caught.value.errors
        assert error["loc"] == ["cotangent_vector", path]
        assert f"has shape {right.shape}" in error["msg"]
    assert sloppily(component, tmp_path / "out", inputs, {path: right}).shape == (3,)


def test_what_a_length_of_one_costs_is_had_once(tmp_path):
    """Inputs that differ in numbers alone have outputs of the shapes that were seen."""
    component = Component.load(made_of(tmp_path / "component", SLOPPY))
    for number in range(3):
        given = {"x": [float(number)], "copies": 2}
        sloppily(component, tmp_path / "out", given, {"y": np.ones((2, 1))})
    assert len(component.module.applied) == 1
    sloppily(component, tmp_path / "out", given | {"copies": 3}, {"y": np.ones((3, 1))})
    assert len(component.module.applied) == 2
    with pytest.raises(PayloadError, match=r"has shape \(2, 1\)"):
        sloppily(component, tmp_path / "out", given, {"y": np.ones((1, 1))})


# ------------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("name", "body", "key"),
    [
        ("jacobian", {"jac_inputs": ["x"], "jac_outputs": ["y"]}, "['y']"),
        ("jacobian_vector_product", jvp({"x": [1, 2, 3]}), "'y'"),
        ("vector_jacobian_product", vjp({"y": [1, 2]}), "'x'"),
    ],
)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("missing", "lacks"),
        ("extra", "holds 'q'"),
        ("shape", r"has shape \(7, 7, 7\)"),
        ("text", "is of type str|is no array"),
        ("none", "is of type NoneType"),
        ("raise", "diverged"),
    ],
)
def test_a_result_that_does_not_fit_is_the_components_failure(ask, name, body, key, wrong, reason):
    with pytest.raises(ComponentError, match=reason) as caught:
        ask(name, body, INPUTS | {"wrong": wrong})
    if wrong in ("missing", "shape"):
        assert key in str(caught.value)


def test_a_result_on_disk_is_never_cast(component, ask, tmp_path):
    with pytest.raises(ComponentError, match=r"float64.*never cast"):
        ask(
            "vector_jacobian_product",
            vjp({"y": [1, 2]}, ["named.{a.b}"]),
            INPUTS | {"on_disk": True},
        )


def test_a_component_without_anything_differentiable_is_refused(tmp_path):
    body = """
        from pydantic import BaseModel
        from binref_sci.runtime import *

        class InputSchema(BaseModel):
            x: Float64

        class OutputSchema(BaseModel):
            y: Differentiable[Float64]

        def apply(inputs):
            return {"y": inputs.x}

        def jacobian(inputs, jac_inputs, jac_outputs):
            return {}
    """
    with pytest.raises(ComponentError, match="InputSchema has no differentiable array"):
        Component.load(made_of(tmp_path / "c", body))


# ------------------------------------------------------------------- schema and HTTP


def test_the_openapi_document_describes_the_endpoints(component):
    document = component.openapi()
    schemas = document["components"]["schemas"]
    for name, title in [("jacobian", "Jacobian"), ("jacobian_vector_product", "JVP"),
                        ("vector_jacobian_product", "VJP")]:  # fmt: skip
        operation = document["paths"][f"/{name}"]["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": f"#/components/schemas/{title}InputSchema"}
        assert f"{title}OutputSchema" in schemas
    taken = schemas["VJPInputSchema"]
    assert taken["required"] == ["inputs", "vjp_inputs", "vjp_outputs", "cotangent_vector"]
    assert taken["properties"]["vjp_outputs"]["items"]["anyOf"][0] == {"enum": ["y", "total"]}
    assert "/components/schemas/InputSchema" in taken["properties"]["inputs"]["$ref"]


def test_a_server_answers_as_a_call_in_this_process_does(tmp_path):
    folder = made_of(tmp_path / "component", COMPONENT)
    local = Tesseract.from_tesseract_api(folder)
    served = serving(folder, "--output-path", tmp_path / "out", log_file=tmp_path / "log")
    with served as server, ExitStack() as stack:
        remote = stack.enter_context(Tesseract.from_url(server.url, output_path=tmp_path / "out"))
        assert set(remote.available_endpoints) >= {
            "jacobian",
            "jacobian_vector_product",
            "vector_jacobian_product",
        }
        for lazy, on_disk in itertools.product([False, True], repeat=2):
            given = INPUTS | {"on_disk": on_disk}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                for sim in (local, remote):
                    one = sim.jacobian(given, PATHS, ["y", "total"], lazy=lazy)
                    two = local.jacobian(given, PATHS, ["y", "total"])
                    for output, path in itertools.product(["y", "total"], PATHS):
                        np.testing.assert_array_equal(one[output][path], two[output][path])
                    made = sim.jacobian_vector_product(
                        given, ["x"], ["y"], {"x": [1, 2, 3]}, lazy=lazy
                    )
                    np.testing.assert_array_equal(made["y"], [0, 1])
                    made = sim.vector_jacobian_product(
                        given, ["x"], ["y"], {"y": [1, 2]}, lazy=lazy
                    )
                    np.testing.assert_array_equal(made["x"], [0, 1, 2])
        body = {"inputs": INPUTS, **vjp({"y": [1.0, 0.0, 0.0]})}
        with server.client() as http:
            answer = http.post("/vector_jacobian_product", json=body)
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", "cotangent_vector", "y"]
        with pytest.raises(PayloadError, match="differentiable are"):
            remote.jacobian(INPUTS, ["nothing"], ["y"])


def test_a_server_says_422_to_a_cotangent_that_does_not_fit_the_output(tmp_path):
    """R35, where only the output itself can tell."""
    folder = made_of(tmp_path / "component", OPEN)
    served = serving(folder, "--output-path", tmp_path / "out", log_file=tmp_path / "log")
    body = {"inputs": {"x": [1.0, 2.0]}, **vjp({"y": [1.0, 0.0, 0.0]})}
    with served as server, server.client() as http:
        answer = http.post("/vector_jacobian_product", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "cotangent_vector", "y"]


def test_vectors_over_http_as_the_case_is_written(tmp_path):
    """R35: float64 of shape [2]; vectors of other shapes, kinds and keys."""
    body = """
        from pydantic import BaseModel
        from binref_sci.runtime import *

        class InputSchema(BaseModel):
            x: Differentiable[Array[(2,), Float64]]

        class OutputSchema(BaseModel):
            y: Differentiable[Array[(2,), Float64]]

        def apply(inputs):
            return OutputSchema(y=inputs.x**3)

        def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
            assert cotangent_vector["y"].dtype == "float64"
            return {"x": 3 * inputs.x**2 * cotangent_vector["y"]}

        def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
            assert tangent_vector["x"].dtype == "float64"
            return {"y": 3 * inputs.x**2 * tangent_vector["x"]}
    """
    folder = made_of(tmp_path / "component", body)
    inputs = {"x": [1.5, 2.0]}
    single = {
        "object_type": "array",
        "shape": [2],
        "dtype": "float32",
        "data": {"buffer": [1.0, 0.0], "encoding": "json"},
    }
    served = serving(folder, "--output-path", tmp_path / "out", log_file=tmp_path / "log")
    with served as server, server.client() as http:
        for name, asking, field, key in (
            ("vector_jacobian_product", vjp, "cotangent_vector", "y"),
            ("jacobian_vector_product", jvp, "tangent_vector", "x"),
        ):
            answers = []
            for vector in ([1, 0], [1.0, 0.0], single):
                answer = http.post(f"/{name}", json={"inputs": inputs, **asking({key: vector})})
                assert answer.status_code == 200, answer.text
                (found,) = decode(answer.content).values()
                assert found.dtype == "float64"
                answers.append(found)
            np.testing.assert_array_equal(answers, [[6.75, 0.0]] * 3)
            for vector, loc in (
                ({key: [1.0, 0.0, 0.0]}, key),
                ({}, key),
                ({key: [1.0, 0.0], "q": [1.0]}, "q"),
            ):
                answer = http.post(f"/{name}", json={"inputs": inputs, **asking(vector)})
                assert answer.status_code == 422
                (entry,) = answer.json()["detail"]
                assert entry["loc"] == ["body", field, loc]
                assert repr(loc) in entry["msg"]


def test_complex_numbers_over_http_as_the_case_is_written(tmp_path):
    """R47: as an output and as a block of a Jacobian, in all three encodings."""
    body = """
        import numpy as np
        from pydantic import BaseModel
        from binref_sci.runtime import *

        Z = np.array([1 + 2j, -0.5j, complex(np.nan, 1)])

        class InputSchema(BaseModel):
            x: Differentiable[Float64]

        class OutputSchema(BaseModel):
            z: Differentiable[Array[(3,), Complex128]]

        def apply(inputs):
            return OutputSchema(z=Z)

        def jacobian(inputs, jac_inputs, jac_outputs):
            return {"z": {"x": Z}}
    """
    folder = made_of(tmp_path / "component", body)
    expected = np.array([1 + 2j, -0.5j, complex(np.nan, 1)])
    out = tmp_path / "out"
    with serving(folder, "--output-path", out, log_file=tmp_path / "log") as server:
        for form in FORMATS:
            with Tesseract.from_url(server.url, output_path=out, output_format=form) as sim:
                for found in (
                    sim.apply({"x": 1.0})["z"],
                    sim.jacobian({"x": 1.0}, ["x"], ["z"])["z"]["x"],
                ):
                    assert found.dtype == "complex128"
                    assert found.tobytes() == expected.tobytes()
