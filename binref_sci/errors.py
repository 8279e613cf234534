"""The error tree.

Each error is also the builtin one a caller would catch::

    BinrefError
    ├── InvalidReferenceError   (ValueError)         a reference that cannot be meant
    ├── UnsupportedDTypeError   (TypeError)          an array the format cannot hold
    ├── BufferNotFoundError     (FileNotFoundError)  a buffer that is not there
    ├── TruncatedBufferError    (EOFError)           a buffer shorter than its reference
    ├── CorruptBufferError      (ValueError)         compressed bytes that do not decode
    ├── JournalError            (ValueError)         a journal that contradicts itself
    ├── RunEndedError           (EOFError)           a run that ended before what was waited for
    ├── WriterError             (ValueError)         a snapshot the writer must refuse
    ├── DatasetExistsError      (FileExistsError)    something is there that is not to be replaced
    ├── UnknownVariableError    (KeyError)           a variable or output that is not there
    ├── NoOutputPathError       (RuntimeError)       nowhere to write
    ├── FormatError             (ValueError)         an output format that cannot be given
    ├── PayloadError            (ValueError)         the caller's mistake: 4xx, exit code 2
    ├── ComponentError          (RuntimeError)       the component's failure: 5xx, exit code 1
    ├── EngineError             (RuntimeError)       docker or podman is missing, or refuses
    ├── ImageNotFoundError      (LookupError)        an image that the engine does not have
    ├── ContainerError          (RuntimeError)       a container that does not start, or has ended
    ├── RemoteError             (RuntimeError)       a server that answered with an error
    ├── StoreError              (OSError)            a bucket or web server that refuses, or is not there
    └── RemoteConnectionError   (ConnectionError)    a server that did not answer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Terminated(BaseException):
    """SIGTERM has come: the process is to end in good order, and say so.

    No `SystemExit`, which of a component is a failure like any other.
    """


class BinrefError(Exception):
    """Base of every error this package raises on purpose."""


def told(error: BaseException) -> str:
    r"""Return what an error says, as text that UTF-8 and thus JSON can hold.

    A file name that is not UTF-8 puts lone surrogates into it.

    Examples
    --------
    >>> told(OSError("no file a\udcff"))
    'no file a\\udcff'
    """
    return str(error).encode(errors="backslashreplace").decode()


class InvalidReferenceError(BinrefError, ValueError):
    """A reference is malformed, out of range or leads outside its root."""


class UnsupportedDTypeError(BinrefError, TypeError):
    """An array has a dtype the wire format does not have."""


class BufferNotFoundError(BinrefError, FileNotFoundError):
    """The buffer that a reference names does not exist."""


class TruncatedBufferError(BinrefError, EOFError):
    """A buffer ends before the bytes that a reference needs."""


class CorruptBufferError(BinrefError, ValueError):
    """Compressed bytes do not decode to the array they stand for."""


class JournalError(BinrefError, ValueError):
    """A journal is malformed, or its lines contradict each other or the files."""


class RunEndedError(BinrefError, EOFError):
    """A run ended, or its writer died, before what was waited for."""


class WriterError(BinrefError, ValueError):
    """A writer refuses a snapshot, or can no longer write."""


class DatasetExistsError(BinrefError, FileExistsError):
    """There is something at the path that a dataset is to be saved to."""


class UnknownVariableError(BinrefError, KeyError):
    """A variable, an output or an array is asked for by a name that none has."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class NoOutputPathError(BinrefError, RuntimeError):
    """There is no running call and no ``output_path=`` to write into."""


class FormatError(BinrefError, ValueError):
    """An output format is unknown, or cannot be produced here."""


class PayloadError(BinrefError, ValueError):
    """The caller's payload does not fit the schema.

    Parameters
    ----------
    message
        The whole complaint, for a person.
    errors
        One entry a fault: ``{"loc": [...], "msg": str, "type": str}``; see `binref_sci.messages.fault`.
    """

    def __init__(self, message: str, errors: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.errors)


class ComponentError(BinrefError, RuntimeError):
    """A component failed, or returned what its schema does not allow."""


class EngineError(BinrefError, RuntimeError):
    """A container engine is missing, does not answer, or refuses a command."""


class ImageNotFoundError(BinrefError, LookupError):
    """The container engine has no image of this name."""


class ContainerError(BinrefError, RuntimeError):
    """A container does not start, does not get healthy, or has ended."""


class RemoteError(BinrefError, RuntimeError):
    """A server answered with an error.

    Parameters
    ----------
    message
        What the server said.
    status
        HTTP status code; 0 where there was none.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


class RemoteConnectionError(BinrefError, ConnectionError):
    """A server could not be reached, or hung up."""


class StoreError(BinrefError, OSError):
    """The store behind a URL refused, failed, or could not be reached."""
