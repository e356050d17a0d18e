"""What `edgert policy inspect` costs beside what ONNX Runtime takes to open the same model, each in its own process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from edgert.policy.load import locate

OPEN = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def seconds(*arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - begin


def test_inspect_costs_little_more_than_opening_the_model() -> None:
    path = str(locate("quadruped"))
    ours, theirs = [], []
    for _ in range(5):
        theirs.append(seconds("-c", OPEN, path))
        ours.append(seconds("-m", "edgert", "policy", "inspect", path, "--json"))
    inspect, opened = statistics.median(ours), statistics.median(theirs)
    ratio = inspect / opened
    print(f"inspect {inspect:.2f} s, onnxruntime alone {opened:.2f} s, ratio {ratio:.2f}, {inspect - opened:+.2f} s")
    assert ratio < 4.0  # 1.4 on a quiet machine
