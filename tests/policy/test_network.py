"""A network without a contract, and the outputs of a policy besides its action."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import finished, linear_model, quadruped_document, save

from edgert.device import find_device
from edgert.errors import ContractError, UnsupportedError
from edgert.policy import OnnxModel, OnnxNetwork, OnnxPolicy, load_policy
from edgert.policy.model import read_policy
from edgert.policy.onnx_model import MAX_WIDTH

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(50, 12)).astype(np.float32)


def many_outputs() -> onnx.ModelProto:
    """A policy that also gives a value, a log-probability and an index, and outputs without a number a world."""
    nodes = [
        helper.make_node("Gemm", ["obs", "w"], ["actions"]),
        helper.make_node("ReduceMean", ["obs"], ["value"], axes=[1]),
        helper.make_node("ReduceSum", ["actions", "one"], ["log_prob"], keepdims=0),
        helper.make_node("ArgMax", ["obs"], ["mode"], axis=1, keepdims=0),
        helper.make_node("Greater", ["obs", "zero"], ["flag"]),
        helper.make_node("Cast", ["value"], ["text"], to=TensorProto.STRING),
        helper.make_node("SequenceConstruct", ["obs"], ["list"]),
        helper.make_node("ReduceMean", ["obs"], ["scalar"], keepdims=0),
        helper.make_node("Transpose", ["value"], ["row"]),
        helper.make_node("ReduceMax", ["flag_number"], ["any"], axes=[0], keepdims=0),
        helper.make_node("Cast", ["any"], ["some"], to=TensorProto.BOOL),
        helper.make_node("Compress", ["obs", "some"], ["positive"], axis=1),
    ]
    nodes.insert(9, helper.make_node("Cast", ["flag"], ["flag_number"], to=TensorProto.FLOAT))
    number, dims = TensorProto.FLOAT, ["batch", 12]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", number, ["batch", 50])],
        [
            helper.make_tensor_value_info("value", number, ["batch", 1]),
            helper.make_tensor_value_info("actions", number, dims),
            helper.make_tensor_value_info("log_prob", number, ["batch"]),
            helper.make_tensor_value_info("mode", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, ["batch", 50]),
            helper.make_tensor_value_info("text", TensorProto.STRING, ["batch", 1]),
            helper.make_tensor_sequence_value_info("list", number, ["batch", 50]),
            helper.make_tensor_value_info("scalar", number, []),
            helper.make_tensor_value_info("row", number, [1, "batch"]),
            helper.make_tensor_value_info("positive", number, ["batch", None]),
        ],
        [
            numpy_helper.from_array(WEIGHT, "w"),
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.float32(0.0), "zero"),
        ],
    )
    return finished(graph, quadruped_document())


@pytest.mark.parametrize("nworld", [2, 7])
def test_every_output_that_has_a_row_a_world_is_computed(tmp_path: Path, nworld: int) -> None:
    model = many_outputs()
    path = save(model, tmp_path / "policy.onnx")
    obs = RNG.normal(size=(nworld, 50)).astype(np.float32)
    with (
        OnnxPolicy(load_policy(path), "cpu", nworld, every_output=True) as every,
        OnnxPolicy(load_policy(path), "cpu", nworld) as plain,
    ):
        assert set(every.out) == {"actions", "value", "log_prob", "mode"}
        assert (set(plain.out), plain.left_out) == ({"actions"}, ())
        assert every.left_out == (
            "flag: tensor(bool) is no tensor of numbers",
            "text: tensor(string) is no tensor of numbers",
            "list: seq(tensor(float)) is no tensor of numbers",
            f"scalar: found [], not [{nworld}, …]",
            f"row: found [1, {nworld}], not [{nworld}, …]",
            "positive: the model does not fix its size: ['batch', None]",
        )
        for policy in (every, plain):
            policy.obs["obs"][:] = obs
            policy.action[:] = np.nan
            policy.act(policy.obs, policy.out)
        np.testing.assert_array_equal(every.action, plain.action)  # bit for bit
        names = ["value", "actions", "log_prob", "mode"]
        for name, expected in zip(names, ReferenceEvaluator(model).run(names, {"obs": obs}), strict=True):
            assert every.out[name].dtype == expected.dtype
            np.testing.assert_allclose(every.out[name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("width", "declared", "reason"),
    [
        (0, ["batch", 0], "found 0 numbers a row, not 1 to 1048576"),
        (MAX_WIDTH + 1, ["batch", MAX_WIDTH + 1], "found 1048577 numbers a row, not 1 to 1048576"),
        (3, [7, 3], "found [4, 3], but the model says [7, 3]"),
        (3, ["batch", 5], "found [4, 3], but the model says ['batch', 5]"),
    ],
)
def test_outputs_that_no_recording_could_hold_are_left_out(
    tmp_path: Path, width: int, declared: list[int | str], reason: str
) -> None:
    """Whatever else a model gives, its action is computed."""
    model = linear_model(bias=2.0, document=quadruped_document())
    model.graph.initializer.append(numpy_helper.from_array(np.array([width]), "width"))
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "first"))
    model.graph.node.append(helper.make_node("Shape", ["obs"], ["sizes"]))
    model.graph.node.append(helper.make_node("Gather", ["sizes", "first"], ["batch"]))
    model.graph.node.append(helper.make_node("Concat", ["batch", "width"], ["shape"], axis=0))
    model.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["odd"]))
    model.graph.output.append(helper.make_tensor_value_info("odd", TensorProto.FLOAT, declared))
    path = save(model, tmp_path / "policy.onnx")
    with OnnxPolicy(load_policy(path), "cpu", 4, every_output=True) as policy:
        assert policy.left_out == (f"odd: {reason}",)
        assert set(policy.out) == {"actions"}
        policy.act(policy.obs, policy.out)
        assert (policy.action == 2.0).all()


def test_own_mappings_need_not_hold_the_other_outputs(tmp_path: Path) -> None:
    path = save(many_outputs(), tmp_path / "policy.onnx")
    with OnnxPolicy(load_policy(path), every_output=True) as policy:
        obs = {"obs": np.ones((1, 50), np.float32)}
        action, value = np.full((1, 12), np.nan, np.float32), np.full((1, 1), np.nan, np.float32)
        policy.act(obs, {"actions": action})
        np.testing.assert_allclose(action[0], WEIGHT.sum(axis=0), rtol=1e-4, atol=1e-4)
        policy.act(obs, {"actions": action, "value": value})
        assert value[0, 0] == 1.0
        with pytest.raises(ContractError, match="the array for 'actions' does not fit the policy: found NoneType"):
            policy.act(obs, {"value": value})


def test_a_network_needs_no_contract(tmp_path: Path) -> None:
    file = read_policy(save(linear_model(dim=3, nact=2, weight=np.eye(3, 2)), tmp_path / "policy.onnx"))
    model = OnnxModel(file, find_device("cpu"))
    assert (str(model.inputs["obs"]), str(model.outputs["actions"])) == ("obs['batch', 3]", "actions['batch', 2]")
    obs = model.arrays({"obs": 3}, 4)
    out, left_out = model.probe(obs, ("actions",))
    assert left_out == ()
    with OnnxNetwork(model, obs, out) as network:
        assert (network.nworld, network.provider) == (4, "CPUExecutionProvider")
        network.obs["obs"][:] = np.arange(12).reshape(4, 3)
        network.out["actions"][:] = np.nan
        network.act(network.obs, network.out)
        np.testing.assert_array_equal(network.out["actions"], [[0, 1], [3, 4], [6, 7], [9, 10]])
    with pytest.raises(UnsupportedError, match="is closed"):
        network.act(network.obs, network.out)


def test_an_action_that_is_no_array_of_numbers_is_refused(tmp_path: Path) -> None:
    document = quadruped_document()
    document["action"]["output"] = "text"
    path = tmp_path / "policy.onnx"
    model = many_outputs()
    del model.metadata_props[:]
    save(finished(model.graph, document), path)
    with pytest.raises(ContractError) as caught:
        OnnxPolicy(load_policy(path))
    assert str(caught.value) == (
        f"output 'text' of policy {path} is no array of numbers: found tensor(string), expected a tensor of floats"
    )


def test_an_input_without_a_batch_axis_serves_one_world_after_the_other(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["obs"], ["actions"])],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [3])],
    )
    path = save(finished(graph, None), tmp_path / "policy.onnx")
    model = OnnxModel(read_policy(path), find_device("cpu"))
    obs = model.arrays({"obs": 3}, 2)
    obs["obs"][:] = [[1.0, -2.0, 3.0], [-4.0, 5.0, 6.0]]
    out, _ = model.probe(obs, ["actions"])
    with OnnxNetwork(model, obs, out) as network:
        assert network.runs == 2
        network.act(obs, out)
        assert out["actions"].tolist() == [[1.0, 0.0, 3.0], [0.0, 5.0, 6.0]]
