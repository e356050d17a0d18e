"""Small models, contracts and scenes that tests make for themselves."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgert.cli.main import run
from edgert.task.task import load_task

QUADRUPED = load_task("quadruped")


class Command:
    """A command, or a group of them, as a user types it.

    Args:
        prefix: what comes before the arguments.
        alone: whether nothing but its one line is said on stderr when it refuses, or where it reports as JSON.
    """

    def __init__(self, *prefix: str, alone: bool = False) -> None:
        self._prefix, self._alone = prefix, alone

    def ran(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        code = run([*self._prefix, *map(str, arguments)])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    def told(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        """The report of `--json`."""
        found, out, err = self.ran(capsys, *arguments, "--json")
        assert found == code, err
        assert err == "" or not self._alone
        report: dict[str, Any] = json.loads(out)
        return report

    def refused(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
        """The one line of a refusal with exit code 2."""
        code, out, err = self.ran(capsys, *arguments)
        assert (code, out) == (2, "")
        (line,) = [line for line in err.splitlines() if self._alone or line.startswith("edgert: ")]
        return line.removeprefix("edgert: ")


def medians_us(*calls: Callable[[], object], times: int = 2_000) -> list[float]:
    """Median time of each call, µs; they take turns."""
    measured: list[list[int]] = [[] for _ in calls]
    for _ in range(times):
        for call, own in zip(calls, measured, strict=True):
            begin = time.perf_counter_ns()
            call()
            own.append(time.perf_counter_ns() - begin)
    return [statistics.median(own) / 1e3 for own in measured]


def quadruped_document() -> dict[str, Any]:
    """The bundled task's contract as a document that a test may change."""
    return json.loads(json.dumps(QUADRUPED.contract.to_document()))


def linear_model(
    *,
    dim: int = 50,
    nact: int = 12,
    weight: np.ndarray | None = None,
    bias: float | np.ndarray = 0.0,
    batch: int | str = "batch",
    inp: str = "obs",
    out: str = "actions",
    document: Mapping[str, Any] | None = None,
    change: Callable[[onnx.ModelProto], None] = lambda model: None,
) -> onnx.ModelProto:
    """out = inp W + b, standing still by default, with a contract in its metadata if one is given."""
    matrix = np.zeros((dim, nact), np.float32) if weight is None else weight.astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", [inp, "w", "b"], [out])],
        "policy",
        [helper.make_tensor_value_info(inp, TensorProto.FLOAT, [batch, dim])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [batch, nact])],
        [
            numpy_helper.from_array(matrix, "w"),
            numpy_helper.from_array(np.broadcast_to(np.float32(bias), (nact,)).copy(), "b"),
        ],
    )
    return finished(graph, document, change)


def finished(
    graph: onnx.GraphProto,
    document: Mapping[str, Any] | None,
    change: Callable[[onnx.ModelProto], None] = lambda model: None,
) -> onnx.ModelProto:
    """A model of the graph with a contract in its metadata."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    if document is not None:
        entry = model.metadata_props.add()
        entry.key, entry.value = "edgert.contract", json.dumps(document)
    change(model)
    return model


def failing_later_model(document: Mapping[str, Any]) -> onnx.ModelProto:
    """Actions that creep up by 0.01 a step and become NaN once the last one exceeds 0.1."""
    last = list(range(36, 48))
    nodes = [
        helper.make_node("Gather", ["obs", "last"], ["a"], axis=1),
        helper.make_node("Add", ["a", "creep"], ["b"]),
        helper.make_node("Sub", ["limit", "a"], ["left"]),
        helper.make_node("Sqrt", ["left"], ["root"]),
        helper.make_node("Mul", ["root", "zero"], ["nothing"]),
        helper.make_node("Add", ["b", "nothing"], ["actions"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 50])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 12])],
        [
            numpy_helper.from_array(np.array(last), "last"),
            numpy_helper.from_array(np.float32(0.01), "creep"),
            numpy_helper.from_array(np.float32(0.1), "limit"),
            numpy_helper.from_array(np.float32(0.0), "zero"),
        ],
    )
    return finished(graph, document)


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model and return its path."""
    path.write_bytes(model.SerializeToString())
    return path


def overhead(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """How much longer one takes than the other, median and p99: the best of a few rounds, as machines are shared."""
    medians, tails = [], []
    for _ in range(5):
        times = np.zeros((2_000, 2))
        trace = sys.gettrace()
        sys.settrace(None)  # coverage counts lines of Python, of which only one of the two has any
        try:
            for row in times:  # interleaved, so that both see the same machine
                begin = time.perf_counter_ns()
                ours()
                middle = time.perf_counter_ns()
                theirs()
                row[:] = middle - begin, time.perf_counter_ns() - middle
        finally:
            sys.settrace(trace)
        medians.append(float(np.divide(*np.median(times, axis=0))))
        tails.append(float(np.divide(*np.quantile(times, 0.99, axis=0))))
        if medians[-1] <= 1.15 and tails[-1] <= 1.5:
            break
    return min(medians), min(tails)


GO1_TOML = """
schema = 1
robot = "unitree_go1"
control_hz = 50

[joints]
names = [
  "FR_hip_joint", "FR_thigh_joint", "FR_calf_joint",
  "FL_hip_joint", "FL_thigh_joint", "FL_calf_joint",
  "RR_hip_joint", "RR_thigh_joint", "RR_calf_joint",
  "RL_hip_joint", "RL_thigh_joint", "RL_calf_joint",
]
default_pos = [0.1, 0.9, -1.8, -0.1, 0.9, -1.8, 0.1, 0.9, -1.8, -0.1, 0.9, -1.8]
kp = 35.0
kd = 0.5

[inputs.obs]
terms = [
  { name = "base_lin_vel", frame = "body", point = "site:imu" },
  "base_ang_vel",
  "projected_gravity",
  "joint_pos",
  "joint_vel",
  "last_action",
  "command",
]

[action]
scale = 0.5

[command]
kind = "twist"
"""


def toml(document: dict[str, Any], path: str = "") -> str:
    """A document as TOML; its JSON values are TOML values too, but for tables."""
    lines, tables = [], []
    for name, value in document.items():
        if isinstance(value, dict):
            tables.append(f"[{path}{name}]\n{toml(value, f'{path}{name}.')}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [f"[[{path}{name}]]\n{toml(entry, f'{path}{name}.')}" for entry in value]
        else:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "".join(lines + tables)
