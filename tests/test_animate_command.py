"""``binref-sci animate``: a run on disk becomes a film."""

import os
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from binref_sci import BinrefWriter, animate, open_dataset
from binref_sci.cli.app import app, main
from binref_sci.errors import FormatError
from tests.test_notebook_movie import frames_of, probe


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "run"
    for name, factor in (("temperature", 1.0), ("pressure", 5.0)):
        with BinrefWriter(
            name, dims=("time", "level", "y", "x"), attrs={"units": "K"}, output_path=place
        ) as writer:
            for step in range(6):
                level = np.arange(3.0)[:, None, None]
                writer.write(factor * (np.full((3, 8, 12), step) + 10 * level), time=0.5 * step)
    return place


def called(*arguments):
    return CliRunner().invoke(app, ["animate", *map(str, arguments)])


def test_a_run_becomes_a_film(folder, tmp_path):
    target = tmp_path / "x.mp4"
    done = called(folder, "-v", "temperature", "-o", target, "--fps", 10)
    assert (done.exit_code, done.stdout.strip()) == (0, str(target)), done.output
    about = probe(target)
    assert about["fps"] == 10
    assert about["duration"] == pytest.approx(0.6)
    again = called(folder, "-v", "temperature", "-o", target)
    assert again.exit_code != 0
    assert "pass --overwrite" in str(again.exception)
    assert called(folder, "-v", "temperature", "-o", target, "--overwrite").exit_code == 0


def test_everything_that_can_be_said_of_a_film(folder, tmp_path):
    target = tmp_path / "x.gif"
    done = called(
        folder, "-v", "temperature", "-o", target, "--start", 1, "--step", 2, "--at", "level=-1",
        "--vmin", 0, "--vmax", 25, "--cmap", "gray", "--size", "400x300", "--dpi", 80,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = frames_of(target)
    assert found.shape == (3, 300, 400, 3)
    middle = found[:, 150, 170, 0].astype(float)
    assert middle == pytest.approx(255 * np.array([21, 23, 25]) / 25, abs=2)
    assert called(folder, "-o", tmp_path / "two.png").exit_code == 0
    with Image.open(tmp_path / "two.png") as image:
        assert image.size[0] > image.size[1], "two variables, side by side"
    assert (
        called(folder, "-v", "pressure", "--col", "level", "-o", tmp_path / "c.webp").exit_code == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "x.avi"), "must end in"),
        (("-o", "no/x.gif"), "there is no folder"),
        (("-o", "run/d.gif"), "that is a folder"),
        (("-o", "x.gif", "-v", "wind"), "no variable 'wind'"),
        (("-o", "x.gif", "--at", "height=3"), "no such dimension is left over; there is: level"),
        (("-o", "x.gif", "--at", "level"), "give a dimension and a position"),
        (("-o", "x.gif", "--at", "level=9"), "position 9 of 'level'"),
        (("-o", "x.gif", "--size", "big"), "give width and height, as 1280x720"),
        (("-o", "x.gif", "--start", "6"), "chooses none of them"),
        (("-o", "x.gif", "--cmap", "virids"), "did you mean 'viridis'"),
        (("-o", "x.gif", "--limits", "some"), "use one of"),
        (("-o", "x.gif", "--reduce", "sum"), "reduce='sum': use one of ('mean', 'max'"),
        (("-o", "x.gif", "--vmin", "3", "--vmax", "1"), "vmin=3 is above vmax=1"),
        (("-o", "x.png", "--frame", "7"), "frame 7"),
    ],
)
def test_mistakes_are_told(folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (folder / "d.gif").mkdir()
    done = called(folder, *arguments)
    assert done.exit_code != 0
    assert message in str(done.exception)
    assert type(done.exception).__module__ == "binref_sci.errors", "exit code 2, no traceback"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_frame_that_cannot_be_read_is_named(folder, tmp_path, monkeypatch, capsys):
    for path in sorted(folder.glob("*.bin"), key=lambda path: path.stat().st_size)[-2:]:
        os.truncate(path, path.stat().st_size - 3)
    arguments = [
        "animate",
        str(folder),
        "-v",
        "pressure",
        "--at",
        "level=-1",
        "-o",
        str(tmp_path / "x.gif"),
    ]
    monkeypatch.setattr(sys, "argv", ["binref-sci", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    told = " ".join(capsys.readouterr().err.split())
    assert "while frame 5 of 6 (t = 2.5) was read and drawn" in told
    assert ended.value.code == 2, told


def test_a_folder_without_a_run_is_told(tmp_path):
    done = called(tmp_path, "-o", tmp_path / "x.gif")
    assert done.exit_code != 0
    assert type(done.exception).__module__ == "binref_sci.errors"


@pytest.mark.parametrize(
    ("name", "message"),
    [("x.avi", "must end in"), ("no/x.gif", "there is no folder"), ("/proc/x.gif", "cannot save")],
)
def test_the_target_is_checked_before_a_frame_is_read(folder, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    player = animate(open_dataset(folder), names="pressure", vmin=0)
    for path in folder.glob("*.bin"):
        if path.stat().st_size > 1000:
            os.truncate(path, 5)
    with pytest.raises((FormatError, OSError), match=rf"{message}"):
        player.save(name)
    player.close()
    done = called(folder, "-v", "pressure", "-o", name, "--limits", "full")
    assert message in str(done.exception)
