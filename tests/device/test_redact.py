"""What identifies a machine or its owner is taken out of recorded texts; what tells the chip stays."""

from __future__ import annotations

import pytest
from device.machines import FIXTURES
from hypothesis import given
from hypothesis import strategies as st

from edgert.device.redact import redacted

NAMES = ("lab-bench-7", "jane")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Serial\t\t: 10000000abcd1234", "Serial\t\t: removed"),
        ('"Serial Number": "692139000119", "Voltage (mV)": "906"', '"Serial Number": "removed", "Voltage (mV)": "906"'),
        ("        ASIC_SERIAL: 0xABCDEF0123456789", "        ASIC_SERIAL: removed"),
        ("PRODUCT_SERIAL: PCB0123456", "PRODUCT_SERIAL: removed"),
        ('"Unique ID": "0x7100fa8866904061"', '"Unique ID": "removed"'),
        ("unique_id 11403951234567890123", "unique_id removed"),
        ("0000:09:00.0 --> SN: 01-000206-07SCC2 --> OAM ID: 1", "0000:09:00.0 --> SN: removed --> OAM ID: 1"),
        ("GPU UUID: \t GPU-072b19bd-4ccf-63cf-6435-cf462aff833d", "GPU UUID: \t removed"),
        ("0, GPU-072b19bd-4ccf-63cf-6435-cf462aff833d, x", "0, GPU-00000000-0000-0000-0000-000000000000, x"),
        ("ether 04:90:81:2c:77:b0 txqueuelen", "ether :: txqueuelen"),
        ("PERMANENT: 04-90-81-2c-77-b0", "PERMANENT: 00-00-00-00-00-00"),
        ("inet 192.168.13.119/24", "inet 0.0.0.0/24"),
        ("inet6 fe80::490:81ff:fe2c:77b0/64", "inet6 ::/64"),
        ("2001:db8:85a3:0:0:8a2e:370:7334", "::"),
        ("Hostname: lab-bench-7.example", "Hostname: removed"),
        ("Linux lab-bench-7 6.8.0", "Linux host 6.8.0"),
        ("LD=/home/jane/corex/lib64:/usr/lib", "LD=/home/user/corex/lib64:/usr/lib"),
        ("owner jane", "owner host"),
        ("/docker/" + "3f" * 32, "/docker/" + "00" * 32),
        ("table\nProcesses:\n1 4242 python train.py --token x", "table\n"),
        ("| a |\n| NPU     Chip              | Process id    |\n| 1 0 | 42 | python |", "| a |\n"),
    ],
)
def test_what_is_taken_out(text, expected):
    assert redacted(text, NAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "npu-smi 24.1.0.3                 Version: 24.1.0.3",
        "NVIDIA H200, 570.124.06, 143771, 4, 76.50, 31, 345, 0, 9.0, 0x0000000000000001",
        "| 0                         | 0000:C1:00.0  | 0           0    / 0          4495 / 65536         |",
        "0    MTT S5000            |00000000:18:00.0    |0%    0MiB(81920MiB)",
        "Tue Mar 31 13:39:52 2026",
        "nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264",
        "cpu  73168 0 40893 1203120 3 0 412 0 0 0\nprocesses 48213\nprocs_running 1",
        '"Serial Number": "N/A"',
        "0::/system.slice/edgert.service",
        "model name\t: Intel(R) Core(TM) Ultra 7 255H",
        "lab-bench-77 unjane",
    ],
)
def test_what_tells_the_chip_stays(text):
    assert redacted(text, NAMES) == text


def test_common_names_stay_since_tools_print_them_too():
    assert redacted("nvidia,tegra264 on ubuntu", ("nvidia", "ubuntu", "vm")) == "nvidia,tegra264 on ubuntu"


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/tools/*.txt")), ids=lambda path: f"{path.parts[-3]}-{path.stem}"
)
def test_recorded_tables_survive_but_for_their_processes(path):
    text = path.read_text()
    kept = redacted(text)
    assert text.startswith(kept.rstrip("\n"))
    assert len(kept) > 0.6 * len(text)
    assert "Process id" not in kept


@given(text=st.text(max_size=500))
def test_taking_out_twice_changes_nothing_more(text):
    once = redacted(text, NAMES)
    assert redacted(once, NAMES) == once
