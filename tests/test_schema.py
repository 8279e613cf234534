"""Schema types: what fields accept, what they refuse, what they turn it into."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import BaseModel, Field, RootModel, ValidationError

import binref_sci
from binref_sci import BinrefArray, BinrefWriter, wire
from binref_sci.dtypes import DTYPES
from binref_sci.runtime import (
    Array,
    Bool,
    Complex64,
    Complex128,
    Differentiable,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Labels,
    ShapeDType,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    models,
)
from binref_sci.runtime.schema import Reading, broadcast_shape

MARKERS = [
    Float16, Float32, Float64, Int8, Int16, Int32, Int64,
    UInt8, UInt16, UInt32, UInt64, Bool, Complex64, Complex128,
]  # fmt: skip


def model_of(annotation):
    class Model(BaseModel):
        x: annotation

    models.prepare(Model, {})
    return Model


def as_input(annotation, value, input_path=None):
    reading = Reading("inputs", input_path)
    return model_of(annotation).model_validate({"x": value}, context=reading.context()).x


def as_output(annotation, value):
    return model_of(annotation).model_validate({"x": value}, context=Reading("outputs").context()).x


def encoded(array, encoding):
    return orjson.loads(b"".join(wire.array_pieces(array, encoding)))


def test_all_fourteen_dtypes_have_a_name():
    assert [each.expected_dtype for each in MARKERS] == [
        DTYPES[repr(each).split()[-1].rstrip("]").lower()] for each in MARKERS
    ]
    assert len({each.expected_dtype for each in MARKERS}) == len(DTYPES)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Array[(None, 3), Float64], "Array[(None, 3), Float64]"),
        (Array[..., UInt8], "Array[..., UInt8]"),
        (Array[(), None], "Array[(), None]"),
        (Differentiable[Array[..., Complex128]], "Differentiable[Array[..., Complex128]]"),
    ],
)
def test_an_annotation_reads_as_it_is_written(field, text):
    assert repr(field) == text


def test_equal_annotations_are_identical():
    assert Array[(None, 3), Float64] is Array[(None, 3), "float64"]
    assert Differentiable[Float64] is Differentiable[Array[(), Float64]]
    assert Differentiable[Float64] is not Float64


@pytest.mark.parametrize(
    "key",
    [
        (3, Float64), ((None, -1), Float64), ((1.5,), Float64), ((True,), Float64),
        ((3,), "object"), ((3,), ">m8"), (3,), ((3,), Float64, 1), ([3], Float64),
    ],
)  # fmt: skip
def test_an_annotation_that_cannot_be_meant_is_refused(key):
    with pytest.raises(TypeError, match=r"write Array|not valid"):
        Array[key]
    with pytest.raises(TypeError, match=r"write ShapeDType|not valid"):
        ShapeDType[key]


def test_annotations_have_no_instances():
    for each in (Array, Differentiable, Float64):
        with pytest.raises(TypeError, match="annotation"):
            each()
    with pytest.raises(TypeError, match="takes an array"):
        Differentiable[int]


@settings(deadline=None)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(DTYPES)),
    shape=npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
def test_an_array_passes_its_own_field_unchanged(data, name, shape):
    array = data.draw(npst.arrays(DTYPES[name], shape))
    wildcard = tuple(data.draw(st.sampled_from([None, length])) for length in shape)
    field = data.draw(
        st.sampled_from([Array[wildcard, name], Array[..., name], Array[shape, None]])
    )
    for given_ in (array, encoded(array, "json"), encoded(array, "base64")):
        for way in (as_input, as_output):
            made = way(field, given_)
            assert (made.dtype, made.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(made, array)


# R03
WIDER = {"int8": "int64", "int32": "float64", "float32": "float64"}


@pytest.mark.parametrize("form", ["list", "json", "base64", "numpy"])
@pytest.mark.parametrize(("dtype", "value"), [("int8", 300), ("int32", 1.5), ("float32", 1e40)])
def test_a_value_that_does_not_fit_is_an_error_that_names_it(form, dtype, value):
    array = np.array([0, value], WIDER[dtype])
    given_ = {"list": array.tolist(), "numpy": array}.get(form)
    given_ = encoded(array, form) if given_ is None else given_
    with pytest.raises(ValidationError) as caught:
        as_input(Array[(None,), dtype], given_)
    (fault,) = caught.value.errors()
    assert fault["loc"] == ("x",)
    assert str(value) in fault["msg"]
    assert repr(Array[(None,), dtype]) in fault["msg"]


@pytest.mark.parametrize("form", ["list", "json", "base64"])
def test_floats_are_rounded_and_keep_what_is_not_finite(form):
    array = np.array([np.inf, np.nan, 0.1])
    made = as_input(
        Array[(None,), Float32], array.tolist() if form == "list" else encoded(array, form)
    )
    np.testing.assert_array_equal(made, array.astype("float32"))


# R05
@pytest.mark.parametrize("dtype", [Float64, None])
def test_big_endian_input_becomes_native(dtype):
    for way in (as_input, as_output):
        made = way(Array[(2,), dtype], np.array([1.0, 2.0], ">f8"))
        assert made.dtype == np.dtype("<f8")
        np.testing.assert_array_equal(made, [1.0, 2.0])


def test_axes_of_length_one_are_broadcast():
    made = as_input(Array[(2, 3), Float64], [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(made, [[1, 2, 3], [1, 2, 3]])
    made[0] = 0  # not a view that repeats itself
    np.testing.assert_array_equal(made, [[0, 0, 0], [1, 2, 3]])


@given(
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.lists(st.none() | st.integers(0, 3), max_size=3).map(tuple),
)
def test_a_broadcast_shape_is_numpys(shape, expected):
    made = broadcast_shape(Array[expected, Float64], shape)
    if made is not None:
        assert np.broadcast_to(np.empty(shape), made).shape == made
        assert all(want in (None, got) for want, got in zip(expected, made, strict=True))


# R55
@pytest.mark.parametrize("value", [0.7, np.float32(0.7), np.array(0.7), True])
def test_a_field_without_axes_holds_a_number(value):
    made = as_input(Float32, value)
    assert isinstance(made, np.float32)
    assert made.shape == ()
    assert float(made) == np.float32(value)


# R48
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_zero_length_axes_are_allowed(shape):
    for value in (
        np.empty(shape),
        encoded(np.empty(shape), "json"),
        encoded(np.empty(shape), "base64"),
    ):
        assert as_input(Array[(None, None), Float64], value).shape == shape
    assert as_input(Array[(None,), Int32], []).dtype == np.int32


@pytest.mark.parametrize(
    "value",
    [None, "text", {"a": 1}, {1, 2}, [None, "x"], np.array(["a"]), np.array([object()]),
     np.array(["2020-01-01"], "M8[D]"), np.ma.masked_array([1.0], [True]), np.longdouble([1]),
     [[1], [2, 3]], b"bytes"],
)  # fmt: skip
def test_what_is_no_array_of_numbers_is_refused(value):
    for way in (as_input, as_output):
        with pytest.raises(ValidationError, match="expected Array"):
            way(Array[(None,), Float64], value)


def test_inputs_are_the_components_own():
    held = np.arange(3.0)
    made = as_input(Array[(None,), Float64], held)
    made *= 2
    np.testing.assert_array_equal(held, [0, 1, 2])
    assert as_output(Array[(None,), Float64], held) is held  # outputs are not copied for nothing


def test_anything_with_array_is_taken():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2], "int16")

    assert as_input(Array[(2,), Int32], Foreign()).dtype == np.int32


# ------------------------------------------------------------------- on disk


def test_a_stored_output_is_checked_by_metadata_and_not_read(tmp_path):
    stored = BinrefArray.write(np.zeros((2, 3)), output_path=tmp_path)
    (tmp_path / stored.path).unlink()
    assert as_output(Array[(None, 3), Float64], stored) is stored
    assert as_output(Array[..., None], stored) is stored


@pytest.mark.parametrize(
    "field", [Array[(None, 2), Float64], Array[(None,), Float64], Array[(2, 3), Float32], Array[..., Int8]]
)  # fmt: skip
def test_a_stored_output_is_never_cast_nor_broadcast(tmp_path, field):
    stored = BinrefArray.write(np.zeros((1, 3)), output_path=tmp_path)
    with pytest.raises(ValidationError, match="does not fit"):
        as_output(field, stored)


def test_a_stored_input_becomes_a_numpy_array(tmp_path):
    stored = BinrefArray.write(np.ones(3, "float32"), output_path=tmp_path)
    made = as_input(Array[(None,), Float64], stored)
    assert isinstance(made, np.ndarray)
    assert made.dtype == np.float64


def test_an_input_reference_is_read_from_the_input_path(tmp_path):
    stored = BinrefArray.write(np.arange(3.0), output_path=tmp_path)
    made = as_input(Array[(3,), Float64], wire.ref_to_json(stored.ref), tmp_path)
    made *= 2
    np.testing.assert_array_equal(made, [0, 2, 4])


@pytest.mark.parametrize(
    ("buffer", "words"),
    [("../a.bin:0", "leads outside"), ("/etc/passwd:0", "relative"), ("gone.bin:0", "does not exist"),
     ("a.bin:8", "holds 16 bytes"), ("file://a.bin", "relative"), (".:0", "leads outside|not a")],
)  # fmt: skip
def test_an_input_reference_that_cannot_be_followed_is_the_callers(tmp_path, buffer, words):
    (tmp_path / "in").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        (folder / "a.bin").write_bytes(bytes(16))
    value = {"shape": [2], "dtype": "float64", "data": {"buffer": buffer, "encoding": "binref"}}
    with pytest.raises(ValidationError, match=words):
        as_input(Array[(2,), Float64], value, tmp_path / "in")
    with pytest.raises(ValidationError, match="no input path"):
        as_input(Array[(2,), Float64], value)


def snapshots(folder, count=3, **more):
    with BinrefWriter(output_path=folder, **more) as writer:
        for number in range(count):
            writer.write(np.full((2, 2), number, float))
    return writer.trajectory()


def test_a_trajectory_stays_folded_in_the_components_own_model(tmp_path):
    class Inner(BaseModel):
        deep: dict[str, list[Array[..., Float64]]] | None = None

    class Out(BaseModel):
        plain: list[Array[(None, None), Float64]]
        nested: list[Inner] = []
        maybe: list[Differentiable[Array[(2, 2), Float64]]] | None = None
        labelled: Annotated[list[Array[..., None]], Labels(units="K")] = Field(min_length=1)

    models.prepare(Out, {})
    models.prepare(Out, {})  # loading twice changes nothing
    one = snapshots(tmp_path)
    made = Out(plain=one, nested=[Inner(deep={"a": one})], maybe=one, labelled=one)
    assert made.plain is one
    assert made.nested[0].deep["a"] is one
    assert made.maybe is one
    assert made.labelled is one
    with pytest.raises(ValidationError, match="at least 1"):
        Out(plain=one, labelled=one[:0])


def test_a_trajectory_in_a_model_nobody_prepared_is_a_list(tmp_path):
    class Out(BaseModel):
        x: list[Array[(None, None), Float64]]

    made = Out(x=snapshots(tmp_path))
    assert [type(each) for each in made.x] == [BinrefArray] * 3


def test_a_trajectory_that_does_not_fit_is_refused(tmp_path):
    one = snapshots(tmp_path)
    with pytest.raises(ValidationError, match="shape"):
        as_output(list[Array[(3, 3), Float64]], one)
    with pytest.raises(ValidationError, match="never cast"):
        as_output(list[Array[(2, 2), Float32]], one)
    with pytest.raises(ValidationError, match="declare list"):
        as_output(Array[(None, None, None), Float64], one)


def test_a_trajectory_of_blocks_is_no_output(tmp_path):
    one = snapshots(tmp_path, name="x", block=(slice(0, 2), slice(None)), shape=(4, 2))
    with pytest.raises(ValidationError, match="run directory"):
        as_output(list[Array[(2, 2), Float64]], one)


def test_references_to_one_block_of_a_field_are_no_output(tmp_path):
    one = snapshots(tmp_path, name="x", block=(slice(0, 2), slice(None)), shape=(4, 2))
    with pytest.raises(ValidationError, match=r"one block of a field of shape \(4, 2\)"):
        as_output(list[Array[(2, 2), Float64]], list(one))
    with pytest.raises(ValidationError, match="run directory"):
        as_output(Array[(2, 2), Float64], one[0])


def test_an_odd_reference_in_a_list_is_named_by_its_place(tmp_path):
    refs = [*snapshots(tmp_path), BinrefArray.write(np.zeros(3), output_path=tmp_path)]
    with pytest.raises(ValidationError) as caught:
        as_output(list[Array[(None, None), Float64]], refs)
    assert [fault["loc"] for fault in caught.value.errors()] == [("x", 3)]


def test_a_list_may_mix_memory_and_disk(tmp_path):
    refs = [np.zeros((1, 2)), *snapshots(tmp_path)]
    made = as_output(list[Array[(2, 2), Float64]], refs)
    assert [type(each) for each in made] == [np.ndarray] + [BinrefArray] * 3
    assert made[0].shape == (2, 2)


def test_lists_given_as_inputs_become_numpy_arrays(tmp_path):
    one = snapshots(tmp_path)
    for given_ in (one, list(one)):
        made = as_input(list[Array[(2, 2), Float64]], given_)
        assert [type(each) for each in made] == [np.ndarray] * 3


# ------------------------------------------------------------------- models


def test_defaults_are_arrays_too_and_never_shared():
    class Model(BaseModel):
        x: Array[(None,), Float64] = [1, 2]
        y: Array[(None,), Float64] = np.ones(2)

    models.prepare(Model, {})
    context = Reading("inputs").context()
    first, second = (Model.model_validate({}, context=context) for _ in range(2))
    first.x[:] = first.y[:] = 9
    np.testing.assert_array_equal(second.x, [1, 2])
    np.testing.assert_array_equal(second.y, [1, 1])


def test_unknown_fields_are_refused_unless_the_model_says_otherwise():
    class Open(BaseModel, extra="allow"):
        a: int = 1

    class Model(BaseModel):
        inner: Open = Open()

    models.prepare(Model, {})
    assert Model(inner={"b": 2}).inner.b == 2
    with pytest.raises(ValidationError, match="Extra inputs"):
        Model(stepz=3)


def test_models_that_contain_themselves_are_made_ready(tmp_path):
    class Tree(BaseModel):
        fields: list[Array[(2, 2), Float64]] = []
        children: "list[Tree]" = []

    models.prepare(Tree, {"Tree": Tree})
    one = snapshots(tmp_path)
    made = Tree(children=[Tree(fields=one)])
    assert made.children[0].fields is one


def test_paths_of_arrays_and_labels():
    class Layer(BaseModel):
        w: Differentiable[Array[(None,), Float64]]
        note: str = ""

    class Model(BaseModel):
        layers: list[Layer]
        named: dict[str, Annotated[Array[(), Float32], Labels(units="m")]] | None = None
        t: Annotated[list[Array[..., Float64]], Labels(dims=("time", "x"), units="K")]

    models.prepare(Model, {})
    assert [leaf.path for leaf in models.arrays(Model)] == ["layers.[].w", "named.{}", "t.[]"]
    assert models.labels(Model) == {
        "named.{}": Labels(units="m"),
        "t": Labels(dims=("time", "x"), units="K"),
    }
    assert models.field_order(Model) == {
        "": ["layers", "named", "t"],
        "layers.[]": ["w", "note"],
    }


def test_a_component_authors_own_dump_works(tmp_path):
    class Model(BaseModel):
        x: Array[(None,), Float64]
        y: list[Array[..., None]]
        z: Array[(), Float64] | Literal["none"] | None

    models.prepare(Model, {})
    model = Model(x=[1.0, np.inf], y=snapshots(tmp_path, count=1), z="none")
    assert isinstance(model.model_dump()["x"], np.ndarray)
    made = orjson.loads(model.model_dump_json())
    np.testing.assert_array_equal(wire.decode_inline(made["x"]), [1, np.inf])
    assert wire.ref_from_json(made["y"][0]).shape == (2, 2)
    assert made["z"] == "none"
    assert Model.model_validate_json(Model(x=[1.0], y=[], z=None).model_dump_json()).x == [1.0]


def test_the_json_schema_names_shapes_dtypes_and_encodings():
    found = model_of(Differentiable[Array[(None, 3), Float64]]).model_json_schema()
    field = found["properties"]["x"]
    assert field["properties"]["shape"]["prefixItems"] == [
        {"type": "integer", "minimum": 0},
        {"type": "integer", "enum": [1, 3]},
    ]
    assert "float32" in field["properties"]["dtype"]["enum"]
    assert "complex64" not in field["properties"]["dtype"]["enum"]
    assert field["array_flags"] == ["DIFFERENTIABLE"]


# ------------------------------------------------------------------- abstract


def abstract(annotation, value):
    return (
        model_of(annotation).model_validate({"x": value}, context=Reading("abstract").context()).x
    )


def test_abstract_fields_hold_shape_and_dtype():
    field = Array[(None, 3), Float64]
    assert abstract(field, {"shape": [2, 3], "dtype": "float32"}) == ShapeDType(
        shape=(2, 3), dtype="float64"
    )
    assert abstract(field, encoded(np.zeros((2, 3)), "base64")).shape == (2, 3)
    assert abstract(list[Array[..., None]], [{"shape": [], "dtype": "int8"}])[0].dtype == "int8"


@pytest.mark.parametrize(
    "value",
    [
        {"shape": [2], "dtype": "float64"}, {"shape": [2, 1], "dtype": "float64"},
        {"shape": [2, -3], "dtype": "float64"}, {"shape": [2, 3], "dtype": "complex64"},
        {"shape": [2, 3], "dtype": "text"}, {"shape": [2, 3]}, None, "x",
    ],
)  # fmt: skip
def test_an_abstract_field_refuses_what_apply_would(value):
    with pytest.raises(ValidationError):
        abstract(Array[(None, 3), Float64], value)


def test_a_shape_dtype_annotation_checks():
    class Model(RootModel[ShapeDType[(None, 3), Float64]]):
        pass

    assert Model({"shape": (1, 3), "dtype": "float16"}).root.dtype == "float64"
    for bad in ({"shape": (1, 2), "dtype": "float64"}, {"shape": (1, 3), "dtype": "complex64"}):
        with pytest.raises(ValidationError):
            Model(bad)


# ------------------------------------------------------------------- typing


@pytest.mark.long
def test_a_strict_type_checker_takes_the_annotations(tmp_path):
    (tmp_path / "component.py").write_text(
        textwrap.dedent(
            """
            from typing import Annotated
            import numpy as np
            from pydantic import BaseModel
            from binref_sci.runtime import Array, Differentiable, Float64, Labels, ShapeDType

            class InputSchema(BaseModel):
                x: Differentiable[Array[(None, 3), Float64]]
                y: Array[..., None] | None = None

            class OutputSchema(BaseModel):
                t: Annotated[list[Array[(None, None), Float64]], Labels(units="K")]

            def apply(inputs: InputSchema) -> OutputSchema:
                return OutputSchema(t=[np.asarray(inputs.x)])
            """
        )
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "component.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(Path(binref_sci.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
