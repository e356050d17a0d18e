"""`edgert doctor`: what this installation and this host allow, and what to do about what they do not."""

from __future__ import annotations

import locale
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.main import EXIT_DIFFERENCE, HELP_NAMES, write
from edgert.cli.running import check_mujoco, json_option
from edgert.errors import EdgertError, UnsupportedError

if TYPE_CHECKING:
    from edgert.device.host import Check

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.group(invoke_without_command=True, context_settings=HELP_NAMES)
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> int:
    """Check this installation and this host: what is ok, what slows a robot down, what fails.

    Nothing is changed. Exit code 5 means that a check failed; warnings are no failure.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    checks = [{"name": one.name, "status": one.status, "found": one.found, "fix": one.fix} for one in _checks()]
    ok = all(check["status"] != "fail" for check in checks)
    write({"checks": checks, "ok": ok}, as_json, _table)
    return 0 if ok else EXIT_DIFFERENCE


def _checks() -> list[Check]:
    from edgert.device import host, installation

    needed = installation.requirements()
    return [
        installation.python_version(),
        installation.packages(needed),
        installation.runtime(),
        *(installation.extra_package(name, needed) for name in installation.EXTRAS),
        _graphics(),
        host.realtime(),
        host.memory_lock(),
        host.cpu_governor(),
        host.cpu_quota(),
        host.clock(),
        _state_disk(),
        host.disk("disk-work", Path()),
        host.text_encoding(locale.getpreferredencoding(False)),
    ]


def _graphics() -> Check:
    """Whether pictures can be drawn here without a display, by trying it."""
    from edgert.device.host import Check

    try:
        check_mujoco()
        from edgert.sim.gl import choose_gl

        return Check(name="gl", status="ok", found=f"{choose_gl()} draws")
    except EdgertError as error:
        reason = f"{error.what}: {error.found}" if error.found else error.what
        if isinstance(error, UnsupportedError):
            return Check(name="gl", status="warn", found=f"no pictures or video: {reason}", fix=error.hint)
        return Check(name="gl", status="fail", found=reason, fix=error.hint or f"Set MUJOCO_GL to {error.expected}")


def _state_disk() -> Check:
    from edgert.assets import state_folder
    from edgert.device.host import Check, disk

    try:
        return disk("disk-state", state_folder()[0])
    except EdgertError as error:
        return Check(name="disk-state", status="warn", found=error.what, fix=error.hint)


def _table(report: dict[str, Any]) -> str:
    from rich.table import Table

    from edgert.cli.tables import plain, rendered

    table = Table.grid(padding=(0, 2))
    for check in report["checks"]:
        colour = _COLOURS[check["status"]]
        table.add_row(f"[{colour}]{check['status']}[/]", plain(check["name"]), plain(check["found"]))
        if check["fix"]:
            table.add_row("", "", plain(f"→ {check['fix']}"))
    return rendered(table)
