"""Platforms side by side: none holds up the others, a broken one is said, and refusals say what is there and why."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from device.machines import changed, live, put, recorded

from edgert.device import find_device
from edgert.device import survey as module
from edgert.device.device import Device
from edgert.device.machine import Machine
from edgert.device.reading import Reading
from edgert.device.recording import replay
from edgert.device.survey import PLATFORMS, Finding, Platform, survey, usable_device
from edgert.errors import DeviceError, UnknownNameError
from edgert.registry import Registry

Add = Callable[..., None]


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Add:
    """Adds a platform beside the built-in CPU."""
    registry = Registry("edgert.devices", "device platform", {"cpu": "edgert.device.probes.cpu:PLATFORM"})
    monkeypatch.setattr(module, "PLATFORMS", registry)
    entries = dict(registry.entries())

    def put(name: str, probe: Callable[[Machine], Finding] | object, **options: object) -> None:
        loaded = probe
        if callable(probe):
            loaded = Platform(
                name=name, vendor="Acme", prefix=name, probe=probe, read=lambda *_: Reading(), **options,  # type: ignore[arg-type]
            )  # fmt: skip
        entries[name] = entries["cpu"]
        registry._loaded[name] = loaded

    registry._entries = entries
    return put


def acme(machine: Machine) -> Finding:
    return Finding(devices=(Device(name="acme:0", chip="Acme One", vendor="Acme", memory_bytes=1),))


def test_a_platform_that_hangs_counts_as_silent(add, tmp_path):
    forever = threading.Event()
    add("slow", lambda machine: forever.wait(60.0) and Finding())
    add("acme", acme)
    found = survey(live(tmp_path, {}), limit_s=3.0)
    forever.set()
    assert found.findings["slow"].no == "no answer within 3 s"
    assert found.findings["slow"].looked == ()
    assert [one.name for one in found.devices] == ["cpu", "acme:0"]


def broken(machine: Machine) -> Finding:
    raise ValueError("a bug\nof theirs")


def test_a_platform_that_breaks_is_said(add, tmp_path):
    add("acme", broken)
    add("odd", lambda machine: "nonsense")
    add("none", object())
    found = survey(live(tmp_path, {}), limit_s=30.0)
    assert found.findings["acme"].no == "its probe broke: ValueError: a bug of theirs"
    assert found.findings["odd"].no == "its probe gave no Finding"
    assert found.findings["none"].no == "the plug-in for 'none' is no Platform"
    assert [one.name for one in found.devices] == ["cpu"]


def test_a_platform_brings_chips_of_its_own(add, tmp_path):
    table = tmp_path / "acme.toml"
    table.write_text('schema = 1\n[chips.acme-one]\ntitle = "Acme One"\nvendor = "Acme"\nmatch = ["Acme One"]\n')
    add("acme", acme, chips=table)
    found = survey(live(tmp_path, {}), limit_s=30.0)
    assert found.device("acme:0").model == "acme-one"
    assert found.chips["acme-one"].title == "Acme One"


def test_a_broken_table_of_chips_is_said_and_breaks_nothing(add, tmp_path):
    (tmp_path / "acme.toml").write_text("schema = 9")
    add("acme", acme, chips=tmp_path / "acme.toml")
    found = survey(live(tmp_path, {}), limit_s=30.0)
    assert found.device("acme:0").model == ""
    assert "key 'schema' is wrong" in found.findings["acme (chips)"].no


def test_two_devices_of_one_name_are_listed_once(add, tmp_path):
    add("acme", acme)
    add("acme_too", acme)
    found = survey(live(tmp_path, {}), limit_s=30.0)
    assert [one.name for one in found.devices] == ["cpu", "acme:0"]
    assert found.findings["acme_too"].no == "acme:0 is listed by acme already"


def test_every_tool_may_hang_at_once(tmp_path):
    nodes = ("nvidia0", "iluvatar0", "alixpu_ppu0", "davinci0", "mtgpu.0", "kfd")
    for node in nodes:
        put(tmp_path, f"/dev/{node}")
    put(tmp_path, "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x1d94")
    put(tmp_path, "/sys/bus/pci/devices/0000:01:00.0/class", "0x0b4000")
    names = ("nvidia-smi", "ixsmi", "ppu-smi", "npu-smi", "mthreads-gmi", "hy-smi")
    machine = live(tmp_path, dict.fromkeys(names, "PATH=/usr/bin:/bin; sleep 60"), tool_s=0.3)
    found = survey(machine, probe_s=30.0, limit_s=30.0)
    silent = {name: finding.no for name, finding in found.findings.items() if "did not answer" in finding.no}
    assert list(silent) == ["nvidia", "iluvatar", "thead", "ascend", "moore_threads", "hygon"]
    for no, tool in zip(silent.values(), names, strict=True):
        assert no.endswith(f"but {tool} did not answer within 0.3 s")


def test_built_in_platforms_stand_in_a_fixed_order():
    assert list(PLATFORMS.entries())[:3] == ["cpu", "nvidia", "jetson"]


def test_no_provider_is_told_of_two_runtimes():
    found = survey(recorded("mixed"))
    assert found.runtime == "more than one onnxruntime is installed: onnxruntime 1.23.2, onnxruntime-gpu 1.23.2"
    assert [one.providers for one in found.devices] == [()] * 6


def test_a_runtime_that_takes_long_to_import_still_runs_on_the_cpu(tmp_path):
    kid = {"name": "onnxruntime", "problem": "python (onnxruntime) did not answer within 0.9 s"}
    found = survey(replay(changed("h200", tmp_path, children=[kid])))
    assert found.device("cpu").providers == ("CPUExecutionProvider",)
    assert found.runtime == kid["problem"]
    kid["problem"] = "python (onnxruntime) ended with status 1: ImportError: libfoo.so"
    found = survey(replay(changed("h200", tmp_path / "broken", children=[kid])))
    assert found.device("cpu").providers == ()
    assert "no inference provider for it is installed" in found.device("cpu").notes[0]


@pytest.mark.parametrize(
    ("machine", "name", "error", "text"),
    [
        (
            "h200", "cuda:0", DeviceError,
            "no inference provider for device 'cuda:0' (NVIDIA H200) is installed: found onnxruntime 1.23.2, expected "
            "TensorrtExecutionProvider or CUDAExecutionProvider or NvTensorRTRTXExecutionProvider. "
            "Run: pip uninstall -y onnxruntime, then pip install onnxruntime-gpu",
        ),
        (
            "ty1200-16gb", "iluvatar:0", DeviceError,
            "no inference provider for device 'iluvatar:0' (MRC-V100-0x18) is installed: found onnxruntime 1.23.2, "
            "expected IxRT. Install the wheel ixrt of the CoreX SDK; on a TY1200 the Intel chips beside it run "
            "policies too: pip install onnxruntime-ep-openvino",
        ),
        (
            "h200", "npu:0", UnknownNameError,
            "unknown device 'npu:0': expected one of cpu, cuda:0, cuda:1. "
            "Huawei Ascend: no accelerator of PCI vendor 19e5, no /dev/davinci*",
        ),
        (
            "half-installed", "iluvatar:0", UnknownNameError,
            "unknown device 'iluvatar:0': expected one of cpu, cuda:0. "
            "Iluvatar: a card at 0000:41:00.0, but no /dev/iluvatar*",
        ),
        (
            "h200", "tpu:0", UnknownNameError,
            "unknown device 'tpu:0': expected one of cpu, cuda:0, cuda:1. edgert device list shows what is there",
        ),
    ],
)  # fmt: skip
def test_devices_that_run_no_policies(machine, name, error, text):
    with pytest.raises(error) as caught:
        usable_device(name, recorded(machine))
    assert str(caught.value) == text


def test_a_device_with_a_provider_runs_policies():
    assert usable_device("cuda:0", recorded("gb10")).providers == (
        "TensorrtExecutionProvider", "CUDAExecutionProvider"
    )  # fmt: skip


def test_the_cpu_is_found_without_asking_any_platform(monkeypatch):
    monkeypatch.setattr(module, "survey", lambda *_: pytest.fail("it was asked"))
    assert find_device("cpu").name == "cpu"


PROGRAM = """
import sys
from edgert.cli.main import run
assert run(["run", "policy", "--device", "cpu", "--seconds", "0.1", "--no-real-time", *sys.argv[1:]]) == 0
print(sorted(name for name in sys.modules if name.startswith("edgert.device.")), file=sys.stderr)
"""


def test_running_on_the_cpu_imports_no_probe() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.splitlines()[-1] == "['edgert.device.device', 'edgert.device.onnxruntime']"
    told = [sys.executable, "-c", PROGRAM, "--json"]  # where the CPU alone tells of itself, before and after
    done = subprocess.run(told, capture_output=True, text=True, timeout=120, check=True)
    probes = [name for name in done.stderr.splitlines()[-1].split("'") if name.startswith("edgert.device.probes.")]
    assert probes == ["edgert.device.probes.cpu"]


def test_importing_the_survey_imports_no_probe(tmp_path: Path) -> None:
    code = "import sys, edgert.device.survey; print([name for name in sys.modules if 'probes' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
