"""Intel NPU and GPU, by PCI and device nodes, with names from OpenVINO in a child, where it is installed.

The NPU's counters: drivers/accel/ivpu/ivpu_sysfs.c of Linux.
"""

from __future__ import annotations

import json
from typing import Final

from edgert.device import pci, smi
from edgert.device.device import Device
from edgert.device.machine import Machine
from edgert.device.probes.cpu import meminfo
from edgert.device.reading import Reading, Readings
from edgert.device.survey import Finding, Platform

VENDOR: Final = "0x8086"
_KINDS: Final = {
    pci.ACCELERATOR: ("NPU", "Intel NPU", "accel/accel[0-9]*", "/dev/accel"),
    pci.DISPLAY: ("GPU", "Intel GPU", "drm/renderD[0-9]*", "/dev/dri"),
}
"""Class of a card to OpenVINO's name and ours, what its driver adds to the card's folder, and where the node lies."""


def probe(machine: Machine) -> Finding:
    """See `Platform.probe`."""
    found: dict[str, tuple[str, pci.Card, str]] = {}
    missing = []
    for kind, (name, title, driven, folder) in _KINDS.items():
        ready = []
        for card in pci.cards(machine, VENDOR, (kind,)):
            added = machine.names(f"/sys/bus/pci/devices/{card.address}/{driven}")
            node = f"{folder}/{added[0].rpartition('/')[2]}" if added else ""
            if node and machine.names(node):  # a node of the card's own: another vendor's card may have one there too
                ready.append((title, card, node))
            else:
                missing.append(f"an {title} at {card.address}, but no {node or f'{folder}/*'} of its driver")
        for index, entry in enumerate(ready):
            found[f"{name}.{index}" if len(ready) > 1 else name] = entry  # as OpenVINO numbers them
    trouble = "; ".join(missing)
    fix = "Install Intel's driver for it; in a container, pass the node" if missing else ""
    if not found:
        return Finding(no=trouble or "no NPU or GPU of PCI vendor 8086", trouble=trouble, fix=fix)
    titles, problem = _openvino(machine)
    memory = meminfo(machine).get("MemTotal")
    return Finding(
        devices=tuple(
            Device(
                name=f"openvino:{name}",
                chip=titles.get(name) or f"{title} {card.device}",
                vendor="Intel",
                memory_bytes=memory,
                details={"PCI": card.address},
                notes=("it shares the memory of the host", *([problem] if problem else [])),
                evidence={
                    "chip": "OpenVINO" if name in titles else f"PCI {card.address}",
                    "node": node,
                    "memory_bytes": "/proc/meminfo",
                },
            )
            for name, (title, card, node) in sorted(found.items())
        ),
        no=trouble,
        trouble=trouble,
        fix=fix,
    )


def _openvino(machine: Machine) -> tuple[dict[str, str], str]:
    """Device of OpenVINO to its name, and why it names none; where it is not installed nothing is asked."""
    if not {"openvino", "onnxruntime-ep-openvino"} & machine.packages().keys():
        return {}, ""
    answer = machine.child("openvino")
    if answer.problem:
        return {}, f"OpenVINO does not name it: {answer.problem}"
    try:
        listed = json.loads(answer.text)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, dict):
        return {}, "OpenVINO does not name it: its answer is no object"
    names = {name: smi.known(title) for name, title in listed.items() if isinstance(title, str)}
    return {name: title for name, title in names.items() if title is not None}, ""


def read(machine: Machine, device: Device) -> Reading:
    """See `Platform.read`."""
    found = Readings()
    busy_s = None
    folder = f"/sys/bus/pci/devices/{device.details.get('PCI', '')}"
    if device.name.startswith("openvino:NPU"):
        silent = "the driver intel_vpu of this kernel does not tell"
        found.put("clock_mhz", machine.number(f"{folder}/npu_current_frequency_mhz"), silent)
        found.put("memory_used_bytes", machine.number(f"{folder}/npu_memory_utilization"), silent)
        busy = machine.number(f"{folder}/npu_busy_time_us")
        busy_s = busy / 1e6 if busy is not None and busy >= 0 else None
        if busy_s is None:
            found.put("utilization_percent", None, silent)
    else:
        silent = "the GPU's driver does not tell without root"
        paths = (
            *machine.names(f"{folder}/drm/card*/gt_act_freq_mhz"),  # i915
            *machine.names(f"{folder}/tile0/gt0/freq0/act_freq"),  # xe
        )
        clocks = [machine.number(path) for path in paths]
        found.put("clock_mhz", next((clock for clock in clocks if clock is not None), None), silent)
        found.put("utilization_percent", None, silent)
    found.put("memory_total_bytes", device.memory_bytes, "/proc/meminfo does not tell")
    for metric in ("power_w", "temperature_c", "memory_used_bytes", "throttle", "power_mode"):
        found.put(metric, None, silent)
    return found.reading(busy_s=busy_s)


PLATFORM: Final = Platform(
    name="intel",
    vendor="Intel",
    prefix="openvino",
    probe=probe,
    read=read,
    providers=("OpenVINOExecutionProvider",),
    install="Run: pip install onnxruntime-ep-openvino",
)
