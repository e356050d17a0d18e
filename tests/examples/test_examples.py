"""The short programs on the public API run as they stand, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROMISED = {
    "step_policy.py": r"input obs: float32\[1, 50\].*'FL_hip_joint': ",
    "gym_loop.py": r"return \d+\.\d\d, velocity vx 0\.[45]\d m/s",
    "record_and_read.py": r"(?:[0-9a-f]{16}/\d: completed, 100 steps, 1\.\d\d m\n){8}",
    "vector_worlds.py": r"[\d,]+ steps/s, mean reward -?0\.\d{4}",
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PROMISED, "train_ppo.py"}


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(PROMISED[name], done.stdout, re.DOTALL), done.stdout
    assert list(tmp_path.iterdir()) == []
