"""`Sampler`: what the chips of a machine tell while it works: power, temperature, clocks, use, memory, throttling.

What a chip does not tell is None, with the reason. Counters become rates between two samples. A sampler runs beside a
control loop, never in it, and takes at most one per cent of a core: it looks less often where a look costs more.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from edgert.device.device import Device
from edgert.device.machine import Machine, Once
from edgert.device.reading import METRICS, Reading, Value
from edgert.device.survey import PROBE_S, Survey
from edgert.errors import one_line

COST: Final = 0.01
"""Part of one core that sampling may take."""
FIRST: Final = "a rate needs two samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one device told.

    Attributes:
        device: its name.
        t_ns: monotonic time of the look, ns.
        values: every metric of `METRICS`; None where it was not told.
        missing: metric to the reason why it is None.
    """

    device: str
    t_ns: int
    values: Mapping[str, Value | None]
    missing: Mapping[str, str]


class Sampler:
    """Samples devices of a machine.

    Args:
        machine: where they are.
        found: its survey.
        devices: those of the survey that are sampled.
        clock_s: monotonic seconds.
        cost_s: CPU time that looking has taken so far, s; by default that of this thread and of ended children.
    """

    def __init__(
        self,
        machine: Machine,
        found: Survey,
        devices: Sequence[Device],
        *,
        clock_s: Callable[[], float] = time.monotonic,
        cost_s: Callable[[], float] | None = None,
    ) -> None:
        self._machine, self._found, self._devices = machine, found, tuple(devices)
        self._clock_s, self._cost_s = clock_s, cost_s or cpu_time_s
        self._before: dict[str, tuple[float, Reading]] = {}
        self._looks = 0
        self._spent_s = 0.0

    def period_s(self, wanted_s: float) -> float:
        """How long to wait between samples, so that they take no more than `COST` of a core."""
        return max(wanted_s, self._spent_s / COST)

    def sample(self) -> list[Sample]:
        """Look at each device once."""
        before_s = self._cost_s()
        moment = Once(self._machine.by(time.monotonic() + PROBE_S))
        samples = [self._look(moment, device) for device in self._devices]
        spent_s = self._cost_s() - before_s
        if self._looks:  # the first one also imports and fills caches
            self._spent_s = spent_s
        self._looks += 1
        return samples

    def _look(self, moment: Machine, device: Device) -> Sample:
        now_s = self._clock_s()
        platform = self._found.platform_of(device)
        try:
            reading = platform.read(moment, device)
        except Exception as error:  # a plug-in may raise anything; the others still tell
            reason = f"its platform broke: {one_line(f'{type(error).__name__}: {error}')}"
            reading = Reading(missing=dict.fromkeys(METRICS, reason))
        values: dict[str, Value | None] = {metric: reading.values.get(metric) for metric in METRICS}
        missing = {metric: reason for metric, reason in reading.missing.items() if values.get(metric) is None}
        before = self._before.get(device.name)
        for metric, rate in (("utilization_percent", _use), ("power_w", _power), ("throttle", _throttle)):
            if values[metric] is None and metric not in missing:
                values[metric] = rate(*before, now_s, reading) if before is not None else None
                if values[metric] is None:
                    missing[metric] = FIRST if before is None else "its counter did not count"
        for metric in METRICS:
            if values[metric] is None:
                missing.setdefault(metric, "its platform does not read it")
        self._before[device.name] = now_s, reading
        return Sample(device=device.name, t_ns=int(now_s * 1e9), values=values, missing=missing)


def _use(before_s: float, before: Reading, now_s: float, now: Reading) -> float | None:
    if before.busy_s is None or now.busy_s is None or now_s <= before_s or now.busy_s < before.busy_s:
        return None
    return min(100.0, 100.0 * (now.busy_s - before.busy_s) / (now_s - before_s) / max(1, now.units))


def _power(before_s: float, before: Reading, now_s: float, now: Reading) -> float | None:
    if before.energy_j is None or now.energy_j is None or now_s <= before_s or now.energy_j < before.energy_j:
        return None  # a counter that began anew tells nothing
    return (now.energy_j - before.energy_j) / (now_s - before_s)


def _throttle(before_s: float, before: Reading, now_s: float, now: Reading) -> tuple[str, ...] | None:
    if before.slowdowns is None or now.slowdowns is None:
        return None
    return ("thermal",) if now.slowdowns > before.slowdowns else ()


def cpu_time_s() -> float:
    """CPU time of this thread, and of the children of this process that have ended, s."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime
