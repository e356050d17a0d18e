"""The CPU as a device: its name, and by what evidence."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from edgert.device import find_device
from edgert.device.device import Device, cpu
from edgert.errors import UnknownNameError

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz
flags\t\t: fpu vme

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: Another CPU
"""
PI = """processor\t: 0
BogoMIPS\t: 108.00
CPU implementer\t: 0x41

processor\t: 1
CPU implementer\t: 0x41

Revision\t: d04171
Model\t\t: Raspberry Pi 5 Model B Rev 1.1
"""


def cpu_of(tmp_path: Path, text: str | bytes | None) -> Device:
    (tmp_path / "proc").mkdir()
    if text is not None:
        (tmp_path / "proc/cpuinfo").write_bytes(text if isinstance(text, bytes) else text.encode())
    return cpu(tmp_path)


def test_an_x86_is_named_by_its_first_cpu(tmp_path):
    device = cpu_of(tmp_path, X86)
    assert (device.chip, device.vendor) == ("Intel(R) Xeon(R) CPU @ 2.20GHz", "GenuineIntel")
    assert device.evidence["chip"] == "/proc/cpuinfo"


def test_a_raspberry_pi_is_named_by_the_line_after_its_cpus(tmp_path):
    device = cpu_of(tmp_path, PI)
    assert (device.chip, device.vendor) == ("Raspberry Pi 5 Model B Rev 1.1", "")
    assert device.evidence["chip"] == "/proc/cpuinfo"


@pytest.mark.parametrize("text", [None, "", "processor\t: 0\nBogoMIPS\t: 50.00\n", b"\xff\xfe no colon"])
def test_a_cpu_without_a_name_is_named_by_its_architecture_and_says_so(tmp_path, text):
    device = cpu_of(tmp_path, text)
    assert device.chip == (platform.processor() or platform.machine())
    assert device.evidence["chip"] == "platform module"


def test_the_cpu_has_the_memory_of_the_host(tmp_path):
    expected = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert cpu_of(tmp_path, X86).memory_bytes == expected


def test_the_cpu_is_found_by_name():
    device = find_device("cpu")
    assert device.name == "cpu"
    assert device.providers == ("CPUExecutionProvider",)
    assert device.physics == ("mujoco",)
    assert device.chip


@pytest.mark.parametrize(
    ("name", "reason"),
    [("cuda:99", "NVIDIA: "), ("CPU", "edgert device list shows what is there"), ("", "edgert device list shows")],
)
def test_another_device_is_refused_with_those_that_are_there(name, reason):
    with pytest.raises(UnknownNameError) as caught:
        find_device(name)
    assert caught.value.what == f"unknown device '{name}'"
    assert caught.value.expected.removeprefix("one of ").split(", ")[0] == "cpu"
    assert caught.value.hint.startswith(reason)
