"""Iluvatar CoreX: TY1200, MR-V100, Tiangai, by ixsmi, which speaks nvidia-smi's CSV."""

from __future__ import annotations

from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer, without_node
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x1e3e"
IXSMI: Final = Tool(
    name="ixsmi",
    folders=("/usr/local/corex/bin",),
    libraries=("/usr/local/corex/lib64", "/usr/local/corex/lib"),
)
_STATE: Final = ("name", "memory.total", "memory.used", "temperature.gpu", "utilization.gpu")
_POWER: Final = (("gpu.power.draw",), ("power.draw",))
"""CoreX 4 and 3."""


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    cards = pci.cards(machine, VENDOR)
    nodes = machine.names("/dev/iluvatar[0-9]*")
    if not nodes:
        fix = "Install the CoreX driver"
        return without_node(cards, "/dev/iluvatar*", no="card of PCI vendor 1e3e", card="an Iluvatar card", fix=fix)
    rows, problem = _rows(machine)
    if not rows:
        return without_answer(nodes, problem, what="Iluvatar", fix="Install the CoreX toolkit into /usr/local/corex")
    installed = [path.rpartition("-")[2] for path in machine.names("/usr/local/corex-[0-9]*")]
    details = {"CoreX": ", ".join(installed)} if installed else {}
    return Finding(
        devices=tuple(
            Device(
                name=f"iluvatar:{index}",
                chip=row["name"] or "Iluvatar GPU",
                vendor="Iluvatar CoreX",
                memory_bytes=smi.mebibytes(row["memory.total"]),
                driver=f"CoreX {installed[-1]}" if installed else "",
                details=details,
                evidence={"chip": "ixsmi", "memory_bytes": "ixsmi", "node": "/dev/iluvatar*"},
            )
            for index, row in enumerate(rows)
        )
    )


def _rows(machine: Machine) -> tuple[list[smi.Row], str]:
    return smi.query(machine, IXSMI, "--query-gpu", (_STATE,), "csv,noheader")


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    index = device.index
    rows, problem = _rows(machine)
    if index < len(rows):
        row, silent = rows[index], "ixsmi does not tell"
        found.put("memory_total_bytes", smi.mebibytes(row["memory.total"]), silent)
        found.put("memory_used_bytes", smi.mebibytes(row["memory.used"]), silent)
        found.put("temperature_c", smi.number(row["temperature.gpu"]), silent)
        found.put("utilization_percent", smi.number(row["utilization.gpu"]), silent)
        powers, why = smi.query(machine, IXSMI, "--query-gpu", _POWER, "csv,noheader")
        watts = smi.number(next(iter(powers[index].values()))) if index < len(powers) else None
        found.put("power_w", watts, why or silent)
    found.leave(problem or "no field of ixsmi is known for it")
    return found.reading()


PLATFORM: Final = Platform(
    name="iluvatar",
    vendor="Iluvatar",
    prefix="iluvatar",
    probe=probe,
    read=read,
    providers=("IxRT",),
    install="Install the wheel ixrt of the CoreX SDK; on a TY1200 the Intel chips beside it run policies too: "
    "pip install onnxruntime-ep-openvino",
)
