"""The command line, ``binref-sci``: one module a command, put together in `app`."""

from binref_sci.cli.app import main

__all__ = ["main"]
