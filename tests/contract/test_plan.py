"""The compiled plan against the generic `Observer`, and the gait clock of one robot against that of many."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
import pytest
from contract_examples import TERMS_OF_EVERY_KIND, contract, documents, numbers, observed, term_inputs, terms
from hypothesis import given, settings
from hypothesis import strategies as st

from edgert.contract import Contract, PhaseSpec
from edgert.contract.plan import ObservationPlan, next_phase
from edgert.contract.terms import advance_phase

SEEDS = st.integers(0, 2**32 - 1)


def planned(spec: Contract, inputs: Any, dtype: Any = np.float64) -> np.ndarray:
    out = np.full((1, spec.inputs["obs"].dim), np.nan, dtype)
    ObservationPlan(spec, "obs", inputs, out)()
    return out


def assert_same(spec: Contract, values: dict[str, Any]) -> None:
    inputs = term_inputs(spec, values)
    expected, result = observed(spec, inputs), planned(spec, inputs)
    if any("phase" in term.name for term in spec.inputs["obs"].terms):
        # Python's sine and numpy's differ in the last bit, which a scale of up to 100 enlarges.
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", TERMS_OF_EVERY_KIND)
def test_a_plain_term_is_the_observers(kind):
    assert_same(contract(TERMS_OF_EVERY_KIND[kind]), numbers(nworld=1))


@pytest.mark.parametrize("kind", TERMS_OF_EVERY_KIND)
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=SEEDS)
def test_a_term_with_any_scale_offset_clip_and_index_is_the_observers(kind, data, seed):
    assert_same(contract(data.draw(terms(kind))), numbers(nworld=1, seed=seed))


@settings(max_examples=60, deadline=None)
@given(st.lists(terms(), min_size=1, max_size=8), SEEDS)
def test_any_terms_together_are_the_observers(some, seed):
    assert_same(contract(*some), numbers(nworld=1, seed=seed))


def test_a_plan_follows_arrays_that_are_refreshed_in_place():
    spec, values = contract(), numbers(nworld=1)
    inputs = term_inputs(spec, values)
    out = np.full((1, spec.inputs["obs"].dim), np.nan)
    plan = ObservationPlan(spec, "obs", inputs, out)
    plan()
    for name, array in numbers(nworld=1, seed=1).items():
        if isinstance(array, np.ndarray):
            values[name][:] = array
        elif name == "sensors":
            for sensor, reading in array.items():
                values[name][sensor][:] = reading
    plan()
    np.testing.assert_allclose(out, observed(spec, inputs), rtol=1e-13, atol=1e-13)


def test_a_plan_casts_into_the_policys_own_type():
    spec, values = contract(), numbers(nworld=1)
    inputs = term_inputs(spec, values)
    expected = observed(spec, inputs).astype(np.float32)
    result = planned(spec, inputs, np.float32)
    assert result.dtype == np.float32
    np.testing.assert_array_max_ulp(result, expected, maxulp=1)


def test_a_plan_writes_the_input_of_its_name():
    spec = contract(inputs={"a": {"terms": ["joint_vel"]}, "b": {"terms": ["command", "joint_pos"]}})
    values = numbers(nworld=1)
    out = np.full((1, 6), np.nan)
    ObservationPlan(spec, "b", term_inputs(spec, values), out)()
    np.testing.assert_array_equal(out[:, :3], values["command"])


def test_nan_stays_nan_through_the_plan():
    spec, values = contract({"name": "joint_vel", "clip": [-1.0, 1.0]}), numbers(nworld=1)
    values["joint_vel"][0, 1] = np.nan
    assert np.isnan(planned(spec, term_inputs(spec, values))).tolist() == [[False, True, False]]


@settings(max_examples=30, deadline=None)
@given(documents())
def test_the_dimension_of_an_input_is_that_of_its_observation(some):
    spec = contract(**some)
    inputs = term_inputs(spec, numbers(nworld=1))
    assert observed(spec, inputs).shape == (1, spec.inputs["obs"].dim)


GAITS = st.builds(
    PhaseSpec,
    hz=st.floats(0.01, 50.0),
    still_rad=st.none() | st.floats(0.0, 2.0 * pi),
    still_below=st.floats(1e-3, 1.0),
)
SPEEDS = st.just(0.0) | st.floats(1e-9, 2.0) | st.floats(-2.0, -1e-9)
COMMANDS = st.tuples(SPEEDS, SPEEDS, SPEEDS)


@given(st.floats(0.0, 2.0 * pi, exclude_max=True), COMMANDS, GAITS, st.floats(1e-3, 0.2))
def test_the_gait_clock_of_many_robots_is_that_of_one(phase, command, gait, dt_s):
    one = next_phase(phase, gait, dt_s, np.array(command))
    many = advance_phase(np.array([phase]), np.array([command]), gait, dt_s, np)
    assert many.tolist() == [one]


@given(st.floats(0.0, 2.0 * pi, exclude_max=True), GAITS, st.floats(1e-3, 0.2))
def test_the_gait_clock_stays_within_a_turn(phase, gait, dt_s):
    moved = advance_phase(np.array([phase]), np.array([[1.0, 0.0, 0.0]]), gait, dt_s, np)
    assert 0.0 <= moved[0] <= 2.0 * pi


def test_the_gait_clock_turns_hz_times_a_second():
    phase, gait = np.zeros(1), PhaseSpec(hz=1.25)
    for _ in range(50):  # one second of 20 ms ticks: a turn and a quarter
        phase = advance_phase(phase, np.ones((1, 3)), gait, 0.02, np)
    np.testing.assert_allclose(phase, [pi / 2], rtol=1e-12)


def test_the_gait_clock_is_held_only_where_the_command_is_nearly_zero():
    gait = PhaseSpec(hz=1.0, still_rad=3.0, still_below=0.05)
    command = np.array([[0.0, 0.0, 0.0], [0.03, 0.03, 0.0], [0.03, 0.03, 0.03]])  # norms 0, 0.042, 0.052
    moved = advance_phase(np.ones(3), command, gait, 0.1, np)
    np.testing.assert_allclose(moved, [0.0, 0.0, 1.0 + 0.2 * pi], rtol=1e-15)


def test_a_gait_clock_without_still_phase_runs_on_at_rest():
    moved = advance_phase(np.ones(1), np.zeros((1, 3)), PhaseSpec(hz=1.0), 0.1, np)
    np.testing.assert_allclose(moved, [1.0 + 0.2 * pi], rtol=1e-15)
