"""The command ``binref-sci``: which commands there are, and what their failures come to.

A command is a module with a function ``register(app)``; a new one is added to
`_COMMANDS`. It is imported when it is asked for: a server is not to carry what one that
draws pictures needs (100 MB), and nobody is to wait for it. Commands raise the errors of
`binref_sci.errors`; here they become exit codes: 1 where the component or the system failed,
2 where the caller was mistaken, 130 on Ctrl-C, 143 on SIGTERM.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from binref_sci.cli import ending, terminal
from binref_sci.cli.exits import (
    EXIT_CALLER,
    EXIT_COMPONENT,
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
)
from binref_sci.errors import (
    BinrefError,
    ComponentError,
    ContainerError,
    EngineError,
    StoreError,
    Terminated,
)

_COMMANDS = (
    "run",
    "serve",
    "show",
    "check",
    "export",
    "animate",
    "demo",
    "check-gradients",
    "build",
    "images",
    "ps",
    "stop",
)


class _Commands(TyperGroup):
    """The commands, each imported when it is first looked at."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return one command, or None."""
        # Where there is none of this name, what is suggested instead is looked for in all.
        for name in (cmd_name,) if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.commands[name] = _command(name)
        return self.commands.get(cmd_name)


def _command(name: str) -> Any:
    single = typer.Typer()
    import_module(f"binref_sci.cli.{name.replace('-', '_')}").register(single)
    info = single.registered_commands[0]
    info.help = terminal.reflowed(inspect.getdoc(info.callback) or "")
    return typer.main.get_command_from_info(
        info,
        pretty_exceptions_short=single.pretty_exceptions_short,
        rich_markup_mode=single.rich_markup_mode,
    )


app = typer.Typer(
    name="binref-sci",
    cls=_Commands,
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


def main() -> None:
    """Run the command line; never returns.

    Raises
    ------
    SystemExit
        With the exit code.
    """
    try:
        with ending.in_good_order():
            app(prog_name="binref-sci")
    except KeyboardInterrupt:
        terminal.complain("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except Terminated:
        terminal.complain("ended by SIGTERM")
        sys.exit(EXIT_TERMINATED)
    except (ComponentError, ContainerError, EngineError, StoreError) as error:
        terminal.complain(_said(error))
        sys.exit(EXIT_COMPONENT)
    except BinrefError as error:
        terminal.complain(_said(error))
        sys.exit(EXIT_CALLER)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): nothing to say, nobody to say it to.
        sys.exit(EXIT_COMPONENT)
    except OSError as error:  # a full disk, a folder that may not be written
        terminal.complain(_said(error))
        sys.exit(EXIT_COMPONENT)


def _said(error: BaseException) -> str:
    """Return what an error says, with what has been noted on it: which frame it is about."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])
