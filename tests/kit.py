"""What several test modules share: arrays to draw, and programs run as processes of their own."""

import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from binref_sci.dtypes import DTYPES
from tests.policy import lack, require

ROOT = Path(__file__).parent.parent

dtypes = st.sampled_from(sorted(DTYPES)).map(np.dtype)
shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
arrays = npst.arrays(dtypes, shapes)


@st.composite
def held_anyhow(draw: st.DrawFn) -> NDArray:
    """Arrays of any byte order and memory layout: as solvers hold them."""
    array = draw(arrays)
    if draw(st.booleans()):
        array = array.astype(array.dtype.newbyteorder(">"))
    match draw(st.sampled_from(["C", "F", "strided", "reversed", "broadcast", "transposed"])):
        case "F":
            array = np.asfortranarray(array) if array.ndim else array
        case "strided" if array.ndim:
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        case "reversed":
            array = np.flip(array)
        case "broadcast":
            array = np.broadcast_to(array, (2, *array.shape))
        case "transposed":
            array = array.T
    return array


def sample(name: str, shape: tuple[int, ...]) -> NDArray:
    """An array with the extremes of its type, then pseudo-random bytes."""
    dtype = DTYPES[name]
    count = int(np.prod(shape))
    raw = np.random.default_rng(count).bytes(count * dtype.itemsize)
    if name == "bool":
        return (np.frombuffer(raw, np.uint8) % 2).astype(bool).reshape(shape)
    made = np.frombuffer(raw, dtype).copy()
    if dtype.kind in "fc":
        extremes = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny, np.finfo(dtype).max]
    else:
        extremes = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    made[: len(extremes)] = np.array(extremes, dtype)[:count]
    return made.reshape(shape)


def assert_same(found: object, wanted: NDArray) -> None:
    """Equal to the last bit, NaNs included, in shape and in type."""
    assert isinstance(found, np.ndarray | np.generic)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype.newbyteorder("="))
    assert found.tobytes() == wanted.astype(found.dtype).tobytes()


def command(code: str, *arguments: object) -> list[str]:
    """A command line that runs `code`; warnings are errors there too."""
    return [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.fspath(ROOT)}


def run(code: str, *arguments: object, cwd: Path | None = None, timeout: float = 100) -> str:
    """Run `code` in a process of its own and return what it printed."""
    done = subprocess.run(
        command(code, *arguments),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_on_a_small_disk(disk: Path, size: str, code: str, *arguments: object) -> str:
    """Run `code` with a file system of `size` mounted at `disk`; return what it printed."""
    inside = [os.fspath(require("unshare")), "--user", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        lack("the system allows no file systems of one's own")
    mount = f'mount -t tmpfs -o size={size} tmpfs {disk} && exec "$@"'
    done = subprocess.run(
        [*inside, "sh", "-c", mount, "sh", *command(code, *arguments)],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def ended(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """A process that is killed, waited for and closed at the end of the block.

    Left to the garbage collector it would fail whatever test runs then.
    """
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def started(code: str, *arguments: object) -> Iterator[subprocess.Popen]:
    """Run `code` beside the test; it is killed at the end of the block.

    What it must not do before the test is ready waits for a line, which `go_on` gives.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ended(subprocess.Popen(command(code, *arguments), env=environment(), **pipes)) as process:
        yield process


def go_on(process: subprocess.Popen, *, lines: int = 1, word: str = "") -> None:
    """Give lines, each of a `word`, to a process that was `started`."""
    process.stdin.write(f"{word}\n".encode() * lines)
    process.stdin.flush()


def until(condition: Callable[[], object], what: str = "it", seconds: float = 60) -> object:
    """Wait for a condition; return what it gives."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} has not come after {seconds} s"
        time.sleep(0.005)
    return found


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def descriptors_at_rest() -> int:
    """Open descriptors without those of garbage, which tests before may have left."""
    gc.collect()
    return open_descriptors()


def bytes_read() -> int:
    """Bytes this process has asked the system for, from any file."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, value = line.split(": ")
        if name == "rchar":
            return int(value)
    raise AssertionError("no rchar")


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
