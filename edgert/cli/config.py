"""`edgert config`: the settings that count here, and where each comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from edgert import assets
from edgert.cli.main import HELP_NAMES, cli, write
from edgert.cli.running import json_option


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
    state, variable = assets.state_folder()
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
