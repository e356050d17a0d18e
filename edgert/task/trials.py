"""`Trials`: the conditions and bars by which a task's policies are judged, as `[trials]` of `task.toml` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from edgert.contract.spec import Contract, Range
from edgert.tables import MAX_MAGNITUDE, Table, is_number, show, type_name

MAX_WORLDS: Final = 100_000
MAX_COMMANDS: Final = 1_000
FRICTION: Final = (1e-5, 100.0)
"""Bounds of sliding friction."""
GAINS: Final = (0.0, 1e3)
"""Bounds of the factor of kp and kd."""
MAX_PUSH_M_S: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """One trial for each command, and one under drawn commands (or under none); all under the same conditions."""

    num_envs: int
    seconds: float | None = None
    """None: the task's episode."""
    commands: tuple[tuple[float, float, float], ...] = ()
    pushes: Range | None = None
    """(m/s, s): speed of pushes in a random direction, and how far apart."""
    friction: Range | None = None
    gains: Range | None = None
    max_falls: int | None = None
    min_success: float | None = None
    """Smallest fraction of episodes that meet the task's criterion."""
    max_drift_m_s: float | None = None
    """Largest mean speed of any stretch under the command zero."""
    within: Mapping[str, float] = field(default_factory=dict)
    """Largest error of the mean velocity of any stretch, by component of the command."""


def read_trials(table: Table, contract: Contract, max_seconds: float) -> Trials:
    """The trials of a `[trials]` table."""
    within = table.table("within", {})
    keys = contract.command.keys if contract.command is not None else ()
    bars = {key: within.number(key, above=0.0) for key in keys if within.has(key)}
    within.close()
    trials = Trials(
        num_envs=table.integer("num_envs", lo=1, hi=MAX_WORLDS),
        seconds=table.number("seconds", above=0.0, hi=max_seconds) if table.has("seconds") else None,
        commands=_commands(table, contract),
        pushes=_pair(table, "pushes"),
        friction=table.range("friction", lo=FRICTION[0], hi=FRICTION[1]) if table.has("friction") else None,
        gains=table.range("gains", lo=GAINS[0], hi=GAINS[1]) if table.has("gains") else None,
        max_falls=table.integer("max_falls", lo=0) if table.has("max_falls") else None,
        min_success=table.number("min_success", lo=0.0, hi=1.0) if table.has("min_success") else None,
        max_drift_m_s=table.number("max_drift_m_s", above=0.0) if table.has("max_drift_m_s") else None,
        within=bars,
    )
    table.close()
    return trials


def _pair(table: Table, name: str) -> Range | None:
    if not table.has(name):
        return None
    speed, interval = table.numbers(name, length=2)
    if not 0.0 <= speed <= MAX_PUSH_M_S or interval <= 0.0:
        table.fail(name, found=show([speed, interval]), expected=f"[m/s, s], 0 to {MAX_PUSH_M_S:g} and above 0")
    return speed, interval


def _is_usable(value: object) -> bool:
    return is_number(value) and abs(value) <= MAX_MAGNITUDE  # type: ignore[arg-type]  # it is a number


def _commands(table: Table, contract: Contract) -> tuple[tuple[float, float, float], ...]:
    value = table.raw("commands", [])
    fits = isinstance(value, list) and len(value) <= MAX_COMMANDS
    if not fits or not all(isinstance(one, list) and len(one) == 3 and all(map(_is_usable, one)) for one in value):
        table.fail(
            "commands", found=f"{type_name(value)} {show(value)}", expected="a list of commands, three numbers each"
        )
    if value and contract.command is None:
        table.fail("commands", found=f"{len(value)} commands", expected="none, as the policy takes no command")
    return tuple((float(one[0]), float(one[1]), float(one[2])) for one in value)
