"""Criteria of success, and the rules that hold them."""

from __future__ import annotations

from math import pi
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
from rollout_examples import TASKS, changed_sim

from edgert.errors import ContractError
from edgert.task.env import TaskEnv, TaskVecEnv
from edgert.task.success import CRITERIA
from edgert.task.task import load_task
from edgert.task.worlds import Worlds

CARTPOLE, ARM = TASKS["cartpole"], TASKS["arm_reach"]


class Inputs:
    """As much of `RewardInputs` as criteria read."""

    def __init__(self, xp: Any, joint_pos: Any = None, tool: Any = None, command: Any = None) -> None:
        self.state = self
        self.joint_pos = None if joint_pos is None else xp.asarray(joint_pos)
        self.sensors = {} if tool is None else {"ee_pos": xp.asarray(tool)}
        self.command = None if command is None else xp.asarray(command)


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_an_angle_is_near_around_the_circle(xp: Any) -> None:
    function, _ = CRITERIA["joint_near"]
    angles = [[0.0, pi - 0.1], [0.0, -pi + 0.1], [0.0, 3 * pi + 0.19], [0.0, pi - 0.21], [0.0, 0.0], [pi, -pi - 0.3]]
    parameters = {"joint": 1, "angle_rad": pi, "within_rad": 0.2}
    near = function(Inputs(xp, joint_pos=angles), parameters, xp)  # type: ignore[arg-type]
    assert np.asarray(near).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_a_goal_is_near_by_distance(xp: Any) -> None:
    function, _ = CRITERIA["goal_near"]
    inputs = Inputs(xp, tool=[[0.3, 0.4, 0.0], [0.0, 0.0, 0.4]], command=[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    near = function(inputs, {"sensors": ("ee_pos",), "within_m": 0.45}, xp)  # type: ignore[arg-type]
    assert np.asarray(near).tolist() == [False, True]


def test_worlds_say_where_the_criterion_holds() -> None:
    with Worlds(CARTPOLE, 4, nthread=1) as worlds:
        worlds.seed([np.random.default_rng(i) for i in range(4)])
        worlds.reset()
        assert worlds.success is not None
        assert not worlds.success.any()  # of a step there was none yet
        worlds.sim.step = lambda nstep=1: None  # type: ignore[method-assign]  # judge just the state that is set here
        worlds.sim.view("qpos")[:, 1] = [0.0, 0.2, -0.22, 2 * pi]
        worlds.step(np.zeros((4, 1)))
        assert worlds.success.tolist() == [True, True, False, True]
        worlds.reset(np.array([True, False, False, False]))
        assert worlds.success.tolist() == [False, True, False, True]


def test_environments_tell_success_in_every_step() -> None:
    vector, single = TaskVecEnv(2, sim="arm_reach"), TaskEnv(sim="arm_reach")
    _, info = vector.reset(seed=0)
    assert "is_success" not in info
    _, info = single.reset(seed=0)
    assert "is_success" not in info
    for env, action in ((vector, np.zeros((2, 6), np.float32)), (single, np.zeros(6, np.float32))):
        worlds = env.worlds
        *_, info = env.step(action)
        distance = worlds.goal_distance()
        assert distance is not None
        np.testing.assert_array_equal(info["is_success"], (distance <= 0.02) if env is vector else distance[0] <= 0.02)
        worlds.command[:] = worlds.body.state.sensors["ee_pos"]
        *_, info = env.step(action)
        assert np.all(info["is_success"])
    vector.close()
    single.close()


def test_a_task_without_a_criterion_tells_none() -> None:
    env = TaskVecEnv(1)
    env.reset(seed=0)
    *_, info = env.step(np.zeros((1, 12), np.float32))
    assert "is_success" not in info
    env.close()


REFUSED: list[tuple[str, Any, str]] = [
    ("success", {}, r"\[success\] needs exactly one criterion: found none, expected one of joint_near, goal_near"),
    (
        "success.goal_near",
        {"within_m": 0.1},
        r"\[success\] needs exactly one criterion: found joint_near, goal_near, expected one of",
    ),
    (
        "success.joint_near.joint",
        "wheel",
        "key 'success.joint_near.joint' is wrong: found 'wheel', expected one of slider",
    ),
    (
        "success.joint_near.within_rad",
        0.0,
        "key 'success.joint_near.within_rad' is wrong: found 0.0, expected more than 0",
    ),
    ("success.joint_near.within_rad", None, "key 'success.joint_near.within_rad' is missing"),
    ("success.joint_near.speed", 1.0, "unknown key 'success.joint_near.speed'"),
    ("success.hold_s", -1.0, "key 'success.hold_s' is wrong: found -1.0, expected at least 0"),
    ("success.held_s", 1.0, "unknown key 'success.held_s': expected one of goal_near, hold_s, joint_near"),
]


UNFIT: list[tuple[str, Any, str]] = [
    (
        "arm_reach",
        {"goal_near": {"within_m": 0.1, "sensor": "tip"}},
        "criterion 'goal_near' of task 'arm_reach' reads a sensor that scene .* does not have: found tip, expected one",
    ),
    (
        "cartpole",
        {"goal_near": {"within_m": 0.1}},
        "criterion 'goal_near' of task 'cartpole' measures the distance from a commanded position: found no command, "
        r"expected \[contract.command\] kind = \"position\"",
    ),
    (
        "quadruped",
        {"goal_near": {"within_m": 0.1, "sensor": "FL_foot_pos"}},
        "criterion 'goal_near' of task 'quadruped' measures the distance .* found twist commands, expected",
    ),
]


@pytest.mark.parametrize(("sim", "success", "text"), UNFIT)
def test_a_criterion_that_the_scene_cannot_feed_is_refused(
    sim: str, success: dict[str, Any], text: str, tmp_path: Path
) -> None:
    task = load_task(changed_sim(sim, tmp_path, {"success": success}))
    with pytest.raises(ContractError, match=text):
        Worlds(task, 1)


@pytest.mark.parametrize(("key", "value", "text"), REFUSED)
def test_refusals_name_the_key(key: str, value: Any, text: str, tmp_path: Path) -> None:
    path = changed_sim("cartpole", tmp_path, {key: value})
    with pytest.raises(ContractError, match=text):
        load_task(path)
