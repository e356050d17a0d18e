"""NVIDIA cards, by nvidia-smi, else by NVML in a child, else by what the driver writes into /proc.

Columns: `nvidia-smi --help-query-gpu`. A Jetson answers nvidia-smi too; its own platform reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer, without_node
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.probes.cpu import meminfo
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x10de"
NVIDIA_SMI: Final = Tool(name="nvidia-smi", folders=("/usr/lib/wsl/lib", "/usr/local/nvidia/bin"))
_OLD: Final = (
    "name", "driver_version", "memory.total", "memory.used", "power.draw", "temperature.gpu", "clocks.sm",
    "utilization.gpu",
)  # fmt: skip
QUERIES: Final = (
    (*_OLD, "compute_cap", "clocks_event_reasons.active"),
    (*_OLD, "compute_cap", "clocks_throttle_reasons.active"),
    _OLD,
)
"""Fields of newer drivers, then as they were called before 535, then those of any."""
THROTTLE: Final[Mapping[int, str]] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Bits of the reasons why clocks are held down that say so: nvml.h. Idle and settings of the user are none."""


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    if "nvidia,tegra" in machine.text("/proc/device-tree/compatible"):
        return Finding(no="this is a Jetson, see that platform")
    cards = pci.cards(machine, VENDOR, (pci.DISPLAY, pci.ACCELERATOR))
    nodes = machine.names("/dev/nvidia[0-9]*") or machine.names("/dev/dxg")
    if not nodes:
        fix = "Install the NVIDIA driver; in a container, start it with --gpus all"
        return without_node(cards, "/dev/nvidia*", no="card of PCI vendor 10de", card="an NVIDIA card", fix=fix)
    rows, problem, source = ask(machine)
    if rows:
        return Finding(devices=tuple(_device(machine, index, row, source) for index, row in enumerate(rows)))
    fix = "Reinstall the NVIDIA driver, or reboot after it was updated; see what nvidia-smi prints"
    return without_answer(nodes, problem, what="NVIDIA", fix=fix, devices=_by_driver(machine))


def ask(machine: Machine) -> tuple[list[smi.Row], str, str]:
    """A row for each device, why there is none, and who said so."""
    rows, problem = smi.query(machine, NVIDIA_SMI, "--query-gpu", QUERIES, "csv,noheader,nounits")
    if rows:
        return rows, "", "nvidia-smi"
    if "nvidia-ml-py" in machine.packages():
        answer = machine.child("nvml")
        if not answer.problem:
            rows = _of_nvml(answer.text)
            return rows, "" if rows else "NVML lists no device", "NVML"
        problem = f"{problem}; {answer.problem}"
    return [], problem, ""


def _of_nvml(text: str) -> list[smi.Row]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return []
    entries = listed[: smi.MAX_ROWS] if isinstance(listed, list) else []
    return [
        {str(key): None if value is None else smi.known(str(value)) for key, value in entry.items()}
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]


def _by_driver(machine: Machine) -> tuple[Device, ...]:
    """The cards that the driver lists, when no tool answers: names without any figure."""
    version = re.search(r"Module\s+([\d.]+)", machine.text("/proc/driver/nvidia/version"))
    names = []
    for path in machine.names("/proc/driver/nvidia/gpus/*/information"):
        match = re.search(r"(?m)^Model:\s*(\S.*)$", machine.text(path))
        if match is not None:
            names.append(smi.known(match[1]))
    return tuple(
        Device(
            name=f"cuda:{index}",
            chip=name,
            vendor="NVIDIA",
            memory_bytes=None,
            driver=version[1] if version is not None else "",
            notes=("no tool told more than its name",),
            evidence={"chip": "/proc/driver/nvidia/gpus"},
        )
        for index, name in enumerate(names)
        if name is not None
    )


def arch(row: smi.Row) -> str:
    """The instruction set of compute capability "9.0": sm_90."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", row.get("compute_cap") or "")
    return f"sm_{match[1]}{match[2]}" if match is not None else ""


def _device(machine: Machine, index: int, row: smi.Row, source: str) -> Device:
    memory, told = smi.mebibytes(row.get("memory.total")), source
    notes: tuple[str, ...] = ()
    if memory is None and arch(row) == "sm_121":  # GB10 shares the memory of its host, and reports none
        memory, told = meminfo(machine).get("MemTotal"), "/proc/meminfo"
        notes = ("it shares the memory of the host",)
    return Device(
        name=f"cuda:{index}",
        chip=row["name"] or "NVIDIA GPU",
        vendor="NVIDIA",
        memory_bytes=memory,
        driver=row.get("driver_version") or "",
        arch=arch(row),
        notes=notes,
        evidence={"chip": source, **({"memory_bytes": told} if memory is not None else {}), "node": "/dev/nvidia*"},
    )


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    rows, problem, source = ask(machine)
    index = device.index
    if index >= len(rows):
        found.leave(problem or f"{source} does not list it")
        return found.reading()
    put_row(found, rows[index], source)
    if device.arch == "sm_121":
        memory = meminfo(machine)
        found.put("memory_total_bytes", memory.get("MemTotal"), "/proc/meminfo does not tell")
    found.leave(f"{source} does not tell")
    return found.reading()


def put_row(found: Readings, row: smi.Row, source: str) -> None:
    """Note what a row of nvidia-smi tells."""
    silent = f"{source} says [N/A]"
    for metric, column in (
        ("power_w", "power.draw"),
        ("temperature_c", "temperature.gpu"),
        ("clock_mhz", "clocks.sm"),
        ("utilization_percent", "utilization.gpu"),
    ):
        found.put(metric, smi.number(row.get(column)), silent)
    found.put("memory_used_bytes", smi.mebibytes(row.get("memory.used")), silent)
    found.put("memory_total_bytes", smi.mebibytes(row.get("memory.total")), silent)
    reasons = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active")
    if reasons is not None and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", reasons):
        bits = int(reasons, 16)
        found.put("throttle", tuple(name for bit, name in THROTTLE.items() if bits & bit), "")
    found.put("throttle", None, silent)
    found.put("power_mode", None, "an NVIDIA card has none")


PLATFORM: Final = Platform(
    name="nvidia",
    vendor="NVIDIA",
    prefix="cuda",
    probe=probe,
    read=read,
    providers=("TensorrtExecutionProvider", "CUDAExecutionProvider", "NvTensorRTRTXExecutionProvider"),
    install="Run: pip uninstall -y onnxruntime, then pip install onnxruntime-gpu",
)
