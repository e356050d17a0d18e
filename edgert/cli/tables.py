"""Reports for people, on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from edgert.errors import one_line

_PLAIN_COLUMNS = 1_000
"""Width of a table that no terminal shows, so that its lines stay whole in a log."""
_VECTOR = 6
"""Numbers of a vector that are printed before only its bounds are."""


def run_table(report: dict[str, Any]) -> str:
    """The summary of `edgert run policy`: outcome, motion, timing."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    colour = "green" if report["outcome"] == "completed" else "red"
    table.add_row("outcome", f"[{colour}]{report['outcome'].replace('_', ' ')}[/]")
    table.add_row("time", f"{report['seconds']:.2f} s, {report['steps']} steps at {report['control_hz']:g} Hz")
    if "command" in report:
        asked = report["command"]
        table.add_row("asked", _twist(asked) if "mean_velocity" in report else _position(asked))
    if "success" in report:
        table.add_row("success", f"{'yes' if report['success'] else '[yellow]no[/]'}, by the task's criterion")
    if "goal_error_m" in report["metrics"]:
        table.add_row("reached", f"{1e3 * report['metrics']['goal_error_m']:.1f} mm from it at the end")
    if "mean_velocity" in report:
        table.add_row("walked", f"{_twist(report['mean_velocity'])} (mean of the second half)")
        table.add_row("distance", f"{report['distance_m']:.2f} m")
    metrics = report["metrics"]
    if "motion" in report:
        table.add_row("motion", plain(_motion(report["motion"], metrics)))
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
    table.add_row("ran on", plain(f"{report['device']} ({report['device_chip']}), {report['provider']}"))
    table.add_row("policy", plain(f"{report['policy']} sha256 {report['policy_sha256'][:12]}…"))
    return rendered(table)


def _motion(motion: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """A reference motion, and how closely it was followed."""
    end = "looped" if motion["loop"] else "held at its end"
    text = f"{motion['frames']} frames, {motion['seconds']:.2f} s, {end}"
    errors = [
        f"{metrics[name]:.3f} {unit}"
        for name, unit in (("joint_pos_error_rad", "rad at the joints"), ("anchor_pos_error_m", "m at the anchor"))
        if metrics.get(name) is not None
    ]
    return f"{text}; off by {', '.join(errors)} (mean)" if errors else text


def rendered(*parts: RenderableType) -> str:
    """Tables and texts as the terminal shows them; whole lines and no colours where there is none.

    A listing that is wider than the terminal keeps its columns: the terminal breaks its lines.
    """
    # Sizes in the environment may be no numbers at all, which the console would not survive.
    console = Console(highlight=False, width=get_terminal_size().columns, height=25)
    if not console.is_terminal:
        console.width = _PLAIN_COLUMNS
    wide = console.options.update_width(_PLAIN_COLUMNS)
    console.width = max(console.width, *(console.measure(part, options=wide).minimum for part in parts))
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines)


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """A name and a value a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(plain(name), plain(value))
    return table


def listing(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """One thing a line, under headers; only the last column is ever broken, between words."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    cells = [[one_line(cell) for cell in row] for row in rows]
    for column, header in enumerate(headers):
        width = max(cell_len(text) for text in (header, *(row[column] for row in cells)))
        table.add_column(header, width=width if column < len(headers) - 1 else None)
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    return table


def value_text(value: object) -> str:
    """A value out of a document for people; a long vector by its bounds."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_text(entry)}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        if len(value) > 1 and all(isinstance(entry, float) for entry in value):
            if min(value) == max(value):
                return f"{value[0]:g}"
            if len(value) > _VECTOR:
                return f"{min(value):g} … {max(value):g}"
        return ", ".join(value_text(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(text: str) -> str:
    """Text that comes from files: neither markup nor terminal controls in it work."""
    return escape(one_line(text))


def _position(values: list[float]) -> str:
    return f"x {values[0]:+.3f} m, y {values[1]:+.3f} m, z {values[2]:+.3f} m"


def _twist(values: list[float] | None) -> str:
    if values is None:
        return "–"
    return f"vx {values[0]:+.2f} m/s, vy {values[1]:+.2f} m/s, wz {values[2]:+.2f} rad/s"
