"""`follow`: a run that is still going."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from binref_sci.engine import journals
from binref_sci.engine.inspect import inspect_place, run_html
from binref_sci.engine.opening import opened
from binref_sci.engine.prepared import Prepared, prepare_place
from binref_sci.engine.source import Source, find, place_at
from binref_sci.engine.steps import is_streamed
from binref_sci.engine.variables import Made
from binref_sci.errors import BufferNotFoundError, FormatError, RunEndedError
from binref_sci.html import sizes_text
from binref_sci.journal import SUFFIX
from binref_sci.storage.remote import RemotePath

_POLL = 0.05  # seconds; a look costs a few stats and the reading of small files
_POLL_STORE = 1.0  # seconds; there it costs a listing and a few requests


class Follower:
    """A run that is still going; made by `follow`.

    It holds no Dataset and no open file: each `refresh` gives a new, pinned Dataset, and
    the ones before stay as they are.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        start: int,
        chunks: Any,
        timeout: float | None = 0.0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._options = storage_options
        place = _begun(source, timeout, storage_options)
        # The run that was the newest when following began, whatever begins beside it.
        journal = place.results is None and len(place.journals) == 1 and place.path.endswith(SUFFIX)
        self._directory = os.fspath(place.directory)
        self._source = place.path if journal else self._directory
        self._run = _Run.of(place)
        self._next = start
        self._chunks = chunks
        self._poll = _POLL_STORE if place.is_remote else _POLL

    @property
    def path(self) -> str:
        """Folder of the run."""
        return self._directory

    @property
    def run_id(self) -> str:
        """Id of the run that is followed; another that begins in its folder is not taken for it."""
        return self._run.id

    @property
    def state(self) -> journals.RunState:
        """State of the run, looked at now: ``"writing"``, ``"complete"`` or ``"interrupted"``.

        A writer that died, killed or crashed, holds no lock: its run is interrupted. At a URL
        that cannot be seen, and a run without an end is ``"writing"``.
        """
        place = self._place()
        members = journals.newest_run(journals.heads(place), place)
        return journals.state_of([journals.read(head) for head in members], place)

    @property
    def total(self) -> int | None:
        """Number of snapshots that the solver has said there will be; None if it has not."""
        place = self._place()
        heads = journals.newest_run(journals.heads(place), place)
        totals = [journals.read(head).header.total for head in heads]
        return max((total for total in totals if total is not None), default=None)

    def __len__(self) -> int:
        """Return how many snapshots are complete now."""
        return _length(self._look())

    def refresh(self) -> xr.Dataset:
        """Return what is complete now as a new Dataset, pinned as all are."""
        return self._opened(self._look())

    def wait(self, n: int | None = None, timeout: float | None = None) -> xr.Dataset:
        """Wait until `n` snapshots are complete, or the run has ended; return the Dataset.

        Parameters
        ----------
        n
            Number of snapshots; default: all that will come.
        timeout
            Seconds to wait at most; default: for ever.

        Raises
        ------
        TimeoutError
            After `timeout`; says how many there are.
        RunEndedError
            If the run ended, or its writer died, before there were `n` (an EOFError).
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            looked = self._look()
            there = _length(looked)
            if (n is not None and there >= n) or (n is None and looked.state != "writing"):
                return self._opened(looked)
            if n is not None and looked.state != "writing":
                raise RunEndedError(
                    f"the run in {self._directory!r} is {looked.state}: it has {there} complete "
                    f"snapshots, {n} were waited for"
                )
            if until is not None and time.monotonic() >= until:
                wanted = "its end" if n is None else f"{n} snapshots"
                raise TimeoutError(
                    f"the run in {self._directory!r} has {there} complete snapshots after "
                    f"{timeout:g} s of waiting for {wanted}"
                )
            left = self._poll if until is None else max(until - time.monotonic(), 0)
            time.sleep(min(self._poll, left))

    def __iter__(self) -> Iterator[xr.Dataset]:
        """Give each new snapshot as a Dataset, once, until the run has ended.

        Waits for the next one. A second iteration goes on where the first stopped.
        """
        while True:
            looked = self._look()
            there = _length(looked)
            if self._next < 0:
                self._next = max(there + self._next, 0)
            if there > self._next:
                ds, dim = self._opened(looked), _main(looked).dims[0]
                while self._next < there:
                    self._next += 1  # before: what is done with it may raise
                    yield ds.isel({dim: self._next - 1})
            elif looked.state != "writing":
                return
            else:
                time.sleep(self._poll)

    def __repr__(self) -> str:
        looked = self._look()
        total = self.total
        of = "" if total is None else f" of {total}"
        shown = [
            f"{one.name} {sizes_text(one.dims, one.shape)} {one.data.dtype.name}"
            for one in looked.made
            if is_streamed(one)
        ]
        return (
            f"Follower({self._directory!r}, {_length(looked)}{of} snapshots, {looked.state}: "
            f"{', '.join(shown) or 'nothing yet'})"
        )

    def _repr_html_(self) -> str:
        return run_html("Follower", inspect_place(self._place()))

    def _place(self) -> Source:
        """Return where the run lies, without what has come after it."""
        place = replace(find(self._source, self._options), followed=True)
        return self._run.only(place)

    def _look(self) -> Prepared:
        return prepare_place(self._place())

    def _opened(self, looked: Prepared) -> xr.Dataset:
        return opened(looked, self._chunks)


@dataclass(frozen=True)
class _Run:
    """The run that is followed.

    Parameters
    ----------
    id
        As its journals have it.
    started_ns
        When its call began; 0 if it is none.
    since_ns
        When its first journal was made.
    """

    id: str
    started_ns: int
    since_ns: int

    @classmethod
    def of(cls, place: Source) -> _Run:
        """Return the newest run of a place."""
        members = journals.newest_run(journals.heads(place), place)
        said = str(place.run.get("run_id", ""))
        if not members:
            return cls(said, place.started_ns, place.started_ns)
        mine = members[0].run
        return cls(mine, place.started_ns if mine == said else 0, members[0].created_ns)

    def only(self, place: Source) -> Source:
        """Return a place without other runs: those before, and one that has begun since."""
        said = str(place.run.get("run_id", ""))
        ours = said == self.id and (not self.started_ns or place.started_ns == self.started_ns)
        # A run id may be used again: then it is the time that tells.
        until = place.started_ns if said == self.id and not ours else math.inf
        kept = tuple(
            head.path
            for head in journals.heads(place)
            if head.run == self.id and self.since_ns <= head.created_ns < until
        )
        if ours or not said:
            return replace(place, journals=kept)
        return replace(place, journals=kept, results=None, run={})


def follow(
    source: str | os.PathLike[str],
    *,
    start: int = 0,
    chunks: Any = {},  # noqa: B006  # as xarray spells it; never written to
    timeout: float | None = 0.0,
    storage_options: Mapping[str, Any] | None = None,
) -> Follower:
    """Follow a run while its solver writes.

    One run is followed, the newest of when it began. A solver that starts again in the same
    folder begins another: the one that is followed has then ended, its snapshots stay there,
    and ``follow(...)`` again follows the new one.

    Parameters
    ----------
    source
        A run directory, an output path (the run that is its newest now) or a journal.
    start
        Snapshot that an iteration begins with; -1: the last one that is there.
    chunks
        Of the Datasets, as for `open_dataset`.
    timeout
        Seconds to wait for a run that has not begun: for a path that is not there, or a
        folder without a run. Default: it must have begun; None: for ever. An older run in
        the folder is followed at once.
    storage_options
        For the file system of a URL. There nobody can see whether a writer lives: until the
        end of the run is written it is ``"writing"``, and ``wait`` wants a ``timeout``.

    Returns
    -------
    Follower
        With ``refresh()``, ``wait(n=, timeout=)``, ``state``, ``len()``, and an iteration
        over snapshots as they come. Variables that are written in turn, of which one is a
        step ahead, are shown as far as all are.

    Raises
    ------
    BufferNotFoundError, FormatError
        As `open_dataset`.
    TimeoutError
        If no run has begun after `timeout`.

    Examples
    --------
    >>> import tempfile
    >>> from binref_sci.writer import BinrefWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = BinrefWriter("heat", dims=("time", "x"), output_path=folder.name)
    >>> first = writer.write([1.0, 2.0], time=0.0)
    >>> live = follow(folder.name)
    >>> before = live.refresh()
    >>> second = writer.write([3.0, 4.0], time=0.5)
    >>> live.wait(n=2, timeout=10).sizes["time"], before.sizes["time"], live.state
    (2, 1, 'writing')
    >>> writer.close()
    >>> [float(snapshot.heat.sum()) for snapshot in live]
    [3.0, 7.0]
    >>> folder.cleanup()
    """
    return Follower(
        source, start=start, chunks=chunks, timeout=timeout, storage_options=storage_options
    )


def _begun(
    source: str | os.PathLike[str], timeout: float | None, options: Mapping[str, Any] | None
) -> Source:
    """Return what lies at a path or URL, as soon as a run does."""
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return find(source, options)
        except (BufferNotFoundError, FormatError) as error:
            place = place_at(os.fspath(source), options)
            if isinstance(error, FormatError) and not place.is_dir():
                raise  # something else lies there, and will not become a run
            if until is not None and time.monotonic() >= until:
                if not timeout:
                    way = "timeout= in seconds waits for a run that is yet to begin"
                    raise type(error)(f"{error} ({way})") from error
                raise TimeoutError(f"no run has begun after {timeout:g} s: {error}") from error
            poll = _POLL_STORE if isinstance(place, RemotePath) else _POLL
        time.sleep(poll if until is None else min(poll, max(until - time.monotonic(), 0)))


def _length(looked: Prepared) -> int:
    streamed = [one for one in looked.made if is_streamed(one)]
    return streamed[0].shape[0] if streamed else 0


def _main(looked: Prepared) -> Made:
    """Return the variable whose axis is followed: the first, which keeps its dimension's name."""
    return next(one for one in looked.made if is_streamed(one))
