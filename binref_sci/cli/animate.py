"""``binref-sci animate``: a run as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from binref_sci.engine import open_dataset
from binref_sci.errors import DatasetExistsError, FormatError
from binref_sci.notebook.limits import Limits, Rules
from binref_sci.notebook.movie import save
from binref_sci.notebook.savable import SUFFIXES, checked_place
from binref_sci.notebook.scene import Scene


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("animate")(animate_command)


def animate_command(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Run directory, output path (its newest run), results.json or journal.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help=f"File to make; its suffix says what: {', '.join(SUFFIXES)}. A .png is one frame, "
            "a .html plays in a browser by itself.",
        ),
    ],
    *,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "--variable", "-v", help="What is shown; several are shown side by side. Default: all."
        ),
    ] = None,
    fps: Annotated[float, typer.Option(help="Frames per second.")] = 20.0,
    start: Annotated[int | None, typer.Option(help="First frame; negative: from the end.")] = None,
    stop: Annotated[int | None, typer.Option(help="Frame to stop before.")] = None,
    step: Annotated[int, typer.Option(help="Take every so manieth frame.", min=1)] = 1,
    frame: Annotated[int, typer.Option(help="The frame of a .png; negative: from the end.")] = -1,
    dim: Annotated[str | None, typer.Option(help="Dimension that is played.")] = None,
    col: Annotated[
        str | None, typer.Option(help="Dimension with a panel for each position.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="DIM=N", help="Position along another dimension; default: 0."),
    ] = None,
    vmin: Annotated[float | None, typer.Option(help="Lower limit of the colours.")] = None,
    vmax: Annotated[float | None, typer.Option(help="Upper limit of the colours.")] = None,
    cmap: Annotated[str | None, typer.Option(help="Colormap, by name.")] = None,
    norm: Annotated[str | None, typer.Option(help="linear, log or symlog.")] = None,
    robust: Annotated[
        bool, typer.Option("--robust", help="Limits at the 2nd and 98th percentile.")
    ] = False,
    limits: Annotated[
        str, typer.Option(help="sampled: limits from a few frames; full: from all.")
    ] = "sampled",
    reduce: Annotated[
        str,
        typer.Option(
            help="What stands for several cells in one pixel: mean, max, min or absmax (the value "
            "farthest from zero)."
        ),
    ] = "mean",
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Width and height in pixels.")
    ] = None,
    dpi: Annotated[float, typer.Option(help="Pixels to the inch: how large the text is.")] = 100.0,
    quality: Annotated[
        int | None, typer.Option(help="0 to 100, of .mp4 and .webp.", min=0, max=100)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Make a film of a run: MP4, GIF, WebP, APNG, or a page that plays by itself.

    Colours keep their limits for the whole film. Frames are read one by one, so the run may be
    larger than memory.
    """
    try:
        checked_place(output)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise FormatError(str(error)) from error
    if output.exists() and not overwrite:
        raise DatasetExistsError(f"{str(output)!r} exists: pass --overwrite to replace it")
    wanted = None if size is None else _size(size)
    data = open_dataset(directory)
    try:
        scene = Scene.of(data, dim, names=variable, col=col)
        scene = scene.at(_positions(scene, at or []))
        rules = Rules(vmin=vmin, vmax=vmax, cmap=cmap, norm=norm, robust=robust)
        colourings = Limits.of(scene, rules, limits).colourings
        save(
            scene,
            colourings,
            output,
            frames=slice(start, stop, step),
            index=frame,
            fps=fps,
            size=wanted,
            dpi=dpi,
            quality=quality,
            reduce=reduce,
        )
    except (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        EOFError,
    ) as error:  # click takes an EOFError for Ctrl-D
        if isinstance(error, FormatError):
            raise
        # Of what was asked for: the caller's mistake, in the words of the part that found it.
        raised = FormatError(str(error.args[0] if error.args else error))
        for note in getattr(error, "__notes__", ()):
            raised.add_note(note)
        raise raised from error
    typer.echo(output)


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdigit() and height.isdigit()):
        raise FormatError(f"--size {text}: give width and height, as 1280x720")
    return int(width), int(height)


def _positions(scene: Scene, given: list[str]) -> list[int]:
    found = dict.fromkeys((slider.dim for slider in scene.sliders), 0)
    for text in given:
        dim, equals, number = text.partition("=")
        if not equals or not number.lstrip("-").isdigit():
            raise FormatError(f"--at {text}: give a dimension and a position, as level=3")
        if dim not in found:
            there = ", ".join(found) or "none"
            raise FormatError(f"--at {text}: no such dimension is left over; there is: {there}")
        size = next(slider.size for slider in scene.sliders if slider.dim == dim)
        found[dim] = int(number) + size if int(number) < 0 else int(number)
    return list(found.values())
