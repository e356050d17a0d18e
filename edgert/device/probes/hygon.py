"""Hygon DCU, by `hy-smi --json`, whose JSON is often none: commas are missing, numbers have units.

So nothing is parsed as JSON: the blocks "card0": {…} are found, and in them each key with what follows it, which reads
sound JSON as well. Keys say DCU or HCU, by version. Seen with DTK 24.04 and later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x1d94"
HY_SMI: Final = Tool(name="hy-smi", folders=("/opt/hyhal/bin", "/usr/local/hyhal/bin"))
_ASK: Final = ("--showproductname", "--showmeminfo", "vram", "--showuse", "--showtemp", "--json")
_BLOCK: Final = re.compile(r'"card(\d{1,4})"\s*:\s*\{([^{}]{0,65536})')
_PAIR: Final = re.compile(r'"([^"\n]{1,80})"\s*:\s*(?:"([^"\n]{0,200})"|([-+]?\d[^,"}\s]{0,40}))')
_UNITS: Final[Mapping[str, int]] = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

Facts = Mapping[str, str]


def cards_of(text: str) -> list[Facts]:
    """Key to value of each card, in their order."""
    found: dict[int, Facts] = {}
    for number, block in _BLOCK.findall(text)[: smi.MAX_ROWS]:
        facts = {key: quoted or bare for key, quoted, bare in _PAIR.findall(block)}
        if facts:
            found.setdefault(int(number), facts)
    return [found[number] for number in sorted(found)]


def memory(facts: Facts, what: str) -> int | None:
    """Bytes of a key such as "vram Total Memory (MiB)", whose unit stands in the key."""
    for key, value in facts.items():
        match = re.fullmatch(rf"vram {what} Memory \((\w+)\)", key, re.IGNORECASE)
        number = smi.number(value)
        if match is not None and match[1] in _UNITS and number is not None and 0 <= number < 1e15:
            return int(number * _UNITS[match[1]])
    return None


def _use(facts: Facts) -> float | None:
    return next((smi.number(facts[key]) for key in ("HCU use (%)", "DCU use (%)", "GPU use (%)") if key in facts), None)


def _heat(facts: Facts) -> float | None:
    keys = ("junction", "edge", "core")
    heats = (smi.number(facts.get(f"Temperature (Sensor {key}) (C)")) for key in keys)
    return next((heat for heat in heats if heat is not None), None)


def _name(facts: Facts) -> str:
    listed = (smi.known(facts.get(key)) for key in ("Card Series", "Card series", "Card Model", "Card model"))
    name = next((name for name in listed if name is not None), "DCU")
    return name if "hygon" in name.lower() else f"Hygon {name}"


def _ask(machine: Machine) -> tuple[list[Facts], str]:
    """The cards, and why there are none. Not every version knows --showpower."""
    answer = machine.tool(HY_SMI, "--showpower", *_ASK)
    if not cards_of(answer.text) and "ended with status" in answer.problem:
        answer = machine.tool(HY_SMI, *_ASK)
    return cards_of(answer.text), answer.problem or "hy-smi lists no card"


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    cards = pci.cards(machine, VENDOR)
    if not cards:
        return Finding(no="no accelerator of PCI vendor 1d94")
    nodes = machine.names("/dev/kfd") + machine.names("/dev/mkfd")
    if not nodes:
        return Finding(
            no=f"a card at {pci.said(cards)}, but neither /dev/kfd nor /dev/mkfd",
            trouble=f"a Hygon DCU at {pci.said(cards)}, but its driver is not loaded: neither /dev/kfd nor /dev/mkfd",
            fix="Install the DCU driver (hyhal); in a container, pass /dev/kfd, /dev/mkfd and /dev/dri",
        )
    listed, problem = _ask(machine)
    if not listed:
        fix = "Install hyhal, and see what hy-smi --json prints"
        return without_answer(nodes, problem, what="Hygon", fix=fix)
    return Finding(
        devices=tuple(
            Device(
                name=f"dcu:{index}",
                chip=_name(facts),
                vendor="Hygon",
                memory_bytes=memory(facts, "Total"),
                evidence={"chip": "hy-smi", "memory_bytes": "hy-smi", "node": ", ".join(nodes)},
            )
            for index, facts in enumerate(listed)
        )
    )


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    listed, problem = _ask(machine)
    index = device.index
    if index < len(listed):
        facts, silent = listed[index], "hy-smi does not tell"
        found.put("power_w", smi.number(facts.get("Average Graphics Package Power (W)")), silent)
        found.put("temperature_c", _heat(facts), silent)
        found.put("clock_mhz", smi.number(facts.get("sclk clock speed")), silent)
        found.put("utilization_percent", _use(facts), silent)
        found.put("memory_used_bytes", memory(facts, "Total Used"), silent)
        found.put("memory_total_bytes", memory(facts, "Total"), silent)
        problem = silent
    found.leave(problem)
    return found.reading()


PLATFORM: Final = Platform(
    name="hygon",
    vendor="Hygon",
    prefix="dcu",
    probe=probe,
    read=read,
    providers=("*",),
    install="Install Hygon's wheel of onnxruntime, from its developer site",
)
