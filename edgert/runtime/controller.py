"""`Controller`: one robot's observation to one robot's command, through the policy, in place.

Allocates nothing after construction. It does not look at the clock, the body or the safety of what it says; the loop
does. The policy's arrays are written by the compiled observation plan and read where the network left them.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from edgert.contract.command import JointCommand
from edgert.contract.observe import check_state, make_term_inputs
from edgert.contract.plan import ObservationPlan, next_phase
from edgert.contract.state import RobotState
from edgert.errors import ContractError
from edgert.policy.onnx_policy import OnnxPolicy


class Controller:
    """Binds a policy to the state of one body.

    Args:
        policy: made for one world.
        state: the body's state, refreshed in place by `Robot.observe`.
        command: the operator's command, (vx m/s, vy m/s, wz rad/s); empty for a policy without one.
        body: how errors call the body.
    """

    def __init__(self, policy: OnnxPolicy, state: RobotState, command: tuple[float, ...], body: str) -> None:
        contract = policy.contract
        check_state(contract, state, body)
        if len(command) != (3 if contract.command is not None else 0):
            raise ContractError(
                "the command does not fit the policy",
                found=f"{len(command)} numbers",
                expected="3 (vx, vy, wz)" if contract.command is not None else "none, as the policy takes no command",
            )
        self.policy = policy
        nact = len(contract.action.joints)
        self.command = np.array([command], np.float64).reshape(1, -1)
        self._raw = policy.action[0]
        self._last = np.zeros((1, nact))
        self._last_row = self._last[0]
        self._phase = np.zeros(1)
        inputs = make_term_inputs(
            contract, state, command=self.command, last_action=self._last, phase_rad=self._phase, xp=np
        )
        self._plans = [ObservationPlan(contract, name, inputs, policy.obs[name]) for name in contract.inputs]
        action = contract.action
        self._scale, self._offset = np.array(action.scale), np.array(action.offset)
        self._clip = action.clip
        self._clipped = np.zeros(nact)
        self._target = np.zeros(nact)
        self._joints = np.array([contract.joints.index(name) for name in action.joints])
        joints = len(contract.joints)
        self._q = np.array([contract.default_pos])
        self.out = JointCommand(
            q=self._q,
            qd=_frozen(np.zeros((1, joints))),
            kp=_frozen(np.array([contract.kp])),
            kd=_frozen(np.array([contract.kd])),
            tau=_frozen(np.zeros((1, joints))),
        )
        self._gait = contract.phase
        self._dt = contract.period_s
        self.reset()

    def reset(self) -> None:
        """Start an episode: no last action, the gait clock at its beginning."""
        self.policy.reset()
        self._last[:] = 0.0
        self._phase[0] = 0.0

    def act(self) -> bool:
        """Observe, infer, and write the target into `out`; False if the network's action was not finite.

        `out` keeps its last finite target then.
        """
        for plan in self._plans:
            plan()
        policy = self.policy
        policy.act(policy.obs, policy.out)
        last = self._last_row
        last[:] = self._raw
        if not isfinite(last.dot(last)):
            return False
        values = last
        if self._clip is not None:
            np.maximum(last, self._clip[0], out=self._clipped)
            np.minimum(self._clipped, self._clip[1], out=self._clipped)
            values = self._clipped
        np.multiply(values, self._scale, out=self._target)
        np.add(self._target, self._offset, out=self._target)
        self._q[0, self._joints] = self._target
        if self._gait is not None:
            self._phase[0] = next_phase(self._phase.item(), self._gait, self._dt, self.command[0])
        return True

    def observation_is_finite(self) -> bool:
        """Whether the last observation holds finite numbers only."""
        return all(bool(np.isfinite(array).all()) for array in self.policy.obs.values())

    def worst_action(self) -> str:
        """The joint whose action is not finite, for a message."""
        bad = np.flatnonzero(~np.isfinite(self._last_row))
        index = int(bad[0]) if len(bad) else 0
        return f"{self._last_row[index]} for joint '{self.policy.contract.action.joints[index]}'"


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
