"""T-Head PPU, by ppu-smi: its manual, and the plug-in ppusmi of github.com/yunionio/telegraf."""

from __future__ import annotations

from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer, without_node
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.probes.nvidia import put_row
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x1ded"
PPU_SMI: Final = Tool(
    name="ppu-smi", folders=("/usr/local/bin", "/usr/local/PPU_SDK/bin"), libraries=("/usr/local/PPU_SDK/lib64",)
)
_QUERIES: Final = (
    ("name", "driver_version", "memory.total", "memory.used", "power.draw", "temperature.gpu", "clocks.current.sm",
     "utilization.gpu"),
    ("name", "driver_version", "memory.total", "memory.used", "power.draw", "temperature.ppu", "clocks.current.cu",
     "utilization.ppu"),
)  # fmt: skip
"""As nvidia-smi calls them, then by the names of its own that some versions want."""
_NAMES: Final = {
    "temperature.ppu": "temperature.gpu",
    "utilization.ppu": "utilization.gpu",
    "clocks.current.cu": "clocks.sm",
    "clocks.current.sm": "clocks.sm",
}


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    nodes = machine.names("/dev/alixpu_ppu[0-9]*")
    if not nodes:
        cards = pci.cards(machine, VENDOR)
        no, fix = "accelerator of PCI vendor 1ded", "Install the PPU driver"
        return without_node(cards, "/dev/alixpu_ppu*", no=no, card="a T-Head card", fix=fix)
    rows, problem = _rows(machine)
    if not rows:
        return without_answer(nodes, problem, what="T-Head PPU", fix="Install the PPU SDK into /usr/local/PPU_SDK")
    return Finding(
        devices=tuple(
            Device(
                name=f"ppu:{index}",
                chip=row["name"] or "PPU",
                vendor="T-Head",
                memory_bytes=smi.mebibytes(row["memory.total"]),
                driver=row["driver_version"] or "",
                evidence={"chip": "ppu-smi", "memory_bytes": "ppu-smi", "node": "/dev/alixpu_ppu*"},
            )
            for index, row in enumerate(rows)
        )
    )


def _rows(machine: Machine) -> tuple[list[smi.Row], str]:
    rows, problem = smi.query(machine, PPU_SMI, "--query-ppu", _QUERIES, "csv,noheader,nounits")
    return [{_NAMES.get(name, name): value for name, value in row.items()} for row in rows], problem


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    rows, problem = _rows(machine)
    index = device.index
    found.put("power_mode", None, "a PPU has none")
    if index < len(rows):
        put_row(found, rows[index], "ppu-smi")
    found.leave(problem or "ppu-smi does not list it")
    return found.reading()


PLATFORM: Final = Platform(
    name="thead",
    vendor="T-Head PPU",
    prefix="ppu",
    probe=probe,
    read=read,
    install="No public one exists for a PPU: use --device cpu",
)
