"""``binref-sci export``: a run for programs that read kerchunk references, Zarr or netCDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from binref_sci.cli.source import StorageOptions
from binref_sci.engine.exporting import export


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("export")(export_command)


def export_command(
    directories: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR",
            help="Run directory, output path (its newest run), results.json or journal; or its URL. "
            "Several are one simulation that was restarted, in order.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="x.json or x.parquet: kerchunk references, nothing is copied. "
            "x.zarr: a copy in Zarr 3. x.nc: a copy in netCDF 4.",
        ),
    ],
    *,
    storage_options: StorageOptions = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="Where the references say the buffers are, such as s3://bucket/run/; "
            "default: in DIR."
        ),
    ] = None,
) -> None:
    """Export what a run has written."""
    export(
        directories if len(directories) > 1 else directories[0],
        output,
        overwrite=overwrite,
        prefix=prefix,
        storage_options=storage_options,
    )
    typer.echo(output)
