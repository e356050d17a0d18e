"""`Device`: a chip of this node, what it can do, and by what evidence edgert says so."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One chip. `providers` are inference providers in the order of preference."""

    name: str
    chip: str
    vendor: str
    memory_bytes: int | None
    providers: tuple[str, ...]
    physics: tuple[str, ...]
    driver: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)


def cpu(root: Path = Path("/")) -> Device:
    """The host's CPU, named from /proc/cpuinfo where that exists."""
    info = _cpuinfo(root / "proc/cpuinfo")
    listed = info.get("model name") or info.get("Model")
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
    """The device of that name.

    Raises:
        UnknownNameError: this node has none of that name, or this version knows no such kind.
    """
    if name != "cpu":
        raise UnknownNameError(
            f"unknown device '{name}'", expected="cpu, the only device that this version runs policies on"
        )
    return cpu()


def _cpuinfo(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    info: dict[str, str] = {}
    for line in text.splitlines():  # the first CPU's, then what stands after the last one, such as "Model" on a Pi
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    return info
