"""Many writers and readers at once: threads, processes, forks, pools, dask."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import numpy as np
import pytest

from binref_sci.array import BinrefArray
from binref_sci.call import Call, entering
from binref_sci.errors import NoOutputPathError
from binref_sci.journal import SUFFIX, read_journal
from binref_sci.trajectory import Trajectory
from binref_sci.writer import BinrefWriter
from tests.kit import go_on, run, started, until


def check_ranges(folder, refs):
    """The byte ranges of a writer's references do not overlap and cover its files."""
    spans = {}
    for ref in refs:
        spans.setdefault(ref.path, []).append((ref.offset, ref.ref.stop))
    for path, parts in spans.items():
        parts.sort()
        assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
        assert (Path(folder) / path).stat().st_size == parts[-1][1]


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"durability": "power"}], ids=str)
def test_eight_threads_share_one_writer(tmp_path, options):
    """Case R02, and with times: each snapshot, its reference and its time stay together."""
    writer = BinrefWriter("u", output_path=tmp_path, max_file_size=65536, **options)
    refs = [[] for _ in range(8)]

    def work(thread):
        for step in range(100):
            number = thread * 100 + step
            refs[thread].append((number, writer.write(np.full(1000, number, "f8"), time=number)))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    everything = [pair for part in refs for pair in part]
    assert len(everything) == 800
    for number, ref in everything:
        assert (ref.load() == number).all()
    check_ranges(tmp_path, [ref for _, ref in everything])
    made = Trajectory.from_journal(read_journal(writer.journal_path))
    assert made[:, 0].tolist() == made[:, -1].tolist() == made.times.tolist()
    assert sorted(made.times) == list(range(800))


def test_threads_may_pack_look_and_close_while_others_write(tmp_path):
    writer = BinrefWriter(output_path=tmp_path, max_file_size=4096)
    written, failures = [], []

    def work(thread):
        rng = np.random.default_rng(thread)
        try:
            for _ in range(100):
                array = rng.integers(0, 255, rng.integers(0, 9, 2)).astype("u1")
                written.append((array, writer.write(array)))
        except Exception as error:
            failures.append(error)

    def look():
        for _ in range(50):
            repr(writer)
            read_journal(writer.journal_path)

    writer.write([1.0])
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    threads += [threading.Thread(target=look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert not failures
    for array, ref in written:
        np.testing.assert_array_equal(ref.load(), array)
    assert read_journal(writer.journal_path).count == 801


FOUR = """
    import multiprocessing, sys
    import numpy as np
    from binref_sci.array import BinrefArray
    from binref_sci.writer import BinrefWriter

    def work(number):
        with BinrefWriter("u", output_path=sys.argv[1], run_id="r", max_file_size=5000) as writer:
            for step in range(200):
                writer.write(np.full(100, number, "f8"), time=step)
        BinrefArray.write(np.full(3, number), output_path=sys.argv[1])

    if __name__ == "__main__":
        processes = [multiprocessing.get_context("fork").Process(target=work, args=(n,))
                     for n in range(4)]
        for process in processes: process.start()
        for process in processes: process.join()
        assert not any(process.exitcode for process in processes)
"""


def test_four_processes_write_into_one_folder(tmp_path):
    run(FOUR, tmp_path)
    values = set()
    for path in tmp_path.glob(f"*{SUFFIX}"):
        journal = read_journal(path)
        made = Trajectory.from_journal(journal)
        assert (journal.state, journal.count, journal.header.run) == ("complete", 200, "r")
        field = made.load()
        assert (field == field[0, 0]).all()
        assert made.times.tolist() == list(range(200))
        values.add(field[0, 0])
        check_ranges(tmp_path, made)
    assert values == {0, 1, 2, 3}


FORK = """
    import os, sys, threading, warnings
    import numpy as np
    from binref_sci.writer import BinrefWriter

    warnings.simplefilter("ignore", DeprecationWarning)  # of threads and forks
    compression = None if sys.argv[2] == "None" else sys.argv[2]
    writer = BinrefWriter("u", output_path=sys.argv[1], max_file_size=2000,
                          compression=compression, attrs={"units": "K"})
    for step in range(10):
        writer.write(np.full(20, step, "f8"), time=step)
    stop = threading.Event()
    def busy():  # holds the writer's lock most of the time
        step = 10
        while not stop.is_set():
            writer.write(np.full(20, step, "f8"), time=step)
            step += 1
    thread = threading.Thread(target=busy)
    thread.start()
    children = []
    for number in (1000, 2000, 3000):
        pid = os.fork()
        if not pid:
            for step in range(number, number + 30):
                ref = writer.write(np.full(20, step, "f8"), time=step)
                assert (ref.load() == step).all()
            assert len(writer.trajectory()) == 30
            if number == 1000:
                grandchild = os.fork()
                if not grandchild:
                    writer.write(np.full(20, 7, "f8"), time=7)
                    writer.close()
                    os._exit(0)
                assert os.waitpid(grandchild, 0)[1] == 0
            if number != 3000:
                writer.close()
            os._exit(0)
        children.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in children]
    stop.set()
    thread.join()
    writer.close()
    print(writer.journal_path)
    sys.exit(any(codes))
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_forked_child_writes_its_own_files_and_leaves_the_parents_alone(tmp_path, compression):
    parent = run(FORK, tmp_path, compression).strip()
    found = {}
    for path in tmp_path.glob(f"*{SUFFIX}"):
        journal = read_journal(path)
        made = Trajectory.from_journal(journal)
        assert (made.load() == made.times[:, None]).all()
        assert journal.header.labels.attrs == {"units": "K"}
        found[journal.header.id if str(path) == parent else made.times[0]] = journal
    mine = next(journal for journal in found.values() if str(journal.path) == parent)
    assert mine.header.forked_from is None
    assert mine.state == "complete"
    assert Trajectory.from_journal(mine).times.tolist() == list(range(mine.count))
    assert set(found) == {mine.header.id, 7.0, 1000.0, 2000.0, 3000.0}
    assert all(
        journal.header.forked_from == mine.header.id
        for journal in found.values()
        if journal is not mine
    )
    assert [found[n].state for n in (1000, 2000, 3000)] == ["complete", "complete", "interrupted"]
    assert [found[n].count for n in (7, 1000, 2000, 3000)] == [1, 30, 30, 30]


def test_a_child_that_only_ends_leaves_the_parents_run_as_it_is(tmp_path):
    code = """
        import os, sys
        from binref_sci.call import Call, entering
        from binref_sci.journal import read_journal
        from binref_sci.writer import BinrefWriter
        from pathlib import Path
        folder = Path(sys.argv[1])
        with entering(Call(folder, folder, "a", 0)):
            writer = BinrefWriter("u")
            writer.write([1.0])
            pid = os.fork()
            if pid:
                assert os.waitpid(pid, 0)[1] == 0
                assert read_journal(writer.journal_path).state == "writing"
                writer.write([2.0])
        if not pid:
            os._exit(0)
        print(writer.journal_path)
    """
    path = run(code, tmp_path).strip()
    journal = read_journal(path)
    assert (journal.state, journal.count) == ("complete", 2)
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1


# --- inside a call ------------------------------------------------------------------------------


@pytest.fixture
def call(tmp_path):
    with entering(Call(tmp_path, tmp_path, "a", 0)) as made:
        yield made


def write_one():
    return BinrefArray.write([1.0])


def test_a_pools_threads_are_told_to_take_the_writer_or_a_path(call):
    with ThreadPoolExecutor(2) as pool:
        for attempt in (write_one, lambda: BinrefWriter("u")):
            with pytest.raises(
                NoOutputPathError, match=r"output_path=.*pool.*hand them the writer"
            ):
                pool.submit(attempt).result()
        with pytest.raises(NoOutputPathError, match=r"threads of a pool.*output_path="):
            pool.submit(BinrefArray.from_file, "x.bin", (1,), "f8").result()
        with BinrefWriter("u") as writer:
            refs = list(pool.map(lambda n: (n, writer.write(np.full(5, n))), range(50)))
        path = call.run_directory
        (other,) = pool.map(lambda n: BinrefArray.write([n], output_path=path), [7])
    assert all((ref.load() == number).all() for number, ref in refs)
    assert other.load().tolist() == [7]


def test_dask_threads_write_through_the_writer(call):
    with BinrefWriter("u") as writer:
        tasks = [dask.delayed(lambda n: (n, writer.write(np.full(5, n))))(n) for n in range(30)]
        with dask.config.set(scheduler="threads", num_workers=4):
            refs = dask.compute(*tasks)
            told = []
            try:  # some versions of dask show their threads the running call, others do not
                (alone,) = dask.compute(dask.delayed(write_one)())
                assert alone.directory == call.run_directory
            except NoOutputPathError as error:
                told.append(str(error))
            assert all("hand them the writer" in words for words in told)
    assert all((ref.load() == number).all() for number, ref in refs)


def test_two_calls_in_two_threads_do_not_meet(tmp_path):
    barrier = threading.Barrier(4)

    def work(name):
        folder = tmp_path / name
        folder.mkdir()
        with entering(Call(folder, folder, name, 0)):
            barrier.wait()
            writer = BinrefWriter("u")
            for _ in range(50):
                writer.write([ord(name)])
        return folder, writer

    with ThreadPoolExecutor(4) as pool:
        for folder, writer in pool.map(work, "abcd"):
            journal = read_journal(writer.journal_path)
            assert Path(journal.directory) == folder
            assert (journal.header.run, journal.count) == (folder.name, 50)
            assert (Trajectory.from_journal(journal).load() == ord(folder.name)).all()


SPAWN = """
    import multiprocessing, sys
    import numpy as np
    from pathlib import Path

    def alone(_):
        from binref_sci.array import BinrefArray
        try:
            BinrefArray.write([1.0])
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def with_path(folder, number):
        from binref_sci.writer import BinrefWriter
        with BinrefWriter("u", output_path=folder, run_id="r") as writer:
            return number, writer.write(np.full(5, number))

    if __name__ == "__main__":
        from binref_sci.call import Call, entering
        from binref_sci.writer import BinrefWriter
        folder = Path(sys.argv[1])
        with entering(Call(folder, folder, "a", 0)):
            writer = BinrefWriter("v")
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(alone, [0])[0])
                try:
                    pool.map(writer.write, [[1.0]])
                except TypeError as error:
                    print(error)
                refs = pool.starmap(with_path, [(folder, n) for n in range(4)])
            assert all((ref.load() == number).all() for number, ref in refs)
"""


def test_spawned_processes_inside_a_call_are_told_what_to_do(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("\n".join(line.removeprefix("    ") for line in SPAWN.splitlines()))
    (tmp_path / "out").mkdir()
    launch = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)"
    said = run(launch, program, tmp_path / "out").splitlines()
    assert said[0].startswith("NoOutputPathError: there is no running call")
    assert "other processes" in said[0]
    assert "make one there, with output_path=" in said[1]


# --- reading while writing ----------------------------------------------------------------------

STREAM = """
    import sys
    import numpy as np
    from binref_sci.writer import BinrefWriter
    compression = None if sys.argv[2] == "None" else sys.argv[2]
    packed = sys.argv[3] == "packed"
    shapes = [(16,), (3, 4), (2, 2, 2)]
    writer = BinrefWriter(None if packed else "u", output_path=sys.argv[1],
                          compression=compression, max_file_size=3000)
    step = 0
    for line in sys.stdin:  # as far as a reader can look it through
        for step in range(step, step + 300):
            # a segment ends every few snapshots, in the same buffer or in another one
            shape = shapes[step // 5 % 3] if packed else (16,)
            writer.write(np.full(shape, step, "f8"), time=float(step))
            if step == 0:
                print(writer.journal_path, flush=True)
        step += 1
        if line.strip() == "end":
            break
    writer.close()
    print(step, flush=True)
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("kind", ["named", "packed"])
@pytest.mark.parametrize("looks", [10, pytest.param(30, marks=pytest.mark.long)])
def test_a_reader_of_a_growing_run_sees_it_grow_and_every_snapshot_right(
    tmp_path, compression, kind, looks
):
    with started(STREAM, tmp_path, compression, kind) as process:
        go_on(process)
        path = process.stdout.readline().decode().strip()
        seen, states, lengths = 0, [], set()
        enough = False
        while not states or states[-1] == "writing":
            if not enough:
                enough = len(states) >= looks and len(lengths) > 3
                go_on(process, word="end" if enough else "")
            journal = read_journal(path)
            states.append(journal.state)
            assert journal.count >= seen
            steps = np.arange(journal.count)
            assert (journal.times().load() == steps).all()
            for line, count, part in zip(
                journal.segments, journal.counts, journal.each_segment(), strict=True
            ):
                if line.start + count > seen - 40:  # earlier ones were looked at before
                    field = part.load().reshape(count, math.prod(line.shape))
                    assert (field == steps[line.start : line.start + count, None]).all()
            seen = journal.count
            lengths.add(seen)
        wrote, problems = process.communicate()
    assert process.returncode == 0, problems
    assert states[-1] == "complete"
    assert seen == int(wrote)


def test_a_run_that_ends_while_it_is_looked_at_is_never_called_interrupted(tmp_path):
    stop, seen = threading.Event(), []

    def look():
        while not stop.is_set():
            for path in list(tmp_path.glob(f"*{SUFFIX}")):
                journal = read_journal(path)
                seen.append((journal.state, journal.count))
                if journal.state == "complete":
                    path.unlink()

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        with BinrefWriter("u", output_path=tmp_path, max_file_size=20) as writer:
            for step in range(5):
                writer.write([float(step)], time=step)
    until(lambda: ("complete", 5) in seen)
    stop.set()
    thread.join()
    assert {state for state, _ in seen} <= {"writing", "complete"}
    assert {count for state, count in seen if state == "complete"} == {5}
