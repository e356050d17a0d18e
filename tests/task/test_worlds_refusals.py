"""Tasks that do not fit their scene are refused when `Worlds` is made, with the name and the valid ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import leg_xml
from support import QUADRUPED
from task_examples import changed, leg_document, only, parse, write_task

from edgert.errors import ContractError, EdgertError, RobotError, UnsupportedError
from edgert.task.rewards import RewardTerm
from edgert.task.task import Task, load_task
from edgert.task.worlds import Worlds, build_scene


def test_more_worlds_than_memory_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their draws and what differs between them, which is far more than their state."""
    monkeypatch.setattr("edgert.sim.batch.os.sysconf", lambda name: 1 << 15)  # pages, and bytes of each
    with pytest.raises(UnsupportedError) as caught:
        Worlds(QUADRUPED, 50_000)
    assert str(caught.value) == (
        "50000 worlds do not fit into the memory of this computer: found 1.4 GiB at least, expected at most 1.0 GiB"
    )


def test_what_worlds_observe_takes_memory_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Histories of a million numbers each."""
    terms = [{"name": "joint_pos", "history": 1_000}] * 500
    task = leg_task(tmp_path, contract=leg_document()["contract"] | {"inputs": {"obs": {"terms": terms}}})
    monkeypatch.setattr("edgert.sim.batch.os.sysconf", lambda name: 1 << 15)
    with pytest.raises(UnsupportedError) as caught:
        Worlds(task, 100)
    assert str(caught.value) == (
        "100 worlds do not fit into the memory of this computer: found 1.5 GiB at least, expected at most 1.0 GiB"
    )


@pytest.mark.parametrize("nworld", [0, -1, True, 2.0, "2", 10**9])
def test_a_number_of_worlds_that_is_none_is_refused(nworld: Any) -> None:
    with pytest.raises(UnsupportedError, match="the number of worlds is wrong"):
        Worlds(QUADRUPED, nworld)


UNKNOWN: dict[str, tuple[str, Any, str]] = {
    "sensor of a reward": (
        "rewards.foot_clock.sensors",
        ["FL_foot_pos", "tail_pos", "RL_foot_pos", "RR_foot_pos"],
        "reward 'foot_clock' of task 'quadruped' reads a sensor .* found tail_pos, expected one of .*FL_foot_pos",
    ),
    "sensor with fewer numbers": (
        "rewards.foot_clock.sensors",
        ["FL_foot_contact", "FR_foot_pos", "RL_foot_pos", "RR_foot_pos"],
        "reward 'foot_clock' of task 'quadruped' cannot be computed .* a sensor with more numbers",
    ),
    "geom": (
        "randomise.friction.geoms",
        ["FL_foot", "paw"],
        "task 'quadruped' randomises a geom that scene .* does not have: found paw, expected one of floor, .*FL_foot",
    ),
    "body": (
        "randomise.mass.body",
        "torso",
        "task 'quadruped' randomises a body that scene .* does not have: found torso, expected one of trunk, FL_hip",
    ),
    "the world as a body": ("randomise.mass.body", "world", "found world, expected one of trunk"),
    "no mass left": (
        "randomise.mass.add_kg",
        [-7.0, 1.0],
        "leave body 'trunk' without mass: found 6.921 kg and add_kg = -7",
    ),
    "base": ("base", "torso", "has no body 'torso': expected the name of the base body, one of trunk"),
    "joint": (
        "contract.joints.names",
        ["tail", *QUADRUPED.contract.joints[1:]],
        "lacks joints of the policy: found no tail",
    ),
    "sensor of an observation": (
        "contract.inputs.obs.terms",
        [{"name": "imu_quat", "sensors": ["nose"]}],
        "term 'imu_quat' of input 'obs' reads a sensor .* found nose, expected one of .*imu_quat",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.parametrize("randomise", [True, False])
def test_unknown_names(case: str, randomise: bool) -> None:
    key, value, expected = UNKNOWN[case]
    some = changed(key, value)
    if case in ("joint", "sensor of an observation"):
        some["rewards"], some["randomise"] = {}, {}
    with pytest.raises(EdgertError) as caught:
        Worlds(parse(some), 1, randomise=randomise)
    text = str(caught.value)
    assert re.search(expected, text)
    assert text.isprintable()


def leg_task(folder: Path, scene: str | None = None, **changes: Any) -> Task:
    return load_task(write_task(folder, leg_document(**changes), leg_xml() if scene is None else scene))


@pytest.mark.parametrize(("decimation", "found"), [(4, "125 Hz"), (6, "83.3333 Hz"), (10_000, "0.05 Hz")], ids=str)
def test_a_rate_that_does_not_fit(decimation: int, found: str, tmp_path: Path) -> None:
    expected = f"decimation {decimation} at timestep 0.002 s .* found {found}, expected contract.control_hz = 100"
    with pytest.raises(ContractError, match=expected):
        Worlds(leg_task(tmp_path, decimation=decimation), 1)


def test_a_task_without_a_command_runs(tmp_path: Path) -> None:
    with Worlds(leg_task(tmp_path), 2, nthread=1) as worlds:
        worlds.seed([np.random.default_rng(i) for i in range(2)])
        worlds.reset()
        worlds.step(np.zeros((2, 2)))
        worlds.resample()
        assert worlds.observe()["obs"].shape == (2, 6)
        assert worlds.command.shape == (2, 0)
        assert not worlds.terminated.any()


FLOATING = {
    "fall": {"terminations": {"fall": {"tilt_rad": 1.0}}},
    "push": {"randomise": {"push": {"interval_s": 1.0, "velocity_m_s": 0.5}}},
}


@pytest.mark.parametrize("case", FLOATING)
def test_what_needs_a_floating_base(case: str, tmp_path: Path) -> None:
    task = leg_task(tmp_path, leg_xml(root=""), **FLOATING[case])
    with pytest.raises(RobotError, match=r"needs a floating base, which scene .* does not have. Add <freejoint/>"):
        Worlds(task, 1)


@pytest.mark.parametrize("reward", ["tilt", "lin_vel_z", "ang_vel_xy", "base_height"])
def test_rewards_that_need_a_floating_base(reward: str, tmp_path: Path) -> None:
    entry = {"weight": 1.0} | ({"height_m": 0.3} if reward == "base_height" else {})
    task = leg_task(tmp_path, leg_xml(root=""), rewards={reward: entry})
    with pytest.raises(ContractError, match=f"reward '{reward}' of task .* cannot be computed .* need a floating base"):
        Worlds(task, 1)


@pytest.mark.parametrize("reward", [{"goal_distance": {"weight": -1.0}}, {"near_goal": {"weight": 1.0, "std": 0.1}}])
def test_a_reward_of_a_goal_under_other_commands(reward: dict[str, Any]) -> None:
    some = changed("rewards", reward)
    with pytest.raises(ContractError, match="measures the distance from a commanded position: found twist commands"):
        Worlds(parse(some), 1)


def test_a_reward_of_the_clock_without_a_clock(tmp_path: Path) -> None:
    clock = {"weight": 1.0, "height_m": 0.1, "ground_m": 0.0, "sensors": ["foot"], "offsets_rad": [0.0]}
    scene = leg_xml(sensors='<framepos name="foot" objtype="geom" objname="foot"/>')
    with pytest.raises(ContractError, match=r"'foot_clock' .* found no command, no gait clock in the contract"):
        Worlds(leg_task(tmp_path, scene, rewards={"foot_clock": clock}), 1)


def test_a_reward_of_the_command_without_a_command(tmp_path: Path) -> None:
    task = leg_task(tmp_path, rewards={"track_lin_vel": {"weight": 1.0, "std": 0.5}})
    with pytest.raises(ContractError, match=r"'track_lin_vel' .* cannot be computed"):
        Worlds(task, 1)


def test_a_reward_that_is_no_number_a_world() -> None:
    term = RewardTerm(name="odd", weight=1.0, function=lambda inputs, parameters, xp: inputs.action, parameters={})
    with pytest.raises(ContractError, match=r"reward 'odd' .* found shape \(2, 12\), expected shape \(2,\)"):
        Worlds(replace(QUADRUPED, rewards=(term,)), 2)


@pytest.mark.parametrize(
    "command", [(1.0, 0.0), (1.0, 0.0, float("nan")), (1.0, 0.0, 0.0, 0.0), 0.5, ("fast", 0, 0), [[1, 0, 0]]], ids=str
)
def test_a_fixed_command_is_three_finite_numbers(command: Any) -> None:
    with pytest.raises(
        ContractError, match=r"the fixed command is wrong: found .* expected three finite numbers: vx, vy, wz"
    ):
        Worlds(QUADRUPED, 1, command=command)


def test_a_fixed_command_for_a_task_that_takes_none(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"takes no command: .* Leave it out"):
        Worlds(leg_task(tmp_path), 1, command=(0.0, 0.0, 0.0))


def test_no_world() -> None:
    with pytest.raises(UnsupportedError, match="the number of worlds is wrong: found 0"):
        Worlds(QUADRUPED, 0)


@pytest.mark.parametrize("shape", [(2, 11), (12,), (1, 12), (3, 12), ()], ids=str)
def test_actions_of_another_shape_step_nothing(shape: tuple[int, ...]) -> None:
    worlds = Worlds(only(), 2, nthread=1)
    worlds.seed([np.random.default_rng(i) for i in range(2)])
    worlds.reset()
    before = worlds.sim.state()
    with pytest.raises(ContractError, match=re.escape(f"found {shape}, expected (2, 12)")):
        worlds.step(np.zeros(shape))
    np.testing.assert_array_equal(worlds.sim.state(), before)
    assert not worlds.steps.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_actions_that_are_not_finite_step_nothing(bad: float) -> None:
    worlds = Worlds(only(), 3, nthread=1)
    worlds.seed([np.random.default_rng(i) for i in range(3)])
    worlds.reset()
    before = worlds.sim.state()
    actions = np.zeros((3, 12))
    actions[1, 4] = bad
    with pytest.raises(ContractError, match=r"the action of world 1 is not finite or absurd: found .* expected finite"):
        worlds.step(actions)
    np.testing.assert_array_equal(worlds.sim.state(), before)
    assert not worlds.action.any()


def test_room_for_delays_is_made_only_where_they_are_drawn() -> None:
    assert build_scene(QUADRUPED).model.nhistory == 0
    assert Worlds(QUADRUPED, 1, randomise=False).scene.model.nhistory == 0
    assert Worlds(QUADRUPED, 1).scene.model.nhistory > 0
