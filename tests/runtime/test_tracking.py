"""Tracking policies as `edgert run policy` runs them, held against a loop of plain MuJoCo and NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import tracking
from onnx import TensorProto
from support import save
from tracking import DEFAULT, JOINTS, NETWORK_MOTION

from edgert.errors import ContractError, EdgertError
from edgert.runtime import RunOptions, Session, open_session

TABLES = tracking.reference()
FRAMES = 40


def opened(folder: Path, model: Any, **options: Any) -> Session:
    path = save(model, folder / "tracker.onnx")
    sim = tracking.scene_file(folder)
    return open_session(RunOptions(**({"model": path, "sim": sim, "seconds": 0.6, "real_time": False} | options)))


def moved(folder: Path, model: Any, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Where everything was at the end, and the report."""
    with opened(folder, model, **options) as session:
        report = session.report(session.run())
        assert report["outcome"] == "completed", report["reason"]
        return session.robot.sim.view("qpos")[0].copy(), report


def inside(motion: dict[str, Any] | None = None, **options: Any) -> Any:
    contract = tracking.document(motion or NETWORK_MOTION)
    return tracking.tracking_model(tracking.network_tables(TABLES), contract, **options)


def float32(tables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: table.astype(np.float32).astype(np.float64) for name, table in tables.items()}


def oracle(session: Session, ticks: int, *, loop: bool = False, xyzw: bool = False) -> np.ndarray:
    """The run once more: MuJoCo's kinematics and algebra, one observation after the other, in the open."""
    model, tables = session.robot.scene.model, float32(TABLES)
    data = mujoco.MjData(model)
    qpos, qvel = session.start
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    weight, last = tracking.actor_weight(), np.zeros(3)
    step_of = {name: model.joint(name).qposadr[0] for name in JOINTS}
    vel_of = {name: model.joint(name).dofadr[0] for name in JOINTS}
    root = model.joint("root").dofadr[0]
    ctrl_of = [
        next(i for i in range(model.nu) if model.actuator_trnid[i, 0] == model.joint(name).id) for name in JOINTS
    ]
    shift, turn = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    for tick in range(ticks):
        frame = tick % FRAMES if loop else min(tick, FRAMES - 1)
        here = mujoco.MjData(model)
        here.qpos[:] = data.qpos
        mujoco.mj_kinematics(model, here)
        position, quat = here.body("torso").xpos, here.body("torso").xquat
        reference, wanted = tables["torso_pos"][frame], tables["torso_quat"][frame]
        if xyzw:
            wanted = wanted[[1, 2, 3, 0]]
        wanted = wanted / np.linalg.norm(wanted)
        if frame == 0 and not xyzw:
            angle = heading(quat) - heading(wanted)
            mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), angle)
            mujoco.mju_rotVecQuat(shift, reference, turn)
            shift = np.array([position[0] - shift[0], position[1] - shift[1], 0.0])
        place, pose = np.zeros(3), np.zeros(4)
        mujoco.mju_rotVecQuat(place, reference, turn)
        mujoco.mju_mulQuat(pose, turn, wanted)
        back, apart, robot, asked = np.zeros(4), np.zeros(3), np.zeros(9), np.zeros(9)
        mujoco.mju_negQuat(back, quat)
        mujoco.mju_rotVecQuat(apart, place + shift - position, back)
        mujoco.mju_quat2Mat(robot, quat)
        mujoco.mju_quat2Mat(asked, pose)
        relative = robot.reshape(3, 3).T @ asked.reshape(3, 3)
        joint_pos = np.array([data.qpos[step_of[name]] for name in JOINTS])
        joint_vel = np.array([data.qvel[vel_of[name]] for name in JOINTS])
        parts = (
            tables["joint_pos"][frame],
            tables["joint_vel"][frame],
            apart,
            relative[:, :2].reshape(-1),
            data.qvel[root + 3 : root + 6],
            joint_pos - np.array(DEFAULT),
            joint_vel,
            last,
        )
        observation = np.concatenate(parts).astype(np.float32)
        last = (observation @ weight).astype(np.float64)
        data.ctrl[ctrl_of] = np.array(DEFAULT) + 0.5 * last
        for _ in range(4):
            mujoco.mj_step(model, data)
    result: np.ndarray = data.qpos.copy()
    return result


def heading(quat: np.ndarray) -> float:
    x = np.zeros(3)
    mujoco.mju_rotVecQuat(x, np.array([1.0, 0.0, 0.0]), quat)
    return float(np.arctan2(x[1], x[0]))


@pytest.mark.parametrize("loop", [False, True])
def test_a_run_is_that_of_plain_mujoco(tmp_path: Path, loop: bool) -> None:
    """Past the end of the motion: 40 frames, 60 ticks."""
    motion = NETWORK_MOTION | {"loop": loop}
    found, report = moved(tmp_path, inside(motion), seconds=1.2)
    with opened(tmp_path, inside(motion)) as session:
        np.testing.assert_allclose(found, oracle(session, 60, loop=loop), atol=2e-5)
        other = oracle(session, 60, loop=not loop)
    assert np.abs(found - other).max() > 1e-3
    assert report["motion"] == {
        "frames": 40, "hz": 50.0, "seconds": 0.78, "loop": loop, "source": "the motion in the network",
    }  # fmt: skip
    assert report["metrics"]["joint_pos_error_rad"] > 0.0
    assert report["metrics"]["anchor_pos_error_m"] > 0.0


def test_the_robot_starts_in_the_first_frame(tmp_path: Path) -> None:
    with opened(tmp_path, inside()) as session:
        data = mujoco.MjData(session.robot.scene.model)
        data.qpos[:] = session.start[0]
        mujoco.mj_forward(session.robot.scene.model, data)
        np.testing.assert_allclose(data.body("torso").xpos, TABLES["torso_pos"][0], atol=1e-6)
        np.testing.assert_allclose(data.body("torso").xquat, TABLES["torso_quat"][0], atol=1e-6)
        assert "starts in the first frame of the motion in the network" in session.notes
        assert "the motion in the network: 50 Hz, 40 frames" in session.notes
        assert "the motion in the network takes 0.78 s and is held at its last frame" in session.notes
        session.controller.observe()
        observed = session.policy.obs["obs"][0]
        np.testing.assert_allclose(observed[6:9], 0.0, atol=1e-6)
        np.testing.assert_allclose(observed[9:15], [1, 0, 0, 1, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (TensorProto.FLOAT, (1, 1)),
        (TensorProto.FLOAT, (1,)),
        (TensorProto.INT64, (1, 1)),
        (TensorProto.INT64, (1,)),
        (TensorProto.INT32, (1, 1)),
        (TensorProto.DOUBLE, (1, 1)),
        (TensorProto.FLOAT, ("batch", 1)),
        (TensorProto.FLOAT, ()),
    ],
)
def test_time_step_of_any_type_and_shape(tmp_path: Path, kind: int, shape: tuple[Any, ...]) -> None:
    found, _ = moved(tmp_path, inside(kind=kind, shape=shape))
    usual, _ = moved(tmp_path, inside())
    np.testing.assert_array_equal(found, usual)
    with opened(tmp_path, inside(kind=kind, shape=shape), seconds=0.5) as session:
        session.run()
        assert session.policy.obs["time_step"].tolist() == [[25]]


def test_tables_that_are_not_clamped(tmp_path: Path) -> None:
    found, _ = moved(tmp_path, inside(clamp=False), seconds=1.2)
    usual, _ = moved(tmp_path, inside(), seconds=1.2)
    np.testing.assert_array_equal(found, usual)


def test_the_order_of_quaternions_decides(tmp_path: Path) -> None:
    tables = tracking.network_tables(TABLES)
    turned = tables | {"body_quat_w": tables["body_quat_w"][..., [1, 2, 3, 0]]}
    usual, _ = moved(tmp_path, inside())
    contract = tracking.document(NETWORK_MOTION | {"quat_order": "xyzw"})
    right, _ = moved(tmp_path, tracking.tracking_model(turned, contract))
    np.testing.assert_array_equal(right, usual)
    wrong, _ = moved(tmp_path, inside(NETWORK_MOTION | {"quat_order": "xyzw"}))
    assert np.abs(wrong - usual).max() > 1e-3


def test_the_order_of_joints_and_bodies_decides(tmp_path: Path) -> None:
    tables, order = tracking.network_tables(TABLES), [2, 0, 1]
    shuffled = {
        "joint_pos": tables["joint_pos"][:, order],
        "joint_vel": tables["joint_vel"][:, order],
        "body_pos_w": tables["body_pos_w"][:, ::-1].copy(),
        "body_quat_w": tables["body_quat_w"][:, ::-1].copy(),
    }
    names = {"joints": [JOINTS[i] for i in order], "bodies": ["torso", "pelvis"]}
    usual, _ = moved(tmp_path, inside())
    right, _ = moved(tmp_path, tracking.tracking_model(shuffled, tracking.document(NETWORK_MOTION | names)))
    np.testing.assert_array_equal(right, usual)
    wrong, _ = moved(tmp_path, tracking.tracking_model(shuffled, tracking.document(NETWORK_MOTION)))
    assert np.abs(wrong - usual).max() > 1e-3


def test_a_motion_in_a_file_is_as_good_as_one_in_the_network(tmp_path: Path) -> None:
    tables = float32(tracking.network_tables(TABLES))
    (tmp_path / "walk.npz").write_bytes(tracking.npz(fps=50, **tables))
    contract = tracking.document(
        {"file": "walk.npz", "bodies": ["pelvis", "torso"], "anchor": "torso", "time_step": "time_step"}
    )
    found, report = moved(tmp_path, tracking.tracking_model(tables, contract))
    usual, _ = moved(tmp_path, inside())
    np.testing.assert_array_equal(found, usual)
    assert report["motion"]["source"] == "motion walk.npz"
    assert len(report["motion"]["sha256"]) == 64


def test_a_csv_of_the_root_tracks_a_body_above_it(tmp_path: Path) -> None:
    (tmp_path / "dance.csv").write_text(tracking.csv(TABLES))
    contract = tracking.document({"file": "dance.csv", "hz": 50, "anchor": "torso"})
    found, report = moved(tmp_path, tracking.linear(contract))
    usual, _ = moved(tmp_path, inside())
    # Its velocities are differences, so that it is not the same run.
    np.testing.assert_allclose(found, usual, atol=1e-3)
    assert "motion dance.csv: pose of 'torso' from that of the base, by the robot's kinematics" in report["notes"]
    named = tracking.document({"file": "dance.csv", "hz": 50, "anchor": "torso", "bodies": ["pelvis"]})
    np.testing.assert_array_equal(moved(tmp_path, tracking.linear(named))[0], found)
    layout = "motion dance.csv: its columns are taken for the root's position, its quaternion xyzw, 3 joints"
    assert layout in report["notes"]


def test_another_rate_is_resampled_and_said(tmp_path: Path) -> None:
    (tmp_path / "dance.csv").write_text(tracking.csv(tracking.reference(frames=24, hz=30.0)))
    contract = tracking.document({"file": "dance.csv", "hz": 30, "anchor": "torso"})
    found, report = moved(tmp_path, tracking.linear(contract))
    (tmp_path / "dance.csv").write_text(tracking.csv(TABLES))
    usual, _ = moved(tmp_path, tracking.linear(tracking.document({"file": "dance.csv", "hz": 50, "anchor": "torso"})))
    np.testing.assert_allclose(found, usual, atol=2e-3)
    assert (
        "motion dance.csv: 30 Hz, 24 frames, resampled to 50 Hz, 39 frames, joint velocities from differences of its "
        "positions"
    ) in report["notes"]


@pytest.mark.parametrize("stated", [True, False])
def test_the_user_decides_whether_it_loops(tmp_path: Path, stated: bool) -> None:
    model = inside(NETWORK_MOTION | {"loop": stated})
    found, report = moved(tmp_path, model, seconds=1.2, motion_loop=not stated)
    expected, _ = moved(tmp_path, inside(NETWORK_MOTION | {"loop": not stated}), seconds=1.2)
    np.testing.assert_array_equal(found, expected)
    assert report["motion"]["loop"] is not stated


def test_a_motion_that_lies_down_is_no_fall(tmp_path: Path) -> None:
    lying = TABLES | {"base_quat": np.tile([np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0], (FRAMES, 1))}
    (tmp_path / "dance.csv").write_text(tracking.csv(lying))
    contract = tracking.document({"file": "dance.csv", "hz": 50, "anchor": "pelvis"})
    with opened(tmp_path, tracking.linear(contract)) as session:
        assert session.fall is not None
        assert session.fall.tilt_rad == pytest.approx(1.0 + np.pi / 2)
    with opened(tmp_path, inside()) as session:
        assert session.fall is not None
        assert session.fall.tilt_rad == pytest.approx(1.0, abs=1e-3)


def refused(folder: Path, model: Any, **options: Any) -> str:
    with pytest.raises(EdgertError) as caught:
        opened(folder, model, **options)
    return str(caught.value)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, inside(NETWORK_MOTION | {"bodies": ["pelvis", "torso_link"], "anchor": "torso_link"})) == (
        f"scene {tmp_path / 'tracker.xml'} has no body 'torso_link': expected the body that the policy tracks, one of "
        "box, pelvis, waist, torso, forearm. Correct [motion] anchor of policy.toml"
    )
    outputs = NETWORK_MOTION["outputs"]
    assert refused(tmp_path, inside(NETWORK_MOTION | {"outputs": outputs | {"joint_vel": "velocity"}})) == (
        f"policy {tmp_path / 'tracker.onnx'} does not hold its motion where [motion] says: found no output 'velocity', "
        "expected one of actions, joint_pos, joint_vel, body_pos_w, body_quat_w. Correct [motion] in policy.toml"
    )
    without = {name: output for name, output in outputs.items() if name != "joint_vel"}
    said = refused(tmp_path, inside(NETWORK_MOTION | {"outputs": without | {"joint_pos": "actions"}}))
    assert said.startswith("the motion in the network follows the observation: found actions, body_pos_w, body_quat_w")
    bodiless = {"joint_pos": "joint_pos", "joint_vel": "joint_vel"}
    assert refused(tmp_path, inside(NETWORK_MOTION | {"outputs": bodiless})) == (
        "term 'motion_anchor_pos_b' of input 'obs' needs anchor_pos and anchor_quat of the reference motion, which the "
        "motion in the network does not give: found joint_pos, joint_vel. Name it in [motion.outputs], or the bodies "
        "of a file in [motion] bodies of policy.toml"
    )


def test_looping_needs_a_motion() -> None:
    with pytest.raises(ContractError) as caught:
        open_session(RunOptions(motion_loop=False))
    assert str(caught.value) == (
        "this policy follows no reference motion, which option 'motion_loop' is for. Leave it out, or name the motion "
        "as [motion] in policy.toml"
    )


def test_recordings_say_which_motion_it_was(tmp_path: Path) -> None:
    with opened(tmp_path, inside()) as session, session.folder(tmp_path / "episodes") as sink:
        session.run(sinks=[sink])
    from edgert.rollout import read

    (episode,) = read(tmp_path / "episodes")
    assert episode.header["motion"]["frames"] == FRAMES
    assert json.loads(json.dumps(episode.header["contract"]))["motion"]["anchor"] == "torso"
