"""`edgert doctor`: what it looks at, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import Command

from edgert.cli.main import EXIT_DIFFERENCE
from edgert.sim import gl

NAMES = [
    "python", "packages", "onnxruntime", "extra-sync", "extra-view", "extra-openvino", "gl", "realtime", "memlock",
    "cpu-governor", "cpu-quota", "clock", "disk-state", "disk-work", "locale",
]  # fmt: skip

ran = Command("doctor").ran


def test_every_check_is_reported(capsys, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    code, out, err = ran(capsys, "--json")
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True)
    assert [check["name"] for check in report["checks"]] == NAMES
    for check in report["checks"]:
        assert check.keys() == {"name", "status", "found", "fix"}
        assert check["status"] in ("ok", "warn")
        assert bool(check["fix"]) == (check["status"] == "warn")


def test_a_failure_exits_5_and_says_what_to_do(capsys, monkeypatch):
    assert EXIT_DIFFERENCE == 5
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    code, out, _ = ran(capsys, "--json")
    report: dict[str, Any] = json.loads(out)
    (failed,) = [check for check in report["checks"] if check["status"] == "fail"]
    assert (code, report["ok"], failed["name"]) == (5, False, "gl")
    code, out, err = ran(capsys)
    assert (code, err) == (5, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = lines.index("fail gl MUJOCO_GL is wrong: vulkan")
    assert lines[at + 1] == "→ Set MUJOCO_GL to one of egl, osmesa, glfw"


@pytest.mark.parametrize("broken", ["ImportError", "RuntimeError", "AttributeError"])
def test_a_mujoco_that_cannot_be_imported_fails(tmp_path: Path, broken: str) -> None:
    (tmp_path / "mujoco.py").write_text(f"raise {broken}('no glGetError')")  # as PyOpenGL does where osmesa is missing
    command = [sys.executable, "-m", "edgert", "doctor", "--json"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    (failed,) = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "fail"]
    assert (done.returncode, done.stderr) == (5, "")
    assert failed == {
        "name": "gl",
        "status": "fail",
        "found": "MuJoCo cannot be imported: no glGetError",
        "fix": "Check the variable MUJOCO_GL",
    }


def test_a_host_that_draws_nothing_is_warned_with_the_packages(capsys, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(gl.choose_gl, "__defaults__", (os.environ, lambda kind: gl.MISSING))
    code, out, _ = ran(capsys, "--json")
    (check,) = [check for check in json.loads(out)["checks"] if check["name"] == "gl"]
    assert code == 0
    assert check == {
        "name": "gl",
        "status": "warn",
        "found": "no pictures or video: no OpenGL library is installed that draws without a display (EGL or OSMesa)",
        "fix": "Install libegl1 libegl-mesa0 libgl1-mesa-dri, or libosmesa6",
    }


def test_warnings_are_no_failure(capsys, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("EDGERT_HOME", raising=False)
    code, out, _ = ran(capsys, "--json")
    report = json.loads(out)
    (disk,) = [check for check in report["checks"] if check["name"] == "disk-state"]
    assert disk == {
        "name": "disk-state",
        "status": "warn",
        "found": "there is no home folder for edgert's state",
        "fix": "Set EDGERT_HOME to a folder",
    }
    assert (code, report["ok"]) == (0, True)


def test_two_onnxruntimes_fail(tmp_path: Path) -> None:
    info = tmp_path / "onnxruntime_gpu-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.0\n")
    (info / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    command = [sys.executable, "-m", "edgert", "doctor", "--json"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False
    )
    (failed,) = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "fail"]
    assert done.returncode == 5
    assert failed["name"] == "onnxruntime"
    assert failed["found"].startswith("more than one onnxruntime is installed")
    assert failed["fix"].startswith("Run: pip uninstall -y onnxruntime onnxruntime-gpu")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "state"))
    assert ran(capsys)[0] == 0
    assert list(tmp_path.iterdir()) == []
