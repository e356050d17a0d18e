"""The command line: groups are loaded when they are used, refusals are one line, exit codes are fixed.

Exit codes: 0 done, 1 a bug (with its traceback), 2 usage or refused input, 3 safety stop or fall, 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from edgert import __version__
from edgert.errors import EdgertError
from edgert.registry import Registry

EXIT_REFUSED = 2
EXIT_SAFETY = 3
EXIT_INTERRUPTED = 130
COMMANDS = Registry("edgert.commands", "command", {"run": "edgert.cli.run:run"})
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """A group whose commands come from the registry, imported when they are looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of every command, built-in or plugged in."""
        return list(COMMANDS.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None where there is none."""
        if cmd_name not in COMMANDS.entries():
            return None
        command: click.Command = COMMANDS.load(cmd_name)
        return command


@click.group(cls=LazyGroup, context_settings=HELP_NAMES)
@click.version_option(__version__, prog_name="edgert")
def cli() -> None:
    """Run trained policies on robots and in simulation, on the chip that is there."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `edgert` program: run, print refusals as one line, exit with the right code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        outcome: Any = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False)
    except EdgertError as error:
        click.echo(f"edgert: {error}", err=True)
        return EXIT_REFUSED
    except click.UsageError as error:
        error.show()
        return EXIT_REFUSED
    except click.ClickException as error:
        click.echo(f"edgert: {error.format_message()}", err=True)
        return EXIT_REFUSED
    except (click.Abort, KeyboardInterrupt):
        click.echo("edgert: interrupted", err=True)
        return EXIT_INTERRUPTED
    return outcome if isinstance(outcome, int) else 0
