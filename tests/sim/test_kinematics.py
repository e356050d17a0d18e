"""Poses of bodies from the present state, and the start of a motion, held against `mj_forward`."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import tracking
from scenes import build_leg

from edgert.contract.motion import Motion
from edgert.errors import ContractError, RobotError
from edgert.sim import BatchSim, SimBody
from edgert.sim.motion import anchored, extent, start_of
from edgert.sim.scene import build


def forward(model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray | None = None) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    if qvel is not None:
        data.qvel[:] = qvel
    mujoco.mj_forward(model, data)
    return data


def motion(tables: dict[str, np.ndarray], body: str = "torso") -> Motion:
    return Motion(
        hz=tracking.HZ,
        frames=len(tables["joint_pos"]),
        joint_pos=tables["joint_pos"],
        joint_vel=tables["joint_vel"],
        anchor_pos=tables[f"{body}_pos"],
        anchor_quat=tables[f"{body}_quat"],
        anchor="torso" if body == "torso" else "",
        source="motion test",
    )


@pytest.mark.parametrize("nworld", [1, 3])
def test_body_poses_are_of_the_same_instant_as_the_joints(tmp_path: Path, nworld: int) -> None:
    scene = tracking.scene(tmp_path)
    sim = BatchSim(scene.model, nworld, 1)
    body = SimBody(sim, scene, ("torso", "pelvis", ""))
    sim.reset(keyframe=0)
    sim.view("qvel")[:] = np.random.default_rng(0).normal(size=sim.view("qvel").shape)
    sim.step(7)
    for values in (*body.state.body_pos.values(), *body.state.body_quat.values()):
        if not np.shares_memory(values, sim.view("qpos")):
            values[:] = np.nan
    body.refresh()
    for world in range(nworld):
        data = forward(scene.model, sim.view("qpos")[world])
        for name in ("torso", "pelvis", ""):
            oracle = data.body(name or "pelvis")
            np.testing.assert_allclose(body.state.body_pos[name][world], oracle.xpos, atol=1e-12)
            np.testing.assert_allclose(body.state.body_quat[name][world], oracle.xquat, atol=1e-12)
    lagging = sim.view("xpos")[0, scene.model.body("torso").id]
    assert np.abs(lagging - body.state.body_pos["torso"][0]).max() > 1e-4


def test_a_body_that_the_scene_does_not_have(tmp_path: Path) -> None:
    scene = tracking.scene(tmp_path)
    with pytest.raises(RobotError) as caught:
        SimBody(BatchSim(scene.model, 1, 1), scene, ("torso_link",))
    assert str(caught.value) == (
        f"scene {scene.path} has no body 'torso_link': expected the body that the policy tracks, one of box, pelvis, "
        "waist, torso, forearm. Correct [motion] anchor of policy.toml"
    )


@pytest.mark.parametrize("body", ["torso", "base"])
def test_the_start_stands_in_the_first_frame(tmp_path: Path, body: str) -> None:
    scene, tables = tracking.scene(tmp_path), tracking.reference()
    qpos, qvel = start_of(scene, motion(tables, body))
    data = forward(scene.model, qpos, qvel)
    np.testing.assert_allclose(data.body("torso").xpos, tables["torso_pos"][0], atol=1e-9)
    np.testing.assert_allclose(data.body("torso").xquat, tables["torso_quat"][0], atol=1e-9)
    np.testing.assert_allclose(data.body("pelvis").xpos, tables["base_pos"][0], atol=1e-9)
    for i, name in enumerate(tracking.JOINTS):
        assert data.joint(name).qpos[0] == tables["joint_pos"][0, i]
        assert data.joint(name).qvel[0] == tables["joint_vel"][0, i]
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(scene.model, data, mujoco.mjtObj.mjOBJ_XBODY, scene.model.body("torso").id, velocity, 0)
    moved = (tables["torso_pos"][1] - tables["torso_pos"][0]) * tracking.HZ
    np.testing.assert_allclose(velocity[3:], moved, atol=0.02)
    np.testing.assert_array_equal(qpos[:7], [3, 0, 0.1, 1, 0, 0, 0])  # the box stays


def test_the_anchor_follows_from_the_base(tmp_path: Path) -> None:
    scene, tables = tracking.scene(tmp_path), tracking.reference()
    found = anchored(motion(tables, "base"), "torso", scene)
    np.testing.assert_allclose(found.anchor_pos, tables["torso_pos"], atol=1e-12)
    np.testing.assert_allclose(found.anchor_quat, tables["torso_quat"], atol=1e-12)
    assert found.anchor == "torso"
    assert found.notes == ("motion test: pose of 'torso' from that of the base, by the robot's kinematics",)
    same = motion(tables)
    assert anchored(same, "torso", scene).anchor_pos is same.anchor_pos
    assert anchored(motion(tables, "base"), "pelvis", scene).anchor == "pelvis"


def test_the_anchor_does_not_follow_from_another_body(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        anchored(motion(tracking.reference()), "forearm", tracking.scene(tmp_path))
    assert str(caught.value) == (
        "motion test tells the pose of body 'torso', which is not the one that the policy tracks: found anchor "
        "'forearm', expected the pose of 'forearm', or of the base 'pelvis'. Correct [motion] anchor or bodies in "
        "policy.toml"
    )


def test_a_motion_of_joints_alone_leaves_the_base_where_the_scene_has_it(tmp_path: Path) -> None:
    scene, tables = tracking.scene(tmp_path), tracking.reference()
    joints = Motion(hz=50.0, frames=40, joint_pos=tables["joint_pos"], source="motion test")
    qpos, qvel = start_of(scene, joints)
    np.testing.assert_array_equal(qpos[:14], scene.model.key_qpos[0, :14])
    np.testing.assert_array_equal(qpos[14:], tables["joint_pos"][0])
    assert not qvel.any()


def test_joints_that_a_motion_does_not_tell_stand_at_the_default_pose_where_no_keyframe_says(tmp_path: Path) -> None:
    tables = tracking.reference()
    base = Motion(hz=50.0, frames=40, anchor_pos=tables["base_pos"], anchor_quat=tables["base_quat"], source="test")
    qpos, _ = start_of(tracking.scene(tmp_path), base, tracking.DEFAULT)
    assert qpos[14:].tolist() == [0.0, 0.0, 0.0]  # the keyframe's
    path = tmp_path / "bare.xml"
    path.write_text(tracking.SCENE.split("<keyframe>")[0] + "</mujoco>", encoding="utf-8")
    bare = build(path, tracking.JOINTS, tracking.JOINTS, kp=(40.0,) * 3, kd=(2.0,) * 3, base="pelvis")
    qpos, _ = start_of(bare, base, tracking.DEFAULT)
    assert qpos[14:].tolist() == list(tracking.DEFAULT)
    np.testing.assert_allclose(qpos[7:14], [*tables["base_pos"][0], *tables["base_quat"][0]], atol=1e-12)


def test_the_extent_of_a_motion_is_that_of_its_base(tmp_path: Path) -> None:
    scene, tables = tracking.scene(tmp_path), tracking.reference()
    lean, height = np.zeros(4), np.linspace(0.1, 0.05, 40)
    mujoco.mju_axisAngle2Quat(lean, np.array([1.0, 0.0, 0.0]), 0.7)
    leaning = tables["base_quat"].copy()
    mujoco.mju_mulQuat(leaning[11], tables["base_quat"][11], lean)
    base = motion(tables | {"base_quat": leaning, "base_pos": np.stack([height] * 3, axis=1)}, "base")
    for one in (base, anchored(base, "torso", scene)):
        assert extent(scene, one) == pytest.approx((0.7, 0.05))
    assert extent(scene, Motion(hz=50.0, frames=40, joint_pos=tables["joint_pos"])) is None


def test_bodies_of_a_fixed_base(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, root="")
    sim = BatchSim(scene.model, 1, 1)
    body = SimBody(sim, scene, ("shin",))
    sim.view("qpos")[0] = 0.3, -0.8
    body.refresh()
    np.testing.assert_allclose(
        body.state.body_pos["shin"][0], forward(scene.model, sim.view("qpos")[0]).body("shin").xpos
    )
    with pytest.raises(RobotError) as caught:
        SimBody(sim, scene, ("",))
    assert str(caught.value) == (
        f"the robot of scene {scene.path} has a fixed base, which no motion can move. Name the body that is tracked in "
        "[motion] anchor of policy.toml"
    )
