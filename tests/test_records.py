"""Arrays in what is no model: typed dicts, dataclasses, named tuples."""

import numpy as np
import pytest

from binref_sci import Tesseract
from binref_sci.errors import ComponentError, PayloadError
from binref_sci.runtime import models
from binref_sci.runtime.checking import check_gradients
from binref_sci.runtime.component import Component
from tests.components import component

RECORDS = """
import dataclasses
from typing import Annotated, NamedTuple, NotRequired
import numpy as np
from pydantic import BaseModel
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict
from binref_sci.runtime import *
import binref_sci.runtime as runtime

Vector = Differentiable[Array[(None,), Float64]]

class Inside(BaseModel):
    w: Vector

class Typed(TypedDict):
    w: Vector
    more: NotRequired[Vector]

@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Annotated[Vector, Labels(dims=("x",), units="K")]
    itself: "Frozen | None" = None

@dataclass
class Checked:
    w: Vector
    inside: Inside
    steps: int = 2

class Named(NamedTuple):
    n: int
    w: Vector

class InputSchema(BaseModel):
    typed: Typed
    frozen: Frozen
    checked: Checked
    named: Named
    many: list[Typed] = []
    by_name: dict[str, Frozen] = {}

class OutputSchema(BaseModel):
    y: Vector
    back: Frozen

def vectors(inputs):
    yield inputs.typed["w"]
    yield from (each for each in [inputs.typed.get("more")] if each is not None)
    yield inputs.frozen.w
    yield inputs.checked.w
    yield inputs.checked.inside.w
    yield inputs.named.w
    yield from (each["w"] for each in inputs.many)
    yield from (each.w for each in inputs.by_name.values())

def apply(inputs):
    assert type(inputs.frozen) is Frozen and type(inputs.checked) is Checked
    assert type(inputs.named) is Named and type(inputs.typed) is dict
    y = sum((number + 1) * each**2 for number, each in enumerate(vectors(inputs)))
    return OutputSchema(y=y, back=Frozen(w=3 * inputs.frozen.w))

def jacobian(inputs, jac_inputs, jac_outputs):
    return finite_difference_jacobian(apply, inputs, jac_inputs, jac_outputs)

def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return jvp_from_jacobian(jacobian, inputs, jvp_inputs, jvp_outputs, tangent_vector)

def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    return vjp_from_jacobian(jacobian, inputs, vjp_inputs, vjp_outputs, cotangent_vector)
"""
W = {"w": [1.0, 2.0]}
INPUTS = {
    "typed": {**W, "more": [0.5, 0.25]},
    "frozen": W,
    "checked": {**W, "inside": W},
    "named": [3, [1.0, 2.0]],
    "many": [W, W],
    "by_name": {"a": W},
}
PATHS = {
    "typed.w": 1, "typed.more": 2, "frozen.w": 3, "checked.w": 4, "checked.inside.w": 5,
    "named.[1]": 6, "many.[0].w": 7, "many.[1].w": 8, "by_name.{a}.w": 9,
}  # fmt: skip


@pytest.fixture(params=["", "from __future__ import annotations"])
def folder(tmp_path, request):
    return component(tmp_path / "component", request.param + RECORDS)


def test_their_differentiable_arrays_are_found(folder):
    loaded = Component.load(folder)
    assert set(models.differentiable(loaded.input_schema)) == {
        "typed.w", "typed.more", "frozen.w", "checked.w", "checked.inside.w", "named.[]",
        "many.[].w", "many.[].more", "by_name.{}.w",
    }  # fmt: skip
    assert set(models.differentiable(loaded.output_schema)) == {"y", "back.w"}
    assert models.labels(loaded.output_schema)["back.w"].dims == ("x",)


def test_their_arrays_have_derivatives(folder):
    sim = Tesseract.from_tesseract_api(folder)
    out = sim.apply(INPUTS)
    np.testing.assert_array_equal(out["back"]["w"], [3.0, 6.0])
    made = sim.jacobian(INPUTS, list(PATHS), ["y", "back.w"])
    for path, weight in PATHS.items():
        at = np.array([0.5, 0.25] if path == "typed.more" else [1.0, 2.0])
        np.testing.assert_allclose(made["y"][path], np.diag(2 * weight * at), atol=1e-6)
        factor = 3.0 if path == "frozen.w" else 0.0
        np.testing.assert_allclose(made["back.w"][path], factor * np.eye(2), atol=1e-6)
    with pytest.raises(PayloadError, match=r"checked\.steps.*there are|'checked\.steps'"):
        sim.jacobian(INPUTS, ["checked.steps"], ["y"])


def test_their_gradients_are_checked(folder, tmp_path):
    made = list(check_gradients(Component.load(folder), {"inputs": INPUTS}, folder=tmp_path))
    assert {each.path for each in made} == {*PATHS, "(all)"}
    assert all(each.agrees for each in made)


def test_models_in_them_refuse_what_they_do_not_know(folder):
    wrong = {**INPUTS, "checked": {**W, "inside": {**W, "odd": 1}}}
    with pytest.raises(PayloadError, match="odd"):
        Tesseract.from_tesseract_api(folder).apply(wrong)


OUTPUTS = """
import dataclasses
import numpy as np
from pydantic import BaseModel
from binref_sci.runtime import Array, Float64

@dataclasses.dataclass
class Layer:
    w: Array[(2,), Float64]
    n: int = dataclasses.field(init=False, default=1)

class InputSchema(BaseModel):
    w: list
    as_dict: bool

class OutputSchema(BaseModel):
    one: Layer
    many: list[Layer] = []

def apply(inputs):
    made = Layer(w=inputs.w), [Layer(w=np.array(inputs.w))]
    return dict(zip(("one", "many"), made)) if inputs.as_dict else OutputSchema(one=made[0], many=made[1])
"""


@pytest.mark.parametrize("as_dict", [False, True])
def test_arrays_in_dataclasses_of_outputs_are_held_against_the_schema(tmp_path, as_dict):
    sim = Tesseract.from_tesseract_api(component(tmp_path / "component", OUTPUTS))
    out = sim.apply({"w": [1, 2], "as_dict": as_dict})
    for layer in (out["one"], *out["many"]):
        np.testing.assert_array_equal(layer["w"], np.array([1.0, 2.0]), strict=True)
    for wrong in ([1.0, 2.0, 3.0], ["a", "b"]):
        with pytest.raises(ComponentError, match=r"does not fit OutputSchema.*w"):
            sim.apply({"w": wrong, "as_dict": as_dict})
