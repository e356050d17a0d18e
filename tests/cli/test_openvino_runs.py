"""The commands with OpenVINO on the CPU: run, choose, record and replay, measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgert.cli.main import run

pytestmark = pytest.mark.openvino
OPENVINO = "OpenVINOExecutionProvider"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "home"))


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = run([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("model", ["quadruped", "cartpole", "arm_reach"])
def test_a_body_is_driven_as_on_the_cpu(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("run", "policy", model, "--no-real-time", "--seconds", "1")
    given, expected = (report(capsys, *asked, "--provider", name) for name in ("openvino", "cpu"))
    assert (given["provider"], given["outcome"]) == (OPENVINO, "completed")
    placed = given["placement"]
    assert [each["provider"] for each in placed["nodes"]] == [OPENVINO]
    assert placed["cpu_nodes"] == []
    assert 0.0 <= placed["agreement"]["error"] < 1e-5
    for name, value in expected["metrics"].items():
        assert given["metrics"][name] == pytest.approx(value, rel=0.02, abs=1e-3), name


def test_many_worlds_run_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = report(capsys, "run", "rollouts", "--num-envs", "64", "--seconds", "1", "--provider", "openvino")
    assert (told["provider"], told["falls"], told["safety_stops"]) == (OPENVINO, 0, 0)


def test_auto_measures_both(capsys: pytest.CaptureFixture[str]) -> None:
    candidates = report(capsys, "run", "policy", "--no-real-time", "--seconds", "0.2", "--provider", "auto")[
        "placement"
    ]["candidates"]
    assert {each["provider"] for each in candidates} == {"cpu", "openvino"}
    assert all(each["median_us"] > 0.0 and each["reason"] == "" for each in candidates)


def test_what_it_recorded_is_replayed_bit_for_bit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = str(tmp_path / "episodes")
    report(capsys, "run", "policy", "--no-real-time", "--seconds", "0.5", "--provider", "openvino", "--record", folder)
    told = report(capsys, "episode", "replay", folder, "--provider", "openvino")
    assert (told["same"], told["provider"]) == (True, OPENVINO)


def test_it_is_measured_beside_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    told = report(
        capsys,
        "bench",
        "policy",
        "--device",
        "cpu",
        "--acts",
        "200",
        "--paced-seconds",
        "0.2",
        "--rows",
        "1",
        "--rows",
        "64",
    )
    assert [run["provider"] for run in told["runs"]] == ["cpu", "openvino"]
    for each in told["runs"]:
        assert (each["failed"], each["cpu_nodes"]) == ("", [])
    assert told["runs"][1]["agreement"]["error"] < 1e-5
    assert "onnxruntime-ep-openvino" in told["runs"][1]["version"]


def test_shared_policies_are_measured_too(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = sorted((shared / "policies").rglob("*.onnx"))
    assert models
    for model in models:
        quick = ("--device", "cpu", "--acts", "50", "--paced-seconds", "0.1", "--rows", "1")
        runs = report(capsys, "bench", "policy", str(model), *quick)["runs"]
        assert [each["failed"] for each in runs] == ["", ""]
        assert runs[1]["agreement"]["error"] < 1e-4
