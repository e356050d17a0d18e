"""What each observation term says, against hand-computed numbers and MuJoCo's own rotations."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from contract_examples import TERMS_OF_EVERY_KIND, WIDTHS, contract, numbers, observed, term_inputs
from hypothesis import given
from hypothesis import strategies as st

from edgert.contract.action import action_map
from edgert.contract.terms import TERMS, advance_phase, gravity_in_body, rotate_to_body

REAL = st.floats(-3.0, 3.0)


def observe(term: Any, values: dict[str, Any], **changes: Any) -> np.ndarray:
    spec = contract(term, **changes)
    return observed(spec, term_inputs(spec, values))


def rotated(vector: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """Each row of vector turned by the row of quat, by MuJoCo."""
    result = np.full(vector.shape, np.nan)
    for row, v, q in zip(result, vector, quat, strict=True):
        mujoco.mju_rotVecQuat(row, v, q)
    return result


def conjugate(quat: np.ndarray) -> np.ndarray:
    return quat * [1.0, -1.0, -1.0, -1.0]


@st.composite
def unit_quaternions(draw: st.DrawFn) -> np.ndarray:
    quat = np.array(draw(st.tuples(REAL, REAL, REAL, REAL).filter(lambda q: np.linalg.norm(q) > 0.1)))
    return (quat / np.linalg.norm(quat))[None, :]


def test_the_examples_cover_every_built_in_term():
    elsewhere = {"network_output"} | {name for name in TERMS.names() if "motion" in name or name == "time_step"}
    assert {term["name"] for term in TERMS_OF_EVERY_KIND.values()} == set(TERMS.names()) - elsewhere


@pytest.mark.parametrize("kind", TERMS_OF_EVERY_KIND)
def test_a_term_is_as_wide_as_its_contract_says(kind):
    spec = contract(TERMS_OF_EVERY_KIND[kind])
    result = observed(spec, term_inputs(spec, numbers(nworld=5)))
    assert result.shape == (5, spec.inputs["obs"].dim) == (5, WIDTHS[kind])


@given(unit_quaternions(), st.tuples(REAL, REAL, REAL))
def test_rotate_to_body_undoes_mujocos_rotation(quat, vector):
    there = rotated(np.array([vector]), quat)
    np.testing.assert_allclose(rotate_to_body(quat, there, np), [vector], rtol=0, atol=1e-14)


@given(unit_quaternions())
def test_gravity_is_minus_the_third_row_of_the_rotation_matrix(quat):
    matrix = np.full(9, np.nan)
    mujoco.mju_quat2Mat(matrix, quat[0])
    np.testing.assert_allclose(gravity_in_body(quat, np)[0], -matrix.reshape(3, 3)[2], rtol=0, atol=1e-15)


def test_gravity_points_down_the_body_when_upright():
    assert gravity_in_body(np.array([[1.0, 0.0, 0.0, 0.0]]), np).tolist() == [[0.0, 0.0, -1.0]]


def test_gravity_points_to_the_left_side_of_a_body_rolled_to_the_left():
    quat = np.array([[np.cos(-np.pi / 4), np.sin(-np.pi / 4), 0.0, 0.0]])  # -90 degrees about x: the left side is down
    np.testing.assert_allclose(gravity_in_body(quat, np), [[0.0, 1.0, 0.0]], atol=1e-15)


def test_projected_gravity_is_the_gravity_of_the_base():
    values = numbers()
    down = np.tile([0.0, 0.0, -1.0], (5, 1))
    expected = rotated(down, conjugate(values["base_quat"]))
    np.testing.assert_allclose(observe("projected_gravity", values), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("point", ["com", "site:imu"])
def test_the_velocity_of_a_point_gains_the_turning_of_its_arm(point):
    values = numbers()
    there = rotated(values["base_lin_vel"], conjugate(values["base_quat"]))
    expected = there + np.cross(values["base_ang_vel"], values["points"][point])
    result = observe({"name": "base_lin_vel", "point": point}, values)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("point", ["origin", "com", "site:imu"])
def test_the_world_frame_is_the_body_frame_turned_by_the_base(point):
    values = numbers()
    in_body = observe({"name": "base_lin_vel", "point": point}, values)
    in_world = observe({"name": "base_lin_vel", "point": point, "frame": "world"}, values)
    np.testing.assert_allclose(in_world, rotated(in_body, values["base_quat"]), rtol=0, atol=1e-14)


def test_base_ang_vel_is_the_gyro_in_the_body_frame():
    values = numbers()
    np.testing.assert_array_equal(observe("base_ang_vel", values), values["base_ang_vel"])


def test_base_ang_vel_in_the_world_frame_is_turned_by_the_base():
    values = numbers()
    expected = rotated(values["base_ang_vel"], values["base_quat"])
    result = observe({"name": "base_ang_vel", "frame": "world"}, values)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-14)


def test_joint_pos_counts_from_the_default_pose():
    values = numbers(nworld=1)
    values["joint_pos"] = np.array([[0.5, 0.5, 0.5]])
    np.testing.assert_allclose(observe("joint_pos", values), [[0.4, 0.7, 0.2]], rtol=1e-15)


@pytest.mark.parametrize("name", ["joint_vel", "last_action", "command"])
def test_a_plain_term_is_its_field(name):
    values = numbers()
    np.testing.assert_array_equal(observe(name, values), values[name])


def test_a_goal_is_the_command_and_an_end_effector_its_sensor():
    values = numbers()
    np.testing.assert_array_equal(observe("goal_pos", values), values["command"])
    np.testing.assert_array_equal(observe("ee_pos", values), values["sensors"]["ee_pos"])


def test_sine_and_cosine_are_of_the_whole_angle():
    values = numbers(nworld=1)
    values["joint_pos"] = np.array([[np.pi / 2, -np.pi, 2.0 * np.pi]])
    np.testing.assert_allclose(observe("joint_sin", values), [[1.0, 0.0, 0.0]], atol=1e-15)
    np.testing.assert_allclose(observe("joint_cos", values), [[0.0, -1.0, 1.0]], atol=1e-15)


def test_phase_terms_are_sine_and_cosine_of_each_offset():
    values = numbers(nworld=1)
    values["phase_rad"] = np.array([0.0])
    phase = {"hz": 1.0, "offsets_rad": [0.0, np.pi / 2]}
    np.testing.assert_allclose(observe("sin_phase", values, phase=phase), [[0.0, 1.0]], atol=1e-15)
    np.testing.assert_allclose(observe("cos_phase", values, phase=phase), [[1.0, 0.0]], atol=1e-15)
    np.testing.assert_allclose(observe("phase", values, phase=phase), [[0.0, 1.0, 1.0, 0.0]], atol=1e-15)


def test_every_phase_is_held_at_rest_and_begins_again_from_its_offset():
    """As the humanoid policies of holosoma expect: both feet at pi while the command is zero, then 0 and pi."""
    values = numbers(nworld=1)
    phase = {"hz": 1.0, "offsets_rad": [0.0, np.pi], "still_rad": np.pi}
    gait = contract("phase", phase=phase).phase
    values["phase_rad"], values["command"] = np.array([1.0]), np.zeros((1, 3))
    np.testing.assert_allclose(observe("cos_phase", values, phase=phase), [[-1.0, -1.0]], atol=1e-15)
    values["phase_rad"] = advance_phase(values["phase_rad"], values["command"], gait, 0.02, np)
    values["command"] = np.array([[0.5, 0.0, 0.0]])
    np.testing.assert_allclose(observe("cos_phase", values, phase=phase), [[1.0, -1.0]], atol=1e-15)


@pytest.mark.parametrize("name", ["imu_ang_vel", "imu_lin_acc", "imu_quat"])
def test_an_imu_term_reads_the_sensor_of_its_name(name):
    values = numbers()
    np.testing.assert_array_equal(observe(name, values), values["sensors"][name])


def test_several_sensors_follow_each_other_in_the_order_of_the_contract():
    values = numbers()
    term = {"name": "imu_ang_vel", "sensors": ["back_gyro", "imu_ang_vel"]}
    expected = np.hstack((values["sensors"]["back_gyro"], values["sensors"]["imu_ang_vel"]))
    np.testing.assert_array_equal(observe(term, values), expected)


def test_a_foot_touches_above_the_threshold_and_not_at_it():
    values = numbers(nworld=3)
    values["sensors"]["left_foot"] = np.array([[0.0], [2.0], [2.0001]])
    term = {"name": "foot_contact", "sensors": ["left_foot"], "threshold": 2.0}
    assert observe(term, values).tolist() == [[0.0], [0.0], [1.0]]


def test_a_foot_touches_above_one_newton_where_the_contract_is_silent():
    values = numbers(nworld=2)
    values["sensors"]["left_foot"] = np.array([[1.0], [1.5]])
    assert observe({"name": "foot_contact", "sensors": ["left_foot"]}, values).tolist() == [[0.0], [1.0]]


def test_a_target_is_the_offset_plus_the_scaled_clipped_action():
    spec = contract(action={"output": "a", "joints": ["hip", "knee"], "scale": [0.5, 2.0], "clip": [-1.0, 1.0]}).action
    raw = np.array([[0.5, -0.25], [3.0, -3.0]])
    target = action_map(spec, raw, np).target(raw, np)
    np.testing.assert_allclose(target, [[0.35, -0.7], [0.6, -2.2]], rtol=1e-15)


def test_a_target_without_clip_follows_the_action_anywhere():
    spec = contract(action={"output": "a", "joints": ["hip"], "offset": 0.0}).action
    raw = np.array([[1e6]])
    assert action_map(spec, raw, np).target(raw, np).tolist() == [[1e6]]
