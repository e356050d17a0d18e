"""Networks with memory: an LSTM and a GRU as rsl_rl exports them, and a counter by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import linear_model, quadruped_document, save

from edgert.contract.recurrent import state_pairs
from edgert.errors import ContractError
from edgert.policy import OnnxPolicy, load_policy

HIDDEN = 8


def memory_model(
    kind: str, *, document: dict[str, Any] | None = None, batch: Any = 1, hidden: Any = HIDDEN
) -> onnx.ModelProto:
    """obs[1, 50], h_in[1, 1, H] (and c_in) → actions[1, 12], h_out (and c_out), with random weights."""
    rng = np.random.default_rng(0)
    gates = {"LSTM": 4, "GRU": 3}[kind]
    tensors = {
        "w": rng.normal(size=(1, gates * HIDDEN, 50)) * 0.3,
        "r": rng.normal(size=(1, gates * HIDDEN, HIDDEN)) * 0.3,
        "head": rng.normal(size=(HIDDEN, 12)) * 0.2,
    }
    states = ["h", "c"][: 2 if kind == "LSTM" else 1]
    graph = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["obs", "zero"], ["x"]),
            helper.make_node(
                kind, ["x", "w", "r", "", "", *(f"{s}_in" for s in states)], ["", *(f"{s}_out" for s in states)],
                hidden_size=HIDDEN,
            ),
            helper.make_node("Squeeze", ["h_out", "zero"], ["y"]),
            helper.make_node("MatMul", ["y", "head"], ["actions"]),
        ],
        "policy",
        [
            helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, 50]),
            *(helper.make_tensor_value_info(f"{s}_in", TensorProto.FLOAT, [1, batch, hidden]) for s in states),
        ],
        [
            helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, 12]),
            *(helper.make_tensor_value_info(f"{s}_out", TensorProto.FLOAT, [1, batch, hidden]) for s in states),
        ],
        [
            *(numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()),
            numpy_helper.from_array(np.array([0]), "zero"),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    if document is not None:
        import json

        entry = model.metadata_props.add()
        entry.key, entry.value = "edgert.contract", json.dumps(document)
    return model


def without_output() -> dict[str, Any]:
    """A contract that leaves the action's output to be found."""
    document = quadruped_document()
    del document["action"]["output"]
    return document


@pytest.mark.parametrize("batch", [1, "batch"])
@pytest.mark.parametrize("nworld", [1, 3])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_each_world_remembers_its_own(kind: str, nworld: int, batch: Any, tmp_path: Path) -> None:
    """Against the reference evaluator of onnx, one world at a time, with a reset of one of them in between."""
    model = memory_model(kind, document=without_output(), batch=batch)
    oracle = ReferenceEvaluator(model)
    names = [name.name for name in model.graph.input][1:]
    states = [{name: np.zeros((1, 1, HIDDEN), np.float32) for name in names} for _ in range(nworld)]
    rng = np.random.default_rng(1)
    with OnnxPolicy(load_policy(save(model, tmp_path / "m.onnx")), nworld=nworld) as policy:
        assert policy.contract.action.outputs == ("actions",)
        assert policy.contract.provenance["recurrent.h_in"] == "model: names of its inputs and outputs"
        assert policy.runs == nworld
        for step in range(6):
            if step == 4:
                policy.reset(np.arange(nworld) == nworld - 1)
                states[-1] = {name: np.zeros((1, 1, HIDDEN), np.float32) for name in names}
            obs = rng.normal(size=(nworld, 50)).astype(np.float32)
            policy.obs["obs"][:] = obs
            policy.act(policy.obs, policy.out)
            for world in range(nworld):
                wanted, *after = oracle.run(None, {"obs": obs[world : world + 1], **states[world]})
                states[world] = dict(zip(names, after, strict=True))
                np.testing.assert_allclose(policy.action[world], wanted[0], atol=1e-5)


def test_a_reset_gives_the_first_action_again(tmp_path: Path) -> None:
    with OnnxPolicy(load_policy(save(memory_model("LSTM", document=without_output()), tmp_path / "m.onnx"))) as policy:
        policy.obs["obs"][:] = 1.0
        policy.act(policy.obs, policy.out)
        first = policy.action.copy()
        policy.act(policy.obs, policy.out)
        assert (policy.action != first).any()
        policy.reset()
        policy.act(policy.obs, policy.out)
        np.testing.assert_array_equal(policy.action, first)


def test_states_are_no_outputs_to_record(tmp_path: Path) -> None:
    loaded = load_policy(save(memory_model("LSTM", document=without_output()), tmp_path / "m.onnx"))
    with OnnxPolicy(loaded, every_output=True) as policy:
        assert set(policy.out) == {"actions"}
        assert policy.left_out == ()


@pytest.mark.parametrize(
    ("inputs", "outputs", "pairs"),
    [
        (["obs", "h_in", "c_in"], ["actions", "h_out", "c_out"], {"h_in": "h_out", "c_in": "c_out"}),
        (["obs", "memory.lstm_h.in"], ["a", "memory.lstm_h.out"], {"memory.lstm_h.in": "memory.lstm_h.out"}),
        (["obs", "state.in"], ["a", "state.out"], {"state.in": "state.out"}),
        (["obs", "check_in"], ["a"], {}),
        (["obs"], ["a", "h_out"], {}),
    ],
)
def test_memory_is_known_by_its_names(inputs: list[str], outputs: list[str], pairs: dict[str, str]) -> None:
    assert state_pairs(inputs, outputs) == pairs


def test_memory_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    document = without_output() | {"recurrent": {"h_in": "c_out", "c_in": "c_out"}}
    with pytest.raises(
        ContractError, match=r"key 'recurrent.h_in' is wrong: found 'c_out', expected an output of its own"
    ):
        load_policy(save(memory_model("LSTM", document=document), tmp_path / "a.onnx"))
    document = quadruped_document() | {"recurrent": {"h_in": "actions"}}
    with pytest.raises(ContractError, match=r"output 'actions' of policy .* is no next value of its input 'h_in'"):
        OnnxPolicy(load_policy(save(memory_model("GRU", document=document), tmp_path / "b.onnx")))
    document = quadruped_document() | {"recurrent": {"h_in": "nothing"}}
    with pytest.raises(ContractError, match=r"has no output 'nothing', which its memory needs: found actions, h_out"):
        OnnxPolicy(load_policy(save(memory_model("GRU", document=document), tmp_path / "c.onnx")))
    open_model = memory_model("GRU", document=without_output(), batch="n", hidden="h")
    loaded = load_policy(save(open_model, tmp_path / "d.onnx"))
    with pytest.raises(ContractError, match=r"input 'h_in' of policy .* cannot be the state of a network with memory"):
        OnnxPolicy(loaded)
    document = quadruped_document() | {"recurrent": {"obs": "h_out"}}
    with pytest.raises(ContractError, match=r"'recurrent.obs' is wrong: found the name of an observation"):
        load_policy(save(linear_model(document=document), tmp_path / "e.onnx"))


def test_a_network_with_memory_runs_and_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from edgert.cli.main import run

    path = str(save(memory_model("LSTM", document=without_output()), tmp_path / "m.onnx"))
    record = ["--record", str(tmp_path / "r")]
    assert run(["run", "policy", path, "--seconds", "0.3", "--no-real-time", *record]) in (0, 3)
    assert run(["run", "rollouts", path, "--num-envs", "3", "--seconds", "0.3", *record]) == 0
    assert "it runs 3 times for one step of all" in capsys.readouterr().err
    assert run(["episode", "replay", str(tmp_path / "r")]) == 0
    assert "every action is the same, bit for bit" in capsys.readouterr().out
