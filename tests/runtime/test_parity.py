"""One robot under the runtime moves as one world of the task does, bit for bit."""

from __future__ import annotations

import numpy as np
from support import QUADRUPED

from edgert.device import find_device
from edgert.policy import OnnxPolicy, load_policy
from edgert.robot import SimRobot
from edgert.runtime.controller import Controller
from edgert.task.worlds import Worlds, build_scene

COMMAND = (0.5, 0.0, 0.3)


def test_controller_and_worlds_agree() -> None:
    loaded = load_policy("quadruped")
    with (
        OnnxPolicy(loaded, find_device("cpu")) as ours,
        OnnxPolicy(loaded, find_device("cpu")) as theirs,
        Worlds(QUADRUPED, 1, nthread=1, randomise=False, command=COMMAND) as worlds,
        SimRobot(build_scene(QUADRUPED), QUADRUPED.contract) as robot,
    ):
        worlds.seed([np.random.default_rng(0)])
        worlds.reset()
        robot.reset(worlds.sim.view("qpos")[0], worlds.sim.view("qvel")[0])
        controller = Controller(ours, robot.allocate(), COMMAND, "robot")
        for _ in range(200):
            robot.observe(robot.allocate())
            assert controller.act()
            robot.command(controller.out)
            robot.advance(QUADRUPED.decimation)

            theirs.obs["obs"][:] = worlds.observe()["obs"]
            theirs.act(theirs.obs, theirs.out)
            worlds.step(theirs.action)
            np.testing.assert_array_equal(ours.obs["obs"], theirs.obs["obs"])
        np.testing.assert_array_equal(robot.sim.view("qpos"), worlds.sim.view("qpos"))
