"""Huawei Ascend, by the table of `npu-smi info`: two rows a chip, whose columns vary by version and chip.

The first row has a name and says whether it is healthy, the second a bus and the memory; what is used of it stands
before a "/". Seen in versions 22.0.4 to 26.0 (github.com/vllm-project/vllm-ascend, issues 198, 2534, 12980).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer, without_node
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x19e5"
NPU_SMI: Final = Tool(name="npu-smi", folders=("/usr/local/sbin", "/usr/local/bin", "/usr/local/Ascend/driver/tools"))
_USE: Final = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_NAME: Final = re.compile(r"(\d{1,6})\s+(\S*[A-Za-z]\S*)")
_NUMBERS: Final = re.compile(r"\d{1,6}(?:\s+\d{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip of the table; memory in MB as the tool writes it, which are MiB."""

    name: str
    health: str
    power_w: float | None
    temperature_c: float | None
    utilization_percent: float | None
    memory_used: int | None
    memory_total: int | None


def chips_of(text: str) -> list[Chip]:
    """The chips of the table, in its order."""
    found: list[Chip] = []
    first: tuple[str, str, list[str]] | None = None
    for line in text.splitlines()[:4096]:
        if "Process id" in line:
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.lstrip().startswith("|") or len(cells) != 3:
            continue
        name = _NAME.fullmatch(cells[0])
        if name is not None:
            first = name[2], cells[1], cells[2].split()
        elif first is not None and _NUMBERS.fullmatch(cells[0]):
            found.append(_chip(first, cells[2]))
            first = None
    return found


def _chip(first: tuple[str, str, list[str]], second: str) -> Chip:
    name, health, state = first
    uses = [(int(used), int(total)) for used, total in _USE.findall(second)]
    used, total = next(((used, total) for used, total in reversed(uses) if total), (None, None))
    numbers = second.split()
    return Chip(
        name=name if name.startswith("Ascend") else f"Ascend {name}",
        health=health,
        power_w=smi.number(state[0]) if state else None,
        temperature_c=smi.number(state[1]) if len(state) > 1 else None,
        utilization_percent=smi.number(numbers[0]) if numbers else None,
        memory_used=used,
        memory_total=total,
    )


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    nodes = machine.names("/dev/davinci[0-9]*")
    if not nodes:
        cards = pci.cards(machine, VENDOR, (pci.ACCELERATOR,))
        fix = "Install the Ascend driver; in a container, pass /dev/davinci*, davinci_manager, devmm_svm, hisi_hdc"
        no = "accelerator of PCI vendor 19e5"
        return without_node(cards, "/dev/davinci*", no=no, card="an Ascend card", fix=fix)
    answer = machine.tool(NPU_SMI, "info")
    chips = chips_of(answer.text)
    if not chips:
        problem = answer.problem or "npu-smi prints no table that is known"
        fix = "Install the Ascend driver's npu-smi, and see what it prints"
        return without_answer(nodes, problem, what="Ascend", fix=fix)
    version = re.search(r"Version:\s*([\w.]{1,40})", answer.text)
    return Finding(
        devices=tuple(
            Device(
                name=f"npu:{index}",
                chip=chip.name,
                vendor="Huawei",
                memory_bytes=chip.memory_total * smi.MIB if chip.memory_total is not None else None,
                driver=version[1] if version is not None else "",
                notes=() if chip.health == "OK" else (f"npu-smi says that its health is {chip.health}",),
                evidence={"chip": "npu-smi", "memory_bytes": "npu-smi", "node": "/dev/davinci*"},
            )
            for index, chip in enumerate(chips)
        )
    )


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    answer = machine.tool(NPU_SMI, "info")
    chips, index = chips_of(answer.text), device.index
    if index < len(chips):
        chip, silent = chips[index], "npu-smi writes NA"
        found.put("power_w", chip.power_w, silent)
        found.put("temperature_c", chip.temperature_c, silent)
        found.put("utilization_percent", chip.utilization_percent, silent)
        for metric, megabytes in (("memory_used_bytes", chip.memory_used), ("memory_total_bytes", chip.memory_total)):
            found.put(metric, megabytes * smi.MIB if megabytes is not None else None, silent)
    found.leave(answer.problem or "the table of npu-smi has no column for it")
    return found.reading()


PLATFORM: Final = Platform(
    name="ascend",
    vendor="Huawei Ascend",
    prefix="npu",
    probe=probe,
    read=read,
    providers=("CANNExecutionProvider",),
    install="Run: pip uninstall -y onnxruntime, then pip install onnxruntime-cann",
)
