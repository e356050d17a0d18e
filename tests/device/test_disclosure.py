"""What every report says of how its numbers came about."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from edgert.device import Device
from edgert.device.disclosure import Disclosure, Told, commit_of, host, packages
from edgert.device.machine import LiveMachine

CHIP = Device(
    name="cuda:0", chip="NVIDIA Thor", vendor="NVIDIA", memory_bytes=128 << 30, driver="580.0", arch="sm_110",
    evidence={"chip": "nvidia-smi", "memory_bytes": "/proc/meminfo"},
)  # fmt: skip
TOLD = Told(
    device=CHIP,
    before={"power_mode": "MAXN", "clock_mhz": 1575.0, "power_w": None},
    after={"power_mode": "MAXN", "clock_mhz": 1200.0, "power_w": None},
    missing={"power_w": "[N/A]"},
)


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_it_names_everything_that_a_number_depends_on(tmp_path: Path) -> None:
    put(tmp_path, "/proc/cpuinfo", "processor: 0\nmodel name: Core Ultra 7 255H\n")
    put(tmp_path, "/sys/kernel/realtime", "1\n")
    put(tmp_path, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    report = Disclosure(
        kind="replayed",
        devices=[TOLD],
        model="walk.onnx",
        model_sha256="ab" * 32,
        shapes={"obs": (1, 48), "actions": (1, 12)},
        precision="fp16",
        seed=7,
        timing="from here to there",
        warm_up="200 acts",
        counts={"acts": 5000},
        samples="r.npz",
        samples_sha256="cd" * 32,
        command="edgert bench policy walk.onnx",
    ).report(LiveMachine(root=tmp_path))
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert {
        "kind", "command", "edgert", "commit", "dirty", "python", "packages", "host", "devices", "model",
        "model_sha256", "scene", "scene_sha256", "shapes", "precision", "seed", "timing", "warm_up", "counts",
        "samples", "samples_sha256",
    } == set(report)  # fmt: skip
    assert (report["kind"], report["command"]) == ("replayed", "edgert bench policy walk.onnx")
    assert report["shapes"] == ["obs[1, 48]", "actions[1, 12]"]
    assert report["counts"] == ["5000 acts"]
    (device,) = report["devices"]
    assert (device["name"], device["driver"], device["arch"]) == ("cuda:0", "580.0", "sm_110")
    assert device["evidence"] == ["chip: nvidia-smi", "memory_bytes: /proc/meminfo"]
    assert (device["before"]["clock_mhz"], device["after"]["clock_mhz"]) == (1575.0, 1200.0)
    assert device["missing"] == ["power_w: [N/A]"]
    told = report["host"]
    assert (told["cpu"], told["governor"], told["realtime_kernel"]) == ("Core Ultra 7 255H", "performance", True)
    assert told["scheduler"] == "SCHED_OTHER"
    assert told["kernel"].startswith("Linux ")


def test_a_host_that_tells_nothing_is_no_guess(tmp_path: Path) -> None:
    told = host(LiveMachine(root=tmp_path))
    assert (told["governor"], told["realtime_kernel"]) == (None, False)


def test_packages_are_named_with_their_versions() -> None:
    found = packages(("numpy", "no-such-distribution"))
    assert [each.split()[0] for each in found if not each.startswith("onnxruntime")] == ["numpy"]
    assert any(each.startswith("onnxruntime ") for each in found)


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def test_the_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == (None, None)
    try:
        git(tmp_path, "init", "-q")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    assert commit_of(tmp_path)[0] is None
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "One")
    commit, dirty = commit_of(tmp_path)
    assert commit is not None
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "b").write_text("not tracked")
    assert commit_of(tmp_path) == (commit, False)
    (tmp_path / "a").write_text("2")
    assert commit_of(tmp_path) == (commit, True)
