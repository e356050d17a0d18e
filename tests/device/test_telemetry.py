"""What chips tell while they work: values with units, rates between two looks, a reason for whatever is not told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from device.machines import NAMES, live, put, recorded

from edgert.device.device import Device
from edgert.device.machine import Answer, LiveMachine, Machine, Tool, Watched
from edgert.device.probes import cpu
from edgert.device.reading import METRICS, Reading, Readings
from edgert.device.survey import survey
from edgert.device.telemetry import FIRST, Sampler

GIB = 1 << 30
TOLD = {
    ("jetson-thor", "cuda:0"): {
        "power_w": 12.0 * 1.2 + 12.0 * 0.542 + 5.0 * 1.304, "temperature_c": 62.0, "clock_mhz": 1575.0,
        "utilization_percent": 85.0, "power_mode": "MAXN", "memory_total_bytes": 128766976 << 10,
        "memory_used_bytes": 13185738752,
    },
    ("ty1200-16gb", "iluvatar:0"): {
        "temperature_c": 46.0, "utilization_percent": 0.0, "memory_used_bytes": 15824 << 20,
        "memory_total_bytes": 16 * GIB,
    },
    ("ty1200-32gb", "iluvatar:0"): {
        "temperature_c": 46.0, "utilization_percent": 0.0, "memory_used_bytes": 64 << 20,
        "memory_total_bytes": 32 * GIB, "power_w": 23.1,
    },
    ("ppu-zw810e", "ppu:0"): {
        "power_w": 51.99, "temperature_c": 42.0, "clock_mhz": 200.0, "utilization_percent": 38.0,
        "memory_used_bytes": 248 << 20, "memory_total_bytes": 96 * GIB,
    },
    ("ascend-910b2", "npu:1"): {
        "power_w": 99.7, "temperature_c": 45.0, "utilization_percent": 0.0, "memory_used_bytes": 61258 << 20,
        "memory_total_bytes": 64 * GIB,
    },
    ("ascend-310p3", "npu:0"): {
        "temperature_c": 49.0, "utilization_percent": 0.0, "memory_used_bytes": 1448 << 20,
        "memory_total_bytes": 44278 << 20,
    },
    ("mtt-s5000", "musa:1"): {
        "temperature_c": 51.0, "utilization_percent": 75, "memory_used_bytes": 64889 << 20,
        "memory_total_bytes": 80 * GIB,
    },
    ("k100-ai", "dcu:0"): {
        "power_w": 91.0, "temperature_c": 57.0, "clock_mhz": 1350.0, "utilization_percent": 0.0,
        "memory_used_bytes": 64169 << 20, "memory_total_bytes": 65520 << 20,
    },
    ("gb10", "cuda:0"): {
        "power_w": 4.44, "temperature_c": 42.0, "clock_mhz": 208.0, "utilization_percent": 0.0, "throttle": (),
        "memory_total_bytes": 125489508 << 10,
    },
    ("h200", "cuda:1"): {
        "power_w": 699.12, "temperature_c": 83.0, "clock_mhz": 1335.0, "utilization_percent": 100.0,
        "memory_used_bytes": 140112 << 20, "memory_total_bytes": 143771 << 20,
        "throttle": ("power cap", "software thermal"),
    },
    ("amd-7900xt", "rocm:0"): {
        "power_w": 22.0, "temperature_c": 47.0, "clock_mhz": 1000.0, "utilization_percent": 37,
        "memory_used_bytes": 27856896, "memory_total_bytes": 21458059264, "power_mode": "auto",
    },
    ("mixed", "cuda:0"): {
        "power_w": 31.22, "temperature_c": 45.0, "clock_mhz": 210.0, "utilization_percent": 2.0,
        "memory_used_bytes": 1042 << 20, "memory_total_bytes": 24 * GIB,
    },
    ("ty1200-16gb", "openvino:NPU"): {"clock_mhz": 0, "memory_used_bytes": 0, "memory_total_bytes": 30 * GIB},
}  # fmt: skip


@pytest.mark.parametrize(("name", "device"), TOLD)
def test_what_recorded_chips_tell(name, device):
    machine = recorded(name)
    found = survey(machine)
    (sample,) = Sampler(machine, found, [found.device(device)]).sample()
    told = {metric: value for metric, value in sample.values.items() if value is not None}
    expected = TOLD[name, device].items()
    assert told == {key: pytest.approx(value) if isinstance(value, float) else value for key, value in expected}


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_not_told_has_its_reason(name):
    machine = recorded(name)
    found = survey(machine)
    for sample in Sampler(machine, found, found.devices).sample():
        assert sample.values.keys() == METRICS.keys()
        assert {metric for metric, value in sample.values.items() if value is None} == sample.missing.keys()
        assert all(sample.missing.values())


def test_reasons_name_who_is_silent():
    machine = recorded("ascend-310p3")
    found = survey(machine)
    (sample,) = Sampler(machine, found, [found.device("npu:0")]).sample()
    assert sample.missing == {
        "power_w": "npu-smi writes NA",
        "clock_mhz": "the table of npu-smi has no column for it",
        "throttle": "the table of npu-smi has no column for it",
        "power_mode": "the table of npu-smi has no column for it",
    }
    machine = recorded("amd-7900xt")
    found = survey(machine)
    (sample,) = Sampler(machine, found, [found.device("cpu")]).sample()
    assert sample.missing["power_w"] == "only root may read its energy counter (RAPL)"


class Script:
    """A platform whose chip tells one reading after another, at times that the test sets."""

    def __init__(self, *readings: Reading) -> None:
        self.now_s = 0.0
        self._readings = list(readings)

    def read(self, machine: Machine, device: Device) -> Reading:
        return self._readings.pop(0)

    def sampler(self, cost_s: Callable[[], float] | None = None) -> Sampler:
        machine = recorded("h200")
        found = survey(machine)
        platforms = {**found.platforms, "cpu": dataclasses.replace(found.platforms["cpu"], read=self.read)}
        found = dataclasses.replace(found, platforms=platforms)
        return Sampler(machine, found, [found.device("cpu")], clock_s=lambda: self.now_s, cost_s=cost_s)


def test_counters_become_rates():
    script = Script(
        Reading(busy_s=10.0, units=4, energy_j=100.0, slowdowns=3),
        Reading(busy_s=13.0, units=4, energy_j=130.0, slowdowns=3),
        Reading(busy_s=17.0, units=4, energy_j=131.0, slowdowns=5),
        Reading(busy_s=0.0, units=4, energy_j=0.5, slowdowns=None),
    )
    sampler = script.sampler()
    (first,) = sampler.sample()
    assert first.missing["power_w"] == first.missing["utilization_percent"] == first.missing["throttle"] == FIRST
    script.now_s = 1.5
    (second,) = sampler.sample()
    assert (second.values["utilization_percent"], second.values["power_w"]) == (pytest.approx(50.0), 20.0)
    assert second.values["throttle"] == ()
    assert second.t_ns == 1_500_000_000
    script.now_s = 2.5
    (third,) = sampler.sample()
    assert (third.values["utilization_percent"], third.values["power_w"]) == (100.0, 1.0)
    assert third.values["throttle"] == ("thermal",)
    script.now_s = 3.5
    (fourth,) = sampler.sample()
    assert fourth.missing["power_w"] == fourth.missing["utilization_percent"] == "its counter did not count"


def test_a_tool_is_asked_once_for_all_devices():
    watched = Counted(recorded("h200"))
    found = survey(watched)
    before = watched.asked
    assert len(Sampler(watched, found, found.devices).sample()) == 3
    assert watched.asked == before + 1


class Counted(Watched):
    """Counts how often a tool is asked."""

    asked = 0

    def by(self, deadline_s: float) -> Counted:
        return self

    def tool(self, tool: Tool, *arguments: str) -> Answer:
        self.asked += tool.name == "nvidia-smi"
        return super().tool(tool, *arguments)


def test_a_platform_that_breaks_tells_nothing():
    (sample,) = Script().sampler().sample()  # there is no reading to give
    assert sample.missing["power_w"] == "its platform broke: IndexError: pop from empty list"


def test_looking_takes_no_more_than_a_hundredth_of_a_core():
    spent = iter([0.0, 5.0, 5.0, 5.06, 5.06, 5.061])
    sampler = Script(Reading(), Reading(), Reading()).sampler(lambda: next(spent))
    sampler.sample()  # which also imports
    assert sampler.period_s(1.0) == 1.0
    sampler.sample()
    assert sampler.period_s(1.0) == pytest.approx(6.0)
    sampler.sample()
    assert sampler.period_s(1.0) == 1.0


def test_a_value_that_is_there_stays_and_a_reason_does_not_hide_it():
    found = Readings()
    found.put("power_w", None, "first")
    found.put("power_w", 3.0, "")
    found.put("power_w", 4.0, "")
    found.put("clock_mhz", None, "one")
    found.put("clock_mhz", None, "two")
    found.leave("rest")
    assert found.values == {"power_w": 3.0}
    assert found.missing["clock_mhz"] == "one"
    assert found.missing["throttle"] == "rest"
    assert found.missing.keys() | found.values.keys() == METRICS.keys()


def test_the_counters_of_a_cpu(tmp_path):
    put(tmp_path, "/proc/stat", "cpu  300 100 100 900 50 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 1\n")
    put(tmp_path, "/sys/class/powercap/intel-rapl:0/energy_uj", "2500000\n")
    for number in range(2):
        folder = f"/sys/devices/system/cpu/cpu{number}"
        put(tmp_path, f"{folder}/thermal_throttle/core_throttle_count", f"{number + 1}\n")
        put(tmp_path, f"{folder}/cpufreq/scaling_cur_freq", f"{1_000_000 * (number + 1)}\n")
        put(tmp_path, f"{folder}/cpufreq/scaling_governor", "powersave\n")
    put(tmp_path, "/sys/class/hwmon/hwmon0/name", "acpitz")
    put(tmp_path, "/sys/class/hwmon/hwmon0/temp1_input", "20000")
    put(tmp_path, "/sys/class/hwmon/hwmon1/name", "k10temp")
    put(tmp_path, "/sys/class/hwmon/hwmon1/temp1_input", "61500")
    put(tmp_path, "/sys/firmware/acpi/platform_profile", "balanced")
    reading = cpu.read(live(tmp_path, {}), Device(name="cpu", chip="", vendor="", memory_bytes=None))
    assert (reading.busy_s, reading.units, reading.energy_j, reading.slowdowns) == (5.0, 2, 2.5, 3)
    assert reading.values == {"temperature_c": 61.5, "clock_mhz": 1500.0, "power_mode": "powersave, balanced"}
    assert reading.missing.keys() == {"memory_total_bytes", "memory_used_bytes"}


def test_this_computer_tells_of_its_cpu():
    machine = LiveMachine()
    found = survey(machine)
    sampler = Sampler(machine, found, [found.device("cpu")])
    sampler.sample()
    (sample,) = sampler.sample()
    assert isinstance(sample.values["memory_used_bytes"], int)
