"""What the policy of many worlds sees where a world has no finite numbers left."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgert.contract import RobotState, parse_contract
from edgert.contract.observe import make_term_inputs
from edgert.task.draws import Generators
from edgert.task.observing import Observations

CONTRACT = parse_contract(
    {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["hip", "knee"], "default_pos": 0.0, "kp": 20.0, "kd": 0.5},
        "inputs": {"obs": {"terms": ["joint_pos"]}},
        "action": {"output": "actions"},
    },
    "test",
)


def test_only_worlds_that_are_lost_see_zeros() -> None:
    """A number that float16 does not hold belongs to its world, whatever became of another one."""
    position = np.array([[np.nan, 1.0], [1e6, 2.0], [0.5, 3.0]])
    inputs: Any = make_term_inputs(
        CONTRACT,
        RobotState(joint_names=CONTRACT.joints, joint_pos=position),
        command=np.zeros((3, 0)),
        last_action=np.zeros((3, 2)),
        phase_rad=np.zeros(3),
        xp=np,
    )
    see = Observations(CONTRACT, inputs, Generators(3, np.zeros(2)), {"obs": np.dtype(np.float16)})
    with np.errstate(over="ignore"):
        seen = see(None, np.array([True, False, False]))["obs"]
        assert seen.tolist() == [[0.0, 0.0], [np.inf, 2.0], [0.5, 3.0]]
        some = see(np.array([False, True, True]), np.array([True, False, True]))["obs"]
        assert some.tolist() == [[np.inf, 2.0], [0.5, 3.0]]
        assert np.isnan(see(None, None)["obs"][0, 0])
