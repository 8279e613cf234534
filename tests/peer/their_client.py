"""Run by the peer's interpreter: its client calls a server, and tells what it got.

Arguments: address, output path, file with the arrays. Prints a JSON object: case -> "ok" or what
was wrong.
"""

import functools
import itertools
import json
import sys
import traceback

import numpy as np
from pydantic import ValidationError
from tesseract_core import Tesseract

url, output_path, arrays_file, reference = sys.argv[1:]
arrays = dict(np.load(arrays_file))
outcomes = {}


def same(got, wanted):
    assert isinstance(got, np.ndarray), type(got)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    assert got.dtype == wanted.dtype.newbyteorder("="), (got.dtype, wanted.dtype)
    np.testing.assert_array_equal(got, wanted)


def case(name):
    def run(function):
        try:
            function()
            outcomes[name] = "ok"
        except Exception:
            outcomes[name] = traceback.format_exc()[-1500:]

    return run


sim = Tesseract.from_url(url, server_output_path=output_path)


def echo(view, array, disk):
    inner = {"values": [array, array], "named": {"k": array}}
    out = view.apply({"array": array, "inner": inner, "disk": disk, "number": 1.5})
    for got in (out["array"], *out["inner"]["values"], out["inner"]["named"]["k"]):
        same(got, array)
    assert (out["number"], out["text"]) == (1.5, "Grüße")


for output_format, compression, disk, name in itertools.product(
    ("json", "json+base64", "json+binref"), (None, "lz4"), (False, True), arrays
):
    encoded = sim.with_encoding(output_format=output_format, compression=compression)
    place = "disk" if disk else "memory"
    case(f"{name} {output_format} {compression} {place}")(
        functools.partial(echo, encoded, arrays[name], disk)
    )


def failing(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


@case("mixed inputs")
def _():
    place = {"shape": [3], "dtype": "float64", "data": {"buffer": reference, "encoding": "binref"}}
    for output_format in ("json", "json+base64", "json+binref"):
        view = sim.with_encoding(output_format=output_format)
        kinds = [place, np.arange(3.0), [0.0, 1.0, 2.0]]
        for turn in range(3):
            a, b, c = kinds[turn:] + kinds[:turn]
            out = view.apply({"array": a, "inner": {"values": [b], "named": {"c": c}}})
            for got in (out["array"], out["inner"]["values"][0], out["inner"]["named"]["c"]):
                same(np.asarray(got, "float64"), np.arange(3.0))


@case("wrong payload")
def _():
    wrong = {"array": 1.0, "number": "x", "small": [300]}
    error = failing(ValidationError, lambda: sim.apply(wrong))
    places = [each["loc"] for each in error.errors()]
    assert ("body", "inputs", "number") in places, places
    assert ("body", "inputs", "small") in places, places
    assert "300" in str(error), error


@case("failure")
def _():
    error = failing(RuntimeError, lambda: sim.apply({"array": 1.0, "fail": True}))
    assert "500" in str(error), error
    assert "no way" in str(error), error


@case("unknown format")
def _():
    error = failing(ValueError, lambda: sim.with_encoding(output_format="json+msgpack"))
    assert "json+msgpack" in str(error), error


@case("about")
def _():
    assert sim.health()["status"] == "ok"
    assert {"apply", "health"} <= set(sim.available_endpoints)
    assert sim.server_capabilities.output_formats == ("json", "json+base64", "json+binref")
    assert sim.server_capabilities.compressions == ("none", "lz4")


@case("run id")
def _():
    view = sim.with_encoding(output_format="json+binref")
    same(view.apply({"array": np.arange(2.0)}, run_id="theirs")["array"], np.arange(2.0))


json.dump(outcomes, sys.stdout)
