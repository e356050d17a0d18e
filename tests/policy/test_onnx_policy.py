"""The network on ONNX Runtime: what it computes, what it refuses, what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import finished, linear_model, overhead, quadruped_document, save

from edgert.device import find_device
from edgert.errors import ContractError, IntegrityError, UnknownNameError, UnsupportedError
from edgert.policy import OnnxPolicy, load_policy


def opened(model: onnx.ModelProto, folder: Path, nworld: int = 1) -> OnnxPolicy:
    return OnnxPolicy(load_policy(str(save(model, folder / "policy.onnx"))), find_device("cpu"), nworld)


@pytest.mark.parametrize("nworld", [1, 7])
def test_equals_the_onnx_reference(tmp_path: Path, nworld: int) -> None:
    rng = np.random.default_rng(0)
    model = linear_model(weight=rng.normal(size=(50, 12)), bias=rng.normal(size=12), document=quadruped_document())
    with opened(model, tmp_path, nworld) as policy:
        policy.obs["obs"][:] = rng.normal(size=(nworld, 50))
        policy.action[:] = np.nan
        policy.act(policy.obs, policy.out)
        (expected,) = ReferenceEvaluator(model).run(None, {"obs": policy.obs["obs"]})
        np.testing.assert_allclose(policy.action, expected, rtol=1e-5, atol=1e-5)


def test_other_arrays_are_bound_without_a_copy(tmp_path: Path) -> None:
    weight = np.eye(50, 12)
    with opened(linear_model(weight=weight, document=quadruped_document()), tmp_path) as policy:
        obs, out = {"obs": np.zeros((1, 50), np.float32)}, {"actions": np.full((1, 12), np.nan, np.float32)}
        for value in (1.0, 2.0):
            obs["obs"][:] = value
            policy.act(obs, out)
            assert (out["actions"] == value).all()
        policy.obs["obs"][:] = 3.0
        policy.act(policy.obs, policy.out)
        assert (policy.action == 3.0).all()
        assert (out["actions"] == 2.0).all()


def test_an_array_replaced_in_the_same_mapping_is_seen(tmp_path: Path) -> None:
    with opened(linear_model(weight=np.eye(50, 12), document=quadruped_document()), tmp_path) as policy:
        obs, out = {"obs": np.ones((1, 50), np.float32)}, {"actions": np.full((1, 12), np.nan, np.float32)}
        policy.act(obs, out)
        obs["obs"] = np.full((1, 50), 2.0, np.float32)
        policy.act(obs, out)
        assert (out["actions"] == 2.0).all()
        with pytest.raises(TypeError):
            policy.obs["obs"] = obs["obs"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((1, 49), np.float32), r"float32\[1, 49\]"),
        (np.zeros((1, 50)), r"float64\[1, 50\]"),
        (np.zeros((1, 100), np.float32)[:, ::2], r"float32\[1, 50\]"),
    ],
)
def test_unfit_arrays_are_refused(tmp_path: Path, array: np.ndarray, found: str) -> None:
    expected = rf"the array for 'obs' does not fit the policy: found {found}"
    model = linear_model(document=quadruped_document())
    with opened(model, tmp_path) as policy, pytest.raises(ContractError, match=expected):
        policy.act({"obs": array}, policy.out)


def test_outputs_that_nobody_may_write_are_refused(tmp_path: Path) -> None:
    with opened(linear_model(document=quadruped_document()), tmp_path) as policy:
        fixed = np.frombuffer(bytes(48), np.float32).reshape(1, 12)
        with pytest.raises(ContractError, match=r"found float32\[1, 12\], expected writeable C-contiguous float32"):
            policy.act(policy.obs, {"actions": fixed})
        with pytest.raises(ContractError, match="found list"):
            policy.act({"obs": [[0.0] * 50]}, policy.out)


def test_a_closed_policy_says_so(tmp_path: Path) -> None:
    policy = opened(linear_model(document=quadruped_document()), tmp_path)
    policy.close()
    with pytest.raises(UnsupportedError, match="is closed"):
        policy.act(policy.obs, policy.out)


def test_size_unlike_the_contract_shows_the_sum(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        opened(linear_model(dim=48, document=quadruped_document()), tmp_path)
    assert str(caught.value) == (
        f"input 'obs' of policy {tmp_path / 'policy.onnx'} has another size than the contract's terms: found the "
        "contract has 50 = base_lin_vel 3 + base_ang_vel 3 + projected_gravity 3 + command 3 + joint_pos 12 + "
        "joint_vel 12 + last_action 12 + phase 2, expected 48, as the model takes. Add, remove or resize terms in "
        "policy.toml"
    )


def test_action_size_unlike_the_contract_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"output 'actions' .* found 12 joints in the contract, expected 11"):
        opened(linear_model(nact=11, document=quadruped_document()), tmp_path)


def test_unlike_input_names_are_refused(tmp_path: Path) -> None:
    document = quadruped_document()
    document["inputs"] = {"observation": document["inputs"]["obs"]}
    with pytest.raises(ContractError, match=r"found contract: observation, expected the model's obs\[batch, 50\]"):
        opened(linear_model(document=document), tmp_path)


def test_missing_output_is_refused(tmp_path: Path) -> None:
    document = quadruped_document()
    document["action"]["output"] = "mu"
    with pytest.raises(ContractError, match="has no output 'mu': found actions"):
        opened(linear_model(document=document), tmp_path)


@pytest.mark.parametrize(("batch", "nworld", "runs"), [(1, 1, 1), (1, 6, 6), (2, 6, 3), (6, 6, 1), ("batch", 6, 1)])
def test_a_fixed_batch_runs_as_often_as_it_takes(batch: int | str, nworld: int, runs: int, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).normal(size=(50, 12))
    values = np.random.default_rng(1).normal(size=(nworld, 50)).astype(np.float32)
    with opened(
        linear_model(batch=batch, weight=weight, document=quadruped_document()), tmp_path, nworld=nworld
    ) as policy:
        assert policy.runs == runs
        policy.obs["obs"][:] = values
        policy.action[:] = np.nan
        policy.act(policy.obs, policy.out)
        np.testing.assert_allclose(policy.action, values @ weight, rtol=1e-4, atol=1e-4)
        other = {"actions": np.full((nworld, 12), np.nan, np.float32)}
        policy.act({"obs": values}, other)
        np.testing.assert_array_equal(other["actions"], policy.action)


@pytest.mark.parametrize("batch", [4, 12])
def test_a_fixed_batch_that_does_not_divide_the_worlds_is_refused(batch: int, tmp_path: Path) -> None:
    with pytest.raises(
        ContractError, match=f"has a fixed batch: found {batch}, expected 6, a divisor of it, or a dynamic one"
    ):
        opened(linear_model(batch=batch, document=quadruped_document()), tmp_path, nworld=6)


def test_integer_input_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["obs"], ["x"], to=TensorProto.FLOAT),
            helper.make_node("Slice", ["x", "from", "to", "axis"], ["actions"]),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.INT64, [1, 50])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, 12])],
        [numpy_helper.from_array(np.array([value]), name) for name, value in (("from", 0), ("to", 12), ("axis", 1))],
    )
    with pytest.raises(ContractError, match=r"found tensor\(int64\), expected one of tensor\(float\)"):
        opened(finished(graph, quadruped_document()), tmp_path)


def counter(kind: int, shape: list[int | str], document: dict[str, Any]) -> onnx.ModelProto:
    """actions [1, 12] of 0.5 for each tick, of an input of integers."""
    nodes = [
        helper.make_node("Cast", ["obs"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["count", "column"], ["each"]),
        helper.make_node("Mul", ["each", "half"], ["actions"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", kind, shape)],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", 12])],
        [
            numpy_helper.from_array(np.array([-1, 1]), "column"),
            numpy_helper.from_array(np.full((1, 12), 0.5, np.float32), "half"),
        ],
    )
    return finished(graph, document)


def test_an_input_without_a_batch_may_give_a_row(tmp_path: Path) -> None:
    document = quadruped_document()
    document["inputs"]["obs"] = {"terms": ["step_count"]}
    with opened(counter(TensorProto.INT64, [1], document), tmp_path, 3) as policy:
        policy.obs["obs"][:, 0] = [1, 2, 4]
        policy.act(policy.obs, policy.out)
        assert policy.runs == 3
        assert policy.action[:, 0].tolist() == [0.5, 1.0, 2.0]
        assert policy.action.shape == (3, 12)


@pytest.mark.parametrize(
    ("kind", "name", "term", "found"),
    [
        (TensorProto.INT64, "int64", {"scale": 0.3}, "scale 0.3, offset 0"),
        (TensorProto.INT64, "int64", {"offset": 0.5}, "scale 1, offset 0.5"),
        (TensorProto.INT32, "int32", {"scale": -215.0}, "scale -215, offset 0"),
        (TensorProto.INT32, "int32", {"clip": [0.0, 2.5]}, "scale 1, offset 0"),
    ],
)
def test_numbers_that_no_integer_holds_are_refused(
    kind: int, name: str, term: dict[str, Any], found: str, tmp_path: Path
) -> None:
    document = quadruped_document()
    document["inputs"]["obs"] = {"terms": [{"name": "step_count"} | term]}
    with pytest.raises(ContractError) as caught:
        opened(counter(kind, ["batch", 1], document), tmp_path)
    assert str(caught.value) == (
        f"term 'step_count' does not fit input 'obs' of policy {tmp_path / 'policy.onnx'}, which takes whole numbers: "
        f"found {found}, expected whole ones that leave 10,000,000 ticks within {name}. Correct the term in policy.toml"
    )


def test_unknown_operator_is_refused_in_one_line(tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "NoSuchOperator"

    with pytest.raises(IntegrityError, match=r"onnxruntime .* refuses policy") as caught:
        opened(linear_model(document=quadruped_document(), change=change), tmp_path)
    assert "\n" not in str(caught.value)


def test_too_new_opset_is_refused(tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 9999

    text = r"is of a newer opset than onnxruntime .* supports: found opset 9999 of ai\.onnx, expected at most \d+\."
    with pytest.raises(UnsupportedError, match=text):
        opened(linear_model(document=quadruped_document(), change=change), tmp_path)


def test_unknown_device_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown device 'cuda:0': expected cpu"):
        find_device("cuda:0")


def bare(path: Path) -> tuple[onnxruntime.InferenceSession, object]:
    """The same model with the same settings and binding, without edgert."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    obs, out = np.zeros((1, 50), np.float32), np.zeros((1, 12), np.float32)
    binding = session.io_binding()
    binding.bind_input("obs", "cpu", 0, np.float32, obs.shape, obs.ctypes.data)
    binding.bind_output("actions", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.kept = (obs, out)  # type: ignore[attr-defined]
    return session, binding


def test_act_costs_little_more_than_the_bare_session() -> None:
    loaded = load_policy("quadruped")
    with OnnxPolicy(loaded, find_device("cpu")) as policy:
        session, binding = bare(loaded.file.path)
        ratio, tail = overhead(lambda: policy.act(policy.obs, policy.out), lambda: session.run_with_iobinding(binding))
    print(f"Policy.act {ratio:.2f} × bare run_with_iobinding, p99 {tail:.2f} ×")
    assert ratio <= 1.15
    assert tail <= 1.5
