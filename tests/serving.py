"""A real server process on loopback, for tests."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

COMMAND = (sys.executable, "-c", "from binref_sci.cli import main; main()")
# Where the package lies, for commands run elsewhere when it is not installed.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
}
# These processes start often: compiled once, not each time.
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)
START_SECONDS = 100
STOP_SECONDS = 60


@dataclass
class Server:
    """One server that answers."""

    process: subprocess.Popen
    url: str
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.url, **{"timeout": 60, **options})

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)


@contextmanager
def serving(component, *options, log_file, ready=True, before=""):
    """Serve `component` on a free port; stop the server at the end, whatever happened.

    The server's process runs `before` first.
    """
    *python, code = COMMAND
    with open(log_file, "wb") as log:
        process = subprocess.Popen(
            [
                *python,
                f"{before}\n{code}",
                "serve",
                str(component),
                "--port",
                "0",
                *map(str, options),
            ],
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
    server = Server(process, "", Path(log_file))
    try:
        if ready:
            server.url = _wait_until_ready(server)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def held_port():
    """A free port of loopback; a server that reuses addresses can take it, and nobody else is given it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _wait_until_ready(server: Server) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in server.log.splitlines():
            if line.startswith("binref-sci: serving "):
                return line.rpartition(" ")[2]
        if server.process.poll() is not None:
            raise AssertionError(f"the server ended at once:\n{server.log}")
        time.sleep(0.02)
    raise AssertionError(f"the server did not say that it is ready:\n{server.log}")
