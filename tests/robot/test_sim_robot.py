"""The simulated body: what it is asked, what it does, how it lets go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgert.clock import FakeClock
from edgert.contract import JointCommand, parse_contract
from edgert.errors import RobotError
from edgert.robot import SimRobot
from edgert.sim.scene import build

XML = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody>
  <body name="upper"><joint name="a" axis="0 1 0"/><geom size="0.1" mass="1"/>
    <body pos="0 0 0.3"><joint name="b" axis="0 1 0"/><geom size="0.1" mass="1"/></body></body>
</worldbody><actuator><position name="own" joint="a" kp="40" kv="2"/><position joint="b" kp="30" kv="1"/></actuator>
</mujoco>"""


def body(tmp_path: Path, *, own: bool = False, joints: tuple[str, ...] = ("a", "b"), **options: object) -> SimRobot:
    path = tmp_path / "scene.xml"
    path.write_text(XML)
    contract = parse_contract(
        {
            "schema": 1,
            "control_hz": 50,
            "joints": {"names": list(joints), "default_pos": 0.0, "kp": 5.0, "kd": 0.5},
            "inputs": {"obs": {"terms": ["joint_pos"]}},
            "action": {"output": "actions"},
        },
        "test",
    )
    scene = build(path, joints, joints, actuators="scene" if own else "contract", kp=contract.kp, kd=contract.kd)
    return SimRobot(scene, contract, gains_from_scene=own, **options)  # type: ignore[arg-type]


def command(q: float = 0.0, kp: float = 5.0, kd: float = 0.5, qd: float = 0.0, tau: float = 0.0) -> JointCommand:
    values = {"q": q, "kp": kp, "kd": kd, "qd": qd, "tau": tau}
    return JointCommand(**{name: np.full((1, 2), value) for name, value in values.items()})


def force(robot: SimRobot) -> np.ndarray:
    robot.sim.forward()
    robot.observe(robot.allocate())
    torque = robot.allocate().joint_torque
    assert torque is not None
    return torque[0].copy()


def test_drive_law(tmp_path: Path) -> None:
    """tau = kp (q - q_meas) + kd (qd - qd_meas) + tau_ff."""
    robot = body(tmp_path)
    robot.sim.view("qpos")[0] = [0.1, -0.2]
    robot.sim.view("qvel")[0] = [1.0, 0.5]
    robot.command(command(q=0.3, kp=7.0, kd=0.4, qd=2.0, tau=0.6))
    expected = 7.0 * (0.3 - np.array([0.1, -0.2])) + 0.4 * (2.0 - np.array([1.0, 0.5])) + 0.6
    np.testing.assert_allclose(force(robot), expected, rtol=1e-12)


def test_writable_gains_may_change_in_place(tmp_path: Path) -> None:
    robot, asked = body(tmp_path), command(q=1.0)
    robot.command(asked)
    asked.kp[:] = 9.0
    robot.command(asked)
    np.testing.assert_allclose(force(robot), 9.0, rtol=1e-12)


def test_damping_keeps_only_the_damping(tmp_path: Path) -> None:
    robot = body(tmp_path)
    robot.command(command(q=1.0, tau=3.0))
    robot.damp()
    robot.damp()
    robot.sim.view("qvel")[0] = [2.0, -1.0]
    np.testing.assert_allclose(force(robot), [-1.0, 0.5], rtol=1e-12)


@pytest.mark.parametrize("own", [False, True])
def test_a_command_ends_the_damping(tmp_path: Path, own: bool) -> None:
    robot = body(tmp_path, own=own)
    robot.command(command(q=1.0))
    before = force(robot)
    robot.damp()
    robot.command(command(q=1.0))
    np.testing.assert_array_equal(force(robot), before)
    assert (before == ([40.0, 30.0] if own else [5.0, 5.0])).all()


def test_reset_ends_the_damping_and_holds(tmp_path: Path) -> None:
    robot = body(tmp_path, own=True)
    robot.damp()
    robot.reset(np.array([0.4, -0.3]), np.zeros(2))
    np.testing.assert_allclose(force(robot), 0.0, atol=1e-12)
    robot.sim.view("qpos")[0] += 0.1
    np.testing.assert_allclose(force(robot), [-4.0, -3.0], rtol=1e-9)


@pytest.mark.parametrize("name", ["q", "qd", "kp", "kd", "tau"])
def test_flat_arrays_are_refused(tmp_path: Path, name: str) -> None:
    flat = replace(command(), **{name: np.zeros(2)})
    with pytest.raises(RobotError, match=rf"'{name}' of a joint command has the wrong shape: found \(2,\), expected"):
        body(tmp_path).command(flat)


def test_permuted_joints_see_and_move_the_same(tmp_path: Path) -> None:
    plain, turned = body(tmp_path), body(tmp_path, joints=("b", "a"))
    for robot, q in ((plain, [0.5, -0.5]), (turned, [-0.5, 0.5])):
        robot.command(replace(command(), q=np.array([q])))
        robot.advance(50)
        robot.observe(robot.allocate())
    one, other = plain.allocate(), turned.allocate()
    np.testing.assert_array_equal(one.joint_pos, other.joint_pos[:, ::-1])
    np.testing.assert_array_equal(one.joint_torque, other.joint_torque[:, ::-1])


def test_state_is_stamped_and_says_what_is_measured(tmp_path: Path) -> None:
    clock = FakeClock(start_ns=5)
    robot = body(tmp_path, clock=clock)
    state = robot.allocate()
    clock.time_ns = 77
    robot.observe(state)
    assert state.stamp_ns.tolist() == [77]
    assert state.source("joint_vel") == "measured"
    assert state.source("base_lin_vel") == "absent"


def test_only_its_own_state_is_filled(tmp_path: Path) -> None:
    robot, other = body(tmp_path), body(tmp_path)
    with pytest.raises(RobotError, match="fills only a state that it allocated itself"):
        robot.observe(other.allocate())


def test_warnings_are_named(tmp_path: Path) -> None:
    robot = body(tmp_path)
    assert robot.warnings() == {}
    robot.sim.view("qvel")[0] = np.nan
    robot.advance(1)
    assert robot.diverged()
    assert robot.warnings() == {"badqvel": 1}
    robot.reset()
    assert not robot.diverged()
