"""Waves on a membrane, computed and written by a compiled program.

The program (``wave.c``) writes raw snapshots to a file. This component starts it in the run
directory and says what lies where; no snapshot ever passes through Python.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from pydantic import BaseModel, Field

from binref_sci import BinrefArray, output_path
from binref_sci.runtime import Array, Float64

SOURCE = Path(__file__).with_name("wave.c")


class InputSchema(BaseModel):
    size: int = Field(128, ge=3, description="Grid points along each side.")
    steps: int = Field(200, ge=0, description="Time steps.")
    courant: float = Field(
        0.5, gt=0, le=0.7, description="Wave speed * dt / dx; stable up to 1/sqrt(2)."
    )


class OutputSchema(BaseModel):
    height: Array[(None, None, None), Float64] = Field(
        description="Deflection; axes are time (steps + 1), y and x."
    )
    final: Array[(None, None), Float64] = Field(description="The last snapshot of height.")


def compiled(source: Path) -> Path:
    """Return the program made of `source`; compiled once, and again when it has changed."""
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O2"]
    if shutil.which(command[0]) is None:
        raise RuntimeError(
            f"compiling {source.name} needs a C compiler, and {command[0]!r} is not on PATH; "
            "install one (Debian and Ubuntu: apt install gcc libc6-dev; macOS: xcode-select "
            "--install), or name yours in the environment variable CC"
        )
    digest = hashlib.sha256(" ".join(command).encode() + source.read_bytes()).hexdigest()[:16]
    program = source.with_name("build") / f"{source.stem}-{digest}"
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        # Two workers may compile at once: each its own file, and the last rename counts.
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            made = Path(scratch, program.name)
            done = subprocess.run(
                [*command, "-o", made, source, "-lm"], capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"{source.name} does not compile:\n{done.stderr}")
            made.replace(program)
    return program


def apply(inputs: InputSchema) -> OutputSchema:
    """Run the program in the run directory and return references into what it wrote."""
    program = compiled(SOURCE)
    arguments = [str(inputs.size), str(inputs.steps), repr(inputs.courant)]
    done = subprocess.run(
        [program, *arguments], cwd=output_path(), stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise RuntimeError(
            f"{program.name} {' '.join(arguments)} ended with code {done.returncode}: "
            f"{done.stderr.strip() or 'it said nothing'}"
        )
    snapshot = (inputs.size, inputs.size)
    nbytes = 8 * inputs.size**2
    return OutputSchema(
        height=BinrefArray.from_file("wave.bin", (inputs.steps + 1, *snapshot), "float64"),
        final=BinrefArray.from_file("wave.bin", snapshot, "float64", offset=inputs.steps * nbytes),
    )
