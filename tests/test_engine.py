"""Opening what runs have written."""

import gc
import itertools
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import orjson
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import binref_sci
from binref_sci import (
    BinrefArray,
    BinrefWriter,
    Trajectory,
    open_dataset,
    open_datatree,
    open_references,
)
from binref_sci.engine.blocks import BlockArray
from binref_sci.engine.dataset import SchemaLabels
from binref_sci.engine.exporting import export
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    FormatError,
    InvalidReferenceError,
    JournalError,
    TruncatedBufferError,
    UnsupportedDTypeError,
)
from binref_sci.folding import Odd, fold_json
from binref_sci.journal import SUFFIX
from binref_sci.labels import Labels
from binref_sci.reference import ArrayRef
from binref_sci.wire import array_pieces, ref_to_json
from tests.kit import descriptors_at_rest, open_descriptors, resident, started


def stream(folder, count=5, name="heat", shape=(3, 4), times=True, **kwargs):
    """Write `count` snapshots, the n-th constant n; return the references."""
    kwargs.setdefault("dims", ("time", "y", "x")[: len(shape) + 1])
    with BinrefWriter(name, output_path=folder, **kwargs) as writer:
        return [
            writer.write(np.full(shape, n, "f8"), **({"time": 0.5 * n} if times else {}))
            for n in range(count)
        ]


def to_json(value, prefix=""):
    """Return a value as a response has it."""
    if isinstance(value, BinrefArray):
        return ref_to_json(value.ref, prefix)
    if isinstance(value, np.ndarray):
        return orjson.loads(b"".join(array_pieces(value, "base64")))
    if isinstance(value, dict):
        return {key: to_json(item, prefix) for key, item in value.items()}
    if isinstance(value, list):
        return [to_json(item, prefix) for item in value]
    return value


def respond(folder, fields, prefix="", name="results.json"):
    """Write a response."""
    Path(folder, name).write_bytes(orjson.dumps(to_json(fields, prefix)))


def say(folder, **facts):
    """Write ``run.json``."""
    facts = {"run_id": "r1", "started": "2020-01-01T00:00:00+00:00", "state": "complete"} | facts
    Path(folder, "run.json").write_bytes(orjson.dumps(facts))


def restate(folder, change):
    """Change the first line of the only journal."""
    (path,) = Path(folder).glob(f"*{SUFFIX}")
    first, *rest = path.read_bytes().splitlines()
    made = orjson.loads(first)
    change(made)
    path.write_bytes(b"\n".join([orjson.dumps(made), *rest, b""]))


def interrupt(folder, name=None):
    """Take the end line from journals, as if their writers had been killed."""
    for path in Path(folder).glob(f"{name or ''}*{SUFFIX}"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if b'"end"' not in line))


# --- what a Dataset is made of


def test_labels_of_a_path_go_before_those_of_a_pattern():
    """In a Jacobian ``{}`` is the empty key of a dict, beside others."""
    made = {f"y.d.{{{key}}}": Labels(units=key or "none").to_json() for key in ("", "a", "b")}
    labels = SchemaLabels(made)
    assert [labels.of(path, 1).attrs["units"] for path in made] == ["none", "a", "b"]


def test_labels_of_thousands_of_blocks_are_found_one_by_one():
    """In quadratic time this takes minutes."""
    made = {f"y{number}.x": {"dims": [f"d{number}"]} for number in range(30_000)}
    labels = SchemaLabels(made)
    found = [labels.of(path, 1).dims for path in made]
    assert found[-1] == ("d29999",)


def test_a_streamed_variable_is_labelled_and_lazy(tmp_path):
    x = np.linspace(0, 1, 4)
    stream(
        tmp_path,
        coords={"x": ("x", x, {"units": "m"}), "time": {"units": "s"}},
        attrs={"units": "K", "scale": np.float32(2)},
    )
    ds = open_dataset(tmp_path)
    assert list(ds.data_vars) == ["heat"]
    assert ds.heat.dims == ("time", "y", "x")
    assert ds.heat.attrs == {"units": "K", "scale": np.float32(2)}
    assert ds.heat.attrs["scale"].dtype == np.float32
    np.testing.assert_array_equal(ds.x, x)
    assert ds.x.attrs == {"units": "m"}
    np.testing.assert_array_equal(ds.time, 0.5 * np.arange(5))
    assert ds.time.attrs == {"units": "s"}
    assert isinstance(ds.heat.data, da.Array)
    assert ds.encoding == {"source": str(tmp_path), "binref_state": "complete"}
    np.testing.assert_array_equal(ds.heat.sel(time=1.0), np.full((3, 4), 2.0))


def test_output_fields_are_shown_and_their_journal_only_lends_labels(tmp_path):
    refs = stream(tmp_path, attrs={"units": "K"})
    respond(tmp_path, {"trajectory": refs, "final": refs[-1]})
    ds = open_dataset(tmp_path)
    assert sorted(ds.data_vars) == ["final", "trajectory"]
    assert ds.trajectory.dims == ("time", "y", "x")
    assert ds.final.dims == ("y", "x")
    assert ds.trajectory.attrs == ds.final.attrs == {"units": "K"}
    np.testing.assert_array_equal(ds.time, 0.5 * np.arange(5))
    np.testing.assert_array_equal(ds.final, ds.trajectory[-1])


def test_a_field_that_picks_snapshots_gets_their_times(tmp_path):
    refs = stream(tmp_path, 10)
    respond(tmp_path, {"some": [refs[n] for n in (1, 4, 9, 3)]})
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.time, [0.5, 2.0, 4.5, 1.5])
    np.testing.assert_array_equal(ds.some[:, 0, 0], [1, 4, 9, 3])


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_fields_across_rotated_buffers_get_their_times(tmp_path, compression):
    refs = stream(
        tmp_path, 10, max_file_size=3 * 96 if compression is None else 150, compression=compression
    )
    respond(tmp_path, {"all": refs, "back": refs[::-1]})
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds["all"][:, 1, 1], np.arange(10))
    np.testing.assert_array_equal(ds.back[:, 1, 1], np.arange(10)[::-1])
    np.testing.assert_array_equal(ds.time, 0.5 * np.arange(10))
    np.testing.assert_array_equal(ds.back_time, 0.5 * np.arange(10)[::-1])


def test_a_stacked_field_has_dims_and_times_of_its_journal(tmp_path):
    with BinrefWriter("heat", dims=("time", "x"), output_path=tmp_path) as writer:
        for n in range(4):
            writer.write(np.full(2, n, "f4"), time=float(n))
        stacked = writer.stack()
    respond(tmp_path, {"out": stacked})
    ds = open_dataset(tmp_path)
    assert ds.out.dims == ("time", "x")
    np.testing.assert_array_equal(ds.time, np.arange(4.0))


def test_a_journal_of_which_only_the_last_snapshot_is_returned_is_shown_too(tmp_path):
    refs = stream(tmp_path)
    respond(tmp_path, {"final": refs[-1]})
    ds = open_dataset(tmp_path)
    assert sorted(ds.data_vars) == ["final", "heat"]


def test_other_journals_appear_under_their_own_names(tmp_path):
    refs = stream(tmp_path)
    stream(tmp_path, name="pressure")
    respond(tmp_path, {"out": refs})
    assert sorted(open_dataset(tmp_path).data_vars) == ["out", "pressure"]


def test_two_fields_may_show_one_journal_of_an_unnamed_writer(tmp_path):
    with BinrefWriter(output_path=tmp_path) as writer:
        a, b = writer.write(np.arange(3)), writer.write(np.ones((2, 2)))
    respond(tmp_path, {"a": a, "b": b})
    ds = open_dataset(tmp_path)
    assert sorted(ds.data_vars) == ["a", "b"]
    np.testing.assert_array_equal(ds.a, [0, 1, 2])


def test_numbers_are_variables_and_text_is_an_attribute(tmp_path):
    final = BinrefArray.write(np.float32(0.7), output_path=tmp_path)
    respond(
        tmp_path,
        {
            "final": final,
            "steps": 3,
            "residual": 1e-3,
            "worst": "Infinity",
            "done": True,
            "history": [1.0, 0.5, None],
            "message": "converged",
            "notes": ["a", "b"],
            "nothing": None,
            "none": [],
        },
    )
    ds = open_dataset(tmp_path)
    assert ds.steps.shape == ()
    assert int(ds.steps) == 3
    assert float(ds.residual) == 1e-3
    assert float(ds.worst) == np.inf
    assert bool(ds.done) is True
    np.testing.assert_array_equal(ds.history, [1.0, 0.5, np.nan])
    assert ds.attrs == {"message": "converged", "notes": ["a", "b"]}
    assert "nothing" not in ds
    assert ds.none.shape == (0,)


def test_nested_results_are_flattened_by_their_path(tmp_path):
    refs = [BinrefArray.write(np.full(2, n), output_path=tmp_path) for n in range(3)]
    respond(tmp_path, {"flow": {"u": refs[0]}, "layers": [{"w": refs[1]}, {"w": refs[2]}]})
    ds = open_dataset(tmp_path)
    assert sorted(ds.data_vars) == ["flow.u", "layers.[0].w", "layers.[1].w"]
    np.testing.assert_array_equal(ds["layers.[1].w"], [2, 2])


def test_arrays_within_the_response_are_decoded(tmp_path):
    fields = {"a": np.array([1.0, np.inf]), "many": [np.arange(3, dtype="i2"), np.ones(3, "i2")]}
    respond(tmp_path, fields)
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.a, fields["a"])
    np.testing.assert_array_equal(ds.many, fields["many"])
    assert ds.many.dtype == np.int16


def test_schema_labels_label_what_no_journal_does(tmp_path):
    refs = [BinrefArray.write(np.full(4, n, "f8"), output_path=tmp_path) for n in range(3)]
    labels = {
        "out": Labels(dims=("step", "x"), coords={"x": np.arange(4.0)}, units="K"),
        "parts.[]": Labels(dims=("x",), units="Pa"),
        "named.{}": Labels(dims=("x",), long_name="any"),
    }
    say(tmp_path, labels={path: one.to_json() for path, one in labels.items()})
    respond(tmp_path, {"out": refs, "parts": refs[:2], "named": {"k": refs[0]}})
    ds = open_dataset(tmp_path)
    assert ds.out.dims == ("step", "x")
    assert ds.out.attrs == {"units": "K"}
    assert ds.parts.dims == ("time", "x")
    assert ds.parts.attrs == {"units": "Pa"}
    assert ds["named.k"].attrs == {"long_name": "any"}
    np.testing.assert_array_equal(ds.x, np.arange(4.0))


def test_the_journal_wins_over_the_schema(tmp_path):
    refs = stream(tmp_path, attrs={"units": "K"})
    labels = Labels(dims=("a", "b", "c"), units="degC", long_name="temperature")
    say(tmp_path, labels={"out": labels.to_json()}, run_id="other")
    restate(tmp_path, lambda made: made.update(run="other"))
    respond(tmp_path, {"out": refs})
    ds = open_dataset(tmp_path)
    assert ds.out.dims == ("time", "y", "x")
    assert ds.out.attrs == {"units": "K", "long_name": "temperature"}


@pytest.mark.parametrize("path", ["heat", "heat.[]"])
def test_the_schema_labels_a_run_that_has_no_results_yet(tmp_path, path):
    stream(tmp_path, dims=None, attrs={"long_name": "of the journal"}, times=False)
    dims = ("y", "x") if path.endswith("[]") else ("time", "y", "x")
    labels = Labels(dims=dims, coords={"x": np.arange(4.0)}, units="K", long_name="no")
    say(tmp_path, labels={path: labels.to_json()}, run_id="r", state="running")
    restate(tmp_path, lambda made: made.update(run="r"))
    ds = open_dataset(tmp_path)
    assert ds.heat.dims == ("time", "y", "x")
    assert ds.heat.attrs == {"units": "K", "long_name": "of the journal"}
    np.testing.assert_array_equal(ds.x, np.arange(4.0))


def test_a_field_of_other_rank_lends_a_journal_of_its_name_only_attributes(tmp_path):
    stream(tmp_path, dims=None, times=False)
    labels = Labels(dims=("x",), coords={"x": np.arange(9.0)}, units="K")
    say(tmp_path, labels={"heat": labels.to_json()}, run_id="r", state="running")
    restate(tmp_path, lambda made: made.update(run="r"))
    ds = open_dataset(tmp_path)
    assert ds.heat.shape == (5, 3, 4)
    assert ds.heat.attrs == {"units": "K"}
    assert not ds.coords


def test_dimensions_that_disagree_are_told_apart(tmp_path):
    stream(tmp_path, 6, name="energy", shape=(), dims=("time",))
    stream(tmp_path, 3, name="field")
    stream(tmp_path, 3, name="other")
    ds = open_dataset(tmp_path)
    assert ds.energy.dims == ("time",)
    assert ds.sizes["time"] == 6
    assert ds.field.dims == ds.other.dims == ("field_time", "y", "x")
    np.testing.assert_array_equal(ds.field_time, [0.0, 0.5, 1.0])


def test_a_field_named_as_a_dimension_is_its_coordinate_if_it_can_be(tmp_path):
    refs = stream(tmp_path, attrs={"units": "K"})
    x = BinrefArray.write(np.linspace(0, 1, 4), output_path=tmp_path)
    y = BinrefArray.write(np.zeros((3, 3)), output_path=tmp_path)
    respond(tmp_path, {"x": x, "y": y, "out": refs, "time": 7})
    ds = open_dataset(tmp_path)
    assert ds.out.dims == ("out_time", "out_y", "x")
    np.testing.assert_array_equal(ds.out.sel(x=1.0), np.arange(5)[:, None] * np.ones(3))
    assert ds.y.shape == (3, 3)
    assert int(ds.time) == 7


def test_a_label_that_does_not_fit_is_left_out_with_a_warning(tmp_path):
    stream(tmp_path, coords={"x": np.arange(4.0)})
    restate(tmp_path, lambda made: made["labels"]["coords"]["x"].update(dims=["y"]))
    with pytest.warns(UserWarning, match=r"coordinate 'x' of variable 'heat' has shape \(4,\)"):
        ds = open_dataset(tmp_path)
    assert "x" not in ds.coords
    assert ds.heat.shape == (5, 3, 4)


def test_a_single_value_for_a_dimension_is_no_coordinate_of_it(tmp_path):
    with BinrefWriter("probe", coords={"time": 5}, output_path=tmp_path) as writer:
        writer.write(np.zeros(3))
    with pytest.warns(UserWarning, match=r"coordinate 'time' of variable 'probe' is one value"):
        ds = open_dataset(tmp_path)
    assert ds.probe.shape == (1, 3)
    assert "time" not in ds.coords


@pytest.mark.parametrize("probe", ["a_probe", "z_probe"])  # before the field, and behind it
def test_one_variable_may_lie_at_a_point_of_an_axis_of_another(tmp_path, probe):
    for name, dims, x in (("field", ("time", "x"), [1.0, 2.0]), (probe, ("time",), 2.0)):
        with BinrefWriter(
            name, dims=dims, coords={"x": x}, output_path=tmp_path, run_id="a"
        ) as writer:
            writer.write(np.zeros(np.shape(x)))
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.x, [1.0, 2.0])
    assert float(ds[f"{probe}_x"]) == 2.0


def test_attributes_of_any_name_pass_through_an_output_field(tmp_path):
    refs = stream(tmp_path, attrs={"dims": "two", "coords": "polar", "self": "me"})
    respond(tmp_path, {"out": refs})
    assert open_dataset(tmp_path).out.attrs == {"dims": "two", "coords": "polar", "self": "me"}


# --- lists


def test_a_ragged_list_is_refused_with_the_way_out(tmp_path):
    refs = [BinrefArray.write(np.ones(n), output_path=tmp_path) for n in (2, 2, 3)]
    respond(tmp_path, {"parts": refs})
    with pytest.raises(FormatError, match=r"'parts' is a ragged list.*element 2 has shape \(3,\)"):
        open_dataset(tmp_path)
    with pytest.raises(ValueError, match="open_references"):
        open_dataset(tmp_path)
    found = open_references(tmp_path)
    assert list(found) == ["parts.[0]", "parts.[1]", "parts.[2]"]
    np.testing.assert_array_equal(found["parts.[2]"], np.ones(3))


@pytest.mark.parametrize(
    ("ragged", "odd", "parts"),
    [
        (
            [[1, 2], [3, 4], [5]],
            r"element 2 has shape \(1,\), the first \(2,\)",
            [[1, 2], [3, 4], [5]],
        ),
        ([[1.5], 2.5], r"element 1 has shape \(\), the first \(1,\)", [[1.5], 2.5]),
        ([[[1], [2, 3]]], "element 0 is none itself", None),
        ([1, 2**64 - 1, -1], "element 0 and the others", [1, 2**64 - 1, -1]),
        ([1, "b"], "element 1 is none itself", None),
    ],
)
def test_a_ragged_list_of_plain_numbers_is_refused_with_the_way_out(tmp_path, ragged, odd, parts):
    final = BinrefArray.write(np.ones(3), output_path=tmp_path)
    respond(tmp_path, {"out": {"final": final, "odd": ragged}}, name="reply.json")
    path = tmp_path / "reply.json"
    with pytest.raises(FormatError, match=rf"'out.odd' is a ragged list.*{odd}.*reply.json"):
        open_dataset(path)
    assert list(open_dataset(path, drop_variables="out.odd")) == ["out.final"]
    found = open_references(path)
    assert found["out.final"].shape == (3,)
    for number, part in enumerate(parts or ()):
        np.testing.assert_array_equal(found[f"out.odd.[{number}]"], part)


@pytest.mark.parametrize("inline", [False, True])
def test_what_is_no_variable_hinders_nobody_who_leaves_it_out(tmp_path, inline):
    def made(values):
        array = {"object_type": "array", "shape": [len(values)], "dtype": "float64",
                 "data": {"buffer": values, "encoding": "json"}}  # fmt: skip
        return array if inline else BinrefArray.write(values, output_path=tmp_path)

    odd = [made([1.0]), made([1.0, 2.0])]
    respond(tmp_path, {"fine": made([3.0]), "odd": odd, "flow": {"v": made([4.0]), "odd": odd}})
    with BinrefWriter("torn", output_path=tmp_path, block=(slice(0, 2),), shape=(4,)) as writer:
        writer.write([1.0, 2.0])
    dropped = ["odd", "flow.odd", "torn"]
    assert set(open_dataset(tmp_path, drop_variables=dropped)) == {"fine", "flow.v"}
    assert list(open_dataset(tmp_path, group="flow", drop_variables="odd")) == ["v"]
    tree = open_datatree(tmp_path, drop_variables=["odd", "torn"])
    assert (list(tree.ds), list(tree["flow"].ds)) == (["fine"], ["v"])
    found = open_references(tmp_path)
    assert {len(found[f"odd.[{n}]"]) for n in range(2)} == {1, 2}
    for kept in dropped:
        rest = [name for name in dropped if name != kept]
        with pytest.raises(ValueError, match=kept.replace("torn", "missing")):
            open_dataset(tmp_path, drop_variables=rest)
    with pytest.raises(FormatError, match=r"drop_variables='flow\.odd'"):
        open_dataset(tmp_path, group="flow")
    with pytest.raises(FormatError, match="odd"):
        open_datatree(tmp_path, drop_variables="torn")
    with pytest.raises(FormatError, match="odd"):
        export(tmp_path, tmp_path / "x.json")


def test_a_ragged_journal_is_refused_with_the_way_out(tmp_path):
    with BinrefWriter(output_path=tmp_path) as writer:
        writer.write(np.zeros(3))
        writer.write(np.zeros(3))
        writer.write(np.zeros((2, 2)))
    with pytest.raises(JournalError, match="open_references"):
        open_dataset(tmp_path)
    found = open_references(tmp_path)
    assert {path: part.shape for path, part in found.items()} == {
        "snapshots.[0]": (2, 3),
        "snapshots.[1]": (1, 2, 2),
    }


def test_references_are_listed_by_path(tmp_path):
    refs = stream(tmp_path)
    respond(tmp_path, {"out": refs, "end": {"final": refs[-1]}})
    found = open_references(tmp_path)
    assert isinstance(found["out"], Trajectory)
    assert isinstance(found["end.final"], BinrefArray)
    assert list(found) == ["out", "end.final", "heat"]


def reference(buffer, **changes):
    made = {"shape": [2], "dtype": "int8", "data": {"buffer": buffer, "encoding": "binref"}}
    return made | changes


paths = st.sampled_from(["a.bin", "run_7/b.bin", "c:d.bin", "e é.bin", "12", "new\nline"])


@given(
    st.lists(st.tuples(paths, st.integers(0, 40) | st.integers(0, 2**62)), min_size=1, max_size=30)
)
def test_folded_references_are_the_ones_that_went_in(places):
    stored = fold_json([reference(f"{path}:{offset}") for path, offset in places], "/")
    found = [
        (segment.path, segment.place(n)[0])
        for segment in stored.segments
        for n in range(segment.count)
    ]
    assert found == places


@given(st.lists(st.tuples(paths, st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=20))
def test_folded_compressed_references_are_the_ones_that_went_in(places):
    items = [
        {
            "shape": [2],
            "dtype": "int8",
            "data": {"buffer": f"{p}:{o}:{s}", "encoding": "binref", "compression": "lz4"},
        }
        for p, o, s in places
    ]
    stored = fold_json(items, "/")
    found = [
        (segment.path, *segment.place(n))
        for segment in stored.segments
        for n in range(segment.count)
    ]
    assert found == places


def test_bare_paths_and_redundant_sizes_are_read():
    stored = fold_json([reference("a.bin"), reference("a.bin:2:2"), reference("a.bin:4")], "/")
    assert [segment.offset for segment in stored.segments] == [0]
    assert len(stored) == 3


@pytest.mark.parametrize(
    "odd",
    [
        reference("a.bin:-1"),
        reference("a.bin:1:2:3"),
        reference(":1"),
        reference(7),
        reference(f"a.bin:{2**63}"),
        reference("a.bin:9223372036854775807"),
        reference("a.bin:1", shape=[-2]),
        reference("a.bin:1", shape="2"),
        reference("a.bin:1", dtype="object"),
        reference(
            "a.bin:1", data={"buffer": "a.bin:1:2", "encoding": "binref", "compression": "x"}
        ),
    ],
)
@pytest.mark.parametrize("before", [1, 3])
def test_a_malformed_reference_in_a_list_is_named(odd, before):
    items = [reference(f"a.bin:{2 * n}") for n in range(before)] + [odd]
    with pytest.raises(InvalidReferenceError, match=rf"out\[{before}\]"):
        fold_json(items, "/", where="out")


@pytest.mark.parametrize(
    "odd",
    [
        reference("a.bin:1", shape=[3]),
        reference("a.bin:1", dtype="int16"),
        reference(
            "a.bin:1:2", data={"buffer": "a.bin:1:2", "encoding": "binref", "compression": "lz4"}
        ),
        reference("a.bin:1", data={"buffer": [1, 2], "encoding": "json"}),
        None,
        3,
        [reference("a.bin:1")],
    ],
)
def test_the_first_odd_reference_is_found(odd):
    found = fold_json([reference("a.bin:0"), reference("a.bin:2"), odd, odd], "/")
    assert isinstance(found, Odd)
    assert found.at == 2


# --- which run


def test_only_the_newest_run_is_shown(tmp_path):
    stream(tmp_path, 5, name="heat")
    stream(tmp_path, 5, name="old")
    stream(tmp_path, 2, name="heat")  # a name that comes again begins the next run
    ds = open_dataset(tmp_path)
    assert list(ds.data_vars) == ["heat"]
    assert ds.sizes["time"] == 2


def test_a_writer_that_came_after_the_call_is_the_newest_run(tmp_path):
    refs = stream(tmp_path, name="heat", run_id="r1")
    respond(tmp_path, {"out": refs})
    say(tmp_path, run_id="r1")
    assert list(open_dataset(tmp_path).data_vars) == ["out"]
    stream(tmp_path, name="later", run_id="r2")
    assert list(open_dataset(tmp_path).data_vars) == ["later"]


def test_an_output_path_opens_its_newest_run(tmp_path):
    for day, run in ((2, "run_a"), (3, "run_b"), (1, "run_c")):
        (tmp_path / run).mkdir()
        stream(tmp_path / run, day, run_id=run)
        say(tmp_path / run, run_id=run, started=f"2020-01-0{day}T00:00:00+00:00")
    ds = open_dataset(tmp_path)
    assert ds.encoding["source"] == str(tmp_path / "run_b")
    assert ds.sizes["time"] == 3


def test_references_that_begin_with_the_name_of_their_own_folder_are_found(tmp_path):
    run = tmp_path / "run_7"
    run.mkdir()
    refs = stream(run)
    respond(run, {"out": refs, "last": refs[-1]}, prefix="run_7/")
    respond(tmp_path, {"out": refs}, prefix="run_7/", name="answer.json")
    for source in (run, run / "results.json", tmp_path / "answer.json"):
        ds = open_dataset(source)
        np.testing.assert_array_equal(ds.out[:, 0, 0], np.arange(5))
        np.testing.assert_array_equal(ds.time, 0.5 * np.arange(5))
    moved = tmp_path / "elsewhere"
    run.rename(moved)
    np.testing.assert_array_equal(open_dataset(moved).last, np.full((3, 4), 4))


def test_references_that_begin_with_their_folders_name_are_found_through_a_link(tmp_path):
    (tmp_path / "mine").mkdir()
    respond(tmp_path / "mine", {"out": stream(tmp_path / "mine")}, prefix="mine/")
    (tmp_path / "latest").symlink_to(tmp_path / "mine")
    np.testing.assert_array_equal(open_dataset(tmp_path / "latest").out[:, 0, 0], np.arange(5))


def test_a_journal_opens_by_itself(tmp_path):
    stream(tmp_path, name="heat")
    stream(tmp_path, name="other")
    (path,) = tmp_path.glob(f"heat*{SUFFIX}")
    assert list(open_dataset(path).data_vars) == ["heat"]


def test_a_forked_child_has_a_name_of_its_own(tmp_path):
    with BinrefWriter("heat", dims=("time", "x"), output_path=tmp_path) as writer:
        writer.write(np.zeros(2), time=0.0)
        child = os.fork()
        if not child:
            try:
                writer.write(np.ones(2), time=7.0)
                writer.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        writer.write(np.zeros(2), time=1.0)
    ds = open_dataset(tmp_path)
    first, second = ds.data_vars
    assert first == "heat"
    assert second.startswith("heat_")
    assert len(second) == len("heat_") + 4
    np.testing.assert_array_equal(ds.heat, np.zeros((2, 2)))
    np.testing.assert_array_equal(ds[second], np.ones((1, 2)))


# --- state


def test_a_run_still_going_opens_with_what_is_complete(tmp_path):
    writer = BinrefWriter("heat", dims=("time", "x"), output_path=tmp_path)
    for n in range(3):
        writer.write(np.full(2, n), time=n)
    ds = open_dataset(tmp_path)
    assert ds.encoding["binref_state"] == "writing"
    assert ds.sizes["time"] == 3
    writer.write(np.full(2, 3), time=3)
    assert ds.sizes["time"] == 3  # a pinned view
    assert open_dataset(tmp_path).sizes["time"] == 4
    writer.close()
    assert open_dataset(tmp_path).encoding["binref_state"] == "complete"


def test_an_interrupted_run_opens_with_what_is_complete(tmp_path):
    refs = stream(tmp_path, 4, coords={"level": ("time", np.arange(4))})
    interrupt(tmp_path)
    buffer = tmp_path / refs[0].path
    os.truncate(buffer, buffer.stat().st_size - 3)
    ds = open_dataset(tmp_path)
    assert ds.encoding["binref_state"] == "interrupted"
    assert ds.sizes["time"] == 3
    np.testing.assert_array_equal(ds.level, [0, 1, 2])
    np.testing.assert_array_equal(ds.heat[-1], np.full((3, 4), 2))


@pytest.mark.parametrize(
    ("said", "state"),
    [("running", "interrupted"), ("failed", "interrupted"), ("complete", "complete")],
)
def test_run_json_tells_the_state_where_journals_are_done(tmp_path, said, state):
    stream(tmp_path, run_id="r1")
    say(tmp_path, state=said)
    assert open_dataset(tmp_path).encoding["binref_state"] == state


def test_a_call_that_is_killed_is_interrupted_though_its_writers_had_closed(tmp_path):
    code = """
        import os, sys, time
        from binref_sci.runtime.run import RunDirectory
        from binref_sci.writer import BinrefWriter
        run = RunDirectory(sys.argv[1])
        run.begin({})
        with BinrefWriter("heat", output_path=run.path) as writer:
            writer.write([1.0])
        if os.fork() == 0:  # which outlives its parent, and holds nothing
            os.closerange(0, 3)
            time.sleep(10)
            os._exit(0)
        print("closed", flush=True)
        time.sleep(60)
    """
    with started(code, tmp_path) as process:
        assert process.stdout.readline() == b"closed\n"
        assert open_dataset(tmp_path).encoding["binref_state"] == "writing"
        process.kill()
        process.wait()
        assert open_dataset(tmp_path).encoding["binref_state"] == "interrupted"


def test_big_endian_bytes_are_refused_and_never_taken_for_others(tmp_path):
    np.array([1.0, 2.0], ">f8").tofile(tmp_path / "x.bin")
    for make in (
        lambda: BinrefArray.from_file("x.bin", (2,), ">f8", output_path=tmp_path),
        lambda: ArrayRef("x.bin", 0, (2,), np.dtype(">f8")),
    ):
        with pytest.raises(UnsupportedDTypeError, match=r"'>f8' is big-endian.*byteswap"):
            make()
    stream(tmp_path, 2)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    whole = path.read_bytes()
    for at in range(whole.count(b'"float64"')):
        parts = whole.split(b'"float64"')
        texts = b'"float64"'.join(parts[: at + 1]), b'"float64"'.join(parts[at + 1 :])
        path.write_bytes(b'">f8"'.join(texts))
        with pytest.raises(BinrefError, match="big-endian"):
            open_dataset(tmp_path)


# --- blocks


def blocks(folder, cuts=((0, 2), (2, 5)), count=3, shape=(5, 4), **kwargs):
    """Write a field in blocks of rows; return the whole."""
    whole = np.arange(count * 20, dtype="f8").reshape(count, *shape)
    for a, b in cuts:
        with BinrefWriter(
            "u", dims=("t", "y", "x"), block=(slice(a, b), slice(None)), shape=shape,
            output_path=folder, run_id="r1", **kwargs,
        ) as writer:  # fmt: skip
            for n in range(count):
                writer.write(whole[n, a:b], time=float(n))
    return whole


def test_blocks_are_laid_side_by_side(tmp_path):
    whole = blocks(tmp_path)
    ds = open_dataset(tmp_path)
    assert list(ds.data_vars) == ["u"]
    assert ds.u.dims == ("t", "y", "x")
    np.testing.assert_array_equal(ds.u, whole)
    np.testing.assert_array_equal(ds.t, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(ds.u[1, ::-2, 1:3], whole[1, ::-2, 1:3])
    np.testing.assert_array_equal(ds.u[:, [4, 0, 2], 3], whole[:, [4, 0, 2], 3])


basic = st.integers(-3, 2) | st.slices(3) | st.lists(st.integers(-3, 2), min_size=1).map(np.array)


@pytest.fixture(scope="module")
def block_array(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    whole = blocks(folder)
    parts = [part for path, part in open_references(folder).items()]
    return BlockArray("u", parts), whole


@given(data=st.data())
def test_indexing_blocks_equals_indexing_the_whole(block_array, data):
    array, whole = block_array
    key = tuple(
        data.draw(
            st.integers(-n, n - 1)
            | st.slices(n)
            | st.lists(st.integers(-n, n - 1), min_size=2, max_size=2).map(np.array)
        )
        for n in whole.shape
    )
    np.testing.assert_array_equal(array[key], whole[key])


def test_coordinates_of_blocks_are_laid_side_by_side(tmp_path):
    x, y = np.arange(4.0), np.arange(5.0) / 2
    for a, b in ((3, 5), (0, 3)):
        with BinrefWriter(
            "u",
            dims=("t", "y", "x"),
            coords={
                "x": x,
                "y": ("y", y[a:b], {"units": "m"}),
                "area": (("y", "x"), y[a:b, None] * x),
            },
            block=(slice(a, b), slice(None)),
            shape=(5, 4),
            output_path=tmp_path,
            run_id="r1",
        ) as writer:
            writer.write(np.ones((b - a, 4)), time=0.0)
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.y, y)
    np.testing.assert_array_equal(ds.x, x)
    np.testing.assert_array_equal(ds.area, y[:, None] * x)
    assert ds.y.attrs == {"units": "m"}


def test_as_many_snapshots_as_all_blocks_have(tmp_path):
    whole = blocks(tmp_path, cuts=((0, 2),))
    rest = whole[:2]
    with BinrefWriter(
        "u", dims=("t", "y", "x"), block=(slice(2, 5), slice(None)), shape=(5, 4),
        output_path=tmp_path, run_id="r1",
    ) as writer:  # fmt: skip
        for n in range(2):
            writer.write(rest[n, 2:], time=float(n))
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.u, rest)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        (((0, 2), (3, 5)), r"block \[2:3, 0:4\] of the field of shape \(5, 4\) is missing"),
        (((0, 3), (2, 5)), r"blocks \[0:3, 0:4\] and \[2:5, 0:4\] .* overlap"),
        (((0, 2), (0, 2), (2, 5)), "overlap"),
        (((0, 2),), r"block \[2:5, 0:4\]"),
    ],
)
def test_missing_and_overlapping_blocks_are_named(tmp_path, cuts, message):
    blocks(tmp_path, cuts)
    with pytest.raises(JournalError, match=message):
        open_dataset(tmp_path)


# --- chunks


@pytest.mark.parametrize(
    ("chunks", "lengths"),
    [
        ({}, (10, 10, 10)),
        ({"time": 15}, (15, 15)),
        ({"time": -1}, (30,)),
        (-1, (30,)),
        ({"y": 1}, (10, 10, 10)),
    ],
)
def test_chunks_are_those_asked_for(tmp_path, chunks, lengths):
    stream(tmp_path, 30, max_file_size=10 * 96)
    ds = open_dataset(tmp_path, chunks=chunks)
    assert ds.heat.chunks[0] == lengths
    np.testing.assert_array_equal(ds.heat[:, 2, 3], np.arange(30))


def test_chunks_of_an_unknown_dimension_are_an_error(tmp_path):
    stream(tmp_path)
    with pytest.raises(ValueError, match="'tmie'"):
        open_dataset(tmp_path, chunks={"tmie": 1})


@pytest.mark.parametrize("chunks", [{}, None])
def test_indexing_with_and_without_dask_equals_numpy(tmp_path, chunks):
    refs = stream(tmp_path)
    whole = np.stack([ref.load() for ref in refs])
    u = open_dataset(tmp_path, chunks=chunks).heat
    assert (u.chunks is None) == (chunks is None)
    for key in (
        np.s_[::-1],
        np.s_[:, ::-2],
        np.s_[4:1:-1],
        np.s_[-1],
        np.s_[[2, 0, 2]],
        np.s_[1, :, 2],
        np.s_[np.array([True, False, True, False, True])],
        np.s_[0, 1, 2],
    ):
        np.testing.assert_array_equal(u[key], whole[key])
    np.testing.assert_array_equal(u[0, :, [1, 2]], whole[0][:, [1, 2]])  # xarray's way
    points = u.isel(y=xr.DataArray([0, 2], dims="p"), x=xr.DataArray([3, 1], dims="p"))
    np.testing.assert_array_equal(points, whole[:, [0, 2], [3, 1]])


def test_a_slice_that_goes_back_from_in_front_of_the_first_is_empty(tmp_path):
    refs = stream(tmp_path)
    whole = np.stack([ref.load() for ref in refs])
    u = open_dataset(tmp_path, chunks=None).heat
    for key in (
        np.s_[-7:2:-2],
        np.s_[:, -9::-1],
        np.s_[1:, -4:1:-1, [0, 2]],
        np.s_[::-1, 0, -7:-9:-1],
    ):
        assert u[key].shape == whole[key].shape
        assert u[key].values.shape == whole[key].shape
    assert u[::-1][-6::-1].shape == u[2:2][-1::-1].values.shape == (0, *whole.shape[1:])


# --- times


def test_only_units_since_a_date_become_dates(tmp_path):
    stream(
        tmp_path,
        name="period",
        shape=(),
        dims=("time",),
        attrs={"units": "seconds"},
        coords={"time": {"units": "days"}},
    )
    ds = open_dataset(tmp_path)
    assert ds.period.dtype == ds.time.dtype == np.float64
    assert ds.period.attrs == {"units": "seconds"}
    assert ds.time.attrs == {"units": "days"}
    dated = tmp_path / "dated"
    with BinrefWriter("dated", dims=("time",), output_path=dated) as writer:
        for day in (1, 2):
            writer.write(np.float64(day), time=np.datetime64(f"2020-01-0{day}T12"))
    with BinrefWriter(
        "since",
        dims=("t",),
        output_path=dated,
        coords={"t": {"units": "hours since 2000-01-01"}},
    ) as writer:
        writer.write(np.float64(0), time=36.0)
    ds = open_dataset(dated)
    np.testing.assert_array_equal(
        ds.time, np.array(["2020-01-01T12", "2020-01-02T12"], "datetime64[ns]")
    )
    assert ds.t.values[0] == np.datetime64("2000-01-02T12")


# --- errors


def test_a_path_with_nothing_there_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("random.json", b'{"a": 1}', "without any.*'a'"),
        ("list.json", b"[1, 2]", "begins with"),
        ("broken.json", b'{"a": ', "not valid JSON"),
        ("x.nc", b"CDF\x01", "CDF"),
        ("field.bin", bytes(64), "open the folder"),
        ("empty.json", b"", "begins with b''"),
    ],
)
def test_a_foreign_file_is_a_value_error_that_says_what_was_found(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_dataset(tmp_path / name)


def test_a_foreign_folder_is_a_value_error_that_says_what_was_found(tmp_path):
    with pytest.raises(ValueError, match="found nothing"):
        open_dataset(tmp_path)
    (tmp_path / "x.nc").touch()
    with pytest.raises(ValueError, match=r"1 entries \(x.nc\)"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("source", [None, 3, b"bytes"])
def test_what_is_no_path_is_a_type_error(source):
    with pytest.raises(TypeError, match="path"):
        open_dataset(source)


@pytest.mark.parametrize("chunks", [{}, None])
def test_a_missing_buffer_is_an_error_that_names_file_and_variable(tmp_path, chunks):
    refs = stream(tmp_path, 9, max_file_size=3 * 96)
    ds = open_dataset(tmp_path, chunks=chunks)
    lost = tmp_path / refs[4].path
    lost.unlink()
    for attempt in (
        lambda: ds.heat.mean("time").compute(),
        lambda: open_dataset(tmp_path, chunks=chunks),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            attempt()
        assert lost.name in str(caught.value)
        assert "'heat'" in str(caught.value)
    np.testing.assert_array_equal(ds.heat[0], np.zeros((3, 4)))  # what is there can be read
    respond(tmp_path, {"out": refs})
    with pytest.raises(FileNotFoundError, match=f"'out'.*{lost.name}"):
        open_dataset(tmp_path)


def test_a_short_buffer_opens_and_only_the_torn_snapshot_is_an_error(tmp_path):
    refs = stream(tmp_path, 10, shape=(4, 4))
    respond(tmp_path, {"out": refs})
    buffer = tmp_path / refs[0].path
    os.truncate(buffer, buffer.stat().st_size - 3)
    ds = open_dataset(tmp_path)
    np.testing.assert_array_equal(ds.out[8], np.full((4, 4), 8))
    for attempt in (lambda: ds.out[9].values, lambda: ds.out.values):
        with pytest.raises(TruncatedBufferError) as caught:
            attempt()
        message = str(caught.value)
        assert buffer.name in message
        assert "1277 bytes" in message
        assert "'out'" in message


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_arrays_without_elements_open(tmp_path, shape):
    empty = BinrefArray.write(np.empty(shape), output_path=tmp_path)
    respond(tmp_path, {"only": empty, "list": [empty, empty]})
    for chunks in ({}, None):
        ds = open_dataset(tmp_path, chunks=chunks)
        assert ds.only.shape == shape
        assert ds.only.values.shape == shape
        assert ds["list"].values.shape == (2, *shape)


@pytest.mark.parametrize("chunks", [{}, None])
def test_a_single_number_has_no_dims(tmp_path, chunks):
    value = BinrefArray.write(np.float32(0.7), output_path=tmp_path)
    refs = stream(tmp_path, 3, name="probe", shape=(), dims=("time",))
    respond(tmp_path, {"value": value, "probe": refs, "inline": np.array(2.5)})
    ds = open_dataset(tmp_path, chunks=chunks)
    assert ds.value.dims == ()
    assert ds.value.shape == ()
    assert float(ds.value) == np.float32(0.7)
    assert float(ds.inline) == 2.5
    np.testing.assert_array_equal(ds.probe, [0, 1, 2])


@pytest.mark.parametrize("path", ["../x.bin:0", "/etc/passwd:0", "file:///etc/passwd"])
def test_references_that_lead_outside_are_refused(tmp_path, path):
    (tmp_path / "run").mkdir()
    (tmp_path / "x.bin").write_bytes(bytes(8))
    made = {
        "out": {"shape": [1], "dtype": "float64", "data": {"buffer": path, "encoding": "binref"}}
    }
    (tmp_path / "run" / "results.json").write_bytes(orjson.dumps(made))
    with pytest.raises(InvalidReferenceError, match="'out'"):
        open_dataset(tmp_path / "run")


numbers = st.integers(-2, 2**64) | st.sampled_from(
    [2**31, 2**40, 2**60, 2**63, 1.5, True, None, "2"]
)
buffers = st.sampled_from(
    [
        "a.bin:0",
        "a.bin",
        "a.bin:8",
        "a.bin:-1",
        "../a.bin:0",
        "/a.bin:0",
        "a.bin:0:8",
        "",
        ":",
        "x:0",
        5,
    ]
)
arrays = st.fixed_dictionaries(
    {
        "shape": st.lists(numbers, max_size=3) | numbers,
        "dtype": st.sampled_from(["float64", "int8", "object", ">f4", None, "U3"]),
        "data": st.fixed_dictionaries(
            {
                "buffer": buffers | st.lists(numbers, max_size=3),
                "encoding": st.sampled_from(["binref", "json", "base64", "raw", "x", None]),
            },
            optional={"compression": st.sampled_from(["lz4", "zip", None, 3])},
        ),
    },
    optional={"object_type": st.sampled_from(["array", "x"])},
)
trees = st.recursive(
    arrays | numbers | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), trees, min_size=1, max_size=3))
def test_whatever_a_response_holds_it_opens_or_the_error_is_clean(tmp_path_factory, fields):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a.bin").write_bytes(bytes(64))
    (folder / "results.json").write_text(json.dumps(fields))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for attempt in (open_dataset, open_references):
            with suppress(BinrefError):  # nothing else
                repr(attempt(folder))
    shutil.rmtree(folder)


def test_a_response_nested_very_deeply_is_refused(tmp_path):
    for depth in (300, 900, 5000):
        (tmp_path / "x.json").write_text('{"a":' * depth + "1" + "}" * depth)
        with pytest.raises(FormatError):
            open_dataset(tmp_path / "x.json")


# --- graphs, tokens, processes, descriptors


def test_arrays_at_different_offsets_of_one_buffer_have_different_names(tmp_path):
    """R13."""
    with BinrefWriter(output_path=tmp_path) as writer:
        a, b = writer.write(np.arange(5)), writer.write(np.arange(5, 10))
    respond(tmp_path, {"a": a, "b": b})
    ds, again = open_dataset(tmp_path), open_dataset(tmp_path)
    stacked = da.stack([ds.a.data, ds.b.data])
    np.testing.assert_array_equal(stacked, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
    assert ds.a.data.name != ds.b.data.name
    assert ds.a.data.name == again.a.data.name


def test_a_rewritten_folder_has_other_names_and_the_new_values(tmp_path):
    (tmp_path / "run").mkdir()
    stream(tmp_path / "run", 3, dims=("time", "y", "x"))
    before = open_dataset(tmp_path / "run")
    before.heat.compute()
    shutil.rmtree(tmp_path / "run")
    stream(tmp_path / "run", 2, shape=(2, 2))
    after = open_dataset(tmp_path / "run")
    assert after.heat.shape == (2, 2, 2)
    assert after.heat.data.name != before.heat.data.name
    np.testing.assert_array_equal(after.heat[:, 0, 0], [0, 1])


@pytest.mark.parametrize("chunks", [{}, None])
def test_a_pickled_dataset_holds_no_data_and_reads_elsewhere(tmp_path, chunks):
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(2**30)
    big = BinrefArray.from_file("big.bin", (2**14, 64, 128), "f8", output_path=tmp_path)
    respond(tmp_path, {"big": big})
    text = pickle.dumps(open_dataset(tmp_path, chunks=chunks))
    assert len(text) < 20_000
    code = "import pickle, sys; print(float(pickle.load(sys.stdin.buffer).big[5, 6, 7]), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, check=True, cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == b"0.0"


def test_names_are_the_same_in_every_process(tmp_path):
    stream(tmp_path)
    code = (
        "import binref_sci, sys; print(binref_sci.open_dataset(sys.argv[1]).heat.data.name, end='')"
    )
    names = {
        subprocess.run(
            [sys.executable, "-c", code, tmp_path],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert names == {open_dataset(tmp_path).heat.data.name}


def test_opening_two_gib_reads_nothing_and_grows_by_nothing(tmp_path):
    """R15."""
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(2048 * 512 * 256 * 8)
    big = BinrefArray.from_file("big.bin", (2048, 512, 256), "f8", output_path=tmp_path)
    respond(tmp_path, {"big": big})
    open_dataset(tmp_path)  # what is imported once is not counted
    before, began = resident(), time.process_time()
    ds = open_dataset(tmp_path)
    repr(ds), ds._repr_html_()
    took, grown = time.process_time() - began, resident() - before
    assert grown < 5 * 2**20
    assert took < 0.5
    again = []
    for _ in range(5):
        began = time.process_time()
        open_dataset(tmp_path)
        again.append(time.process_time() - began)
    assert min(again) < 0.05
    assert len(pickle.dumps(ds.big.data.dask)) < 20_000
    np.testing.assert_array_equal(ds.big[10, 0, :5], np.zeros(5))
    assert resident() - before < 80 * 2**20


def test_opening_a_million_snapshots_costs_their_times(tmp_path):
    stream(tmp_path, 1, shape=(32, 64))
    restate(tmp_path, lambda made: None)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    count = 1_000_000
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    lines[-1] = {"end": {"count": count}}
    path.write_bytes(b"\n".join([*map(orjson.dumps, lines), b""]))
    os.truncate(tmp_path / lines[1]["segment"]["buffer"], count * 16384)
    np.arange(float(count)).tofile(tmp_path / lines[0]["time"]["buffer"])
    open_dataset(tmp_path)
    before = resident()
    took = []
    for _ in range(5):  # time of the processor: other processes may want it too
        began = time.process_time()
        ds = open_dataset(tmp_path)
        took.append(time.process_time() - began)
    assert min(took) < 0.05
    assert resident() - before < 50 * 2**20
    assert ds.heat.shape == (count, 32, 64)
    assert ds.time.values[-1] == count - 1
    assert len(pickle.dumps(ds.heat.data.dask)) < 100_000


@pytest.mark.long
def test_opening_a_hundred_thousand_references_costs_little_more_than_parsing_them(tmp_path):
    count = 100_000
    with (tmp_path / "a.bin").open("wb") as file:
        file.truncate(count * 2048)
    items = [
        {
            "object_type": "array",
            "shape": [16, 16],
            "dtype": "float64",
            "data": {"buffer": f"a.bin:{2048 * n}", "encoding": "binref"},
        }
        for n in range(count)
    ]
    text = orjson.dumps({"out": items})
    del items
    (tmp_path / "results.json").write_bytes(text)
    open_dataset(tmp_path)
    parse, whole = [], []
    for _ in range(5):  # time of the processor, as above
        gc.collect()
        began = time.process_time()
        made = orjson.loads(text)
        parse.append(time.process_time() - began)
        del made
        gc.collect()
        began = time.process_time()
        ds = open_dataset(tmp_path)
        whole.append(time.process_time() - began)
    assert ds.out.shape == (count, 16, 16)
    assert min(whole) < 1.8 * min(parse)


def test_a_relative_path_is_resolved_when_it_is_opened(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    refs = stream(run)
    respond(run, {"out": refs})
    monkeypatch.chdir(tmp_path)
    ds = open_dataset("run")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(ds.out[:, 0, 0], np.arange(5))
    with dask.config.set(scheduler="processes", num_workers=1):
        np.testing.assert_array_equal(ds.out[:, 0, 0], np.arange(5))
    run.rename(tmp_path / "moved")
    np.testing.assert_array_equal(open_dataset(tmp_path / "moved").out[:, 0, 0], np.arange(5))


@pytest.fixture
def few_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_buffers_open_under_a_limit_of_128_descriptors(tmp_path, few_descriptors):
    """R31."""
    refs = stream(tmp_path, 1000, shape=(2,), dims=("time", "x"), max_file_size=16)
    assert len({ref.path for ref in refs}) == 1000
    before = descriptors_at_rest()
    for fields in (None, {"out": refs}):
        if fields:
            respond(tmp_path, fields)
        ds = open_dataset(tmp_path)
        (name,) = ds.data_vars
        assert float(ds[name].mean()) == 499.5
    assert descriptors_at_rest() == before


def test_opening_and_closing_again_and_again_leaves_no_descriptor(tmp_path, few_descriptors):
    stream(tmp_path)
    before = descriptors_at_rest()
    for _ in range(200):
        with open_dataset(tmp_path) as ds:
            assert float(ds.heat[2, 0, 0]) == 2
    assert open_descriptors() == before


@pytest.mark.long
def test_two_thousand_rounds_leave_no_descriptor(tmp_path, few_descriptors):
    """R31."""
    stream(tmp_path)
    before = descriptors_at_rest()
    for chunks in itertools.islice(itertools.cycle([{}, None]), 2000):
        with open_dataset(tmp_path, chunks=chunks) as ds:
            ds.heat.mean().compute()
    assert open_descriptors() == before


def test_the_root_offers_what_the_engine_has():
    assert binref_sci.open_dataset is open_dataset
    assert issubclass(BufferNotFoundError, FileNotFoundError)


def test_an_array_that_is_not_there_is_told_with_those_that_are(tmp_path):
    stream(tmp_path)
    found = open_references(tmp_path)
    with pytest.raises(KeyError, match=r"no array 'haet'; there are 'heat'; did you mean 'heat'\?"):
        found["haet"]
    assert "haet" not in found
    assert {**found} == found


def test_of_many_arrays_the_message_names_some(tmp_path):
    with BinrefWriter(output_path=tmp_path) as writer:
        for length in range(1, 61):
            writer.write(np.zeros(length))
    found = open_references(tmp_path)
    match = r"'snapshots\.\[19\]', and 40 more; did you mean .*'snapshots\.\[6\]'"
    with pytest.raises(KeyError, match=match):
        found["snapshots.[66]"]


def test_a_coordinate_that_no_dims_place_is_told(tmp_path):
    with BinrefWriter("u", coords={"x": np.arange(3.0)}, output_path=tmp_path) as writer:
        writer.write(np.zeros(3))
    with pytest.warns(UserWarning, match=r"'x' of variable 'u' lies along \('x',\), but no dims="):
        assert "x" not in open_dataset(tmp_path).coords
