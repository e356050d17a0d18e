"""A motion on a humanoid as BeyondMimic exports it: joints in the trainer's order, all facts in the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import tracking
from onnx import ModelProto, numpy_helper
from support import save

from edgert.runtime import RunOptions, open_session

BODIES = ("pelvis", "torso_link", "left_ankle_roll_link")
WAVING = ("left_shoulder_pitch_joint", "right_elbow_joint", "waist_yaw_joint")
STIFFNESS = {"hip": 150.0, "knee": 150.0, "waist": 150.0, "ankle": 60.0}
TURN = 2.0


def csv(values: Sequence[float]) -> str:
    """As the exporter writes numbers."""
    return ",".join(f"{value:.3f}" for value in values)


def exported(scene: Path, frames: int = 100) -> tuple[ModelProto, np.ndarray]:
    """A policy that asks for the joints of the reference, and the pose of the torso in frame 0."""
    model = mujoco.MjModel.from_xml_path(str(scene))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    joints = [model.joint(i).name for i in range(model.njnt) if model.jnt_type[i] == mujoco.mjtJoint.mjJNT_HINGE]
    names = [joints[i] for i in np.random.default_rng(0).permutation(len(joints))]
    home = np.round([data.joint(name).qpos[0] for name in names], 3)
    joint_pos = np.tile(home, (frames, 1))
    for name in WAVING:
        joint_pos[:, names.index(name)] += 0.4 * np.sin(3.0 * np.arange(frames) / 50.0)
    data.qpos[:2] = 4.0, -7.0
    mujoco.mju_axisAngle2Quat(data.qpos[3:7], np.array([0.0, 0.0, 1.0]), TURN)
    position, quat = np.zeros((frames, 3, 3)), np.zeros((frames, 3, 4))
    for frame in range(frames):
        for name, angle in zip(names, joint_pos[frame], strict=True):
            data.joint(name).qpos[0] = angle
        mujoco.mj_forward(model, data)
        for i, body in enumerate(BODIES):
            position[frame, i], quat[frame, i] = data.body(body).xpos, data.body(body).xquat
    tables = {
        "joint_pos": joint_pos,
        "joint_vel": np.gradient(joint_pos, 0.02, axis=0),
        "body_pos_w": position,
        "body_quat_w": quat,
    }
    count = len(names)
    width = 2 * count + 3 + 6 + 3 + 3 + 3 * count
    network = tracking.tracking_model(tables, None, width=width)
    weight = np.zeros((width, count), np.float32)
    weight[:count] = 2.0 * np.eye(count)
    network.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    network.graph.initializer.append(numpy_helper.from_array((-2.0 * home).astype(np.float32), "b"))
    network.graph.node[0].input.append("b")
    network.graph.output[0].type.tensor_type.shape.dim[1].dim_value = count
    stiffness = [next((kp for part, kp in STIFFNESS.items() if part in name), 40.0) for name in names]
    metadata = {
        "run_path": "team/project/run",
        "joint_names": ",".join(names),
        "joint_stiffness": csv(stiffness),
        "joint_damping": csv([kp / 25.0 for kp in stiffness]),
        "default_joint_pos": csv(home.tolist()),
        "command_names": "motion",
        "observation_names": "command,motion_anchor_pos_b,motion_anchor_ori_b,base_lin_vel,base_ang_vel,joint_pos,"
        "joint_vel,actions",
        "action_scale": csv([0.5] * count),
        "anchor_body_name": "torso_link",
        "body_names": ",".join(BODIES),
    }
    for key, value in metadata.items():
        entry = network.metadata_props.add()
        entry.key, entry.value = key, value
    return network, np.concatenate([position[0, 1], quat[0, 1]])


def test_a_humanoid_follows_from_metadata_alone(shared: Path, tmp_path: Path) -> None:
    scene = shared / "robots/unitree_g1/scene.xml"
    network, torso = exported(scene)
    path = save(network, tmp_path / "policy.onnx")
    with open_session(RunOptions(model=path, sim=scene, seconds=1.0, real_time=False)) as session:
        state = session.robot.allocate()
        pose = np.concatenate([state.body_pos["torso_link"][0], state.body_quat["torso_link"][0]])
        np.testing.assert_allclose(pose, torso, atol=1e-6)
        report = session.report(session.run())
    assert report["outcome"] == "completed"
    assert report["motion"]["frames"] == 100
    assert report["metrics"]["joint_pos_error_rad"] < 0.05
    assert report["metrics"]["anchor_pos_error_m"] < 0.1
