"""The training example trains, exports a policy that runs, and writes its card."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgert.cli.main import run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/train_ppo.py"


def trained(folder: Path) -> Path:
    arguments = ["--out", folder, "--num-envs", 16, "--horizon", 8, "--steps", 256, "--seed", 7, "--no-evaluation"]
    subprocess.run([sys.executable, EXAMPLE, *map(str, arguments)], check=True, timeout=300)
    return folder / "policy.onnx"


@pytest.mark.torch
def test_trains_exports_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = trained(tmp_path / "a")
    assert run(["run", "policy", str(policy), "--seconds", "0.2", "--no-real-time", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["contract_overrides"] == []
    with (policy.parent / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["steps"] for row in rows] == ["128", "256"]
    assert "256 environment steps, seed 7" in (policy.parent / "README.md").read_text()


@pytest.mark.torch
def test_same_seed_gives_the_same_policy(tmp_path: Path) -> None:
    assert trained(tmp_path / "a").read_bytes() == trained(tmp_path / "b").read_bytes()
