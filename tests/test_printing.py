"""What a component prints while it is asked again and again."""

import concurrent.futures
import io
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
from pydantic import BaseModel

from binref_sci.call import Call, entering
from binref_sci.progress import ProgressBar
from binref_sci.runtime import (
    Array,
    Differentiable,
    Float64,
    finite_difference_jacobian,
    finite_difference_vjp,
    jacobian_from_jvp,
    jacobian_from_vjp,
)
from binref_sci.runtime.printing import held_back


class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float64]]


class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float64]]


def talking(inputs):
    print("solved")
    return OutputSchema(y=2 * inputs.x)


def talking_vjp(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    print("pulled")
    return {"x": 2 * cotangent_vector["y"]}


def talking_jvp(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    print("pushed")
    return {"y": 2 * tangent_vector["x"]}


INPUTS = InputSchema(x=np.arange(1.0, 5.0))


def test_one_of_many_evaluations_is_heard(tmp_path, capsys):
    out = sys.stdout
    finite_difference_jacobian(talking, INPUTS, {"x"}, {"y"}, output_path=tmp_path)
    assert capsys.readouterr().out == "solved\n"
    finite_difference_vjp(talking, INPUTS, {"x"}, {"y"}, {"y": np.ones(4)})
    assert capsys.readouterr().out == "solved\n"
    jacobian_from_vjp(talking_vjp, talking, INPUTS, {"x"}, {"y"}, output_path=tmp_path)
    assert capsys.readouterr().out == "solved\npulled\n"
    jacobian_from_jvp(talking_jvp, INPUTS, {"x"}, {"y"}, output_path=tmp_path)
    assert capsys.readouterr().out == "pushed\n"
    assert sys.stdout is out


def test_evaluations_in_other_threads_are_not_heard(tmp_path, capsys):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        finite_difference_jacobian(
            talking, INPUTS, {"x"}, {"y"}, batch_size=4, mapper=pool.map, output_path=tmp_path
        )
    assert capsys.readouterr().out == "solved\n"


def test_what_a_failing_evaluation_has_printed_is_shown(tmp_path, capsys):
    def failing(inputs):
        print("at", inputs.x[0])
        if inputs.x[0] > 1:
            raise ArithmeticError("too much")
        return OutputSchema(y=inputs.x)

    with pytest.raises(ArithmeticError, match="too much"):
        finite_difference_jacobian(failing, INPUTS, {"x"}, {"y"}, eps=1.0, output_path=tmp_path)
    assert capsys.readouterr().out == "at 1.0\nat 2.0\n"


def test_only_the_held_call_is_held(capsys):
    def other():
        print("other")
        sys.stdout.writelines(["a", "b\n"])

    with held_back():
        print("held")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(other).result()
        with held_back():
            sys.stdout.write("inner\n")
        with redirect_stdout(io.StringIO()) as taken:
            print("taken")
        assert sys.stdout.isatty() is False
    assert taken.getvalue() == "taken\n"
    assert capsys.readouterr().out == "other\nab\n"


def test_without_standard_output_there_is_nothing_to_hold(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)

    @held_back()
    def fail():
        print("nowhere")
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert sys.stdout is None


def test_a_quiet_call_draws_no_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("binref_sci.progress.DELAY", 0.0)
    for quiet in (False, True):
        with entering(Call(tmp_path, tmp_path, "a", 0, quiet=quiet)):
            bar = ProgressBar("steps", 2)
            bar.update(1)
            assert (bar._bar is None) is quiet
            bar.close(2)
