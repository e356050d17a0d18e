"""Joints that a policy says nothing of: held where the scene starts, with whose gains, or left passive and told."""

from __future__ import annotations

from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from scenes import build_leg, leg_xml, write
from support import linear_model, save
from task_examples import leg_document, write_task

from edgert.rollout import RolloutOptions, open_rollouts
from edgert.runtime import RunOptions, open_session
from edgert.sim.scene import Scene

KNEE: dict[str, Any] = {"joints": ("knee",), "driven": ("knee",), "kp": (20.0,), "kd": (0.5,)}
BENT = '<key name="home" qpos="0 0 0.6 1 0 0 0 0.3 -0.5"/>'
LIMITED = 'actuatorfrcrange="-4 4"'


def built(tmp_path: Path, **parts: Any) -> Scene:
    return build_leg(tmp_path, options=KNEE | parts.pop("options", {}), **{"keys": BENT} | parts)


def hip_force(scene: Scene, hip: float, rate: float) -> float:
    """What MuJoCo's actuators do to the hip at an angle and a rate, under the controls that hold it, N·m."""
    model, data = scene.model, mujoco.MjData(scene.model)
    mujoco.mj_resetDataKeyframe(model, data, scene.keyframe)
    data.ctrl[list(scene.held.actuator_ids)] = scene.held.ctrl
    data.joint("hip").qpos, data.joint("hip").qvel = hip, rate
    mujoco.mj_forward(model, data)
    return float(data.qfrc_actuator[model.joint("hip").dofadr[0]])


def inertia_of_hip(scene: Scene) -> float:
    """The hip's own entry of the mass matrix where all joints are at 0, kg·m²."""
    model, data = scene.model, mujoco.MjData(scene.model)
    mujoco.mj_forward(model, data)
    matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, matrix)
    dof = int(model.joint("hip").dofadr[0])
    return float(matrix[dof, dof])


@pytest.mark.parametrize(
    ("actuators", "hip"),
    [
        ("", LIMITED),
        ('<motor name="m" joint="hip"/>', ""),
        ('<velocity joint="hip" kv="3"/>', ""),
        ('<position joint="hip" kp="3" timeconst="0.1"/>', ""),
    ],
    ids=["torque limit", "motor", "velocity", "filtered"],
)
@pytest.mark.parametrize("mode", ["contract", "scene"])
def test_assumed_gains_are_critical_at_ten_hertz(actuators: str, hip: str, mode: str, tmp_path: Path) -> None:
    knee = '<position joint="knee" kp="20" kv="0.5"/>'
    scene = built(tmp_path, actuators=actuators + knee, hip=hip, options={"actuators": mode})
    assert (scene.held.joints, scene.held.assumed, scene.held.passive) == (("hip",), ("hip",), ())
    inertia, omega = inertia_of_hip(scene), 2.0 * pi * 10.0
    for angle, rate in ((0.3, 0.0), (0.302, 0.0), (0.3, 0.01), (0.299, -0.02)):
        force = inertia * omega**2 * (0.3 - angle) - 2.0 * inertia * omega * rate
        assert abs(force) < 4.0
        assert hip_force(scene, angle, rate) == pytest.approx(force, rel=1e-9, abs=1e-12)
    assert hip_force(scene, -2.0, 0.0) == (4.0 if hip else pytest.approx(inertia * omega**2 * 2.3))


def test_a_long_timestep_lowers_the_frequency(tmp_path: Path) -> None:
    scene = built(tmp_path, hip=LIMITED, timestep="0.01")
    assert scene.held.kp[0] == pytest.approx(inertia_of_hip(scene) * (2.0 * pi * 5.0) ** 2)


def test_a_motors_own_limit_stays(tmp_path: Path) -> None:
    scene = built(tmp_path, actuators='<motor joint="hip" ctrlrange="-2 2" gear="3"/>')
    assert hip_force(scene, -2.0, 0.0) == 6.0


def test_position_actuators_of_the_scene_hold_with_their_own_gains(tmp_path: Path) -> None:
    scene = built(tmp_path, actuators='<position joint="hip" kp="70" kv="2" gear="2"/>')
    assert (scene.held.joints, scene.held.assumed) == (("hip",), ())
    assert hip_force(scene, 0.2, 0.5) == pytest.approx(2.0 * (70.0 * 2.0 * 0.1 - 2.0 * 2.0 * 0.5))
    assert scene.held.notes() == ["held at the start pose by the scene's own actuators, not driven by the policy: hip"]


def test_without_a_keyframe_the_scene_is_the_start(tmp_path: Path) -> None:
    assert built(tmp_path, hip=LIMITED + ' ref="20"', keys="").held.ctrl == (np.deg2rad(20.0),)


def test_passive_joints_stay_passive(tmp_path: Path) -> None:
    scene = built(tmp_path)
    assert (scene.held.joints, scene.held.passive) == ((), ("hip",))
    assert scene.model.nu == 1
    assert scene.held.notes() == ["passive, as neither the policy nor the scene drives them: hip"]


def test_other_bodies_of_the_scene_are_none_of_the_robots(tmp_path: Path) -> None:
    door = f'<body name="door"><joint name="hinge" {LIMITED}/><geom size="0.1"/></body>'
    scene = built(tmp_path, hip=LIMITED, extra=door)
    assert (scene.held.joints, scene.held.passive) == (("hip",), ())
    assert scene.model.nu == 2


def test_nothing_is_said_where_the_policy_names_every_joint(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, hip=LIMITED)
    assert scene.held.joints == scene.held.passive == ()
    assert scene.held.notes() == []


def knee_policy(folder: Path) -> str:
    contract = leg_document()["contract"] | {
        "schema": 1,
        "joints": {"names": ["knee"], "default_pos": -0.5, "kp": 20.0, "kd": 0.5},
        "inputs": {"obs": {"terms": ["joint_pos", "joint_vel"]}},
    }
    model = linear_model(dim=2, nact=1, weight=np.array([[0.3], [-0.1]]), bias=0.2, document=contract)
    return str(save(model, folder / "knee.onnx"))


def test_one_robot_and_many_worlds_hold_alike(tmp_path: Path) -> None:
    sim = str(write(tmp_path, leg_xml(hip=LIMITED, keys='<key name="home" qpos="0.3 -0.5"/>', root="")))
    model = knee_policy(tmp_path)
    with open_session(RunOptions(model=model, sim=sim, seconds=0.5, real_time=False)) as session:
        session.run()
        told = [note for note in session.notes if note.startswith("held")]
        assert told == session.robot.scene.held.notes()
        assert told[0].startswith("held at the start pose, not driven by the policy: hip, with assumed gains: kp ")
        qpos = session.robot.sim.view("qpos")[0].copy()
    with open_rollouts(RolloutOptions(model=model, sim=sim, seconds=0.5, num_envs=2)) as rollouts:
        for _ in range(2):  # also after a reset
            rollouts.run()
            np.testing.assert_array_equal(rollouts.worlds.sim.view("qpos"), [qpos, qpos])
        assert told[0] in rollouts.notes
    assert abs(qpos[0] - 0.3) < 0.05
    assert abs(qpos[1] + 0.5) > 0.01  # the knee moves


def test_a_joint_that_the_contract_names_has_the_contracts_gains(tmp_path: Path) -> None:
    """Named in [joints] alone, it is held at its default pose and is nobody's to assume."""
    options = {"joints": ("knee", "hip"), "driven": ("knee", "hip"), "kp": (20.0, 9.0), "kd": (0.5, 0.1)}
    scene = build_leg(tmp_path, hip=LIMITED, keys=BENT, options=options)
    assert scene.held.joints == ()
    assert scene.model.actuator("hip").gainprm[0] == 9.0


def test_a_task_leaves_no_joint_to_be_held(tmp_path: Path) -> None:
    """A policy has to name every joint of a task; see `load_task`."""
    sim = write_task(tmp_path / "leg", leg_document(), leg_xml(hip=LIMITED, root=""))
    with pytest.raises(Exception, match="the policy lacks joints of task 'leg': found no hip"):
        open_rollouts(RolloutOptions(model=knee_policy(tmp_path), sim=str(sim)))


def test_the_arms_of_a_humanoid_stay_up_under_a_policy_for_its_legs(shared: Path, tmp_path: Path) -> None:
    sim = shared / "robots/unitree_g1/scene.xml"
    names = [f"{side}_{part}_joint" for side in ("left", "right") for part in LEG]
    pose = [value for _ in range(2) for value in LEG.values()]
    contract = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": names, "default_pos": pose, "kp": 100.0, "kd": 5.0},
        "inputs": {"obs": {"terms": ["joint_pos"]}},
        "action": {"output": "actions"},
    }
    model = str(save(linear_model(dim=12, nact=12, document=contract), tmp_path / "legs.onnx"))
    options = RunOptions(model=model, sim=str(sim), seconds=0.5, real_time=False)
    with open_session(options) as session:
        session.run()
        scene, qpos = session.robot.scene, session.robot.sim.view("qpos")[0]
        assert len(scene.held.assumed) == 17
        assert scene.held.notes()[0].startswith(
            "held at the start pose, not driven by the policy: waist_yaw_joint, waist_roll_joint, "
        )
        error = np.abs(qpos - scene.model.key_qpos[scene.keyframe])[19:]
        assert error.max() < 0.05
        torque = session.robot.sim.view("qfrc_actuator")[0, 18:]
        assert (np.abs(torque) <= scene.model.jnt_actfrcrange[13:, 1]).all()
    with open_rollouts(replace(RolloutOptions(model=model, sim=str(sim), num_envs=1), seconds=0.5)) as rollouts:
        rollouts.run()
        np.testing.assert_array_equal(rollouts.worlds.sim.view("qpos")[0], qpos)


LEG = {"hip_pitch": -0.1, "hip_roll": 0.0, "hip_yaw": 0.0, "knee": 0.3, "ankle_pitch": -0.2, "ankle_roll": 0.0}
