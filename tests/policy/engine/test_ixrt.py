"""Iluvatar's engine against a stand-in with its API: order of calls, bindings by name, lifetimes, errors."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ixrt_stand_in import Chip
from onnx import TensorProto, helper
from support import finished, linear_model, quadruped_document, save

from edgert.device import Device
from edgert.errors import ContractError, DeviceError, IntegrityError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.engine import Engine, Placement, open_engine
from edgert.policy.engine.protocol import Buffer
from edgert.policy.model import PolicyFile, read_policy

TY1200 = Device(
    name="iluvatar:0", chip="MRC-V100-0x18", vendor="Iluvatar", memory_bytes=16 << 30, providers=("IxRT",), physics=()
)


@pytest.fixture
def file(tmp_path: Path) -> PolicyFile:
    """Two inputs and two outputs: total = a + b, difference = a - b."""
    number = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
        "policy",
        [helper.make_tensor_value_info(name, number, ["batch", 2]) for name in ("a", "b")],
        [helper.make_tensor_value_info(name, number, ["batch", 2]) for name in ("total", "difference")],
    )
    return read_policy(save(finished(graph, None), tmp_path / "two.onnx"))


def opened(file: PolicyFile, **placement: Any) -> Engine:
    return open_engine(file, TY1200, Placement(**placement))


A = np.array([[5, 6]], np.float32)
B = np.array([[1, 2]], np.float32)


def test_outputs_are_bound_by_name_whatever_the_order_of_the_bindings(chip: Chip, file: PolicyFile) -> None:
    engine = opened(file)
    assert (list(engine.inputs), list(engine.outputs)) == (["a", "b"], ["total", "difference"])
    assert (str(engine.inputs["a"]), engine.inputs["a"].type) == ("a['batch', 2]", "tensor(float)")
    assert (engine.provider, engine.nodes) == ("IxRT", ())
    total, difference = engine.run(["total", "difference"], {"b": B, "a": A})
    assert (total.tolist(), difference.tolist()) == ([[6, 8]], [[4, 4]])
    engine.close()


def test_an_engine_is_built_once_for_exact_shapes_and_kept(chip: Chip, file: PolicyFile, tmp_path: Path) -> None:
    opened(file, rows=3).close()
    assert chip.calls[:10] == [
        "Builder", "parse_from_file", "set_shape a [3, 2]", "set_shape b [3, 2]", "build_serialized_network",
        "deserialize_cuda_engine", "create_execution_context", "set_binding_shape b [3, 2]",
        "set_binding_shape a [3, 2]", "cudaMalloc",
    ]  # fmt: skip
    chip.calls.clear()
    opened(file, rows=3).close()
    assert chip.calls[:2] == ["deserialize_cuda_engine", "create_execution_context"]
    (kept,) = tmp_path.rglob("engine.ixrt")
    assert [each.name for each in kept.parent.iterdir()] == ["engine.ixrt"]  # no model, no part of one is left
    chip.calls.clear()
    opened(file, rows=4).close()  # of another shape
    opened(file, rows=3, precision="fp16").close()
    assert chip.calls.count("build_serialized_network") == 2
    assert chip.calls.count("set_flag FP16") == 1


def test_a_damaged_engine_is_built_again(chip: Chip, file: PolicyFile, tmp_path: Path) -> None:
    opened(file).close()
    (kept,) = tmp_path.rglob("engine.ixrt")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:20])
    engine = opened(file)
    assert kept.read_bytes() == whole
    assert engine.run(["total"], {"a": A, "b": B})[0].tolist() == [[6, 8]]
    engine.close()


def test_bound_arrays_are_copied_there_and_back_at_each_run(chip: Chip, file: PolicyFile) -> None:
    engine = opened(file)
    arrays = {name: np.zeros((1, 2), np.float32) for name in ("a", "b", "total")}
    of = {name: Buffer(pointer=x.ctypes.data, shape=x.shape, dtype=x.dtype, owner=x) for name, x in arrays.items()}
    assert not engine.in_place("a", of["a"])
    run = engine.bind({name: of[name] for name in ("a", "b")}, {"total": of["total"]})
    chip.calls.clear()
    for value in (1.0, 2.0):
        arrays["a"][:] = arrays["b"][:] = value
        run()
        assert (arrays["total"] == 2 * value).all()
    once = ["cudaMemcpy HostToDevice", "cudaMemcpy HostToDevice", "execute_v2", "cudaMemcpy DeviceToHost"]
    assert chip.calls == once * 2
    engine.close()


def test_memory_of_the_chip_is_used_where_it_is_and_a_stream_is_shared(chip: Chip, file: PolicyFile) -> None:
    cudart = sys.modules["cuda.cudart"]
    engine = opened(file, stream=77)
    pointers = {name: cudart.cudaMalloc(8)[1] for name in ("a", "b", "total")}
    there = {
        name: Buffer(pointer=pointer, shape=(1, 2), dtype=np.dtype(np.float32), memory="cuda")
        for name, pointer in pointers.items()
    }
    for name, array in (("a", A), ("b", B)):
        cudart.cudaMemcpy(pointers[name], array.ctypes.data, 8, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
    assert engine.in_place("a", there["a"])
    run = engine.bind({name: there[name] for name in ("a", "b")}, {"total": there["total"]})
    chip.calls.clear()
    run()
    assert chip.calls == ["execute_async_v2 77"]
    assert np.frombuffer(chip.allocated[pointers["total"]], np.float32).tolist() == [6, 8]
    out = np.zeros((1, 2), np.float32)
    host = Buffer(pointer=out.ctypes.data, shape=(1, 2), dtype=out.dtype, owner=out)
    with pytest.raises(DeviceError, match=r"IxRT shares a stream, so everything .* found memory of the host"):
        engine.bind({name: there[name] for name in ("a", "b")}, {"total": host})
    engine.close()


def test_memory_of_another_chip_is_refused(chip: Chip, file: PolicyFile) -> None:
    engine = opened(file)
    elsewhere = Buffer(pointer=4096, shape=(1, 2), dtype=np.dtype(np.float32), memory="cuda", index=1)
    with pytest.raises(
        ContractError, match="the array for 'a' is where IxRT cannot use it: found cuda:1, expected cuda:0"
    ):
        engine.bind({"a": elsewhere}, {})
    engine.close()


def test_all_memory_is_freed_after_what_may_use_it(chip: Chip, file: PolicyFile) -> None:
    engine = opened(file)
    assert len(chip.allocated) == 4
    engine.close()
    gc.collect()
    assert (chip.allocated, chip.freed) == ({}, 4)
    engine.close()  # twice does no harm
    assert chip.freed == 4


def test_another_chip_is_chosen_before_anything_else(chip: Chip, file: PolicyFile) -> None:
    second = Device(
        name="iluvatar:1", chip="MRC-V100-0x18", vendor="Iluvatar", memory_bytes=None, providers=("IxRT",), physics=()
    )
    open_engine(file, second, Placement(provider="ixrt")).close()
    assert chip.calls[0] == "cudaSetDevice 1"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("parse_from_file", "IxRT does not take policy .*: found In node 0: unsupported. Run it on the host instead"),
        ("build_serialized_network", "IxRT cannot build an engine for policy .*. Is its memory full?"),
        ("deserialize_cuda_engine", "IxRT does not read the engine that it built for policy"),
        ("create_execution_context", "IxRT cannot make ready to run policy"),
    ],
)
def test_what_gives_nothing_is_refused(broken: str, text: str, chip: Chip, file: PolicyFile) -> None:
    chip.broken.add(broken)
    with pytest.raises((DeviceError, IntegrityError), match=text) as caught:
        opened(file)
    assert "\n" not in str(caught.value)
    assert chip.allocated == {}


def test_errors_of_cuda_are_refused_and_leak_nothing(chip: Chip, file: PolicyFile) -> None:
    chip.fails["cudaMalloc"] = 2
    with pytest.raises(DeviceError, match="cudaMalloc fails on cuda:0: found 2"):
        opened(file)
    assert chip.allocated == {}
    chip.fails.clear()
    engine = opened(file)
    chip.fails["cudaMemcpy HostToDevice"] = 700
    with pytest.raises(DeviceError, match="cudaMemcpy fails on cuda:0: found 700"):
        engine.run(["total"], {"a": A, "b": B})
    chip.fails.clear()
    chip.broken.add("execute_v2")
    with pytest.raises(IntegrityError, match="IxRT fails while it runs policy"):
        engine.run(["total"], {"a": A, "b": B})
    engine.close()
    assert chip.allocated == {}


def test_what_a_vendor_raises_is_translated(chip: Chip, file: PolicyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(logger: Any) -> None:
        raise RuntimeError("driver and library do not match")

    monkeypatch.setattr(sys.modules["ixrt"], "Builder", explode)
    text = "IxRT cannot open policy .* on iluvatar:0: found RuntimeError: driver and library do not match"
    with pytest.raises(DeviceError, match=text):
        opened(file)


def test_sizes_that_nobody_states_are_refused(chip: Chip, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["obs"], ["actions"])],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", "size"])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", "size"])],
    )
    file = read_policy(save(finished(graph, None), tmp_path / "open.onnx"))
    with pytest.raises(IntegrityError, match=r"exact shapes, which policy .* found obs\['batch', 'size'\]"):
        opened(file)
    with pytest.raises(DeviceError, match="IxRT has no CPU to give nodes to"):
        opened(file, allow_cpu_nodes=True)


def test_another_size_than_it_was_built_for_is_refused(chip: Chip, file: PolicyFile) -> None:
    engine = opened(file)
    with pytest.raises(DeviceError, match=r"another size of 'a': found float32\[2, 2\], expected float32\[1, 2\]"):
        engine.run(["total"], {"a": np.zeros((2, 2), np.float32), "b": B})
    engine.close()


@pytest.mark.parametrize("nworld", [1, 3])
def test_a_policy_acts_on_it_as_on_the_cpu(nworld: int, chip: Chip, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = linear_model(weight=rng.normal(size=(50, 12)), document=quadruped_document())
    loaded = load_policy(save(model, tmp_path / "policy.onnx"))
    with OnnxPolicy(loaded, TY1200, nworld) as given, OnnxPolicy(loaded, nworld=nworld) as expected:
        assert given.provider == "IxRT"
        for _ in range(3):
            given.obs["obs"][:] = expected.obs["obs"][:] = rng.normal(size=(nworld, 50))
            given.action[:] = np.nan
            for policy in (given, expected):
                policy.act(policy.obs, policy.out)
            np.testing.assert_allclose(given.action, expected.action, rtol=1e-5, atol=1e-5)
    gc.collect()
    assert chip.allocated == {}


def test_without_ixrt_the_device_has_no_provider(file: PolicyFile) -> None:
    with pytest.raises(DeviceError) as caught:
        open_engine(file, TY1200, Placement())
    assert "no inference provider for iluvatar:0 (MRC-V100-0x18) is installed" in str(caught.value)
    assert "expected IxRT. Install the wheel ixrt of Iluvatar's CoreX SDK for this Python" in str(caught.value)
