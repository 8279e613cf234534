"""Derived endpoints: they agree with each other, with the truth and with finite differences."""

import itertools
import math
import os
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from binref_sci import BinrefWriter, Tesseract
from binref_sci.call import Call, entering, output_path
from binref_sci.errors import ComponentError, FormatError, NoOutputPathError
from binref_sci.runtime import (
    Array,
    Differentiable,
    Float64,
    blocks,
    experimental,
    finite_difference_jacobian,
    finite_difference_jvp,
    finite_difference_vjp,
    jacobian_from_jvp,
    jacobian_from_vjp,
    jvp_from_jacobian,
    paths,
    vjp_from_jacobian,
)

# ------------------------------------------------------------------- components at random


class Part(BaseModel):
    w: Differentiable[Array[..., None]]


class Deep(BaseModel):
    part: Part
    scale: Differentiable[Float64]
    table: dict[str, list[Differentiable[Array[..., None]]]] = {}


class InputSchema(BaseModel):
    plain: Differentiable[Array[..., None]]
    parts: list[Part] = []
    named: dict[str, Differentiable[Array[..., None]]] = {}
    deep: Deep | None = None


class OutputSchema(BaseModel):
    first: Differentiable[Array[..., None]]
    inner: dict[str, Differentiable[Array[..., None]]]


class Model:
    """A smooth function of all inputs to all outputs, with its exact derivatives.

    Output k is the sum over inputs i of ``A[k, i] @ (x + x**2 / 2)``, so that its block is
    ``A[k, i]`` times ``1 + x``, and differences of it have no higher terms than the second.
    """

    def __init__(self, inputs, shapes, seed):
        self.inputs = inputs
        self.paths = list(paths.existing(inputs, InputSchema))
        self.shapes = shapes
        self.dtype = np.result_type(*map(self.along, self.paths))
        random = np.random.default_rng(seed)
        self.weights = {
            (output, path): random.uniform(-1, 1, (math.prod(shape), self.at(inputs, path).size))
            for output, shape in shapes.items()
            for path in self.paths
        }

    @staticmethod
    def at(inputs, path):
        return np.asarray(paths.get(inputs, path))

    def along(self, path):
        """Dtype of what is along an input: whole numbers have derivatives all the same."""
        dtype = self.at(self.inputs, path).dtype
        return dtype if dtype.kind in "fc" else np.dtype("float64")

    def apply(self, inputs):
        made = {}
        flat = {path: self.at(inputs, path).astype(self.dtype).reshape(-1) for path in self.paths}
        for output, shape in self.shapes.items():
            total = np.zeros(math.prod(shape), self.dtype)
            for path in self.paths:
                x = flat[path]
                total = total + self.weights[output, path].astype(self.dtype) @ (x + x * x / 2)
            made[output] = total.reshape(shape).astype(self.dtype)
        return OutputSchema(first=made["first"], inner={"a.b": made["inner.{a.b}"]})

    def abstract_eval(self, inputs):
        made = {
            output: {"shape": shape, "dtype": self.dtype.name}
            for output, shape in self.shapes.items()
        }
        return {"first": made["first"], "inner": {"a.b": made["inner.{a.b}"]}}

    def exact(self, output, path):
        x = self.at(self.inputs, path)
        block = self.weights[output, path] * (1 + x.astype(np.result_type(x, float)).reshape(-1))
        return block.reshape(self.shapes[output] + x.shape)

    def jacobian(self, inputs, jac_inputs, jac_outputs):
        return {
            output: {path: self.exact(output, path).astype(self.dtype) for path in jac_inputs}
            for output in jac_outputs
        }

    def vjp(self, inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        assert set(cotangent_vector) == set(vjp_outputs)
        return {
            path: sum(
                np.tensordot(
                    cotangent_vector[output], self.exact(output, path), len(self.shapes[output])
                )
                for output in vjp_outputs
            ).astype(self.along(path))
            for path in vjp_inputs
        }

    def jvp(self, inputs, jvp_inputs, jvp_outputs, tangent_vector):
        assert set(tangent_vector) == set(jvp_inputs)
        return {
            output: np.asarray(sum(
                np.tensordot(self.exact(output, path), tangent_vector[path], tangent_vector[path].ndim)
                for path in jvp_inputs
            )).astype(self.dtype)
            for output in jvp_outputs
        }  # fmt: skip


shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
# Of complex outputs by real inputs a vector-Jacobian product has no array to be in.
dtypes = st.sampled_from([("float64", "float32"), ("complex128", "complex64")])
KEYS = ["k", "a.b", "{}", "\\", ""]


@st.composite
def models(draw, *, integers=False):
    kinds = draw(dtypes)
    if integers and kinds[0] == "float64":
        kinds += ("int64", "uint8")
    kinds = st.sampled_from(kinds)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))

    def array():
        dtype = np.dtype(draw(kinds))
        shape = draw(shapes)
        values = random.uniform(-2, 2, shape)
        if dtype.kind == "c":
            values = values + 1j * random.uniform(-2, 2, shape)
        return np.asarray(values if dtype.kind in "fc" else 100 * abs(values)).astype(dtype)

    def arrays(most):
        return [array() for _ in range(draw(st.integers(0, most)))]

    def deep():
        keys = draw(st.sets(st.sampled_from(KEYS), max_size=2))
        return Deep(part=Part(w=array()), scale=1.5, table={key: arrays(2) for key in sorted(keys)})

    inputs = InputSchema(
        plain=array(),
        parts=[Part(w=each) for each in arrays(2)],
        named={key: array() for key in sorted(draw(st.sets(st.sampled_from(KEYS), max_size=3)))},
        # the scale is real: a complex output has no vector-Jacobian product with it
        deep=deep() if draw(kinds).startswith(("float", "int", "uint")) else None,
    )
    outputs = {"first": draw(shapes), "inner.{a.b}": draw(shapes)}
    return Model(inputs, outputs, draw(st.integers(0, 2**32)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("derived")


def unit(model):
    return max(np.finfo(model.along(path)).eps for path in model.paths)


def some(data, paths):
    """A selection of paths."""
    return set(data.draw(st.lists(st.sampled_from(sorted(paths)), min_size=1, unique=True)))


def vector(random, shape, dtype):
    return np.asarray(random.uniform(-1, 1, shape), dtype)


def agree(found, model, tolerance, wrt=None, of=None):
    assert set(found) == set(of or model.shapes)
    for output, row in found.items():
        assert set(row) == set(wrt or model.paths)
        for path, block in row.items():
            exact = model.exact(output, path)
            assert block.shape == exact.shape
            np.testing.assert_allclose(np.asarray(block), exact, rtol=tolerance, atol=tolerance)


quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@quick
@given(model=models(integers=True), memory=st.integers(1, 400), data=st.data())
def test_a_jacobian_from_products_is_the_jacobian(folder, model, memory, data):
    wrt, of = some(data, model.paths), some(data, model.shapes)
    ask = model.inputs, wrt, of
    tolerance = 50 * unit(model)
    for eval_fn in (model.apply, model.abstract_eval):
        made = jacobian_from_vjp(model.vjp, eval_fn, *ask, output_path=folder)
        agree(made, model, tolerance, wrt, of)
    for budget in (memory, 2**20):
        made = jacobian_from_jvp(model.jvp, *ask, memory=budget, output_path=folder)
        agree(made, model, tolerance, wrt, of)


def component_of(model, jacobian, *, lazily):
    """A component with the functions of a model, and the products made of its Jacobian."""
    module = types.ModuleType("model")
    module.InputSchema, module.OutputSchema = InputSchema, OutputSchema
    module.apply, module.abstract_eval = model.apply, model.abstract_eval
    module.jacobian = jacobian
    module.jacobian_vector_product = lambda inputs, jvp_inputs, jvp_outputs, tangent_vector: (
        jvp_from_jacobian(jacobian, inputs, jvp_inputs, jvp_outputs, tangent_vector)
    )
    module.vector_jacobian_product = lambda inputs, vjp_inputs, vjp_outputs, cotangent_vector: (
        vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
    )
    return Tesseract.from_tesseract_api(module, output_format="json+binref", lazy=lazily)


@quick
@given(
    model=models(integers=True), rows=st.booleans(), lazily=st.booleans(), data=st.data(),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_all_endpoints_of_a_component_agree(model, rows, lazily, data, seed):
    random = np.random.default_rng(seed)
    wrt, of = some(data, model.paths), some(data, model.shapes)

    def jacobian(inputs, jac_inputs, jac_outputs):
        if rows:
            return jacobian_from_vjp(
                model.vjp, model.abstract_eval, inputs, jac_inputs, jac_outputs
            )
        return jacobian_from_jvp(model.jvp, inputs, jac_inputs, jac_outputs)

    sim = component_of(model, jacobian, lazily=lazily)
    tolerance = 200 * unit(model)
    made = sim.jacobian(model.inputs, wrt, of)
    agree(made, model, tolerance, wrt, of)
    tangent = {
        path: vector(random, model.at(model.inputs, path).shape, model.along(path)) for path in wrt
    }
    cotangent = {output: vector(random, model.shapes[output], model.dtype) for output in of}
    pushed = sim.jacobian_vector_product(model.inputs, wrt, of, tangent)
    pulled = sim.vector_jacobian_product(model.inputs, wrt, of, cotangent)
    close = {"rtol": tolerance, "atol": tolerance}
    for output in of:
        found = np.asarray(pushed[output])
        assert found.shape == model.shapes[output]
        np.testing.assert_allclose(found, model.jvp(None, wrt, of, tangent)[output], **close)
        operators = [made.linear_operator(output, path) for path in wrt]
        total = sum(
            operator @ tangent[path].ravel() for operator, path in zip(operators, wrt, strict=True)
        )
        np.testing.assert_allclose(found.ravel(), total, **close)
    for path in wrt:
        found = np.asarray(pulled[path])
        assert found.shape == model.at(model.inputs, path).shape
        np.testing.assert_allclose(
            found, model.vjp(model.inputs, wrt, of, cotangent)[path], **close
        )


@quick
@given(model=models(), lazily=st.booleans(), seed=st.integers(0, 2**32))
def test_products_from_a_jacobian_are_the_products(folder, model, lazily, seed):
    random = np.random.default_rng(seed)

    def jacobian(inputs, jac_inputs, jac_outputs):
        if not lazily:
            return model.jacobian(inputs, jac_inputs, jac_outputs)
        return jacobian_from_vjp(model.vjp, model.apply, inputs, jac_inputs, jac_outputs)

    tangent = {
        path: random.uniform(-1, 1, model.at(model.inputs, path).shape) for path in model.paths
    }
    tangent = {
        path: np.asarray(each, model.at(model.inputs, path).dtype) for path, each in tangent.items()
    }
    cotangent = {
        output: np.asarray(random.uniform(-1, 1, shape), model.dtype)
        for output, shape in model.shapes.items()
    }
    ask = model.inputs, set(model.paths), set(model.shapes)
    tolerance = 200 * unit(model)
    one, other = jvp_from_jacobian(jacobian, *ask, tangent), model.jvp(*ask, tangent)
    for output, shape in model.shapes.items():
        assert one[output].shape == shape
        np.testing.assert_allclose(one[output], other[output], rtol=tolerance, atol=tolerance)
    one, other = vjp_from_jacobian(jacobian, *ask, cotangent), model.vjp(*ask, cotangent)
    for path in model.paths:
        assert one[path].shape == model.at(model.inputs, path).shape
        np.testing.assert_allclose(one[path], other[path], rtol=tolerance, atol=tolerance)


@quick
@given(
    model=models(),
    algorithm=st.sampled_from(["central", "forward"]),
    batch_size=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_finite_differences_agree_to_the_order_expected(folder, model, algorithm, batch_size, seed):
    random = np.random.default_rng(seed)
    ask = model.inputs, set(model.paths), set(model.shapes)
    # The functions are quadratic: central differences err by rounding alone.
    tolerance = 500 * unit(model) ** (2 / 3 if algorithm == "central" else 1 / 2)
    made = finite_difference_jacobian(
        model.apply,
        *ask,
        algorithm=algorithm,
        batch_size=batch_size,
        memory=300,
        output_path=folder,
    )
    agree(made, model, tolerance)
    tangent = {
        path: np.asarray(
            random.uniform(-1, 1, model.at(model.inputs, path).shape),
            model.at(model.inputs, path).dtype,
        )
        for path in model.paths
    }
    found = finite_difference_jvp(model.apply, *ask, tangent, algorithm=algorithm)
    for output, value in model.jvp(*ask, tangent).items():
        assert found[output].shape == value.shape
        np.testing.assert_allclose(found[output], value, rtol=tolerance, atol=10 * tolerance)
    cotangent = {
        output: np.asarray(random.uniform(-1, 1, shape), model.dtype)
        for output, shape in model.shapes.items()
    }
    found = finite_difference_vjp(model.apply, *ask, cotangent, algorithm=algorithm)
    for path in model.paths:
        value = sum(
            np.tensordot(cotangent[output], model.exact(output, path), len(shape))
            for output, shape in model.shapes.items()
        )
        assert found[path].shape == value.shape
        np.testing.assert_allclose(found[path], value, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("algorithm", "order"), [("forward", 1), ("central", 2)])
def test_the_error_falls_with_the_step_as_it_should(folder, algorithm, order):
    class Inputs(BaseModel):
        x: Differentiable[Array[(None,), Float64]]

    class Outputs(BaseModel):
        y: Differentiable[Array[(None,), Float64]]

    def apply(inputs):
        return Outputs(y=np.exp(inputs.x))

    inputs = Inputs(x=[0.1, 0.7, -0.3])
    errors = []
    for eps in (1e-2, 1e-3):
        made = finite_difference_jacobian(
            apply, inputs, ["x"], ["y"], algorithm=algorithm, eps=eps, output_path=folder
        )
        errors.append(np.abs(made["y"]["x"].load() - np.diag(np.exp(inputs.x))).max())
    assert math.log10(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


# ------------------------------------------------------------------- one component


class Inputs(BaseModel):
    x: Differentiable[Array[(None,), Float64]]
    n: Differentiable[Array[..., None]] = 3


class Outputs(BaseModel):
    y: Differentiable[Array[(None,), Float64]]


INPUTS = Inputs(x=[1.0, 2.0, 3.0])


def streaming(inputs):
    """A solver that streams its steps."""
    writer = BinrefWriter("steps")
    for _ in range(3):
        last = writer.write(inputs.x**2)
    return Outputs(y=last)


def streaming_vjp(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    return {"x": BinrefWriter("adjoint").write(2 * inputs.x * cotangent_vector["y"])}


def streaming_jvp(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return {"y": BinrefWriter("tangent").write(2 * inputs.x * tangent_vector["x"])}


def running(folder):
    return entering(Call(folder, folder, "r", time.time_ns()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: jacobian_from_vjp(streaming_vjp, streaming, INPUTS, {"x"}, {"y"}),
        lambda: jacobian_from_jvp(streaming_jvp, INPUTS, {"x"}, {"y"}),
        lambda: finite_difference_jacobian(streaming, INPUTS, {"x"}, {"y"}),
    ],
)
def test_what_the_solver_streams_on_the_way_is_thrown_away(tmp_path, make):
    with running(tmp_path):
        block = make()["y"]["x"]
    np.testing.assert_allclose(block.load(), np.diag([2.0, 4.0, 6.0]), rtol=1e-8)
    assert [path.name for path in tmp_path.iterdir()] == [block.path]
    assert (tmp_path / block.path).stat().st_size == 72


def test_evaluations_one_after_another_share_an_empty_folder(tmp_path):
    folders = []

    def solver(inputs):
        assert not any(output_path().iterdir())
        folders.append(output_path())
        return streaming(inputs)

    with running(tmp_path):
        found = finite_difference_jacobian(solver, INPUTS, {"x"}, {"y"})
    np.testing.assert_allclose(found["y"]["x"].load(), np.diag([2, 4, 6]), rtol=1e-8)
    base, *others = folders
    assert len(others) == 6
    assert len({base, *others}) == 2


def test_a_solver_may_be_evaluated_in_many_threads(tmp_path):
    with ThreadPoolExecutor(3) as pool, running(tmp_path):
        found = finite_difference_vjp(
            streaming, INPUTS, {"x"}, {"y"}, {"y": np.ones(3)}, batch_size=3, mapper=pool.map
        )
    np.testing.assert_allclose(found["x"], [2, 4, 6], rtol=1e-8)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_buffer_behind(tmp_path):
    calls = []

    def failing(**_):
        calls.append(1)
        if len(calls) == 2:
            raise ArithmeticError("no")
        return {"x": np.ones(3)}

    with pytest.raises(ArithmeticError):
        jacobian_from_vjp(failing, streaming, INPUTS, {"x"}, {"y"}, output_path=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        ({"x": np.ones(2)}, r"output 'y' and input 'x' has shape \(2,\), expected \(3,\)"),
        ({"z": np.ones(3)}, "vector_jacobian_product lacks 'x'"),
        ({"x": np.ones(3, "complex128")}, None),
        (None, "lacks 'x'"),
    ],
)
def test_a_product_that_does_not_fit_is_named(tmp_path, product, reason):
    def make():
        return jacobian_from_vjp(
            lambda **_: product, streaming, INPUTS, {"x"}, {"y"}, output_path=tmp_path
        )

    if reason is None:
        assert make()["y"]["x"].dtype == "complex128"
    else:
        with pytest.raises(ComponentError, match=reason):
            make()


def test_products_that_become_wider_are_refused_and_not_cut(tmp_path):
    def wider(product):
        numbers = itertools.count()
        return lambda **asked: {
            key: np.asarray(made).astype("f4" if next(numbers) == 0 else "f8")
            for key, made in product(**asked).items()
        }

    for make in (
        lambda: jacobian_from_vjp(
            wider(streaming_vjp), streaming, INPUTS, {"x"}, {"y"}, output_path=tmp_path
        ),
        lambda: jacobian_from_jvp(wider(streaming_jvp), INPUTS, {"x"}, {"y"}, output_path=tmp_path),
    ):
        with pytest.raises(ComponentError, match="dtype float64 after float32 before"):
            make()
        assert not any(tmp_path.iterdir())


def test_without_a_place_to_write_there_is_an_error():
    with pytest.raises(NoOutputPathError, match="output_path="):
        jacobian_from_vjp(streaming_vjp, streaming, INPUTS, {"x"}, {"y"})


@pytest.mark.parametrize("place", ["file", "file/inside", "s3://bucket/blocks"])
def test_a_place_that_is_no_folder_is_refused(tmp_path, place):
    (tmp_path / "file").touch()
    folder = place if "://" in place else tmp_path / place
    with pytest.raises(FormatError, match=r"there is a file of this name|is a URL"):
        jacobian_from_vjp(streaming_vjp, streaming, INPUTS, {"x"}, {"y"}, output_path=folder)


@pytest.mark.parametrize(
    "make",
    [
        lambda place: jacobian_from_vjp(
            streaming_vjp, streaming, INPUTS, {"x"}, {"y"}, output_path=place
        ),
        lambda place: jacobian_from_jvp(streaming_jvp, INPUTS, {"x"}, {"y"}, output_path=place),
        lambda place: finite_difference_jacobian(
            streaming, INPUTS, {"x"}, {"y"}, output_path=place
        ),
    ],
)
def test_a_place_to_write_is_a_folder_as_everywhere(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match="'s3://bucket' is a URL"):
        make("s3://bucket")
    with pytest.raises(FormatError, match="the path is empty"):
        make("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = make("~/out")["y"]["x"]
    assert str(made.directory) == str(tmp_path / "home" / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_whole_numbers_cannot_be_moved_a_little(tmp_path):
    with pytest.raises(ComponentError, match="'n' has dtype int64"):
        finite_difference_jvp(lambda _: None, INPUTS, {"n"}, {"y"}, {"n": np.array(1.0)})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"algorithm": "magic"}, "'central' or 'forward'"),
        ({"eps": {"y": 1e-3}}, "missing: 'x', not asked for: 'y'"),
        ({"eps": 0.0}, "must be positive"),
        ({"eps": 1e-30}, "is lost beside"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path, more, reason):
    with pytest.raises(ValueError, match=reason):
        finite_difference_jacobian(streaming, INPUTS, {"x"}, {"y"}, output_path=tmp_path, **more)


def test_the_peers_names_are_there():
    for name in ("jacobian_from_jvp", "jacobian_from_vjp", "jvp_from_jacobian",
                 "vjp_from_jacobian", "finite_difference_jacobian", "finite_difference_jvp",
                 "finite_difference_vjp"):  # fmt: skip
        assert name in experimental.__all__
        assert callable(getattr(experimental, name))


# ------------------------------------------------------------------- pieces


@pytest.mark.parametrize("short", [0, 10**9])
@pytest.mark.parametrize("memory", [1, 3000, 9000, 10**6])
def test_columns_find_their_places_whatever_is_written_at_a_time(
    tmp_path, monkeypatch, short, memory
):
    """Pieces of rows at their places, or whole rows filled in."""
    monkeypatch.setattr(blocks, "_SHORT_ROW", short)
    monkeypatch.setattr(blocks, "_TURNED", 700)
    matrix = np.random.default_rng(5).normal(size=(61, 17))

    def product(**asked):
        return {"y": matrix @ asked["tangent_vector"]["x"]}

    inputs = Inputs(x=np.ones(17))
    made = jacobian_from_jvp(product, inputs, {"x"}, {"y"}, memory=memory, output_path=tmp_path)
    np.testing.assert_array_equal(made["y"]["x"].load(), matrix)


def test_a_block_whose_file_cannot_be_closed_is_removed(tmp_path):
    """As where a network file system finds only then that the disk is full."""
    block = blocks.Block((1,), (2,), np.dtype("f8"), what="it", output_path=tmp_path)
    with block:
        block.append(np.ones(2))
        os.close(block._fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            block.finish()
    assert list(tmp_path.iterdir()) == []
