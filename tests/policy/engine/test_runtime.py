"""ONNX Runtime made strict: each way in which it falls back in silence, and edgert's refusal."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from support import linear_model, save

from edgert.device import Device, find_device
from edgert.device.onnxruntime import CPU_PROVIDER
from edgert.errors import ContractError, DeviceError, IntegrityError, UnsupportedError
from edgert.policy.engine import Node, Placement, open_engine
from edgert.policy.engine.protocol import Buffer
from edgert.policy.engine.providers import provider
from edgert.policy.engine.runtime import RuntimeEngine, listed
from edgert.policy.model import PolicyFile, read_policy

CPU = find_device("cpu")
GPU = Device(
    name="cuda:0",
    chip="NVIDIA H200",
    vendor="NVIDIA",
    memory_bytes=None,
    providers=("TensorrtExecutionProvider", "CUDAExecutionProvider"),
    physics=(),
)


@pytest.fixture
def file(tmp_path: Path) -> PolicyFile:
    return read_policy(save(linear_model(dim=3, nact=2, weight=np.eye(3, 2)), tmp_path / "policy.onnx"))


def runtime(session: Callable[..., Any], available: tuple[str, ...] = ("CUDAExecutionProvider",)) -> Any:
    """onnxruntime as it is, but that it opens sessions so and calls other providers available."""
    names = {name: getattr(onnxruntime, name) for name in dir(onnxruntime) if not name.startswith("__")}
    here = {"InferenceSession": session, "get_available_providers": lambda: [*available, CPU_PROVIDER]}
    return SimpleNamespace(**names | here, __version__=onnxruntime.__version__)


def test_every_node_is_told_with_its_provider(file: PolicyFile) -> None:
    with RuntimeEngine(file, CPU, provider("cpu"), Placement()) as engine:
        assert engine.nodes == (Node(CPU_PROVIDER, "Gemm"),)
        assert str(engine.inputs["obs"]) == "obs['batch', 3]"
        (actions,) = engine.run(["actions"], {"obs": np.array([[1, 2, 3]], np.float32)})
        assert actions.tolist() == [[1, 2]]
        assert engine.run([], {}) == []


def test_cuda_of_a_cpu_build_is_refused_where_onnxruntime_runs_on_the_cpu(file: PolicyFile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = onnxruntime.InferenceSession(file.data, providers=["CUDAExecutionProvider"], enable_fallback=0)
    assert session.get_providers() == [CPU_PROVIDER]  # it warned, and that is all
    text = r"no inference provider for cuda:0 \(NVIDIA H200\) is installed: found onnxruntime .+, "
    with pytest.raises(DeviceError, match=text + r"expected TensorrtExecutionProvider or CUDAExecutionProvider"):
        open_engine(file, GPU, Placement())
    for name in ("cuda", "CUDAExecutionProvider"):
        text = rf"cuda:0 \(NVIDIA H200\) cannot run the network by provider '{name}': found no provider for this device"
        with pytest.raises(DeviceError, match=text):
            open_engine(file, GPU, Placement(provider=name, allow_cpu_nodes=True))
    text = "the installed onnxruntime cannot run on cuda:0: found .*CPUExecutionProvider.*, expected CUDA"
    with pytest.raises(DeviceError, match=text):
        RuntimeEngine(file, GPU, provider("cuda"), Placement(allow_cpu_nodes=True))


def test_a_provider_of_another_device_is_refused_by_name(file: PolicyFile) -> None:
    with pytest.raises(DeviceError) as caught:
        open_engine(file, CPU, Placement(provider="cuda"))
    assert "cannot run the network by provider 'cuda': found cpu" in str(caught.value)
    assert "Name the device that it is for with --device" in str(caught.value)
    with pytest.raises(DeviceError, match=r"by provider 'tpu': found cpu.*expected one of those"):
        open_engine(file, CPU, Placement(provider="tpu"))


def test_nodes_that_the_cpu_would_take_are_refused_by_name(file: PolicyFile) -> None:
    """A provider is there but takes nothing: onnxruntime would run all of it on the CPU."""

    def session(*arguments: Any, providers: Any, **keywords: Any) -> Any:
        return onnxruntime.InferenceSession(*arguments, **keywords)

    with pytest.raises(DeviceError) as caught:
        RuntimeEngine(file, GPU, provider("cuda"), Placement(), load=lambda: runtime(session))
    assert str(caught.value) == (
        f"CUDAExecutionProvider computes only a part of policy {file.path}: found 1 of 1 nodes on "
        "CPUExecutionProvider: Gemm, expected all of them on CUDAExecutionProvider. Allow it with --allow-cpu-nodes"
    )
    with pytest.raises(DeviceError, match="did not get the provider of cuda:0: found CPUExecutionProvider"):
        RuntimeEngine(file, GPU, provider("cuda"), Placement(allow_cpu_nodes=True), load=lambda: runtime(session))


def test_a_provider_that_fails_at_the_start_is_refused_where_onnxruntime_tries_the_cpu(file: PolicyFile) -> None:
    class Failing(onnxruntime.InferenceSession):
        """As a provider whose libraries are missing: `_create_inference_session` raises, and falls back if it may."""

        def _create_inference_session(self, providers: Any, *arguments: Any, **keywords: Any) -> None:
            self._fallback_providers = [CPU_PROVIDER]
            if any("CUDA" in str(each) for each in providers or ()):
                raise RuntimeError("libcudnn.so.9: cannot open shared object file")
            super()._create_inference_session(providers, *arguments, **keywords)

    banner = Failing(file.data, providers=["CUDAExecutionProvider"])  # prints one
    assert banner.get_providers() == [CPU_PROVIDER]
    for allow in (False, True):
        with pytest.raises(DeviceError) as caught:
            RuntimeEngine(file, GPU, provider("cuda"), Placement(allow_cpu_nodes=allow), load=lambda: runtime(Failing))
        assert str(caught.value) == (
            f"CUDAExecutionProvider cannot open policy {file.path} on cuda:0: "
            "found libcudnn.so.9: cannot open shared object file. Run: edgert doctor"
        )


def test_a_session_that_forgot_its_options_is_refused(file: PolicyFile) -> None:
    """`sess_opts=` for `sess_options=` is taken and forgotten; edgert reads its options back."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 7
    forgetful = onnxruntime.InferenceSession(file.data, sess_opts=options, providers=[CPU_PROVIDER])
    assert forgetful.get_session_options().intra_op_num_threads != 7

    def session(source: Any, options: Any, **keywords: Any) -> Any:
        return onnxruntime.InferenceSession(source, sess_opts=options, **keywords)

    with pytest.raises(DeviceError, match="without the options that keep it from falling back"):
        RuntimeEngine(file, CPU, provider("cpu"), Placement(), load=lambda: runtime(session))


@pytest.mark.parametrize("wish", ["PREFER_GPU", "PREFER_NPU", "MAX_PERFORMANCE", "MIN_OVERALL_POWER"])
def test_a_choice_that_onnxruntime_makes_is_refused_when_it_is_the_cpu(wish: str, file: PolicyFile) -> None:
    """Every selection policy chose the CPU where nothing better was, and said nothing; edgert reads back who runs."""
    policy = getattr(onnxruntime.OrtExecutionProviderDevicePolicy, wish)

    def session(source: Any, options: Any, providers: Any = None, **keywords: Any) -> Any:
        options.set_provider_selection_policy(policy)
        return onnxruntime.InferenceSession(source, options, **keywords)

    options = onnxruntime.SessionOptions()
    assert session(file.data, options).get_providers()[-1] == CPU_PROVIDER
    with pytest.raises(DeviceError, match=r"did not get the provider of cuda:0|computes only a part"):
        RuntimeEngine(file, GPU, provider("cuda"), Placement(allow_cpu_nodes=True), load=lambda: runtime(session))


def test_a_model_that_nobody_opens_is_not_blamed_on_the_provider(tmp_path: Path) -> None:
    def change(model: Any) -> None:
        model.graph.node[0].op_type = "NoSuchOperator"

    file = read_policy(save(linear_model(dim=3, nact=2, change=change), tmp_path / "policy.onnx"))
    with pytest.raises(IntegrityError, match=r"onnxruntime \S+ refuses policy"):
        RuntimeEngine(file, GPU, provider("cuda"), Placement(), load=lambda: runtime(onnxruntime.InferenceSession))


def test_half_precision_is_refused_where_nobody_computes_with_it(file: PolicyFile) -> None:
    with pytest.raises(UnsupportedError, match="provider 'cpu' computes as the model says: found --precision fp16"):
        open_engine(file, CPU, Placement(precision="fp16"))


def test_memory_of_a_chip_cannot_be_bound_on_the_cpu(file: PolicyFile) -> None:
    out = np.zeros((1, 2), np.float32)
    ours = Buffer(pointer=out.ctypes.data, shape=(1, 2), dtype=out.dtype, owner=out)
    theirs = Buffer(pointer=4096, shape=(1, 3), dtype=out.dtype, memory="cuda", index=1)
    with RuntimeEngine(file, CPU, provider("cpu"), Placement()) as engine:
        assert engine.in_place("obs", ours)
        assert not engine.in_place("obs", theirs)
        with pytest.raises(ContractError) as caught:
            engine.bind({"obs": theirs}, {"actions": ours})
    assert str(caught.value) == (
        "the array for 'obs' is where CPUExecutionProvider on cpu cannot use it: found memory of cuda:1, "
        "expected that of cpu:0 or of the host"
    )


def test_many_nodes_are_counted_by_operator() -> None:
    nodes = [Node("CPU", "Gemm"), Node("CPU", "Elu"), Node("CPU", "Gemm"), Node("CPU", "Det", "odd")]
    assert listed(nodes) == "Gemm ×2, Elu, Det 'odd'"
    assert listed(Node("CPU", "Gemm", str(i)) for i in range(20)).endswith("Gemm '7' and 12 more")
