"""AMD GPUs, by what the kernel's amdkfd and amdgpu write into /sys, with names from there, from amd-smi or rocm-smi.

The tools are Python programs that may take longer than a second; without them a card is listed all the same.
Fields: Documentation/gpu/amdgpu of Linux, and drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edgert.device import pci, smi
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x1002"
AMD_SMI: Final = Tool(name="amd-smi", folders=("/opt/rocm/bin",))
ROCM_SMI: Final = Tool(name="rocm-smi", folders=("/opt/rocm/bin",))
_NODES: Final = "/sys/class/kfd/kfd/topology/nodes/*/properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU of the kernel's compute driver: where its files are, its PCI address, its instruction set."""

    address: str
    arch: str
    memory_bytes: int | None


def _nodes(machine: Machine) -> list[Node]:
    found = []
    for path in machine.names(_NODES):
        pairs = (line.split() for line in machine.text(path).splitlines())
        facts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and re.fullmatch(r"\d{1,19}", pair[1])}
        if facts.get("vendor_id") != int(VENDOR, 16) or not facts.get("simd_count"):
            continue
        where, domain = facts.get("location_id", 0), facts.get("domain", 0)
        address = f"{domain & 0xFFFF:04x}:{where >> 8 & 0xFF:02x}:{where >> 3 & 0x1F:02x}.{where & 7}"
        version = facts.get("gfx_target_version", 0)  # 90402 is gfx942: major, minor, stepping in hexadecimal
        arch = f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}" if version else ""
        memory = machine.number(f"/sys/bus/pci/devices/{address}/mem_info_vram_total")
        found.append(Node(address=address, arch=arch, memory_bytes=memory if memory and memory > 0 else None))
    return found


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    cards = pci.cards(machine, VENDOR, (pci.DISPLAY, pci.ACCELERATOR))
    if not cards:
        return Finding(no="no GPU of PCI vendor 1002")
    if not machine.names("/dev/kfd"):
        return Finding(
            no=f"a GPU at {pci.said(cards)}, but no /dev/kfd",
            trouble=f"an AMD GPU at {pci.said(cards)}, but no /dev/kfd: the compute driver is not loaded",
            fix="Load amdgpu with ROCm's kernel support; in a container, pass /dev/kfd and /dev/dri",
        )
    nodes = _nodes(machine)
    if not nodes:
        return Finding(no=f"a GPU at {pci.said(cards)} and /dev/kfd, but the kernel lists none that computes")
    written = {index: _product(machine, node) for index, node in enumerate(nodes)}
    names: Mapping[int, str] = {index: name for index, name in written.items() if name}
    source = "amdgpu"
    if len(names) < len(nodes):
        names, source = _names(machine)
    ids = {card.address: card.device for card in cards}
    return Finding(
        devices=tuple(
            Device(
                name=f"rocm:{index}",
                chip=names.get(index) or f"AMD GPU {ids.get(node.address, '')}".strip(),
                vendor="AMD",
                memory_bytes=node.memory_bytes,
                arch=node.arch,
                details={"PCI": node.address},
                evidence={"arch": "/sys/class/kfd", **({"chip": source} if index in names else {}), "node": "/dev/kfd"},
            )
            for index, node in enumerate(nodes)
        )
    )


def _product(machine: Machine, node: Node) -> str:
    """The name that a card of a data centre has in its own memory; others have none."""
    return smi.known(machine.text(f"/sys/bus/pci/devices/{node.address}/product_name")) or ""


def _names(machine: Machine) -> tuple[Mapping[int, str], str]:
    """Index to market name, and the tool that said so."""
    answer = machine.tool(AMD_SMI, "static", "--asic", "--json")
    names = _of_amd_smi(_json(answer.text))
    if names:
        return names, "amd-smi"
    answer = machine.tool(ROCM_SMI, "--showproductname", "--json")
    return _of_rocm_smi(_json(answer.text)), "rocm-smi"


def _json(text: str) -> Any:
    start = re.search(r"(?m)^\s*[\[{]", text)  # some builds print warnings before it
    try:
        return json.loads(text[start.start() :]) if start is not None else None
    except (ValueError, RecursionError):
        return None


def _of_amd_smi(document: Any) -> dict[int, str]:
    """From a list of objects with `gpu` and `asic`, in newer versions under `gpu_data`."""
    entries = document.get("gpu_data") if isinstance(document, dict) else document
    names = {}
    for entry in entries[: smi.MAX_ROWS] if isinstance(entries, list) else []:
        asic = entry.get("asic") if isinstance(entry, dict) else None
        name = asic.get("market_name") if isinstance(asic, dict) else None
        index = entry.get("gpu") if isinstance(entry, dict) else None
        shown = smi.known(name) if isinstance(name, str) else None
        if isinstance(index, int) and shown is not None:
            names[index] = shown
    return names


def _of_rocm_smi(document: Any) -> dict[int, str]:
    """From an object with `card0` and the like; older versions write "Card series"."""
    names = {}
    for key, facts in document.items() if isinstance(document, dict) else ():
        match = re.fullmatch(r"card(\d{1,4})", key)
        if match is None or not isinstance(facts, dict):
            continue
        listed = (facts.get(name) for name in ("Card Series", "Card series", "Device Name"))
        shown = [smi.known(name) for name in listed if isinstance(name, str)]
        if shown and shown[0] is not None:
            names[int(match[1])] = shown[0]
    return names


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    folder = f"/sys/bus/pci/devices/{device.details.get('PCI', '')}"
    silent = "amdgpu does not tell in /sys"
    monitors = machine.names(f"{folder}/hwmon/hwmon*/name")
    if monitors:
        monitor = monitors[0].removesuffix("/name")
        watts = [machine.number(f"{monitor}/{name}") for name in ("power1_average", "power1_input")]
        found.put(
            "power_w", next((watt / 1e6 for watt in watts if watt is not None and abs(watt) < 1e12), None), silent
        )
        heats = [machine.number(f"{monitor}/{name}") for name in ("temp2_input", "temp1_input")]  # junction, edge
        found.put("temperature_c", next((heat / 1e3 for heat in heats if heat and abs(heat) < 1e6), None), silent)
        clock = machine.number(f"{monitor}/freq1_input")
        found.put("clock_mhz", clock / 1e6 if clock is not None and 0 <= clock < 1e12 else None, silent)
    busy = machine.number(f"{folder}/gpu_busy_percent")
    found.put("utilization_percent", busy if busy is not None and 0 <= busy <= 100 else None, silent)
    found.put("memory_used_bytes", machine.number(f"{folder}/mem_info_vram_used"), silent)
    found.put("memory_total_bytes", machine.number(f"{folder}/mem_info_vram_total"), silent)
    level = machine.text(f"{folder}/power_dpm_force_performance_level")
    found.put("power_mode", smi.known(level), silent)
    found.leave(silent)
    return found.reading()


PLATFORM: Final = Platform(
    name="amd",
    vendor="AMD",
    prefix="rocm",
    probe=probe,
    read=read,
    providers=("MIGraphXExecutionProvider", "ROCMExecutionProvider"),
    install="Run: pip uninstall -y onnxruntime, then pip install onnxruntime-migraphx",
)
