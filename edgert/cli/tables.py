"""Reports for people, on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edgert.errors import one_line

_PLAIN_COLUMNS = 160
"""Width of a table that no terminal shows, so that its lines stay whole in a log."""


def run_table(report: dict[str, Any]) -> str:
    """The summary of `edgert run policy`: outcome, motion, timing."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    colour = "green" if report["outcome"] == "completed" else "red"
    table.add_row("outcome", f"[{colour}]{report['outcome'].replace('_', ' ')}[/]")
    table.add_row("time", f"{report['seconds']:.2f} s, {report['steps']} steps at {report['control_hz']:g} Hz")
    if "command" in report:
        table.add_row("asked", _twist(report["command"]))
    if "mean_velocity" in report:
        table.add_row("walked", f"{_twist(report['mean_velocity'])} (mean of the second half)")
        table.add_row("distance", f"{report['distance_m']:.2f} m")
    metrics = report["metrics"]
    table.add_row(
        "peaks", f"{metrics['peak_joint_vel_rad_s']:.1f} rad/s, {metrics['peak_torque_n_m']:.1f} N·m at the joints"
    )
    latency = report["latency_us"]
    shown = ", ".join(f"{name} {value:.0f}" for name, value in latency.items() if value is not None)
    table.add_row("latency", f"{shown or 'no tick'} µs from observation to command")
    period = "" if report["real_time"] else " (against one period, not in real time)"
    skipped = f", {report['skipped_slots']} of them skipped" if report["skipped_slots"] else ""
    table.add_row("deadlines", f"{report['deadline_misses']} missed{skipped}{period}")
    if report["physics_warnings"]:
        counts = ", ".join(f"{name} {count} times" for name, count in report["physics_warnings"].items())
        table.add_row("physics", f"[yellow]MuJoCo warned: {counts}[/]")
    table.add_row(
        "speed", f"{report['real_time_factor']:.2f} × real time, {report['loop_cpu_percent']:.1f} % of a core"
    )
    table.add_row("ran on", _plain(f"{report['device']} ({report['device_chip']}), {report['provider']}"))
    table.add_row("policy", _plain(f"{report['policy']} sha256 {report['policy_sha256'][:12]}…"))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_COLUMNS
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that comes from files: neither markup nor terminal controls in it work."""
    return escape(one_line(text))


def _twist(values: list[float] | None) -> str:
    if values is None:
        return "–"
    return f"vx {values[0]:+.2f} m/s, vy {values[1]:+.2f} m/s, wz {values[2]:+.2f} rad/s"
