"""What a call of `to_binref` has begun and has still to publish. Picklable: a task may end it."""

from __future__ import annotations

import itertools
import os
import re
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from binref_sci.engine.encoding import Part
from binref_sci.engine.manifest import Manifest, replace_manifest, write_manifest
from binref_sci.engine.target import BufferTarget, FrameTarget
from binref_sci.errors import BinrefError, DatasetExistsError
from binref_sci.journal import SUFFIX, Header, Journal, SegmentLine, end_line, read_journal
from binref_sci.labels import Labels
from binref_sci.storage import create_buffer, discard, sync_directory, write_atomically

_SLUG: Final = 48


@dataclass(frozen=True)
class Pending:
    """A journal that is to be written when the data is there."""

    file: str
    header: Header
    segments: tuple[SegmentLine, ...]
    count: int

    def write(self, directory: str, *, sync: bool) -> None:
        """Write the journal, closed."""
        lines = [segment.to_line() for segment in self.segments]
        content = [self.header.to_line(directory, []), *lines, end_line(self.count)]
        write_atomically(Path(directory, self.file), iter(content), sync=sync)


@dataclass
class Job:
    """What is to be published, and what is to be taken back if that fails.

    Parameters
    ----------
    directory
        Where the buffers are written, absolute.
    final
        What `directory` is renamed to; None: it has its name already.
    before
        What is there so far.
    after
        What is to be there; None: the same variables.
    sync
        Wait for the disk.
    """

    directory: str
    final: str | None
    before: Manifest | None
    after: Manifest | None
    sync: bool
    pending: list[Pending] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def publish(self) -> None:
        """Make what has been written the dataset that opens; in one step.

        Raises
        ------
        WriterError, DatasetExistsError
            If another has saved to the path in the meantime.
        """
        for journal in self.pending:
            journal.write(self.directory, sync=self.sync)
        if self.final is not None:
            assert self.after is not None  # there was nothing before
            write_manifest(self.directory, self.after, sync=self.sync)
            try:
                Path(self.directory).rename(self.final)
            except OSError as error:
                if not os.path.lexists(self.final):
                    raise
                raise DatasetExistsError(
                    f"{self.final!r} has come into being in the meantime; nothing is replaced"
                ) from error
            if self.sync:
                sync_directory(Path(self.final).parent)
            return
        assert self.before is not None  # it has been opened
        # Before it is published: from then on another call may replace these journals in turn.
        replaced = self._replaced(self.before, self.after) if self.after is not None else set()
        replace_manifest(self.directory, self.before, self.after, sync=self.sync)
        for name in replaced:
            Path(self.directory, name).unlink(missing_ok=True)

    def discard(self) -> None:
        """Take back what has been written; what was there before stays as it is."""
        if self.final is not None:
            discard(Path(self.directory))
            return
        for name in [*self.made, *(journal.file for journal in self.pending)]:
            Path(self.directory, name).unlink(missing_ok=True)

    def _replaced(self, before: Manifest, after: Manifest) -> set[str]:
        """Return journals that are replaced, and what only they refer to."""
        old, kept = set(before.journals) - set(after.journals), after.journals
        wanted = set(itertools.chain.from_iterable(map(self._files, kept)))
        return set(itertools.chain.from_iterable(map(self._files, old))) - wanted

    def _files(self, journal: str) -> set[str]:
        try:
            read = read_journal(Path(self.directory, journal))
        except BinrefError:  # damaged: it is better to leave files than to guess
            return {journal}
        tables = {line.table for line in read.segments if line.table is not None}
        return {journal, *tables, *(line.buffer for line in read.segments)}

    def begin(self, group: str, part: Part, run: str) -> tuple[str, Any]:
        """Make the buffer of a new variable; return its journal's name and where data goes."""
        identity = uuid.uuid4().hex
        header = Header(
            run=run,
            id=identity,
            created_ns=time.time_ns(),
            name=part.name if group == "/" else f"{group}/{part.name}",
            labels=Labels.of(part.dims, {}, part.attrs),
            compression=part.compression if len(part.dims) > 1 and part.data.size else None,
            form=part.form,
        )
        return self._write(part, header, (), 0)

    def extend(self, part: Part, journal: Journal) -> tuple[str, Any]:
        """Make the buffer of what follows the snapshots of a journal."""
        header = journal.header
        renewed = Header(
            run=header.run,
            id=uuid.uuid4().hex,
            created_ns=time.time_ns(),
            name=header.name,
            labels=header.labels,
            compression=header.compression,
            form=header.form,
        )
        return self._write(part, renewed, journal.segments, journal.count)

    def _write(
        self, part: Part, header: Header, before: tuple[SegmentLine, ...], start: int
    ) -> tuple[str, Any]:
        shape, dtype = tuple(map(int, part.data.shape)), part.dtype
        count, inner = (1, shape) if part.form.scalar else (shape[0], shape[1:])
        slug = re.sub(r"[^A-Za-z0-9]+", "-", header.name or "").strip("-")[:_SLUG] or "variable"
        file = f"{slug}-{header.id}{SUFFIX}"
        target: BufferTarget | FrameTarget
        lines: list[SegmentLine] = []
        if header.compression is not None:
            stem = f"{slug}-{header.id}"
            chunks = part.data.chunks[0] if hasattr(part.data, "chunks") else (count,)
            starts = itertools.accumulate(chunks, initial=0)
            # dask stores no chunk of length 0.
            for at in [at for at, length in zip(starts, chunks, strict=False) if length]:
                buffer, table = FrameTarget.files(stem, at)
                for name in (buffer, table):
                    self.made.append(name)
                    Path(self.directory, name).touch(exist_ok=False)
                lines.append(SegmentLine(start + at, buffer, 0, inner, dtype, table))
            target = FrameTarget(
                os.fspath(Path(self.directory, stem)),
                shape,
                dtype,
                name=part.name,
                sync=self.sync,
            )
        else:
            buffer, fd = create_buffer(self.directory)
            self.made.append(buffer)
            try:
                # Room in the file, not on the disk: each page is taken when it is written.
                os.ftruncate(fd, part.data.size * dtype.itemsize)
            finally:
                os.close(fd)
            lines.append(SegmentLine(start, buffer, 0, inner, dtype))
            path = os.fspath(Path(self.directory, buffer))
            target = BufferTarget(path, 0, shape, dtype, name=part.name, sync=self.sync)
        self.pending.append(Pending(file, header, (*before, *lines), start + count))
        return file, target
