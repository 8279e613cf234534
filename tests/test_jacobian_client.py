"""Jacobians at the caller's: lazy blocks, Datasets, operators; and products with what is on disk."""

import os
import pickle
import subprocess
import sys
import textwrap
import time
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import dask.array as da
import fsspec
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import linalg

from binref_sci import BinrefArray, Tesseract, matrix, open_dataset
from binref_sci.client.jacobian import Blocks, Jacobian, JacobianTree
from binref_sci.errors import (
    CorruptBufferError,
    FormatError,
    InvalidReferenceError,
    PayloadError,
    TruncatedBufferError,
)
from binref_sci.labels import Labels
from binref_sci.matrix import Matrix
from binref_sci.operators import MatrixOperator
from binref_sci.storage import kept_whole, map_range, open_buffer
from binref_sci.storage.remote import RemotePath
from tests.kit import ended

COMPONENT = """
    from typing import Annotated
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        field: Annotated[Differentiable[Array[(None, None), Float64]],
                         Labels(dims=("y", "x"), coords={"x": ("x", [0.0, 0.5, 1.0])})]
        free: Differentiable[Array[..., Float64]] = 1.0

    class OutputSchema(BaseModel):
        u: Annotated[Differentiable[Array[(None, None), Float64]], Labels(dims=("y", "x"))]
        sensors: Differentiable[Array[(None,), Float64]]
        loose: Differentiable[Array[..., Float64]]

    def weights(inputs):
        n = inputs.field.size
        return np.random.default_rng(1).normal(size=(n, n))

    def apply(inputs):
        u = (weights(inputs) @ inputs.field.ravel()).reshape(inputs.field.shape) * inputs.free.sum()
        return OutputSchema(u=u, sensors=u[0], loose=u)

    def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
        made = {path: 0.0 for path in vjp_inputs}
        for output in vjp_outputs:
            bar = np.zeros(inputs.field.shape)
            if output == "sensors":
                bar[0] = cotangent_vector[output]
            else:
                bar = cotangent_vector[output]
            if "field" in made:
                pulled = weights(inputs).T @ bar.ravel() * inputs.free.sum()
                made["field"] = made["field"] + pulled.reshape(inputs.field.shape)
            if "free" in made:
                w = weights(inputs) @ inputs.field.ravel()
                made["free"] = made["free"] + np.full(np.shape(inputs.free), bar.ravel() @ w)
        return made

    def jacobian(inputs, jac_inputs, jac_outputs):
        return jacobian_from_vjp(vector_jacobian_product, apply, inputs, jac_inputs, jac_outputs)
"""

FIELD = np.arange(6.0).reshape(2, 3)
WEIGHTS = np.random.default_rng(1).normal(size=(6, 6))


@pytest.fixture(autouse=True)
def _imports_are_restored():
    modules, path = set(sys.modules), sys.path[:]
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("tesseract_api"):
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def sim(tmp_path):
    folder = tmp_path / "component"
    folder.mkdir()
    (folder / "tesseract_api.py").write_text(textwrap.dedent(COMPONENT))
    return Tesseract.from_tesseract_api(folder, output_path=tmp_path / "out")


@pytest.fixture
def lazy(sim):
    return sim.jacobian({"field": FIELD}, ["field", "free"], ["u", "sensors"], lazy=True)


# ------------------------------------------------------------------- what comes back


def test_lazy_blocks_stay_on_disk(lazy):
    assert isinstance(lazy, xr.DataTree)
    block = lazy["u"]["field"]
    assert isinstance(block, xr.DataArray)
    assert isinstance(block.data, da.Array)
    assert block.shape == (2, 3, 2, 3)
    np.testing.assert_allclose(block[1, 2], WEIGHTS[5].reshape(2, 3))
    stored = lazy.block("u", "field")
    assert isinstance(stored, BinrefArray)
    np.testing.assert_allclose(stored[1, 2], WEIGHTS[5].reshape(2, 3))


def test_a_block_has_the_dimensions_of_output_and_input(lazy):
    assert set(lazy.children) == {"u", "sensors"}
    assert set(lazy["u"].data_vars) == {"field", "free"}
    assert lazy["u/field"].dims == ("y", "x", "y_in", "x_in")
    assert lazy["sensors/field"].dims == ("sensors_dim_0", "y", "x")
    assert lazy["u/free"].dims == ("y", "x")
    np.testing.assert_array_equal(lazy["u/field"].x_in, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(lazy["u/field"].values.reshape(6, 6), WEIGHTS)
    assert lazy["u/field"].attrs["long_name"] == "d u / d field"


def test_blocks_in_memory_are_a_dict_that_becomes_the_same_tree(sim, lazy):
    made = sim.jacobian({"field": FIELD}, ["field", "free"], ["u", "sensors"])
    assert isinstance(made, Jacobian)
    assert isinstance(made["u"]["field"], np.ndarray)
    xr.testing.assert_identical(made.to_datatree().compute(), lazy.compute())


def test_what_is_computed_from_a_jacobian_is_none(lazy):
    for made in (lazy.isel(y=0), lazy.copy(), 2 * lazy):
        assert isinstance(made["u/field"].data, da.Array)
        with pytest.raises((FormatError, AttributeError), match=r"is none|linear_operator"):
            made.linear_operator("u", "field")
    np.testing.assert_allclose(lazy.load()["u/field"].values.reshape(6, 6), WEIGHTS)
    assert lazy.linear_operator("u", "field").shape == (6, 6)  # load() works in place


def test_names_in_a_tree_are_free_and_without_slashes(tmp_path):
    arrays = {"u": {"x": np.ones((3, 3)), "named.{a/b}": np.ones(3), "named.{a_b}": np.zeros(3)}}
    x = np.arange(3.0)
    labels = {"u.x": Labels(("x", "x_in"), {"x": (("x",), x, {})}).to_json()}
    tree = JacobianTree.of(Blocks(arrays, labels=labels))
    assert list(tree["u"].data_vars) == ["x", "named.{a_b}", "named.{a_b}_"]
    assert tree["u/x"].dims == ("x_dim", "x_in")
    np.testing.assert_array_equal(tree["u"].coords["x_dim"], x)
    np.testing.assert_array_equal(tree["u/named.{a_b}_"], np.zeros(3))
    np.testing.assert_array_equal(tree.block("u", "named.{a/b}"), np.ones(3))


NUMBERS = """
    from typing import Annotated
    from pydantic import BaseModel
    from binref_sci.runtime import *

    class InputSchema(BaseModel):
        x: Differentiable[Float64]

    class OutputSchema(BaseModel):
        y: Annotated[Differentiable[Float64], Labels(coords={"height": ((), 2.0)})]

    def apply(inputs):
        return OutputSchema(y=inputs.x**2)

    def jacobian(inputs, jac_inputs, jac_outputs):
        return finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs)
"""


def test_a_number_by_a_number_may_have_a_coordinate(tmp_path):
    (tmp_path / "numbers.py").write_text(textwrap.dedent(NUMBERS))
    numbers = Tesseract.from_tesseract_api(tmp_path / "numbers.py", output_path=tmp_path / "out")
    made = numbers.jacobian({"x": 3.0}, ["x"], ["y"], lazy=True)
    assert float(made["y/x"]) == pytest.approx(6)
    assert float(made["y/x"].height) == 2
    field = numbers.apply({"x": 3.0}, lazy=True).to_dataset()
    assert (float(field.y), float(field.y.height)) == (9, 2)


def test_the_run_directory_opens_by_itself_with_the_same_dimensions(lazy, tmp_path):
    ds = open_dataset(tmp_path / "out")
    assert ds["u.field"].dims == ("y", "x", "y_in", "x_in")
    np.testing.assert_allclose(ds["u.field"].values.reshape(6, 6), WEIGHTS)


def test_products_are_labelled_too(sim):
    made = sim.vector_jacobian_product({"field": FIELD}, ["field"], ["u"], {"u": FIELD})
    assert made.to_dataset()["field"].dims == ("y", "x")


def test_a_jacobian_survives_pickling(lazy):
    again = pickle.loads(pickle.dumps(lazy))
    x = np.arange(6.0)
    np.testing.assert_allclose(again.linear_operator("u", "field") @ x, WEIGHTS @ x)
    assert again["u/field"].dims == ("y", "x", "y_in", "x_in")


def test_an_unknown_block_is_named(lazy):
    with pytest.raises(KeyError, match="there are 'u, field', 'u, free', 'sensors, field'"):
        lazy.linear_operator("u", "nothing")


def test_what_is_no_list_of_paths_and_no_vector_by_path_is_told(sim):
    inputs = {"field": FIELD}
    with pytest.raises(PayloadError, match=r"write \['field'\]"):
        sim.jacobian(inputs, "field", ["u"])
    with pytest.raises(PayloadError, match="given as a list, got None"):
        sim.jacobian(inputs, ["field"], None)
    with pytest.raises(PayloadError, match=r"^tangent_vector has .* got ndarray$"):
        sim.jacobian_vector_product(inputs, ["field"], ["u"], FIELD)
    with pytest.raises(PayloadError, match=r"^cotangent_vector has .* got list$"):
        sim.vector_jacobian_product(inputs, ["field"], ["u"], [FIELD])


def test_where_nothing_tells_the_output_the_caller_does(sim):
    made = sim.jacobian({"field": FIELD}, ["free"], ["loose"], lazy=True)
    with pytest.raises(FormatError, match="output_ndim="):
        made.linear_operator("loose", "free")
    assert made.linear_operator("loose", "free", output_ndim=2).shape == (6, 1)
    made = sim.jacobian({"field": FIELD, "free": [1.0, 2.0]}, ["free"], ["loose"], lazy=True)
    assert made.linear_operator("loose", "free").shape == (6, 2)


# ------------------------------------------------------------------- operators


@pytest.mark.parametrize("kind", [True, False])
def test_the_operator_is_the_matrix(sim, kind):
    made = sim.jacobian({"field": FIELD}, ["field"], ["u", "sensors"], lazy=kind)
    operator = made.linear_operator("u", "field")
    assert isinstance(operator, linalg.LinearOperator)
    x, many = np.arange(6.0), np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(operator @ x, WEIGHTS @ x)
    np.testing.assert_allclose(operator.T @ x, WEIGHTS.T @ x)
    np.testing.assert_allclose(operator @ many, WEIGHTS @ many)
    np.testing.assert_allclose(operator.rmatmat(many), WEIGHTS.T @ many)
    assert made.linear_operator("sensors", "field").shape == (3, 6)


def test_solvers_of_scipy_work_on_it(lazy):
    operator = lazy.linear_operator("u", "field")
    right = WEIGHTS @ np.arange(6.0)
    np.testing.assert_allclose(
        linalg.lsqr(operator, right, atol=1e-12, btol=1e-12)[0], np.arange(6), atol=1e-6
    )
    normal = operator.H @ operator
    np.testing.assert_allclose(
        linalg.cg(normal, operator.H @ right, rtol=1e-12)[0], np.arange(6), atol=1e-6
    )
    found = linalg.svds(operator, k=2, return_singular_vectors=False)
    np.testing.assert_allclose(np.sort(found), np.linalg.svd(WEIGHTS)[1][1::-1])


def test_the_dask_form_has_singular_values(lazy):
    made = lazy.to_dask("u", "field", chunks=(2, 6))
    assert made.shape == (6, 6)
    values = da.linalg.svd_compressed(made, k=6, seed=1)[1].compute()
    np.testing.assert_allclose(values, np.linalg.svd(WEIGHTS)[1])


# ------------------------------------------------------------------- products from disk


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    shape=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    data=st.data(),
    dtype=st.sampled_from(["float64", "float32", "complex128", "int32", "float16"]),
    compression=st.sampled_from([None, "lz4"]),
    block=st.integers(1, 400),
    window=st.integers(1, 900),
    mmap=st.booleans(),
    vectors=st.sampled_from([(), (1,), (3,)]),
)
def test_products_equal_those_in_memory(
    tmp_path_factory, shape, data, dtype, compression, block, window, mmap, vectors
):
    split = data.draw(st.integers(0, len(shape)))
    random = np.random.default_rng(7)
    array = (random.normal(size=shape) * 3).astype(dtype)
    if array.dtype.kind == "c":
        array = array + 1j * random.normal(size=shape)
    stored = BinrefArray.write(
        array, compression=compression, output_path=tmp_path_factory.getbasetemp()
    )
    flat = array.reshape(int(np.prod(shape[:split])), int(np.prod(shape[split:])))
    made = Matrix(stored, split, mmap)
    assert made.shape == flat.shape
    right = random.normal(size=(flat.shape[1], *vectors))
    left = random.normal(size=(flat.shape[0], *vectors)) + 1j
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(matrix, "BLOCK_BYTES", block)
        patched.setattr(matrix, "MAPPED_BYTES", block)
        patched.setattr(matrix, "WINDOW_BYTES", window)
        results = made.times(right), made.transposed_times(left), made.adjoint_times(left)
    wanted = flat @ right, flat.T @ left, flat.conj().T @ left
    for found, expected in zip(results, wanted, strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_of_rows_that_do_not_fit_a_block_the_product_is_held_once(
    tmp_path, monkeypatch, compression
):
    """Each reader adds to columns of its own, so that it needs no sum of its own."""
    monkeypatch.setattr(matrix._Plain, "readers", 4)
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 2**16)
    values = np.random.default_rng(1).normal(size=(5, 200_001))
    block = BinrefArray.write(values, output_path=tmp_path, compression=compression)
    vector, vectors = values[:, 0], values[:, :3]
    tracemalloc.start()
    try:
        found = Matrix(block, 1).transposed_times(vector)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * found.nbytes
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, vector @ values, rtol=1e-12, atol=1e-12)
    found = Matrix(block, 1).transposed_times(vectors)
    np.testing.assert_allclose(found, values.T @ vectors, rtol=1e-12, atol=1e-12)
    row = Matrix(block, 1).times(values[0])
    np.testing.assert_allclose(row, values @ values[0], rtol=1e-12)


def test_a_buffer_that_is_cut_short_is_told(tmp_path):
    array = np.random.default_rng(1).normal(size=(50, 40))
    plain = BinrefArray.write(array, output_path=tmp_path)
    packed = BinrefArray.write(array, output_path=tmp_path, compression="lz4")
    for stored in (plain, packed):
        path = tmp_path / stored.path
        path.write_bytes(path.read_bytes()[:-100])
        for mmap in (False, True):
            with pytest.raises(TruncatedBufferError):
                MatrixOperator(stored, 1, mmap=mmap) @ np.ones(40)
    path.write_bytes(b"no lz4 frame" * 2000)
    with pytest.raises(CorruptBufferError):
        MatrixOperator(packed, 1) @ np.ones(40)


def test_a_matrix_in_a_store_is_read_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4096)
    wanted = np.random.default_rng(1).normal(size=(70, 600))
    local = [
        BinrefArray.write(wanted, output_path=tmp_path, compression=each) for each in (None, "lz4")
    ]
    store = fsspec.filesystem("memory")
    for stored in local:
        store.pipe_file(f"/matrices/{stored.path}", (tmp_path / stored.path).read_bytes())
        there = BinrefArray.from_ref(stored.ref, RemotePath(store, "/matrices"))
        operator = MatrixOperator(there, 1)
        np.testing.assert_allclose(operator @ np.ones(600), wanted.sum(1))
        np.testing.assert_allclose(operator.rmatvec(np.ones(70)), wanted.sum(0))
    raw = BinrefArray.from_ref(local[0].ref, RemotePath(store, "/matrices"))
    with pytest.raises(InvalidReferenceError, match="no file of this machine"):
        MatrixOperator(raw, 1, mmap=True) @ np.ones(600)


def test_a_mapped_matrix_goes_through_the_client_and_pickle(tmp_path):
    stored = BinrefArray.write(WEIGHTS, output_path=tmp_path)
    jacobian = Jacobian(Blocks({"u": {"x": stored}}, {("u", "x"): (1, 1)}, folder=tmp_path))
    operator = pickle.loads(pickle.dumps(jacobian.linear_operator("u", "x", mmap=True)))
    np.testing.assert_allclose(operator @ np.arange(6.0), WEIGHTS @ np.arange(6.0))


def test_a_buffer_that_is_cut_while_it_is_multiplied_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4096)
    stored = BinrefArray.write(np.ones((50, 512)), output_path=tmp_path)

    def cut(*_):
        os.truncate(tmp_path / stored.path, 4096)

    with pytest.raises(TruncatedBufferError, match="holds 4096 bytes"):
        Matrix(stored, 1)._summed(50, np.ones(512), cut, apart=True)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A matrix of 50 rows, of which a row is multiplied at a time."""
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(matrix, "MAPPED_BYTES", 4096)
    return BinrefArray.write(np.arange(50.0 * 512).reshape(50, 512), output_path=tmp_path)


def cut_by_another(path):
    """Begin to cut a file in another process; returns once it waits or is done."""
    code = "import os, sys; print(flush=True); os.truncate(sys.argv[1], 4096)"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="leases are Linux's")
def test_who_would_cut_a_matrix_waits_while_it_is_mapped(stored):
    path, others = Path(stored.directory, stored.path), ExitStack()
    begun = []

    def cut(total, row, column, block):
        total[row : row + 1] += block.sum()
        if not begun:
            begun.append(others.enter_context(ended(cut_by_another(path))))
            with open_buffer(stored.directory, stored.path) as buffer:
                while begun[0].poll() is None and kept_again(buffer):
                    time.sleep(0.01)
            assert block.sum() == np.arange(512.0).sum()
            assert path.stat().st_size == stored.nbytes

    def kept_again(buffer):
        with kept_whole(buffer) as is_kept:  # none is given while another is asked back
            return is_kept()

    def multiply_until_it_is_cut():  # once it may be, that may take a moment
        while True:
            Matrix(stored, 1, None)._summed(50, np.ones(512), cut, apart=True)

    with others:
        with pytest.raises(TruncatedBufferError, match="holds 4096 bytes"):
            multiply_until_it_is_cut()
        assert [other.wait(60) for other in begun] == [0]


def test_a_matrix_is_mapped_only_if_nobody_writes_to_it(stored, monkeypatch):
    mapped = []
    monkeypatch.setattr(
        matrix, "map_range", lambda *given: mapped.append(given) or map_range(*given)
    )
    right = np.ones(512)
    expected = stored.load() @ right
    with Path(stored.directory, stored.path).open("r+b"):
        np.testing.assert_array_equal(MatrixOperator(stored, 1) @ right, expected)
    assert not mapped
    np.testing.assert_array_equal(MatrixOperator(stored, 1) @ right, expected)
    assert bool(mapped) == (sys.platform == "linux")


@pytest.mark.parametrize("mmap", [False, True, None])
def test_a_product_is_the_same_each_time(tmp_path, monkeypatch, mmap):
    monkeypatch.setattr(matrix, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(matrix, "MAPPED_BYTES", 4096)
    random = np.random.default_rng(1)
    stored = BinrefArray.write(random.normal(size=(500, 300)), output_path=tmp_path)
    left = random.normal(size=500)
    first, *others = [Matrix(stored, 1, mmap).adjoint_times(left) for _ in range(10)]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_axes_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="no 3 axes"):
        MatrixOperator(np.ones((2, 2)), 3)
