"""OpenVINO's plug-in on the CPU: a real second provider, proven by node assignment and compared with the first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, linear_model, overhead, save

from edgert.device import Device, find_device
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.errors import ContractError, DeviceError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.engine import Engine, Node, Placement, open_engine
from edgert.policy.engine.opening import providers_here
from edgert.policy.engine.providers import OPENVINO
from edgert.policy.model import read_policy

pytestmark = pytest.mark.openvino
CPU = find_device("cpu")
ASKED = Placement(provider="openvino")


def odd_model() -> onnx.ModelProto:
    """Relu, an operator that OpenVINO does not have, Neg."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["obs"], ["a"], name="first"),
            helper.make_node("Binarizer", ["a"], ["b"], name="odd", domain="ai.onnx.ml", threshold=0.5),
            helper.make_node("Neg", ["b"], ["actions"], name="last"),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, 4])],
    )

    def change(model: onnx.ModelProto) -> None:
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))

    return finished(graph, None, change)


def mlp(widths: tuple[int, ...], rng: np.random.Generator) -> onnx.ModelProto:
    """Layers with ELU between them, as policies have."""
    nodes, weights, name = [], [], "obs"
    for layer, (dim, out) in enumerate(pairwise(widths)):
        last = layer == len(widths) - 2
        made = "actions" if last else f"x{layer}"
        weights.append(numpy_helper.from_array(rng.normal(size=(dim, out)).astype(np.float32) / dim**0.5, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [made if last else f"y{layer}"]))
        if not last:
            nodes.append(helper.make_node("Elu", [f"y{layer}"], [made]))
        name = made
    shapes = (["batch", widths[0]], ["batch", widths[-1]])
    inputs, outputs = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(("obs", "actions"), shapes, strict=True)
    )
    return finished(helper.make_graph(nodes, "policy", [inputs], [outputs], weights), None)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    model = mlp((48, 512, 256, 128, 12), np.random.default_rng(0))
    opened = open_engine(read_policy(save(model, tmp_path / "mlp.onnx")), CPU, ASKED)
    yield opened
    opened.close()


def test_the_cpu_has_both_providers() -> None:
    assert [each.name for each in providers_here(CPU)] == ["cpu", "openvino"]


def test_every_node_is_computed_by_openvino(engine: Engine) -> None:
    assert engine.provider == OPENVINO
    assert len(engine.nodes) == 7
    assert {node.provider for node in engine.nodes} == {OPENVINO}


def test_a_node_that_openvino_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    path = save(odd_model(), tmp_path / "odd.onnx")
    with pytest.raises(DeviceError) as caught:
        open_engine(read_policy(path), CPU, ASKED)
    assert str(caught.value) == (
        f"OpenVINOExecutionProvider computes only a part of policy {path}: found 1 of 3 nodes on CPUExecutionProvider: "
        "Binarizer 'odd', expected all of them on OpenVINOExecutionProvider. Allow it with --allow-cpu-nodes"
    )
    engine = open_engine(read_policy(path), CPU, Placement(provider="openvino", allow_cpu_nodes=True))
    assert [node for node in engine.nodes if node.provider == CPU_PROVIDER] == [Node(CPU_PROVIDER, "Binarizer", "odd")]
    (given,) = engine.run(["actions"], {"obs": np.array([[-1, 0.4, 0.6, 2]], np.float32)})
    assert given.tolist() == [[0, 0, -1, -1]]


def test_a_chip_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = read_policy(save(linear_model(dim=3, nact=2), tmp_path / "policy.onnx"))
    npu = Device(
        name="openvino:NPU", chip="AI Boost", vendor="Intel", memory_bytes=None, providers=(OPENVINO,), physics=()
    )
    with pytest.raises(DeviceError, match=r"no inference provider for openvino:NPU \(AI Boost\) is installed"):
        open_engine(file, npu, Placement())
    with pytest.raises(DeviceError, match=r"openvino:NPU \(AI Boost\) cannot run the network by provider 'openvino'"):
        open_engine(file, npu, ASKED)


def test_it_computes_in_float32_where_its_default_is_bfloat16(engine: Engine) -> None:
    """On CPUs with AMX OpenVINO takes bfloat16 by itself, whose error is a thousand times larger."""
    obs = np.random.default_rng(1).normal(size=(64, 48)).astype(np.float32)
    reference = open_engine(engine.file, CPU, Placement())  # type: ignore[attr-defined]
    (expected,), (given,) = (each.run(["actions"], {"obs": obs}) for each in (reference, engine))
    assert np.abs(given - expected).max() <= 1e-5 * np.abs(expected).max()


def test_half_precision_is_taken_when_it_is_asked_for(engine: Engine) -> None:
    obs = np.random.default_rng(1).normal(size=(64, 48)).astype(np.float32)
    half = open_engine(engine.file, CPU, Placement(provider="openvino", precision="fp16"))  # type: ignore[attr-defined]
    (expected,), (given,) = (each.run(["actions"], {"obs": obs}) for each in (engine, half))
    assert np.abs(given - expected).max() <= 2e-2 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["quadruped", "cartpole", "arm_reach"])
@pytest.mark.parametrize("nworld", [1, 5])
def test_bundled_policies_act_as_on_the_cpu(name: str, nworld: int) -> None:
    rng = np.random.default_rng(0)
    loaded = load_policy(name)
    with OnnxPolicy(loaded, nworld=nworld) as expected, OnnxPolicy(loaded, nworld=nworld, placement=ASKED) as given:
        assert {node.provider for node in given.nodes} == {OPENVINO}
        for _ in range(5):  # what was bound once has to be read anew at each run
            for key, array in expected.obs.items():
                array[:] = given.obs[key][:] = rng.normal(size=array.shape)
            given.action[:] = np.nan
            for policy in (expected, given):
                policy.act(policy.obs, policy.out)
            np.testing.assert_allclose(given.action, expected.action, rtol=1e-5, atol=1e-5)


def test_its_own_arrays_are_read_in_place_and_others_are_copied(tmp_path: Path) -> None:
    """It reads memory of its own alone; onnxruntime copies any other when it is bound, once, and never looks again."""
    loaded = load_policy("quadruped")
    obs = {"obs": np.zeros((1, 50), np.float32)}
    with OnnxPolicy(loaded, placement=ASKED) as policy, OnnxPolicy(loaded) as expected:
        for value in (0.5, 1.5):
            for array in (obs["obs"], expected.obs["obs"]):
                array[:] = value
            for each, arrays in ((policy, obs), (expected, expected.obs)):
                each.act(arrays, each.out)
            np.testing.assert_allclose(policy.action, expected.action, rtol=1e-5, atol=1e-5)
    strict = Placement(provider="openvino", zero_copy=True)
    with OnnxPolicy(loaded, placement=strict) as policy:
        policy.act(policy.obs, policy.out)
        with pytest.raises(ContractError) as caught:
            policy.act(obs, policy.out)
    assert str(caught.value) == (
        f"the array for 'obs' would be copied at each run of policy {loaded.file.path}: found float32[1, 50], which "
        "OpenVINOExecutionProvider does not use where it is, expected memory of the device, or the arrays that the "
        "policy made, as zero_copy asks"
    )


def test_arrays_outlive_the_policy_that_made_them() -> None:
    policy = OnnxPolicy(load_policy("quadruped"), placement=ASKED)
    array = policy.obs["obs"]
    array[:] = 3.0
    policy.close()
    del policy
    assert (array == 3.0).all()


def test_act_costs_little_more_than_the_bare_session() -> None:
    loaded = load_policy("quadruped")
    with OnnxPolicy(loaded, placement=ASKED) as policy:
        policy.act(policy.obs, policy.out)
        (bound,) = policy._members[0].network._own or []
        ratio, tail = overhead(lambda: policy.act(policy.obs, policy.out), partial(bound.func, *bound.args))  # type: ignore[attr-defined]
    print(f"OpenVINO: Policy.act {ratio:.2f} × bare, p99 {tail:.2f} ×")
    assert ratio <= 1.15
    assert tail <= 1.5
