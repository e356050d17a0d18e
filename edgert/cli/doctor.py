"""`edgert doctor`: what this installation and this host allow, and what to do about what they do not."""

from __future__ import annotations

import locale
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgert.cli.machine import machine_of, replay_option
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
    return _report(_checks(), as_json)


@doctor.command("device", context_settings=HELP_NAMES)
@replay_option
@json_option
def device_(replay: str | None, as_json: bool) -> int:
    """Check what stands in the way of the chips that are here: drivers, providers, packages, clocks, caches.

    Nothing is changed. Exit code 5 means that a check failed; warnings are no failure.
    """
    from edgert.device.advice import device_checks
    from edgert.device.survey import survey

    machine = machine_of(replay)
    checks = device_checks(machine, survey(machine))
    if replay is None:
        checks.append(_kernel_cache())
    return _report(checks, as_json)


def _report(checks: list[Check], as_json: bool) -> int:
    rows = [{"name": one.name, "status": one.status, "found": one.found, "fix": one.fix} for one in checks]
    ok = all(row["status"] != "fail" for row in rows)
    write({"checks": rows, "ok": ok}, as_json, _table)
    return 0 if ok else EXIT_DIFFERENCE


def _kernel_cache() -> Check:
    """The folder where Warp keeps compiled kernels, without which every start compiles for minutes."""
    from edgert.device.host import Check, disk

    named = os.environ.get("WARP_CACHE_PATH", "")
    home = os.environ.get("XDG_CACHE_HOME", "") or (f"{os.environ['HOME']}/.cache" if os.environ.get("HOME") else "")
    if not named and not home:
        found = "neither WARP_CACHE_PATH nor HOME is set, so kernels are compiled at every start"
        return Check(name="kernel-cache", status="warn", found=found, fix="export WARP_CACHE_PATH=/some/folder")
    return disk("kernel-cache", Path(named or f"{home}/warp"))


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
