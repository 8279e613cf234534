"""One container, from its start to its removal."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from binref_sci.containers import keeper
from binref_sci.containers.engine import Engine
from binref_sci.containers.lending import check_input, lend, take_back
from binref_sci.containers.options import Options
from binref_sci.errors import EngineError

GRACE_SECONDS: Final = 10.0
"""From the end of its life to a removal by force; what runs inside gives itself half of it."""

END_SECONDS: Final = 90.0
"""Longest wait for a container to be gone."""

LOST: Final = -1
"""Exit code of a container whose keeper was killed."""

_CONFINED: Final = (
    *("--rm", "--interactive", "--pull", "never", "--no-healthcheck"),
    *("--read-only", "--tmpfs", "/tmp:rw,nosuid,nodev,mode=1777"),
    *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
    *("--security-opt", "label=disable"),
)
"""What each container is started with: it can write where it is told to, and no more."""


class Container:
    """A container that has been started. It ends by `stop`, or with this process.

    Parameters
    ----------
    engine
        Who runs it.
    image
        Name of the image.
    arguments
        For what runs inside, see `binref_sci.cli.inside`.
    options
        What it is given.
    extra
        Further arguments of the engine's ``run``.
    payload
        For what runs inside.
    stdout
        Descriptor for what it prints; None: the log.
    log
        Descriptor for its log; None: a file of its own, which `log` reads.
    scratch
        A folder to be removed when `scratch_release` is called, or with this process.

    Raises
    ------
    PayloadError
        If the output path cannot be made, or the input path not be read.
    EngineError
        If the container cannot be started.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        arguments: Sequence[str],
        options: Options,
        *,
        extra: Sequence[str] = (),
        payload: bytes = b"",
        stdout: int | None = None,
        log: int | None = None,
        scratch: Path | None = None,
    ) -> None:
        if options.input_path is not None:
            check_input(options.input_path)
        self.engine = engine
        self.image = image
        self.name = _name(image)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._code: int | None = None
        with ExitStack() as theirs, ExitStack() as ours:
            own = None if log is not None else _log_file(ours)
            log = own if log is None else log
            life_read, life = _pipe(theirs, ours)
            stdin_read, stdin = _pipe(theirs, ours)
            scratch_read, scratch_life = _pipe(theirs, ours)
            status, status_write = _pipe(ours, theirs)
            owned = None if options.output_path is None else lend(options.output_path, theirs)
            self._owned = owned
            order = {
                "run": engine.command(
                    *("run", "--name", self.name),
                    *_CONFINED,
                    *options.arguments(engine),
                    *extra,
                    image,
                    *("--attached", str(len(payload))),
                    *arguments,
                ),
                "remove": removal(engine, self.name),
                "stdin": stdin_read,
                "stdout": stdout,
                "log": log,
                "bounded": own is not None,
                "status": status_write,
                "life": life_read,
                "scratch_life": scratch_read,
                "caller": os.getpid(),
                "grace": GRACE_SECONDS,
                "scratch": None if scratch is None else str(scratch),
                "owned": owned,
            }
            used = [stdin_read, stdout, log, status_write, life_read, scratch_read]
            used.append(None if owned is None else owned["lock"])
            process = _start_keeper(order, [each for each in used if each is not None])
            ours.pop_all()
        # Pipes to one another, without a reference to this: so they end with it.
        self._status = status
        self._end_life = weakref.finalize(self, _let_go, os.getpid(), life, stdin)
        self.scratch_release: Callable[[], object] = _Release(process, self._end_life, scratch_life)
        self._has_scratch = scratch is not None
        self._stdin = stdin
        self._log = own
        for each in (status, own):
            if each is not None:
                weakref.finalize(self, os.close, each)
        if not self._has_scratch:
            weakref.finalize(self, self.scratch_release)
        self._send(payload)

    def _send(self, payload: bytes) -> None:
        view = memoryview(payload)
        try:
            while view:
                view = view[os.write(self._stdin, view) :]
        except BrokenPipeError:
            pass  # it has ended; its log says why

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for the container to end; return its exit code, None if it has not.

        Once there is a code, the container is removed and its files are the caller's.
        """
        with self._lock:
            if self._code is None and _is_ready(self._status, seconds):
                told = os.read(self._status, 64)
                self._code = int(told) if told else LOST
                self._end_life()
                if not self._has_scratch:
                    self.scratch_release()
                if self._code == LOST:  # what the keeper would have done
                    with suppress(EngineError):
                        self.engine.run(*removal(self.engine, self.name)[1:])
                    if self._owned is not None:
                        take_back(self._owned)
            return self._code

    def stop(self) -> None:
        """End and remove the container; return when it is gone.

        Raises
        ------
        EngineError
            If that takes too long.
        """
        if os.getpid() != self._owner:
            return  # a forked child leaves its parent's container alone
        self._end_life()
        if self.wait(END_SECONDS) is None:
            raise EngineError(
                f"container {self.name} has not ended within {END_SECONDS:g} seconds; "
                f"{self.engine.name} rm --force {self.name} may tell why"
            )

    def log(self) -> str:
        """Return what the container has said."""
        if self._log is None:
            return ""
        return self.log_from(0)[0].decode(errors="replace")

    def log_from(self, position: int) -> tuple[bytes, int]:
        """Return what it has said since a position, and the position now."""
        if self._log is None:
            return b"", position
        size = os.fstat(self._log).st_size
        if size < position:
            position = 0  # it was cut: nobody is to fill a disk with it
        return os.pread(self._log, size - position, position), size


class _Release:
    """Lets go of the container and the scratch folder, and waits for their keeper to end."""

    def __init__(
        self, process: subprocess.Popen[bytes], end_life: Callable[[], object], life: int
    ) -> None:
        self._process = process
        self._end_life = end_life
        self._life: int | None = life
        self._owner = os.getpid()

    def __call__(self) -> None:
        life, self._life = self._life, None
        if life is None or os.getpid() != self._owner:
            return
        self._end_life()
        _let_go(self._owner, life)
        with suppress(subprocess.TimeoutExpired):  # it goes on without us
            self._process.wait(END_SECONDS)


def _start_keeper(order: dict[str, Any], descriptors: list[int]) -> subprocess.Popen[bytes]:
    """Start the process that runs the container; it gets the descriptors that are named."""
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, json.dumps(order)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(f"cannot start {sys.executable!r}: {error.strerror}") from error


def removal(engine: Engine, name: str) -> list[str]:
    """Return the command that removes a container, whatever it is doing, and its volumes."""
    at_once = ["--time", "0"] if engine.name == "podman" else []
    return engine.command("rm", "--force", "--volumes", *at_once, name)


def _name(image: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", image.rpartition("/")[2].partition("@")[0])
    return f"binref-sci-{plain.strip('-.')[:60]}-{uuid.uuid4().hex[:8]}"


def _is_ready(descriptor: int, seconds: float | None) -> bool:
    """Wait until there is something to read. Not by select(): it knows no descriptor over 1023."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else 1000 * seconds))


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe; whoever gets one closes it."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _let_go(owner: int, *pipes: int) -> None:
    """Say to who reads from the pipes that nobody is interested any more."""
    if os.getpid() != owner:
        return  # a forked child has copies of its own; what happens is its parent's to say
    for each in pipes:
        # Because of those copies it may not be enough to close them.
        with suppress(OSError):
            os.write(each, b".")
        os.close(each)


def _log_file(stack: ExitStack) -> int:
    """Return a file without a name: nothing is left of it, however this process ends."""
    if hasattr(os, "memfd_create"):  # a full disk must not hide that the component is ready
        made = os.memfd_create("binref-sci-log", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(prefix="binref-sci-") as file:
            made = os.dup(file.fileno())
    stack.callback(os.close, made)
    fcntl.fcntl(made, fcntl.F_SETFL, fcntl.fcntl(made, fcntl.F_GETFL) | os.O_APPEND)
    return made
