"""`SimBody`: the state of the robot in every world, held against MjData, and its delay lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scenes import build_leg
from support import QUADRUPED

from edgert.sim import BatchSim, Scene, SequentialSim, Sim, SimBody
from edgert.sim.scene import build

CONTRACT = QUADRUPED.contract
NAMES = CONTRACT.joints
ORDERS = {
    "as in the model": NAMES,
    "reversed": NAMES[::-1],
    "shuffled": tuple(NAMES[i] for i in np.random.default_rng(1).permutation(12)),
    "some, with gaps": NAMES[1::3],
    "some, contiguous": NAMES[3:6],
}
HOME = np.array(CONTRACT.default_pos)


def quadruped(joints: Sequence[str] = NAMES, max_delay_s: float = 0.0) -> Scene:
    gains = [35.0] * len(joints), [0.8] * len(joints)
    return build(QUADRUPED.scene, joints, joints, kp=gains[0], kd=gains[1], base="trunk", max_delay_s=max_delay_s)


def started(scene: Scene, sim: Sim) -> SimBody:
    """At the keyframe, holding the default pose, delay lines filled."""
    body = SimBody(sim, scene)
    sim.reset(keyframe=scene.keyframe)
    sim.view("ctrl")[:] = HOME
    body.settle()
    sim.forward()
    body.refresh()
    return body


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nworld", [1, 3])
def test_the_state_is_that_of_mjdata(order: str, nworld: int) -> None:
    joints = ORDERS[order]
    scene = quadruped(joints)
    model = scene.model
    sim = BatchSim(model, nworld, 1)
    body = SimBody(sim, scene)
    state = body.state
    datas = [mujoco.MjData(model) for _ in range(nworld)]
    for data in datas:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    sim.reset(keyframe=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        controls = rng.uniform(-1.0, 1.0, (nworld, model.nu))
        sim.view("ctrl")[:] = controls
        sim.step(3)
        body.refresh()
        for world, data in enumerate(datas):
            data.ctrl[:] = controls[world]
            for _ in range(3):
                mujoco.mj_step(model, data)
            for i, name in enumerate(joints):
                dof = model.joint(name).dofadr[0]
                assert state.joint_pos[world, i] == data.joint(name).qpos[0]
                assert state.joint_vel[world, i] == data.joint(name).qvel[0]
                assert state.joint_torque[world, i] == data.qfrc_actuator[dof]
            root = data.joint("root")
            np.testing.assert_array_equal(state.base_pos[world], root.qpos[:3])
            np.testing.assert_array_equal(state.base_quat[world], root.qpos[3:])
            np.testing.assert_array_equal(state.base_lin_vel[world], root.qvel[:3])
            np.testing.assert_array_equal(state.base_ang_vel[world], root.qvel[3:])
            for name, values in state.sensors.items():
                np.testing.assert_array_equal(values[world], data.sensor(name).data)
    assert set(state.sensors) == {model.sensor(i).name for i in range(model.nsensor)}
    assert state.joint_names == tuple(joints)


def test_contiguous_joints_are_live_views_and_others_follow_refresh() -> None:
    for joints, live in ((NAMES, True), (NAMES[::-1], False)):
        scene = quadruped(joints)
        sim = BatchSim(scene.model, 1, 1)
        body = SimBody(sim, scene)
        kept = body.state.joint_pos
        sim.view("qpos")[:, 7:] = 0.5
        assert (kept == 0.5).all() == live
        body.refresh()
        assert (kept == 0.5).all()
        assert body.state.joint_pos is kept


def test_base_velocities_are_world_linear_and_body_angular() -> None:
    """The convention of `RobotState`, held against the velocity that MuJoCo computes for the body."""
    scene = quadruped()
    sim = SequentialSim(scene.model, 1)
    body = SimBody(sim, scene)
    rng = np.random.default_rng(0)
    quat = rng.normal(size=4)
    sim.view("qpos")[0, 3:7] = quat / np.linalg.norm(quat)
    sim.view("qvel")[:] = rng.normal(size=18)
    sim.forward()
    data = mujoco.MjData(scene.model)
    mujoco.mj_setState(scene.model, data, sim.state()[0], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(scene.model, data)
    world, local = np.zeros(6), np.zeros(6)
    trunk = scene.model.body("trunk").id
    mujoco.mj_objectVelocity(scene.model, data, mujoco.mjtObj.mjOBJ_XBODY, trunk, world, 0)
    mujoco.mj_objectVelocity(scene.model, data, mujoco.mjtObj.mjOBJ_XBODY, trunk, local, 1)
    np.testing.assert_allclose(body.state.base_lin_vel[0], world[3:], atol=1e-12)
    np.testing.assert_allclose(body.state.base_ang_vel[0], local[:3], atol=1e-12)


def test_a_fixed_base_has_no_base_state(tmp_path: Path) -> None:
    scene = build_leg(tmp_path, root="")
    state = SimBody(BatchSim(scene.model, 1, 1), scene).state
    assert [state.source(f"base_{name}") for name in ("pos", "quat", "lin_vel", "ang_vel")] == ["absent"] * 4
    assert state.source("joint_pos") == "measured"


@pytest.mark.parametrize("order", ORDERS)
def test_joint_columns_find_each_joints_control(order: str) -> None:
    scene = quadruped(ORDERS[order])
    body = SimBody(BatchSim(scene.model, 1, 1), scene)
    names = scene.joints[::2]
    columns = body.joint_columns(names)
    driven = [scene.model.joint(int(i)).name for i in scene.model.actuator_trnid[:, 0][columns]]
    assert driven == list(names)
    assert isinstance(body.joint_columns(scene.joints), slice)


@pytest.mark.parametrize("samples", range(5))
def test_a_delay_of_k_timesteps_delays_by_exactly_k_steps(samples: int) -> None:
    """Against a model without delay whose controls come k steps later, over ten seconds of rounding."""
    scene, plain = quadruped(max_delay_s=0.02), quadruped()
    delayed, oracle = BatchSim(scene.model, 1, 1), SequentialSim(plain.model, 1)
    delayed.expand("actuator_delay")[:] = samples * scene.model.opt.timestep
    started(scene, delayed)
    started(plain, oracle)
    rng = np.random.default_rng(samples)
    controls = [HOME] * samples + [HOME + 0.1 * rng.normal(size=12) for _ in range(2000)]
    for now, later in zip(controls[samples:], controls, strict=False):
        delayed.view("ctrl")[:] = now
        oracle.view("ctrl")[:] = later
        delayed.step()
        oracle.step()
        np.testing.assert_array_equal(delayed.view("qpos"), oracle.view("qpos"))


def test_worlds_may_have_delays_of_their_own() -> None:
    scene, plain = quadruped(max_delay_s=0.02), quadruped()
    sim, oracle = BatchSim(scene.model, 4, 2), SequentialSim(plain.model, 4)
    steps = np.array([0, 3, 1, 4])
    sim.expand("actuator_delay")[:] = 0.005 * steps[:, None]
    started(scene, sim)
    started(plain, oracle)
    rng = np.random.default_rng(0)
    controls = HOME + 0.2 * rng.normal(size=(60, 4, 12))
    for step in range(60):
        sim.view("ctrl")[:] = controls[step]
        for world, late in enumerate(steps):
            oracle.view("ctrl")[world] = controls[step - late, world] if step >= late else HOME
        sim.step()
        oracle.step()
        np.testing.assert_array_equal(sim.view("qpos"), oracle.view("qpos"))


def test_settled_lines_hold_the_present_control_right_after_reset() -> None:
    scene, plain = quadruped(max_delay_s=0.02), quadruped()
    delayed, oracle = BatchSim(scene.model, 1, 1), SequentialSim(plain.model, 1)
    delayed.expand("actuator_delay")[:] = 0.02
    started(scene, delayed)
    started(plain, oracle)
    for _ in range(10):
        delayed.step()
        oracle.step()
        np.testing.assert_array_equal(delayed.view("qpos"), oracle.view("qpos"))


def test_without_settling_a_delayed_robot_collapses_at_first() -> None:
    """What `settle` is for: MuJoCo's own reset fills the lines with zeros, a straight leg."""
    scene = quadruped(max_delay_s=0.02)
    sim = BatchSim(scene.model, 1, 1)
    sim.expand("actuator_delay")[:] = 0.02
    torque = sim.view("qfrc_actuator")
    sim.reset(keyframe=0)
    sim.view("ctrl")[:] = HOME
    sim.forward()
    assert np.abs(torque[0, 6:]).max() > 20.0


def test_settling_some_worlds_leaves_the_lines_of_others() -> None:
    scene = quadruped(max_delay_s=0.02)
    sim = BatchSim(scene.model, 3, 1)
    body = started(scene, sim)
    sim.step(5)
    before = sim.view("history").copy()
    sim.view("ctrl")[:] = 0.3
    body.settle(np.array([False, True, False]))
    after = sim.view("history")
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    assert not np.array_equal(after[1], before[1])


def test_settling_a_scene_without_delays_does_nothing() -> None:
    scene = quadruped()
    sim = BatchSim(scene.model, 1, 1)
    before = sim.state()
    SimBody(sim, scene).settle()
    np.testing.assert_array_equal(sim.state(), before)


def test_settling_leaves_the_history_of_sensors_as_reset_makes_it(tmp_path: Path) -> None:
    scene = build_leg(
        tmp_path,
        sensors='<jointpos name="late" joint="hip" delay="0.01" nsample="8"/>',
        options={"max_delay_s": 0.01},
    )
    sim = BatchSim(scene.model, 1, 1)
    sim.reset()
    sensor = int(scene.model.sensor_historyadr[scene.model.sensor("late").id])
    before = sim.view("history")[0, sensor:].copy()
    sim.view("ctrl")[:] = 0.7
    SimBody(sim, scene).settle()
    np.testing.assert_array_equal(sim.view("history")[0, sensor:], before)
    assert (sim.view("history")[0, :sensor] == 0.7).sum() == 2 * 6
