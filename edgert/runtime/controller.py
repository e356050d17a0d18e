"""`Controller`: one robot's observation to one robot's command, through the policy, in place.

It makes no array after construction. It does not look at the clock, the body or the safety of what it says; the loop
does. The policy's arrays are written by the compiled observation plan and read where the network left them.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from edgert.contract.action import EVERY, action_map, places
from edgert.contract.command import JointCommand
from edgert.contract.motion import Motion, MotionPlayer, check_motion
from edgert.contract.observe import check_state, make_term_inputs
from edgert.contract.plan import ObservationPlan, next_phase
from edgert.contract.state import RobotState
from edgert.contract.usable import problem
from edgert.errors import ContractError
from edgert.policy.onnx_policy import Policy
from edgert.tables import MAX_MAGNITUDE


class Controller:
    """Binds a policy to the state of one body.

    Args:
        policy: made for one world.
        state: the body's state, refreshed in place by `Robot.observe`.
        command: the operator's command, (vx m/s, vy m/s, wz rad/s); empty for a policy without one.
        body: how errors call the body.
        motion: the reference motion of a tracking policy, at the pose of its anchor.
    """

    def __init__(
        self,
        policy: Policy,
        state: RobotState,
        command: tuple[float, ...],
        body: str,
        motion: Motion | None = None,
    ) -> None:
        contract = policy.contract
        check_state(contract, state, body)
        if len(command) != (3 if contract.command is not None else 0):
            raise ContractError(
                "the command does not fit the policy",
                found=f"{len(command)} numbers",
                expected="3 numbers" if contract.command is not None else "none, as the policy takes no command",
            )
        self.policy = policy
        nact = len(contract.action.joints)
        self.command = np.array([command], np.float64).reshape(1, -1)
        self._raw = policy.action[0]
        self._last = np.zeros((1, nact))
        self._last_row = self._last[0]
        self._phase = np.zeros(1)
        self._step = np.zeros(1, np.int64)
        check_motion(contract, motion)
        self.player = None if motion is None else MotionPlayer(motion, state)
        inputs = make_term_inputs(
            contract,
            state,
            command=self.command,
            last_action=self._last,
            phase_rad=self._phase,
            xp=np,
            step=self._step,
            motion=None if self.player is None else self.player.state,
        )
        self._plans = [ObservationPlan(contract, name, inputs, policy.obs[name]) for name in contract.inputs]
        self._map = action_map(contract.action, self._last, np)
        self._nothing = np.zeros((1, nact))
        self._target = np.zeros(nact)
        self._observations = [array[0] for array in policy.obs.values() if array.dtype.kind == "f"]
        acted = [contract.joints.index(name) for name in contract.action.joints]
        self._measured = (state.joint_pos[0], acted) if contract.action.relative else None  # type: ignore[index]
        joints, kinds = len(contract.joints), contract.action.kinds
        q = np.array([contract.default_pos])
        qd, tau = np.zeros((1, joints)), np.zeros((1, joints))
        rows = {"q": q[0], "qd": qd[0], "tau": tau[0]}
        self._sent = [(rows[field], *place) for field, *place in places(contract.action, contract.joints)]
        self.out = JointCommand(
            q=q,
            qd=qd if "velocity" in kinds else _frozen(qd),
            kp=_frozen(np.array([contract.kp])),
            kd=_frozen(np.array([contract.kd])),
            tau=tau if "torque" in kinds else _frozen(tau),
        )
        self._gait = contract.phase
        self._dt = contract.period_s
        self.reset()

    def reset(self) -> None:
        """Start an episode: no last action, the gait clock at its beginning."""
        self.policy.reset()
        for plan in self._plans:
            plan.reset()
        self._last[:] = 0.0
        self._phase[0] = 0.0
        self._ticks = self._step[0] = 0
        if self.player is not None:
            self.player.reset()

    def rest(self) -> JointCommand:
        """`out` with what an action of zeros asks for, as many worlds begin an episode: sensors may tell of it."""
        measured = None if self._measured is None else self._measured[0][self._measured[1]][None, :]
        self._target[:] = self._map.target(self._nothing, np, measured)[0]
        self._write()
        return self.out

    def _write(self) -> None:
        target = self._target
        for row, joints, numbers in self._sent:
            row[joints] = target if numbers is EVERY else target[numbers]

    def observe(self) -> None:
        """Write the observation of this instant into the policy's arrays."""
        if self.player is not None:
            self.player.refresh()
        for plan in self._plans:
            plan()

    def act(self) -> bool:
        """Observe, infer, and write the target into `out`; False, and `out` as it was, if a number was not usable.

        `problem()` then tells which.
        """
        self.observe()
        policy = self.policy
        policy.act(policy.obs, policy.out)
        last, target, acts = self._last_row, self._target, self._map
        last[:] = self._raw
        if acts.clip is None:
            np.multiply(last, acts.scale, out=target)
        else:
            np.maximum(last, acts.clip[0], out=target)
            np.minimum(target, acts.clip[1], out=target)
            np.multiply(target, acts.scale, out=target)
        np.add(target, acts.offset, out=target)
        if self._measured is not None:
            position, acted = self._measured
            np.add(target, position[acted] * acts.relative, out=target)
        if acts.target_clip is not None:
            np.maximum(target, acts.target_clip[0], out=target)
            np.minimum(target, acts.target_clip[1], out=target)
        # Sums of squares are quick to make; where they are too large the numbers themselves decide.
        norm = target.dot(target)
        for row in self._observations:
            norm += row.dot(row)
        if not (last.dot(last) <= MAX_MAGNITUDE and isfinite(norm)) and self.problem():
            return False
        self._write()
        self._ticks += 1
        self._step[0] = self._ticks
        if self.player is not None:
            self.player.advance()
        if self._gait is not None:
            self._phase[0] = next_phase(self._phase.item(), self._gait, self._dt, self.command[0])
        return True

    def problem(self) -> str:
        """The first number that was not finite, of observation, action or target, or an absurd action; "" for none."""
        observed = {name: array[0] for name, array in self.policy.obs.items()}
        return problem(self.policy.contract, observed, self._last_row, self._target)


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
