"""`Device`: a chip of this node, what it can do, and by what evidence edgert says so."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edgert.device.onnxruntime import CPU_PROVIDER

ARM_PARTS: Final[Mapping[tuple[str, str], str]] = {
    ("0x41", "0xd0b"): "Arm Cortex-A76",
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd42"): "Arm Cortex-A78AE",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0x41", "0xd83"): "Arm Neoverse-V3AE",
    ("0x41", "0xd85"): "Arm Cortex-X925",
    ("0x41", "0xd87"): "Arm Cortex-A725",
    ("0x48", "0xd01"): "HiSilicon TaiShan v110",
}
"""CPU implementer and part to a name: Linux, arch/arm64/include/asm/cputype.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One chip.

    Attributes:
        name: how it is asked for: cpu, cuda:0, npu:0, openvino:NPU …
        chip: what it calls itself.
        model: its name in the table of chips, "" where it is in none.
        memory_bytes: what it can address, None where nobody tells.
        providers: inference providers that are installed for it, best first.
        physics: physics backends that run on it.
        driver: version of its driver, "" where nobody tells.
        arch: instruction set of its kernels, such as sm_110, "" where nobody tells.
        details: further facts, by name.
        notes: what one has to know before using it.
        evidence: field to the file, tool or library that said so.
    """

    name: str
    chip: str
    vendor: str
    memory_bytes: int | None
    providers: tuple[str, ...] = ()
    physics: tuple[str, ...] = ()
    driver: str = ""
    arch: str = ""
    model: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def index(self) -> int:
        """Its number among those of its kind: 1 of cuda:1. ValueError for a name that has none, such as cpu."""
        return int(self.name.partition(":")[2])

    @property
    def why(self) -> str:
        """The evidence in one line: who said that it is there, and what it is."""
        return ", ".join(dict.fromkeys(self.evidence.values()))


def cpu(root: Path = Path("/")) -> Device:
    """The host's CPU, named from /proc/cpuinfo where that exists; nothing else is looked at."""
    info = cpuinfo(_text(root / "proc/cpuinfo"))
    listed = cpu_name(info)
    chip = listed or platform.processor() or platform.machine()
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Device(
        name="cpu",
        chip=chip,
        vendor=info.get("vendor_id", ""),
        memory_bytes=pages * page_bytes if pages > 0 else None,
        providers=(CPU_PROVIDER,),
        physics=("mujoco",),
        evidence={"chip": "/proc/cpuinfo" if listed else "platform module", "memory_bytes": "sysconf"},
    )


def find_device(name: str) -> Device:
    """The device of that name, to run policies on.

    For "cpu" nothing is probed; for any other name the platforms are asked, for 1.5 s at most.

    Raises:
        UnknownNameError: this node has none of that name; the error lists those that are there and why others are not.
        DeviceError: it is there, but no inference provider for it is.
    """
    if name == "cpu":
        return cpu()
    from edgert.device.survey import usable_device

    return usable_device(name)


def cpu_name(info: Mapping[str, str]) -> str:
    """What a CPU is called by /proc/cpuinfo, "" where that does not tell."""
    part = info.get("CPU implementer", ""), info.get("CPU part", "")
    return info.get("model name") or info.get("Model") or ARM_PARTS.get(part, "")


def cpuinfo(text: str) -> dict[str, str]:
    """Keys and values of the first CPU of /proc/cpuinfo, then of what stands after the last one, such as "Model"."""
    info: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    return info


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
