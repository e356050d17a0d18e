"""Models that are no policies, and contracts of other models, refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, linear_model, quadruped_document, save

from edgert.errors import EdgertError, UnsupportedError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.model import read_policy

FLOAT = TensorProto.FLOAT


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(EdgertError) as caught:
        load_policy(path, **options)
    return str(caught.value).replace(str(path), "M")


def named(folder: Path, *, outputs: dict[str, int], inputs: dict[str, list[Any]] | None = None) -> Path:
    """A model with these outputs, and inputs beside obs [1, 50]."""
    nodes = [helper.make_node("MatMul", ["obs", f"w_{name}"], [name]) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "model",
        [
            helper.make_tensor_value_info("obs", FLOAT, [1, 50]),
            *(helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (inputs or {}).items()),
        ],
        [helper.make_tensor_value_info(name, FLOAT, [1, size]) for name, size in outputs.items()],
        [numpy_helper.from_array(np.zeros((50, size), np.float32), f"w_{name}") for name, size in outputs.items()],
    )
    return save(finished(graph, None), folder / "policy.onnx")


@pytest.mark.parametrize(
    ("outputs", "what"),
    [
        ({"latent": 16}, "an encoder"),
        ({"encoder.out": 16}, "an encoder"),
        ({"value": 1}, "a critic"),
        ({"critic_values": 1}, "a critic"),
        ({"estimated_velocity": 3}, "an estimator"),
        ({"observation": 48}, "a graph that only makes observations"),
        ({"policy_obs": 48, "latent": 3}, "a graph that only makes observations"),
    ],
)
def test_a_part_of_a_pipeline_is_told_from_a_policy(tmp_path, outputs, what):
    path = named(tmp_path, outputs=outputs)
    names = ", ".join(outputs)
    assert refusal(path).startswith(
        f"policy M looks like {what}, not a policy: found output{'s' * (len(outputs) > 1)} {names}, "
        "expected an output that gives actions. Name the file that holds the actor; [[network]]"
    )


@pytest.mark.parametrize("output", ["actions", "continuous_actions", "mu", "mean", "output", "123", "joint_targets"])
def test_other_outputs_may_be_actions(tmp_path, output):
    assert "does not say what its numbers mean" in refusal(named(tmp_path, outputs={output: 12}))


def test_the_user_may_call_any_output_the_action(tmp_path):
    path = named(tmp_path, outputs={"latent": 12})
    document = quadruped_document()
    document["action"]["output"] = "latent"
    model = onnx.load_model(path)
    model.metadata_props.add(key="edgert.contract", value=json.dumps(document))
    assert load_policy(save(model, path)).contract.action.outputs[0] == "latent"


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (
            {"h_in": [1, 1, 8]},
            "input 'h_in' of policy M is the state of a memory, and no output gives its next value: found actions, "
            "expected an output such as 'h_out'. Export it with its state as an output, or name that output in "
            "[recurrent] of policy.toml",
        ),
        ({"memory.actor.in": [2, 1, 8]}, "expected an output such as 'memory.actor.out'"),
        ({"hidden": [1, 1, 8]}, "expected an output such as 'hidden_out'"),
        (
            {"camera": [1, 3, 48, 64]},
            'which camera its image of 3 × 48 × 64 is from: { name = "camera", camera = "…", image = "rgb", '
            "height = 48, width = 64 })",
        ),
        ({"scan": [1, 5, 64]}, "input 'scan' of policy M has 3 axes: found [1, 5, 64], expected [batch, size], or"),
        ({"extra": [1, 0]}, "input 'extra' of policy M has an axis of size 0: found [1, 0]. Export it again"),
    ],
)
def test_inputs_that_nothing_can_feed(tmp_path, inputs, text):
    assert text in refusal(named(tmp_path, outputs={"actions": 12}, inputs=inputs))


def recurrent_model(folder: Path, *, state: str, document: dict[str, Any], steps: int = 1) -> Path:
    """A GRU over the observation: its state is absent, a constant, zeros of the batch's size, or an input."""
    rng = np.random.default_rng(0)
    width = 50 // steps
    nodes = [helper.make_node("Reshape", ["obs", "shape"], ["x"])]
    inputs = [helper.make_tensor_value_info("obs", FLOAT, [1, 50])]
    outputs = [helper.make_tensor_value_info("actions", FLOAT, [1, 12])]
    if state == "of the batch":
        nodes += [
            helper.make_node("Shape", ["obs"], ["size"]),
            helper.make_node("Gather", ["size", "zero"], ["batch"]),
            helper.make_node("Concat", ["one", "batch", "eight"], ["state_shape"], axis=0),
            helper.make_node("ConstantOfShape", ["state_shape"], ["h"]),
        ]
    if state == "an input":
        inputs.append(helper.make_tensor_value_info("h", FLOAT, [1, 1, 8]))
        outputs.append(helper.make_tensor_value_info("last", FLOAT, [1, 1, 8]))
    start = {"absent": "", "constant": "h0"}.get(state, "h")
    nodes += [
        helper.make_node("GRU", ["x", "w", "r", "", "", start], ["", "last"], hidden_size=8, name="memory"),
        helper.make_node("Squeeze", ["last", "zero"], ["y"]),
        helper.make_node("MatMul", ["y", "head"], ["actions"]),
    ]
    weights: dict[str, Any] = {
        "shape": np.array([steps, 1, width]),
        "zero": np.array([0]),
        "one": np.array([1]),
        "eight": np.array([8]),
        "h0": np.zeros((1, 1, 8), np.float32),
        "w": rng.normal(size=(1, 24, width)).astype(np.float32),
        "r": rng.normal(size=(1, 24, 8)).astype(np.float32),
        "head": rng.normal(size=(8, 12)).astype(np.float32),
    }
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    return save(finished(helper.make_graph(nodes, "m", inputs, outputs, tensors), document), folder / "policy.onnx")


@pytest.mark.parametrize("state", ["absent", "constant", "of the batch"])
def test_a_memory_that_does_not_last_is_refused(tmp_path, state):
    path = recurrent_model(tmp_path, state=state, document=quadruped_document())
    assert refusal(path) == (
        "policy M has a memory that it loses at every control tick: found GRU memory, whose state begins anew at every "
        "run, expected its state as an input and as an output (h_in, h_out), or an observation with a history. "
        "Export it with its states; rsl_rl's exporter does"
    )


def test_a_memory_over_several_ticks_at_once_is_none_to_lose(tmp_path):
    path = recurrent_model(tmp_path, state="absent", document=quadruped_document(), steps=5)
    assert read_policy(path).forgetful == ()
    assert load_policy(path).contract.inputs["obs"].dim == 50


def test_a_state_that_is_told_is_a_memory(tmp_path):
    path = recurrent_model(tmp_path, state="an input", document=quadruped_document() | {"recurrent": {"h": "last"}})
    assert read_policy(path).forgetful == ()
    assert load_policy(path).contract.recurrent == {"h": "last"}


def test_a_sidecar_of_another_export_is_refused_by_its_size(tmp_path):
    path = save(linear_model(dim=50, document=quadruped_document()), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text('[inputs.obs]\nterms = ["joint_pos", "joint_vel"]\n')
    assert refusal(path) == (
        "input 'obs' of policy M has another size than the contract's terms: found the contract has 24 = joint_pos "
        "12 + joint_vel 12, expected 50, as the model takes. Is policy.toml that of another export? Copy the pair "
        "again. Add, remove or resize terms in policy.toml"
    )
    path = save(linear_model(nact=11, document=quadruped_document()), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").unlink()
    assert refusal(path) == (
        "output 'actions' of policy M has another size than the contract's action: found 12 joints in the contract, "
        "expected 11, as the model gives. Correct [joints] names or [action] joints in policy.toml"
    )


def test_custom_operators_are_named(tmp_path):
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[0].domain = "acme.ops"
        model.opset_import.add(domain="acme.ops", version=1)
        model.graph.node.append(helper.make_node("Fast", ["actions"], ["x"], domain="com.microsoft.nchwc"))

    path = save(linear_model(document=quadruped_document(), change=change), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError) as caught:
        OnnxPolicy(load_policy(path))
    assert str(caught.value) == (
        f"policy {path} needs custom operators: found acme.ops:Gemm, expected operators of ONNX, or of ONNX Runtime "
        "(com.microsoft). Export it without them"
    )


def test_functions_of_the_model_are_no_custom_operators(tmp_path):
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[0].domain = "pkg.torch"
        body = [helper.make_node("Gemm", ["a", "b", "c"], ["d"])]
        model.functions.append(
            helper.make_function("pkg.torch", "Gemm", ["a", "b", "c"], ["d"], body, [helper.make_opsetid("", 17)])
        )
        model.opset_import.add(domain="pkg.torch", version=1)

    path = save(linear_model(document=quadruped_document(), change=change), tmp_path / "m.onnx")
    assert read_policy(path).custom_operators == ()


def test_a_newer_ir_version_is_refused_with_the_one_that_is_supported(tmp_path):
    def change(model: onnx.ModelProto) -> None:
        model.ir_version = 99

    path = save(linear_model(document=quadruped_document(), change=change), tmp_path / "m.onnx")
    text = (
        r"is of a newer IR version than onnxruntime \S+ supports: found IR version 99, expected at most \d+\. Upgrade"
    )
    with pytest.raises(UnsupportedError, match=text):
        OnnxPolicy(load_policy(path))


def test_several_outputs_are_counted_together(tmp_path):
    document = quadruped_document()
    document["action"]["output"] = ["legs", "feet"]
    path = named(tmp_path, outputs={"legs": 8, "feet": 5})
    model = onnx.load_model(path)
    model.metadata_props.add(key="edgert.contract", value=json.dumps(document))
    assert "output 'legs, feet' of policy M has another size than the contract's action: found 12 joints in the " in (
        text := refusal(save(model, path))
    )
    assert "expected 8 + 5, as the model gives" in text


def test_an_input_of_another_network_is_told(tmp_path):
    text = refusal(named(tmp_path, outputs={"actions": 12}, inputs={"latent": [1, 16]}))
    assert (
        "inputs.latent.terms (what its 16 numbers are, in their order; those of another network need [[network]])"
        in text
    )
