"""Velocities, gravity and gyro of the bundled quadruped in random states, against MuJoCo's sensors and functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from edgert import assets
from edgert.contract import Contract, parse_contract
from edgert.contract.observe import Observer, check_state, make_term_inputs
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.scene import build

NWORLD = 6
LEGS = ("FL", "FR", "RL", "RR")
JOINTS = [f"{leg}_{joint}_joint" for leg in LEGS for joint in ("hip", "thigh", "calf")]
OBJECTS = {
    "origin": (mujoco.mjtObj.mjOBJ_XBODY, "trunk"),
    "com": (mujoco.mjtObj.mjOBJ_BODY, "trunk"),
    "site:imu": (mujoco.mjtObj.mjOBJ_SITE, "imu"),
}


def contract(*terms: Any) -> Contract:
    document = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": JOINTS, "default_pos": 0.0, "kp": 30.0, "kd": 0.5},
        "inputs": {"obs": {"terms": list(terms)}},
        "action": {"output": "actions"},
    }
    return parse_contract(document, "test")


@pytest.fixture(scope="module")
def body() -> Iterator[SimBody]:
    """Six quadrupeds tumbling through the air, each in another state."""
    path = assets.find("sims", "quadruped") / "scene.xml"
    scene = build(path, JOINTS, JOINTS, kp=[30.0] * 12, kd=[0.5] * 12)
    rng = np.random.default_rng(7)
    sim = BatchSim(scene.model, NWORLD, 1)
    result = SimBody(sim, scene)  # before `forward`, which fills only the arrays that somebody looks at
    sim.view("xmat")
    qpos = sim.view("qpos")
    qpos[:] = rng.normal(0.0, 1.0, qpos.shape)
    qpos[:, 2] += 10.0
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
    sim.view("qvel")[:] = rng.normal(0.0, 2.0, sim.view("qvel").shape)
    sim.forward()
    result.refresh()
    yield result
    sim.close()


def observe(body: SimBody, term: Any) -> np.ndarray:
    spec = contract(term)
    check_state(spec, body.state, "the quadruped")
    inputs = make_term_inputs(
        spec,
        body.state,
        command=np.zeros((NWORLD, 0)),
        last_action=np.zeros((NWORLD, 12)),
        phase_rad=np.zeros(NWORLD),
        xp=np,
    )
    return Observer(spec, "obs", inputs.last_action)(inputs)


def oracle(body: SimBody, point: str, frame: str) -> np.ndarray:
    """Linear velocities by mj_objectVelocity, turned into the base frame by the matrix of the base."""
    model, data = body.scene.model, mujoco.MjData(body.scene.model)
    kind, name = OBJECTS[point]
    rows = np.full((NWORLD, 3), np.nan)
    for row, qpos, qvel in zip(rows, body.sim.view("qpos"), body.sim.view("qvel"), strict=True):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        velocity = np.full(6, np.nan)
        mujoco.mj_objectVelocity(model, data, kind, mujoco.mj_name2id(model, kind, name), velocity, 0)
        matrix = data.body("trunk").xmat.reshape(3, 3)
        row[:] = matrix.T @ velocity[3:] if frame == "body" else velocity[3:]
    return rows


@pytest.mark.parametrize("frame", ["body", "world"])
@pytest.mark.parametrize("point", OBJECTS)
def test_base_linear_velocity_at_a_point_is_mujocos(body, point, frame):
    result = observe(body, {"name": "base_lin_vel", "point": point, "frame": frame})
    np.testing.assert_allclose(result, oracle(body, point, frame), rtol=0, atol=1e-12)


def test_the_points_differ_from_each_other(body):
    origin, com, imu = (oracle(body, point, "body") for point in OBJECTS)
    assert min(abs(origin - com).max(), abs(origin - imu).max(), abs(com - imu).max()) > 0.01


def test_base_linear_velocity_at_the_imu_is_the_velocimeter(body):
    result = observe(body, {"name": "base_lin_vel", "point": "site:imu"})
    np.testing.assert_allclose(result, body.state.sensors["imu_lin_vel"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["base_ang_vel", "imu_ang_vel"])
def test_angular_velocity_is_the_gyro(body, name):
    np.testing.assert_allclose(observe(body, name), body.state.sensors["imu_ang_vel"], rtol=0, atol=1e-12)


def test_projected_gravity_is_gravity_in_the_frame_of_the_trunk(body):
    trunk = mujoco.mj_name2id(body.scene.model, mujoco.mjtObj.mjOBJ_BODY, "trunk")
    matrices = body.sim.view("xmat").reshape(NWORLD, -1, 3, 3)[:, trunk]
    np.testing.assert_allclose(observe(body, "projected_gravity"), -matrices[:, 2], rtol=0, atol=1e-14)


def test_an_accelerometer_and_an_orientation_are_passed_on(body):
    np.testing.assert_array_equal(observe(body, "imu_lin_acc"), body.state.sensors["imu_lin_acc"])
    np.testing.assert_array_equal(observe(body, "imu_quat"), body.state.sensors["imu_quat"])
