"""`Reading`: what a chip tells of itself at one moment, and why it does not tell the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

METRICS: Final[Mapping[str, str]] = {
    "power_w": "W",
    "temperature_c": "°C",
    "clock_mhz": "MHz",
    "utilization_percent": "%",
    "memory_used_bytes": "bytes",
    "memory_total_bytes": "bytes",
    "throttle": "",
    "power_mode": "",
}
"""What is read of a chip, with its unit. `throttle` is a list of reasons why its clocks are held down."""

Value = float | int | str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a chip.

    Attributes:
        values: metric to what it was.
        missing: metric to the reason why the chip does not tell it.
        busy_s: time that it has worked so far, of all its units together, in s; None where it does not count.
        units: how many units work side by side, such as CPUs.
        energy_j: energy that it has used so far, J; None where it does not count.
        slowdowns: how often its clocks were held down so far; None where it does not count.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    busy_s: float | None = None
    units: int = 1
    energy_j: float | None = None
    slowdowns: int | None = None


class Readings:
    """Collects a `Reading`: a value, or the reason why there is none."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.missing: dict[str, str] = {}

    def put(self, metric: str, value: Value | None, reason: str) -> None:
        """Note a metric; where the value is None, the reason counts. A value that is there stays."""
        if metric in self.values:
            return
        if value is None:
            self.missing.setdefault(metric, reason)
        else:
            self.values[metric] = value
            self.missing.pop(metric, None)

    def leave(self, reason: str, *metrics: str) -> None:
        """Note that nothing else is told, for one reason; without names, every metric that was not put."""
        for metric in metrics or METRICS:
            self.put(metric, None, reason)

    def reading(self, *, busy_s: float | None = None) -> Reading:
        """What was collected."""
        return Reading(values=self.values, missing=self.missing, busy_s=busy_s)
