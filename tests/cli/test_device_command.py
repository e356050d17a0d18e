"""`edgert device` and `edgert doctor device` as a user types them, here and on recorded machines."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from device.machines import FIXTURES, NAMES, changed

from edgert.cli.main import run
from edgert.device.reading import METRICS

THOR = str(FIXTURES / "jetson-thor")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ran(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    report: dict[str, Any] = json.loads(out)
    return report


def words(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


def test_this_computer_has_a_cpu_that_runs_policies(capsys):
    report = report_of(capsys, "device", "list")
    row = report["devices"][0]
    assert row["name"] == "cpu"
    assert "CPUExecutionProvider" in row["providers"]
    assert (row["physics"], row["run_on_hardware"], row["notes"]) == (["mujoco"], True, [])
    assert report["replayed"] is None
    for entry in report["absent"]:
        assert entry.keys() == {"platform", "reason", "trouble"}
        assert entry["reason"]


def test_a_recorded_machine_is_listed(capsys):
    code, out, err = ran(capsys, "device", "list", "--replay", THOR)
    assert (code, err) == (0, "")
    lines = words(out)
    assert lines[0] == "device chip memory providers physics why"
    assert lines[1] == "cpu Arm Neoverse-V3AE 122.8 GiB CPU mujoco /proc/cpuinfo, /proc/meminfo"
    assert lines[2] == (
        "cuda:0 NVIDIA Jetson AGX Thor Developer Kit 122.8 GiB Tensorrt, CUDA none "
        "/proc/device-tree, /proc/meminfo, nvidia-smi; not yet run on hardware"
    )
    assert lines[4] == "not here"
    assert "iluvatar no card of PCI vendor 1e3e, no /dev/iluvatar*" in lines


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["device list", "device show", "device top", "doctor device"])
def test_every_command_on_every_recorded_machine(capsys, name, command):
    extra = ["--seconds", "0"] if command == "device top" else []
    for arguments in ([], ["--json"]):
        code, out, err = ran(capsys, *command.split(), *extra, *arguments, "--replay", str(FIXTURES / name))
        assert code == (5 if (name, command) == ("mixed", "doctor device") else 0)
        assert out
        assert err == (
            f"{FIXTURES / name} is synthetic: it was made up, and proves nothing about a chip\n"
            if name == "half-installed"
            else ""
        )


def test_one_device_is_shown_with_its_evidence_and_the_claims(capsys):
    report = report_of(capsys, "device", "show", "cuda:0", "--replay", THOR)
    assert report["title"] == "NVIDIA Jetson T5000 (AGX Thor)"
    assert report["evidence"] == {"chip": "/proc/device-tree", "memory_bytes": "/proc/meminfo", "driver": "nvidia-smi"}
    assert report["figures"][1] == {
        "what": "compute", "value": 1035.0, "low": None, "unit": "TFLOPS", "precision": "fp4", "sparsity": "dense",
        "claim": "vendor", "source": "NVIDIA, Jetson Thor",
        "text": "1035 TFLOPS FP4, dense (the vendor's claim: NVIDIA, Jetson Thor)",
    }  # fmt: skip
    assert report["figures"][-1]["low"] == 40.0
    assert "/dev/nvgpu/igpu*: 1 found" in report["looked"]
    _, out, _ = ran(capsys, "device", "show", "cuda:0", "--replay", THOR)
    lines = words(out)
    for line in (
        "known as NVIDIA Jetson T5000 (AGX Thor)",
        "instruction set sm_110",
        "L4T 38.2, JetPack 7.0",
        "note not yet run on hardware",
        "compute 2070 TFLOPS FP4, sparse (the vendor's claim: NVIDIA, Jetson Thor)",
        "/proc/device-tree/model: read",
    ):
        assert line in lines


def test_a_device_that_is_not_there_is_refused_with_the_reason(capsys):
    code, out, err = ran(capsys, "device", "show", "npu:0", "--replay", THOR)
    assert (code, out) == (2, "")
    assert err == (
        "edgert: unknown device 'npu:0': expected one of cpu, cuda:0. "
        "Huawei Ascend: no accelerator of PCI vendor 19e5, no /dev/davinci*\n"
    )


def test_one_sample_of_every_device(capsys):
    report = report_of(capsys, "device", "top", "--seconds", "0", "--replay", str(FIXTURES / "h200"))
    assert [sample["device"] for sample in report["samples"]] == ["cpu", "cuda:0", "cuda:1"]
    for sample in report["samples"]:
        assert sample.keys() == {"device", "t_ns", "missing", *METRICS}
        assert {metric for metric in METRICS if sample[metric] is None} == sample["missing"].keys()
    assert report["samples"][2]["throttle"] == ["power cap", "software thermal"]
    assert report["samples"][2]["power_w"] == 699.12


def test_the_use_of_this_cpu_is_a_rate(capsys):
    (sample, *_) = report_of(capsys, "device", "top")["samples"]
    assert 0.0 <= sample["utilization_percent"] <= 100.0


def test_without_a_terminal_each_sample_is_a_line(capsys, monkeypatch):
    monkeypatch.setattr("edgert.cli.device._PERIOD_S", 0.05)
    code, out, err = ran(capsys, "device", "top", "--seconds", "0.18", "--replay", THOR)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) >= 4
    assert lines[1] == ("cuda:0: 85.0 %, 27.4 W, 62.0 °C, 1575.0 MHz, memory 12.3 GiB of 122.8 GiB, mode MAXN")
    assert "\x1b" not in out


def test_a_device_that_tells_nothing_says_so(capsys, tmp_path):
    copy = changed("h200", tmp_path, tools=[])
    _, out, _ = ran(capsys, "device", "top", "--seconds", "0", "--replay", str(copy))
    assert out.splitlines()[0].startswith("cpu: ")


def on_terminal(*arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    """What a terminal gets, and the exit code; Ctrl-C is pressed after the second picture."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgert", *arguments],
        stdin=follower, stdout=follower, stderr=follower, env=os.environ | environment, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    shown, pressed, deadline_s = b"", False, time.monotonic() + 60.0
    try:
        while time.monotonic() < deadline_s:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    shown += os.read(leader, 1 << 16)
                except OSError:  # the program has closed it
                    break
            if not pressed and shown.count(b"throttled by") >= 2:
                process.send_signal(signal.SIGINT)
                pressed = True
        code = process.wait(timeout=60.0)
    finally:
        os.close(leader)
        if process.poll() is None:
            process.kill()
    return code, shown.decode()


def test_on_a_terminal_the_table_is_redrawn_until_ctrl_c():
    code, shown = on_terminal("device", "top", "--replay", THOR, environment={"TERM": "xterm", "COLUMNS": "120"})
    assert code == 130
    assert "\x1b[3F\x1b[J" in shown


def test_lines_that_a_narrow_terminal_breaks_are_counted():
    _, shown = on_terminal("device", "top", "--replay", THOR, environment={"TERM": "xterm", "COLUMNS": "50"})
    assert "\x1b[6F\x1b[J" in shown


def test_no_colour_where_none_is_wanted():
    _, shown = on_terminal("device", "top", "--replay", THOR, environment={"TERM": "xterm", "NO_COLOR": "1"})
    assert re.search(r"\x1b\[3[0-7]m", shown) is None


def test_a_machine_is_recorded_and_replayed(capsys, tmp_path):
    path = tmp_path / "machine.tar"
    report = report_of(capsys, "device", "record", "-o", str(path))
    assert report["path"] == str(path)
    assert report["size_bytes"] == path.stat().st_size
    assert report["devices"][0] == "cpu"
    here = report_of(capsys, "device", "list")["devices"]
    there = report_of(capsys, "device", "list", "--replay", str(path))
    assert there["devices"] == here
    assert there["replayed"] == str(path)


def test_nothing_is_overwritten(capsys, tmp_path):
    path = tmp_path / "machine.tar"
    path.write_text("mine")
    code, out, err = ran(capsys, "device", "record", "-o", str(path))
    assert (code, out) == (2, "")
    assert err == f"edgert: {path} is there already. Name another file\n"
    assert path.read_text() == "mine"
    code, _, err = ran(capsys, "device", "record", "-o", str(tmp_path / "none/machine.tar"))
    assert code == 2
    assert err == f"edgert: {tmp_path}/none/machine.tar cannot be written: found No such file or directory\n"


@pytest.mark.parametrize("command", ["device list", "device show", "device top", "doctor device"])
def test_what_is_no_recording_is_one_line(capsys, tmp_path, command):
    path = tmp_path / "machine.tar"
    path.write_bytes(b"\x1f\x8b" + b"x" * 1000)
    code, out, err = ran(capsys, *command.split(), "--replay", str(path))
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"edgert: {path} is no tar file: found ")


def test_doctor_looks_at_the_chips_that_are_here(capsys, monkeypatch):
    monkeypatch.setenv("WARP_CACHE_PATH", "/nowhere/kernels")
    report = report_of(capsys, "doctor", "device")
    assert report["ok"] is True
    names = [check["name"] for check in report["checks"]]
    assert {"onnxruntime", "cpu-governor", "kernel-cache"} <= set(names)
    assert "for /nowhere/kernels" in report["checks"][-1]["found"]


def test_doctor_says_what_to_do(capsys):
    code, out, _ = ran(capsys, "doctor", "device", "--replay", str(FIXTURES / "mixed"))
    assert code == 5
    lines = words(out)
    at = lines.index("fail onnxruntime onnxruntime 1.23.2, onnxruntime-gpu 1.23.2: they overwrite each other's files")
    assert lines[at + 1] == "→ pip uninstall -y onnxruntime onnxruntime-gpu, then install the one for this chip"


def test_kernels_without_a_home_are_warned_of(capsys, monkeypatch):
    for name in ("WARP_CACHE_PATH", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    check = report_of(capsys, "doctor", "device")["checks"][-1]
    assert (check["status"], check["fix"]) == ("warn", "export WARP_CACHE_PATH=/some/folder")


def test_a_policy_is_refused_a_device_that_is_not_there(capsys):
    code, out, err = ran(capsys, "run", "policy", "--device", "iluvatar:7", "--seconds", "0.1")
    assert (code, out) == (2, "")
    assert err.startswith("edgert: unknown device 'iluvatar:7': expected ")
    assert "Iluvatar: " in err


def test_half_a_command_shows_its_help(capsys):
    code, out, err = ran(capsys, "device")
    assert (code, out) == (2, "")
    assert err.startswith("Usage: edgert device")
