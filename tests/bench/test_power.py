"""Energy of an act, from what a chip tells between two looks."""

from __future__ import annotations

from typing import Any

import pytest

from edgert.bench.power import Meter, add_energy
from edgert.device.telemetry import Sample


class Chip:
    """Tells one power after the other; None: it does not tell."""

    def __init__(self, *powers: float | None) -> None:
        self._powers = iter(powers)

    def sample(self) -> list[Sample]:
        power = next(self._powers)
        missing = {"power_w": "only root may read its energy counter (RAPL)"} if power is None else {}
        return [Sample(device="cpu", t_ns=0, values={"power_w": power}, missing=missing)]


def test_energy_is_power_over_rows_a_second() -> None:
    said: list[str] = []
    meter = Meter(Chip(None, 20.0, 5.0, 30.0), ("one", "many"), said.append)
    for name in ("before", "one", "between", "many", ""):
        meter.stage(name)
    throughput: list[dict[str, Any]] = [{"rows": 1, "rows_per_s": 1_000.0}, {"rows": 64, "rows_per_s": 1e6}]
    add_energy(throughput, meter, {1: "one", 64: "many"}.__getitem__)
    assert [each["power_w"] for each in throughput] == [20.0, 30.0]
    assert [each["energy_per_row_mj"] for each in throughput] == [pytest.approx(20.0), pytest.approx(0.03)]
    assert [each["power_missing"] for each in throughput] == ["", ""]
    assert said == ["before", "one", "between", "many"]


def test_a_chip_that_does_not_tell_has_no_energy() -> None:
    meter = Meter(Chip(None, None), ("one", "two"))
    meter.stage("one")
    meter.stage("")
    throughput: list[dict[str, Any]] = [{"rows": 1, "rows_per_s": 1_000.0}, {"rows": 2, "rows_per_s": 1.0}]
    add_energy(throughput, meter, {1: "one", 2: "never"}.__getitem__)
    assert throughput[0] == {
        "rows": 1, "rows_per_s": 1_000.0, "power_w": None, "energy_per_row_mj": None,
        "power_missing": "only root may read its energy counter (RAPL)",
    }  # fmt: skip
    assert throughput[1]["power_missing"] == "nobody looked"
