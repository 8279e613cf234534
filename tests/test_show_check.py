"""``binref-sci show`` and ``binref-sci check``."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest

from binref_sci import BinrefArray, BinrefWriter, open_dataset, to_binref
from binref_sci.cli.app import main
from binref_sci.engine.checks import check
from binref_sci.engine.inspect import inspect
from binref_sci.errors import FormatError
from binref_sci.journal import SUFFIX
from tests.test_engine import blocks, interrupt, respond, restate, say, stream


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command line; return exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["binref-sci", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def filled(folder):
    """Make a run with a bit of everything."""
    folder.mkdir(exist_ok=True)
    refs = stream(folder, 5, attrs={"units": "K"}, coords={"time": {"units": "s"}}, run_id="r1",
                  max_file_size=200)  # fmt: skip
    stream(folder, 5, name="pressure", compression="lz4", run_id="r1")
    long = np.arange(1000.0)
    with BinrefWriter(
        "wide", dims=("time", "x"), coords={"x": long}, output_path=folder, run_id="r1"
    ) as writer:
        writer.write(long, time=0.0)
    respond(folder, {"trajectory": refs, "final": refs[-1], "note": "done", "n": np.array(3)})
    say(folder, component="heat", version="1.2")
    return refs


# --- show


def test_show_tells_variables_shapes_bytes_times_and_state(tmp_path, command):
    filled(tmp_path)
    code, out, _ = command("show", tmp_path)
    assert code == 0
    for told in ("complete", "component heat", "trajectory", "(time: 5, y: 3, x: 4)", "float64",
                 "480 B", "0 to 2 s", "pressure", "lz4", "in the response", "note: done"):  # fmt: skip
        assert told in out


def test_show_prints_json_for_programs(tmp_path, command):
    filled(tmp_path)
    code, out, _ = command("show", "--json", tmp_path)
    made = orjson.loads(out)
    assert code == 0
    assert made["state"] == "complete"
    trajectory = made["variables"][0]
    assert trajectory == {
        "name": "trajectory",
        "dims": ["time", "y", "x"],
        "shape": [5, 3, 4],
        "dtype": "float64",
        "nbytes": 480,
        "chunks": [2, 3, 4],
        "buffers": 3,
        "compression": None,
        "blocks": None,
        "times": {"name": "time", "first": 0.0, "last": 2.0, "units": "s"},
        "units": "K",
    }
    assert made["nbytes"] == sum(variable["nbytes"] for variable in made["variables"])


def test_show_tells_how_far_an_interrupted_run_came(tmp_path, command):
    stream(tmp_path, 3, total=10)
    interrupt(tmp_path)
    code, out, _ = command("show", tmp_path)
    assert code == 0
    assert "interrupted" in out
    assert "3 of 10 snapshots" in out


def test_show_of_a_ragged_list_tells_its_parts(tmp_path, command):
    refs = [BinrefArray.write(np.ones(n), output_path=tmp_path) for n in (2, 3)]
    respond(tmp_path, {"parts": refs})
    _, out, _ = command("show", tmp_path)
    assert "parts.[0]" in out
    assert "parts.[1]" in out


def test_show_tells_dates_as_dates(tmp_path):
    with BinrefWriter("u", dims=("time",), output_path=tmp_path) as writer:
        for day in (1, 9):
            writer.write(np.float64(0), time=np.datetime64(f"2020-01-0{day}"))
    (variable,) = inspect(tmp_path).variables
    assert variable.times.first.startswith("2020-01-01")
    assert variable.times.last.startswith("2020-01-09")


def test_show_tells_how_many_blocks_there_are(tmp_path):
    blocks(tmp_path)
    (variable,) = inspect(tmp_path).variables
    assert (variable.blocks, variable.buffers, variable.shape) == (2, 2, (3, 5, 4))


def test_show_tells_of_older_runs_in_the_folder_and_each_opens_by_its_journal(tmp_path, command):
    for name, count in (("first", 5), ("second", 3)):
        stream(tmp_path / name, count)
        shutil.copytree(tmp_path / name, tmp_path / "both", dirs_exist_ok=True)
    assert "older runs" not in command("show", tmp_path / "second")[1]
    assert open_dataset(tmp_path / "both").sizes["time"] == 3
    (journal,) = (path.name for path in (tmp_path / "first").glob(f"*{SUFFIX}"))
    assert f"1 journal beside this run; open it by its name: {journal}" in re.sub(
        r"\s+", " ", command("show", tmp_path / "both")[1]
    )
    facts = inspect(tmp_path / "both")
    assert facts.to_json()["older"] == (journal,)
    assert journal in facts._repr_html_()
    assert open_dataset(tmp_path / "both" / journal).sizes["time"] == 5
    to_binref(open_dataset(tmp_path / "first"), tmp_path / "saved")
    to_binref(open_dataset(tmp_path / "second").load(), tmp_path / "saved", append_dim="time")
    assert inspect(tmp_path / "saved").older == ()


def test_show_opens_no_buffer(tmp_path, command):
    refs = filled(tmp_path)
    for ref in refs:
        (tmp_path / ref.path).unlink(missing_ok=True)
    assert command("show", tmp_path)[0] == 0


@pytest.mark.parametrize("name", ["show", "check"])
def test_a_wrong_path_is_the_callers_mistake(tmp_path, command, name):
    code, _, err = command(name, tmp_path / "nowhere")
    assert code == 2
    assert "nowhere" in err
    code, _, err = command(name, tmp_path)
    assert code == 2
    assert "no run directory" in err


# --- check


def test_a_run_that_holds_together_has_no_problems(tmp_path, command):
    filled(tmp_path)
    report = check(tmp_path)
    assert report.problems == []
    assert report.notes == []
    assert (report.runs, report.journals, report.references) == (1, 3, 6)
    code, out, _ = command("check", tmp_path)
    assert code == 0
    assert "no problems" in out


def test_check_prints_json_for_programs(tmp_path, command):
    filled(tmp_path)
    code, out, _ = command("check", "--json", tmp_path)
    assert code == 0
    assert orjson.loads(out)["problems"] == []


def test_a_reference_beyond_its_buffer_is_a_problem(tmp_path, command):
    refs = filled(tmp_path)
    with (tmp_path / refs[-1].path).open("r+b") as file:
        file.truncate(90)
    code, out, _ = command("check", tmp_path)
    assert code == 1
    assert "field 'trajectory': 1 references" in out
    assert "holds 90 bytes, but bytes 0 to 96 are needed" in out
    assert "field 'final'" in out
    assert "journal" in out or "heat" in out


def test_a_missing_buffer_is_a_problem(tmp_path, command):
    refs = filled(tmp_path)
    (tmp_path / refs[0].path).unlink()
    code, out, _ = command("check", tmp_path)
    assert code == 1
    assert refs[0].path in out


def change(folder, name, old, new):
    (path,) = Path(folder).glob(f"{name}*{SUFFIX}")
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("heat", b'{"end":{"count":5}}', b'{"end":{"count":50}}', "are needed"),
        ("heat", b'"start":4', b'"start":1', "not go back"),
        ("heat", b'"binref_journal":1', b'"binref_journal":99', "version 99"),
        ("heat", b'"dtype":"float64"}}\n', b'"dtype":"object"}}\n', "malformed|cannot be stored"),
        ("heat", b'{"segment"', b'{"segment', "not JSON"),
        ("pressure", b'"end":{"count":5}', b'"end":{"count":9}', "holds 5 records"),
    ],
)
def test_a_journal_that_contradicts_itself_is_a_problem(tmp_path, name, old, new, message):
    filled(tmp_path)
    change(tmp_path, name, old, new)
    problems = check(tmp_path).problems
    assert len(problems) >= 1
    assert any(re.search(message, problem) for problem in problems)


def test_short_times_are_a_problem(tmp_path):
    stream(tmp_path)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    times = orjson.loads(path.read_bytes().splitlines()[0])["time"]["buffer"]
    os.truncate(tmp_path / times, 30)
    (problem,) = check(tmp_path).problems
    assert "holds 30 bytes, but 5 snapshots need 40" in problem


def test_a_damaged_table_is_a_problem(tmp_path):
    stream(tmp_path, compression="lz4")
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    table = orjson.loads(path.read_bytes().splitlines()[1])["segment"]["table"]
    content = np.fromfile(tmp_path / table, "<i8")
    content[4] = 0
    content.tofile(tmp_path / table)
    (problem,) = check(tmp_path).problems
    assert "record 2" in problem


def test_missing_blocks_are_a_problem(tmp_path):
    blocks(tmp_path, cuts=((0, 2), (3, 5)))
    (problem,) = check(tmp_path).problems
    assert "[2:3, 0:4]" in problem


def test_what_is_odd_but_harmless_is_a_note(tmp_path, command):
    stream(tmp_path, 3, total=10)
    interrupt(tmp_path)
    (tmp_path / "left.bin").write_bytes(bytes(7))
    report = check(tmp_path)
    assert report.problems == []
    assert any("interrupted with 3 of 10" in note for note in report.notes)
    assert any("'left.bin' (7 bytes)" in note for note in report.notes)
    assert command("check", tmp_path)[0] == 0


def test_labels_that_do_not_fit_are_a_note(tmp_path):
    stream(tmp_path, coords={"x": np.arange(4.0)})
    restate(tmp_path, lambda made: made["labels"]["coords"]["x"].update(dims=["y"]))
    (note,) = check(tmp_path).notes
    assert "'x'" in note


def test_a_result_that_is_not_json_is_a_problem(tmp_path, command):
    stream(tmp_path)
    (tmp_path / "results.json").write_bytes(b'{"a": ')
    code, out, _ = command("check", tmp_path)
    assert code == 1
    assert "not valid JSON" in out


def test_a_malformed_reference_is_a_problem(tmp_path):
    stream(tmp_path)
    made = {
        "out": [{"shape": [1], "dtype": "int8", "data": {"buffer": "../x:0", "encoding": "binref"}}]
    }
    (tmp_path / "results.json").write_bytes(orjson.dumps(made))
    (problem,) = check(tmp_path).problems
    assert "'../x'" in problem


def test_all_runs_of_an_output_path_are_checked(tmp_path):
    for name in ("run_a", "run_b"):
        filled(tmp_path / name)
    assert check(tmp_path).runs == 2
    (tmp_path / "run_b" / "results.json").write_bytes(b"{")
    (problem,) = check(tmp_path).problems
    assert problem.startswith("run_b: ")


def test_checking_a_file_of_another_kind_is_an_error(tmp_path):
    (tmp_path / "x.nc").write_bytes(b"CDF")
    with pytest.raises(FormatError):
        check(tmp_path / "x.nc")
