"""Restarted simulations: the later run takes over from its first time."""

import numpy as np
import pytest

from binref_sci import BinrefWriter, open_dataset, to_binref
from binref_sci.errors import FormatError


def write(folder, times, sign=1, name="u", mode="w", **kwargs):
    kwargs.setdefault("dims", ("time", "x"))
    with BinrefWriter(name, output_path=folder, mode=mode, **kwargs) as writer:
        for time in times:
            writer.write(np.full(3, sign * time, "f8"), time=float(time))


def check(ds, first=range(5), second=range(5, 16)):
    """Times of both, and of the second where they overlap."""
    times = [*first, *second]
    np.testing.assert_array_equal(ds.time, times)
    expected = np.array([*first, *(-t for t in second)], "f8")
    np.testing.assert_array_equal(ds.u, expected[:, None] + np.zeros(3))
    np.testing.assert_array_equal(ds.u[3:9, 1], expected[3:9])
    np.testing.assert_array_equal(ds.u[::-3, 1], expected[::-3])


@pytest.mark.parametrize("chunks", [{}, None])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_the_later_run_takes_over_from_its_first_time(tmp_path, chunks, compression):
    """R23, in two folders."""
    write(tmp_path / "a", range(11), compression=compression)
    write(tmp_path / "deep" / "b", range(5, 16), sign=-1, compression=compression)
    check(open_dataset([tmp_path / "a", tmp_path / "deep" / "b"], chunks=chunks))


@pytest.mark.parametrize("limit", [2**30, 100])
def test_going_on_from_an_earlier_time_replaces_what_came_after_it(tmp_path, limit):
    """R23, in one folder."""
    write(tmp_path, range(11), max_file_size=limit)
    write(tmp_path, range(5, 16), sign=-1, mode="a", max_file_size=limit)
    check(open_dataset(tmp_path))


def test_a_run_may_be_restarted_more_than_once(tmp_path):
    write(tmp_path, range(11))
    write(tmp_path, range(8, 12), mode="a")
    write(tmp_path, range(5, 16), sign=-1, mode="a")
    check(open_dataset(tmp_path))
    write(tmp_path / "more", range(11))
    with pytest.warns(RuntimeWarning, match="nothing is left of '.*/more'"):
        check(open_dataset([tmp_path / "more", tmp_path]))


def test_runs_without_overlap_follow_one_another(tmp_path):
    write(tmp_path / "a", range(5))
    write(tmp_path / "b", range(5, 16), sign=-1)
    check(open_dataset([tmp_path / "a", tmp_path / "b"]))


def test_times_that_run_backwards_are_left_alone(tmp_path):
    write(tmp_path, [5, 4, 3, 2], max_file_size=24)
    np.testing.assert_array_equal(open_dataset(tmp_path).time, [5, 4, 3, 2])


def test_times_that_go_back_within_one_go_are_left_alone(tmp_path):
    write(tmp_path, [0, 1, 2, 1, 0])
    np.testing.assert_array_equal(open_dataset(tmp_path).time, [0, 1, 2, 1, 0])


@pytest.mark.parametrize("order", ["ba", "aa", "acb"])
def test_a_run_of_which_nothing_is_left_is_named(tmp_path, order):
    for name, times in (("a", range(11)), ("b", range(5, 16)), ("c", range(8, 12))):
        write(tmp_path / name, times)
    with pytest.warns(RuntimeWarning, match=rf"'u': nothing is left of '.*/{order[-2]}'"):
        ds = open_dataset([tmp_path / name for name in order])
    np.testing.assert_array_equal(ds.time, range(16 if order == "acb" else 11))


def test_without_times_runs_follow_one_another(tmp_path):
    for folder in ("a", "b"):
        with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path / folder) as writer:
            for step in range(3):
                writer.write([step, step])
    ds = open_dataset([tmp_path / "a", tmp_path / "b"])
    np.testing.assert_array_equal(ds.u[:, 0], [0, 1, 2, 0, 1, 2])


def test_blocks_of_parallel_runs_are_joined(tmp_path):
    for folder, times, sign in (("a", range(11), 1), ("b", range(5, 16), -1)):
        for block in (slice(0, 1), slice(1, 3)):
            with BinrefWriter(
                "u", dims=("time", "x"), output_path=tmp_path / folder, block=(block,),
                shape=(3,), run_id="r",
            ) as writer:  # fmt: skip
                for time in times:
                    writer.write(np.full(block.stop - block.start, sign * time, "f8"), time=time)
    check(open_dataset([tmp_path / "a", tmp_path / "b"]))


def replace_time(run, old, new):
    for path in run.rglob("*"):
        if path.is_file():
            old_bytes, new_bytes = (np.float64(time).tobytes() for time in (old, new))
            path.write_bytes(path.read_bytes().replace(old_bytes, new_bytes))


def test_runs_that_are_no_parts_of_one_simulation_are_an_error_that_says_why(tmp_path):
    write(tmp_path / "a", range(3))
    write(tmp_path / "b", range(3), dims=("time", "y"))
    with pytest.raises(FormatError, match=r"'u' of .*'y'.*'x'.*one\s+by one"):
        open_dataset([tmp_path / "a", tmp_path / "b"])
    with BinrefWriter("u", dims=("time", "x"), output_path=tmp_path / "c") as writer:
        writer.write(np.zeros(3))
    with pytest.raises(FormatError, match=r"no times.*cannot be told"):
        open_dataset([tmp_path / "a", tmp_path / "c"])
    write(tmp_path / "d", [0, 5, 3, 4, 9])
    write(tmp_path / "e", [4, 10])
    with pytest.raises(FormatError, match="do not increase"):
        open_dataset([tmp_path / "d", tmp_path / "e"])
    write(tmp_path / "f", [7, 3])
    write(tmp_path / "g", [0, 1, 7])
    for name in "fg":  # another writer than ours may have stored no number
        replace_time(tmp_path / name, 7, np.nan)
    for one, other in ("fe", "ge", "af"):
        with pytest.raises(
            FormatError, match=f"do not increase up to {'nan' if other == 'f' else 4}"
        ):
            open_dataset([tmp_path / one, tmp_path / other])
    with pytest.raises(FormatError, match="empty"):
        open_dataset([])
    to_binref(open_dataset(tmp_path / "a"), tmp_path / "saved")
    with pytest.raises(FormatError, match=r"xarray\.concat"):
        open_dataset([tmp_path / "saved", tmp_path / "a"])


def test_a_joined_dataset_has_another_name_when_a_part_has_grown(tmp_path):
    write(tmp_path / "a", range(4))
    write(tmp_path / "b", range(4, 6))
    paths = [tmp_path / "a", tmp_path / "b"]
    before, again = open_dataset(paths), open_dataset(paths)
    write(tmp_path / "b", [6], mode="a")
    after = open_dataset(paths)
    assert before.u.data.name == again.u.data.name != after.u.data.name
    assert after.sizes["time"] == 7


def test_runs_in_the_wrong_order_are_told(tmp_path):
    write(tmp_path / "a", range(11))
    write(tmp_path / "b", range(5, 16), sign=-1)
    with pytest.warns(RuntimeWarning, match=r"nothing is left of .*b'.*in order of time"):
        ds = open_dataset([tmp_path / "b", tmp_path / "a"])
    assert ds.sizes["time"] == 11


def test_runs_without_a_trajectory_in_common_are_told(tmp_path):
    write(tmp_path / "a", range(3))
    write(tmp_path / "b", range(3, 5), name="v")
    with pytest.raises(FormatError, match=r"\['v'\].*\['u'\]: none in common"):
        open_dataset([tmp_path / "a", tmp_path / "b"])
