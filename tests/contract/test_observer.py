"""Concatenation, scale, offset, clip and index of an input, and which bodies are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from contract_examples import JOINTS, contract, numbers, observed, term_inputs

from edgert.contract import Contract, RobotState
from edgert.contract.observe import check_state
from edgert.contract.terms import TermInputs
from edgert.errors import ContractError


def observe(spec: Contract, inputs: TermInputs) -> np.ndarray:
    return observed(spec, inputs)


def state(**changes: Any) -> RobotState:
    values = numbers()
    fields = {name: values[name] for name in values if name not in ("command", "last_action", "phase_rad", "step")}
    return RobotState(**({"joint_names": JOINTS} | fields | changes))


def refusal(spec: Contract, body: RobotState) -> str:
    with pytest.raises(ContractError) as caught:
        check_state(spec, body, "the leg")
    return str(caught.value)


def test_terms_follow_each_other_in_the_order_of_the_contract():
    values = numbers()
    spec = contract("joint_vel", "command")
    expected = np.hstack((values["joint_vel"], values["command"]))
    np.testing.assert_array_equal(observe(spec, term_inputs(spec, values)), expected)


def test_a_number_is_scaled_then_offset_then_clipped():
    values = numbers(nworld=1)
    values["joint_vel"] = np.array([[1.0, -2.0, 10.0]])
    spec = contract({"name": "joint_vel", "scale": [2.0, 2.0, 0.5], "offset": 1.0, "clip": [-2.5, 5.0]})
    assert observe(spec, term_inputs(spec, values)).tolist() == [[3.0, -2.5, 5.0]]


def test_a_clip_of_one_term_leaves_the_others_alone():
    values = numbers()
    spec = contract({"name": "command", "clip": [0.0, 0.1]}, "joint_vel")
    result = observe(spec, term_inputs(spec, values))
    np.testing.assert_array_equal(result[:, 3:], values["joint_vel"])
    assert result[:, :3].min() >= 0.0
    assert result[:, :3].max() <= 0.1


def test_an_index_picks_and_reorders_components():
    values = numbers()
    spec = contract({"name": "joint_vel", "index": [2, 0, 2], "scale": [1.0, 2.0, 3.0]})
    expected = values["joint_vel"][:, [2, 0, 2]] * [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(observe(spec, term_inputs(spec, values)), expected)


def test_nan_stays_nan_through_a_clip():
    values = numbers()
    values["joint_vel"][0, 0] = np.nan
    spec = contract({"name": "joint_vel", "clip": [-1.0, 1.0]})
    assert np.isnan(observe(spec, term_inputs(spec, values))[0, 0])


def test_an_observation_is_no_view_of_the_state():
    values = numbers()
    spec = contract("joint_vel")
    before = observe(spec, term_inputs(spec, values))
    kept = before.copy()
    values["joint_vel"][:] = np.nan
    np.testing.assert_array_equal(before, kept)


def test_a_term_that_refers_to_an_unknown_point_is_refused():
    spec, values = contract({"name": "base_lin_vel", "point": "site:nose"}), numbers()
    with pytest.raises(ContractError) as caught:
        observe(spec, term_inputs(spec, values))
    assert str(caught.value) == (
        "term 'base_lin_vel' refers to a point 'site:nose' that the body does not have: "
        "expected one of origin, com, site:imu"
    )


def test_a_body_with_everything_is_accepted():
    check_state(contract(), state(), "the leg")


def test_another_joint_order_is_refused():
    assert refusal(contract("joint_pos"), state(joint_names=("knee", "hip", "ankle"))) == (
        "the leg presents its joints in another order than the policy: "
        "found knee, hip, ankle, expected hip, knee, ankle"
    )


@pytest.mark.parametrize(
    ("term", "field"),
    [
        ("base_lin_vel", "base_lin_vel"),
        ("base_lin_vel", "base_quat"),
        ("base_ang_vel", "base_ang_vel"),
        ("projected_gravity", "base_quat"),
        ("joint_pos", "joint_pos"),
        ("joint_vel", "joint_vel"),
    ],
)
def test_an_absent_field_is_refused_by_name(term, field):
    assert f"term '{term}' of input 'obs' needs {field}, which the leg does not have" in refusal(
        contract(term), state(**{field: None})
    )


def test_a_field_declared_absent_is_refused_although_its_array_is_there():
    assert refusal(contract("base_lin_vel"), state(sources={"base_lin_vel": "absent"})) == (
        "term 'base_lin_vel' of input 'obs' needs base_lin_vel, which the leg does not have. "
        "A floating base needs a free joint"
    )


def test_a_field_declared_measured_is_refused_when_its_array_is_missing():
    assert "needs joint_vel" in refusal(contract("joint_vel"), state(joint_vel=None, sources={"joint_vel": "measured"}))


def test_a_sensor_that_bears_the_name_of_an_absent_field_does_not_stand_in_for_it():
    body = state(base_quat=None, sensors={"base_quat": np.zeros((5, 4))})
    assert "needs base_quat" in refusal(contract("projected_gravity"), body)


def test_an_estimated_field_serves():
    check_state(contract("base_lin_vel"), state(sources={"base_lin_vel": "estimated"}), "the leg")


def test_a_missing_sensor_is_refused_with_those_there_are():
    spec = contract({"name": "foot_contact", "sensors": ["left_foot", "third_foot"]})
    assert refusal(spec, state()) == (
        "term 'foot_contact' of input 'obs' reads a sensor that the leg does not have: found third_foot, "
        "expected one of back_gyro, ee_pos, imu_ang_vel, imu_lin_acc, imu_quat, left_foot, right_foot"
    )


def test_a_body_without_sensors_says_none():
    assert refusal(contract("imu_quat"), state(sensors={})).endswith("found imu_quat, expected one of none")


def test_a_sensor_declared_absent_is_refused():
    assert "reads a sensor that the leg does not have: found imu_quat" in refusal(
        contract("imu_quat"), state(sources={"imu_quat": "absent"})
    )


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (
            {"name": "foot_contact", "sensors": ["imu_lin_acc"]},
            "term 'foot_contact' of input 'obs' cannot read sensor 'imu_lin_acc' of the leg: "
            "found a sensor of 3, expected one of 1 numbers",
        ),
        (
            {"name": "imu_quat", "sensors": ["imu_ang_vel"]},
            "term 'imu_quat' of input 'obs' cannot read sensor 'imu_ang_vel' of the leg: "
            "found a sensor of 3, expected one of 4 numbers",
        ),
    ],
)
def test_a_sensor_of_another_width_is_refused(term, text):
    assert refusal(contract(term), state()) == text


def test_a_missing_point_is_refused_with_those_there_are():
    spec = contract({"name": "base_lin_vel", "point": "site:nose"})
    assert refusal(spec, state()) == (
        "term 'base_lin_vel' of input 'obs' refers to a point that the leg does not have: "
        "found site:nose, expected one of origin, com, site:imu"
    )


def test_the_source_of_a_field():
    body = state(joint_torque=None, sources={"base_lin_vel": "estimated", "imu_quat": "estimated"})
    assert body.source("joint_pos") == "measured"
    assert body.source("joint_torque") == "absent"
    assert body.source("base_lin_vel") == "estimated"
    assert body.source("imu_quat") == "estimated"
    assert body.source("left_foot") == "measured"
    assert body.source("nothing of that name") == "absent"


def test_a_state_cannot_be_given_other_arrays():
    with pytest.raises(dataclasses.FrozenInstanceError):
        state().joint_pos = None  # type: ignore[misc]
