"""The player's files over HTTP on loopback, and Chromium to open them with."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from binref_sci.notebook import script

HERE = Path(__file__).parent
JOINED = {
    "/player.js": (script.widget_script, "text/javascript"),
    "/player.css": (script.style, "text/css"),
}

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
    """``/tests/...`` is this folder, ``/npm/...`` that of fetched packages, ``/`` the player's.

    ``/player.js`` and ``/player.css`` are joined of their parts, as users have them.
    """

    def __init__(self, *args, packages=None, **options):
        self.packages = packages
        super().__init__(*args, **options)

    def translate_path(self, path):
        path = path.partition("?")[0]
        if path.startswith("/tests/"):
            return str(HERE / path.removeprefix("/tests/"))
        if path.startswith("/npm/") and self.packages:
            return str(self.packages / path.removeprefix("/npm/"))
        return str(script.FOLDER / path.lstrip("/"))

    def do_GET(self):
        if self.path not in JOINED:
            super().do_GET()
            return
        made, kind = JOINED[self.path]
        text = made().encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

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
