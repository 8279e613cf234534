"""A run still going, written by another process: it grows in the player, and ends."""

import time

import numpy as np
import pytest

from binref_sci import BinrefWriter, animate, follow, open_dataset
from binref_sci.notebook.live import _POLL, still_going
from tests.kit import go_on, started, until
from tests.playing import comms, still, want  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("comms")

# Snapshot n has value n everywhere. After three it says so; then, after seven and ten it waits.
SOLVER = """
    import sys
    import numpy as np
    from binref_sci import BinrefWriter
    folder, end = sys.argv[1:3]
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=folder, total=12) as writer:
        for step in range(12):
            writer.write(np.full((4, 6), step, "f8"), time=0.5 * step)
            if step == 2:
                print("three", flush=True)
            if step in (2, 6, 9):
                sys.stdin.readline()
        if end == "wait":
            sys.stdin.readline()
"""


@pytest.fixture
def solver(tmp_path):
    with started(SOLVER, tmp_path, "end") as process:
        assert process.stdout.readline() == b"three\n"
        yield process


def test_a_run_grows_by_itself_and_its_end_is_shown(solver, tmp_path):
    began = time.monotonic()
    player = animate(open_dataset(tmp_path).u, limits=(0, 12))
    comm = player.comm
    assert player.n == 3
    assert player.index == player.n - 1
    assert player.live["state"] == "writing"
    assert player.live["attached"] is True
    assert player.live["total"] == 12
    lengths, rates = [player.n], []
    player.observe(lambda change: lengths.append(change["new"]), "n")
    player.observe(
        lambda change: rates.append((change["new"]["rate"], time.monotonic() - began)), "live"
    )
    player.pin(x=2, y=1)
    for length in (7, 10):
        go_on(solver)
        until(lambda length=length: player.n == length)
    go_on(solver)
    until(lambda: player.live["state"] == "complete")
    assert player.n == 12
    assert lengths == sorted(lengths)
    assert len(lengths) > 2
    told = [(rate, seconds) for rate, seconds in rates if rate is not None]
    assert told
    for rate, seconds in told:
        assert 1 / seconds < rate < 9 / _POLL
    assert player.ver == 0  # what was sent stays right
    until(lambda: player.pins[0].sizes["time"] == 12)
    np.testing.assert_array_equal(player.pins[0], np.arange(12))
    player._receive(want(1, [11, 2]))
    until(lambda: len(comm.frames()) == 2)
    (last, codes), _ = comm.frames()
    assert last["label"] == "t = 5.5"
    assert set(codes[0]) == {round(2 + 252 * 11 / 12)}
    still(lambda: player.live)  # it is looked at no longer
    player.close()


def test_a_killed_solver_is_noticed(tmp_path):
    with started(SOLVER, tmp_path, "wait") as process:
        assert process.stdout.readline()
        player = animate(tmp_path)
        go_on(process, lines=3)
        until(lambda: player.n == 12)
        assert player.live["state"] == "writing"
        process.kill()
        until(lambda: player.live["state"] == "interrupted")
        player.close()


def test_a_whole_dataset_and_a_follower_are_followed(solver, tmp_path):
    whole = animate(open_dataset(tmp_path))
    without_dask = animate(open_dataset(tmp_path, chunks=None).u)
    follower = animate(follow(tmp_path))
    off = animate(open_dataset(tmp_path).u, follow=False)
    for player in (whole, without_dask, follower):
        assert player.live["state"] == "writing"
    assert off.live == {}
    first = off.n
    go_on(solver, lines=3)
    for player in (whole, without_dask, follower):
        until(lambda player=player: player.n == 12)
        player.close()
    assert off.n == first
    off.close()


def test_what_is_computed_or_cut_is_not_followed(tmp_path):
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=tmp_path) as writer:
        for step in range(4):
            writer.write(np.full((4, 6), step, "f8"), time=0.5 * step)
        ds = open_dataset(tmp_path)
        assert still_going(ds.u) is not None
        assert still_going(ds.u.isel(time=slice(2))) is None
        assert still_going(ds.u.isel(y=slice(2))) is None
        assert still_going(ds.u * 2) is None
        assert still_going(open_dataset(tmp_path, chunks=None).u.isel(time=slice(2))) is None
        assert still_going(ds.u.rename("other")) is None
    assert still_going(open_dataset(tmp_path).u) is None  # it has ended


def test_scrubbing_lets_go_and_the_browser_says_so(tmp_path):
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=tmp_path) as writer:
        for step in range(4):
            writer.write(np.full((4, 6), step, "f8"), time=0.5 * step)
        player = animate(open_dataset(tmp_path).u)
        player._receive({"type": "attach", "on": False})
        assert player.live["attached"] is False
        writer.write(np.full((4, 6), 4, "f8"), time=2.0)
        until(lambda: player.n == 5)
        assert player.live["attached"] is False
        assert player.index == 3
        player.close()


def test_a_folder_that_is_deleted_is_told_once_and_may_come_back(tmp_path):
    folder, away = tmp_path / "run", tmp_path / "away"
    with BinrefWriter("u", dims=("time", "y", "x"), output_path=folder, total=9) as writer:
        writer.write(np.zeros((4, 6)), time=0.0)
        player = animate(open_dataset(folder).u, vmin=0, vmax=1)
        until(lambda: player.live["state"] == "writing")
        folder.rename(away)
        until(lambda: player.live["state"] == "missing")
        assert player.live["total"] == 9
        assert player._live.pause > 1  # looked at now and then
        away.rename(folder)
        player._look()
        assert player.live["state"] == "writing"
        errors = [content for content, _ in player.comm.messages if content["type"] == "error"]
        assert errors == []
        player.close()
