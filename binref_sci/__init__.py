"""Stream arrays to flat files, return references, open them lazily.

What a solver needs, what a caller needs and what a notebook needs are all here, and each
is imported when it is first used: ``from binref_sci import BinrefWriter`` costs little
more than NumPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binref_sci.array import BinrefArray
    from binref_sci.call import output_path
    from binref_sci.client import Tesseract
    from binref_sci.engine import follow, open_dataset, open_datatree, open_references, to_binref
    from binref_sci.notebook import animate, plot_frame
    from binref_sci.trajectory import Trajectory
    from binref_sci.writer import BinrefWriter

__version__ = "0.1.0"

__all__ = [
    "BinrefArray",
    "BinrefWriter",
    "Tesseract",
    "Trajectory",
    "animate",
    "follow",
    "open_dataset",
    "open_datatree",
    "open_references",
    "output_path",
    "plot_frame",
    "to_binref",
]

_HOME = {
    "BinrefArray": "array",
    "BinrefWriter": "writer",
    "Tesseract": "client",
    "Trajectory": "trajectory",
    "animate": "notebook",
    "follow": "engine",
    "open_dataset": "engine",
    "open_datatree": "engine",
    "open_references": "engine",
    "output_path": "call",
    "plot_frame": "notebook",
    "to_binref": "engine",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home in ("engine", "notebook"):
        import_module(f"{__name__}.xarray")  # what opens has our accessor
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    hidden = {"Any", "TYPE_CHECKING", "annotations", "import_module", "sys"}
    return sorted(({*globals()} - hidden) | {*__all__})


if "xarray" in sys.modules:  # its objects may be there already, and get their accessor now
    import_module(f"{__name__}.xarray")
