"""Arrays of others, by their addresses: what is bound is where they are, and nothing else is taken."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import linear_model, quadruped_document, save

from edgert.errors import ContractError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.engine import Placement
from edgert.policy.engine.buffers import facts_of, fitting, on_host
from edgert.policy.network import Run

Make = Callable[..., Any]


def _numpy(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def _torch(*shape: int) -> Any:
    return pytest.importorskip("torch").zeros(*shape)


def _warp(*shape: int) -> Any:
    return pytest.importorskip("warp").zeros(shape, dtype=float, device="cpu")


def _fill(array: Any, value: float) -> None:
    if hasattr(array, "fill_"):  # torch and Warp
        array.fill_(value)
    else:
        array.fill(value)


def _address(array: Any) -> int:
    for name in ("data_ptr", "ptr"):
        place = getattr(array, name, None)
        if place is not None:
            return int(place() if callable(place) else place)
    return int(array.ctypes.data)


@pytest.fixture
def policy(tmp_path: Path) -> OnnxPolicy:
    model = linear_model(weight=np.eye(50, 12), document=quadruped_document())
    loaded = load_policy(save(model, tmp_path / "policy.onnx"))
    return OnnxPolicy(loaded, nworld=2, placement=Placement(zero_copy=True))


MAKERS = [
    _numpy,
    pytest.param(_torch, marks=pytest.mark.torch),
    _warp,
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_bound_lies_where_the_array_is(make: Make, policy: OnnxPolicy) -> None:
    obs, out = {"obs": make(2, 50)}, {"actions": make(2, 12)}
    with policy:
        for value in (1.0, 2.0):  # the second one is seen without binding anew
            _fill(obs["obs"], value)
            policy.act(obs, out)
            assert (np.asarray(out["actions"] if make is not _warp else out["actions"].numpy()) == value).all()
        runs: list[Run] = policy._members[0].network._other[0]
        (binding,) = runs[0].args  # type: ignore[attr-defined]
        assert {each.pointer for each in binding.buffers} == {_address(obs["obs"]), _address(out["actions"])}
        assert binding.get_outputs()[0].data_ptr() == _address(out["actions"])


@pytest.mark.parametrize("make", MAKERS)
def test_arrays_stay_alive_as_long_as_they_are_bound(make: Make, policy: OnnxPolicy) -> None:
    with policy:
        obs, out = {"obs": make(2, 50)}, {"actions": make(2, 12)}
        _fill(obs["obs"], 3.0)
        gone = weakref.ref(obs["obs"])
        policy.act(obs, out)
        obs.clear()
        gc.collect()
        assert gone() is not None
        policy.act({"obs": make(2, 50)}, out)
        gc.collect()
        assert gone() is None


@pytest.mark.torch
def test_a_tensor_that_got_other_memory_is_bound_anew(policy: OnnxPolicy) -> None:
    torch = pytest.importorskip("torch")
    obs, out = {"obs": torch.ones(2, 50)}, {"actions": torch.zeros(2, 12)}
    with policy:
        policy.act(obs, out)
        obs["obs"].data = torch.full((2, 50), 5.0)
        policy.act(obs, out)
        assert (out["actions"] == 5.0).all()


@pytest.mark.torch
def test_what_torch_would_have_to_copy_is_refused(policy: OnnxPolicy) -> None:
    torch = pytest.importorskip("torch")
    with policy:
        for array, found in (
            (torch.zeros(2, 100)[:, ::2], r"found float32\[2, 50\], expected C-contiguous float32\[2, 50\]"),
            (torch.zeros(2, 50, dtype=torch.float64), r"found float64\[2, 50\]"),
            (torch.zeros(2, 50, requires_grad=True), "found Tensor"),
            (torch.zeros(2, 50, dtype=torch.bfloat16), "found Tensor"),
        ):
            with pytest.raises(ContractError, match=rf"the array for 'obs' does not fit the policy: {found}"):
                policy.act({"obs": array}, policy.out)


class OfCuda:
    """An array of a GPU as cupy or torch would show it."""

    def __init__(self, strides: tuple[int, ...] | None = None, *, read_only: bool = False) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "shape": (2, 50),
            "strides": strides,
            "data": (0x7F0000000000, read_only),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_an_array_of_a_gpu_is_known_by_its_interface(policy: OnnxPolicy) -> None:
    own = policy.obs["obs"]
    facts = fitting("obs", OfCuda(), own, written=True)
    assert (facts.pointer, facts.memory, facts.index) == (0x7F0000000000, "cuda", 1)
    assert facts.buffer((1, 50), skip=50).pointer == 0x7F0000000000 + 200
    assert fitting("obs", OfCuda((200, 4)), own, written=False).contiguous
    for array, written in ((OfCuda((400, 8)), False), (OfCuda(read_only=True), True)):
        with pytest.raises(ContractError, match=r"found float32\[2, 50\] on cuda:1, expected"):
            fitting("obs", array, own, written=written)
    with policy, pytest.raises(ContractError, match=r"would be copied at each run .* found float32\[2, 50\] on cuda:1"):
        policy.act({"obs": OfCuda()}, policy.out)


def test_a_policy_of_several_networks_takes_arrays_of_the_host_alone(policy: OnnxPolicy) -> None:
    own = policy.obs["obs"]
    assert on_host("obs", own, own, written=True) is own
    with pytest.raises(ContractError, match=r"found float32\[2, 50\] on cuda:1, expected one in the host's memory"):
        on_host("obs", OfCuda(), own, written=False)


@pytest.mark.torch
def test_a_tensor_is_viewed_in_place(policy: OnnxPolicy) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2, 50)
    view = on_host("obs", tensor, policy.obs["obs"], written=True)
    view[...] = 7.0
    assert (tensor == 7.0).all()


def test_what_is_no_array_has_no_facts() -> None:
    class Odd:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 9, 0  # memory of a kind that edgert does not know

    assert facts_of(Odd()) is None
    assert facts_of([1.0]) is None
    assert facts_of(None) is None
