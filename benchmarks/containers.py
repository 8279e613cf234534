"""A component in a container beside the same one in a local process."""

from __future__ import annotations

import gc
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.base_image import base_image
from benchmarks.harness import Row, interleaved, stopwatch, under
from binref_sci import Tesseract
from binref_sci.containers.building import build
from binref_sci.containers.engine import find_engine

ROOT = Path(__file__).parents[1]
PASSTHROUGH = ROOT / "examples" / "binref_passthrough"
IMAGE = "localhost/binref-sci-bench"

CALLS = 300
CYCLES = 50
KILLED = 10
AT_ONCE = 4
STEPS = 1024
SIDE = 512  # 2 MiB a snapshot, 2 GiB in all
MEGABYTE = 1e6


def rows() -> Iterator[Row]:
    """Yield the rows; the images are built first, which is not measured."""
    engine = find_engine("podman")
    build(PASSTHROUGH, engine, tag=f"{IMAGE}:passthrough", base=base_image())
    build(
        ROOT / "benchmarks" / "components" / "boxed",
        engine,
        tag=f"{IMAGE}:streamer",
        base=base_image(),
    )
    yield _overhead()
    yield _start()
    yield from _streaming()
    yield _cycles()


def _overhead() -> Row:
    with _local_server() as url, Tesseract.from_image(f"{IMAGE}:passthrough") as boxed:
        components = {"local": Tesseract.from_url(url), "boxed": boxed}
        inputs = {"size": 4, "steps": 0}
        for component in components.values():
            component.apply(inputs)
        # Call by call in turn, and medians: what else the machine does meets both alike.
        seconds: dict[str, list[float]] = {name: [] for name in components}
        for _ in range(CALLS):
            for name, component in components.items():
                seconds[name].append(stopwatch(lambda used=component: used.apply(inputs)))
    median = {name: statistics.median(each) for name, each in seconds.items()}
    return under(
        "`from_image(...).apply`, small inputs, over `from_url` to a local process",
        "ms",
        (median["boxed"] - median["local"]) * 1e3,
        bar=3,
        limit=median["local"] * 1e3,
        limit_name="the whole local call",
    )


def _start() -> Row:
    idle = ["podman", "run", "--rm", "--no-healthcheck", "--entrypoint"]
    idle += ["/opt/binref-sci/bin/python", f"{IMAGE}:passthrough", "-c", "pass"]

    def healthy() -> float:
        component = Tesseract.from_image(f"{IMAGE}:passthrough")
        try:
            return stopwatch(component.serve)
        finally:
            component.teardown()

    best = interleaved(
        {
            "idle": lambda: stopwatch(lambda: subprocess.run(idle, check=True)),
            "healthy": healthy,
        },
        rounds=5,
    )
    return under(
        "start to healthy, over `podman run` of an idle Python in the same image",
        "s",
        best["healthy"] - best["idle"],
        bar=1.5,
        limit=best["idle"],
        limit_name="idle",
    )


def _streaming() -> Iterator[Row]:
    inputs = {"steps": STEPS, "side": SIDE}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BINREF_SCI_BENCH_DISK")) as folder:
        with Tesseract.from_image(f"{IMAGE}:streamer", output_path=folder, lazy=True) as component:
            component.apply({"steps": 1, "side": 16})
            before = _bytes_read()
            result = component.apply(inputs)
            read = _bytes_read() - before
            snapshots = result["heat"]
            if len(snapshots) != STEPS or float(snapshots[STEPS - 1][0, 0]) != STEPS - 1:
                raise AssertionError("the trajectory is not what was written")
            alone = component.apply(inputs | {"stream": False})["peak"]
            peak = result["peak"]
            others = result["others"]
        del snapshots, result
        gc.collect()
    yield under(
        "2 GiB trajectory from a container: bytes read by the client on the way",
        "MB",
        read / MEGABYTE,
        bar=1,
    )
    yield under(
        "the same: memory of the container above the solver's own",
        "MB",
        (peak - alone + others) / MEGABYTE,
        bar=60,
    )


def _cycles() -> Row:
    with tempfile.TemporaryDirectory() as own, _temporary(own):
        return _cycles_in(own)


@contextmanager
def _temporary(folder: str) -> Iterator[None]:
    """Have temporary folders made where nobody else makes any."""
    before = tempfile.gettempdir()
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = before


def _cycles_in(temporary: str) -> Row:
    before = _left()
    code = (
        "import os, signal, sys; from binref_sci import Tesseract; "
        "component = Tesseract.from_image(sys.argv[1]); component.serve(); "
        "print(component, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )

    def cycle(number: int) -> int:
        """Start and stop a container; return its port."""
        if number % (CYCLES // KILLED) == 0:
            command = [sys.executable, "-c", code, f"{IMAGE}:passthrough"]
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=os.environ | {"TMPDIR": temporary},
                check=False,
                capture_output=True,
                text=True,
            )
            return _port(done.stdout)
        with Tesseract.from_image(f"{IMAGE}:passthrough") as component:
            return _port(repr(component))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        ports = set(threads.map(cycle, range(CYCLES)))
    deadline = time.monotonic() + 30
    while (left := _left(ports) - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return under(
        f"{CYCLES} cycles of start and stop, {KILLED} of them with a killed caller: what is left",
        "things",
        float(len(left)),
        bar=0,
    )


def _port(told: str) -> int:
    """Return the port of a component that is served, from what is printed of it."""
    return int(told.partition("127.0.0.1:")[2].partition(":")[0])


def _left(ports: Collection[int] = ()) -> set[str]:
    """Return containers, volumes, temporary folders and open ports that are there now."""
    temporary = Path(tempfile.gettempdir()).glob("binref-sci-*")
    found = {f"temporary {each.name}" for each in temporary}
    for what in (["ps", "--all"], ["volume", "ls"]):
        command = ["podman", *what, "--format", "{{.Names}}" if what[0] == "ps" else "{{.Name}}"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found |= {f"{what[0]} {each}" for each in told.split()}
    for port in ports:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            continue
        except OSError:
            pass  # forwarded to nobody
        found.add(f"port {port}")
    return found


def _bytes_read() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        name, value = line.split(": ")
        if name == "rchar":
            return int(value)
    raise AssertionError("no rchar")


@contextmanager
def _local_server() -> Iterator[str]:
    command = [sys.executable, "-c", "from binref_sci.cli import main; main()", "serve"]
    # A file and not a pipe: it logs a line a call, and must not wait for somebody to read them.
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen([*command, str(PASSTHROUGH), "--port=0"], stderr=log) as server,
    ):
        try:
            while not (told := os.pread(log.fileno(), 10_000, 0).decode()).endswith("\n"):
                if server.poll() is not None:
                    raise RuntimeError(f"the server ended: {told}")
                time.sleep(0.05)
            yield told.split()[-1]
        finally:
            server.terminate()
