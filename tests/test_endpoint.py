"""Calls of a component, from the payload to the response, without HTTP."""

import itertools
import os
import sys
import textwrap
import threading
import types
import uuid
import warnings

import httpcore  # noqa: F401  # else httpx imports it in a test, and again after its removal
import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binref_sci import BinrefArray, Trajectory, wire
from binref_sci.errors import (
    BinrefError,
    BufferNotFoundError,
    ComponentError,
    FormatError,
    PayloadError,
)
from binref_sci.runtime import endpoint, experimental
from binref_sci.runtime.component import Component
from binref_sci.runtime.run import RunDirectory
from tests.decoding import decode
from tests.policy import FULL

FORMATS = ["json", "json+base64", "json+binref"]

HEAD = """
    from typing import Annotated, Any
    import numpy as np
    from pydantic import BaseModel
    from binref_sci.runtime import *
    from binref_sci.runtime.experimental import BinrefArray, BinrefWriter
"""

PASSTHROUGH = """
    class InputSchema(BaseModel):
        x: Array[..., None] = 0.0
        y: Array[..., None] = 0.0
        z: Array[..., None] = 0.0

    class OutputSchema(BaseModel):
        x: Array[..., None]
        y: Array[..., None]
        z: Array[..., None]

    def apply(inputs):
        return inputs.model_dump()
"""

STREAMING = """
    class InputSchema(BaseModel):
        size: int = 2
        steps: int = 3

    class OutputSchema(BaseModel):
        trajectory: Annotated[
            list[Array[(None, None), Float64]], Labels(dims=("time", "y", "x"), units="K")
        ]
        final: Array[(None, None), Float64]

    writers = []

    def apply(inputs: InputSchema) -> OutputSchema:
        writer = BinrefWriter("trajectory")
        writers.append(writer)
        for step in range(inputs.steps):
            writer.write(np.full((inputs.size, inputs.size), step, float))
        return OutputSchema(
            trajectory=writer.trajectory(), final=np.ones((inputs.size, inputs.size))
        )

    def abstract_eval(abstract):
        field = ShapeDType(shape=(abstract.size, abstract.size), dtype="float64")
        return {"trajectory": [field] * abstract.steps, "final": field}
"""


@pytest.fixture(autouse=True)
def _imports_are_restored():
    modules, path = set(sys.modules), sys.path[:]
    yield
    for name in set(sys.modules) - modules:
        if not name.startswith("binref_sci"):
            del sys.modules[name]
    sys.path[:] = path


def made_of(folder, body, name="tesseract_api.py", **others):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(HEAD) + textwrap.dedent(body))
    for other, content in others.items():
        (folder / f"{other}.py").write_text(textwrap.dedent(content))
    return folder


def loaded(folder, body, **others):
    return Component.load(made_of(folder, body, **others))


def call(component, inputs, folder, name="apply", **more):
    run = more.pop("run", None) or RunDirectory.new(folder)
    payload = inputs if isinstance(inputs, bytes) else {"inputs": inputs}
    return endpoint.call(component, name, payload, run=run, **more)


def quietly(*args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return call(*args, **more)


def encoded(array, encoding, folder=None):
    if encoding == "list":
        return array.tolist()
    if encoding == "binref":
        return wire.ref_to_json(BinrefArray.write(array, output_path=folder).ref)
    return orjson.loads(b"".join(wire.array_pieces(array, encoding)))


def told(run):
    return orjson.loads((run.path / "run.json").read_bytes())


# ------------------------------------------------------------------- calling


@pytest.mark.parametrize("form", FORMATS)
def test_a_streamed_trajectory_comes_back(tmp_path, form):
    component = loaded(tmp_path / "c", STREAMING)
    response = quietly(component, {"steps": 4}, tmp_path / "out", output_format=form)
    assert response.media_type == f"application/{form}"
    found = decode(response.body(), directory=tmp_path / "out")
    assert [float(each[0, 0]) for each in found["trajectory"]] == [0, 1, 2, 3]
    np.testing.assert_array_equal(found["final"], np.ones((2, 2)))
    assert isinstance(response.value.trajectory, Trajectory)


def test_a_run_directory_opens_by_itself_after_a_move(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    response = call(component, {}, tmp_path / "out", output_format="json+binref")
    assert f"run_{response.run.run_id}/".encode() in response.body()
    moved = response.run.path.rename(tmp_path / "moved")
    found = decode((moved / "results.json").read_bytes(), directory=moved, lazy=True)
    assert found["trajectory"][2][0, 0] == 2
    np.testing.assert_array_equal(found["final"].load(), np.ones((2, 2)))


def test_writers_of_a_call_are_closed_before_the_response(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    response = call(component, {}, tmp_path / "out", output_format="json+binref")
    (journal,) = response.run.path.glob("trajectory*.jsonl")
    assert orjson.loads(journal.read_bytes().splitlines()[-1]) == {"end": {"count": 3}}
    with pytest.raises(BinrefError):
        component.module.writers[0].write(np.zeros((2, 2)))


def test_run_json_tells_what_was_called_and_how_it_ended(tmp_path):
    component = loaded(tmp_path / "heat", STREAMING)
    first = quietly(component, {}, tmp_path / "out")
    facts = told(first.run)
    assert facts["state"] == "complete"
    assert facts["component"] == "heat"
    assert facts["endpoint"] == "apply"
    assert facts["run_id"] == first.run.run_id
    assert facts["labels"]["trajectory"]["attrs"] == {"units": "K"}
    assert facts["started"] <= facts["ended"]
    second = quietly(component, b'{"inputs": {"steps": 3}}', tmp_path / "out")
    third = quietly(component, {"steps": 2}, tmp_path / "out")
    assert told(second.run)["inputs_digest"] == facts["inputs_digest"]
    assert told(third.run)["inputs_digest"] != facts["inputs_digest"]
    assert not (first.run.path / "results.json").exists()


def test_run_json_says_running_while_it_runs(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        import json
        from binref_sci import output_path
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel): state: str
        def apply(inputs):
            return {"state": json.loads((output_path() / "run.json").read_text())["state"]}
        """,
    )
    assert call(component, {}, tmp_path / "out").value.state == "running"


def test_rerunning_into_a_folder_keeps_what_is_there(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    runs = [RunDirectory(tmp_path / "out") for _ in range(3)]
    for steps, run in enumerate(runs, start=1):
        call(component, {"steps": steps}, None, run=run, output_format="json+binref")
    folder = tmp_path / "out"
    names = ["results.json", *(f"results-{run.run_id}.json" for run in runs[:2])]
    counts = [
        len(decode((folder / name).read_bytes(), directory=folder)["trajectory"]) for name in names
    ]
    assert counts == [3, 1, 2]
    assert runs[0].prefix == ""


def test_a_folder_takes_one_call_at_a_time(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        import threading
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel): pass
        begun, over = threading.Event(), threading.Event()
        def apply(inputs):
            begun.set()
            over.wait(30)
            return {}
        """,
    )
    folder = tmp_path / "out"
    first = threading.Thread(
        target=call, args=(component, {}, None), kwargs={"run": RunDirectory(folder)}
    )
    first.start()
    component.module.begun.wait(30)
    with pytest.raises(PayloadError, match=r"another call is running in .*out"):
        call(component, {}, None, run=RunDirectory(folder))
    component.module.over.set()
    first.join()
    assert told(call(component, {}, None, run=RunDirectory(folder)).run)["state"] == "complete"


def test_a_payload_that_does_not_fit_leaves_no_folder(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    with pytest.raises(PayloadError):
        call(component, {"steps": "many"}, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


# R14
@pytest.mark.parametrize(
    "run_id", ["../x", "", ".", "..", "a/b", ".hidden", "x" * 129, "a\0", "a\n"]
)
def test_a_run_id_that_is_no_name_is_refused(tmp_path, run_id):
    if run_id:
        with pytest.raises(PayloadError, match="run_id"):
            RunDirectory.new(tmp_path, run_id)
        with pytest.raises(PayloadError, match="run_id"):
            RunDirectory(tmp_path / "run", run_id=run_id)
    assert not list(tmp_path.iterdir())


# R63
@pytest.mark.parametrize("form", FORMATS)
def test_input_encodings_mix_freely_whatever_the_output(tmp_path, form):
    component = loaded(tmp_path / "c", PASSTHROUGH)
    array = np.arange(6.0).reshape(2, 3)
    for encodings in itertools.permutations(["binref", "base64", "list", "json"], 3):
        inputs = {
            name: encoded(array, encoding, tmp_path / "in")
            for name, encoding in zip("xyz", encodings, strict=True)
        }
        payload = orjson.dumps({"inputs": inputs})
        response = call(
            component, payload, tmp_path / "out", output_format=form, input_path=tmp_path / "in"
        )
        found = decode(response.body(), directory=tmp_path / "out")
        for name in "xyz":
            np.testing.assert_array_equal(found[name], array)


# R01, R05, R39, R47, R48, R55
ARRAYS = [
    np.array([np.nan, np.inf, -np.inf, 1.5]),
    np.array([1.0, 2.0], ">f8"),
    np.array([[1, 2, 3], [4, 5, 6]], "int32", order="F"),
    np.array([1 + 2j, -0.5j, complex(np.nan, 1)]),
    np.empty((0, 3)),
    np.empty((2, 0)),
    np.array(0.7, "float32"),
    np.array([2**64 - 1, 1], "uint64"),
    np.array([True, False]),
    np.array([0.5, np.inf], "float16"),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.name}{array.shape}")
@pytest.mark.parametrize("given_as", ["numpy", "json", "base64", "binref"])
def test_arrays_pass_through_unchanged(tmp_path, array, form, given_as):
    component = loaded(tmp_path / "c", PASSTHROUGH)
    given_ = array if given_as == "numpy" else encoded(array, given_as, tmp_path / "in")
    response = call(
        component, {"x": given_}, tmp_path / "out", output_format=form, input_path=tmp_path / "in"
    )
    body = response.body()
    assert not {b"NaN", b"Infinity,"} & set(body.split())
    found = decode(body, directory=tmp_path / "out")["x"]
    assert (found.dtype.name, found.shape) == (array.dtype.name, array.shape)
    np.testing.assert_array_equal(found, array)


def test_stored_bytes_are_little_endian_and_c_ordered(tmp_path):
    component = loaded(tmp_path / "c", PASSTHROUGH)
    inputs = {"x": ARRAYS[1], "y": ARRAYS[2]}
    response = call(component, inputs, tmp_path / "out", output_format="json+binref")
    found = decode(response.body(), directory=tmp_path / "out", lazy=True)
    raw = {
        name: (tmp_path / "out" / found[name].path).read_bytes()[found[name].offset :]
        for name in "xy"
    }
    assert raw["x"][:8] == bytes.fromhex("000000000000f03f")
    assert np.frombuffer(raw["y"][:24], "<i4").tolist() == [1, 2, 3, 4, 5, 6]
    assert found["y"][1].tolist() == [4, 5, 6]


# R61
def test_a_component_may_write_into_its_inputs(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        class InputSchema(BaseModel):
            x: Array[(None,), Float64] = np.ones(3)
        class OutputSchema(BaseModel):
            x: Array[(None,), Float64]
        def apply(inputs):
            inputs.x *= 2
            return {"x": inputs.x}
        """,
    )
    array = np.ones(3)
    for given_ in (
        array,
        *(encoded(array, each, tmp_path / "in") for each in ("list", "json", "base64", "binref")),
    ):
        found = call(component, {"x": given_}, tmp_path / "out", input_path=tmp_path / "in").value.x
        np.testing.assert_array_equal(found, [2, 2, 2])
    for _ in range(2):
        np.testing.assert_array_equal(call(component, {}, tmp_path / "out").value.x, [2, 2, 2])
    np.testing.assert_array_equal(array, [1, 1, 1])


def test_abstract_eval_deals_in_shapes_and_dtypes(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    body = call(component, {"size": 5, "steps": 2}, tmp_path / "out", "abstract_eval").body()
    field = {"shape": [5, 5], "dtype": "float64"}
    assert orjson.loads(body) == {"trajectory": [field, field], "final": field}


# ------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("payload", "loc", "words"),
    [
        (b'{"inputs": {"steps": 1, "siez": 2}}', ["inputs", "siez"], "Extra"),
        (b'{"inputs": {"steps": "x"}}', ["inputs", "steps"], "integer"),
        (b'{"inputs": {}, "more": 1}', ["more"], "Extra"),
        (b"{}", ["inputs"], "required"),
        (b"[]", [], "dictionary"),
        (b"", [0], "not valid JSON"),
        (b'{"inputs": NaN}', [11], "not valid JSON"),
        (b'{"inputs": {"steps": 1}} x', [25], "not valid JSON"),
        (b"\xff", [0], "not valid JSON"),
        (b"[" * 100_000, [], "not valid JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_the_callers_mistake(tmp_path, payload, loc, words):
    component = loaded(tmp_path / "c", STREAMING)
    with pytest.raises(PayloadError, match=words) as caught:
        call(component, payload, tmp_path / "out")
    (entry,) = caught.value.errors
    assert entry.keys() == {"loc", "msg", "type"}
    if loc:
        assert entry["loc"] == loc
    orjson.dumps(entry)


@pytest.mark.parametrize(
    "buffer", ["../secret.bin:0", "/etc/passwd:0", "gone.bin:0", "short.bin:8"]
)
def test_an_input_reference_that_cannot_be_followed_is_the_callers_mistake(tmp_path, buffer):
    component = loaded(tmp_path / "c", PASSTHROUGH)
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (tmp_path / "in" / "short.bin").write_bytes(bytes(16))
    value = {"shape": [2], "dtype": "float64", "data": {"buffer": buffer, "encoding": "binref"}}
    for input_path in (tmp_path / "in", None):
        with pytest.raises(PayloadError) as caught:
            call(component, {"x": value}, tmp_path / "out", input_path=input_path)
        assert caught.value.errors[0]["loc"] == ["inputs", "x"]


def test_an_endpoint_that_is_not_there_is_the_callers_mistake(tmp_path):
    component = loaded(tmp_path / "c", PASSTHROUGH)
    with pytest.raises(PayloadError, match=r"has no endpoint 'abstract_eval'; it has apply"):
        call(component, {}, tmp_path / "out", "abstract_eval")


def test_an_unknown_format_is_refused_before_the_component_runs(tmp_path):
    component = loaded(tmp_path / "c", STREAMING)
    with pytest.raises(FormatError, match="xml"):
        call(component, {}, tmp_path / "out", output_format="xml")
    assert not component.module.writers


FAULTY = """
    class InputSchema(BaseModel):
        what: str
    class Inner(BaseModel):
        w: Array[(2,), Float64] = [0, 0]
    class OutputSchema(BaseModel):
        x: Array[(2,), Float64] = [0, 0]
        inner: Inner = Inner()
        many: list[Array[(2,), Float64]] = []
        anything: Any = None
    def apply(inputs):
        return eval(inputs.what)
"""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("exit(0)", "SystemExit: 0"),
        (r"open('no file \udcff')", "no file"),
        (r"{'x': '\udcff'}", "not a number"),
        ("OutputSchema(x=[1, 2, 3])", r"shape \(3,\)"),
        ("{'x': [1, 2, 3]}", r"x: shape \(3,\)"),
        ("{'x': ['a', 1]}", "x: not a number"),
        ("{'many': [[1, 2], [3, 4, 5]]}", r"many\.1: shape \(3,\)"),
        ("{'xx': [1, 2]}", "xx: Extra"),
        ("None", "has returned nothing"),
        ("3", "dictionary"),
        ("OutputSchema.model_construct(x=np.zeros(3))", r"x: shape \(3,\)"),
        ("OutputSchema(inner=Inner.model_construct(w=np.zeros(3)))", r"shape \(3,\)"),
        (
            "{'x': {'shape': [2], 'dtype': 'float64', 'data': {'buffer': 'a.bin:0', 'encoding': 'binref'}}}",
            "x: ",
        ),
        ("{'x': np.array([object(), 1])}", "x: "),
        ("{'anything': object()}", "JSON"),
        ("{'anything': np.array([object()])}", "object"),
        ("{'anything': 2**70}", "JSON|64-bit"),
        ("BinrefArray.from_file('gone.bin', (2,), 'float64')", "gone.bin"),
        ("{'x': BinrefWriter('x').write(np.zeros(3))}", r"x: shape \(3,\)"),
        ("__import__('binref_sci').errors.PayloadError('mine')", "dictionary"),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_what_a_component_does_wrong_is_its_own_failure(tmp_path, what, words, form):
    component = loaded(tmp_path / "c", FAULTY)
    run = RunDirectory.new(tmp_path / "out")
    with pytest.raises(ComponentError, match=words) as caught:
        call(component, {"what": what}, None, run=run, output_format=form)
    assert caught.value.__cause__ is not None
    assert "component 'c'" in str(caught.value) or "JSON" in str(caught.value)
    facts = told(run)
    assert facts["state"] == "failed"
    assert facts["ended"]
    assert not (run.path / "results.json").exists()


def test_a_payload_error_inside_a_component_is_not_the_callers(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        from binref_sci.errors import PayloadError
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel): pass
        def apply(inputs): raise PayloadError("mine")
        """,
    )
    with pytest.raises(ComponentError, match="PayloadError: mine"):
        call(component, {}, tmp_path / "out")


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("return {'who': 'child'}", 0),
        ("sys.exit(5)", 5),
        ("sys.exit()", 0),
        ("raise ValueError('in the child')", 1),
    ],
)
def test_a_forked_child_gives_no_answer(tmp_path, end, status):
    component = loaded(
        tmp_path / "c",
        f"""
        import os, sys
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel):
            who: str
        def apply(inputs):
            writer = BinrefWriter("u")
            writer.write([1.0])
            child = os.fork()
            if not child:
                writer.write([2.0])
                {end}
            return {{"who": f"parent of {{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}}"}}
        """,
    )
    parent = os.getpid()
    try:
        response = call(component, {}, tmp_path / "out")
    finally:
        if os.getpid() != parent:
            os._exit(77)
    assert response.value.who == f"parent of {status}"
    assert told(response.run)["state"] == "complete"


def test_an_interrupt_is_passed_on_and_noted(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel): pass
        def apply(inputs): raise KeyboardInterrupt
        """,
    )
    run = RunDirectory.new(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        call(component, {}, None, run=run)
    assert told(run)["state"] == "failed"


def test_a_result_whose_buffer_is_gone_is_forwarded_but_cannot_be_inlined(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        class InputSchema(BaseModel): pass
        class OutputSchema(BaseModel):
            x: Array[(2,), Float64]
        def apply(inputs):
            made = BinrefArray.write(np.zeros(2))
            (made.directory / made.path).unlink()
            return {"x": made}
        """,
    )
    call(component, {}, tmp_path / "out", output_format="json+binref")
    with pytest.raises(ComponentError, match="does not exist") as caught:
        call(component, {}, tmp_path / "out", output_format="json")
    assert isinstance(caught.value.__cause__, BufferNotFoundError)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["../../etc/passwd:0", "a.bin:0", "a.bin:-1", "AAAA", "lz4", "float64"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["inputs", "x", "y", "z", "object_type", "shape", "dtype", "data", "buffer", "encoding", "compression"]
        ),
        inner | st.sampled_from(["array", "json", "base64", "binref", "int8"]),
        max_size=6,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=3000 if FULL else 100,
)
@given(value=json_values, wrap=st.booleans(), form=st.sampled_from(FORMATS))
def test_whatever_is_sent_is_an_answer_or_the_callers_mistake(tmp_path, value, wrap, form):
    component = _passthrough(tmp_path)
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "a.bin").write_bytes(bytes(64))
    payload = {"inputs": {"x": value}} if wrap else value
    try:
        text = orjson.dumps(payload)
    except TypeError:
        return  # an integer that no JSON parser here would give
    run = RunDirectory.new(tmp_path / "out")
    entries = None
    try:
        response = endpoint.call(
            component, "apply", text, run=run, output_format=form, input_path=tmp_path / "in"
        )
    except PayloadError as error:
        entries = error.errors
    if entries is None:
        decode(response.body(), directory=tmp_path / "out")
    else:
        assert entries
        assert all(entry.keys() == {"loc", "msg", "type"} for entry in entries)


def _passthrough(tmp_path, kept={}):  # noqa: B006  # loaded once a test
    return kept.setdefault(
        tmp_path, loaded(tmp_path / "c", PASSTHROUGH) if tmp_path not in kept else None
    )


# ------------------------------------------------------------------- loading


def test_a_component_is_found_by_folder_file_name_and_module(tmp_path, monkeypatch):
    name = f"component_{uuid.uuid4().hex}"
    folder = made_of(tmp_path / "heat", STREAMING)
    made_of(tmp_path / "lib", STREAMING, name=f"{name}.py")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    module = types.ModuleType("handmade")
    exec(textwrap.dedent(HEAD + STREAMING), vars(module))
    for target, expected in (
        (folder, "heat"),
        (str(folder), "heat"),
        (folder / "tesseract_api.py", "heat"),
        (name, name),
        (tmp_path / "lib" / f"{name}.py", name),
        (module, "handmade"),
    ):
        component = Component.load(target)
        assert component.name == expected
        assert component.endpoints == ("apply", "abstract_eval")
        assert quietly(component, {}, tmp_path / "out").value.final.shape == (2, 2)


@pytest.mark.parametrize(
    ("target", "words"),
    [("wave", "does not exist.*the module of this name that Python has .* is no component"),
     ("gone", "does not exist"), ("gone/away.py", "does not exist"), ("empty", "has no tesseract_api.py"),
     ("binref_sci.gone", "does not exist"), ("readme.txt", "not a Python file"), ("", "does not exist|has no")],
)  # fmt: skip
def test_a_component_that_is_not_there_is_the_callers_mistake(tmp_path, monkeypatch, target, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "readme.txt").touch()
    with pytest.raises(PayloadError, match=words):
        Component.load(target)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "has no 'InputSchema'"),
        ("class InputSchema(BaseModel): pass", "has no 'OutputSchema'"),
        ("InputSchema = OutputSchema = dict", "pydantic"),
        ("class InputSchema(BaseModel): pass\nclass OutputSchema(BaseModel): pass", "no function 'apply'"),
        ("import not_there_at_all", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("class InputSchema(BaseModel): x: np.ndarray", r"numpy\.ndarray.*an array as Array\["),
        ("class InputSchema(BaseModel): x: Array", r"\.Array.*an array as Array\["),
        ("def", "SyntaxError"),
        ("class InputSchema(BaseModel):\n    x: 'Gone'\nclass OutputSchema(BaseModel): pass\ndef apply(i): pass",
         "Gone"),
    ],
)  # fmt: skip
def test_a_component_that_cannot_be_loaded_says_why(tmp_path, body, words):
    with pytest.raises(ComponentError, match=words):
        loaded(tmp_path / "c", body)


@pytest.mark.parametrize("place", ["file", "file/inside", "s3://bucket/runs"])
def test_a_run_directory_is_made_where_no_file_is(tmp_path, place):
    (tmp_path / "file").touch()
    folder = place if "://" in place else tmp_path / place
    for make in (RunDirectory, RunDirectory.new):
        with pytest.raises(FormatError, match=r"there is a file of this name|is a URL"):
            make(folder)


COUNTING = """
    import helper
    class InputSchema(BaseModel): pass
    class OutputSchema(BaseModel):
        who: str
    def apply(inputs): return {"who": helper.WHO}
"""


def test_components_with_equal_names_never_mix(tmp_path):
    one = loaded(tmp_path / "one", COUNTING, helper="WHO = 'one'")
    two = loaded(tmp_path / "two", COUNTING, helper="WHO = 'two'")
    again = Component.load(tmp_path / "one")
    results = {}

    def run(component, name):
        results[name] = call(component, {}, tmp_path / "out").value.who

    threads = [
        threading.Thread(target=run, args=(component, name))
        for name, component in (("one", one), ("two", two), ("again", again))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"one": "one", "two": "two", "again": "one"}
    assert one.module is not two.module
    assert one.input_schema is not two.input_schema


def test_an_edited_component_is_loaded_anew(tmp_path):
    first = loaded(tmp_path / "c", COUNTING, helper="WHO = 'x'")
    second = loaded(tmp_path / "c", COUNTING.replace("helper.WHO", "'edited'"), helper="WHO = 'x'")
    assert call(first, {}, tmp_path / "out").value.who == "x"
    assert call(second, {}, tmp_path / "out").value.who == "edited"


def test_an_edit_of_the_same_size_within_a_second_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for who in "abc":
        folder = made_of(tmp_path / "c", COUNTING.replace("helper.WHO", repr(who)), helper="")
        os.utime(folder / "tesseract_api.py", (10**9, 10**9))
        found = call(Component.load(folder), {}, tmp_path / "out").value.who
        assert found == who


# R33
@pytest.mark.filterwarnings("ignore:.*are read into memory:RuntimeWarning")
def test_two_components_in_one_process_write_only_where_each_was_told(tmp_path):
    one = loaded(tmp_path / "one", STREAMING)
    two = loaded(tmp_path / "two", STREAMING)
    faults = []

    def work(component, folder, form, steps):
        try:
            for _ in range(10):
                # not quietly(): catch_warnings is not safe in threads
                response = call(component, {"steps": steps}, folder, output_format=form)
                found = decode(response.body(), directory=folder)
                assert len(found["trajectory"]) == steps
                assert response.run.path.is_relative_to(folder)
        except BaseException as error:
            faults.append(error)

    threads = [
        threading.Thread(target=work, args=arguments)
        for arguments in (
            (one, tmp_path / "a", "json+binref", 3),
            (two, tmp_path / "b", "json", 4),
            (two, tmp_path / "d", "json+binref", 5),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    for folder in "abd":
        assert len(list((tmp_path / folder).glob("run_*"))) == 10


# ------------------------------------------------------------------- what is misspelled

MISSPELT = """
    from typing import Literal
    from pydantic import Field
    class Layer(BaseModel):
        kind: Literal["layer"] = "layer"
        weight: int = 0
    class Plate(BaseModel):
        kind: Literal["plate"]
        height: int = 0
    class InputSchema(BaseModel):
        steps: int = 3
        field: Differentiable[Float64] = 0.0
        layers: list[Layer] = []
        named: dict[str, Layer] = {}
        either: Annotated[Layer | Plate, Field(discriminator="kind")] = Layer()
        any: Plate | list[Layer] = []
        short: int = Field(0, validation_alias="quiteLong")
    class OutputSchema(BaseModel):
        result: Differentiable[Float64]
    def apply(inputs): return {"resutl": 1}
    def jacobian(inputs, jac_inputs, jac_outputs): return {}
"""


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("apply", {"inputs": {"stepz": 1}}, "inputs.stepz: .*did you mean 'steps'"),
        ("apply", {"inputs": {"qwx": 1}}, "there are 'steps', 'field', .*'quiteLong'$"),
        ("apply", {"inputs": {"layers": [{"wieght": 1}]}}, "layers.0.wieght: .*mean 'weight'"),
        ("apply", {"inputs": {"named": {"a": {"wieght": 1}}}}, "did you mean 'weight'"),
        ("apply", {"inputs": {"either": {"kind": "plate", "heigth": 1}}}, "did you mean 'height'"),
        ("apply", {"inputs": {"any": [{"weigth": 1}]}}, "did you mean 'weight'"),
        ("apply", {"inputs": {"quitelong": 1}}, "did you mean 'quiteLong'"),
        ("apply", {"input": {}}, "input: .*did you mean 'inputs'"),
        ("apply", {"steps": 1}, r'an object with inputs: {"inputs": {...}};.*{"steps": ...}}'),
        ("apply", {"inputs": {}, "steps": 1}, r'it belongs into the inputs: {"inputs": {"steps"'),
        ("apply", {}, r'a payload is an object with inputs: {"inputs": {...}}'),
        ("jacobian", {"inputs": {}, "jac_inputs": ["field"], "jac_output": ["result"]},
         "did you mean 'jac_outputs'"),
    ],
)  # fmt: skip
def test_what_is_misspelled_or_misplaced_is_told_with_the_way_out(tmp_path, name, payload, words):
    component = loaded(tmp_path / "c", MISSPELT)
    with pytest.raises(PayloadError, match=words):
        endpoint.call(component, name, payload, run=RunDirectory.new(tmp_path / "out"))


def test_a_misspelled_output_is_told_with_the_way_out(tmp_path):
    with pytest.raises(ComponentError, match=r"resutl: .*did you mean 'result'"):
        call(loaded(tmp_path / "c", MISSPELT), {}, tmp_path / "out")


# ------------------------------------------------------------------- what is repeated of a payload

LONG = "a" * 100_000


def reference(buffer):
    data = {"buffer": buffer, "encoding": "binref"}
    return {"shape": [2], "dtype": "float64", "data": data}


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("apply", {"inputs": {"x": reference(LONG)}}),
        ("apply", {"inputs": {"x": reference(f"../{LONG}")}}),
        ("apply", {"inputs": {"x": reference(f"/{LONG}")}}),
        ("apply", {"inputs": {"x": reference(f"{LONG}:1:2:3")}}),
        ("apply", {"inputs": {"x": {"shape": [1] * 100_000, "dtype": LONG, "data": {}}}}),
        ("apply", {"inputs": {"x": [LONG]}}),
        ("apply", {"inputs": {LONG: 1}}),
        ("apply", {"inputs": {"named": {LONG: "x"}}}),
        ("apply", {"inputs": {"either": {"kind": LONG}}}),
        ("apply", {LONG: {}}),
        (LONG, {"inputs": {}}),
        ("jacobian", {"inputs": {}, "jac_inputs": [LONG], "jac_outputs": [f"[{LONG}]"]}),
        ("jacobian", {"inputs": {"named": {LONG: [1.0]}}, "jac_inputs": ["y"], "jac_outputs": ["y"]}),
        ("jacobian", {"inputs": {"mixed": LONG}, "jac_inputs": ["mixed"], "jac_outputs": ["y"]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("input_path", [None, "input"])
def test_a_complaint_does_not_repeat_all_that_was_sent(tmp_path, name, payload, input_path):
    component = loaded(
        tmp_path / "c",
        """
        from typing import Literal
        from pydantic import Field
        class A(BaseModel):
            kind: Literal["a"] = "a"
        class B(BaseModel):
            kind: Literal["b"] = "b"
        class InputSchema(BaseModel):
            x: Differentiable[Array[(None,), Float64]] = [0.0]
            named: dict[str, Differentiable[Array[(None,), Float64]]] = {}
            either: Annotated[A | B, Field(discriminator="kind")] = A()
            mixed: Differentiable[Float64] | str = 0.0
        class OutputSchema(BaseModel):
            y: Differentiable[Array[(None,), Float64]]
        def apply(inputs): return {"y": inputs.x}
        def jacobian(inputs, jac_inputs, jac_outputs): return {}
        """,
    )
    run = RunDirectory.new(tmp_path / "out")
    if input_path is not None:
        input_path = tmp_path
    with pytest.raises(PayloadError) as caught:
        endpoint.call(component, name, payload, run=run, input_path=input_path)
    assert len(str(caught.value)) < 5000
    assert len(orjson.dumps(caught.value.errors)) < 5000


# ------------------------------------------------------------------- OpenAPI


def references(tree):
    """The names of all schemas that are referred to."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            yield from references(value)
    elif isinstance(tree, list):
        for each in tree:
            yield from references(each)


def test_the_openapi_document_says_what_clients_look_for(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        class Layer(BaseModel):
            w: Differentiable[Array[(None,), Float64]]
        class InputSchema(BaseModel):
            layers: list[Layer]
            n: int = 1
        class OutputSchema(BaseModel):
            t: Annotated[list[Array[(None, None), Float64]], Labels(dims=("time", "y", "x"), units="K")]
        def apply(inputs): "Solve it."
        def abstract_eval(inputs): pass
        """,
    )
    found = orjson.loads(orjson.dumps(component.openapi()))
    assert set(found["paths"]) == {"/apply", "/abstract_eval", "/health"}
    assert "Solve it." in found["paths"]["/apply"]["post"]["description"]
    assert found["x-supported-output-formats"] == FORMATS
    assert found["x-supported-compressions"] == ["none", "lz4"]
    assert found["x-binref-labels"]["outputs"] == {
        "t": {"dims": ["time", "y", "x"], "attrs": {"units": "K"}}
    }
    schemas = found["components"]["schemas"]
    assert schemas["ApplyInputSchema"]["differentiable_arrays"] == {
        "layers.[].w": {"shape": [None], "dtype": "float64"}
    }
    assert schemas["ApplyInputSchema"]["field_order"] == {"": ["layers", "n"], "layers.[]": ["w"]}
    assert schemas["Abstract_OutputSchema"]["properties"]["t"]["items"]["required"] == [
        "shape",
        "dtype",
    ]

    assert set(references(found)) <= set(schemas)


def test_models_named_as_the_schemas_do_not_break_the_openapi_documents_references(tmp_path):
    component = loaded(
        tmp_path / "c",
        """
        import other
        class InputSchema(BaseModel):
            before: other.OutputSchema
            how: other.ApplyInputSchema
        class OutputSchema(BaseModel):
            u: Array[(None,), Float64]
        def apply(inputs): pass
        def abstract_eval(inputs): pass
        """,
        other="""
        from pydantic import BaseModel
        class OutputSchema(BaseModel):
            t: float
        class ApplyInputSchema(BaseModel):
            n: int
        """,
    )
    document = component.openapi()
    schemas = document["components"]["schemas"]
    assert set(references(document)) <= set(schemas)
    ((answer,), (abstract,)) = (
        references(schemas[f"{title}OutputSchema"]["allOf"]) for title in ("Apply", "Abstract")
    )
    assert set(schemas[answer]["properties"]) == {"u"}
    assert set(schemas[abstract]["properties"]) == {"u"}
    assert set(schemas["ApplyInputSchema"]["properties"]) == {"inputs"}


DEFAULTS = """
    class Inner(BaseModel):
        w: Array[(2,), Float32] = np.array([1, np.inf], "float32")
    class Arrays(BaseModel):
        swapped: Array[(3,), Float64] = np.array([1, np.nan, 3], ">f8")
        ragged: list[Array[(None,), Int64]] = [np.arange(2), np.arange(1)]
        named: dict[str, Array[..., None]] = {"a": np.ones((2, 1), "uint8")}
        pair: tuple[Array[(1,), Bool], int] = (np.array([True]), 3)
        inner: Inner = Inner()
        scalar: Array[(), Float64] = np.float64(3)
        turned: Array[(), Complex128] = 1 - 2j
        maybe: Array[(2,), Float64] | None = None
    class InputSchema(Arrays):
        real: float = np.float32(0.5)
        whole: int = np.int64(4)
        flag: bool = np.bool_(True)
    class OutputSchema(Arrays):
        nothing: Array[(1,), Float64] = np.zeros(1)
    def apply(inputs): return {name: getattr(inputs, name) for name in Arrays.model_fields}
    def abstract_eval(inputs): return inputs
"""


def test_defaults_with_numpy_in_them_are_in_the_document_as_a_caller_would_write_them(tmp_path):
    component = loaded(tmp_path / "c", DEFAULTS)
    schemas = orjson.loads(orjson.dumps(component.openapi()))["components"]["schemas"]
    fields = schemas["InputSchema"]["properties"]
    assert fields["swapped"]["default"] == {
        "object_type": "array",
        "shape": [3],
        "dtype": "float64",
        "data": {"buffer": [1.0, None, 3.0], "encoding": "json"},
    }
    assert [each["shape"] for each in fields["ragged"]["default"]] == [[2], [1]]
    assert fields["pair"]["default"][1] == 3
    assert fields["maybe"]["default"] is None
    assert [fields[name]["default"] for name in ("real", "whole", "flag")] == [0.5, 4, True]
    assert schemas["OutputSchema"]["properties"]["nothing"]["default"]["shape"] == [1]
    given = {name: field["default"] for name, field in fields.items()}
    written = call(component, given, tmp_path / "written")
    left_out = call(component, {}, tmp_path / "left-out")
    assert written.body() == left_out.body()


def test_the_document_of_abstract_eval_tells_defaults_by_shape_and_dtype(tmp_path):
    component = loaded(tmp_path / "c", DEFAULTS)
    fields = component.openapi()["components"]["schemas"]["Abstract_InputSchema"]["properties"]
    assert fields["swapped"]["default"] == {"shape": [3], "dtype": "float64"}
    assert fields["inner"]["default"] == {"w": {"shape": [2], "dtype": "float32"}}
    assert fields["named"]["default"] == {"a": {"shape": [2, 1], "dtype": "uint8"}}


def test_experimental_offers_what_it_has():
    assert {"BinrefArray", "BinrefWriter"} <= set(experimental.__all__)
    assert experimental.BinrefArray is BinrefArray


@pytest.mark.parametrize("levels", [300, 900, 5000])
def test_inputs_nested_too_deep_are_the_callers_mistake(tmp_path, levels):
    echo = loaded(
        tmp_path,
        """
        class InputSchema(BaseModel):
            x: Any

        class OutputSchema(BaseModel):
            x: Any

        def apply(inputs):
            return {"x": inputs.x}
        """,
    )
    payload = b'{"inputs": {"x": ' + b"[" * levels + b"]" * levels + b"}}"
    with pytest.raises(PayloadError, match=r"deep|depth"):
        endpoint.call(echo, "apply", payload, run=RunDirectory(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
