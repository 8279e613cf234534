"""What an image of a component does when it is run: ``docker run IMAGE apply '{...}'``.

==================  ==========================================================
``ENDPOINT ...``    one call, as ``binref-sci run COMPONENT ENDPOINT ...``
``serve ...``       as ``binref-sci serve COMPONENT ...``, to other machines
``schema``          the OpenAPI document
``health``          exit code 0 if the server in this container answers
==================  ==========================================================

``--attached BYTES`` in front of them says that standard input brings as many bytes of payload
and is then held open by the caller: when it ends, so does what runs here.
"""

from __future__ import annotations

import http.client
import io
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from binref_sci.containers.layout import COMPONENT, INPUT_PATH, OUTPUT_PATH, PORT

GRACE_SECONDS: Final = 5.0
"""Time that a call has to end in when its caller has gone."""

HEALTH_SECONDS: Final = 8.0


def main() -> None:
    """Run what the arguments say; never returns."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--attached"]:
        _attach(int(arguments[1]), serving=arguments[2:3] == ["serve"])
        arguments = arguments[2:]
    if arguments[:1] == ["health"]:
        sys.exit(_health())
    if arguments[:1] == ["schema"]:
        component = import_module("binref_sci.runtime.component").Component.load(COMPONENT)
        sys.stdout.buffer.write(import_module("orjson").dumps(component.openapi()))
        sys.exit()
    sys.argv[1:] = command(arguments)
    import_module("binref_sci.cli.app").main()


def command(arguments: list[str]) -> list[str]:
    """Return the command of ``binref-sci`` that arguments to an image stand for.

    Folders count when something is mounted there: what else is written is lost with the
    container.

    Examples
    --------
    >>> command(["apply", "@inputs.json"])
    ['run', '/tesseract', 'apply', '@inputs.json']
    """
    folders: list[str] = []
    for option, path in (("--output-path", OUTPUT_PATH), ("--input-path", INPUT_PATH)):
        if Path(path).is_mount() and not any(each.startswith(option) for each in arguments):
            folders += [option, path]
    if arguments[:1] == ["serve"]:
        return [
            "serve",
            COMPONENT,
            "--host",
            "0.0.0.0",
            "--port",
            str(PORT),
            *folders,
            *arguments[1:],
        ]
    return ["run", COMPONENT, *arguments, *folders]


def _attach(size: int, *, serving: bool) -> None:
    """Take the payload from standard input; end with what comes after it."""
    life = os.dup(0)
    payload = _read(life, size)
    sys.stdin = io.TextIOWrapper(io.BytesIO(payload))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # what the component starts must not hold it
    number = signal.SIGTERM if serving else signal.SIGINT
    threading.Thread(target=_end_with, args=(life, number), daemon=True).start()


def _read(descriptor: int, size: int) -> bytes:
    made = bytearray()
    while len(made) < size:
        piece = os.read(descriptor, min(size - len(made), 1 << 20))
        if not piece:
            sys.exit(1)  # the caller has gone
        made += piece
    return bytes(made)


def _end_with(descriptor: int, number: signal.Signals) -> None:
    os.read(descriptor, 1)  # comes when the caller says so, or has gone
    os.kill(os.getpid(), number)
    time.sleep(GRACE_SECONDS)
    os._exit(128 + number)


def _health() -> int:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    main()
