"""`SimRobot`: one simulated body behind the `Robot` protocol.

The drive law of `JointCommand` is MuJoCo's affine actuator: force = kp q - kp pos - kd vel + (tau + kd qd), written
into the control and, when they change, into the per-world gain parameters; of a joint that gets more than positions, or
none, the control is kp q + kd qd + tau, which rounds and is judged as in many worlds. With the scene's own gains each
control is what the scene's actuator takes: q, qd or tau.
"""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np

from edgert.clock import Clock, MonotonicClock
from edgert.closing import Closes
from edgert.contract.command import JointCommand
from edgert.contract.motion import tracked_bodies
from edgert.contract.senses import senses_of
from edgert.contract.spec import Contract
from edgert.contract.state import RobotState
from edgert.errors import RobotError
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene


class SimRobot(Closes):
    """The body of `scene` under MuJoCo C, started at the scene's keyframe.

    Args:
        scene: as `edgert.sim.scene.build` makes it, for the contract's joints.
        contract: whose joints are commanded.
        gains_from_scene: keep the gains of the scene's own actuators and ignore those of commands.
        clock: stamps the state; the host's monotonic clock by default.
    """

    def __init__(
        self, scene: Scene, contract: Contract, *, gains_from_scene: bool = False, clock: Clock | None = None
    ) -> None:
        self.name = f"scene {scene.path.name}"
        self.scene = scene
        self.sim = BatchSim(scene.model, 1, 1)
        self.timestep_s = self.sim.timestep_s
        self.body = SimBody(self.sim, scene, tracked_bodies(contract), senses_of(contract))
        self._clock = clock or MonotonicClock()
        self._stamp = np.zeros(1, np.int64)
        self._state = replace(self.body.state, stamp_ns=self._stamp)
        self._columns = self.body.joint_columns(contract.joints)
        self._default = np.array(contract.default_pos)
        self._ctrl = self.sim.view("ctrl")[0]
        self._gain = self.sim.expand("actuator_gainprm")[0]
        self._bias = self.sim.expand("actuator_biasprm")[0]
        self._scene_gain, self._scene_bias = self._gain.copy(), self._bias.copy()
        self._gains_from_scene = gains_from_scene
        self._own = _by_field(scene) if gains_from_scene else []
        summed = [] if gains_from_scene else [i for i, drive in enumerate(scene.drives) if drive != "position"]
        self._sums = (summed, [scene.actuator_ids[i] for i in summed]) if summed else None
        self._accepted: JointCommand | None = None
        self._gains_may_change = False
        self.reset()

    def reset(self, qpos: Floats | None = None, qvel: Floats | None = None) -> None:
        """Put the body at the scene's keyframe, or at the given state (nq,), (nv,), with the scene's gains.

        Without a keyframe the joints of the contract start at its default pose. The joints hold where they are.
        """
        sim, scene = self.sim, self.scene
        self._restore_gains()
        self._accepted = None
        sim.reset(keyframe=scene.keyframe)
        position = sim.view("qpos")[0]
        if qpos is not None:
            position[:] = qpos
        elif scene.keyframe < 0:
            position[list(scene.qpos_adr)] = self._default
        if qvel is not None:
            sim.view("qvel")[0][:] = qvel
        self._ctrl[list(scene.actuator_ids)] = self._holding(position[list(scene.qpos_adr)])
        self._ctrl[list(scene.held.actuator_ids)] = scene.held.ctrl
        self.body.settle()
        sim.forward()
        self.body.refresh()

    def _holding(self, position: Floats) -> Floats:
        """The controls of the scene's gains that ask nothing of joints (njoint,) that rest at a position."""
        drives, actuators = np.array(self.scene.drives), list(self.scene.actuator_ids)
        controls = np.where(drives == "position", position, 0.0)
        return np.where(drives == "sum", -self._bias[actuators, 1] * position, controls)

    def begin(self, command: JointCommand) -> None:
        """Ask for a target before time moves on: sensors then tell of it, as they do where many worlds are reset."""
        self.command(command)
        self.body.settle()
        self.sim.forward()
        self.body.refresh()

    def allocate(self) -> RobotState:
        """The body's own live state: `observe` then copies nothing that is contiguous in the simulation."""
        return self._state

    def observe(self, out: RobotState) -> None:
        """See `Robot.observe`."""
        if out is not self._state:
            raise RobotError(f"{self.name} fills only a state that it allocated itself")
        self.body.refresh()
        self.body.look()
        self._stamp[0] = self._clock.now_ns()

    def command(self, command: JointCommand) -> None:
        """See `Robot.command`. Gains that are read-only arrays are written once for each command object.

        Raises:
            RobotError: an array has another shape than (1, njoint).
        """
        if command is not self._accepted:
            self._accept(command)
        elif self._gains_may_change:
            self._write_gains(command)
        if not self._gains_from_scene:
            self._ctrl[self._columns] = command.q[0]
            if self._sums is not None:
                joints, actuators = self._sums
                kp, kd = command.kp[0, joints], command.kd[0, joints]
                self._ctrl[actuators] = kp * command.q[0, joints] + kd * command.qd[0, joints] + command.tau[0, joints]
        for joints, actuators, name in self._own:
            self._ctrl[actuators] = getattr(command, name)[0, joints]

    def _accept(self, command: JointCommand) -> None:
        arrays = {name: getattr(command, name) for name in ("q", "qd", "kp", "kd", "tau")}
        wanted = (1, len(self.scene.joints))
        for name, array in arrays.items():
            if array.shape != wanted:
                raise RobotError(f"'{name}' of a joint command has the wrong shape", found=array.shape, expected=wanted)
        self._gains_may_change = any(arrays[name].flags.writeable for name in ("qd", "kp", "kd", "tau"))
        self._write_gains(command)
        self._accepted = command

    def _write_gains(self, command: JointCommand) -> None:
        if self._gains_from_scene:
            self._restore_gains()
            return
        columns, kp, kd = self._columns, command.kp[0], command.kd[0]
        self._gain[columns, 0] = kp
        self._bias[columns, 0] = command.tau[0] + kd * command.qd[0]
        self._bias[columns, 1] = -kp
        self._bias[columns, 2] = -kd
        if self._sums is not None:
            self._gain[self._sums[1], 0] = 1.0  # their control is the sum already
            self._bias[self._sums[1], 0] = 0.0

    def _restore_gains(self) -> None:
        self._gain[:], self._bias[:] = self._scene_gain, self._scene_bias

    def damp(self) -> None:
        """See `Robot.damp`. The next command ends it."""
        self._gain[self._columns, 0] = 0.0
        self._bias[self._columns, 0] = 0.0
        self._bias[self._columns, 1] = 0.0
        self._accepted = None

    def advance(self, nstep: int) -> None:
        """See `SimulatedRobot.advance`."""
        self.sim.step(nstep)

    def diverged(self) -> bool:
        """See `SimulatedRobot.diverged`."""
        return bool(self.sim.diverged()[0])

    def warnings(self) -> dict[str, int]:
        """MuJoCo's warnings since the reset, by name: those that were raised, and how often."""
        counts = self.sim.warnings()[0]
        names = {
            int(kind): name.removeprefix("mjWARN_").lower() for name, kind in mujoco.mjtWarning.__members__.items()
        }
        return {names[index]: int(count) for index, count in enumerate(counts) if count}

    def close(self) -> None:
        """See `Robot.close`."""
        self.damp()
        self.body.close()
        self.sim.close()


def _by_field(scene: Scene) -> list[tuple[list[int], list[int], str]]:
    """Which joints and their actuators follow which field of a `JointCommand`."""
    parts = []
    for drive, name in (("position", "q"), ("velocity", "qd"), ("torque", "tau")):
        joints = [joint for joint, each in enumerate(scene.drives) if each == drive]
        if joints:
            parts.append((joints, [scene.actuator_ids[joint] for joint in joints], name))
    return parts
