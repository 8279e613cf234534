"""Following a run while it is written: a writer in another process, alive, done or killed."""

import itertools
import json
import textwrap
import threading
import time
import uuid
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from binref_sci import BinrefWriter, follow, open_dataset
from binref_sci.cli.app import app
from binref_sci.engine import journals
from binref_sci.errors import BufferNotFoundError, FormatError, RunEndedError
from tests.kit import descriptors_at_rest, go_on, open_descriptors, started

# Writes snapshot n, all of value n; after three it says so and waits for a line.
SOLVER = """
    import sys, time
    import numpy as np
    from binref_sci import BinrefWriter
    folder, count, each = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with BinrefWriter("u", dims=("time", "x"), output_path=folder) as writer:
        for step in range(count):
            writer.write(np.full(256, step, "f8"), time=0.5 * step)
            if step == 2:
                print("three", flush=True)
                sys.stdin.readline()
            time.sleep(each)
        if sys.argv[4] == "wait":
            sys.stdin.readline()
"""


def test_a_reader_sees_every_snapshot_of_a_living_writer_and_old_datasets_stay(tmp_path):
    """R21."""
    with started(SOLVER, tmp_path, 20, 0.05, "end") as solver:
        assert solver.stdout.readline() == b"three\n"
        live = follow(tmp_path)
        early = live.refresh()
        before = early.sizes["time"]
        assert live.state == "writing"
        assert before == 3
        go_on(solver)
        lengths, values = [], []
        while True:
            state = live.state  # before the look: what is complete then is all there
            ds = live.refresh()
            lengths.append(ds.sizes["time"])
            values.append(ds.u.values)
            if state != "writing":
                break
            time.sleep(0.01)
        assert lengths == sorted(lengths)
        assert lengths[-1] == 20
        for array in values:
            np.testing.assert_array_equal(array, np.arange(len(array))[:, None] + np.zeros(256))
        assert early.sizes["time"] == before
        np.testing.assert_array_equal(early.u[:, 0], np.arange(before))
        assert live.state == "complete"


def test_iterating_gives_each_snapshot_once_as_it_comes(tmp_path):
    with started(SOLVER, tmp_path, 12, 0.02, "end") as solver:
        solver.stdout.readline()
        live = follow(tmp_path)
        go_on(solver)
        seen = [(float(snapshot.time), float(snapshot.u[7])) for snapshot in live]
        assert seen == [(0.5 * n, n) for n in range(12)]
        assert list(live) == []


def test_a_killed_writer_is_noticed(tmp_path):
    with started(SOLVER, tmp_path, 5, 0.0, "wait") as solver:
        assert solver.stdout.readline()
        live = follow(tmp_path)
        go_on(solver)
        live.wait(n=5, timeout=60)
        assert live.state == "writing"
        solver.kill()
        solver.wait()
        assert live.state == "interrupted"
        assert len(list(live)) == 5
        with pytest.raises(RunEndedError, match="interrupted: it has 5 complete snapshots, 6 were"):
            live.wait(n=6, timeout=60)
        assert live.wait().sizes["time"] == 5  # the end has come


RANK = """
    import sys
    import numpy as np
    from binref_sci import BinrefWriter
    first = int(sys.argv[2])
    labels = {"dims": ("time", "x"), "run_id": "r", "output_path": sys.argv[1]}
    writer = BinrefWriter("u", block=(slice(first, first + 2),), shape=(4,), **labels)
    for step in range(3):
        writer.write(np.full(2, step, "f8"), time=float(step))
    print("three", flush=True)
    sys.stdin.readline()
"""


def test_of_ranks_that_write_a_field_together_one_that_is_killed_is_noticed(tmp_path):
    with started(RANK, tmp_path, 0) as one, started(RANK, tmp_path, 2) as other:
        for rank in (one, other):
            assert rank.stdout.readline()
        live = follow(tmp_path)
        assert (live.state, len(live)) == ("writing", 3)
        other.kill()
        other.wait()
        assert live.state == "interrupted"
        with pytest.raises(RunEndedError, match="interrupted: it has 3 complete snapshots"):
            live.wait(n=4, timeout=60)
        assert live.refresh().encoding["binref_state"] == "interrupted"


def test_waiting_has_an_end(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1.0])
        live = follow(tmp_path)
        assert live.wait(n=1).sizes["time"] == 1
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"1 complete snapshots after 0\.1 s.* 2 snapshots"):
            live.wait(n=2, timeout=0.1)
        assert time.monotonic() - began < 30
        with pytest.raises(TimeoutError, match="waiting for its end"):
            live.wait(timeout=0)
    assert live.wait(timeout=0).sizes["time"] == 1


def test_iteration_may_begin_with_the_last_snapshot(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        for step in range(4):
            writer.write([step])
    assert [int(ds.u[0]) for ds in follow(tmp_path, start=-1)] == [3]
    assert [int(ds.u[0]) for ds in follow(tmp_path, start=2)] == [2, 3]


def test_of_variables_written_in_turn_none_is_a_step_ahead(tmp_path):
    kwargs = {"dims": ("time", "x"), "output_path": tmp_path, "run_id": "r"}
    with BinrefWriter("u", **kwargs) as u, BinrefWriter("p", **kwargs) as p:
        for step in range(3):
            u.write([step, step], time=step)
            if step < 2:
                p.write([-step, -step], time=step)
        live = follow(tmp_path)
        assert len(live) == 2
        assert dict(live.refresh().sizes) == {"time": 2, "x": 2}


def test_before_the_first_snapshot_there_is_nothing_and_no_error(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1])
        (tmp_path / "other").mkdir()
        with BinrefWriter("v", output_path=tmp_path / "other", dims=("time", "x")) as other:
            other.write([1.0])
            live = follow(tmp_path / "other")
            assert len(live) == 1
    with pytest.raises(BufferNotFoundError):
        follow(tmp_path / "nowhere")


def test_following_leaves_no_descriptor(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1.0])
        live = follow(tmp_path)
        live.refresh()
        before = descriptors_at_rest()
        for _ in range(50):
            live.refresh().u.values, live.state, len(live)
        assert open_descriptors() == before
        assert "1 snapshots, writing" in repr(live)


def test_the_same_snapshots_are_seen_by_opening(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write([1.0, 2.0])
    assert follow(tmp_path).refresh().identical(open_dataset(tmp_path))


def test_a_rerun_in_the_same_folder_is_not_taken_for_the_run_that_is_followed(tmp_path):
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as first:
        for step in range(3):
            first.write(np.zeros(4), time=step)
        live = follow(tmp_path)
        before = live.refresh()
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as second:
        for step in range(5):
            second.write(np.ones(4), time=step)
        assert follow(tmp_path).run_id != live.run_id
        assert live.state == "complete"
        assert live.refresh().identical(before)
        assert [float(snapshot.u.sum()) for snapshot in live] == [0.0, 0.0, 0.0]
        with pytest.raises(RunEndedError, match="it has 3 complete snapshots, 4 were waited for"):
            live.wait(n=4, timeout=60)
        assert follow(tmp_path).refresh().sizes["time"] == 5


def test_a_call_that_runs_again_in_its_folder_is_another_run(tmp_path):
    """Its run.json and results.json are the new call's, and say nothing of the old one."""
    component = """
        import numpy as np
        from pydantic import BaseModel
        from binref_sci import BinrefWriter
        from binref_sci.runtime import Array, Float64

        class InputSchema(BaseModel):
            count: int

        class OutputSchema(BaseModel):
            last: Array[(None,), Float64]

        def apply(inputs):
            with BinrefWriter("u", dims=("time", "x")) as writer:
                for step in range(inputs.count):
                    ref = writer.write(np.full(4, float(inputs.count)), time=step)
            return OutputSchema(last=ref)
    """
    (tmp_path / "tesseract_api.py").write_text(textwrap.dedent(component))
    out = tmp_path / "out"

    def run_with(count):
        payload = json.dumps({"inputs": {"count": count}})
        command = ["run", str(tmp_path), "apply", payload, "--output-path", str(out)]
        done = CliRunner().invoke(app, [*command, "--output-format", "json+binref"])
        assert done.exit_code == 0, done.output

    run_with(3)
    live = follow(out)
    before = live.refresh().u.load()
    run_with(5)
    assert live.state == "complete"
    after = live.refresh()
    assert after.u.identical(before)
    assert open_dataset(out).sizes["time"] == 5


def test_a_variable_that_begins_later_is_of_the_same_run(tmp_path):
    with (
        BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as u,
        BinrefWriter("v", dims=("time", "x"), output_path=tmp_path) as v,
    ):
        u.write(np.zeros(4), time=0.0)
        live = follow(tmp_path)
        v.write(np.ones(4), time=0.0)
        assert set(live.refresh().data_vars) == {"u", "v"}


def test_a_run_that_has_not_ended_shows_its_variables_in_step(tmp_path):
    grid = np.arange(3.0)
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as u:
        v = BinrefWriter("v", dims=("time", "x"), output_path=tmp_path)
        for step in range(3):
            u.write(grid, time=float(step))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                before = open_dataset(tmp_path)
            v.write(-grid, time=float(step))
            if step:
                assert before.sizes == {"time": step, "x": 3}
        u.write(grid, time=3.0)
        v._close(whole=False)  # as after an exception
    with pytest.warns(RuntimeWarning, match="the last snapshot of 'u' has none"):
        ds = open_dataset(tmp_path)
    assert ds.sizes == {"time": 3, "x": 3}
    np.testing.assert_array_equal(ds.u + ds.v, np.zeros((3, 3)))


def test_a_run_that_has_ended_shows_all_that_was_written(tmp_path):
    with (
        BinrefWriter("u", dims=("time", "x"), output_path=tmp_path) as u,
        BinrefWriter("v", dims=("time", "x"), output_path=tmp_path) as v,
    ):
        for step in range(3):
            u.write([1.0], time=float(step))
            if step:
                v.write([1.0], time=float(step))
    assert open_dataset(tmp_path).sizes == {"time": 3, "v_time": 2, "x": 1}


def test_variables_at_other_times_are_not_cut(tmp_path):
    u = BinrefWriter("u", dims=("time", "x"), output_path=tmp_path)
    v = BinrefWriter("v", dims=("time", "x"), output_path=tmp_path)
    for step in range(3):
        u.write([1.0], time=float(step))
        if step != 1:
            v.write([1.0], time=float(step))
    assert open_dataset(tmp_path).sizes == {"time": 3, "v_time": 2, "x": 1}
    u.close()
    v.close()


def test_a_variable_ahead_of_one_in_blocks_is_in_step_with_it(tmp_path):
    labels = {"dims": ("time", "x"), "output_path": tmp_path}
    labels["run_id"] = uuid.uuid4().hex
    u = BinrefWriter("u", **labels)
    halves = [
        BinrefWriter("v", block=(part,), shape=(4,), **labels)
        for part in (slice(0, 2), slice(2, 4))
    ]
    for step in range(3):
        u.write(np.zeros(4), time=float(step))
        for half in halves[: 2 if step < 2 else 1]:
            half.write(np.ones(2), time=float(step))
    assert open_dataset(tmp_path).sizes == {"time": 2, "x": 4}
    for writer in (u, *halves):
        writer.close()


@pytest.mark.parametrize("made", [False, True])
def test_a_run_that_is_yet_to_begin_can_be_waited_for(tmp_path, made):
    folder = tmp_path / "later"
    if made:  # the output path is there, and no run in it
        folder.mkdir()
    for given, error in ((0, FormatError if made else BufferNotFoundError), (0.1, TimeoutError)):
        with pytest.raises(error, match=r"timeout=|no run has begun after 0\.1 s"):
            follow(folder, timeout=given)

    def solve():
        time.sleep(0.2)
        with BinrefWriter("u", dims=("time", "x"), output_path=folder) as writer:
            writer.write(np.ones(3), time=0.0)

    solver = threading.Thread(target=solve)
    solver.start()
    run = follow(folder, timeout=60)
    assert float(run.wait().u.sum()) == 3.0
    solver.join()


def test_what_is_no_run_and_will_be_none_is_not_waited_for(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("no run")
    with pytest.raises(FormatError, match="neither a result nor a journal"):
        follow(other, timeout=None)


def test_one_in_blocks_that_is_ahead_is_in_step_too(tmp_path):
    labels = {"dims": ("time", "x"), "output_path": tmp_path, "run_id": "r"}
    writers = {
        name: [
            BinrefWriter(name, block=(part,), shape=(4,), **labels)
            for part in (slice(0, 2), slice(2, 4))
        ]
        for name in "uv"
    }
    for step in range(3):
        for name in "uv"[: 2 if step < 2 else 1]:
            for half in writers[name]:
                half.write(np.full(2, step), time=float(step))
    ds = open_dataset(tmp_path)
    assert ds.sizes == {"time": 2, "x": 4}
    np.testing.assert_array_equal(ds.u[:, 1:3], [[0, 0], [1, 1]])
    for writer in (*writers["u"], *writers["v"]):
        writer.close()


def test_one_that_is_written_seldom_leaves_the_others_in_step(tmp_path):
    labels = {"dims": ("time", "x"), "output_path": tmp_path}
    with (
        BinrefWriter("u", **labels) as u,
        BinrefWriter("v", **labels) as v,
        BinrefWriter("seldom", **labels) as seldom,
    ):
        for step in range(6):
            u.write(np.zeros(2), time=float(step))
            if not step % 3:
                seldom.write(np.zeros(2), time=float(step))
            ds = open_dataset(tmp_path)
            v.write(np.zeros(2), time=float(step))
            if step > 1:
                assert ds.sizes == {"time": step, "x": 2, "seldom_time": 1 + step // 3}


@pytest.mark.parametrize("times", [True, False])
def test_a_solver_that_goes_on_while_it_is_looked_at_is_seen_in_step(tmp_path, monkeypatch, times):
    """Journals are read one after another, and a fast solver writes many steps meanwhile."""
    labels = {"dims": ("time", "x"), "output_path": tmp_path}
    with BinrefWriter("u", **labels) as u, BinrefWriter("v", **labels) as v:
        steps = itertools.count()

        def advance(count):
            for _ in range(count):
                step = float(next(steps))
                for writer in (u, v):
                    writer.write(np.full(2, step), **({"time": step} if times else {}))

        advance(1)
        live, real = follow(tmp_path), journals.read

        def read(head):
            found = real(head)
            advance(5)
            return found

        monkeypatch.setattr(journals, "read", read)
        before = 0
        for _ in range(4):
            ds = live.refresh()
            assert set(ds.sizes) == {"time", "x"}
            assert ds.sizes["time"] > before
            before = ds.sizes["time"]
            np.testing.assert_array_equal(ds.u, ds.v)
