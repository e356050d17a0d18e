"""What a history of observations and a recurrent state add to one robot's tick, side by side in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from support import QUADRUPED, finished, medians_us, quadruped_document, save

from edgert.policy import OnnxPolicy, load_policy
from edgert.runtime.controller import Controller
from edgert.sim import BatchSim, SimBody
from edgert.task.worlds import build_scene

HIDDEN = 256
LIMIT = 1.6
"""1.3 on a quiet machine."""


def linear(folder: Path, *, history: int = 1, memory: bool = False) -> str:
    """actions = obs W, with `HIDDEN` numbers of memory that stay as they are."""
    document: dict[str, Any] = json.loads(json.dumps(quadruped_document()))
    for term in document["inputs"]["obs"]["terms"]:
        term["history"] = history
    nodes = [helper.make_node("MatMul", ["obs", "w"], ["actions"])]
    values = [("obs", 50 * history)], [("actions", 12)]
    if memory:
        nodes.append(helper.make_node("Identity", ["h_in"], ["h_out"]))
        values[0].append(("h_in", HIDDEN))
        values[1].append(("h_out", HIDDEN))
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in each] for each in values
    )
    weight = numpy_helper.from_array(np.zeros((50 * history, 12), np.float32), "w")
    graph = helper.make_graph(nodes, "policy", inputs, outputs, [weight])
    return str(save(finished(graph, document), folder / f"{history}_{memory}.onnx"))


def test_history_and_memory_cost_little(tmp_path: Path) -> None:
    scene = build_scene(QUADRUPED)
    body = SimBody(BatchSim(scene.model), scene)
    models = [linear(tmp_path), linear(tmp_path, history=5), linear(tmp_path, memory=True)]
    models.append(linear(tmp_path, history=5, memory=True))
    policies = [OnnxPolicy(load_policy(model)) for model in models]
    controllers = [Controller(policy, body.state, (0.5, 0.0, 0.1), "robot") for policy in policies]
    observe = medians_us(*(controller.observe for controller in controllers[:2]))
    plain, history, memory, both = medians_us(*(controller.act for controller in controllers))
    ratio = both / plain
    print(
        f"one robot's tick: {plain:.1f} µs; 5 ticks of history {history - plain:+.1f} µs (in the observation "
        f"{observe[1] - observe[0]:+.1f} µs), a state of {HIDDEN} numbers {memory - plain:+.1f} µs, both "
        f"{both - plain:+.1f} µs; ratio {ratio:.2f}"
    )
    for policy in policies:
        policy.close()
    assert ratio < LIMIT
