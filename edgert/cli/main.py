"""The command line: groups are loaded when they are used, refusals are one line, exit codes are fixed.

Exit codes: 0 done, 1 a bug (with its traceback), 2 usage or refused input, 3 safety stop or fall, 5 a check failed or
found a difference, 130 Ctrl-C, 141 nobody reads the output any more.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click
from click.core import ParameterSource

from edgert import __version__
from edgert.errors import EdgertError, UnsupportedError, one_line
from edgert.registry import Registry

EXIT_REFUSED = 2
EXIT_SAFETY = 3
EXIT_DIFFERENCE = 5
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
COMMANDS = Registry(
    "edgert.commands",
    "command",
    {
        "bench": "edgert.cli.bench:bench",
        "completion": "edgert.cli.completion:completion",
        "config": "edgert.cli.config:config",
        "device": "edgert.cli.device:device",
        "doctor": "edgert.cli.doctor:doctor",
        "episode": "edgert.cli.episode:episode",
        "policy": "edgert.cli.policy:policy",
        "run": "edgert.cli.run:run",
        "sim": "edgert.cli.sim:sim",
        "version": "edgert.cli.version:version",
    },
)
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class ProjectContext(click.Context):
    """The context of every command: its options take defaults from the project file, and each of them is said."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.resilient_parsing:  # as the shell completes
            from edgert.cli.project import command_defaults

            self.default_map = command_defaults(self)

    def invoke(self, callback: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a command, after saying what the project file sets in it."""
        if callback is self.command.callback:
            self._say_defaults()
        return super().invoke(callback, *args, **kwargs)

    def _say_defaults(self) -> None:
        for param in self.command.params:
            name = param.name or ""
            if isinstance(param, click.Option) and self.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                from edgert.cli.project import FILE, said

                say(f"{FILE}: {said(param, (self.default_map or {})[name])}")


class LazyGroup(click.Group):
    """A group whose commands come from the registry, imported when they are looked up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of every command, built-in or plugged in."""
        return list(COMMANDS.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None where there is none."""
        if cmd_name not in COMMANDS.entries():
            return None
        try:
            command = COMMANDS.load(cmd_name)
        except EdgertError as error:
            return _unavailable(cmd_name, str(error))
        if not isinstance(command, click.Command):
            return _unavailable(cmd_name, f"the plug-in for '{cmd_name}' is no click command")
        _follow_project(command)
        return command


def _follow_project(command: click.Command) -> None:
    """Let a command and those below it take their defaults from the project file."""
    if command.context_class is click.Context:
        command.context_class = ProjectContext
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _follow_project(below)


def _unavailable(name: str, reason: str) -> click.Command:
    """A command that cannot be loaded: listed, and refused when it is called."""

    @click.command(name, context_settings={"ignore_unknown_options": True}, help=f"Unavailable: {reason}")
    @click.argument("arguments", nargs=-1)
    def refuse(arguments: tuple[str, ...]) -> None:
        raise UnsupportedError(reason)

    return refuse


@click.group(cls=LazyGroup, context_settings=HELP_NAMES)
@click.version_option(__version__, prog_name="edgert")
def cli() -> None:
    """Run trained policies on robots and in simulation, on the chip that is there.

    Defaults of options may stand in edgert.toml in the working folder, such as sim = "my.xml" under [run.policy].
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `edgert` program: run, print refusals as one line, exit with the right code."""
    _open_standard_streams()
    sys.exit(run(arguments))


def _open_standard_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, lest a recording gets its number and what libraries print."""
    descriptor = 0
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
        os.set_inheritable(descriptor, descriptor <= 2)
    os.close(descriptor)


_MESSAGE_CHARS = 6_000
"""Longest message: errors bound their own parts, and one that lists every missing fact has much to say."""


def say(text: str) -> None:
    """One line on stderr, with nothing in it that a terminal would obey: names come from files of strangers."""
    with suppress(OSError):  # nobody listens; the exit code still tells
        click.echo(one_line(flagged(text), _MESSAGE_CHARS), err=True)


def flagged(text: str) -> str:
    """A message of the library with its options as they are typed here: option 'motion_loop' is --motion-loop.

    What is no option, such as a key of edgert.toml, is left as it is.
    """
    return re.sub(r"(?<!no )option '([a-z_]+)'", lambda match: "--" + match[1].replace("_", "-"), text)


@contextmanager
def output() -> Iterator[None]:
    """Writing results to stdout: a reader that went away ends the program quietly, a full disk is a refusal."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if sys.stdout is not None:  # what is left in the buffer would fail again when Python exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from error
        raise EdgertError("the result cannot be written", found=error.strerror or error) from error


def write(report: Mapping[str, Any], as_json: bool, table: Callable[[Any], str]) -> None:
    """Print a result on stdout: as one JSON object, or as what `table` makes of it for people."""
    import json

    with output():
        click.echo(json.dumps(report, allow_nan=False) if as_json else table(report))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # units such as µs must not fail where the locale is ASCII
    try:
        outcome: Any = cli.main(
            args=None if arguments is None else list(arguments), prog_name="edgert", standalone_mode=False
        )
    except EdgertError as error:
        say(f"edgert: {error}")
        return EXIT_REFUSED
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):  # nobody listens; the exit code still tells
            click.echo(error.ctx.get_help() if error.ctx is not None else str(error), err=True)
        return EXIT_REFUSED
    except click.ClickException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "edgert")
        say(f"edgert: {error.format_message().rstrip('.')}. See {command} --help")
        return EXIT_REFUSED
    except (click.Abort, KeyboardInterrupt):
        say("edgert: interrupted")
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        say(f"edgert: the result cannot be written: {error.strerror}")  # of --help, which click prints by itself
        return EXIT_BROKEN_PIPE if error.errno == errno.EPIPE else EXIT_REFUSED
    return outcome if isinstance(outcome, int) else 0
