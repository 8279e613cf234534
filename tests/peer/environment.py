"""The peer's interpreter and its server."""

import base64
import csv
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.peer import environment
from tests.kit import ended
from tests.serving import held_port

START_SECONDS = 120


def interpreter():
    """The peer's Python. Made on first use; where that fails the test is skipped (in full, failed)."""
    lock = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "binref-sci-peer.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the workers of pytest-xdist make it once
        try:
            return environment()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"tesseract-core cannot be installed: {error}")


def changed_files(python):
    """Files of the installed tesseract-core that are not as they were packed."""
    site = python.parent.parent / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (record,) = site.glob("tesseract_core-1.15.0.dist-info/RECORD")
    changed = []
    with open(record, newline="") as file:
        for path, digest, _ in csv.reader(file):
            if digest and path.startswith("tesseract_core/"):
                found = hashlib.sha256((site / path).read_bytes()).digest()
                packed = base64.urlsafe_b64encode(found).rstrip(b"=").decode()
                if digest != f"sha256={packed}":
                    changed.append(path)
    return changed


def swapped(source):
    """A component's source with the peer's package in place of ours, in its import lines alone."""
    return "".join(
        line.replace("binref_sci", "tesseract_core")
        if line.startswith(("from ", "import "))
        else line
        for line in source.splitlines(keepends=True)
    )


@contextmanager
def peer_serving(python, api_file, output_path, input_path, log_file):
    """Serve a component with the peer's own server; yield its address."""
    settings = {
        "TESSERACT_API_PATH": str(api_file),
        "TESSERACT_OUTPUT_PATH": str(output_path),
        "TESSERACT_INPUT_PATH": str(input_path),
    }
    command = [python, "-m", "tesseract_core.runtime.cli", "serve"]
    with (
        held_port() as port,
        open(log_file, "wb") as log,
        ended(
            subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port)],
                env=os.environ | settings,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        ) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        _wait(process, url, log_file)
        yield url
        process.terminate()
        process.wait(60)


def _wait(process, url, log_file):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{url}/health", timeout=5)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the peer's server did not start:\n{Path(log_file).read_text()}")
