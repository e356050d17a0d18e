"""Draws by joint, and goals that are uniform in volume."""

from __future__ import annotations

from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rollout_examples import TASKS, changed_sim
from support import QUADRUPED
from task_examples import only

from edgert.errors import ContractError
from edgert.task.draws import draw_commands
from edgert.task.sampling import GoalSampling, ResetRanges
from edgert.task.task import Task, load_task
from edgert.task.worlds import Worlds

ARM, CARTPOLE = TASKS["arm_reach"], TASKS["cartpole"]


def started(task: Task, nworld: int, **options: Any) -> Worlds:
    worlds = Worlds(task, nworld, nthread=1, **options)
    worlds.seed([np.random.default_rng(i) for i in range(nworld)])
    worlds.reset()
    return worlds


def uniform(values: np.ndarray, low: float, high: float) -> None:
    """A Kolmogorov-Smirnov test that 1 in 1000 uniform samples fails."""
    unit = (np.sort(values) - low) / (high - low)
    n = len(unit)
    assert unit[0] >= 0.0
    assert unit[-1] <= 1.0
    steps = np.arange(n)
    assert max((unit - steps / n).max(), ((steps + 1) / n - unit).max()) < 1.95 / np.sqrt(n)


def test_ranges_by_joint_are_those_of_the_named_joints() -> None:
    worlds = started(CARTPOLE, 500)
    qpos, qvel = worlds.sim.view("qpos"), worlds.sim.view("qvel")
    assert CARTPOLE.reset.joint_pos_rad == {"slider": 0.3, "hinge": pi}
    for column, half_width in enumerate((0.3, pi)):
        uniform(qpos[:, column], -half_width, half_width)
    for column, half_width in enumerate((0.1, 0.5)):
        uniform(qvel[:, column], -half_width, half_width)


def test_joints_that_are_not_named_are_not_spread() -> None:
    ranges = ResetRanges(joint_pos_rad={"FR_hip_joint": 0.2}, joint_vel_rad_s={"RR_calf_joint": 1.0})
    worlds = started(replace(only(), reset=ranges), 100)
    position = worlds.body.state.joint_pos - np.array(QUADRUPED.contract.default_pos)
    moved = QUADRUPED.contract.joints.index("FR_hip_joint")
    assert np.ptp(position[:, moved]) > 0.3
    assert not np.delete(position, moved, axis=1).any()
    moved = QUADRUPED.contract.joints.index("RR_calf_joint")
    assert np.ptp(worlds.body.state.joint_vel[:, moved]) > 1.8
    assert not np.delete(worlds.body.state.joint_vel, moved, axis=1).any()


def test_one_number_is_that_of_every_joint() -> None:
    """And draws the same as a range by joint with that number for each."""
    by_joint = dict.fromkeys(QUADRUPED.contract.joints, 0.15)
    one, many = (started(replace(only(), reset=ResetRanges(joint_pos_rad=value)), 5) for value in (0.15, by_joint))
    np.testing.assert_array_equal(one.sim.view("qpos"), many.sim.view("qpos"))
    assert one.sim.view("qpos").std() > 0.0


def test_goals_are_uniform_in_the_volume_of_their_shell() -> None:
    sampling = GoalSampling(
        center_m=(1.0, -2.0, 0.5), radius_m=(0.3, 0.9), azimuth_rad=(-1.0, 2.5), elevation_rad=(-0.3, 1.2), resample_s=1
    )
    goals = draw_commands(np.random.default_rng(0).random((5000, 5)), sampling)
    x, y, z = (goals - sampling.center_m).T
    radius = np.sqrt(x * x + y * y + z * z)
    uniform(radius**3, 0.3**3, 0.9**3)
    uniform(np.arctan2(y, x), -1.0, 2.5)
    uniform(z / radius, np.sin(-0.3), np.sin(1.2))


def test_a_whole_ball_is_the_default() -> None:
    sampling = GoalSampling(
        center_m=(0.0, 0.0, 0.0),
        radius_m=(0.0, 1.0),
        azimuth_rad=(-pi, pi),
        elevation_rad=(-pi / 2, pi / 2),
        resample_s=1.0,
    )
    goals = draw_commands(np.random.default_rng(1).random((5000, 5)), sampling)
    assert np.abs(goals.mean(axis=0)).max() < 0.03
    np.testing.assert_allclose(goals.T @ goals / 5000, np.eye(3) / 5.0, atol=0.01)  # of a uniform ball of radius 1


def test_goals_are_drawn_at_each_reset_and_when_they_are_due(tmp_path: Path) -> None:
    task = load_task(changed_sim("arm_reach", tmp_path, {"command.resample_s": 0.1}))
    worlds = started(task, 2)
    sampling = task.command
    assert isinstance(sampling, GoalSampling)
    goals = [worlds.command.copy()]
    for _ in range(10):
        worlds.step(np.zeros((2, 6)))
        worlds.resample()
        goals.append(worlds.command.copy())
    changes = [k for k in range(1, 11) if (goals[k] != goals[k - 1]).any()]
    assert changes == [5, 10]
    worlds.reset(np.array([False, True]))
    assert (worlds.command[0] == goals[-1][0]).all()
    assert (worlds.command[1] != goals[-1][1]).any()
    radius = np.linalg.norm(np.array(goals) - sampling.center_m, axis=2)
    assert sampling.radius_m[0] <= radius.min()
    assert radius.max() <= sampling.radius_m[1]


def test_a_fixed_goal_stays() -> None:
    worlds = started(ARM, 2, command=(0.3, 0.2, 0.4))
    worlds.steps += 5_000
    worlds.resample()
    np.testing.assert_array_equal(worlds.command, [[0.3, 0.2, 0.4]] * 2)
    distance = worlds.goal_distance()
    assert distance is not None
    expected = np.linalg.norm(worlds.body.state.sensors["ee_pos"] - [0.3, 0.2, 0.4], axis=1)
    np.testing.assert_allclose(distance, expected)


def test_a_task_without_a_goal_has_no_distance() -> None:
    assert started(QUADRUPED, 1).goal_distance() is None
    assert started(CARTPOLE, 1).goal_distance() is None


REFUSED: list[tuple[str, str, Any, str]] = [
    (
        "cartpole",
        "reset.joint_pos_rad",
        {"slide": 0.1},
        "unknown key 'reset.joint_pos_rad.slide': expected one of hinge",
    ),
    ("cartpole", "reset.joint_pos_rad", {"slider": -0.1}, "key 'reset.joint_pos_rad.slider' is wrong: found -0.1"),
    (
        "cartpole",
        "reset.joint_vel_rad_s",
        {"slider": "x"},
        "key 'reset.joint_vel_rad_s.slider' is wrong: found text",
    ),
    ("cartpole", "reset.joint_vel_rad_s", [0.1], "key 'reset.joint_vel_rad_s' is wrong: found a list"),
    ("arm_reach", "command.radius_m", [-0.1, 1.0], "key 'command.radius_m' is wrong: found -0.1, expected at least 0"),
    ("arm_reach", "command.radius_m", None, "key 'command.radius_m' is missing. Add command.radius_m to it"),
    ("arm_reach", "command.elevation_rad", [0.0, 2.0], "key 'command.elevation_rad' is wrong: found 2.0"),
    ("arm_reach", "command.azimuth_rad", [1.0, -1.0], r"found \[1, -1\], expected \[low, high\] with low <= high"),
    ("arm_reach", "command.center_m", [0.0, 0.0], "key 'command.center_m' is wrong: found 2 numbers, expected 3"),
    ("arm_reach", "command.vx_m_s", [0.0, 1.0], "unknown key 'command.vx_m_s': expected one of azimuth_rad, center_m"),
    ("quadruped", "command.radius_m", [0.0, 1.0], "unknown key 'command.radius_m': expected one of forward_fraction"),
    (
        "quadruped",
        "randomise.push.speed_m_s",
        0.5,
        "key 'randomise.push.speed_m_s' is wrong: found velocity_m_s beside it, expected one of them",
    ),
    ("quadruped", "randomise.push", {"interval_s": 1.0, "speed_m_s": -1.0}, "push.speed_m_s' is wrong: found -1.0"),
]


@pytest.mark.parametrize(("sim", "key", "value", "text"), REFUSED)
def test_refusals_name_the_key(sim: str, key: str, value: Any, text: str, tmp_path: Path) -> None:
    path = changed_sim(sim, tmp_path, {key: value})
    with pytest.raises(ContractError, match=text):
        load_task(path)


def test_a_task_may_push_with_a_speed(tmp_path: Path) -> None:
    path = changed_sim("quadruped", tmp_path, {"randomise.push": {"interval_s": 2.0, "speed_m_s": 0.4}})
    randomise = load_task(path).randomise
    assert (randomise.push_interval_s, randomise.push_speed_m_s, randomise.push_m_s) == (2.0, 0.4, 0.0)
