"""Options that say on which chips a run computes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgert.cli.main import run

QUICK = ("--seconds", "0.2")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["run", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ran(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    "command",
    [("policy", "--no-real-time"), ("rollouts", "--num-envs", "2"), ("policy", "--env", "edgert/Quadruped-v0")],
)
def test_the_provider_may_be_named_or_chosen(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path))
    model = ("quadruped",)
    told = report(capsys, command[0], *model, *command[1:], *QUICK, "--provider", "cpu")
    assert (told["device"], told["provider"]) == ("cpu", "CPUExecutionProvider")
    assert told["placement"]["agreement"] is None
    assert {each["provider"] for each in told["placement"]["nodes"]} == {"CPUExecutionProvider"}
    chosen = report(capsys, command[0], *model, *command[1:], *QUICK, "--provider", "auto")
    assert chosen["placement"]["candidates"][0]["median_us"] > 0
    assert any(note.startswith("provider ") and "the fastest for this model" in note for note in chosen["notes"])


@pytest.mark.parametrize("command", [("policy",), ("rollouts",), ("policy", "--env", "edgert/Quadruped-v0")])
def test_what_is_not_there_is_refused(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, command[0], "quadruped", *command[1:], "--provider", "cuda")
    assert (code, out) == (2, "")
    refusal = err.splitlines()[-1]
    assert "cannot run the network by provider 'cuda': found cpu" in refusal
    assert "expected CUDAExecutionProvider. Run: pip uninstall -y onnxruntime; pip install onnxruntime-gpu" in refusal
    code, _, err = ran(capsys, command[0], "quadruped", *command[1:], "--policy-device", "cuda:7")
    assert code == 2
    assert "unknown device 'cuda:7'" in err
    code, _, err = ran(capsys, command[0], "quadruped", *command[1:], "--precision", "fp16")
    assert code == 2
    assert "provider 'cpu' computes as the model says: found --precision fp16" in err


def test_the_devices_of_network_and_physics_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    told = report(
        capsys,
        "policy",
        "--no-real-time",
        *QUICK,
        "--device",
        "cuda:7",
        "--policy-device",
        "cpu",
        "--physics-device",
        "cpu",
    )
    assert (told["device"], told["physics_device"], told["physics"]) == ("cpu", "cpu", "mujoco")
    code, _, err = ran(capsys, "rollouts", "--physics-device", "cuda:7")
    assert code == 2
    assert "unknown device 'cuda:7'" in err


def test_an_environment_decides_about_its_physics(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ran(capsys, "policy", "quadruped", "--env", "edgert/Quadruped-v0", "--physics-device", "cpu")
    assert code == 2
    assert "--physics-device cannot go with --env" in err
