"""Reward and termination terms against numbers computed by hand, over numpy, the strict Array API and torch."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, exp, pi, sin
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

from edgert.contract import RobotState
from edgert.errors import ContractError
from edgert.tables import Table
from edgert.task.rewards import REWARDS, RewardInputs, fallen, is_still

JOINTS = ("hip", "knee", "ankle")
CPU, FAR = strict.Device("CPU_DEVICE"), strict.Device("device1")

# Two worlds: the first walks, the second is told to stand.
COMMAND = [[1.0, -0.5, 0.25], [0.0, 0.0, 0.0]]
VALUES: dict[str, Any] = {
    "command": COMMAND,
    "velocity": [[0.8, -0.5, 0.3], [0.1, 0.2, -0.4]],
    "gravity": [[0.6, 0.0, -0.8], [0.0, -0.1, -0.99]],
    "action": [[1.0, -1.0], [0.5, 0.5]],
    "last_action": [[0.5, -1.0], [0.0, 1.0]],
    "joint_error": [[0.1, -0.2, 0.3], [-0.5, 0.25, 0.125]],
    "phase_rad": [pi / 2, 1.0],
}
STATE: dict[str, Any] = {
    "joint_pos": [[0.0, pi / 3, pi], [0.5, 0.25, -0.5]],
    "joint_vel": [[1.0, -2.0, 0.0], [0.5, 0.0, 3.0]],
    "base_ang_vel": [[0.3, -0.4, 0.35], [1.0, 2.0, -0.1]],
    "base_pos": [[5.0, 6.0, 0.25], [0.0, 0.0, 0.31]],
    "joint_torque": [[1.0, 2.0, -2.0], [0.0, -3.0, 0.5]],
}
FEET = {"left": [[0.0, 0.0, 0.09], [0.0, 0.0, 0.02]], "right": [[1.0, 1.0, 0.02], [1.0, 1.0, 0.05]]}
HAND = {"ee_pos": [[1.0, -0.5, 0.55], [0.3, 0.0, 0.4]], "tool": COMMAND}

CLOCK = {"height_m": 0.08, "ground_m": 0.02, "sensors": ["left", "right"], "offsets_rad": [0.0, pi]}

CASES: dict[str, tuple[dict[str, Any], list[float]]] = {
    "track_lin_vel": ({"std": 0.5}, [exp(-0.04 / 0.25), exp(-0.05 / 0.25)]),
    "track_ang_vel": ({"std": 0.2}, [exp(-0.01 / 0.04), exp(-0.01 / 0.04)]),
    "lin_vel_z": ({}, [0.09, 0.16]),
    "ang_vel_xy": ({}, [0.25, 5.0]),
    "tilt": ({}, [0.36, 0.01]),
    "torque": ({}, [9.0, 9.25]),
    "action_rate": ({}, [0.25, 0.5]),
    "pose": ({"joints": ["ankle", "hip"]}, [0.09 + 0.01, 0.015625 + 0.25]),
    "still_pose": ({}, [0.0, 0.875]),
    "base_height": ({"height_m": 0.3}, [0.0025, 0.0001]),
    "joint_cos": ({"joints": ["knee", "ankle"]}, [0.5 - 1.0, cos(0.25) + cos(0.5)]),
    "joint_vel": ({"joints": ["hip", "ankle"]}, [1.0, 9.25]),
    "goal_distance": ({}, [0.3, 0.5]),
    "near_goal": ({"std": 0.5}, [exp(-0.09 / 0.25), exp(-1.0)]),
    # Walking: left 1 cm below the top of its swing, right on the ground. Standing: right 3 cm above the ground.
    "foot_clock": (CLOCK, [1.0 - (0.01 / 0.08) / 2, 1.0 - (0.03 / 0.08) / 2]),
}


def inputs(convert: Callable[[Any], Any], **changes: Any) -> RewardInputs:
    given = {name: convert(value) for name, value in (VALUES | changes).items()}
    state = {name: convert(value) for name, value in STATE.items()}
    sensors = {name: convert(value) for name, value in (FEET | HAND).items()}
    return RewardInputs(state=RobotState(joint_names=JOINTS, sensors=sensors, **state), **given)


def parameters(name: str, data: dict[str, Any]) -> Any:
    table = Table(data, "task.toml", f"rewards.{name}")
    result = REWARDS[name].read(table, JOINTS)
    table.close()
    return result


def value(name: str, given: RewardInputs, xp: Any) -> Any:
    return REWARDS[name].function(given, parameters(name, CASES[name][0]), xp)


def test_every_reward_has_a_case():
    assert set(CASES) == set(REWARDS)


@pytest.mark.parametrize("name", CASES)
def test_a_reward_is_what_its_formula_says(name):
    np.testing.assert_allclose(value(name, inputs(np.array), np), CASES[name][1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [strict.float32, strict.float64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_reward_keeps_to_the_standard(name, dtype):
    result = value(name, inputs(lambda v: strict.asarray(v, dtype=dtype, device=FAR)), strict)
    assert result.shape == (2,)
    assert result.dtype == dtype
    assert result.device == FAR
    np.testing.assert_allclose(np.asarray(result.to_device(CPU)), CASES[name][1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_reward_in_the_strict_namespace_has_numpys_bits(name):
    result = value(name, inputs(lambda v: strict.asarray(v, dtype=strict.float64, device=FAR)), strict)
    np.testing.assert_array_equal(np.asarray(result.to_device(CPU)), value(name, inputs(np.array), np))


@pytest.mark.torch
@pytest.mark.parametrize("dtype_name", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_a_reward_is_the_same_in_torch(name, dtype_name):
    import array_api_compat.torch as xp

    dtype = getattr(xp, dtype_name)
    result = value(name, inputs(lambda v: xp.asarray(v, dtype=dtype)), xp)
    assert result.dtype == dtype
    np.testing.assert_allclose(result.numpy(), CASES[name][1], rtol=1e-4, atol=1e-6)


def test_the_end_effector_may_be_any_sensor():
    result = REWARDS["goal_distance"].function(inputs(np.array), parameters("goal_distance", {"sensor": "tool"}), np)
    np.testing.assert_array_equal(result, [0.0, 0.0])


def test_pose_counts_every_joint_unless_it_names_some():
    result = REWARDS["pose"].function(inputs(np.array), parameters("pose", {}), np)
    np.testing.assert_allclose(result, [0.14, 0.25 + 0.0625 + 0.015625], rtol=1e-12)


@pytest.mark.parametrize("phase", [0.3, pi / 2, 4.0])
def test_a_foot_that_follows_its_clock_earns_everything(phase):
    lift = [max(sin(phase), 0.0), max(sin(phase + pi), 0.0)]
    given = inputs(np.array, phase_rad=[phase, phase])
    for name, up in zip(("left", "right"), lift, strict=True):
        given.state.sensors[name][0, 2] = 0.02 + 0.08 * up
    assert REWARDS["foot_clock"].function(given, parameters("foot_clock", CLOCK), np)[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("command", "still"),
    [([0.0, 0.0, 0.0], True), ([0.009, 0.0, 0.0], True), ([0.0, 0.011, 0.0], False), ([0.0, 0.0, -1.0], False)],
)
def test_a_command_below_a_hundredth_is_still(command, still):
    assert is_still(np.array([command]), np).tolist() == [still]


POSES = [
    # gravity in the base frame, height of the base, fallen
    ([0.0, 0.0, -1.0], 0.3, False),
    ([0.0, 0.0, -1.0], 0.2, False),
    ([0.0, 0.0, -1.0], 0.199, True),
    ([sin(0.99), 0.0, -np.cos(0.99)], 0.3, False),
    ([sin(1.01), 0.0, -np.cos(1.01)], 0.3, True),
    ([0.0, 0.0, 1.0], 0.3, True),
    ([np.nan, np.nan, np.nan], 0.3, True),
    ([0.0, 0.0, -1.0], np.nan, True),
]
GRAVITY, HEIGHTS, FALLEN = (list(column) for column in zip(*POSES, strict=True))


def test_a_body_falls_when_it_leans_or_sinks_or_is_nan():
    assert fallen(np.array(GRAVITY), np.array(HEIGHTS), 1.0, 0.2, np).tolist() == FALLEN


def test_a_fall_keeps_to_the_standard():
    gravity, heights = (strict.asarray(v, dtype=strict.float64, device=FAR) for v in (GRAVITY, HEIGHTS))
    result = fallen(gravity, heights, 1.0, 0.2, strict)
    assert result.dtype == strict.bool
    assert np.asarray(result.to_device(CPU)).tolist() == FALLEN


@pytest.mark.torch
def test_a_fall_is_the_same_in_torch():
    import array_api_compat.torch as xp

    assert fallen(xp.asarray(GRAVITY), xp.asarray(HEIGHTS), 1.0, 0.2, xp).tolist() == FALLEN


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("track_lin_vel", {"std": 0}, "'rewards.track_lin_vel.std' is wrong: found 0, expected more than 0"),
        ("track_ang_vel", {}, "'rewards.track_ang_vel.std' is missing. Add rewards.track_ang_vel.std to it"),
        (
            "pose",
            {"joints": ["hip", "toe"]},
            "'rewards.pose.joints' is wrong: found toe, expected joints of the contract: hip, knee, ankle",
        ),
        ("base_height", {"height_m": -1}, "'rewards.base_height.height_m' is wrong: found -1, expected more than 0"),
        (
            "foot_clock",
            CLOCK | {"offsets_rad": [0.0]},
            "'rewards.foot_clock.offsets_rad' is wrong: found 1 numbers, expected 2",
        ),
    ],
)
def test_a_wrong_parameter_is_refused(name, data, text):
    with pytest.raises(ContractError) as caught:
        parameters(name, data)
    assert str(caught.value) == f"task.toml: key {text}"


def test_a_parameter_that_a_reward_does_not_take_is_refused():
    with pytest.raises(ContractError) as caught:
        parameters("tilt", {"std": 1.0})
    assert str(caught.value) == "task.toml: unknown key 'rewards.tilt.std': expected one of none"
