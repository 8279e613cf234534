"""The command line, ``binref-sci``: one module a command, put together in `app`."""

import sys
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line; never returns.

    Raises
    ------
    SystemExit
        With the exit code.
    """
    try:  # Ctrl-C may come while all of this is still being imported
        app = import_module("binref_sci.cli.app")
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    app.main()
