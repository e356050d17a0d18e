"""`Controller`: one robot's observation to one robot's command, through the policy, in place.

It makes no array after construction. It does not look at the clock, the body or the safety of what it says; the loop
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
from edgert.policy.onnx_policy import Policy


class Controller:
    """Binds a policy to the state of one body.

    Args:
        policy: made for one world.
        state: the body's state, refreshed in place by `Robot.observe`.
        command: the operator's command, (vx m/s, vy m/s, wz rad/s); empty for a policy without one.
        body: how errors call the body.
    """

    def __init__(self, policy: Policy, state: RobotState, command: tuple[float, ...], body: str) -> None:
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
        self._raw = policy.out[contract.action.output][0]
        self._last = np.zeros((1, nact))
        self._last_row = self._last[0]
        self._phase = np.zeros(1)
        inputs = make_term_inputs(
            contract, state, command=self.command, last_action=self._last, phase_rad=self._phase, xp=np
        )
        self._plans = [ObservationPlan(contract, name, inputs, policy.obs[name]) for name in contract.inputs]
        action = contract.action
        self._scale, self._offset = np.array(action.scale), np.array(action.offset)
        self._bounds = None if action.clip is None else tuple(np.full(nact, bound) for bound in action.clip)
        joints = len(contract.joints)
        self._q = np.array([contract.default_pos])
        # Where the action moves every joint in order, targets are computed in the command itself.
        self._joints = None if action.joints == contract.joints else [contract.joints.index(n) for n in action.joints]
        self._target = self._q[0] if self._joints is None else np.zeros(nact)
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
        target = self._target
        if self._bounds is None:
            np.multiply(last, self._scale, out=target)
        else:
            np.maximum(last, self._bounds[0], out=target)
            np.minimum(target, self._bounds[1], out=target)
            np.multiply(target, self._scale, out=target)
        np.add(target, self._offset, out=target)
        if self._joints is not None:
            self._q[0, self._joints] = target
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
