"""Power while a chip works, and so energy for each act, where the chip tells of its power."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from edgert.device.telemetry import Sample


class Samples(Protocol):
    """What `edgert.device.telemetry.Sampler` gives."""

    def sample(self) -> list[Sample]:
        """Look at each device once."""
        ...


class Meter:
    """Looks at one chip where a stage of a measurement ends and the next one begins.

    Counters of energy become the mean power of the stage; a chip that tells its power of the moment is asked at the end
    of the stage, while it is still warm. Both are of the whole chip, whatever else it does.

    Args:
        sampler: of that chip alone.
        wanted: the stages whose power is asked for; others are not disturbed by looking.
        say: told each stage.
    """

    def __init__(
        self, sampler: Samples, wanted: Collection[str], say: Callable[[str], None] = lambda stage: None
    ) -> None:
        self._sampler, self._wanted, self._say = sampler, wanted, say
        self._stage = ""
        self._ended: dict[str, Sample] = {}

    def stage(self, name: str) -> None:
        """The next stage begins, "" at the end of the last one."""
        if name in self._wanted or self._stage in self._wanted:
            self._ended[self._stage] = self._sampler.sample()[0]
        self._stage = name
        if name:
            self._say(name)

    def power_w(self, stage: str) -> tuple[float | None, str]:
        """The power of a stage that has ended, W, or None and the reason."""
        sample = self._ended.get(stage)
        if sample is None:
            return None, "nobody looked"
        value = sample.values.get("power_w")
        if isinstance(value, (int, float)):
            return float(value), ""
        return None, sample.missing.get("power_w", "the chip does not tell")


def add_energy(throughput: Sequence[dict[str, Any]], meter: Meter, stage: Callable[[int], str]) -> None:
    """Power and energy of a row for each number of rows; null with the reason where the chip does not tell.

    Args:
        throughput: entries with `rows` and `rows_per_s`.
        meter: which looked at the stages.
        stage: the name of that of a number of rows.
    """
    for each in throughput:
        power, missing = meter.power_w(stage(each["rows"]))
        each["power_w"] = power
        each["energy_per_row_mj"] = None if power is None else 1e3 * power / each["rows_per_s"]
        each["power_missing"] = missing
