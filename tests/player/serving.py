"""The player's files over HTTP on loopback, and Chromium to open them with."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
MODULE = HERE.parents[1] / "binref_sci" / "notebook"

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Handler(SimpleHTTPRequestHandler):
    """``/tests/...`` is this folder, ``/npm/...`` that of fetched packages, ``/`` the module."""

    def __init__(self, *args, packages=None, **options):
        self.packages = packages
        super().__init__(*args, **options)

    def translate_path(self, path):
        path = path.partition("?")[0]
        if path.startswith("/tests/"):
            return str(HERE / path.removeprefix("/tests/"))
        if path.startswith("/npm/") and self.packages:
            return str(self.packages / path.removeprefix("/npm/"))
        return str(MODULE / path.lstrip("/"))

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args):
        pass


@contextmanager
def served(packages=None):
    """Serve the files; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, packages=packages))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
