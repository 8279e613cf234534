"""`to_binref`: what is saved opens again as it was; a reader sees the old or the new."""

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import xarray.testing.strategies as xrst
from dask.diagnostics import Callback
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import binref_sci as brs
from binref_sci.engine import prepared
from binref_sci.engine.checks import check
from binref_sci.engine.inspect import inspect
from binref_sci.engine.manifest import read_manifest
from binref_sci.errors import (
    BufferNotFoundError,
    DatasetExistsError,
    FormatError,
    UnsupportedDTypeError,
    WriterError,
)


def everything():
    """A Dataset of all that can be saved."""
    t = np.datetime64("2000-01-01", "ns") + np.arange(4) * np.timedelta64(6, "h")
    return xr.Dataset(
        {
            "u": (("time", "y", "x"), np.arange(60, dtype="f4").reshape(4, 3, 5), {"units": "K"}),
            "flag": (("y", "x"), np.eye(3, 5, dtype=bool)),
            "z": (("x",), np.exp(1j * np.arange(5))),
            "z32": (("x",), np.exp(1j * np.arange(5)).astype("c8")),
            "scalar": ((), np.float32(0.7)),
            "empty": (("none", "x"), np.empty((0, 5), "i2")),
            "hollow": (("y", "none"), np.empty((3, 0), "f8")),
            "label": (("y",), np.array(["a", "bcd", "ümläut"])),
            "word": ((), np.array("text")),
            "bytes": (("y",), np.array([b"a", b"bc", b""])),
            "object": (("y",), np.array(["", "b", "cc"], dtype=object)),
            "lag": (("y",), np.array([1, 2, 3], "m8[s]")),
            "period": (("y",), np.array([0.5, 1.5, 2.5]), {"units": "seconds"}),
            "big": (("x",), np.arange(5, dtype=">i4")),
        },
        coords={
            "time": t,
            "x": ("x", np.linspace(0, 1, 5), {"units": "m"}),
            "area": (("y", "x"), np.ones((3, 5))),
            "two words": ("y", [1, 2, 3]),
            "run": 7,
        },
        attrs={"title": "all", "scale": np.float32(1.5), "levels": np.arange(3, dtype="i1")},
    )


def dtypes_of(ds):
    return {name: ds[name].dtype.newbyteorder("=") for name in ds.variables}


@pytest.mark.parametrize("chunks", [None, {}, {"time": 2, "x": 2}], ids=["numpy", "whole", "cut"])
@pytest.mark.parametrize("opened", [None, {}])
def test_what_is_saved_opens_as_it_was(tmp_path, chunks, opened):
    ds = everything()
    given_ = ds if chunks is None else ds.chunk(chunks)
    assert brs.to_binref(given_, tmp_path / "a") is None
    back = brs.open_dataset(tmp_path / "a", chunks=opened)
    xr.testing.assert_identical(back.load(), ds)
    assert dtypes_of(back) == dtypes_of(ds)
    assert set(back.coords) == set(ds.coords)
    assert back.attrs["scale"].dtype == "f4"
    assert back.attrs["levels"].dtype == "i1"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    # And once more, through the encoding that it was opened with.
    brs.to_binref(back, tmp_path / "b")
    again = brs.open_dataset(tmp_path / "b")
    xr.testing.assert_identical(again.load(), ds)
    assert again.u.encoding["dtype"] == back.u.encoding["dtype"]


def test_a_saved_run_can_be_shown_and_checked(tmp_path):
    brs.to_binref(everything(), tmp_path / "a")
    facts = inspect(tmp_path / "a")
    assert facts.state == "complete"
    assert len(facts.variables) == 19
    report = check(tmp_path / "a")
    assert report.problems == []
    assert report.notes == []


def test_the_bytes_are_plain(tmp_path):
    field = np.arange(24.0).reshape(2, 3, 4)
    brs.to_binref(da.from_array(field, chunks=(1, 2, 2)), tmp_path / "a")
    (buffer,) = (tmp_path / "a").glob("*.bin")
    assert buffer.read_bytes() == field.tobytes()
    assert brs.open_dataset(tmp_path / "a")["data"].dims == ("dim_0", "dim_1", "dim_2")


def test_a_dataarray_keeps_its_name_and_may_have_none(tmp_path):
    brs.to_binref(xr.DataArray(np.ones(3), dims="x", name="u"), tmp_path / "a")
    assert list(brs.open_dataset(tmp_path / "a").data_vars) == ["u"]
    brs.to_binref(xr.DataArray(np.ones(3), dims="x"), tmp_path / "b")
    assert len(brs.open_dataset(tmp_path / "b").data_vars) == 1


def test_a_tree_is_saved_in_one_folder(tmp_path):
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"a": 1}), "/a": everything(), "/a/b": xr.Dataset({"v": 1.0})}
    )
    brs.to_binref(tree, tmp_path / "t")
    manifest = read_manifest(tmp_path / "t")
    assert set(manifest.groups) == {"/", "/a", "/a/b"}
    for path in manifest.groups:
        back = brs.open_dataset(tmp_path / "t", group=path)
        xr.testing.assert_identical(back.load(), tree[path].to_dataset(inherit=False))
    xr.testing.assert_identical(brs.open_datatree(tmp_path / "t").load(), tree)
    below = xr.open_datatree(tmp_path / "t", engine=brs.engine.BinrefBackendEntrypoint, group="a")
    assert set(below.children) == {"b"}
    assert check(tmp_path / "t").problems == []
    with pytest.raises(FormatError, match=r"/a/b"):
        brs.open_dataset(tmp_path / "t", group="/c")


names = st.sampled_from(["u", "v", "w", "long name", "a/b", "../evil", "ü"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    variables=st.dictionaries(
        names,
        xrst.variables(
            array_strategy_fn=lambda *, shape, dtype: npst.arrays(shape=shape, dtype=dtype),
            dims=xrst.dimension_sizes(
                dim_names=st.sampled_from(["x", "y", "z"]), min_dims=0, max_dims=3, max_side=3
            ),
            dtype=st.one_of(
                npst.floating_dtypes(sizes=(16, 32, 64)),
                npst.integer_dtypes(),
                npst.unsigned_integer_dtypes(),
                npst.complex_number_dtypes(sizes=(64, 128)),
                npst.boolean_dtypes(),
                npst.unicode_string_dtypes(max_len=4),
            ),
            attrs=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-9, 9) | st.text()),
        ),
        max_size=3,
    ),
    chunked=st.booleans(),
)
def test_any_variable_makes_the_round_trip(tmp_path_factory, variables, chunked):
    sizes = {}
    for name, one in [*variables.items()]:
        if any(sizes.setdefault(dim, n) != n for dim, n in one.sizes.items()):
            del variables[name]
    ds = xr.Dataset(variables)
    place = tmp_path_factory.mktemp("saved") / "a"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN of a signalling kind
        brs.to_binref(ds.chunk() if chunked else ds, place)
        back = brs.open_dataset(place, chunks={} if chunked else None).load()
    xr.testing.assert_identical(back, ds)
    assert dtypes_of(back) == dtypes_of(ds)


def series(start, n, step="h"):
    time = np.datetime64("2000-01-01", "ns") + np.arange(start, start + n) * np.timedelta64(1, step)
    return xr.Dataset(
        {
            "u": (("time", "x"), np.arange(start * 4, (start + n) * 4, dtype="f8").reshape(n, 4)),
            "note": (("time",), np.array([f"n{k}" for k in range(start, start + n)])),
            "mask": (("x",), np.ones(4, bool)),
        },
        coords={"time": time, "x": np.arange(4.0)},
        attrs={"title": "series"},
    )


@pytest.mark.parametrize("chunks", [None, {"time": 2}])
def test_appending_continues_all_variables_at_once(tmp_path, chunks):
    place, whole = tmp_path / "a", series(0, 9)
    parts = [whole.isel(time=slice(a, b)) for a, b in ((0, 3), (3, 8), (8, 9))]
    for part in parts:
        given_ = part if chunks is None else part.chunk(chunks)
        brs.to_binref(given_, place, append_dim="time" if place.exists() else None)
    back = brs.open_dataset(place)
    xr.testing.assert_identical(back.load(), whole)
    assert check(place).problems == check(place).notes == []
    assert len(list(place.glob("*.jsonl"))) == 5


def test_appending_onto_nothing_makes_it_and_onto_an_empty_one_continues_it(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 5).isel(time=slice(0, 0)), place, append_dim="time")
    brs.to_binref(series(0, 5), place, append_dim="time")
    xr.testing.assert_equal(brs.open_dataset(place).load(), series(0, 5))


@pytest.mark.parametrize("opening", ["open_dataset", "open_datatree"])
@pytest.mark.parametrize("step", ["prepare_place", "saved_variables"])
def test_what_is_saved_over_while_it_is_opened_opens_as_it_is_then(
    tmp_path, monkeypatch, opening, step
):
    place, calls = tmp_path / "a", []
    brs.to_binref(series(0, 3), place)
    real = getattr(prepared, step)

    def overtaken(*given):
        made = real(*given) if step == "prepare_place" else None
        calls.append(step)
        if len(calls) == 1:
            brs.to_binref(series(0, 5), place, mode="w")
        return real(*given) if made is None else made

    monkeypatch.setattr(prepared, step, overtaken)
    found = getattr(brs, opening)(place)
    assert found.sizes["time"] == 5
    xr.testing.assert_equal(found["u"].load(), series(0, 5).u)


def test_what_does_not_fit_is_not_appended(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 3), place)
    before = sorted(path.name for path in place.iterdir())
    more = series(3, 2)
    with pytest.raises(WriterError, match=r"length 3 in variable 'note' and 5 in"):
        brs.to_binref(more.drop_vars("note"), place, append_dim="time")
    with pytest.raises(WriterError, match=r"'u' was saved with dtype float64.*complex.*astype"):
        brs.to_binref(more.assign(u=more.u.astype("c16")), place, append_dim="time")
    with pytest.raises(WriterError, match=r"only along the first can it grow"):
        brs.to_binref(more, place, append_dim="x")
    with pytest.raises(WriterError, match=r"shape \(3, 4\).*\(2, 3\)"):
        brs.to_binref(more.isel(x=slice(3)), place, append_dim="time")
    with pytest.raises(WriterError, match=r"no variable has it"):
        brs.to_binref(more, place, append_dim="step")
    with pytest.raises(WriterError, match=r"'u'.*dims \('time', 'x'\).*transpose"):
        brs.to_binref(more.transpose(), place, append_dim="time")
    with pytest.raises(UnsupportedDTypeError, match=r"7 characters.*room for 2"):
        brs.to_binref(more.assign(note=("time", ["a", "bbbbbbb"])), place, append_dim="time")
    assert sorted(path.name for path in place.iterdir()) == before
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 3))


@pytest.mark.parametrize(
    ("there", "given"),
    [
        ([0.0, np.nan, 2.0, 3.0], [0.0, np.nan, 2.0, 3.5]),
        (list("abcd"), list("abce")),
        ([0, 1, 2, 3], list("abcd")),
        (np.arange("2000", "2004", dtype="M8[Y]").astype("M8[ns]"), [0, 1, 2, 3]),
    ],
)
def test_what_is_appended_gives_no_other_labels_to_what_is_there(tmp_path, there, given):
    place = tmp_path / "a"
    first, more = series(0, 3).assign_coords(x=there), series(3, 2)
    brs.to_binref(first, place)
    with pytest.raises(WriterError, match=r"coordinate 'x' of '/' is .* at .*drop_vars"):
        brs.to_binref(more.assign_coords(x=given), place, append_dim="time")
    xr.testing.assert_identical(brs.open_dataset(place).load(), first)
    brs.to_binref(more.drop_vars("x"), place, append_dim="time")
    whole = series(0, 5).assign_coords(x=there)
    xr.testing.assert_equal(brs.open_dataset(place).load(), whole)


def test_a_coordinate_that_is_kept_in_less_than_it_is_given_in_is_the_same(tmp_path):
    place, x = tmp_path / "a", np.array([0.1, 0.2, 0.3, np.nan])
    brs.to_binref(series(0, 3).assign_coords(x=x), place, encoding={"x": {"dtype": "f4"}})
    brs.to_binref(series(3, 2).assign_coords(x=x), place, append_dim="time")
    assert brs.open_dataset(place).sizes["time"] == 5


def test_times_that_the_saved_units_cannot_tell_are_refused(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 3), place)  # whole hours
    late = series(3, 2).assign_coords(time=series(180, 2, "m").time)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((WriterError, ValueError), match=r"units|hours"):
            brs.to_binref(late, place, append_dim="time")
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 3))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_region_is_written_in_place(tmp_path, chunked):
    place, whole = tmp_path / "a", series(0, 9)
    for a, b in ((0, 4), (4, 9)):  # two segments
        brs.to_binref(whole.isel(time=slice(a, b)), place, append_dim="time")
    files = {path.name: path.stat().st_size for path in place.iterdir()}
    part = whole.isel(time=slice(2, 7), x=slice(1, 3)).drop_vars("mask")
    part = part.assign(u=-part.u)
    brs.to_binref(
        part.chunk(time=2, x=1) if chunked else part,
        place,
        region={"time": slice(2, 7), "x": slice(1, 3)},
    )
    wanted = whole.copy(deep=True)
    wanted.u[2:7, 1:3] *= -1
    back = brs.open_dataset(place)
    xr.testing.assert_identical(back.load(), wanted)
    assert {path.name: path.stat().st_size for path in place.iterdir()} == files
    # The same found by the coordinates.
    brs.to_binref(whole.isel(time=slice(2, 7), x=slice(1, 3)), place, region="auto")
    xr.testing.assert_identical(brs.open_dataset(place).load(), whole)
    brs.to_binref(
        whole[["u"]].isel(time=slice(3, 5)) * 0, place, region={"time": "auto", "x": slice(0, 4)}
    )
    assert not brs.open_dataset(place).u[3:5].any()
    assert brs.open_dataset(place).u[5:].all()


def test_a_region_that_does_not_fit_is_refused(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 4), place)
    new = series(0, 2)[["u"]]
    for region, message in [
        ({"time": slice(0, 3)}, "3 long, but the new data has 2"),
        ({"time": slice(3, 5)}, "must lie in 0 to 4"),
        ({"time": slice(0, 4, 2)}, "step 1"),
        ({"step": slice(0, 2)}, "region names"),
    ]:
        with pytest.raises(ValueError, match=message):
            brs.to_binref(new, place, region=region)
    with pytest.raises(WriterError, match=r"'mask'.*drop_vars"):
        brs.to_binref(series(0, 2), place, region={"time": slice(0, 2)})
    with pytest.raises(WriterError, match=r"no variable 'v' to write into"):
        brs.to_binref(new.rename(u="v"), place, region={"time": slice(0, 2)})
    with pytest.raises(ValueError, match=r"which what was saved has not"):
        brs.to_binref(series(3, 2)[["u"]], place, region="auto")
    with pytest.raises(ValueError, match=r"do not follow one another"):
        brs.to_binref(series(0, 4)[["u"]].isel(time=[0, 2]), place, region="auto")
    with pytest.raises(FileNotFoundError, match=r"no saved dataset"):
        brs.to_binref(new, tmp_path / "b", region="auto")
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 4))


def test_existing_variables_can_be_written_again_in_place(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 4), place)
    brs.to_binref(series(0, 4)[["u"]] * 2, place, mode="r+")
    xr.testing.assert_equal(brs.open_dataset(place).u.load(), series(0, 4).u * 2)


def test_modes(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 3), place)
    with pytest.raises(FileExistsError, match=r"mode='w'"):
        brs.to_binref(series(0, 3), place)
    brs.to_binref(xr.Dataset({"v": ("x", np.ones(4))}, attrs={"more": 1}), place, mode="a")
    back = brs.open_dataset(place)
    assert set(back.data_vars) == {"u", "note", "mask", "v"}
    assert back.attrs == {"title": "series", "more": 1}
    with pytest.raises(WriterError, match=r"dimension 'x'"):
        brs.to_binref(xr.Dataset({"v": ("x", np.ones(5))}), place, mode="a")
    # What is replaced may be the source of what replaces it.
    brs.to_binref((back[["u"]] + 1).drop_attrs(), place, mode="w")
    xr.testing.assert_equal(brs.open_dataset(place).load(), series(0, 3)[["u"]] + 1)
    with pytest.raises(BufferNotFoundError, match=r"variable 'u'.*open it again"):
        back.u.load()
    assert check(place).notes == []
    assert len(list(place.iterdir())) == 7
    with pytest.raises(ValueError, match=r"give one"):
        brs.to_binref(back, place, region="auto", append_dim="time")
    with pytest.raises(ValueError, match=r"mode must be"):
        brs.to_binref(back, place, mode="x")
    with pytest.raises(TypeError, match=r"got list"):
        brs.to_binref([1], tmp_path / "b")


def test_what_is_added_leaves_lengths_and_coordinates_as_they_are(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(
        xr.Dataset({"u": ("x", np.zeros(4))}, {"lat": ("y", np.ones(2)), "a b": 1}), place
    )
    with pytest.raises(WriterError, match=r"existing dimension 'x'.* has 4, and 3 .*mode='w'"):
        brs.to_binref(xr.Dataset({"u": ("x", np.zeros(3))}), place, mode="a")
    brs.to_binref(xr.Dataset(coords={"lon": ("z", np.ones(3))}), place, mode="a")
    assert set(brs.open_dataset(place).coords) == {"lat", "lon", "a b"}
    assert set(brs.open_dataset(place, decode_coords=False).coords) == set()


def test_what_belongs_to_cells_is_a_coordinate_where_that_is_asked_for(tmp_path):
    """As of any file that xarray opens; and it is kept when that is saved again."""
    ds = xr.Dataset(
        {"u": ("x", np.zeros(3))},
        {"x": np.arange(3.0), "x_bnds": (("x", "b"), np.ones((3, 2))), "area": ("x", np.ones(3))},
    )
    ds.x.encoding["bounds"] = "x_bnds"
    ds.u.encoding["cell_measures"] = "area: area"
    brs.to_binref(ds, tmp_path / "a")
    assert set(brs.open_dataset(tmp_path / "a").coords) == {"x"}
    brs.to_binref(brs.open_dataset(tmp_path / "a", decode_coords="all"), tmp_path / "b")
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "b", decode_coords="all").load(), ds)


def test_a_solvers_run_and_foreign_folders_are_never_replaced(tmp_path):
    with brs.BinrefWriter("u", output_path=tmp_path / "run") as writer:
        writer.write(np.ones(3))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for place in ("run", "notes", "file"):
        for mode in ("w-", "w", "a"):
            with pytest.raises(DatasetExistsError):
                brs.to_binref(series(0, 3), tmp_path / place, mode=mode)
    (tmp_path / "empty").mkdir()
    brs.to_binref(series(0, 3), tmp_path / "empty")


def test_without_compute_nothing_is_there_until_the_delayed_is_computed(tmp_path):
    place = tmp_path / "a"
    delayed = brs.to_binref(series(0, 6).chunk(time=2), place, compute=False)
    assert not place.exists()
    delayed.compute()
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 6))
    delayed = brs.to_binref(series(6, 2).chunk(time=1), place, append_dim="time", compute=False)
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 6))
    delayed.compute(scheduler="sync")
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 8))


def test_a_template_is_filled_by_regions(tmp_path):
    def never(block):
        raise AssertionError("computed")

    whole, place = series(0, 8), tmp_path / "a"
    planned = whole.chunk(time=2)
    planned["mask"] = whole.mask  # of NumPy: it is there at once
    planned["u"] = planned.u.copy(data=planned.u.data.map_blocks(never, meta=np.empty((0, 0))))
    brs.to_binref(planned, place, template=True)
    opened = brs.open_dataset(place)
    np.testing.assert_array_equal(opened.u, np.zeros(whole.u.shape))
    assert all(
        path.stat().st_blocks == 0 for path in place.glob("*.bin") if path.stat().st_size > 128
    )
    there = [*whole.coords, "mask"]
    with ThreadPoolExecutor(4) as pool:
        parts = [slice(start, start + 2) for start in range(0, 8, 2)]
        work = [
            pool.submit(
                brs.to_binref,
                whole.isel(time=part).drop_vars(there),
                place,
                region={"time": part},
            )
            for part in parts
        ]
        assert [one.result() for one in work] == [None] * 4
    xr.testing.assert_identical(brs.open_dataset(place).load(), whole)


def test_a_template_that_nobody_could_fill_is_refused(tmp_path):
    planned = series(0, 4).chunk(time=2)
    with pytest.raises(WriterError, match="'u' is compressed"):
        brs.to_binref(
            planned, tmp_path / "a", template=True, encoding={"u": {"compression": "lz4"}}
        )
    with pytest.raises(ValueError, match=r"template=True makes what region= and mode='r\+'"):
        brs.to_binref(planned, tmp_path / "a", template=True, region="auto")
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_is_saved_as_one_group_of_a_folder(tmp_path):
    one, two, place = series(0, 2), series(2, 3), tmp_path / "a"
    settings = {"u": {"dtype": "float32"}}
    brs.to_binref(one, place, group="flow/inner", encoding=settings)
    brs.to_binref(two.chunk(), place, group="/heat", mode="a")
    more = two.isel(time=[0])[["u"]] + 1
    brs.to_binref(more, place, group="heat", region="auto")
    np.testing.assert_array_equal(brs.open_dataset(place, group="heat").u[0], two.u[0] + 1)
    assert brs.open_dataset(place, group="flow/inner").u.encoding["dtype"] == np.float32
    tree = brs.open_datatree(place)
    assert {node.path for node in tree.subtree} == {"/", "/flow", "/flow/inner", "/heat"}
    with pytest.raises(TypeError, match=r"save DataTree.from_dict\({'x': tree}\)"):
        brs.to_binref(tree, tmp_path / "b", group="x")


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    def fail(block):
        raise RuntimeError("no")

    bad = series(0, 4).chunk(time=1)
    bad["u"] = bad.u.copy(data=bad.u.data.map_blocks(fail, meta=np.empty((0, 0))))
    with pytest.raises(RuntimeError, match=r"no"):
        brs.to_binref(bad, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    brs.to_binref(series(0, 4), tmp_path / "a")
    before = sorted((tmp_path / "a").iterdir())
    for keywords in ({"mode": "w"}, {"mode": "a"}, {"append_dim": "time"}):
        with pytest.raises(RuntimeError, match=r"no"):
            brs.to_binref(bad, tmp_path / "a", **keywords)
    assert sorted((tmp_path / "a").iterdir()) == before
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").load(), series(0, 4))


def test_of_two_who_append_at_once_the_second_is_told(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 4), place)
    first = brs.to_binref(series(4, 2).chunk(time=1), place, append_dim="time", compute=False)
    second = brs.to_binref(series(4, 2).chunk(time=1), place, append_dim="time", compute=False)
    first.compute()
    with pytest.raises(WriterError, match=r"in the meantime"):
        second.compute()
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 6))
    assert check(place).notes == []


def test_of_two_who_make_one_folder_the_second_is_told(tmp_path):
    first = brs.to_binref(series(0, 2).chunk(), tmp_path / "a", compute=False)
    second = brs.to_binref(series(0, 3).chunk(), tmp_path / "a", compute=False)
    second.compute()
    with pytest.raises(FileExistsError, match=r"in the meantime"):
        first.compute()
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").load(), series(0, 3))
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_shared_is_computed_once_and_work_happens_in_tasks(tmp_path):
    calls, tasks = [], []

    def count(block):
        calls.append(block.shape)
        return block

    base = da.ones((4, 3), chunks=(1, 3)).map_blocks(count, meta=np.empty((0, 0)))
    ds = xr.Dataset({"a": (("t", "x"), base), "b": (("t", "x"), base + 1)})
    with Callback(posttask=lambda key, *rest: tasks.append(key)):
        brs.to_binref(ds, tmp_path / "a")
    assert len(calls) == 4
    assert len(tasks) >= 8


def test_lz4_is_per_variable_and_each_chunk_is_on_its_own(tmp_path):
    whole = series(0, 9)
    place = tmp_path / "a"
    given_ = whole.isel(time=slice(0, 5)).chunk(time=2, x=3)
    brs.to_binref(given_, place, encoding={"u": {"compression": "lz4"}})
    brs.to_binref(whole.isel(time=slice(5, 9)), place, append_dim="time")
    back = brs.open_dataset(place)
    assert {one.name: one.compression for one in inspect(place).variables}["u"] == "lz4"
    xr.testing.assert_identical(back.load(), whole)
    assert check(place).problems == check(place).notes == []
    with pytest.raises(WriterError, match=r"compressed"):
        brs.to_binref(whole[["u"]], place, region="auto")


def test_what_is_appended_to_compressed_rows_may_be_chunked_anyhow(tmp_path):
    ds = xr.Dataset({"u": (("time", "x"), np.arange(24.0).reshape(6, 4))})
    parts = [ds[{"time": slice(a, a + 2)}] for a in (0, 2, 4)]
    brs.to_binref(parts[0].chunk(x=1), tmp_path / "a", encoding={"u": {"compression": "lz4"}})
    for part in parts[1:]:
        brs.to_binref(part.chunk(time=1, x=3), tmp_path / "a", append_dim="time")
    assert {one.compression for one in inspect(tmp_path / "a").variables} == {"lz4"}
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").load(), ds)


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_chunks_may_have_no_rows(tmp_path, compression):
    data = np.arange(12.0).reshape(4, 3)
    uneven = da.map_blocks(
        lambda block_info: data[slice(*block_info[None]["array-location"][0])],
        chunks=((0, 2, 0, 2, 0), (3,)),
        dtype="f8",
        meta=np.empty((0, 0)),
    )
    ds = xr.Dataset({"u": (("time", "x"), uneven)})
    brs.to_binref(ds, tmp_path / "a", encoding={"u": {"compression": compression}})
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").load(), ds.compute())


def test_encoding_is_that_of_cf(tmp_path):
    ds = xr.Dataset({"u": ("x", [0.0, 0.5, np.nan])})
    settings = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": np.int16(-1)}
    brs.to_binref(ds, tmp_path / "a", encoding={"u": settings})
    (buffer,) = (tmp_path / "a").glob("*.bin")
    assert buffer.read_bytes() == np.array([0, 5, -1], "<i2").tobytes()
    back = brs.open_dataset(tmp_path / "a")
    xr.testing.assert_allclose(back.load(), ds)
    assert back.u.encoding["_FillValue"].dtype == "i2"
    with pytest.raises(ValueError, match=r"'zlib'.*known are"):
        brs.to_binref(ds, tmp_path / "b", encoding={"u": {"zlib": True}})
    with pytest.raises(KeyError, match=r"no such variables"):
        brs.to_binref(ds, tmp_path / "b", encoding={"v": {}})
    with pytest.raises(KeyError, match=r"give settings by variable, as \{'u': \{'compression'"):
        brs.to_binref(ds, tmp_path / "b", encoding={"compression": "lz4"})


def test_what_is_saved_comes_first_and_the_path_second(tmp_path):
    with pytest.raises(TypeError, match=r"to_binref saves a DataArray, .* got str"):
        brs.to_binref("copy", xr.Dataset({"u": ("x", [0.0])}))


@pytest.mark.parametrize(
    ("dtype", "value", "typed"),
    [
        ("u1", 255, np.uint8(255)),
        ("i2", -1.0, np.int16(-1)),
        ("f4", 0.5, np.float32(0.5)),
        ("f4", np.nan, np.float32("nan")),
        ("u1", 300, 300),
        ("i1", 1.5, 1.5),
        ("i4", np.nan, np.nan),
        ("f4", 1e300, 1e300),
        ("f4", 0.1, 0.1),
    ],
)
@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
def test_what_stands_for_a_missing_value_has_the_dtype_of_the_data_if_that_holds_it(
    key, dtype, value, typed, tmp_path
):
    ds = xr.Dataset({"u": ("x", np.arange(3, dtype=dtype), {key: value})})
    brs.to_binref(ds, tmp_path / "run")
    back = brs.open_dataset(tmp_path / "run", decode_cf=False).u.attrs[key]
    assert type(back) is type(typed)
    np.testing.assert_equal(back, typed)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1.0], "longdouble"), "variable 'u': dtype"),
        (np.array([{}], dtype=object), "variable 'u'"),
        (np.array([None, {}], dtype=object), "variable 'u' holds Python objects, None for one"),
        (np.array(["a", "b\0"], dtype=object), "variable 'u'.*NUL"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_a_byte_is_written(tmp_path, values, message):
    with pytest.raises((TypeError, ValueError), match=message):
        brs.to_binref(xr.Dataset({"u": ("x", values)}), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chunked", [False, True])
def test_text_of_numpys_variable_width_is_saved_as_text(tmp_path, chunked):
    words = np.array(["a", "", "three", "ü"], np.dtypes.StringDType())
    ds = xr.Dataset({"s": ("x", words)})
    brs.to_binref(ds.chunk(x=2) if chunked else ds, tmp_path / "a")
    assert brs.open_dataset(tmp_path / "a").s.values.tolist() == words.tolist()
    missing = np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan))
    with pytest.raises(UnsupportedDTypeError, match="'s' holds Python objects, nan for one"):
        brs.to_binref(xr.Dataset({"s": ("x", missing)}), tmp_path / "b")


def test_what_cannot_grow_or_be_written_in_place_names_the_way(tmp_path):
    ds = xr.Dataset({"u": (("time", "x"), np.arange(12.0).reshape(4, 3))})
    brs.to_binref(ds, tmp_path / "a")
    with pytest.raises(WriterError, match=r"transpose what is there .* mode='w'"):
        brs.to_binref(ds, tmp_path / "a", append_dim="x")
    brs.to_binref(ds.transpose(), tmp_path / "a", mode="w")  # the way
    brs.to_binref(ds.transpose(), tmp_path / "a", append_dim="x")
    assert brs.open_dataset(tmp_path / "a").sizes == {"x": 6, "time": 4}
    brs.to_binref(ds, tmp_path / "b", encoding={"u": {"compression": "lz4"}})
    with pytest.raises(WriterError, match=r"save all of it again with mode='a'"):
        brs.to_binref(ds[{"time": slice(1, 2)}], tmp_path / "b", region={"time": slice(1, 2)})
    brs.to_binref(ds + 1, tmp_path / "b", mode="a")  # the way
    np.testing.assert_array_equal(brs.open_dataset(tmp_path / "b").u, ds.u + 1)


def test_names_must_be_text(tmp_path):
    with pytest.raises(TypeError, match=r"called 3; .* string or None"):
        brs.to_binref(xr.Dataset({3: 1}), tmp_path / "a")
    with pytest.raises(FormatError, match=r"name a local folder"):
        brs.to_binref(xr.Dataset(), "s3://bucket/a")


def test_an_open_dataset_is_not_confused_by_a_rewrite(tmp_path):
    place = tmp_path / "a"
    brs.to_binref(series(0, 3), place)
    old = brs.open_dataset(place)
    brs.to_binref(series(1, 3), place, mode="w")
    new = brs.open_dataset(place)
    assert old.u.data.name != new.u.data.name
    xr.testing.assert_identical(new.load(), series(1, 3))
    with pytest.raises(FileNotFoundError, match=r"'u'"):
        old.u.load()
    kept = brs.open_dataset(place).u
    brs.to_binref(series(1, 3)[["u"]] * 0, place, region="auto")
    assert brs.open_dataset(place).u.data.name != kept.data.name


@pytest.mark.parametrize("durability", ["process", "power"])
def test_durability(tmp_path, durability):
    brs.to_binref(series(0, 3).chunk(time=1), tmp_path / "a", durability=durability)
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "a").load(), series(0, 3))
    with pytest.raises(ValueError, match=r"durability"):
        brs.to_binref(series(0, 3), tmp_path / "b", durability="none")


@pytest.mark.parametrize(
    "line",
    [
        "import xarray, binref_sci",
        "from binref_sci import to_binref; import xarray",
        pytest.param("import binref_sci.xarray, xarray", marks=pytest.mark.long),
    ],
)
def test_the_accessor_is_registered_without_a_warning(line):
    code = f"{line}; print(hasattr(xarray.Dataset, 'binref'), hasattr(xarray.DataArray, 'binref'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True\n"


def test_the_accessor_saves(tmp_path):
    series(0, 3).binref.to_binref(tmp_path / "a")
    series(3, 2).binref.to_binref(tmp_path / "a", append_dim="time")
    series(0, 5).u.binref.to_binref(tmp_path / "b")
    xr.DataTree(series(0, 5)).binref.to_binref(tmp_path / "c")
    for place in "ac":
        xr.testing.assert_identical(brs.open_dataset(tmp_path / place).load(), series(0, 5))
    xr.testing.assert_identical(brs.open_dataset(tmp_path / "b").u.load(), series(0, 5).u)


@pytest.mark.parametrize("mode", ["w", pytest.param("a", marks=pytest.mark.long)])
def test_a_writer_that_is_killed_leaves_the_old_dataset(tmp_path, mode):
    place = tmp_path / "a"
    brs.to_binref(series(0, 4), place)
    code = (
        "import os, sys, numpy as np, dask.array as da, xarray as xr, binref_sci as brs\n"
        "def die(block, block_info=None):\n"
        "    if block_info[0]['chunk-location'] == (3, 0): os.kill(os.getpid(), 9)\n"
        "    return block\n"
        "u = da.zeros((4, 4), chunks=(1, 4)).map_blocks(die, dtype='f8', meta=np.empty((0, 0)))\n"
        "ds = xr.Dataset({'u': (('time', 'x'), u)})\n"
        f"brs.to_binref(ds, sys.argv[1], mode={mode!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code, place])
    assert done.returncode == -9
    xr.testing.assert_identical(brs.open_dataset(place).load(), series(0, 4))
    report = check(place)
    assert report.problems == []
    assert "nothing refers to" in report.notes[0]
