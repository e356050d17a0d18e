"""The CPU of any host: cores, kinds of cores, features that matter to networks, what cgroups leave of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from edgert.device.device import Device, cpu_name, cpuinfo
from edgert.device.host import cgroup_folders, cpu_quotas, size_text
from edgert.device.machine import Machine
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

_FEATURES: Final = (
    "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16",
    "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2",
)  # fmt: skip
"""Instruction sets by which networks are computed, as /proc/cpuinfo has them."""
_KINDS: Final = {
    "performance": "/sys/devices/cpu_core/cpus",
    "efficiency": "/sys/devices/cpu_atom/cpus",
    "low-power": "/sys/devices/cpu_lowpower/cpus",
}
"""Kinds of cores of one CPU, as Intel's hybrid ones list them."""
_RAPL: Final = "/sys/class/powercap/intel-rapl:0"
_THERMAL: Final = ("x86_pkg_temp", "cpu-thermal", "tcpu", "soc-thermal")
_HWMON: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    text = machine.text("/proc/cpuinfo")
    info = cpuinfo(text)
    name = cpu_name(info)
    memory = meminfo(machine).get("MemTotal")
    device = Device(
        name="cpu",
        chip=name or "unnamed CPU",
        vendor=info.get("vendor_id", ""),
        memory_bytes=memory,
        physics=("mujoco",),
        details=dict(_details(machine, text, info)),
        evidence={"chip": "/proc/cpuinfo", "memory_bytes": "/proc/meminfo"},
    )
    return Finding(devices=(device,))


def meminfo(machine: Machine) -> dict[str, int]:
    """Bytes by name of /proc/meminfo."""
    found = {}
    for line in machine.text("/proc/meminfo").splitlines():
        match = re.fullmatch(r"(\w+):\s+(\d{1,15}) kB", line.strip())
        if match is not None:
            found[match[1]] = int(match[2]) << 10
    return found


def _details(machine: Machine, text: str, info: dict[str, str]) -> Iterable[tuple[str, str]]:
    processors = count_of(machine.text("/sys/devices/system/cpu/online"))
    processors = processors or len(re.findall(r"(?m)^processor\s*:", text))
    cores = _physical(machine)
    yield "processors", f"{processors}, {cores} cores" if cores else str(processors)
    for kind, path in _KINDS.items():
        count = count_of(machine.text(path))
        if count:
            yield f"{kind} cores", f"{count} processors"
    capacities = [machine.number(path) for path in machine.names("/sys/devices/system/cpu/cpu[0-9]*/cpu_capacity")]
    known = [value for value in capacities if value is not None]
    if len(set(known)) > 1:
        yield "capacities", ", ".join(f"{known.count(value)} × {value}" for value in sorted(set(known), reverse=True))
    flags = (info.get("flags") or info.get("Features") or "").split()
    yield "features", ", ".join(name for name in _FEATURES if name in flags) or "none that matter"
    quota = min(cpu_quotas(machine.file), default=None)
    if quota is not None:
        yield "CPU limit", f"{quota:g} CPUs by cgroup"
    limit = min(_memory_limits(machine), default=None)
    if limit is not None:
        yield "memory limit", f"{size_text(limit)} by cgroup"


def _physical(machine: Machine) -> int:
    """Cores with at least one processor of their own; 0 where the host does not tell."""
    lists = {machine.text(path) for path in machine.names("/sys/devices/system/cpu/cpu[0-9]*/topology/core_cpus_list")}
    return len(lists - {""})


def count_of(listed: str) -> int:
    """How many processors a list such as "0-3,8" names."""
    count = 0
    for part in listed.split(",") if listed else ():
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is not None:
            count += max(0, int(match[2] or match[1]) - int(match[1]) + 1)
    return count


def _memory_limits(machine: Machine) -> list[int]:
    limits = []
    for folder in cgroup_folders(machine.file, "memory"):
        limit = machine.number(f"{folder}/memory.max")
        if limit is None:
            limit = machine.number(f"{folder}/memory.limit_in_bytes")
        if limit is not None and 0 < limit < 1 << 60:  # version 1 writes "no limit" as a very large number
            limits.append(limit)
    return limits


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    memory = meminfo(machine)
    total, free = memory.get("MemTotal"), memory.get("MemAvailable")
    found.put("memory_total_bytes", total, "/proc/meminfo does not tell")
    used = total - free if total is not None and free is not None else None
    found.put("memory_used_bytes", used, "/proc/meminfo does not tell")
    temperature = zone(machine, _THERMAL)
    if temperature is None:
        temperature = _hwmon(machine)
    found.put("temperature_c", temperature, "no thermal sensor is visible, as in a virtual machine")
    found.put("clock_mhz", _clock(machine), "no clock is visible")
    found.put("power_mode", power_mode(machine), "no governor is visible, as in a virtual machine")
    energy = machine.file(f"{_RAPL}/energy_uj")
    microjoules = machine.number(f"{_RAPL}/energy_uj")
    if microjoules is None:
        denied = "only root may read its energy counter (RAPL)"
        found.put("power_w", None, denied if "denied" in energy.problem else "the host shows no energy counter (RAPL)")
    paths = machine.names("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [machine.number(path) for path in paths]
    known = [count for count in counts if count is not None]
    if not known:
        found.put("throttle", None, "the host does not count how often it throttles")
    busy = _busy(machine)
    if busy is None:
        found.put("utilization_percent", None, "/proc/stat does not tell")
    return Reading(
        values=found.values,
        missing=found.missing,
        busy_s=busy,
        units=max(1, len(re.findall(r"(?m)^cpu\d+ ", machine.text("/proc/stat")))),
        energy_j=microjoules / 1e6 if microjoules is not None and microjoules >= 0 else None,
        slowdowns=sum(known) if known else None,
    )


def power_mode(machine: Machine) -> str | None:
    """The governor of the clocks, and the host's profile where it has one."""
    governors = [
        machine.text(path) for path in machine.names("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    ]
    parts = ["/".join(sorted(set(governors) - {""}))]
    parts.append(machine.text("/sys/firmware/acpi/platform_profile"))
    return ", ".join(part for part in parts if part) or None


def zone(machine: Machine, kinds: Iterable[str]) -> float | None:
    """°C of the first thermal zone of these types."""
    types = {machine.text(path).lower(): path for path in machine.names("/sys/class/thermal/thermal_zone*/type")}
    for kind in kinds:
        if kind in types:
            value = machine.number(types[kind].removesuffix("type") + "temp")
            if value is not None and abs(value) < 1e6:
                return value / 1e3
    return None


def _hwmon(machine: Machine) -> float | None:
    for path in machine.names("/sys/class/hwmon/hwmon*/name"):
        if machine.text(path) in _HWMON:
            value = machine.number(path.removesuffix("name") + "temp1_input")
            if value is not None and abs(value) < 1e6:
                return value / 1e3
    return None


def _clock(machine: Machine) -> float | None:
    """Mean of the clocks of all processors, MHz."""
    paths = machine.names("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
    clocks = [clock / 1e3 for clock in map(machine.number, paths) if clock is not None and 0 < clock < 1e9]
    if not clocks:
        listed = re.findall(r"(?m)^cpu MHz\s*:\s*(\d{1,6}(?:\.\d{1,6})?)\s*$", machine.text("/proc/cpuinfo"))
        clocks = [float(value) for value in listed]
    return sum(clocks) / len(clocks) if clocks else None


def _busy(machine: Machine) -> float | None:
    """Time that all processors together have worked since the start, s."""
    match = re.search(r"(?m)^cpu +((?:\d{1,18} ?){4,10})$", machine.text("/proc/stat"))
    if match is None:
        return None
    user, nice, system, _, _, irq, softirq, steal = ([int(part) for part in match[1].split()] + [0] * 8)[:8]
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


PLATFORM: Final = Platform(
    name="cpu",
    vendor="the host",
    prefix="cpu",
    probe=probe,
    read=read,
    providers=(CPU_PROVIDER, "OpenVINOExecutionProvider"),
    install='Run: pip install "edgert[cpu]"',
    proven=True,
)
