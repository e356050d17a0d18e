"""`SimRobot`: one simulated body behind the `Robot` protocol.

The drive law of `JointCommand` is MuJoCo's affine actuator: force = kp q - kp pos - kd vel + (tau + kd qd), written
into the control and, when they change, into the per-world gain parameters.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import mujoco
import numpy as np

from edgert.contract.command import JointCommand
from edgert.contract.spec import Contract
from edgert.contract.state import RobotState
from edgert.errors import RobotError
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene


class SimRobot:
    """The body of `scene` under MuJoCo C, started at the scene's keyframe.

    Args:
        scene: as `edgert.sim.scene.build` makes it, for the contract's joints.
        contract: whose joints are commanded.
        gains_from_scene: keep the gains of the scene's own actuators and ignore those of commands.
    """

    def __init__(self, scene: Scene, contract: Contract, *, gains_from_scene: bool = False) -> None:
        self.name = f"scene {scene.path.name}"
        self.scene = scene
        self.sim = BatchSim(scene.model, 1, 1)
        self.timestep_s = self.sim.timestep_s
        self.body = SimBody(self.sim, scene)
        self._columns = self.body.joint_columns(contract.joints)
        self._ctrl = self.sim.view("ctrl")[0]
        self._gain = self.sim.expand("actuator_gainprm")[0]
        self._bias = self.sim.expand("actuator_biasprm")[0]
        self._gains: tuple[Any, ...] = ()
        self._gains_from_scene = gains_from_scene
        self._stamp = np.zeros(1, np.int64)
        self._time = self.sim.view("time")
        self._default = np.array(contract.default_pos)
        self.reset()

    def reset(self, qpos: Floats | None = None, qvel: Floats | None = None) -> None:
        """Put the body at the scene's keyframe, or at the given state (nq,), (nv,).

        Without a keyframe the joints of the contract start at its default pose.
        """
        sim, scene = self.sim, self.scene
        sim.reset(keyframe=scene.keyframe)
        position = sim.view("qpos")[0]
        if qpos is not None:
            position[:] = qpos
        elif scene.keyframe < 0:
            position[list(scene.qpos_adr)] = self._default
        if qvel is not None:
            sim.view("qvel")[0][:] = qvel
        self._hold_present()
        self.body.settle()
        sim.forward()
        self.body.refresh()

    def _hold_present(self) -> None:
        """Controls that ask every joint of the contract for where it is; others keep those of the keyframe."""
        scene = self.scene
        self._ctrl[list(scene.actuator_ids)] = self.sim.view("qpos")[0, list(scene.qpos_adr)]

    def allocate(self) -> RobotState:
        """The body's own live state: `observe` then copies nothing that is contiguous in the simulation."""
        return self.body.state

    def observe(self, out: RobotState) -> None:
        """See `Robot.observe`."""
        if out is not self.body.state:
            raise RobotError(f"{self.name} fills only a state that it allocated itself")
        self.body.refresh()
        self._stamp[0] = time.monotonic_ns()

    def command(self, command: JointCommand) -> None:
        """See `Robot.command`. Read-only gains that are the same objects as before are not written again."""
        gains = (command.kp, command.kd, command.qd, command.tau)
        if not self._gains_from_scene and not _same(gains, self._gains):
            self._write_gains(command)
            self._gains = gains
        self._ctrl[self._columns] = command.q[0]

    def _write_gains(self, command: JointCommand) -> None:
        kp, kd, qd, tau = (
            np.broadcast_to(value, (1, len(self.scene.joints)))[0]
            for value in (command.kp, command.kd, command.qd, command.tau)
        )
        self._gain[self._columns, 0] = kp
        self._bias[self._columns, 0] = tau + kd * qd
        self._bias[self._columns, 1] = -kp
        self._bias[self._columns, 2] = -kd

    def damp(self) -> None:
        """See `Robot.damp`."""
        self._gain[self._columns, 0] = 0.0
        self._bias[self._columns, 0] = 0.0
        self._bias[self._columns, 1] = 0.0
        self._gains = ()

    def advance(self, nstep: int) -> None:
        """See `SimulatedRobot.advance`."""
        self.sim.step(nstep)

    def diverged(self) -> bool:
        """Whether MuJoCo found the state unusable and reset it by itself."""
        bad = [mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC]
        return bool(self.sim.warnings()[0, [int(code) for code in bad]].any())

    def close(self) -> None:
        """See `Robot.close`."""
        self.sim.close()

    def __enter__(self) -> SimRobot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _same(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    """The same objects, and none that its owner could have changed in the meantime."""
    return len(these) == len(those) and all(a is b and not a.flags.writeable for a, b in zip(these, those, strict=True))
