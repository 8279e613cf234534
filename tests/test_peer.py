"""The real peer: tesseract-core 1.15, unpatched, over HTTP on loopback, in both directions."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from binref_sci import BinrefArray, Tesseract, Trajectory
from binref_sci.dtypes import DTYPES
from binref_sci.errors import FormatError, PayloadError, RemoteError
from tests.peer.environment import changed_files, interpreter, peer_serving, swapped
from tests.serving import serving

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
FORMATS = ["json", "json+base64", "json+binref"]
COMPRESSIONS = [None, "lz4"]
PLACES = ["memory", "disk"]

ARRAYS = {
    **{name: np.array([[0, 1, 2], [3, 4, 1]], dtype) for name, dtype in DTYPES.items()},
    "no axes": np.array(0.5, "float32"),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((2, 0), "int8"),
    "column-major": np.asfortranarray(np.array([[1, 2, 3], [4, 5, 6]], "int32")),
    "complex": np.array([1 + 2j, -0.5j, complex(0.25, np.inf)]),
    "special": np.array([np.nan, np.inf, -np.inf, 1.5]),
    "largest": np.array([2**64 - 1, 2**63, 1], "uint64"),
}
CASES = [
    pytest.param(name, output_format, compression, place, id=f"{name}-{output_format}-{compression}-{place}")
    for name in ARRAYS
    for output_format in FORMATS
    for compression in COMPRESSIONS
    for place in PLACES
]  # fmt: skip


def same(got, wanted):
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(got, wanted)


@pytest.fixture(scope="module")
def python():
    return interpreter()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    (folder / "input").mkdir()
    return folder


@pytest.fixture(scope="module")
def stored(folder):
    return BinrefArray.write(np.arange(3.0), output_path=folder / "input")


def api_file(folder, source):
    folder.mkdir(parents=True)
    (folder / "tesseract_api.py").write_text(source)
    return folder / "tesseract_api.py"


def test_the_peer_is_as_its_makers_packed_it(python):
    assert changed_files(python) == []


# ------------------------------------------------------- its client, our server


@pytest.fixture(scope="module")
def outcomes(python, folder, stored):
    """What the peer's client says of our server, by case."""
    component = api_file(folder / "ours", (HERE / "peer" / "echo_api.py").read_text())
    np.savez(folder / "arrays.npz", **ARRAYS)
    output = folder / "our-output"
    options = ("--output-path", output, "--input-path", folder / "input")
    with serving(component.parent, *options, log_file=folder / "our-log") as server:
        script = HERE / "peer" / "their_client.py"
        command = [python, script, server.url, output, folder / "arrays.npz", stored.buffer]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("name", "output_format", "compression", "place"), CASES)
def test_its_client_reads_what_our_server_writes(outcomes, name, output_format, compression, place):
    outcome = outcomes[f"{name} {output_format} {compression} {place}"]
    if output_format == "json" and ARRAYS[name].dtype.kind == "c":
        # We write pairs, it writes Python's "(1+2j)" and reads that alone: an error, no wrong number.
        assert "cannot reshape" in outcome
    else:
        assert outcome == "ok"


@pytest.mark.parametrize(
    "case", ["mixed inputs", "wrong payload", "failure", "unknown format", "about", "run id"]
)
def test_its_client_gets_along_with_our_server(outcomes, case):
    assert outcomes[case] == "ok"


# ------------------------------------------------------- our client, its server


@pytest.fixture(scope="module")
def theirs(python, folder):
    """Address and output path of the peer's server."""
    source = swapped((HERE / "peer" / "echo_api.py").read_text())
    api = api_file(folder / "theirs", source)
    output = folder / "their-output"
    output.mkdir()
    with peer_serving(python, api, output, folder / "input", folder / "their-log") as url:
        yield url, output


def expected(name, output_format, place):
    """What the peer's server makes of an array."""
    array = ARRAYS[name]
    if place == "disk" and array.ndim == 0:
        return array.reshape(1)  # so its writer has it
    if output_format == "json" and name == "special":
        return np.array([np.nan, np.nan, np.nan, 1.5])  # its json has no infinities
    return array


@pytest.mark.parametrize(("name", "output_format", "compression", "place"), CASES)
def test_our_client_reads_what_its_server_writes(theirs, name, output_format, compression, place):
    url, output = theirs
    array = ARRAYS[name]
    sim = Tesseract.from_url(
        url, output_path=output, output_format=output_format, compression=compression
    )
    inner = {"values": [array, array], "named": {"k": array}}
    out = sim.apply({"array": array, "inner": inner, "disk": place == "disk", "number": 1.5})
    wanted = expected(name, output_format, place)
    for got in (out["array"], *out["inner"]["values"], out["inner"]["named"]["k"]):
        same(got, wanted)
        assert got.flags.writeable
    assert (out["number"], out["text"]) == (1.5, "Grüße")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("disk", [True, False])
def test_its_references_are_lazy_here_and_never_deleted(theirs, disk, compression):
    url, output = theirs
    array = np.arange(12.0).reshape(3, 4)
    with Tesseract.from_url(url, output_path=output, lazy=True, compression=compression) as sim:
        out = sim.apply({"array": array, "inner": {"values": [array] * 5}, "disk": disk})
    assert isinstance(out["inner"]["values"], Trajectory)
    assert isinstance(out["array"], BinrefArray)
    for _ in range(2):
        np.testing.assert_array_equal(out["inner"]["values"][3][1, ::2], array[1, ::2])
        np.testing.assert_array_equal(out["array"].load(), array)
    assert out.to_dataset()["inner.values"].shape == (5, 3, 4)


@pytest.mark.parametrize("output_format", FORMATS)
def test_its_server_takes_inputs_of_any_encoding_from_us(theirs, folder, stored, output_format):
    url, output = theirs
    sim = Tesseract.from_url(
        url, output_path=output, input_path=folder / "input", output_format=output_format
    )
    kinds = [stored, np.arange(3.0), [0.0, 1.0, 2.0]]
    for turn in range(3):
        a, b, c = kinds[turn:] + kinds[:turn]
        out = sim.apply({"array": a, "inner": {"values": [b], "named": {"c": c}}})
        for got in (out["array"], out["inner"]["values"][0], out["inner"]["named"]["c"]):
            np.testing.assert_array_equal(got, np.arange(3.0))


def test_its_server_takes_numbers_that_json_lacks_from_us(theirs):
    sim = Tesseract.from_url(theirs[0])
    special = ARRAYS["special"]
    same(sim.apply({"array": special, "typed": special})["typed"], special)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_its_server_takes_single_numbers_of_numpy_from_us(theirs, dtype):
    sim = Tesseract.from_url(theirs[0])
    array = np.array(1, dtype)
    for single in (array, array[()]):
        number = 1.0 if dtype.kind == "c" else single
        out = sim.apply({"array": single, "inner": {"named": {"k": single}}, "number": number})
        same(out["array"], array)
        same(out["inner"]["named"]["k"], array)
        assert out["number"] == 1.0


def test_its_errors_are_ours(theirs):
    url, output = theirs
    sim = Tesseract.from_url(url, output_path=output)
    with pytest.raises(PayloadError, match=r"inputs\.number") as caught:
        sim.apply({"array": 1.0, "number": "x"})
    assert caught.value.errors[0]["loc"] == ["inputs", "number"]
    assert caught.value.errors[0].keys() == {"loc", "msg", "type"}
    with pytest.raises(RemoteError, match="answered 500") as failed:
        sim.apply({"array": 1.0, "fail": True})
    assert failed.value.status == 500
    with pytest.raises(RemoteError, match="answered 404"):
        sim.abstract_eval({})
    with pytest.raises(FormatError):
        Tesseract.from_url(url, output_format="json+msgpack")
    assert sim.health()["status"] == "ok"
    assert "apply" in sim.available_endpoints


# ------------------------------------------------------- the same component under both


@pytest.mark.parametrize("output_format", FORMATS)
def test_the_first_example_gives_the_same_under_both(python, folder, output_format, tmp_path):
    source = EXAMPLES / "binref_passthrough"
    mine = tmp_path / "mine"
    shutil.copytree(source, mine, ignore=shutil.ignore_patterns("__pycache__"))
    api = mine / "tesseract_api.py"
    output = tmp_path / "output"
    output.mkdir()
    inputs = {"size": 8, "steps": 5}
    ours = Tesseract.from_tesseract_api(source, output_format="json+binref").apply(inputs)
    api.write_text(swapped(api.read_text()))
    assert "tesseract_core" in api.read_text()
    with peer_serving(python, api, output, tmp_path, tmp_path / "log") as url:
        sim = Tesseract.from_url(url, output_path=output, output_format=output_format)
        theirs = sim.apply(inputs)
    assert theirs.keys() == ours.keys()
    assert len(theirs["trajectory"]) == len(ours["trajectory"]) == 6
    for got, wanted in zip(theirs["trajectory"], ours["trajectory"], strict=True):
        same(got, wanted)
    same(theirs["final"], ours["final"])
