"""What a notebook shows of arrays, trajectories, runs and results: small, escaped, nothing read."""

import pickle
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from binref_sci import BinrefArray, BinrefWriter, Trajectory, follow
from binref_sci.client.result import Result
from binref_sci.engine.inspect import inspect
from binref_sci.html import Section, facts_html, size_text
from binref_sci.labels import Labels
from binref_sci.reference import ArrayRef
from tests.kit import bytes_read, run

HOSTILE = "<img src=x onerror=alert(1)>&\"'"


class Page(HTMLParser):
    """What a browser would make of it: tags, attributes, text; unclosed tags are an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def page(obj):
    made = obj._repr_html_()
    assert len(made.encode()) < 50_000
    parsed = Page(made)
    assert not {"script", "img", "iframe", "link"} & set(parsed.tags)
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert {name for name, _ in parsed.attributes} <= {"class", "open", "colspan"}
    return parsed


@pytest.fixture
def written(tmp_path):
    with BinrefWriter(
        "temperature",
        dims=("time", "y", "x"),
        coords={"x": np.arange(8.0)},
        attrs={"units": "K", "long_name": HOSTILE},
        output_path=tmp_path,
    ) as writer:
        for step in range(5):
            writer.write(np.full((4, 8), step, "f4"), time=0.5 * step)
        return writer.trajectory()


def test_a_trajectory_tells_what_xarrays_users_look_for(written, tmp_path):
    shown = page(written)
    for fact in ("temperature", "(time: 5, y: 4, x: 8)", "float32", "640 B", "128 B a snapshot",
                 "1 buffer", str(tmp_path), "on disk", "Coordinates (1)", "(x: 8)", HOSTILE):  # fmt: skip
        assert fact in shown.text
    described = repr(written)
    for fact in ("temperature", "(5, 4, 8)", "('time', 'y', 'x')", "float32", "640 B", "1 buffer"):
        assert fact in described


def test_an_array_tells_where_it_lies(tmp_path):
    made = BinrefArray.write(np.zeros((4, 8)), output_path=tmp_path)
    shown = page(made)
    for fact in (
        "BinrefArray",
        "(4, 8)",
        "float64",
        "256 B",
        made.buffer,
        str(tmp_path),
        "on disk",
    ):
        assert fact in shown.text
        assert fact in repr(made) or fact == "on disk"
    packed = BinrefArray.write(np.zeros(1000), compression="lz4", output_path=tmp_path)
    assert f"lz4, {packed.compressed_size} B on disk" in page(packed).text


def test_what_is_wrong_with_a_file_is_told(written, tmp_path):
    one = written[4]
    path = tmp_path / one.path
    with path.open("r+b") as file:
        file.truncate(5 * 128 - 3)
    for obj in (written, one):
        assert f"incomplete: {one.path} lacks 3 bytes" in page(obj).text
        assert "lacks 3 bytes" in repr(obj)
    assert written[:4].state == "on disk"
    assert written[::-1].state != "on disk"
    path.unlink()
    for obj in (written, one):
        assert f"missing: {one.path}" in page(obj).text
        assert f"missing: {one.path}" in repr(obj)
    shutil.rmtree(tmp_path)
    assert "missing" in page(written).text
    path.parent.mkdir()


def test_compressed_and_scattered_snapshots_end_where_they_end(tmp_path):
    refs = [BinrefArray.write(np.arange(50.0), compression="lz4", output_path=tmp_path)]
    made = Trajectory.from_refs(refs)
    assert made.state == "on disk"
    with (tmp_path / refs[0].path).open("r+b") as file:
        file.truncate(refs[0].compressed_size - 1)
    assert "lacks 1 bytes" in made.state


def test_nothing_is_read(tmp_path):
    with (tmp_path / "x.bin").open("wb") as file:
        file.truncate(2**31)
    refs = [BinrefArray.from_ref(ArrayRef("x.bin", n * 2**20, (2**17,), "f8"), tmp_path)
            for n in range(2048)]  # fmt: skip
    for obj in (
        refs[3],
        Trajectory.from_refs(refs),
        Result({"u": refs[0], "v": Trajectory.from_refs(refs)}),
    ):
        obj._repr_html_()
        before = bytes_read()
        obj._repr_html_()
        assert bytes_read() - before < 1000


def test_buffers_are_not_even_opened(tmp_path, needs):
    """The system's own word for it."""
    strace = needs("strace")
    import subprocess
    import sys

    from tests.kit import environment

    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        for step in range(3):
            writer.write(np.zeros(100), time=float(step))
    code = (
        "import sys, binref_sci as b; f = b.follow(sys.argv[1]); t = f._look().made[0].data; "
        "open('/dev/null').close(); [repr(o) + o._repr_html_() for o in (t, t[0])]"
    )
    log = tmp_path.parent / "strace.log"
    command = [
        strace,
        "-f",
        "-e",
        "trace=open,openat",
        "-o",
        log,
        sys.executable,
        "-c",
        code,
        tmp_path,
    ]
    subprocess.run(command, check=True, env=environment(), capture_output=True, timeout=100)
    opened = log.read_text().partition("/dev/null")[2]
    buffers = [path.name for path in tmp_path.iterdir() if path.suffix == ".bin"]
    assert buffers
    assert not [name for name in buffers if f"/{name}" in opened]


def test_hostile_names_stay_text(tmp_path):
    with BinrefWriter(
        "u",
        dims=("time", HOSTILE),
        coords={HOSTILE: [1.0, 2.0]},
        attrs={"units": HOSTILE},
        output_path=tmp_path,
    ) as writer:
        writer.write(np.zeros(2), time=0.0)
        made = writer.trajectory()
    assert page(made).text.count(HOSTILE) >= 3
    assert HOSTILE in page(follow(tmp_path)).text
    assert HOSTILE in page(Result({HOSTILE: HOSTILE, "list": [{HOSTILE: 1}]})).text
    lone = facts_html("x", "\udcff\x00", [("a", "b" * 10_000)])
    lone.encode()
    assert len(lone) < 5000


def test_of_a_run_only_times_are_read(tmp_path):
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as writer:
        for step in range(20):
            writer.write(np.zeros(2**17), time=float(step))
    for obj in (follow(tmp_path), inspect(tmp_path)):
        before = bytes_read()
        repr(obj), obj._repr_html_()
        assert bytes_read() - before < 100_000 < 20 * 2**20


def test_many_rows_are_counted_not_shown():
    rows = [(f"name{n}", HOSTILE * 9) for n in range(10_000)]
    made = facts_html(
        "x", "", [], [Section("Rows", ("a", "b"), rows), Section("More", ("a",), [("b",)])]
    )
    assert len(made.encode()) < 50_000
    shown = Page(made)
    left = int(re.search(r"… (\d+) more", shown.text).group(1))
    assert left + shown.text.count("name") == 10_000
    assert "Rows (10000)" in shown.text


def test_a_run_tells_its_state_and_progress(tmp_path):
    writer = BinrefWriter("u", dims=("time", "x"), total=10, output_path=tmp_path)
    for step in range(3):
        writer.write(np.zeros(4), time=0.5 * step)
    live = follow(tmp_path)
    for obj in (live, inspect(tmp_path)):
        shown = page(obj).text
        for fact in ("writing", "3 of 10 snapshots", "(time: 3, x: 4)", "float64", "0 to 1"):
            assert fact in shown
    assert repr(live) == (
        f"Follower({str(tmp_path)!r}, 3 of 10 snapshots, writing: u (time: 3, x: 4) float64)"
    )
    writer.close()
    assert "interrupted" in page(live).text or "complete" in page(live).text


def test_a_result_lists_its_outputs(tmp_path, written):
    array = BinrefArray.write(np.zeros((2, 3)), output_path=tmp_path)
    result = Result(
        {
            "flow": {"velocity": array, "steps": written},
            "energy": 1.5,
            "mean": np.zeros((4, 4)),
            "names": ["a", "b"],
            "parts": [{"area": 2.0}],
            "note": "x" * 10_000_000,
        },
        folder=tmp_path,
    )
    shown = page(result).text
    for fact in ("Outputs (7)", "flow.velocity", "(2, 3) float64", array.buffer, "5 snapshots",
                 "(time: 5, y: 4, x: 8) float32", "1.5", "(4, 4) float64", "128 B", "list of 2: str",
                 "area", "2.0", str(tmp_path)):  # fmt: skip
        assert fact in shown, fact
    assert page(pickle.loads(pickle.dumps(result))).text == shown


def test_it_reads_on_any_background():
    style = facts_html("x", "", [])
    style = style[style.index("<style>") : style.index("</style>")]
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b|rgb\(|:white\b|:black\b", style)
    rules = re.findall(r"([^{}]+)\{", style.removeprefix("<style>"))
    assert all(
        part.strip().startswith(".binref-facts") for rule in rules for part in rule.split(",")
    )


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1024, "1.00 KiB"), (2**20, "1.00 MiB"), (100 * 2**30, "100 GiB"),
     (10**15, "909 TiB"), (2**60, "1.02e+03 PiB")],
)  # fmt: skip
def test_sizes_for_people(nbytes, text):
    assert size_text(nbytes) == text


def test_labels_of_another_rank_do_not_break_it():
    made = Trajectory.from_refs(
        [BinrefArray.from_ref(ArrayRef("x.bin", 0, (2,), "f8"), "/nowhere")]
    )
    made.labels = Labels(dims=("time",))
    assert "(1, 2)" in page(made).text


def test_a_light_import_stays_light():
    code = "import sys, binref_sci.html; print('numpy' in sys.modules)"
    assert run(code).strip() in {"True", "False"}
