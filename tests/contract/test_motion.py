"""`MotionPlayer`: which frame each world is in, and where its reference stands, held against MuJoCo's algebra."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from edgert.contract.motion import Motion, MotionPlayer
from edgert.contract.state import RobotState

FRAMES = 5


def motion(**changes: Any) -> Motion:
    rng = np.random.default_rng(3)
    quat = rng.normal(size=(FRAMES, 4))
    return Motion(
        **{
            "hz": 50.0,
            "frames": FRAMES,
            "joint_pos": rng.normal(size=(FRAMES, 3)),
            "joint_vel": rng.normal(size=(FRAMES, 3)),
            "anchor_pos": rng.normal(size=(FRAMES, 3)),
            "anchor_quat": quat / np.linalg.norm(quat, axis=1, keepdims=True),
            "anchor": "torso",
            "source": "motion test",
        }
        | changes
    )


def robot(nworld: int, seed: int = 0) -> RobotState:
    rng = np.random.default_rng(seed)
    quat = rng.normal(size=(nworld, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    return RobotState(
        joint_names=("a", "b", "c"), body_pos={"torso": rng.normal(size=(nworld, 3))}, body_quat={"torso": quat}
    )


def heading(quat: np.ndarray) -> float:
    """Of the x axis, by MuJoCo."""
    x = np.zeros(3)
    mujoco.mju_rotVecQuat(x, np.array([1.0, 0.0, 0.0]), quat)
    return float(np.arctan2(x[1], x[0]))


def placed(motion: Motion, frame: int, pos: np.ndarray, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the anchor of a frame stands for a robot that began at (pos, quat)."""
    assert motion.anchor_pos is not None
    assert motion.anchor_quat is not None
    turn, moved, turned = np.zeros(4), np.zeros(3), np.zeros(4)
    angle = heading(quat) - heading(motion.anchor_quat[0])
    mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), angle)
    mujoco.mju_rotVecQuat(moved, motion.anchor_pos[frame] - motion.anchor_pos[0], turn)
    mujoco.mju_mulQuat(turned, turn, motion.anchor_quat[frame])
    start = np.array([pos[0], pos[1], motion.anchor_pos[0, 2]])
    return start + moved, turned


def poison(player: MotionPlayer) -> None:
    for name in ("joint_pos", "joint_vel", "anchor_pos", "anchor_quat"):
        getattr(player.state, name)[:] = np.nan


@pytest.mark.parametrize("nworld", [1, 2, 7])
@pytest.mark.parametrize("loop", [False, True])
def test_every_world_sees_its_own_frame_where_its_robot_began(nworld: int, loop: bool) -> None:
    one, state = motion(loop=loop), robot(nworld)
    player = MotionPlayer(one, state, nworld)
    pos, quat = state.body_pos["torso"], state.body_quat["torso"]
    began = [(pos[world].copy(), quat[world].copy()) for world in range(nworld)]
    ticks = np.zeros(nworld, int)
    rng = np.random.default_rng(1)
    for tick in range(13):
        poison(player)
        player.refresh()
        for world in range(nworld):
            frame = ticks[world] % FRAMES if loop else min(ticks[world], FRAMES - 1)
            if ticks[world] == 0 or (loop and frame == 0):
                began[world] = pos[world].copy(), quat[world].copy()
            assert player.state.frame[world] == frame
            np.testing.assert_array_equal(player.state.joint_pos[world], one.joint_pos[frame])
            np.testing.assert_array_equal(player.state.joint_vel[world], one.joint_vel[frame])
            where, turned = placed(one, frame, *began[world])
            np.testing.assert_allclose(player.state.anchor_pos[world], where, atol=1e-12)
            np.testing.assert_allclose(player.state.anchor_quat[world], turned, atol=1e-12)
        pos += 0.1 * rng.normal(size=pos.shape)
        quat += 0.1 * rng.normal(size=quat.shape)
        quat /= np.linalg.norm(quat, axis=1, keepdims=True)
        player.advance()
        ticks += 1
        if tick == 2:
            mask = np.arange(nworld) % 2 == 1
            player.reset(mask)
            ticks[mask] = 0
        if tick == 8:
            player.reset()
            ticks[:] = 0


def test_one_world_is_as_many() -> None:
    one, state = motion(loop=True), robot(4)
    many = MotionPlayer(one, state, 4)
    alone = [
        MotionPlayer(
            one,
            RobotState(
                joint_names=(),
                body_pos={"torso": state.body_pos["torso"][i : i + 1]},
                body_quat={"torso": state.body_quat["torso"][i : i + 1]},
            ),
        )
        for i in range(4)
    ]
    for _ in range(7):
        for player in (many, *alone):
            player.refresh()
        for name in ("joint_pos", "anchor_pos", "anchor_quat"):
            rows = np.concatenate([getattr(player.state, name) for player in alone])
            np.testing.assert_array_equal(getattr(many.state, name), rows)
        for player in (many, *alone):
            player.advance()


def test_arrays_stay_the_same_objects() -> None:
    player = MotionPlayer(motion(), robot(1))
    kept = {name: getattr(player.state, name) for name in ("frame", "joint_pos", "anchor_pos", "anchor_quat")}
    player.refresh()
    player.advance()
    player.refresh()
    player.reset()
    assert all(getattr(player.state, name) is array for name, array in kept.items())


def test_a_robot_that_tells_no_pose_of_the_anchor_gets_the_motion_as_it_is() -> None:
    one = motion()
    player = MotionPlayer(one, RobotState(joint_names=("a", "b", "c")))
    player.refresh()
    np.testing.assert_array_equal(player.state.anchor_pos[0], one.anchor_pos[0])


def test_loop_can_be_overridden() -> None:
    player = MotionPlayer(motion(loop=True), robot(1), loop=False)
    for _ in range(9):
        player.advance()
    assert player.state.frame.tolist() == [FRAMES - 1]


def test_a_motion_without_a_pose() -> None:
    player = MotionPlayer(motion(anchor_pos=None, anchor_quat=None, joint_vel=None), robot(2), 2)
    player.refresh()
    player.advance()
    player.refresh()
    assert player.state.anchor_pos is None
    assert player.state.anchor_quat is None
    assert player.state.joint_vel is None


def test_what_reports_say() -> None:
    assert motion().report() == {"frames": 5, "hz": 50.0, "seconds": 0.08, "loop": False, "source": "motion test"}
    assert motion(sha256="ab").report()["sha256"] == "ab"
