"""Networks that take images: what shape they may have, and what goes into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, save

from edgert.errors import ContractError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.images import flat_shape, run_shape

CHANNELS, ROWS, COLUMNS = 3, 4, 6
CAMERA = {"name": "camera", "camera": "front", "image": "rgb", "height": ROWS, "width": COLUMNS, "scale": 1 / 255}
WEIGHTS = {
    "kernel": np.random.default_rng(0).normal(size=(2, CHANNELS, 3, 3)).astype(np.float32),
    "head": np.random.default_rng(1).normal(size=(4, 1)).astype(np.float32),
}


def document(camera: Any = CAMERA) -> dict[str, Any]:
    inputs = {"obs": {"terms": ["joint_pos", "joint_vel"]}}
    return {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["neck"], "default_pos": 0.0, "kp": 2.0, "kd": 0.2},
        "inputs": inputs if camera is None else inputs | {"camera": {"terms": [camera]}},
        "action": {"scale": 0.5},
    }


def network(shape: list[Any], contract: dict[str, Any] | None, batch: Any = 1) -> onnx.ModelProto:
    """As rsl_rl exports its CNN models: convolution, pooling, the vector beside it, and a head."""
    nodes = [
        helper.make_node("Reshape", ["camera", "shape"], ["x"]),
        helper.make_node("Conv", ["x", "kernel"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["y"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["seen"]),
        helper.make_node("Concat", ["obs", "seen"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "head"], ["actions"]),
    ]
    channels = shape[-3] if len(shape) == 4 or shape[0] == CHANNELS else 1
    kernel = WEIGHTS["kernel"][:, :channels] if channels in (1, 3) else np.ones((2, channels, 3, 3), np.float32)
    constants = {"shape": np.array([-1, channels, ROWS, COLUMNS]), "kernel": kernel, "head": WEIGHTS["head"]}
    graph = helper.make_graph(
        nodes,
        "policy",
        [
            helper.make_tensor_value_info("obs", TensorProto.FLOAT, [batch, 2]),
            helper.make_tensor_value_info("camera", TensorProto.FLOAT, shape),
        ],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return finished(graph, contract)


def expected(obs: np.ndarray, camera: np.ndarray) -> np.ndarray:
    """The network, worked out from its weights."""
    padded = np.pad(camera, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # (n, c, rows, columns, 3, 3)
    kernel = WEIGHTS["kernel"][:, : camera.shape[1]]
    seen = np.einsum("nchwij,kcij->nkhw", windows, kernel).mean(axis=(2, 3))
    return np.concatenate((obs, seen), axis=1) @ WEIGHTS["head"]


@pytest.mark.parametrize(("shape", "batch"), [([1, 3, 4, 6], 1), (["n", 3, "h", "w"], "n"), ([4, 3, 4, 6], 4)])
def test_worlds_give_their_pictures_row_by_row(tmp_path: Path, shape: list[Any], batch: Any) -> None:
    path = save(network(shape, document(), batch), tmp_path / "policy.onnx")
    rng = np.random.default_rng(2)
    with OnnxPolicy(load_policy(path), nworld=4) as policy:
        assert policy.runs == (4 if batch == 1 else 1)
        assert {name: array.shape for name, array in policy.obs.items()} == {"obs": (4, 2), "camera": (4, 72)}
        for array in policy.obs.values():
            array[:] = rng.normal(size=array.shape)
        policy.act(policy.obs, policy.out)
        wanted = expected(policy.obs["obs"], policy.obs["camera"].reshape(4, 3, 4, 6))
        np.testing.assert_allclose(policy.action, wanted, rtol=1e-4, atol=1e-5)


DEPTH = CAMERA | {"image": "depth", "scale": 1.0}


@pytest.mark.parametrize(
    ("shape", "camera"),
    [([1, 4, 6], DEPTH), ([3, 4, 6], CAMERA), ([1, 1, 4, 6], DEPTH), (["n", "h", "w"], DEPTH)],
)
def test_an_image_may_lack_the_axis_of_the_batch_or_of_its_one_channel(
    tmp_path: Path, shape: list[Any], camera: dict[str, Any]
) -> None:
    path = save(network(shape, document(camera)), tmp_path / "policy.onnx")
    with OnnxPolicy(load_policy(path)) as policy:
        policy.obs["camera"][:] = np.arange(policy.obs["camera"].size)
        policy.act(policy.obs, policy.out)
        channels = 3 if camera is CAMERA else 1
        wanted = expected(policy.obs["obs"], policy.obs["camera"].reshape(1, channels, 4, 6))
        np.testing.assert_allclose(policy.action, wanted, rtol=1e-4)


def test_the_history_of_a_picture_is_more_channels_the_oldest_first(tmp_path: Path) -> None:
    contract = document(CAMERA | {"history": 2})
    loaded = load_policy(save(network([1, 6, 4, 6], contract), tmp_path / "policy.onnx"))
    assert loaded.contract.inputs["camera"].image == (6, 4, 6)
    with OnnxPolicy(loaded) as policy:
        assert policy.obs["camera"].shape == (1, 144)


def test_a_scan_of_the_ground_may_be_an_image_too(tmp_path: Path) -> None:
    scan = {"name": "height_scan", "size": [0.5, 0.3], "resolution": 0.1}
    loaded = load_policy(save(network([1, 1, 4, 6], document(scan)), tmp_path / "policy.onnx"))
    with OnnxPolicy(loaded) as policy:
        assert policy.obs["camera"].shape == (1, 24)


@pytest.mark.parametrize(
    ("shape", "image", "flat"),
    [
        ((1, 8), None, (1, 8)),
        ((), None, ()),
        ((1, 3, 4, 6), None, None),
        ((1, 3, 4, 6), (3, 4, 6), (1, 72)),
        (("n", None, None, None), (3, 4, 6), ("n", 72)),
        ((1, 4, 6, 3), (3, 4, 6), None),
        ((1, 4, 6), (1, 4, 6), (1, 24)),
        ((2, 4, 6), (1, 4, 6), (2, 24)),
        ((3, 4, 6), (3, 4, 6), (72,)),
        ((1, 4, 6), (3, 4, 6), None),
        ((1, 1, 3, 4, 6), (3, 4, 6), None),
    ],
)
def test_shapes(shape: Any, image: Any, flat: Any) -> None:
    assert flat_shape(shape, image) == flat


def test_the_shape_of_a_run() -> None:
    assert run_shape(("n", 3, 4, 6), (3, 4, 6), 5) == (5, 3, 4, 6)
    assert run_shape(("n", 4, 6), (1, 4, 6), 5) == (5, 4, 6)
    assert run_shape((1, 4, 6), (1, 4, 6), 1) == (1, 4, 6)
    assert run_shape((3, 4, 6), (3, 4, 6), 1) == (3, 4, 6)


def refusal(path: Path) -> str:
    with pytest.raises(ContractError) as caught:
        load_policy(path)
    return str(caught.value).replace(str(path), "M")


def test_an_image_that_nothing_describes_is_asked_for(tmp_path: Path) -> None:
    path = save(network([1, 3, 4, 6], document(None)), tmp_path / "policy.onnx")
    assert (
        "expected inputs.camera.terms (which camera its image of 3 × 4 × 6 is from: "
        '{ name = "camera", camera = "…", image = "rgb", height = 4, width = 6 }). Write that into'
    ) in refusal(path)
    path = save(network([1, 1, 4, "w"], document(None)), tmp_path / "policy.onnx")
    assert 'its image of 1 × 4 × … is from: { name = "camera", camera = "…", image = "depth", height = 4' in refusal(
        path
    )


@pytest.mark.parametrize(
    ("shape", "camera", "text"),
    [
        (
            [1, 4, 6, 3],
            CAMERA,
            "input 'camera' of policy M takes no image such as the contract describes: found [1, 4, 6, 3], expected "
            "[batch, 3, 4, 6]: channels, rows, columns. Correct height, width, image or history of its term",
        ),
        (
            [1, 1, 4, 6],
            CAMERA,
            "takes no image such as the contract describes: found [1, 1, 4, 6], expected [batch, 3,",
        ),
        ([1, 3, 4, 6], CAMERA | {"width": 8}, "found [1, 3, 4, 6], expected [batch, 3, 4, 8]"),
        (
            [1, 3, 4, 6],
            {"name": "constant", "value": [0.0] * 72},
            "input 'camera' of policy M has the wrong rank: found [1, 3, 4, 6], an image or a sequence, expected "
            "[batch, size]",
        ),
    ],
)
def test_an_image_of_another_shape_is_refused(tmp_path: Path, shape: list[int], camera: Any, text: str) -> None:
    assert text in refusal(save(network(shape, document(camera)), tmp_path / "policy.onnx"))
