"""Many processes: a cluster of two workers saves, opens, reduces and saves again."""

import importlib.util
import os
import pickle
import sys
import textwrap
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import pytest
import xarray as xr
from scipy.sparse.linalg import svds

import binref_sci as brs
from binref_sci import Tesseract
from binref_sci.journal import read_journal
from tests.kit import until


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def field(n=8):
    data = da.arange(n * 64, chunks=64).reshape(n, 8, 8).astype("f4")
    return xr.Dataset(
        {"u": (("time", "y", "x"), data), "mask": (("y", "x"), da.ones((8, 8), chunks=4) > 0)},
        coords={"time": np.arange(float(n)), "name": ("x", [f"n{k}" for k in range(8)])},
        attrs={"title": "field"},
    )


def test_workers_save_and_read_what_other_workers_wrote(client, tmp_path):
    ds = field()
    brs.to_binref(ds, tmp_path / "a")
    back = brs.open_dataset(tmp_path / "a", chunks={"time": 1})
    xr.testing.assert_identical(back.compute(), ds.compute(scheduler="sync"))
    assert float(back.u.mean().compute()) == np.arange(512).mean()
    # Reduced, changed and saved again, without passing through this process.
    brs.to_binref(back * 2, tmp_path / "b")
    with xr.set_options(keep_attrs=True):
        xr.testing.assert_equal(brs.open_dataset(tmp_path / "b").compute(), (ds * 2).compute())


def test_the_chunks_are_written_by_the_workers(client, tmp_path):
    def note(block):
        np.save(tmp_path / f"{os.getpid()}.npy", block)
        return block

    data = da.ones((8, 1000), chunks=(1, 1000)).map_blocks(note, meta=np.empty((0, 0)))
    brs.to_binref(data, tmp_path / "a")
    pids = {int(path.stem) for path in tmp_path.glob("*.npy")}
    assert pids
    assert os.getpid() not in pids


def test_a_delayed_is_published_by_a_worker(client, tmp_path):
    delayed = brs.to_binref(field(), tmp_path / "a", compute=False)
    assert not (tmp_path / "a").exists()
    client.compute(delayed).result()
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").compute(), field().compute())


def write_part(path, part, start):
    part = part.drop_vars(["name"])
    brs.to_binref(part, path, region={"time": slice(start, start + len(part.time))})
    return os.getpid()


def test_workers_write_regions_at_the_same_time(client, tmp_path):
    whole = field().compute()
    brs.to_binref(whole[["u"]].drop_vars("name") * 0, tmp_path / "a")
    parts = [whole[["u"]].isel(time=slice(k, k + 1)) for k in range(8)]
    futures = [
        client.submit(write_part, tmp_path / "a", part, k, pure=False)
        for k, part in enumerate(parts)
    ]
    client.gather(futures)
    xr.testing.assert_equal(
        brs.open_dataset(tmp_path / "a").u.compute().drop_vars("name", errors="ignore"),
        whole.u.drop_vars("name"),
    )


def test_a_rewrite_is_seen_by_a_cluster_that_holds_the_old_data(client, tmp_path):
    ds = field()
    brs.to_binref(ds, tmp_path / "a")
    old = brs.open_dataset(tmp_path / "a").u.persist()
    distributed.wait(old)
    brs.to_binref(ds[["u"]] + 32, tmp_path / "a", mode="w")
    new = brs.open_dataset(tmp_path / "a").u.persist()
    np.testing.assert_array_equal(new.values, ds.u.values + 32)
    np.testing.assert_array_equal(old.values, ds.u.values)


def load_example():
    path = Path(__file__).parents[1] / "examples" / "distributed" / "heat.py"
    spec = importlib.util.spec_from_file_location("distributed_heat", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cooled(field, steps, number):
    """Snapshots of the plate, cell by cell."""
    made = [field]
    size = len(field)
    for _ in range(steps):
        before, field = field, field.copy()
        for y in range(size):
            for x in range(size):
                around = sum(
                    before[min(max(y + dy, 0), size - 1), min(max(x + dx, 0), size - 1)]
                    for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))
                )
                field[y, x] += number * (around - 4 * before[y, x])
        made.append(field)
    return np.array(made)


def test_a_solver_on_workers_streams_its_blocks_into_one_trajectory(client, tmp_path):
    example = load_example()
    client.register_plugin(distributed.UploadFile(str(Path(example.__file__))))
    sys.modules["heat"] = example  # under this name the workers have it
    for part in (example.Band, example.run):
        part.__module__ = "heat"
    try:
        example.run(client, tmp_path / "run", size=17, steps=4)
    finally:
        del sys.modules["heat"]
    journals = [read_journal(path) for path in (tmp_path / "run").glob("*.binref.jsonl")]
    assert sorted(j.header.block.start for j in journals) == [(0, 0), (8, 0)]
    assert {j.state for j in journals} == {"complete"}
    field = brs.open_dataset(tmp_path / "run").temperature
    wanted = cooled(example.initial(17), 4, example.NUMBER)
    np.testing.assert_allclose(field.compute(scheduler="sync"), wanted)
    np.testing.assert_array_equal(field.time, 0.5 * np.arange(5))


SOLVER = """
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *

    FALLING = 0.7 ** np.arange(25)  # of the columns, which keeps singular values apart

    class InputSchema(BaseModel):
        x: Differentiable[Array[(None, None), Float64]]

    class OutputSchema(BaseModel):
        y: Differentiable[Array[(None, None), Float64]]

    def apply(inputs):
        return OutputSchema(y=np.cumsum(inputs.x * FALLING, 0) + inputs.x**2)

    def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
        along = tangent_vector["x"]
        return {"y": np.cumsum(along * FALLING, 0) + 2 * inputs.x * along}

    def jacobian(inputs, jac_inputs, jac_outputs):
        return jacobian_from_jvp(jacobian_vector_product, inputs, jac_inputs, jac_outputs)
"""


@pytest.mark.long
def test_workers_find_the_singular_values_of_a_jacobian(client, tmp_path):
    folder = tmp_path / "solver"
    folder.mkdir()
    (folder / "tesseract_api.py").write_text(textwrap.dedent(SOLVER))
    sim = Tesseract.from_tesseract_api(folder, output_path=tmp_path / "output")
    x = np.random.default_rng(0).normal(size=(40, 25))
    jacobian = sim.jacobian({"x": x}, ["x"], ["y"], lazy=True)
    wanted = np.linalg.svd(jacobian["y/x"].values.reshape(1000, 1000), compute_uv=False)

    matrix = jacobian.to_dask("y", "x", chunks=(125, 1000))  # eight chunks for two workers
    assert len(pickle.dumps(matrix)) < 50_000  # names and byte ranges: no chunk of 1 MB travels
    met = tmp_path / "met"
    met.mkdir()

    def read(block):  # where one worker has begun to read, it waits for the other
        (met / str(os.getpid())).touch()
        until(lambda: len([*met.iterdir()]) == 2)
        return np.full((1, 1), os.getpid() + 0 * block.size)

    readers = matrix.map_blocks(read, meta=np.empty((0, 0), int), chunks=((1,) * 8, 1))
    pids = set(client.compute(readers, sync=True).ravel().tolist())
    assert len(pids) == 2
    assert os.getpid() not in pids
    u, s, v = da.linalg.svd_compressed(matrix, k=10, n_power_iter=6, seed=0)
    u, s, v = client.compute([u, s, v], sync=True)
    np.testing.assert_allclose(s[:6], wanted[:6], rtol=1e-4)  # the projection blurs the last
    np.testing.assert_allclose(matrix @ v.T, u * s, atol=0.05 * s[0])
    # and each worker can multiply by the whole matrix: the operator travels as a reference
    operator = jacobian.linear_operator("y", "x")
    found = client.submit(svds, operator, k=3, return_singular_vectors=False).result()
    np.testing.assert_allclose(np.sort(found)[::-1], wanted[:3])
