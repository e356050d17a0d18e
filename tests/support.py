"""Small models, contracts and scenes that tests make for themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgert.task.task import load_task

QUADRUPED = load_task("quadruped")


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
    document: Mapping[str, Any] | None = None,
    change: Callable[[onnx.ModelProto], None] = lambda model: None,
) -> onnx.ModelProto:
    """actions = obs W + b, standing still by default, with a contract in its metadata if one is given."""
    matrix = np.zeros((dim, nact), np.float32) if weight is None else weight.astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["obs", "w", "b"], ["actions"])],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, dim])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, nact])],
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
