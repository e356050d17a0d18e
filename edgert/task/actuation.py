"""`Actuation`: from the raw action of a policy to the controls of the actuators, in many worlds."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from edgert.contract.action import EVERY, action_map, picked, places
from edgert.contract.spec import Contract
from edgert.sim.actuators import Drive
from edgert.sim.body import SimBody
from edgert.sim.protocol import Floats


class Actuation:
    """Targets and controls of the joints of `contract` in every world of `body`.

    Args:
        contract: whose action it is.
        body: the robot in every world.
        gains_differ: whether worlds have gains of their own.

    Attributes:
        q, qd, tau: what the joints of the contract were last asked for, (nworld, njoint) rad, rad/s, N·m. Joints that
            the policy does not act on keep their default pose.
    """

    def __init__(self, contract: Contract, body: SimBody, *, gains_differ: bool) -> None:
        scene, nworld, action = body.scene, body.sim.nworld, contract.action
        self.q = np.tile(np.array(contract.default_pos), (nworld, 1))
        self.qd, self.tau = np.zeros_like(self.q), np.zeros_like(self.q)
        self._map = action_map(action, self.q, np)
        acted = [contract.joints.index(name) for name in action.joints]
        self._measured = (body.state.joint_pos, acted) if action.relative else None
        self._numbers = [(getattr(self, field), *place) for field, *place in places(action, contract.joints)]
        self._drives: list[tuple[Drive, Any, Any]] = []
        for drive in dict.fromkeys(scene.drives):
            names = [name for name, own in zip(scene.joints, scene.drives, strict=True) if own == drive]
            columns = [scene.joints.index(name) for name in names]
            self._drives.append((drive, picked(columns, len(scene.joints)), body.joint_columns(names)))
        self._ctrl = body.sim.view("ctrl")
        bias = scene.model.actuator_biasprm
        self._bias: Floats = (
            body.sim.expand("actuator_biasprm") if gains_differ else np.broadcast_to(bias, (nworld, *bias.shape))
        )

    def aim(self, raw: Floats, index: Any = EVERY) -> None:
        """Ask the joints of the worlds of `index` for what their raw actions (n, nact) mean, and set the controls."""
        measured = None
        if self._measured is not None:
            position, acted = self._measured
            measured = position[index][:, acted]  # type: ignore[index]  # every body has joints
        target = self._map.target(raw, np, measured)
        for array, joints, numbers in self._numbers:
            rows = array[index]
            rows[:, joints] = target[:, numbers]
            if index is not EVERY:
                array[index] = rows
        controls = self._ctrl[index]
        for drive, joints, actuators in self._drives:
            controls[:, actuators] = self._asked(drive, index, joints, actuators)
        if index is not EVERY:
            self._ctrl[index] = controls

    def _asked(self, drive: Drive, index: Any, joints: Any, actuators: Any) -> Floats:
        """Controls (n, …) of actuators of a drive."""
        asked = {"position": self.q, "velocity": self.qd, "torque": self.tau}
        if drive != "sum":
            return cast(Floats, asked[drive][index][:, joints])
        q, qd, tau = (array[index][:, joints] for array in asked.values())
        bias = self._bias[index][:, actuators]
        return cast(Floats, -bias[:, :, 1] * q - bias[:, :, 2] * qd + tau)
