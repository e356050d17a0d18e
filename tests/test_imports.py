"""What importing edgert and asking for help must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numpy", "onnxruntime", "onnx", "mujoco", "gymnasium", "warp", "torch", "pyarrow", "array_api_compat"}


def imported(*arguments: str) -> set[str]:
    """Top-level modules that a fresh interpreter imports when it runs with the arguments."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_the_probe_sees_a_heavy_import():
    assert "numpy" in imported("-c", "import numpy.linalg")


@pytest.mark.parametrize(
    "arguments",
    [("-c", "import edgert"), ("-c", "from edgert import EdgertError"), ("-m", "edgert", "--help")],
    ids=["import", "error", "help"],
)
def test_nothing_heavy_is_imported(arguments):
    names = imported(*arguments)
    assert "edgert" in names
    assert names & HEAVY == set()


def test_the_contract_is_read_without_arrays_or_engines():
    names = imported("-c", "import edgert.contract, edgert.device, edgert.registry, edgert.tables")
    assert names & HEAVY == set()
