"""Moore Threads, by the table of mthreads-gmi: two rows a card.

Seen in versions 2.3.2 to 2.4.1 (github.com/vllm-project/vllm-omni, pull request 2337; github.com/modelscope/ms-swift).
"""

from __future__ import annotations

import re
from typing import Final

from edgert.device import pci, smi
from edgert.device.absent import without_answer, without_node
from edgert.device.device import Device
from edgert.device.machine import Machine, Tool
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x1ed5"
MTHREADS_GMI: Final = Tool(name="mthreads-gmi")
_FIRST: Final = re.compile(
    r"\s*\d{1,4}\s+(\S[^|]{0,60}?)\s*\|\s*[0-9a-fA-F:.]+\s*\|\s*(\d{1,3})%\s+(\d{1,9})MiB\((\d{1,9})MiB\)\s*"
)
_SECOND: Final = re.compile(r"\s*\S[^|]*\|[^|]*\|\s*(\d{1,3})C\b.*")

Card = dict[str, str | int | float | None]


def cards_of(text: str) -> list[Card]:
    """The cards of the table: name, utilisation in %, memory in MiB, temperature in °C."""
    found: list[Card] = []
    for line in text.splitlines()[:4096]:
        first = _FIRST.fullmatch(line)
        if first is not None:
            found.append(
                {"name": first[1], "use": int(first[2]), "used": int(first[3]), "total": int(first[4]), "heat": None}
            )
            continue
        second = _SECOND.fullmatch(line)
        if second is not None and found and found[-1]["heat"] is None:
            found[-1]["heat"] = float(second[1])
    return found


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    nodes = machine.names("/dev/mtgpu.[0-9]*")
    cards = pci.cards(machine, VENDOR)
    if not nodes:
        no, fix = "card of PCI vendor 1ed5", "Install the MUSA driver"
        return without_node(cards, "/dev/mtgpu.*", no=no, card="a Moore Threads card", fix=fix)
    answer = machine.tool(MTHREADS_GMI)
    listed = cards_of(answer.text)
    if not listed:
        problem = answer.problem or "mthreads-gmi prints no table that is known"
        return without_answer(nodes, problem, what="Moore Threads", fix="Install the MUSA driver's mthreads-gmi")
    version = re.search(r"Driver Version:\s*([\w.-]{1,40})", answer.text)
    return Finding(
        devices=tuple(
            Device(
                name=f"musa:{index}",
                chip=str(card["name"]),
                vendor="Moore Threads",
                memory_bytes=int(card["total"] or 0) * smi.MIB,
                driver=version[1] if version is not None else "",
                evidence={"chip": "mthreads-gmi", "memory_bytes": "mthreads-gmi", "node": "/dev/mtgpu.*"},
            )
            for index, card in enumerate(listed)
        )
    )


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    answer = machine.tool(MTHREADS_GMI)
    listed, index = cards_of(answer.text), device.index
    if index < len(listed):
        card = listed[index]
        found.put("temperature_c", card["heat"], "mthreads-gmi does not tell")
        found.put("utilization_percent", card["use"], "")
        found.put("memory_used_bytes", int(card["used"] or 0) * smi.MIB, "")
        found.put("memory_total_bytes", int(card["total"] or 0) * smi.MIB, "")
    found.leave(answer.problem or "the table of mthreads-gmi has no column for it")
    return found.reading()


PLATFORM: Final = Platform(
    name="moore_threads",
    vendor="Moore Threads",
    prefix="musa",
    probe=probe,
    read=read,
    providers=("MUSAExecutionProvider",),
    install="Install Moore Threads' plug-in of onnxruntime for MUSA",
)
