"""Where a robot of a scene is in a reference motion: its anchor's pose, and the state in the first frame.

A motion tells the pose of one body, the anchor. The base that carries it follows by the kinematics of the scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import mujoco
import numpy as np

from edgert.contract.motion import Motion
from edgert.contract.spec import Contract
from edgert.errors import ContractError
from edgert.sim.kinematics import BodyPoses, body_id
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene


def anchored(motion: Motion, anchor: str, scene: Scene) -> Motion:
    """The motion with the pose of the body `anchor`, worked out where it tells that of the base.

    Args:
        motion: of the scene's joints, in their order.
        anchor: the body that the policy tracks; "" is the base.
        scene: whose kinematics lead from the base to it.

    Raises:
        ContractError: the motion tells the pose of a body that is neither.
        RobotError: the scene has no such body.
    """
    if motion.anchor_quat is None and motion.anchor_pos is None:
        return replace(motion, anchor=anchor)
    if motion.anchor == anchor or body_id(scene, motion.anchor) == body_id(scene, anchor):
        return replace(motion, anchor=anchor)
    if scene.base is None or body_id(scene, motion.anchor) != body_id(scene, ""):
        raise ContractError(
            f"{motion.source} tells the pose of body '{motion.anchor}', which is not the one that the policy tracks",
            found=f"anchor '{anchor}'",
            expected=f"the pose of '{anchor}', or of the base '{scene.base or ''}'",
            hint="Correct [motion] anchor or bodies in policy.toml",
        )
    if motion.joint_pos is None or motion.anchor_pos is None or motion.anchor_quat is None:
        raise ContractError(
            f"the pose of '{anchor}' cannot be worked out from {motion.source}",
            found="no positions of joints, or no whole pose of the base",
            expected="both",
        )
    rows = np.tile(_rest(scene), (motion.frames, 1))
    at = scene.base_qpos_adr
    rows[:, list(scene.qpos_adr)] = motion.joint_pos
    rows[:, at : at + 3], rows[:, at + 3 : at + 7] = motion.anchor_pos, motion.anchor_quat
    poses = BodyPoses(scene, rows, (anchor,))
    poses.refresh()
    note = f"{motion.source}: pose of '{anchor}' from that of the base, by the robot's kinematics"
    return replace(
        motion,
        anchor=anchor,
        anchor_pos=poses.pos[anchor],
        anchor_quat=poses.quat[anchor],
        notes=(*motion.notes, note),
    )


def in_scene(motion: Motion | None, contract: Contract, scene: Scene) -> Motion | None:
    """The motion of a contract `anchored` at the body that its terms compare with it; None where there is none."""
    spec = contract.motion
    return None if motion is None or spec is None else anchored(motion, spec.anchor, scene)


def start_of(scene: Scene, motion: Motion, default_pos: Sequence[float] = ()) -> tuple[Floats, Floats]:
    """The state in the motion's first frame: qpos (nq,) and qvel (nv,).

    Joints and base stand as in the reference, so that the anchor coincides with it; velocities are those of the
    reference, of the base by the difference of its first two frames.

    Args:
        scene: whose robot.
        motion: of its joints, with the pose of its anchor if it has one.
        default_pos: where joints that the motion does not tell stand in a scene without a keyframe; none: as there.

    Raises:
        RobotError: the scene has no such body.
    """
    rest = _rest(scene)
    if default_pos and scene.keyframe < 0:
        rest[list(scene.qpos_adr)] = default_pos
    first, second = _state(scene, motion, 0, rest), _state(scene, motion, 1, rest)
    qvel = np.zeros(scene.model.nv)
    if scene.keyframe >= 0:
        qvel[:] = scene.model.key_qvel[scene.keyframe]
    between = np.zeros(scene.model.nv)
    mujoco.mj_differentiatePos(scene.model, between, 1.0 / motion.hz, first, second)
    if scene.base is not None and motion.anchor_quat is not None:
        dof = scene.base_dof_adr
        qvel[dof : dof + 6] = between[dof : dof + 6]
    if motion.joint_vel is not None:
        qvel[list(scene.dof_adr)] = motion.joint_vel[0]
    return first, qvel


def extent(scene: Scene, motion: Motion) -> tuple[float, float] | None:
    """The largest tilt of the base in the motion, rad, and its least height, m; None where the motion tells none.

    Of a long motion a thousand frames are looked at.
    """
    if scene.base is None or motion.anchor_pos is None or motion.anchor_quat is None:
        return None
    rest, at, every = _rest(scene), scene.base_qpos_adr, max(1, motion.frames // 1_000)
    poses = np.array([_state(scene, motion, frame, rest)[at : at + 7] for frame in range(0, motion.frames, every)])
    upright = 1.0 - 2.0 * np.sum(poses[:, 4:6] ** 2, axis=1)
    return float(np.arccos(np.clip(upright, -1.0, 1.0)).max()), float(poses[:, 2].min())


def _rest(scene: Scene) -> Floats:
    """Where the scene starts by itself."""
    model = scene.model
    rest: Floats = np.array(model.key_qpos[scene.keyframe] if scene.keyframe >= 0 else model.qpos0)
    return rest


def _state(scene: Scene, motion: Motion, frame: int, rest: Floats) -> Floats:
    """Positions (nq,) in a frame."""
    qpos = rest.copy()
    if motion.joint_pos is not None:
        qpos[list(scene.qpos_adr)] = motion.joint_pos[frame]
    if scene.base is None or motion.anchor_quat is None:
        return qpos
    # With the base at the origin the anchor's pose is what has to be undone.
    at, anchor = scene.base_qpos_adr, motion.anchor
    placed = qpos.copy()
    placed[at : at + 7] = 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
    poses = BodyPoses(scene, placed[None, :], (anchor,))
    poses.refresh()
    back, quat, arm = np.zeros(4), np.zeros(4), np.zeros(3)
    mujoco.mju_negQuat(back, poses.quat[anchor][0])
    mujoco.mju_mulQuat(quat, motion.anchor_quat[frame], back)
    qpos[at + 3 : at + 7] = quat
    if motion.anchor_pos is not None:
        mujoco.mju_rotVecQuat(arm, poses.pos[anchor][0], quat)
        qpos[at : at + 3] = motion.anchor_pos[frame] - arm
    return qpos
