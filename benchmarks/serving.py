"""A real server for a benchmark, and what its processes hold in memory."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

COMPONENTS = Path(__file__).with_name("components")


@contextmanager
def server(component: str, output_path: Path) -> Iterator[tuple[str, int]]:
    """Serve one of `components` on a free port; yield its address and process id."""
    command = [
        sys.executable,
        "-c",
        "from binref_sci.cli import main; main()",
        "serve",
        COMPONENTS / f"{component}.py",
        "--port=0",
        f"--output-path={output_path}",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    yield found[0], process.pid
                    break
            else:
                raise RuntimeError("the server said no address")
        finally:
            process.terminate()


def peak(pid: int) -> int:
    """Return the peak resident memory of a process and its children, in bytes."""
    process = psutil.Process(pid)
    return sum(_high_water(each.pid) for each in [process, *process.children(recursive=True)])


def _high_water(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
