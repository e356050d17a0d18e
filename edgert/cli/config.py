"""`edgert config`: the settings that count here, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgert import assets
from edgert.cli.main import HELP_NAMES, cli, write
from edgert.cli.running import json_option
from edgert.errors import EdgertError


def state_folder(environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """The folder of what edgert keeps between runs, and the variable that named it, "" for none.

    `EDGERT_HOME`, else `$XDG_STATE_HOME/edgert`, else `~/.local/state/edgert`. It may not exist yet.

    Raises:
        EdgertError: none of them is set, and there is no HOME.
    """
    if environ.get("EDGERT_HOME"):
        return Path(environ["EDGERT_HOME"]).absolute(), "EDGERT_HOME"
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the specification has relative ones ignored
        return Path(base) / "edgert", "XDG_STATE_HOME"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):  # as in a system service
        raise EdgertError("there is no home folder for edgert's state", hint="Set EDGERT_HOME to a folder")
    return Path(home) / ".local/state/edgert", ""


@click.group(context_settings=HELP_NAMES)
def config() -> None:
    """Show the settings of edgert."""


@config.command(context_settings=HELP_NAMES)
@json_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Print each setting, its value, and where it comes from.

    Options of commands are set by flags, else by edgert.toml in the working folder, else by built-in defaults; tables
    of edgert.toml are named after the commands, such as [run.policy].
    """
    from edgert.cli.project import FILE, read_project, settings

    document = read_project()
    state, variable = state_folder()
    gl = os.environ.get("MUJOCO_GL")
    rows = [
        _setting("state_folder", str(state), variable),
        _setting("sims_folder", str(assets.root("sims"))),
        _setting("models_folder", str(assets.root("models"))),
        _setting("MUJOCO_GL", gl, "MUJOCO_GL" if gl is not None else ""),
    ]
    rows += [
        {"name": name, "value": value, "source": "file", "from": FILE}
        for name, value in settings(cli, ctx.find_root(), document)
    ]
    write({"project_file": str(Path(FILE).absolute()) if document else None, "settings": rows}, as_json, _table)


def _setting(name: str, value: str | None, variable: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "source": "environment" if variable else "default", "from": variable}


def _table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import listing, rendered

    return rendered(
        listing(
            ("setting", "value", "from"),
            (
                (row["name"], "not set" if row["value"] is None else str(row["value"]), row["from"] or "default")
                for row in report["settings"]
            ),
        )
    )
