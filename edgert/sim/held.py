"""Joints of a robot that its policy says nothing of: held where the scene starts, or left passive, and told.

A position actuator of the scene is given the start pose. What the scene drives in another way, or limits the torque of
and drives not at all, gets a position actuator: nobody says with which gains, so they are made from its inertia.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import Any, Final

import mujoco

from edgert.errors import some
from edgert.sim.actuators import actuators_on, is_limited, span, supply, takes_positions

HELD_HZ: Final = 10.0
"""Natural frequency of a joint that is held with assumed gains; it is critically damped."""
MAX_CYCLES_PER_STEP: Final = 0.05
"""Most periods of that frequency in one timestep: a longer timestep lowers it."""
SCALAR_JOINTS: Final = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What becomes of the joints that a policy says nothing of."""

    joints: tuple[str, ...] = ()
    """Those that are held, each by an actuator of its own."""
    assumed: tuple[str, ...] = ()
    """Those of them whose gains nobody gave."""
    passive: tuple[str, ...] = ()
    """Those that nothing drives."""
    actuator_ids: tuple[int, ...] = ()
    ctrl: tuple[float, ...] = ()
    """The controls of these actuators that hold the start pose, rad at gear 1."""
    kp: tuple[float, ...] = ()  # of `assumed`, N·m/rad
    kd: tuple[float, ...] = ()  # of `assumed`, N·m·s/rad

    def notes(self) -> list[str]:
        """What to tell of them, a line each."""
        lines = []
        own = [name for name in self.joints if name not in self.assumed]
        if own:
            lines.append(f"held at the start pose by the scene's own actuators, not driven by the policy: {some(own)}")
        if self.assumed:
            lines.append(
                f"held at the start pose, not driven by the policy: {some(self.assumed)}, with assumed gains: "
                f"kp {span(self.kp, 'N·m/rad', 3)}, kd {span(self.kd, 'N·m·s/rad', 3)}. "
                "Name a joint in [joints] to set its own"
            )
        if self.passive:
            lines.append(f"passive, as neither the policy nor the scene drives them: {some(self.passive)}")
        return lines


def hold(spec: mujoco.MjSpec, joints: Sequence[str]) -> Held:
    """Give the joints of the robot of `joints` that are not among them an actuator where they need one.

    Returns what becomes of each; `with_gains` completes it once the scene is compiled.
    """
    autolimits = spec.compiler.autolimits
    held, assumed, passive = [], [], []
    for joint in _robot_joints(spec, joints):
        if joint.name in joints:
            continue
        own = [actuator for actuator in spec.actuators if joint.name and actuator.target == joint.name]
        if any(map(takes_positions, own)):
            held.append(joint.name)
        elif joint.name and (own or is_limited(joint.actfrclimited, joint.actfrcrange, autolimits)):
            held.append(joint.name)
            assumed.append(joint.name)
        else:
            passive.append(joint.name or "one without a name")
    supply(spec, assumed, assumed, kp=[1.0] * len(assumed), kd=[0.0] * len(assumed), delay_samples=0)
    return Held(joints=tuple(held), assumed=tuple(assumed), passive=tuple(passive))


def with_gains(held: Held, model: mujoco.MjModel, keyframe: int) -> Held:
    """The same joints with their actuators, the controls that hold them, and gains, which are set in the model."""
    ids = [model.joint(name).id for name in held.joints]
    frequency = 2.0 * pi * min(HELD_HZ, MAX_CYCLES_PER_STEP / model.opt.timestep)
    start = model.key_qpos[keyframe] if keyframe >= 0 else model.qpos0
    chosen, ctrl, kp, kd = [], [], [], []
    for name, joint, on_joint in zip(held.joints, ids, actuators_on(model, ids), strict=True):
        actuator = next(each for each in on_joint if takes_positions(model.actuator(each)))
        if name in held.assumed:
            inertia = float(model.dof_M0[model.jnt_dofadr[joint]])
            kp.append(inertia * frequency**2)
            kd.append(2.0 * inertia * frequency)
            model.actuator_gainprm[actuator, 0] = kp[-1]
            model.actuator_biasprm[actuator, 1:3] = -kp[-1], -kd[-1]
        chosen.append(actuator)
        ctrl.append(float(model.actuator_gear[actuator, 0] * start[model.jnt_qposadr[joint]]))
    return Held(
        joints=held.joints,
        assumed=held.assumed,
        passive=held.passive,
        actuator_ids=tuple(chosen),
        ctrl=tuple(ctrl),
        kp=tuple(kp),
        kd=tuple(kd),
    )


def _robot_joints(spec: mujoco.MjSpec, joints: Sequence[str]) -> list[Any]:
    """The hinges and slides of every top-level body that carries one of the joints."""
    found = []
    for body in spec.worldbody.bodies:
        below = [joint for joint in body.find_all("joint") if joint.type in SCALAR_JOINTS]
        if any(joint.name in joints for joint in below):
            found += below
    return found
