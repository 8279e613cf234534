"""What a solver pays for ``from binref_sci import BinrefWriter``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Row, interleaved, under


def rows() -> Iterator[Row]:
    """Yield one row: from the start of a process until the import is done."""
    best = interleaved(
        {
            "import numpy": lambda: _run("import numpy"),
            "binref_sci": lambda: _run("from binref_sci import BinrefWriter"),
        }
    )
    numpy_ms, ours_ms = best["import numpy"] * 1e3, best["binref_sci"] * 1e3
    yield under(
        "`from binref_sci import BinrefWriter`, from the start of a process",
        "ms",
        ours_ms,
        bar=numpy_ms + 60,
        limit=numpy_ms,
        limit_name="import numpy",
    )


def _run(code: str) -> None:
    # With compiled modules kept, as an installed package has them.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # The end of the interpreter is not part of an import: it is left out, for both.
    code = f"import os; {code}; os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
