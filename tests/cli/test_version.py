"""`edgert version`."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.metadata import version

import pytest

from edgert import __version__
from edgert.cli.main import run

NEEDED = ("numpy", "mujoco", "onnx", "gymnasium", "array-api-compat", "click", "rich")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert captured.err == ""
    assert (report["edgert"], report["python"]) == (__version__, platform.python_version())
    assert report["platform"] == platform.platform()
    assert {name: report["packages"][name] for name in NEEDED} == {name: version(name) for name in NEEDED}
    assert [name for name in report["packages"] if name.startswith("onnxruntime")] != []


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["edgert", __version__] in lines
    assert ["numpy", version("numpy")] in lines


@pytest.mark.parametrize("size", ["", "-5", "0", "1", "abc", "²", "9" * 5000, "\x1b[2J"])
def test_a_terminal_of_any_size(size: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", size)
    monkeypatch.setenv("LINES", size)
    assert run(["version"]) == 0
    assert ["edgert", __version__] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_absent_ones(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Needed ones are null, optional ones are left out; a runtime of a vendor has its own name."""
    monkeypatch.setattr("edgert.device.installation.installed_version", lambda name: "7" if name == "torch" else None)
    monkeypatch.setattr("edgert.device.onnxruntime.installed_runtimes", lambda: ("onnxruntime-gpu 1.23.0",))
    assert run(["version", "--json"]) == 0
    packages = json.loads(capsys.readouterr().out)["packages"]
    assert packages == dict.fromkeys(NEEDED) | {"onnxruntime-gpu": "1.23.0", "torch": "7"}
    monkeypatch.setattr("edgert.device.onnxruntime.installed_runtimes", lambda: ())
    assert run(["version"]) == 0
    assert ["onnxruntime", "not", "installed"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys; from edgert.cli.main import run; assert run(['version', '--json']) == 0; "
        "print([name for name in ('numpy', 'mujoco', 'onnx', 'onnxruntime', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
