"""``binref-sci demo``: all of it once, with three processes and real files.

A server and its worker (the solver) run as they would anywhere else; this process is the
client. It prints what each of them needed in memory beside what was written to disk, and
leaves a picture, a film and the run directory behind. Everything is made in a hidden folder
beside the output folder and moved there at the end: what is there is always finished.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from binref_sci.cli import demo_pictures
from binref_sci.client import Tesseract
from binref_sci.errors import ComponentError, PayloadError, Terminated
from binref_sci.journal import SUFFIX, Journal, read_journal
from binref_sci.storage import taking_place

CHECKOUT = Path(__file__).parents[2]
EXAMPLE = Path("examples", "heat_diffusion")

RUN_ID = "demo"
RUN = f"run_{RUN_ID}"
PICTURE = "temperature.png"
FILM = "temperature.gif"

START_SECONDS = 60
STOP_SECONDS = 10
POLL_SECONDS = 0.1

_SERVE = "import sys; sys.path.append(sys.argv.pop(1)); from binref_sci.cli import main; main()"
_READY = re.compile(r"^binref-sci: serving .* on (http\S+)$", re.MULTILINE)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("demo")(demo_command)


def demo_command(
    *,
    size: Annotated[int, typer.Option(min=16, help="Cells along each side of the plate.")] = 512,
    steps: Annotated[int, typer.Option(min=6, help="Snapshots after the first.")] = 240,
    output: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for the run, the picture and the film.")
    ] = Path("demo-output"),
) -> None:
    """See all of it work: a solver streams 500 MB, a server forwards them unread, a client looks.

    Takes half a minute. Ctrl-C stops the server and removes what was written.
    """
    console = Console(highlight=False, emoji=False)
    example = _example()
    target = output.absolute()
    nbytes = (steps + 1) * size * size * 8
    _require_room(target, nbytes)
    with _interruptible(console), taking_place(target) as folder:
        folder.mkdir()
        run = folder / RUN
        console.print(
            "[bold]1  A server[/] runs the solver in a process of its own\n"
            f"   [dim]$ binref-sci serve {EXAMPLE} --output-path {escape(output.name)}[/]"
        )
        # The server ends before the thread is waited for, whose request then ends too.
        with (
            ThreadPoolExecutor(1) as pool,
            _served(example, folder) as server,
            Tesseract.from_url(server.url, output_path=folder, lazy=True) as sim,
        ):
            server.find_worker()
            before = server.memory()
            console.print(f"   {server.url}\n")
            console.print(
                "[bold]2  A client[/] asks; the solver streams its snapshots to disk\n"
                "   [dim]sim = Tesseract.from_url(url, output_path="
                f"{escape(repr(output.name))}, lazy=True)[/]\n"
                f"   [dim]out = sim.apply({{'size': {size}, 'steps': {steps}}})[/]"
            )
            call = pool.submit(sim.apply, {"size": size, "steps": steps}, run_id=RUN_ID)
            _follow(call, run, nbytes, console)
            out = call.result()
            written = _size_of(run)
            console.print(
                f"   what came over HTTP: {_bytes((run / 'results.json').stat().st_size)} of "
                f"references to [bold]{_bytes(written)}[/] on disk\n"
            )

            console.print("[bold]3  xarray[/] opens the references; no snapshot is read yet")
            console.print("   [dim]ds = out.to_dataset()[/]")
            dataset = out.to_dataset()
            console.print(_indented(repr(dataset)), markup=False, soft_wrap=True)
            console.print()

            console.print("[bold]4  A picture and a film[/], read one snapshot at a time")
            demo_pictures.draw_picture(dataset, folder / PICTURE)
            with _bar(console) as bar:
                task = bar.add_task("film", total=None, what="frames")
                frames = demo_pictures.draw_film(out["temperature"], dataset, folder / FILM)
                for number, count in frames:
                    bar.update(task, completed=number, total=count)
            peak = server.memory()
        console.print("\n[bold]5  Memory[/] of each process, beside what was written")
        console.print(_memory_table(before, peak, written))
    shown = output if not output.is_absolute() else target
    _say_where(console, shown, written)


# --- the folders ---------------------------------------------------------------------------------


def _example() -> Path:
    """Return the folder of the example that is shown."""
    example = CHECKOUT / EXAMPLE
    if not (example / "tesseract_api.py").is_file():
        raise PayloadError(
            f"the demo runs {EXAMPLE}, which is not in {str(CHECKOUT)!r}: the examples come with "
            "the source, not with the installed package; get the source and run `make demo` there"
        )
    return example


def _require_room(target: Path, nbytes: int) -> None:
    """Refuse before the work what would fail after it."""
    if target.exists():
        if not target.is_dir():
            raise PayloadError(f"--output {str(target)!r} is a file; name a folder")
        strange = sorted({path.name for path in target.iterdir()} - {RUN, PICTURE, FILM})
        if strange:
            raise PayloadError(
                f"--output {str(target)!r} holds {strange[0]!r}, which no demo has made, and "
                "would be replaced; name another folder"
            )
    if not target.parent.is_dir():
        raise PayloadError(f"--output {str(target)!r}: there is no folder {str(target.parent)!r}")
    free = shutil.disk_usage(target.parent).free
    if free < 1.1 * nbytes:
        raise PayloadError(
            f"the demo would write {nbytes} bytes to {str(target.parent)!r}, where {free} are "
            "free; name another folder with --output, or fewer --steps"
        )


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def _interruptible(console: Console) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the demo once; a second one must not cut its clean-up short."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        console.print("stopping the server ...")
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except (KeyboardInterrupt, Terminated):
        console.print("stopped; what was written is removed")
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


# --- the server ----------------------------------------------------------------------------------


@dataclass
class _Server:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    url: str
    worker: int | None = None

    def find_worker(self) -> None:
        """Look for the one process that the server has started: the solver."""
        self.worker = next(
            (
                int(path.parent.name)
                for path in Path("/proc").glob("[0-9]*/status")
                if _status(path).get("PPid") == str(self.process.pid)
            ),
            None,
        )

    def memory(self) -> dict[str, int | None]:
        """Return the peak memory of each process so far, in bytes; None if it is not known."""
        processes = {
            "solver": self.worker,
            "server": self.process.pid,
            "client": os.getpid(),
        }
        return {name: None if pid is None else _peak(pid) for name, pid in processes.items()}


def _status(path: Path) -> dict[str, str]:
    """Return what the kernel says of a process; nothing if it has gone."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _peak(pid: int) -> int | None:
    found = _status(Path("/proc", str(pid), "status")).get("VmHWM")
    return None if found is None else int(found.removesuffix("kB")) * 1024


@contextmanager
def _served(example: Path, output_path: Path) -> Iterator[_Server]:
    """Serve the example as a user would, on a free port; end the server at the end."""
    arguments = [str(example), "--port", "0", "--output-path", str(output_path), "--grace", "0"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            # -P: no file of the current folder is to be taken for one of the standard library
            [sys.executable, "-P", "-c", _SERVE, str(CHECKOUT), "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C at the terminal is for this process, which then ends that one.
            start_new_session=True,
        )
        try:
            yield _Server(process, _url(process, log))
        finally:
            _end(process)


def _url(process: subprocess.Popen[bytes], log: Any) -> str:
    """Wait until the server says where it answers."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        text = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
        if found := _READY.search(text):
            return found[1]
        if process.poll() is not None:
            what = f"ended with code {process.returncode} before it was ready"
        elif time.monotonic() > deadline:
            what = f"was not ready after {START_SECONDS} s"
        else:
            time.sleep(POLL_SECONDS / 5)
            continue
        raise ComponentError(
            f"the server of {EXAMPLE} {what}; it said: {text.strip() or 'nothing'}"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    with suppress(ProcessLookupError):  # nobody is left: the usual case
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- what is shown -------------------------------------------------------------------------------


def _bar(console: Console, *more: Any) -> Progress:
    return Progress(
        TextColumn("  "),
        BarColumn(bar_width=32),
        TextColumn("{task.completed:.0f}/{task.total} {task.fields[what]}")
        if not more
        else TextColumn("{task.fields[what]}"),
        *more,
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
    )


def _follow(call: Future[Any], run: Path, nbytes: int, console: Console) -> None:
    """Show how far the run is until the call returns, by the journal in its folder."""
    with _bar(console, DownloadColumn(), TransferSpeedColumn()) as bar:
        task = bar.add_task("snapshots", total=nbytes, what="waiting for the first snapshot")
        while not call.done():
            _show(bar, task, _journal(run))
            time.sleep(POLL_SECONDS)
        if call.exception() is None:
            _show(bar, task, _journal(run))


def _journal(run: Path) -> Journal | None:
    """Return the journal of the snapshots, when there is one with something in it."""
    for path in run.glob(f"temperature-*{SUFFIX}"):
        journal = read_journal(path)
        if journal.segments:
            return journal
    return None


def _show(bar: Progress, task: TaskID, journal: Journal | None) -> None:
    if journal is not None:
        done = journal.count * journal.segments[0].nbytes
        what = f"{journal.count}/{journal.header.total} snapshots"
        bar.update(task, completed=done, what=what)


def _memory_table(
    before: dict[str, int | None], peak: dict[str, int | None], written: int
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3), header_style="dim")
    for heading in ("", "before", "peak", "more"):
        table.add_column(heading, justify="right" if heading else "left")
    what = {
        "solver": "computes, writes",
        "server": "reads no buffer",
        "client": "xarray, pictures",
    }
    table.add_column("", style="dim")
    for name, most in peak.items():
        least = before[name]
        cells = ["?"] * 3
        if least is not None and most is not None:
            cells = [
                _bytes(least),
                f"[bold]{_bytes(most)}[/]",
                f"+{_bytes(most - least)}",
            ]
        table.add_row(f"   {name}", *cells, what[name])
    table.add_row("   on disk", "", f"[bold]{_bytes(written)}[/]", "", "")
    return table


def _say_where(console: Console, output: Path, written: int) -> None:
    folder = escape(str(output))
    console.print(
        f"\n[bold]{folder}/[/]\n"
        f"   {PICTURE}   six moments and the history of one point\n"
        f"   {FILM}   the film\n"
        f"   {RUN}/          {_bytes(written)}: opens by itself, wherever it is moved\n\n"
        f"Look further:  {escape(_program())} show {folder}/{RUN}\n"
        f"Remove it:     rm -r {folder}"
    )


def _program() -> str:
    """Return how this program is called: by its path where PATH does not lead to it."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if not called.is_file() or (found is not None and Path(found).samefile(called)):
        return "binref-sci"
    return os.path.relpath(called)


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


def _bytes(number: int) -> str:
    """Return bytes in whole units: a table of them is to fit into 80 columns."""
    return f"{number / 2**20:.0f} MiB" if number >= 2**20 else f"{number / 2**10:.0f} kiB"
