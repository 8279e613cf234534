"""How the HTTP process and a worker talk: frames on a socket pair.

A frame is one letter for its kind, its length in eight bytes (big-endian), then
that many bytes. A call goes down as ``CALL`` (JSON), any number of ``PIECE``
and ``END``; the answer comes up as ``HEAD`` (JSON), pieces, and ``END`` or
``BROKEN``. Pieces are opaque to both ends of the channel.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import orjson

HEADER = struct.Struct(">cQ")

CALL = b"C"  # down: what to do (`Order`)
PIECE = b"P"  # both ways: bytes of a request or response body
END = b"E"  # both ways: the body is complete
READY = b"R"  # up, once: the component is loaded (`Facts`)
FAILED = b"F"  # up, once: it could not be loaded
HEAD = b"H"  # up: status and media type (`Head`)
BROKEN = b"X"  # up: the body cannot be completed

PIECE_BYTES = 256 * 1024  # what one read of a socket returns at most in asyncio


@dataclass(frozen=True)
class Settings:
    """What a worker is started with.

    Parameters
    ----------
    target
        The component: its folder or file.
    output_path
        Folder that run directories are made in.
    scratch
        Whether `output_path` is a scratch folder: each run directory is removed
        when its response has been sent.
    input_path
        Folder that binref inputs resolve in; None refuses them.
    """

    target: str
    output_path: str
    scratch: bool
    input_path: str | None


@dataclass(frozen=True)
class Facts:
    """What the HTTP process knows of a component, told by a worker that loaded it."""

    name: str
    version: str
    endpoints: tuple[str, ...]
    openapi: dict[str, Any]


@dataclass(frozen=True)
class Order:
    """One call, its payload excepted."""

    endpoint: str
    run_id: str
    output_format: str
    compression: str | None


@dataclass(frozen=True)
class Head:
    """Status line of an answer."""

    status: int
    media_type: str


def frame_header(kind: bytes, length: int) -> bytes:
    """Return the nine bytes that announce a frame."""
    return HEADER.pack(kind, length)


def json_frame(kind: bytes, value: Any) -> bytes:
    """Return a whole frame that holds `value` (a dataclass or plain data) as JSON."""
    data = orjson.dumps(value)
    return frame_header(kind, len(data)) + data


def scratch_name(worker: int) -> str:
    """Return the name of a worker's folder in a scratch output path, from its process id."""
    return f"worker-{worker}"


def settings_to_text(settings: Settings) -> str:
    """Return `settings` as one command-line argument."""
    return orjson.dumps(asdict(settings)).decode()


def settings_from_text(text: str) -> Settings:
    """Read what `settings_to_text` wrote."""
    return Settings(**orjson.loads(text))


class Channel:
    """The worker's end: blocking, one thread.

    Parameters
    ----------
    connection
        Its half of the socket pair; closed by nobody but the end of the process.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, kind: bytes, value: Any = None) -> None:
        """Send one frame of JSON, or an empty one."""
        frame = frame_header(kind, 0) if value is None else json_frame(kind, value)
        self._connection.sendall(frame)

    def send_pieces(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Send a body piece by piece; blocks while the other end does not take it."""
        for piece in coalesced(pieces):
            self._connection.sendall(frame_header(PIECE, len(piece)))
            self._connection.sendall(piece)

    def receive(self) -> tuple[bytes, bytearray] | None:
        """Return kind and content of the next frame; None when the other end has gone."""
        header = self._read(HEADER.size)
        if header is None:
            return None
        kind, length = HEADER.unpack(header)
        content = self._read(length)
        return None if content is None else (kind, content)

    def receive_body(self) -> bytearray | None:
        """Return all pieces up to ``END`` as one; None when the other end has gone."""
        body = bytearray()
        while True:
            frame = self.receive()
            if frame is None:
                return None
            kind, content = frame
            if kind == END:
                return body
            body += content

    def _read(self, length: int) -> bytearray | None:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            count = self._connection.recv_into(view)
            if not count:
                return None
            view = view[count:]
        return data


def coalesced(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Join small pieces up to `PIECE_BYTES`; pass big ones through uncopied.

    An encoder yields a reference at a time; a frame, a system call and an HTTP
    chunk for each of a hundred thousand would cost more than the encoding.

    Examples
    --------
    >>> list(coalesced([b"a", b"b", b""]))
    [b'ab']
    """
    held: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        length = memoryview(piece).nbytes
        if size + length > PIECE_BYTES and held:
            yield b"".join(held)
            held, size = [], 0
        if length > PIECE_BYTES:
            yield memoryview(piece).cast("B")
        elif length:
            held.append(piece)
            size += length
    if held:
        yield b"".join(held)
