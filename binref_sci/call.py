"""The running call: which run directory a solver writes into.

A component does not pass its output folder around; the runtime enters a `Call`,
and writers made inside find it here. It is a context variable, so that two calls
in two threads, or two components in one process, never meet. For the same reason
the threads of a pool do not see it: hand them the writer, or an ``output_path=``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from binref_sci.errors import NoOutputPathError


class Closeable(Protocol):
    """Anything the end of a call has to close."""

    def close(self) -> None:
        """Finish what is open."""


@dataclass(frozen=True)
class Call:
    """One call of a component.

    Parameters
    ----------
    run_directory
        Where this call writes: buffers, journals, ``run.json``, ``results.json``.
    output_path
        The folder that run directories lie in; equal to `run_directory` where a
        call was given the folder itself.
    run_id
        Name of the run, the same in all its journals.
    started_ns
        When it began, in nanoseconds since the epoch.
    resources
        Open writers; closed when the call ends.
    quiet
        Whether it is one of many alike, of which nobody wants to see the progress.
    """

    run_directory: Path
    output_path: Path
    run_id: str
    started_ns: int
    resources: list[Closeable] = field(default_factory=list, compare=False)
    quiet: bool = False

    def __post_init__(self) -> None:
        # A solver may change the working directory.
        for name in ("run_directory", "output_path"):
            object.__setattr__(self, name, Path(getattr(self, name)).absolute())


_running: ContextVar[Call | None] = ContextVar("binref_sci_running_call", default=None)


def running_call() -> Call | None:
    """Return the call this code runs in, or None."""
    return _running.get()


@contextmanager
def entering(call: Call) -> Iterator[Call]:
    """Make `call` the running one; close its writers at the end.

    All are closed even if one fails; then the first failure is raised, unless the call
    itself has failed: its error has the note. A forked child that comes back from the call
    ends here: the answer is its parent's to give.
    """
    process = os.getpid()
    token = _running.set(call)
    try:
        yield call
    except BaseException as error:
        for failure in _close_all(call.resources):
            error.add_note(f"closing a writer failed too: {failure!r}")
        raise
    else:
        for failure in _close_all(call.resources):
            raise failure
    finally:
        _running.reset(token)
        if os.getpid() != process:
            _end_child(sys.exception())


def _end_child(error: BaseException | None) -> NoReturn:
    """End a forked child as the interpreter would, its parent's clean-up excepted."""
    match error:
        case None | SystemExit(code=None):
            status = 0
        case SystemExit(code=int(status)):
            pass
        case _:
            sys.excepthook(type(error), error, error.__traceback__)
            status = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, full or closed
            stream.flush()
    os._exit(status)


def _close_all(resources: list[Closeable]) -> list[BaseException]:
    """Close all, even if one fails; return the failures, the gravest first."""
    failures: list[BaseException] = []
    while resources:
        try:
            resources.pop().close()
        except BaseException as failure:
            failures.append(failure)
    return sorted(failures, key=lambda failure: isinstance(failure, Exception))


def output_path() -> Path:
    """Return the run directory of the running call.

    Raises
    ------
    NoOutputPathError
        Outside a call, and in a thread that the call did not start itself.
    """
    call = _running.get()
    if call is None:
        raise NoOutputPathError(
            "there is no running call to write for; pass output_path=, or write within apply (the "
            "threads of a pool and other processes do not see the call that started them: hand them "
            "the writer or a path)"
        )
    return call.run_directory
