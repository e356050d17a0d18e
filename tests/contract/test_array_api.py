"""The same terms over numpy, the strict Array API and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from contract_examples import TERMS_OF_EVERY_KIND, contract, numbers, observed, term_inputs

from edgert.contract.action import action_map
from edgert.contract.observe import Observer
from edgert.contract.terms import advance_phase

FAR = strict.Device("device1")
"""Not the default device of the strict namespace: an array that lands on the wrong one fails to combine."""

SCALED = [
    {**term, "scale": 0.3, "offset": -0.1, "clip": [-0.5, 0.4]} | ({} if term["name"] == "camera" else {"index": [0]})
    for term in TERMS_OF_EVERY_KIND.values()
]


def far(dtype: Any) -> Callable[[np.ndarray], Any]:
    return lambda array: strict.asarray(array, dtype=dtype, device=FAR)


def back(array: Any) -> np.ndarray:
    assert array.device == FAR
    return np.asarray(array.to_device(strict.Device("CPU_DEVICE")))


def observe_strictly(spec: Any, values: dict[str, Any], dtype: Any = strict.float64) -> np.ndarray:
    inputs = term_inputs(spec, values, strict, far(dtype))
    result = Observer(spec, "obs", inputs.last_action)(inputs)
    assert result.dtype == dtype
    return back(result)


def observe_in_torch(spec: Any, values: dict[str, Any], dtype_name: str = "float64") -> np.ndarray:
    import array_api_compat.torch as xp

    dtype = getattr(xp, dtype_name)
    inputs = term_inputs(spec, values, xp, lambda array: xp.asarray(array, dtype=dtype))
    result = Observer(spec, "obs", inputs.last_action)(inputs)
    assert result.dtype == dtype
    return result.numpy()


@pytest.mark.parametrize("kind", TERMS_OF_EVERY_KIND)
def test_a_term_keeps_to_the_standard_and_gives_numpys_bits(kind):
    spec, values = contract(TERMS_OF_EVERY_KIND[kind]), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_array_equal(observe_strictly(spec, values), expected)


def test_all_terms_together_keep_to_the_standard_and_give_numpys_bits():
    spec, values = contract(), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_array_equal(observe_strictly(spec, values), expected)


def test_scale_offset_clip_and_index_keep_to_the_standard_and_give_numpys_bits():
    spec, values = contract(*SCALED), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_array_equal(observe_strictly(spec, values), expected)


def test_observations_of_float32_stay_float32():
    spec, values = contract(*SCALED), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_allclose(observe_strictly(spec, values, strict.float32), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("still_rad", [None, 3.0])
def test_the_gait_clock_keeps_to_the_standard_and_gives_numpys_bits(still_rad):
    phase = {"hz": 1.5} if still_rad is None else {"hz": 1.5, "still_rad": still_rad}
    gait = contract("phase", phase=phase).phase
    now, command = np.array([0.0, 6.2, 1.0]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    result = advance_phase(far(strict.float64)(now), far(strict.float64)(command), gait, 0.02, strict)
    np.testing.assert_array_equal(back(result), advance_phase(now, command, gait, 0.02, np))


def test_targets_keep_to_the_standard_and_give_numpys_bits():
    raw, measured = np.random.default_rng(0).normal(0.0, 8.0, (2, 5, 2))
    kinds = ["position", "relative_position"]
    spec = contract(
        "joint_pos", action={"output": "a", "joints": ["hip", "knee"], "kind": kinds, "target_clip": [-3.0, 4.0]}
    ).action
    to = far(strict.float64)
    result = action_map(spec, to(raw), strict).target(to(raw), strict, to(measured))
    np.testing.assert_array_equal(back(result), action_map(spec, raw, np).target(raw, np, measured))


@pytest.mark.torch
@pytest.mark.parametrize("kind", TERMS_OF_EVERY_KIND)
def test_a_term_gives_numpys_numbers_in_torch(kind):
    spec, values = contract(TERMS_OF_EVERY_KIND[kind]), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_allclose(observe_in_torch(spec, values), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.torch
def test_scale_offset_clip_and_index_give_numpys_numbers_in_torch():
    spec, values = contract(*SCALED), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_allclose(observe_in_torch(spec, values), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.torch
def test_observations_of_float32_stay_float32_in_torch():
    spec, values = contract(*SCALED), numbers()
    expected = observed(spec, term_inputs(spec, values))
    np.testing.assert_allclose(observe_in_torch(spec, values, "float32"), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.torch
def test_the_gait_clock_and_targets_give_numpys_numbers_in_torch():
    import array_api_compat.torch as xp

    spec = contract()
    now, command = np.array([0.0, 6.2, 1.0]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    moved = advance_phase(xp.asarray(now), xp.asarray(command), spec.phase, 0.02, xp)
    np.testing.assert_allclose(moved.numpy(), advance_phase(now, command, spec.phase, 0.02, np), rtol=1e-15)
    raw = np.array([[9.0, -0.5]])
    target = action_map(spec.action, xp.asarray(raw), xp).target(xp.asarray(raw), xp)
    np.testing.assert_allclose(target.numpy(), action_map(spec.action, raw, np).target(raw, np), rtol=1e-15)
