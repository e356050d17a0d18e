"""The project file: `edgert.toml` in the working folder holds defaults for the options of commands.

Its tables mirror the command tree, `[run.policy]` for `edgert run policy`; keys are the options' long names, with
dashes or underscores. Flags win over it, and it over the built-in defaults. Only commands with an option that it could
set read it, strictly, their own table and the names above: an unknown command or option and a value of the wrong type
are refused with the valid ones.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from edgert.errors import EdgertError, UnknownNameError
from edgert.tables import Table, is_number, read_toml, show, type_name

FILE: Final = "edgert.toml"
TYPED: Final[Mapping[str, str]] = {
    "env": "it may import any module",
    "video": "it replaces a file",
    "json": "it is for whoever reads the result",
}
"""Options that no file may set, and why: a folder may come from a stranger."""


def read_project() -> dict[str, Any]:
    """The project file of the working folder as parsed; empty where there is none.

    Raises:
        EdgertError: it is no regular file, too large or no TOML.
    """
    return read_toml(Path(FILE), kind="project") if os.path.lexists(FILE) else {}


def command_defaults(ctx: click.Context) -> dict[str, Any]:
    """What the project file sets in the command of a context; the file is not read where it could set nothing.

    Raises:
        EdgertError: the file cannot be read, or the command's table or a name above it is wrong.
    """
    if TYPED.keys() >= _options(ctx.command).keys():
        return {}
    contexts = [ctx]
    while contexts[0].parent is not None:
        contexts.insert(0, contexts[0].parent)
    result, path = defaults(contexts[0].command, contexts[0], read_project()), ""
    for each in contexts[1:]:
        name = each.info_name or ""
        if name not in result:
            return {}
        path = f"{path}.{name}".lstrip(".")
        result = defaults(each.command, each, result[name], path)
    return result


def defaults(command: click.Command, ctx: click.Context, data: object, path: str = "") -> dict[str, Any]:
    """A table of the file as click's `default_map`: parameter names to values, subcommands to their tables.

    Args:
        command: the command of the table.
        ctx: a context of that command.
        data: the table as parsed.
        path: its dotted key, "" for the whole file.

    Raises:
        EdgertError: an option or subcommand is unknown or no file may set it, or a value is of the wrong type.
    """
    name = f"edgert {path.replace('.', ' ')}".strip()
    if not isinstance(data, Mapping):
        raise EdgertError(
            f"{FILE}: key '{path}' is wrong",
            found=f"{type_name(data)} {show(data)}",
            expected=f"a table [{path}] with options of {name}",
        )
    table = Table(data, FILE, path)
    options = _options(command)
    commands = command.list_commands(ctx) if isinstance(command, click.Group) else []
    result: dict[str, Any] = {}
    for key, value in data.items():
        option = options.get(flag := key.replace("_", "-"))
        if option is not None and flag in TYPED:
            raise EdgertError(
                f"{FILE}: key '{table.key(key)}' cannot be set here: {TYPED[flag]}", hint=f"Type --{flag}"
            )
        if option is not None and option.name is not None:
            if option.name in result:
                table.fail(key, found="the same option twice", expected="one spelling of it")
            result[option.name] = _value(table, key, option, ctx)
        elif key in commands:
            result[key] = value
        else:
            valid = [*(f"[{table.key(entry)}]" for entry in commands), *(name for name in options if name not in TYPED)]
            raise UnknownNameError(
                f"{FILE}: {name} has no {'command' if isinstance(value, Mapping) else 'option'} '{key}'",
                expected="one of " + (", ".join(valid) or "none"),
            )
    return result


def settings(command: click.Command, ctx: click.Context, data: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every option that a table and those below it set, as ("run.policy.sim", value); arguments and errors as above."""
    names = {option.name: name for name, option in _options(command).items()}
    for key, value in defaults(command, ctx, data, path).items():
        dotted = f"{path}.{names.get(key, key)}".lstrip(".")
        below = command.get_command(ctx, key) if isinstance(command, click.Group) and key not in names else None
        if below is None:
            yield dotted, value
        else:
            yield from settings(below, click.Context(below, parent=ctx), value, dotted)


def said(option: click.Option, value: Any) -> str:
    """An option with its value as one would type it."""
    if isinstance(value, bool):
        names = option.opts if value else option.secondary_opts
        return names[-1] if names else f"{option.opts[-1]} off"
    values = value if isinstance(value, list) else [value]
    return shlex.join([max(option.opts, key=len), *(str(entry) for entry in values)])


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command that have a value to set, by long name without its dashes."""
    return {
        name.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value and not option.is_eager
        for name in option.opts
        if name.startswith("--")
    }


def _value(table: Table, key: str, option: click.Option, ctx: click.Context) -> Any:
    """The value of one option, of the type that the option has in TOML, and accepted by the option itself."""
    value = table.data[key]
    several = option.multiple or option.nargs != 1
    entries = value if several and isinstance(value, list) else [value]
    expected = f"a list of {option.nargs}" if option.nargs > 1 else "a list"
    if several and (not isinstance(value, list) or option.nargs not in (1, -1, len(value))):
        table.fail(key, found=f"{type_name(value)} {show(value)}", expected=expected)
    kind, fits = _kind(option)
    if not all(fits(entry) for entry in entries):
        expected = f"{expected}, each {kind}" if several else kind
        table.fail(key, found=f"{type_name(value)} {show(value)}", expected=expected)
    try:
        option.type_cast_value(ctx, value)
    except click.UsageError as error:
        raise EdgertError(f"{FILE}: key '{table.key(key)}' is wrong", found=error.message.rstrip(".")) from error
    return value


def _kind(option: click.Option) -> tuple[str, Callable[[Any], bool]]:
    """What one value of an option is in TOML, in words and as a test."""
    if isinstance(option.type, click.types.BoolParamType):
        return "true or false", lambda value: isinstance(value, bool)
    if option.count or isinstance(option.type, click.types.IntParamType):
        return "an integer of 64 bits", lambda value: type(value) is int and abs(value) < 2**63
    if isinstance(option.type, click.types.FloatParamType):
        return "a finite number", is_number
    return "text", lambda value: isinstance(value, str)
