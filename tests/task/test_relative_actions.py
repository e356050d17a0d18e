"""Actions that are relative to where the joints are."""

from __future__ import annotations

import numpy as np
from rollout_examples import TASKS

from edgert.task.worlds import Worlds

ARM, CARTPOLE = TASKS["arm_reach"], TASKS["cartpole"]


def started(task, nworld: int = 3) -> Worlds:
    worlds = Worlds(task, nworld, nthread=1)
    worlds.seed([np.random.default_rng(i) for i in range(nworld)])
    worlds.reset()
    return worlds


def test_targets_lie_ahead_of_the_measured_joints() -> None:
    action = ARM.contract.action
    ((low, high),) = set(action.clip)
    rng = np.random.default_rng(0)
    worlds = started(ARM)
    for _ in range(5):
        before = worlds.sim.view("qpos").copy()
        actions = rng.normal(scale=3.0, size=(3, 6))
        worlds.step(actions)
        expected = np.array(action.offset) + before + np.array(action.scale) * np.clip(actions, low, high)
        np.testing.assert_array_equal(worlds.asked.q, expected)
        np.testing.assert_array_equal(worlds.sim.view("ctrl"), expected)


def test_a_reset_tells_the_joints_to_stay() -> None:
    worlds = started(ARM)
    np.testing.assert_array_equal(worlds.sim.view("ctrl"), worlds.sim.view("qpos"))
    worlds.step(np.ones((3, 6)))
    qpos, ctrl = worlds.sim.view("qpos").copy(), worlds.sim.view("ctrl").copy()
    worlds.reset(np.array([False, True, False]))
    np.testing.assert_array_equal(worlds.sim.view("ctrl")[1], worlds.sim.view("qpos")[1])
    np.testing.assert_array_equal(worlds.sim.view("ctrl")[[0, 2]], ctrl[[0, 2]])
    assert (worlds.sim.view("qpos")[1] != qpos[1]).any()


def test_joints_that_do_not_act_hold_their_default() -> None:
    """The pole's hinge has no gains: nothing pulls it to the target that it has."""
    worlds = started(CARTPOLE)
    worlds.step(np.full((3, 1), 0.5))
    slider = worlds.asked.q[:, 0]
    assert len(set(slider)) == 3
    np.testing.assert_array_equal(worlds.asked.q[:, 1], 0.0)
    assert not worlds.sim.view("qfrc_actuator")[:, 1].any()


def test_targets_are_kept_of_a_world_that_diverges(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo may write a log
    worlds = started(ARM)
    worlds.sim.view("qvel")[1] = 1e12
    worlds.step(np.ones((3, 6)))
    assert worlds.terminated.tolist() == [False, True, False]
    assert (worlds.asked.q[1] != 0.0).all()
    assert (worlds.sim.view("ctrl")[1] == 0.0).all()
