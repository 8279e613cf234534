"""What an image of a component needs of this package's dependencies: the solver side.

A solver writes buffers and a server forwards references; neither opens a dataset, draws, or
calls a server. A test runs both with these packages and no others.
"""

from __future__ import annotations

import re
from importlib.metadata import requires
from typing import Final

DISTRIBUTION: Final = "binref-sci"

SOLVER_SIDE: Final = (
    "fastapi",
    "lz4",
    "msgspec",
    "numpy",
    "orjson",
    "pybase64",
    "pydantic",
    "pyyaml",
    "rich",
    "typer",
    "uvicorn",
)

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def requirements() -> list[str]:
    """Return the solver side's packages, with the bounds that this package has for them.

    Examples
    --------
    >>> [each for each in requirements() if each.startswith("numpy")]
    ['numpy>=2.0']
    """
    made = dict(zip(SOLVER_SIDE, SOLVER_SIDE, strict=True))
    for requirement in requires(DISTRIBUTION) or ():
        name = _NAME.match(requirement)
        if name is not None and name[0].lower() in made and "extra ==" not in requirement:
            made[name[0].lower()] = requirement
    return list(made.values())
