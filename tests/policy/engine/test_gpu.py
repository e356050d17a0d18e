"""CUDA and TensorRT, where a GPU is at hand: `pytest -m gpu`. Not yet run on one.

What they prove there: every node on the provider, agreement with the CPU, arrays of torch and Warp bound where they lie
in the GPU's memory, a shared stream, and that TensorRT's second start takes what the first one built.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import linear_model, quadruped_document, save

from edgert.device import Device, find_device
from edgert.errors import ContractError, EdgertError
from edgert.policy import LoadedPolicy, OnnxPolicy, load_policy
from edgert.policy.agreement import compare
from edgert.policy.engine import Placement

pytestmark = pytest.mark.gpu
NAMES = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}


@pytest.fixture(scope="module")
def gpu() -> Device:
    try:
        return find_device("cuda:0")
    except EdgertError as error:
        pytest.skip(str(error))


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPolicy:
    weight = np.random.default_rng(0).normal(size=(50, 12))
    return load_policy(save(linear_model(weight=weight, document=quadruped_document()), tmp_path / "policy.onnx"))


@pytest.mark.parametrize("provider", NAMES)
@pytest.mark.parametrize("nworld", [1, 64])
def test_every_node_is_on_the_gpu_and_agrees_with_the_cpu(
    provider: str, nworld: int, gpu: Device, tmp_path: Path
) -> None:
    loaded = load_policy("quadruped")
    placement = Placement(provider=provider, caches=tmp_path)
    with OnnxPolicy(loaded, gpu, nworld, placement=placement) as given, OnnxPolicy(loaded, nworld=nworld) as expected:
        assert {node.provider for node in given.nodes} == {NAMES[provider]}
        agreement = compare(given, expected)
        assert agreement.error < 1e-4, agreement.text()


def _torch(*shape: int) -> Any:
    return pytest.importorskip("torch").zeros(*shape, device="cuda:0")


def _warp(*shape: int) -> Any:
    return pytest.importorskip("warp").zeros(shape, dtype=float, device="cuda:0")


@pytest.mark.parametrize("make", [_torch, _warp])
@pytest.mark.parametrize("provider", NAMES)
def test_arrays_in_the_memory_of_the_gpu_are_used_where_they_are(
    provider: str, make: Any, gpu: Device, loaded: LoadedPolicy, tmp_path: Path
) -> None:
    placement = Placement(provider=provider, caches=tmp_path, zero_copy=True)
    with OnnxPolicy(loaded, gpu, 64, placement=placement) as policy, OnnxPolicy(loaded, nworld=64) as expected:
        obs, out = {"obs": make(64, 50)}, {"actions": make(64, 12)}
        for value in (1.0, 2.0):  # the second one is seen without binding anew
            obs["obs"].fill_(value)
            policy.act(obs, out)
            expected.obs["obs"][:] = value
            expected.act(expected.obs, expected.out)
            given = out["actions"].numpy() if make is _warp else out["actions"].cpu().numpy()
            np.testing.assert_allclose(given, expected.action, rtol=1e-4, atol=1e-4)
        (run,) = policy._members[0].network._other[0]
        pointers = {each.pointer for each in run.args[0].buffers}  # type: ignore[attr-defined]
        address = "ptr" if make is _warp else "data_ptr"
        places = [getattr(array, address) for array in (obs["obs"], out["actions"])]
        assert pointers == {place() if callable(place) else place for place in places}
        with pytest.raises(ContractError, match="would be copied at each run"):
            policy.act({"obs": np.zeros((64, 50), np.float32)}, out)


def test_arrays_of_the_host_are_copied_there_before_each_run(gpu: Device, loaded: LoadedPolicy) -> None:
    with OnnxPolicy(loaded, gpu, placement=Placement(provider="cuda")) as policy, OnnxPolicy(loaded) as expected:
        for value in (1.0, 2.0):
            policy.obs["obs"][:] = expected.obs["obs"][:] = value
            for each in (policy, expected):
                each.act(each.obs, each.out)
            np.testing.assert_allclose(policy.action, expected.action, rtol=1e-4, atol=1e-4)


def test_a_stream_is_shared_with_torch(gpu: Device, loaded: LoadedPolicy) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    placement = Placement(provider="cuda", stream=stream.cuda_stream)
    with OnnxPolicy(loaded, gpu, 64, placement=placement) as policy, torch.cuda.stream(stream):
        obs, out = {"obs": torch.zeros(64, 50, device="cuda:0")}, {"actions": torch.zeros(64, 12, device="cuda:0")}
        for value in range(100):
            obs["obs"].fill_(float(value))  # on the same stream, so no other order is possible
            policy.act(obs, out)
            twice = out["actions"] * 2
        stream.synchronize()
        assert (twice == out["actions"] * 2).all()
        with pytest.raises(ContractError, match="shares a stream with the caller"):
            policy.act({"obs": np.zeros((64, 50), np.float32)}, out)


def test_tensorrt_takes_what_it_built_before(gpu: Device, tmp_path: Path) -> None:
    loaded, placement, times = load_policy("quadruped"), Placement(provider="tensorrt", caches=tmp_path), []
    for _ in range(2):
        begin = time.perf_counter()
        OnnxPolicy(loaded, gpu, placement=placement).close()
        times.append(time.perf_counter() - begin)
    assert any(tmp_path.rglob("*.engine"))
    assert times[1] < times[0]
