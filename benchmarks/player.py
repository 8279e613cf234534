"""The player in headless Chromium: over frames of its own, and in JupyterLab over a kernel.

Needs JupyterLab, of the extra ``browser``, and Debian's ``chromium``. Chromium draws in
software here and shares the cores with server and kernel. ``PLAY_SECONDS`` says for how long the memory of the
kernel is watched while it plays (default 20).
"""

from __future__ import annotations

import json
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.bare import Page, bare_page
from benchmarks.harness import Row, over, under
from benchmarks.opening import write_sparse_run
from benchmarks.places import folder
from tests.player.browser import Player
from tests.player.jupyter import execute, jupyter, notebook, run_all, show
from tests.player.serving import served

MIB = 2**20
SNAPSHOTS = 100_000
CACHE = 64 * MIB
FRAMES_A_SECOND = 60  # what a display shows

# Counts the frames that are shown, and notes when a player has shown its first.
COUNTING = """
window.shown = 0;
window.first = [];
new MutationObserver((changes) => {
  for (const { target, attributeName } of changes) {
    if (attributeName === 'data-shown-index') window.shown += 1;
    if (attributeName === 'data-ready' && target.dataset.ready === '1') window.first.push(Date.now());
  }
}).observe(document, { subtree: true, attributes: true,
                       attributeFilter: ['data-shown-index', 'data-ready'] });
"""
ROOT = "document.querySelector('.binref-player')"


def rows(*, part: float = 1.0) -> Iterator[Row]:
    """Yield the rows of both hosts.

    Parameters
    ----------
    part
        Of the bars of speed: what a shared machine is held to.
    """
    if find_spec("jupyterlab") is None:
        return  # without the extra there is nothing to measure with
    yield from replayed(part=part)
    with folder() as place, film(place) as opened:
        yield watched(opened)  # first: memory that others have left would hide its own
        yield first_picture(opened, part=part)
        yield from scrubbed(opened, part=part)
        yield streamed(opened, 512, part=part)
        yield streamed(opened, 1024, part=part)
        yield jumped(opened)


# --- frames that the page holds itself -----------------------------------------------------------


def replayed(sizes: tuple[int, ...] = (512, 1024), *, part: float = 1.0) -> Iterator[Row]:
    """Replay from the browser's cache, beside what an empty page is given."""
    with served() as address:
        for size in sizes:
            with bare_page(width=900, height=800, ratio=1) as page:
                page.add_init_script(COUNTING)
                page.goto(f"{address}/tests/page.html")
                page.wait_for_function("window.loaded")
                page.evaluate(
                    "([size, traits]) => mount('plain', { size: [size, size, 48], traits })",
                    [size, {"fps": 60}],
                )
                Player(page).wait()
                page.wait_for_function(
                    "model.sent.findLast(({type}) => type === 'want').credit === 0"
                )
                empty = page.evaluate(
                    "new Promise((done) => { let count = 0; const start = performance.now();"
                    " const tick = (now) => { count += 1; if (now - start > 2000) done(count / (now - start) * 1000);"
                    " else requestAnimationFrame(tick) }; requestAnimationFrame(tick) })"
                )
                yield over(
                    f"replay {size} x {size} from the browser's cache",
                    "frames/s",
                    _rate(page, seconds=4),
                    bar=0.97 * min(FRAMES_A_SECOND, empty) * part,
                    limit=empty,
                    limit_name="an empty page",
                )


def _rate(page: Page, *, seconds: float) -> float:
    """Frames shown a second while playing, after a second to begin."""
    player = Player(page).focus()
    player.press("Space").wait_for(playing=1)
    page.wait_for_timeout(1000)
    count, passed = page.evaluate(
        "async (ms) => { const [before, start] = [shown, performance.now()];"
        " await new Promise((done) => setTimeout(done, ms));"
        " return [shown - before, performance.now() - start] }",
        seconds * 1000,
    )
    player.press("Space").wait_for(playing=0)
    return count / passed * 1000


# --- JupyterLab ----------------------------------------------------------------------------------


class Film:
    """A notebook in JupyterLab with films to play."""

    def __init__(self, page: Page, place: Path) -> None:
        self.page = page
        self.place = place

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the kernel."""
        code = f"import json; open('answer.json', 'w').write(json.dumps({expression}))"
        execute(self.page, code)
        return json.loads((self.place / "answer.json").read_text())

    def play(self, code: str) -> Player:
        """Run `code` in the second cell, which shows a player; wait for its first picture."""
        page = self.page
        page.evaluate(
            "code => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.setSource(code)",
            code,
        )
        show(page, 1)
        count = page.evaluate("first.length")
        page.evaluate("() => { jupyterapp.commands.execute('notebook:run-cell') }")
        page.wait_for_function(f"first.length > {count}")
        page.wait_for_function(
            f"document.querySelectorAll('.binref-player').length === 1 && {ROOT}.dataset.exact === '1'"
        )
        return Player(page)


@contextmanager
def film(place: Path) -> Iterator[Film]:
    """Open a notebook over 100,000 snapshots of 1 MiB, and as many bytes of 4 MiB each."""
    for size, count in ((512, SNAPSHOTS), (1024, SNAPSHOTS // 4)):
        write_film(place / f"film-{size}", size, count)
    prepare = (
        "import time, binref_sci, xarray as xr\n"
        "films = {size: binref_sci.open_dataset(f'film-{size}')['field'] for size in (512, 1024)}\n"
        "player = binref_sci.animate(films[512].isel(time=slice(0, 9)))"
    )
    (place / "film.ipynb").write_text(notebook(prepare, "player"))
    with (
        jupyter(place) as address,
        bare_page(width=1300, height=1000, ratio=2) as page,
    ):
        page.add_init_script(COUNTING)
        page.goto(address("film.ipynb"))
        run_all(page)
        page.wait_for_function("first.length > 0")
        yield Film(page, place)


def write_film(run: Path, size: int, count: int, *, real: int = 40) -> None:
    """Write a run that is mostly holes: the first and `real` frames between are there."""
    row, column = np.mgrid[:size, :size].astype(np.float32)
    field = np.sin(row / size * 9) * np.cos(column / size * 7)
    write_sparse_run(run, count, field)
    # without that of the times, which holds less than one frame
    frames = [path for path in run.glob("*.bin") if path.stat().st_size >= field.nbytes]
    buffers = sorted(frames, key=lambda path: int(path.stem) if path.stem.isdigit() else 0)
    chance = random.Random(5)
    for _ in range(real):
        buffer = chance.choice(buffers)
        with buffer.open("r+b") as file:
            file.seek(chance.randrange(buffer.stat().st_size // field.nbytes) * field.nbytes)
            file.write((field * chance.random()).tobytes())


def first_picture(opened: Film, *, part: float = 1.0) -> Row:
    """From the call of `animate` to the first picture, in a session that has played before."""
    seconds = []
    for _ in range(5):
        opened.play(
            "player.close(); called = time.time()\nplayer = binref_sci.animate(films[512])\nplayer"
        )
        seconds.append(opened.page.evaluate("first.at(-1)") / 1e3 - opened.ask("called"))
    return under(
        "from `animate()` to the first picture, 100,000 snapshots of 1 MiB",
        "s",
        min(seconds),
        bar=1.0 / part,
    )


def scrubbed(opened: Film, *, part: float = 1.0) -> Iterator[Row]:
    """Let go of the slider far away: until a coarse picture, until the exact one."""
    player = opened.play("player.close(); player = binref_sci.animate(films[1024]); player")
    chance = random.Random(1)
    coarse, exact = [], []
    for _ in range(15):
        page = opened.page
        page.wait_for_timeout(300)
        first, then = page.evaluate(
            "(index) => new Promise((done) => { const root = document.querySelector('.binref-player');"
            " const slider = root.querySelector('.br-timeline input'); const start = performance.now(); let first = null;"
            " const look = () => { const now = performance.now() - start;"
            " if (root.dataset.shownIndex === String(index)) { first ??= now; if (root.dataset.exact === '1') return done([first, now]) }"
            " requestAnimationFrame(look) };"
            " slider.value = index; slider.dispatchEvent(new Event('input', { bubbles: true })); look() })",
            chance.randrange(1000, SNAPSHOTS // 4),
        )
        coarse.append(first)
        exact.append(then)
    assert player.shown == player.index
    yield under(
        "scrub to a far frame of 1024 x 1024, coarse",
        "ms",
        statistics.median(coarse),
        bar=100 / part,
    )
    yield under("the same, exact", "ms", statistics.median(exact), bar=250 / part)


def streamed(opened: Film, size: int, *, part: float = 1.0) -> Row:
    """Play frames that are nowhere cached, faster than they come."""
    player = opened.play(
        f"player.close(); player = binref_sci.animate(films[{size}], fps=120); player"
    )
    player.scrub(2000)
    player.wait()
    rate = _rate(opened.page, seconds=6)
    assert player.root.evaluate("root => root.querySelector('.br-picture').width") == size
    return over(
        f"streamed {size} x {size} in JupyterLab",
        "frames/s",
        rate,
        bar={512: 55 * part, 1024: 0}[size],
    )


def jumped(opened: Film, count: int = 1000) -> Row:
    """Jump in bursts; after each the frame shown must be the last one asked for."""
    player = opened.play("player.close(); player = binref_sci.animate(films[512]); player")
    chance = random.Random(2)
    wrong = done = 0
    while done < count:
        burst = [chance.randrange(SNAPSHOTS) for _ in range(chance.randint(5, 25))]
        player.scrub(*burst)
        opened.page.wait_for_timeout(chance.randrange(30))
        player.wait()
        wrong += player.shown != burst[-1]
        done += len(burst)
    return under(f"frames shown that were not the last asked for, {done:,} jumps", "", wrong, bar=0)


def watched(opened: Film) -> Row:
    """Memory of the kernel while it plays, above what it had when the first picture was there."""
    opened.play("player.close(); player = binref_sci.animate(films[512], fps=60); player")
    kernel = psutil.Process(opened.ask("__import__('os').getpid()"))
    before = kernel.memory_info().rss
    seconds = float(os.environ.get("PLAY_SECONDS", "20"))
    with sampled(lambda: kernel.memory_info().rss) as sizes:
        _rate(opened.page, seconds=seconds)
    half = len(sizes) // 2
    growth = max(sizes[half:]) - max(sizes[:half])
    return under(
        f"memory of the kernel over {seconds:g} s of playing (its second half adds {growth / MIB:.0f} MiB)",
        "MiB",
        (max(sizes) - before) / MIB,
        bar=CACHE / MIB + 50,
    )


@contextmanager
def sampled(read: Callable[[], int]) -> Iterator[list[int]]:
    """Read a figure ten times a second meanwhile."""
    figures: list[int] = []
    over_ = threading.Event()

    def watch() -> None:
        while not over_.wait(0.1):
            figures.append(read())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield figures
    finally:
        over_.set()
        thread.join()


if __name__ == "__main__":
    for row in rows():
        print("  ".join(row.cells()), time.strftime("%H:%M:%S"), flush=True)
