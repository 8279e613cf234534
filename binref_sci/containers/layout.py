"""Where things lie in an image of a component, and under which labels it is known."""

from __future__ import annotations

from typing import Final

ENVIRONMENT: Final = "/opt/binref-sci"
"""The virtual environment with this package and what the component needs."""

COMPONENT: Final = "/tesseract"
INPUT_PATH: Final = "/tesseract/input_data"
OUTPUT_PATH: Final = "/tesseract/output_data"
PORT: Final = 8000

USER: Final = 9999
"""User and group of the image, without any right beyond; used where the caller is root."""

ENTRYPOINT: Final = (f"{ENVIRONMENT}/bin/python", "-P", "-m", "binref_sci.cli.inside")
"""-P: a file of the component does not stand in for a module of Python's."""

LABEL_NAME: Final = "binref-sci.component"
LABEL_VERSION: Final = "binref-sci.component.version"
LABEL_SCHEMA: Final = "binref-sci.schema"
"""OpenAPI document, JSON."""
LABEL_METADATA: Final = "binref-sci.metadata"
LABEL_PACKAGE: Final = "binref-sci.version"

READY: Final = "binref-sci: serving "
"""What a server's log says, before name, version and address, when it answers."""
