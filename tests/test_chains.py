"""Three hundred indices one after another: the end is what NumPy gives, with and without dask."""

import os

import numpy as np
import pytest
import xarray as xr

from binref_sci import BinrefWriter, open_dataset, open_references

STEPS = 300
SEEDS = 3 if os.environ.get("BINREF_SCI_FULL", "") in ("", "0") else 30
FIELD = np.random.default_rng(3).random((30, 12, 16))


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """One field over several buffers: plain, compressed and mapped; with and without dask."""
    made = []
    for options, mmap in (({}, False), ({"compression": "lz4"}, False), ({}, True)):
        folder = tmp_path_factory.mktemp("run")
        with BinrefWriter(
            "u",
            dims=("time", "y", "x"),
            coords={"x": np.arange(16.0)},
            output_path=folder,
            max_file_size=8 * FIELD[0].nbytes,
            **options,
        ) as writer:
            for step, snapshot in enumerate(FIELD):
                writer.write(snapshot, time=0.5 * step)
        made += [
            open_dataset(folder, chunks=chunks, mmap=mmap, cache=False).u for chunks in ({}, None)
        ]
    return folder, made


def picks(rng, length):
    """Positions, in any order, some of them twice and some from the end."""
    return rng.integers(-length, length, size=length)


def step(rng, sizes):
    """An index for `isel`, or dimensions in a new order; it rarely takes anything away."""
    dims = list(sizes)
    dim = dims[rng.integers(len(dims))]
    length = sizes[dim]
    kind = rng.choice(["back", "cut", "step", "picks", "mask", "points", "turned", "number"])
    match kind:
        case "back":
            return {dim: slice(None, None, -1)}
        case "cut" if length > 6:
            return {dim: slice(1, None) if rng.integers(2) else slice(None, -1)}
        case "step" if length > 12 and not rng.integers(6):
            return {dim: slice(None, None, -2)}
        case "picks" if length:
            return {dim: picks(rng, length)}
        case "mask" if length > 6:
            kept = rng.random(length) < 0.95
            return {dim: kept}
        case "points" if len(dims) > 1 and not rng.integers(12):
            other = next(one for one in dims if one != dim)
            count = max(length, sizes[other])
            return {
                dim: xr.DataArray(rng.integers(0, length, count), dims=dim),
                other: xr.DataArray(rng.integers(0, sizes[other], count), dims=dim),
            }
        case "turned":
            return [dims[n] for n in rng.permutation(len(dims))]
        case "number" if len(dims) > 2 and not rng.integers(20):
            return {dim: int(rng.integers(-length, length))}
    return {dim: slice(None)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_three_hundred_steps_end_where_numpy_does(opened, seed):
    rng = np.random.default_rng(seed)
    wanted = xr.DataArray(
        FIELD,
        dims=("time", "y", "x"),
        coords={"time": 0.5 * np.arange(30), "x": np.arange(16.0)},
    )
    _, found = opened
    for _ in range(STEPS):
        index = step(rng, dict(wanted.sizes))
        if isinstance(index, list):
            wanted = wanted.transpose(*index)
            found = [one.transpose(*index) for one in found]
        else:
            wanted = wanted.isel(index)
            found = [one.isel(index) for one in found]
    assert wanted.size
    for one in found:
        assert one.dims == wanted.dims
        np.testing.assert_array_equal(one.values, wanted.values)
        for name in wanted.coords:
            np.testing.assert_array_equal(one[name], wanted[name])
        dim = wanted.dims[0]
        # The order of the sums differs, and what is left of 0 by it is not 0.
        np.testing.assert_allclose(one.mean(dim), wanted.mean(dim), atol=1e-12)
        np.testing.assert_array_equal(one.max(), wanted.max())
        np.testing.assert_allclose(one.std(skipna=False), wanted.std(), atol=1e-12)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_three_hundred_steps_from_disk_end_where_numpy_does(opened, seed):
    """The lazy arrays themselves, without xarray: slices of slices, then any index."""
    rng = np.random.default_rng(seed)
    folder, _ = opened
    found = open_references(folder)["u"]
    wanted = FIELD
    for _ in range(STEPS):
        length = len(wanted)
        start = int(rng.integers(-length, length)) if not rng.integers(8) else None
        part = slice(start if length > 20 else None, None, int(rng.choice([-1, 1])))
        if len(wanted[part]) > 3:
            wanted, found = wanted[part], found[part]
    key = (picks(rng, len(wanted)), slice(None, None, -1), rng.random(16) < 0.5)
    for index in (key[:1], key[:2], np.s_[:, ::-2, 3], np.s_[..., key[2]]):
        np.testing.assert_array_equal(found[index], wanted[index])
