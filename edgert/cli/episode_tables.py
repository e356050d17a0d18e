"""Recorded episodes for people: lists, summaries with sparklines, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from edgert.cli.tables import facts, listing, rendered

if TYPE_CHECKING:
    from edgert.rollout import Episode

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 48
_MAX_ROWS = 200
"""Most episodes that a list or comparison shows to people."""


def list_table(report: dict[str, Any]) -> str:
    """The episodes of a recording, one a line."""
    rows = report["episodes"]
    shown = [
        (
            str(row["episode"]), str(row["where"]), _name(row["policy"]), str(row["seed"]), str(row["steps"]),
            f"{row['seconds']:.2f} s", str(row["outcome"]).replace("_", " "),
            "" if row["return"] is None else f"{row['return']:.2f}", row["id"],
        )
        for row in rows[:_MAX_ROWS]
    ]  # fmt: skip
    table = listing(("episode", "where", "policy", "seed", "steps", "time", "outcome", "return", "id"), shown)
    return rendered(table, *_rest(rows))


def show_table(report: dict[str, Any]) -> str:
    """One episode: what was run, how it went, and its course."""
    header = report["header"]
    rows = [
        ("episode", f"{report['episode']}, {report['id']}"),
        ("outcome", f"{str(report['outcome']).replace('_', ' ')} {report['reason']}".rstrip()),
        ("time", f"{report['seconds']:.2f} s, {report['steps']} steps at {header['control_hz']:g} Hz"),
        ("where", f"{report['where']}, seed {report['seed']}, world {report['world']}"),
        ("policy", f"{report['policy']} sha256 {str(report['policy_sha256'])[:12]}…"),
        ("ran on", f"{header.get('device')} ({header.get('device_chip')}), {header.get('provider')}"),
    ]
    if report["return"] is not None:
        rows.append(("return", f"{report['return']:.3f}"))
    columns = [f"{name} {' × '.join(map(str, shape))}" for name, shape in report["columns"].items()]
    rows.append(("columns", ", ".join(columns)))
    lines = [
        (one["name"], spark(one["values"]), f"{one['low']:.3g} … {one['high']:.3g} {one['unit']}")
        for one in report["course"]
    ]
    return rendered(facts(rows), Table.grid(), listing(("course", "from beginning to end", "range"), lines))


def replay_table(report: dict[str, Any]) -> str:
    """Recorded against replayed actions."""
    rows = report["episodes"]
    shown = [
        (
            str(row["episode"]),
            str(row["steps"]),
            "the same, bit for bit"
            if row["same"]
            else f"{row['different_steps']} steps differ, first {row['first_difference']}",
            "" if row["same"] else "not finite" if row["max_difference"] is None else f"{row['max_difference']:.3g}",
        )
        for row in rows[:_MAX_ROWS]
    ]
    verdict = "every action is the same, bit for bit" if report["same"] else "actions differ"
    table = listing(("episode", "steps", "actions", "largest difference"), shown)
    return rendered(table, *_rest(rows), facts([(verdict, f"({report['provider']})")]))


def course(episode: Episode) -> list[dict[str, Any]]:
    """What is worth a sparkline: name, unit, bounds and a few dozen means over time of each quantity."""
    quantities: list[tuple[str, str, Any]] = []
    if "reward" in episode.columns:
        quantities.append(("reward", "", episode["reward"]))
    if "command" in episode.columns:
        quantities += [(f"command {i}", "", column) for i, column in enumerate(episode["command"].T)]
    if "state.qpos" in episode.columns and "state.qvel" in episode.columns:
        heights = _height(episode)
        if heights is not None:
            quantities.append(("base height", "m", heights))
    quantities.append(("largest action", "", np.abs(episode.action).max(axis=1, initial=0.0)))
    if "state.qvel" in episode.columns:
        quantities.append(("fastest coordinate", "m/s or rad/s", np.abs(episode.qvel).max(axis=1, initial=0.0)))
    if "latency_ns" in episode.columns:
        quantities.append(("latency", "µs", episode["latency_ns"] / 1e3))
    return [_sampled(*each) for each in quantities if len(each[2])]


def spark(values: list[float | None]) -> str:
    """A line of bars between the lowest and the highest value; a gap where there is no number."""
    finite = [value for value in values if value is not None]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    half = 0.5 * high - 0.5 * low  # the span itself may be too large for a float
    if half <= 1e-9 * max(abs(low), abs(high)):  # the mean of equal numbers may differ in its last bits
        low, half = 0.0, float("inf")
    levels = (None if value is None else (0.5 * value - 0.5 * low) / half for value in values)
    return "".join(" " if level is None else _BARS[round(level * (len(_BARS) - 1))] for level in levels)


def _sampled(name: str, unit: str, values: Any) -> dict[str, Any]:
    parts = np.array_split(np.asarray(values, np.float64), min(len(values), _POINTS))
    with np.errstate(over="ignore", invalid="ignore"):
        means = [float(part.mean()) for part in parts]
    usable = [value if np.isfinite(value) else None for value in means]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    return {"name": name, "unit": unit, "low": low, "high": high, "values": usable}


def _height(episode: Episode) -> Any:
    """Height of a floating base: a free joint comes first in qpos, with seven numbers for six velocities."""
    qpos, qvel = episode.qpos, episode.qvel
    floating = qpos.shape[1] == qvel.shape[1] + 1 and qpos.shape[1] >= 7
    return qpos[:, 2] if floating else None


def _rest(rows: list[Any]) -> list[Table]:
    return [facts([(f"and {len(rows) - _MAX_ROWS} more", "--json lists all")])] if len(rows) > _MAX_ROWS else []


def _name(path: Any) -> str:
    parts = str(path).rsplit("/", 2)
    return "/".join(parts[-2:])
