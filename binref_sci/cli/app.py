"""The command ``binref-sci``: which commands there are, and what their failures come to.

A command is a module with a function ``register(app)``; a new one is added to
`_COMMANDS`. Commands raise the errors of `binref_sci.errors`; here they become exit
codes: 1 where the component failed, 2 where the caller was mistaken, 130 on Ctrl-C.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from binref_sci.cli import check, check_gradients, demo, run, serve, show, terminal
from binref_sci.errors import BinrefError, ComponentError

_COMMANDS = (run, serve, show, check, demo, check_gradients)

EXIT_COMPONENT = 1
EXIT_CALLER = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it

app = typer.Typer(
    name="binref-sci",
    help="Run and serve solvers that stream their arrays to flat files, and look at what they wrote.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback here is a fault of ours, and reported plainly
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version("binref-sci")
        except PackageNotFoundError:
            number = "unknown (not installed)"
        typer.echo(f"binref-sci {number}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


for _command in _COMMANDS:
    _command.register(app)


def main() -> None:
    """Run the command line; never returns.

    Raises
    ------
    SystemExit
        With the exit code.
    """
    try:
        app(prog_name="binref-sci")
    except KeyboardInterrupt:
        terminal.complain("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except ComponentError as error:
        terminal.complain(str(error))
        sys.exit(EXIT_COMPONENT)
    except BinrefError as error:
        terminal.complain(str(error))
        sys.exit(EXIT_CALLER)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): nothing to say, nobody to say it to.
        sys.exit(EXIT_COMPONENT)
