"""Cards on the PCI bus, by vendor. A vendor's id alone proves no accelerator: network cards have it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edgert.device.machine import Machine

DISPLAY: Final = "0x03"
ACCELERATOR: Final = "0x12"
COPROCESSOR: Final = "0x0b40"
"""Beginnings of the class of a card: include/linux/pci_ids.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One function of a card: its address, and ids as the kernel writes them, such as 0x10de."""

    address: str
    device: str
    kind: str


def cards(machine: Machine, vendor: str, kinds: tuple[str, ...] = (DISPLAY, ACCELERATOR, COPROCESSOR)) -> list[Card]:
    """The cards of a vendor, such as "0x10de", that draw or compute, in the order of their addresses."""
    found = []
    for path in machine.names("/sys/bus/pci/devices/*/vendor"):
        if machine.text(path).lower() != vendor:
            continue
        folder = path.removesuffix("/vendor")
        kind = machine.text(f"{folder}/class").lower()
        if kind.startswith(kinds):
            device = machine.text(f"{folder}/device").lower()
            found.append(Card(address=folder.rpartition("/")[2], device=device, kind=kind))
    return found


def said(found: list[Card]) -> str:
    """Cards for people: their addresses."""
    return ", ".join(card.address for card in found)
