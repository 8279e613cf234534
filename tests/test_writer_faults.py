"""What a writer promises when something goes wrong: real signals, full disks, lost folders."""

import errno
import gc
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from binref_sci.array import BinrefArray
from binref_sci.errors import BufferNotFoundError, FormatError, WriterError
from binref_sci.journal import SUFFIX, read_journal
from binref_sci.trajectory import Trajectory
from binref_sci.writer import BinrefWriter
from tests.kit import (
    command,
    descriptors_at_rest,
    environment,
    open_descriptors,
    run,
    run_on_a_small_disk,
)
from tests.policy import FULL

OPTIONS = {
    "plain": {},
    "rotating": {"max_file_size": 900},
    "lz4": {"compression": "lz4"},
    "lz4 rotating": {"compression": "lz4", "max_file_size": 450},
    "power": {"durability": "power"},
    "unnamed": {"name": None},
}
SIZE = 16


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def writer(request, tmp_path):
    with BinrefWriter(**{"name": "u", "output_path": tmp_path, **request.param}) as made:
        yield made


def put(writer, step):
    """Write a snapshot that knows its number, and its time, which is the same."""
    return writer.write(np.full(SIZE, step, "f8"), time=float(step))


def check(writer, refs, *, closed=True):
    """All of `refs`, by step, and nothing else is there, in order, with their times."""
    for step, ref in refs.items():
        assert (ref.load() == step).all()
    if closed:
        writer.close()
    check_journal(writer.journal_path, sorted(refs), state="complete" if closed else "writing")


def check_journal(path, steps, state):
    journal = read_journal(path)
    assert (journal.state, journal.count) == (state, len(steps))
    made = Trajectory.from_journal(journal)
    assert made.load().tolist() == [[step] * SIZE for step in steps]
    assert made.times.tolist() == steps


def descriptor_of(path):
    """The descriptor that this process writes a file with."""
    for link in Path("/proc/self/fd").iterdir():
        if os.path.realpath(link) == os.fspath(path):
            return int(link.name)
    raise AssertionError(f"{path} is not open")


@contextmanager
def no_room_in(*paths):
    """Any write to these open files meets a full disk, as the system reports it."""
    saved = []
    full = os.open("/dev/full", os.O_RDWR)
    try:
        for path in paths:
            fd = descriptor_of(path)
            saved.append((fd, os.dup(fd)))
            os.dup2(full, fd)
        yield
    finally:
        for fd, original in saved:
            os.dup2(original, fd)
            os.close(original)
        os.close(full)


@contextmanager
def limit(kind, value):
    """A limit of this process, for a while."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@contextmanager
def descriptors_left(count):
    """This process may open so many files more."""
    taken = [os.dup(0) for _ in range(count + 1)]
    for fd in taken:
        os.close(fd)
    with limit(resource.RLIMIT_NOFILE, taken[-1]):
        yield


def files_of(writer, part):
    """The open file that holds one part of a snapshot."""
    journal = read_journal(writer.journal_path)
    line, folder = journal.segments[-1], Path(writer.directory)
    found = {
        "data": folder / line.buffer,
        "time": folder / journal.header.time.buffer,
        "table": folder / line.table if line.table else None,
        "journal": Path(writer.journal_path),
    }
    return found[part]


@pytest.mark.parametrize("part", ["data", "time", "table"])
def test_a_full_disk_fails_one_write_and_shifts_nothing(writer, part):
    refs = {step: put(writer, step) for step in range(3)}
    path = files_of(writer, part)
    if path is None:
        path = files_of(writer, "data")  # no table without compression
    for _ in range(2):
        with no_room_in(path), pytest.raises(OSError, match=r"Errno 28|No space") as caught:
            put(writer, 99)
        assert caught.value.errno == errno.ENOSPC
        check(writer, refs, closed=False)
    refs |= {step: put(writer, step) for step in range(3, 9)}
    check(writer, refs)


def test_a_journal_that_cannot_grow_fails_the_write_that_needs_it(tmp_path):
    with BinrefWriter("u", output_path=tmp_path, max_file_size=2 * SIZE * 8) as writer:
        refs = {step: put(writer, step) for step in range(2)}
        before = sorted(tmp_path.iterdir())
        for _ in range(2):
            with no_room_in(writer.journal_path), pytest.raises(OSError, match="No space"):
                put(writer, 99)
            assert sorted(tmp_path.iterdir()) == before
        check(writer, refs, closed=False)
        refs |= {step: put(writer, step) for step in range(2, 7)}
        check(writer, refs)


def test_a_snapshot_without_elements_needs_the_journal(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        writer.write(np.zeros((0, 3)))
        with no_room_in(writer.journal_path), pytest.raises(OSError, match="No space"):
            writer.write(np.zeros((0, 3)))
        writer.write(np.zeros((0, 3)))
    assert read_journal(writer.journal_path).count == 2


def test_a_buffer_that_cannot_be_made_fails_the_write_that_needs_it(tmp_path):
    with BinrefWriter("u", output_path=tmp_path, max_file_size=2 * SIZE * 8) as writer:
        with descriptors_left(0), pytest.raises(OSError, match="Errno 24"):
            put(writer, 99)
        assert list(tmp_path.iterdir()) == []
        refs = {step: put(writer, step) for step in range(2)}
        for _ in range(2):
            with descriptors_left(0), pytest.raises(OSError, match="Errno 24"):
                put(writer, 99)
        refs |= {step: put(writer, step) for step in range(2, 7)}
        check(writer, refs)


def test_the_first_write_may_fail_at_any_file_and_leaves_none(tmp_path):
    """The time buffer, the coordinate, the journal, the buffer, the table: each in turn."""
    coords = {"x": np.arange(SIZE * 100.0)}
    field = np.zeros(SIZE * 100)
    with BinrefWriter(
        "u", dims=("time", "x"), coords=coords, output_path=tmp_path, compression="lz4"
    ) as writer:
        for count in range(3):
            with descriptors_left(count), pytest.raises(OSError, match="Errno 24"):
                writer.write(field, time=0.0)
            assert not [path for path in tmp_path.iterdir() if count < 2]
        ref = writer.write(field, time=0.0)
        assert (ref.load() == 0).all()
    assert read_journal(writer.journal_path).count == 1
    # time, coordinate, buffer, table, journal: nothing of the attempts before
    assert len(list(tmp_path.iterdir())) == 5


def test_a_file_size_limit_fails_the_write_it_cuts_and_no_other(writer):
    """Case R09: write 3 of 5 is cut half-way."""
    refs = {step: put(writer, step) for step in range(2)}
    size = files_of(writer, "data").stat().st_size
    with limit(resource.RLIMIT_FSIZE, size + 5), pytest.raises(OSError, match="large") as caught:
        writer.write(np.random.default_rng(0).random(2 * SIZE)[:SIZE], time=2.0)
    assert caught.value.errno == errno.EFBIG
    check(writer, refs, closed=False)
    refs |= {step: put(writer, step) for step in (3, 4)}
    check(writer, refs)


def test_an_array_that_finds_no_room_leaves_no_file(tmp_path):
    with limit(resource.RLIMIT_FSIZE, 100), pytest.raises(OSError, match="large"):
        BinrefArray.write(np.zeros(100), output_path=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_close_that_finds_no_room_says_so_and_loses_no_snapshot(tmp_path):
    writer = BinrefWriter("u", output_path=tmp_path)
    for step in range(3):
        put(writer, step)
    before = descriptors_at_rest()
    with descriptors_left(0), pytest.raises(OSError, match="Errno 24"):
        writer.close()
    assert open_descriptors() == before - 3
    check_journal(writer.journal_path, [0, 1, 2], state="interrupted")
    with BinrefWriter("u", output_path=tmp_path, mode="a") as again:
        put(again, 3)
    check_journal(writer.journal_path, [0, 1, 2, 3], state="complete")


FILL_A_DISK = """
    import errno, sys
    import numpy as np
    from binref_sci.journal import read_journal
    from binref_sci.trajectory import Trajectory
    from binref_sci.writer import BinrefWriter

    folder, compression = sys.argv[1], None if sys.argv[2] == "None" else sys.argv[2]
    rng = np.random.default_rng(0)
    writer = BinrefWriter("u", output_path=folder, compression=compression, max_file_size=50_000)
    filler = open(folder + "/filler", "wb", buffering=0)
    filler.write(bytes(100_000))
    kept, failures = [], 0
    for step in range(400):
        field = rng.random(200)
        try:
            kept.append((step, field, writer.write(field, time=step)))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            failures += 1
            if failures == 20:
                filler.truncate(0)
    assert failures >= 20, failures
    for step, field, ref in kept:
        assert np.array_equal(ref.load(), field)
    try:
        writer.close()
    except OSError as error:
        assert error.errno == errno.ENOSPC
    made = Trajectory.from_journal(read_journal(writer.journal_path))
    assert made.times.tolist() == [step for step, _, _ in kept]
    assert np.array_equal(made.load(), [field for _, field, _ in kept])
    print(failures, len(kept))
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_full_file_system_loses_nothing_and_writing_goes_on_once_there_is_room(
    tmp_path, compression
):
    printed = run_on_a_small_disk(tmp_path, "400k", FILL_A_DISK, tmp_path, compression)
    failures, kept = map(int, printed.split())
    assert failures >= 20
    assert kept >= 100


UNDER_ERRORS = """
    import errno, sys
    import numpy as np
    from binref_sci.journal import read_journal
    from binref_sci.trajectory import Trajectory
    from binref_sci.writer import BinrefWriter

    compression = None if sys.argv[2] == "None" else sys.argv[2]
    writer = BinrefWriter("u", output_path=sys.argv[1], compression=compression, max_file_size=300)
    kept, failed = [], 0
    for step in range(8):
        try:
            kept.append((step, writer.write(np.full(16, step, "f8"), time=float(step))))
        except OSError as error:
            assert error.errno == errno.EIO
            failed += 1
    for step, ref in kept:
        assert (ref.load() == step).all()
    try:
        writer.close()
    except OSError as error:
        failed += 1
    journal = read_journal(writer.journal_path)
    made = Trajectory.from_journal(journal)
    steps = [step for step, _ in kept]
    assert made.times.tolist() == made.load()[:, 0].tolist() == steps
    print(failed, len(kept), journal.state)
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize(
    "nth", [2, 4, pytest.param(range(1, 25), marks=pytest.mark.long, id="each")]
)
def test_an_input_output_error_fails_one_write_and_shifts_nothing(
    tmp_path, needs, compression, nth
):
    strace = os.fspath(needs("strace"))
    trace = [strace, "-f", "-qq", "-o", os.devnull, "-e", "trace=pwrite64"]
    if subprocess.run([*trace, "true"], capture_output=True).returncode:
        (pytest.fail if FULL else pytest.skip)("the system allows no tracing")
    for number in [nth] if isinstance(nth, int) else nth:
        inject = ["-e", f"inject=pwrite64:error=EIO:when={number}"]
        child = command(UNDER_ERRORS, tmp_path / str(number), compression)
        done = subprocess.run(
            [*trace, *inject, *child], env=environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, (number, done.stderr)
        failed, kept, state = done.stdout.split()
        assert (int(failed), int(kept) + int(failed), state) in {
            (1, 8, "complete"),
            (1, 9, "interrupted"),  # it struck the close
            (0, 8, "complete"),  # fewer writes were needed
        }


def test_a_directory_that_vanishes_is_an_error_and_writing_begins_anew_where_it_comes_back(
    tmp_path,
):
    folder = tmp_path / "out"
    large = np.zeros(10_000)
    with BinrefWriter("u", output_path=folder) as writer:
        writer.write(large, time=0.0)
        shutil.rmtree(folder)
        with pytest.raises(BufferNotFoundError, match="1 snapshots are gone"):
            writer.write(large, time=1.0)
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                writer.write(large, time=1.0)
        folder.mkdir()
        ref = writer.write(large + 2, time=2.0)
        assert (ref.load() == 2).all()
    made = Trajectory.from_journal(read_journal(writer.journal_path))
    assert made.times.tolist() == [2]


def test_small_snapshots_notice_a_vanished_directory_soon(tmp_path):
    folder = tmp_path / "out"
    writer = BinrefWriter("u", output_path=folder)
    put(writer, 0)
    shutil.rmtree(folder)
    with pytest.raises(BufferNotFoundError, match="removed while it was written"):  # noqa: PT012
        for step in range(10**6):
            put(writer, step)
    writer.close()


def test_a_directory_that_vanishes_before_the_end_is_an_error_of_close(tmp_path):
    folder = tmp_path / "out"
    before = descriptors_at_rest()
    writer = BinrefWriter("u", output_path=folder)
    put(writer, 0)
    shutil.rmtree(folder)
    with pytest.raises(BufferNotFoundError, match="1 snapshots are gone"):
        writer.close()
    writer.close()
    assert open_descriptors() == before


def test_a_directory_that_is_renamed_keeps_what_was_written(tmp_path):
    writer = BinrefWriter("u", output_path=tmp_path / "out")
    put(writer, 0)
    (tmp_path / "out").rename(tmp_path / "moved")
    put(writer, 1)
    with pytest.raises(FileNotFoundError):
        writer.close()
    (path,) = (tmp_path / "moved").glob(f"*{SUFFIX}")
    check_journal(path, [0, 1], state="interrupted")


def test_a_refused_snapshot_changes_nothing(tmp_path):
    with BinrefWriter("u", output_path=tmp_path) as writer:
        refs = {step: put(writer, step) for step in range(2)}
        for array in (np.zeros(3), np.zeros(SIZE, "O"), np.zeros(SIZE, "f4")):
            with pytest.raises((ValueError, TypeError)):
                writer.write(array, time=0.0)
            check(writer, refs, closed=False)
        refs[2] = put(writer, 2)
        check(writer, refs)


# --- kill -9 ------------------------------------------------------------------------------------

KILL = """
    import os, random, signal, struct, sys, time
    from pathlib import Path
    import numpy as np
    from binref_sci.journal import read_journal
    from binref_sci.trajectory import Trajectory
    from binref_sci.writer import BinrefWriter

    root, instants, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    CHOICES = [
        dict(compression="lz4", max_file_size=20_000),
        dict(max_file_size=20_000),
        dict(compression="lz4"),
        dict(name=None, max_file_size=50_000),
        dict(durability="power", max_file_size=20_000),
    ]
    written = 0
    for instant in range(instants):
        folder, options = root / str(instant), {"name": "u", **CHOICES[instant % len(CHOICES)]}
        take, give = os.pipe()
        pid = os.fork()
        if not pid:
            writer = BinrefWriter(output_path=folder, **options)
            noise = np.random.default_rng(instant).random(64)
            step = 0
            while True:
                writer.write(step + noise, time=float(step))
                os.write(give, struct.pack("<q", step))
                step += 1
        os.close(give)
        told = b""
        if instant % 4:  # else also while it begins
            wanted = 8 * (1 + rng.randrange(60))
            while len(told) < wanted:
                piece = os.read(take, 1 << 20)
                assert piece, "the child has ended by itself"
                told += piece
        time.sleep(rng.random() ** 2 * 0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while piece := os.read(take, 1 << 20):
            told += piece
        os.close(take)
        returned = len(told) // 8
        journals = list(folder.glob("*.binref.jsonl"))
        if not journals:
            assert not returned, (instant, returned)
            continue
        (path,) = journals
        journal = read_journal(path)
        assert journal.state == "interrupted", (instant, journal.state)
        assert returned <= journal.count <= returned + 1, (instant, returned, journal.count)
        if not journal.segments:
            continue
        made = Trajectory.from_journal(journal)
        steps = np.arange(journal.count)
        noise = np.random.default_rng(instant).random(64)
        assert np.array_equal(made.load(), steps[:, None] + noise), instant
        assert made.times.tolist() == steps.tolist(), instant
        written += returned
        for part in folder.iterdir():
            part.unlink()
    print(written)
"""


@pytest.mark.parametrize("instants", [10, pytest.param(200, marks=pytest.mark.long)])
def test_kill_9_at_any_instant_loses_nothing_that_write_had_returned(tmp_path, instants):
    assert int(run(KILL, tmp_path, instants, instants, timeout=110)) > 10 * instants


# --- Ctrl-C -------------------------------------------------------------------------------------

INTERRUPT = """
    import os, random, signal, sys, time
    import numpy as np
    from binref_sci.journal import read_journal
    from binref_sci.trajectory import Trajectory
    from binref_sci.writer import BinrefWriter

    folder, compression, limit, steps = sys.argv[1:]
    options = dict(compression=None if compression == "None" else compression,
                   max_file_size=int(limit))
    parent = os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bomber = os.fork()
    if not bomber:
        rng = random.Random(0)
        while os.getppid() == parent:
            time.sleep(rng.random() * 0.001)
            os.kill(parent, signal.SIGINT)
        os._exit(0)
    named = BinrefWriter("u", output_path=folder, **options)
    packed = BinrefWriter(output_path=folder, **options)
    kept, struck, step, armed = {}, 0, 0, False

    def strike(*_):
        global armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def write():
        shape = (16,) if step % 3 else (4, 5)
        return (named.write(np.full(16, step, "f8"), time=float(step)),
                packed.write(np.full(shape, step, "f4"), time=float(step)))

    kept[0] = write()
    step = 1
    signal.signal(signal.SIGINT, strike)
    while step < int(steps) or struck <= int(steps) / 100:
        try:
            armed = True
            refs = write()
            armed = False
        except KeyboardInterrupt:
            struck += 1
        else:
            kept[step] = refs
            step += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.kill(bomber, signal.SIGKILL)
    os.waitpid(bomber, 0)
    later = [named.write(np.full(16, step, "f8"), time=float(step)),
             packed.write(np.full(3, step, "f4"), time=float(step))]
    for number, refs in [*kept.items(), (step, later)]:
        for ref in refs:
            assert (ref.load() == number).all(), number
    for place, writer in enumerate((named, packed)):
        writer.close()
        journal = read_journal(writer.journal_path)
        assert journal.state == "complete"
        times = journal.times().load()
        refs = [ref for part in journal.each_segment() for ref in Trajectory(part)]
        assert len(refs) == len(times) == journal.count
        # A step that was interrupted after it counted is there twice; none is missing.
        assert set(times) == set(range(step + 1))
        assert (np.diff(times) >= 0).all()
        assert len(times) - step - 1 <= struck
        assert {refs[place] for refs in kept.values()} <= set(refs)
        for ref, moment in zip(refs, times, strict=True):
            assert (ref.load() == moment).all(), moment
        spans = sorted((r.path, r.offset, r.ref.stop) for r in refs)
        for (path, _, stop), (other, start, _) in zip(spans, spans[1:]):
            assert path != other or stop <= start
    print(struck)
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize(
    ("max_file_size", "steps"),
    [(10**9, 600), (1000, 600), pytest.param(1000, 6000, marks=pytest.mark.long)],
)
def test_ctrl_c_at_any_instant_raises_and_shifts_nothing(
    tmp_path, compression, max_file_size, steps
):
    struck = int(run(INTERRUPT, tmp_path, compression, max_file_size, steps, timeout=110))
    assert struck > steps / 100


def test_a_coordinate_along_no_dimension_is_refused(tmp_path):
    for coords in ({"Y": ("Y", np.arange(3))}, {"Y": np.arange(3)}):
        with pytest.raises(WriterError, match="'Y' lies along 'Y', but the dims are"):
            BinrefWriter("a", dims=("time", "y"), coords=coords, output_path=tmp_path)


def test_a_misspelled_keyword_is_the_only_thing_told(recwarn):
    with pytest.raises(TypeError, match="output"):
        BinrefWriter("a", output="x")
    gc.collect()
    assert not recwarn.list  # pytest shows what a finalizer raises as a warning


def test_a_file_is_no_folder_to_write_into(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FormatError, match="there is a file of this name"):
            BinrefWriter("a", output_path=place)
        with pytest.raises(FormatError, match="there is a file of this name"):
            BinrefArray.write([1.0], output_path=place)


def test_the_total_of_a_run_that_goes_on_counts_what_is_there(tmp_path):
    with BinrefWriter("a", output_path=tmp_path, total=2) as writer:
        writer.write([1.0])
        writer.write([2.0])
    with BinrefWriter("a", output_path=tmp_path, total=3, mode="a") as writer:
        for _ in range(3):
            writer.write([3.0])
    assert read_journal(Path(writer.journal_path)).header.total == 5
