"""A worker process: holds the component, answers one call at a time.

It may be held up for hours by one call and may die in it; nothing but this call
depends on it. Standard output and input of the process are taken from the
component before it is loaded, so that what it prints goes to the server's log.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import shutil
import signal
import socket
import sys
import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import orjson

from binref_sci.errors import BinrefError, FormatError, PayloadError, told
from binref_sci.messages import fault
from binref_sci.runtime import endpoint
from binref_sci.runtime.component import Component
from binref_sci.runtime.run import RunDirectory
from binref_sci.server import channel
from binref_sci.server.channel import Channel, Facts, Head, Order, Settings

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: Sequence[str]) -> None:
    """Load the component, then answer calls until the other end hangs up.

    Parameters
    ----------
    arguments
        File descriptor of the channel, process id of the parent, settings.
    """
    descriptor, parent, text = arguments
    _die_with(int(parent))
    faulthandler.enable()  # a crash in compiled code shows where, in the server's log
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)  # what the component starts must not hold the channel open
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    settings = channel.settings_from_text(text)
    link = Channel(connection)
    try:
        _serve(link, settings)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the HTTP process has gone


def _serve(link: Channel, settings: Settings) -> None:
    try:
        component = Component.load(settings.target)
        facts = Facts(
            component.name, component.version, tuple(component.endpoints), component.openapi()
        )
    except BaseException as error:
        if not isinstance(error, PayloadError):
            traceback.print_exc()
        mistake = isinstance(error, PayloadError)
        link.send(channel.FAILED, {"message": told(error), "callers_mistake": mistake})
        return
    link.send(channel.READY, facts)
    while (frame := link.receive()) is not None:
        payload = link.receive_body()
        if payload is None:
            return
        _answer(link, settings, component, Order(**orjson.loads(frame[1])), payload)


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that happens.

    The channel closes too, but a component that computes does not read it, and one
    that holds the interpreter lock in C lets no thread read it either. Linux only;
    elsewhere such a worker ends with its call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(1)


def _answer(
    link: Channel, settings: Settings, component: Component, order: Order, payload: bytearray
) -> None:
    run: RunDirectory | None = None
    try:
        try:
            run = _run_directory(settings, order)
            response = endpoint.call(
                component,
                order.endpoint,
                payload,
                run=run,
                output_format=order.output_format,
                compression=order.compression,
                input_path=settings.input_path,
            )
            # The first piece before the head: most of what can fail has then been done.
            pieces = _primed(response.pieces)
        except BaseException as error:
            status, detail = _refusal(error, order)
            link.send(channel.HEAD, Head(status, "application/json"))
            link.send_pieces([orjson.dumps({"detail": detail})])
        else:
            link.send(channel.HEAD, Head(200, response.media_type))
            if (message := _send_all(link, pieces, order)) is not None:
                link.send(channel.BROKEN, {"message": message})
                return
        link.send(channel.END)
    finally:
        if settings.scratch and run is not None:
            shutil.rmtree(run.path, ignore_errors=True)


def _run_directory(settings: Settings, order: Order) -> RunDirectory:
    if not settings.scratch:
        try:
            return RunDirectory.new(settings.output_path, order.run_id)
        except FormatError as error:  # a file has the name that the caller chose for the folder
            raise PayloadError(str(error)) from error
    # Under this process's own folder, which the HTTP process removes if this one crashes, and
    # never the same twice: an old one may be on its way out while its run id is used again.
    path = Path(settings.output_path, channel.scratch_name(os.getpid()), uuid.uuid4().hex)
    return RunDirectory(path, output_path=settings.output_path, run_id=order.run_id)


def _send_all(link: Channel, pieces: Iterable[bytes | memoryview], order: Order) -> str | None:
    """Send `pieces`; return what went wrong in making them."""
    try:
        link.send_pieces(pieces)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except BaseException as error:
        return _report(error, order)[1]
    return None


def _primed(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Return the same pieces, the first one made."""
    iterator = iter(pieces)
    first = next(iterator, b"")
    return chain([first], iterator)


def _refusal(error: BaseException, order: Order) -> tuple[int, object]:
    """Return status and ``detail`` for what a call raised."""
    if isinstance(error, PayloadError):
        entries = error.errors or [fault([], str(error), "payload")]
        return 422, [entry | {"loc": ["body", *entry["loc"]]} for entry in entries]
    if isinstance(error, FormatError):
        return 406, str(error)
    error_id, message = _report(error, order)
    return 500, {"error_id": error_id, "message": message}


def _report(error: BaseException, order: Order) -> tuple[str, str]:
    """Write the traceback to the server's log; return its id and what to tell the client."""
    error_id = uuid.uuid4().hex[:12]
    sys.stderr.write(f"binref-sci: error {error_id}: {order.endpoint} run_{order.run_id}\n")
    traceback.print_exception(error)
    sys.stderr.flush()
    text = told(error)
    if not isinstance(error, BinrefError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return error_id, f"{text} (the traceback is in the server's log, under error {error_id})"
