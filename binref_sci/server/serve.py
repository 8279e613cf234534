"""Start and stop: address, folders, signals, the first worker.

What speaks HTTP is imported after that worker has been started, while it loads the component.
"""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from binref_sci.errors import FormatError, PayloadError
from binref_sci.folders import made_folder
from binref_sci.naming import OUTPUT_FORMATS
from binref_sci.server import negotiation
from binref_sci.server.channel import Facts, Settings
from binref_sci.server.launch import launch
from binref_sci.server.negotiation import Encoding


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to serve.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    output_path
        Where run directories are made and kept; None: in a scratch folder, each
        removed when its response has been sent, and ``json+binref`` is refused.
    input_path
        Where references in requests resolve; None refuses them.
    output_format, compression
        What a client gets that does not say.
    workers
        How many calls can run at once, each in a process of its own.
    grace
        Seconds that calls still running may take when the server is stopped.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    output_path: Path | None = None
    input_path: Path | None = None
    output_format: str = "json+base64"
    compression: str | None = None
    workers: int = 1
    grace: int = 30


def serve(target: str, options: Options, *, ready: Callable[[Facts, str], None]) -> None:
    """Serve a component until told to stop by SIGTERM or SIGINT.

    Parameters
    ----------
    target
        The component: its folder or file.
    options
        How.
    ready
        Called once with what is served and its URL, when requests are answered.

    Raises
    ------
    PayloadError
        If the address cannot be listened on, the output path not be made, or there is no
        such component.
    FormatError
        If the default format cannot be given, or the output path is a URL or a file.
    ComponentLoadError
        If the component cannot be loaded.
    KeyboardInterrupt, Terminated
        If stopped by SIGINT or SIGTERM before it was loaded.
    """
    formats = negotiation.offered_formats(has_output_path=options.output_path is not None)
    if options.output_format not in formats:
        raise FormatError(complaint(options.output_format))
    with ExitStack() as stack:
        listener = stack.enter_context(_bind(options.host, options.port))
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(_restore, number, signal.getsignal(number))
        if options.output_path is None:
            output_path = Path(tempfile.mkdtemp(prefix="binref-sci-"))
            stack.callback(shutil.rmtree, output_path, ignore_errors=True)
        else:
            try:
                output_path = Path(made_folder(options.output_path))
            except OSError as error:
                raise PayloadError(
                    f"cannot make the output path {str(options.output_path)!r}: {error.strerror or error}"
                ) from error
        settings = Settings(
            target=target,
            output_path=str(output_path.resolve()),
            scratch=options.output_path is None,
            input_path=None if options.input_path is None else str(options.input_path.resolve()),
        )
        first = launch(settings)
        try:
            loop = import_module("binref_sci.server.loop")
        except BaseException:
            first.discard()
            raise
        loop.run(
            settings,
            listener,
            first,
            ready,
            workers=options.workers,
            grace=options.grace,
            default=Encoding(options.output_format, options.compression),
        )


def _restore(number: int, handler: Any) -> None:
    with suppress(ValueError, TypeError):  # not in the main thread; not set from Python
        signal.signal(number, handler)


def _bind(host: str, port: int) -> socket.socket:
    """Take the address, without listening yet: nobody connects before the component is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise PayloadError(f"cannot listen on host {host!r}, port {port}: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise PayloadError(
            f"cannot listen on host {host!r}, port {port}: {error.strerror or error}; "
            "choose another --port (0 takes a free one)"
        ) from error
    return listener


def complaint(output_format: str) -> str:
    """Return why a default format cannot be given without an output path, or at all."""
    if output_format in OUTPUT_FORMATS:
        return (
            f"output format {output_format!r} answers with references to files: "
            "name a folder for them with --output-path"
        )
    return f"unknown output format {output_format!r}; there are {', '.join(OUTPUT_FORMATS)}"
