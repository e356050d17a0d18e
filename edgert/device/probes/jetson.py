"""NVIDIA Jetson: Orin, Thor (T5000, T4000). Its GPU is part of the chip and shares the memory of the host.

NVML tells little here, nothing on Orin, so the rest is read from /sys: the kernel's devfreq, thermal zones and the
INA3221 and INA238 power monitors (hwmon), whose rails jetson_stats names too (github.com/rbonghi/jetson_stats).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.probes import nvidia
from edgert.device.probes.cpu import meminfo, zone
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

ARCHES: Final[Mapping[str, str]] = {"tegra194": "sm_72", "tegra234": "sm_87", "tegra264": "sm_110"}
"""SoC to the instruction set of its GPU; CUDA 12.9 calls that of tegra264 sm_101."""
NVPMODEL: Final = Tool(name="nvpmodel", folders=("/usr/sbin",))
_JETPACK: Final[Mapping[str, str]] = {"38.2": "7.0", "38.4": "7.1", "39.2": "7.2"}
_CLOCKS: Final = ("/sys/class/devfreq/gpu-gpc-0/cur_freq", "/sys/class/devfreq/*.gpu/cur_freq")
_LOADS: Final = ("/sys/devices/platform/gpu.0/load", "/sys/devices/platform/*/*.gpu/load")
_TOTALS: Final = ("VIN", "VDD_IN")
"""Rails that carry the whole module; elsewhere the rails are added up."""


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    compatible = machine.text("/proc/device-tree/compatible").split("\0")
    socs = [name.removeprefix("nvidia,") for name in compatible if name.startswith("nvidia,tegra")]
    if not socs:
        return Finding(no="/proc/device-tree/compatible names no nvidia,tegra…")
    nodes = machine.names("/dev/nvgpu/igpu*") or machine.names("/dev/nvidia[0-9]*")
    model = machine.text("/proc/device-tree/model") or f"NVIDIA {socs[0]}"
    if not nodes:
        return Finding(
            no=f"{model}, but no /dev/nvgpu/igpu*",
            trouble=f"{model}, but its GPU's driver is not loaded: no /dev/nvgpu/igpu*",
            fix="Install JetPack; in a container, start it with --runtime nvidia",
        )
    rows, _, source = nvidia.ask(machine)
    row = rows[0] if rows else {}
    arch = ARCHES.get(socs[0], "") or nvidia.arch(row)
    release = l4t(machine)
    details = {"SoC": socs[0]}
    if release:
        jetpack = _JETPACK.get(release)
        details["L4T"] = f"{release}, JetPack {jetpack}" if jetpack else release
    mode = power_mode(machine)
    if mode is not None:
        details["power mode"] = mode
    device = Device(
        name="cuda:0",
        chip=model,
        vendor="NVIDIA",
        memory_bytes=meminfo(machine).get("MemTotal"),
        driver=row.get("driver_version") or (f"L4T {release}" if release else ""),
        arch=arch,
        details=details,
        notes=("it shares the memory of the host",),
        evidence={
            "chip": "/proc/device-tree",
            "memory_bytes": "/proc/meminfo",
            **({"driver": source} if row.get("driver_version") else {}),
        },
    )
    return Finding(devices=(device,))


def l4t(machine: Machine) -> str:
    """The release of Linux for Tegra, such as "38.2"; "" where the host does not tell."""
    match = re.search(r"R(\d{1,3}) \(release\), REVISION: (\d{1,3})", machine.text("/etc/nv_tegra_release"))
    return f"{match[1]}.{match[2]}" if match is not None else ""


def power_mode(machine: Machine) -> str | None:
    """The mode that nvpmodel has set, such as MAXN; None where it does not tell."""
    match = re.search(r"NV Power Mode:\s*([\w .+-]{1,40})", machine.tool(NVPMODEL, "-q").text)
    return match[1].strip() if match is not None else None


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    rows, _, source = nvidia.ask(machine)
    memory = meminfo(machine)
    total, free = memory.get("MemTotal"), memory.get("MemAvailable")
    used = total - free if total is not None and free is not None else None
    found.put("memory_total_bytes", total, "/proc/meminfo does not tell")
    found.put("memory_used_bytes", used, "/proc/meminfo does not tell")
    found.put("power_w", _power(machine), "no power monitor is visible in /sys/class/hwmon")
    found.put("clock_mhz", _first(machine, _CLOCKS, 1e-6), "no GPU is visible in /sys/class/devfreq")
    found.put("utilization_percent", _first(machine, _LOADS, 0.1), "the kernel shows no load of the GPU")
    found.put("temperature_c", zone(machine, ("gpu-thermal",)), "the zone gpu-thermal does not tell")
    found.put("power_mode", power_mode(machine), "nvpmodel does not tell")
    if rows:
        nvidia.put_row(found, rows[0], source)
    found.put("temperature_c", zone(machine, ("tj-thermal",)), "no zone tells")  # the hottest place of the chip
    found.put("throttle", None, "nvidia-smi does not tell on a Jetson")
    return found.reading()


def _first(machine: Machine, patterns: tuple[str, ...], scale: float) -> float | None:
    for pattern in patterns:
        for path in machine.names(pattern):
            value = machine.number(path)
            if value is not None and 0 <= value < 1e12:
                return value * scale
    return None


def _power(machine: Machine) -> float | None:
    """W of the whole module, else of its rails together."""
    rails: dict[str, float] = {}
    for path in machine.names("/sys/class/hwmon/hwmon*/in*_label"):
        name, channel = machine.text(path), re.search(r"in(\d{1,2})_label$", path)
        if channel is None or not name or name.lower().startswith("sum of"):
            continue
        folder = path.rpartition("/")[0]
        volts = machine.number(f"{folder}/in{channel[1]}_input")  # mV
        amperes = machine.number(f"{folder}/curr{channel[1]}_input")  # mA
        if volts is not None and amperes is not None and abs(volts * amperes) < 1e10:
            rails[name] = volts * amperes / 1e6
    for name in _TOTALS:
        if name in rails:
            return rails[name]
    return sum(rails.values()) if rails else None


PLATFORM: Final = Platform(
    name="jetson",
    vendor="NVIDIA Jetson",
    prefix="cuda",
    probe=probe,
    read=read,
    providers=("TensorrtExecutionProvider", "CUDAExecutionProvider"),
    install="Take onnxruntime-gpu from NVIDIA's index for Jetson, or build it: PyPI's has no kernels for it",
)
