"""``binref-sci demo``: what it leaves behind, finished or interrupted."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

import binref_sci
from binref_sci.cli import demo
from binref_sci.errors import ComponentError, PayloadError
from tests.kit import ended, until
from tests.serving import COMMAND

SMALL = ("--size", "48", "--steps", "12")
LONG = ("--size", "128", "--steps", "60000")  # minutes, if nobody stops it
PATIENCE = 60


def run_demo(folder, *options):
    return subprocess.run(
        [*COMMAND, "demo", *options], cwd=folder, capture_output=True, text=True, timeout=100
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A demo that ran to its end, over the result of an older one."""
    folder = tmp_path_factory.mktemp("demo")
    older = folder / "demo-output" / demo.RUN
    older.mkdir(parents=True)
    (older / "old.bin").touch()
    return folder, run_demo(folder, *SMALL)


def test_it_leaves_a_finished_folder_and_nothing_else(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["demo-output"]
    output = folder / "demo-output"
    assert {path.name for path in output.iterdir()} == {demo.RUN, demo.PICTURE, demo.FILM}
    assert not (output / demo.RUN / "old.bin").exists()
    assert output.stat().st_mode & 0o777 == 0o755


def test_its_run_opens_where_it_was_moved_to(finished):
    folder, _ = finished
    ds = binref_sci.open_dataset(folder / "demo-output" / demo.RUN)
    assert ds.temperature.shape == (13, 48, 48)
    assert ds.temperature.attrs["units"] == "K"
    assert ds.encoding["binref_state"] == "complete"
    assert float(ds.hottest) == pytest.approx(float(ds.temperature.max()))


def test_its_pictures_show_something(finished):
    folder, _ = finished
    with Image.open(folder / "demo-output" / demo.PICTURE) as picture:
        assert picture.size == (1800, 810)
    with Image.open(folder / "demo-output" / demo.FILM) as film:
        assert film.n_frames == 13
        first = np.asarray(film.convert("RGB"))
        film.seek(8)
        assert (np.asarray(film.convert("RGB")) != first).any(axis=2).mean() > 0.05


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told from /proc")
def test_it_prints_the_dataset_and_the_memory_of_each_process(finished):
    _, done = finished
    assert "<xarray.Dataset>" in done.stdout
    assert "temperature    (time, y, x) float64" in done.stdout
    assert "13/13 snapshots" in done.stdout
    for process in ("solver", "server", "client"):
        [line] = [line for line in done.stdout.splitlines() if line.strip().startswith(process)]
        before, peak = (int(line.split()[index]) for index in (1, 3))
        assert 10 < before <= peak < 1000, line


def follow(process, folder):
    """Wait until the solver writes; return all processes of the demo."""
    written = f".demo-output.*/{demo.RUN}/temperature-*"
    until(lambda: any(folder.glob(written)) or process.poll() is not None, seconds=PATIENCE)
    assert process.poll() is None, process.communicate()
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.long
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_ends_every_process_and_removes_every_file(sent, code, tmp_path):
    with ended(
        subprocess.Popen(
            [*COMMAND, "demo", *LONG],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    ) as process:
        children = follow(process, tmp_path)
        assert len(children) == 2  # the server and its worker
        process.send_signal(sent)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, stderr
    assert "stopped; what was written is removed" in stdout
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert alive == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    thesis = tmp_path / "demo-output" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    with pytest.raises(PayloadError, match=r"'thesis\.tex', which no demo has made"):
        demo.demo_command(size=16, steps=6, output=thesis.parent)
    with pytest.raises(PayloadError, match="is a file; name a folder"):
        demo.demo_command(size=16, steps=6, output=thesis)
    assert thesis.exists()
    assert list(tmp_path.iterdir()) == [thesis.parent]


def test_what_would_not_fit_on_the_disk_is_refused_before_it_is_computed(tmp_path):
    with pytest.raises(PayloadError, match="would write 204800002048000000 bytes"):
        demo.demo_command(size=16000, steps=100_000_000, output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PayloadError, match=f"there is no folder '{tmp_path / 'no'}'"):
        demo.demo_command(size=16, steps=6, output=tmp_path / "no" / "where")


def test_without_the_examples_it_says_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "CHECKOUT", tmp_path)
    with pytest.raises(PayloadError, match="the examples come with the source"):
        demo.demo_command(size=16, steps=6, output=tmp_path / "out")


def test_other_commands_do_not_pay_for_its_pictures():
    script = (
        "import sys\n"
        "from binref_sci.cli.app import app\n"
        "try: app(['serve', '--help'])\n"
        "finally: print({'matplotlib', 'PIL', 'xarray', 'dask'} & {*sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip() == "set()"
    assert "Serve a component" in done.stdout


def test_a_misspelt_command_is_told_what_was_meant():
    done = subprocess.run([*COMMAND, "dmo"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Did you mean 'demo'" in done.stderr


def test_a_server_that_cannot_start_says_why(tmp_path, monkeypatch):
    broken = tmp_path / demo.EXAMPLE
    broken.mkdir(parents=True)
    (broken / "tesseract_api.py").write_text("raise RuntimeError('out of steel')\n")
    package = tmp_path / "binref_sci"  # the server is started from the same place
    package.symlink_to(Path(binref_sci.__file__).parent)
    monkeypatch.setattr(demo, "CHECKOUT", tmp_path)
    with pytest.raises(ComponentError, match=r"(?s)ended with code 1.*out of steel"):
        demo.demo_command(size=16, steps=6, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


FILM_OF_A_SPARSE_FILE = """
import sys
from pathlib import Path

import numpy as np
import xarray as xr

from binref_sci import BinrefArray, Trajectory
from binref_sci.cli import demo_pictures


def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


folder = Path(sys.argv[1])
count, size = 1024, 512
with open(folder / "zeros.bin", "wb") as file:
    file.truncate(count * size * size * 8)
snapshots = Trajectory.from_refs(
    BinrefArray.from_file(
        "zeros.bin", (size, size), "float64", offset=i * size * size * 8, output_path=folder
    )
    for i in range(count)
)
metres = {"units": "m"}
axis = np.linspace(0.1, 0.9, size)
field = snapshots.to_xarray(name="temperature").rename(dim_1="y", dim_2="x")
ds = xr.Dataset(
    {"temperature": field.assign_attrs(units="K"), "hottest": 1.0},
    {"x": ("x", axis, metres), "y": ("y", axis, metres), "time": ("time", np.arange(1.0 * count), {"units": "s"})},
)
before = peak()
demo_pictures.draw_picture(ds, folder / "picture.png")
for _ in demo_pictures.draw_film(snapshots, ds, folder / "film.gif"):
    pass
print(peak() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is told from /proc")
def test_the_pictures_of_2_gib_are_drawn_a_snapshot_at_a_time(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FILM_OF_A_SPARSE_FILE, str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160e6
