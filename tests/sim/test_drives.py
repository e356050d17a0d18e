"""Actuators that take positions, velocities, torques or their sum, against the drive law in plain numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from scenes import JOINTS, build_leg

from edgert.contract import JointCommand, parse_contract
from edgert.errors import RobotError
from edgert.robot import SimRobot
from edgert.sim.scene import Scene, drive_summary

FIXED = {"root": ""}
KD = {"velocity": (0.5, 0.25), "torque": (0.5, 0.0), "position": (0.5, 0.25), "sum": (0.5, 0.25)}
KP = {"velocity": (0.0, 0.0), "torque": (0.0, 0.0), "position": (20.0, 10.0), "sum": (20.0, 10.0)}
OWN = {
    "position": '<position name="h" joint="hip" kp="20" kv="0.5"/><position name="k" joint="knee" kp="10" kv="0.25"/>',
    "velocity": '<velocity name="h" joint="hip" kv="0.5"/><velocity name="k" joint="knee" kv="0.25"/>',
    "torque": '<motor name="h" joint="hip"/><motor name="k" joint="knee"/>',
}

TWO = OWN["velocity"] + '<velocity name="again" joint="hip" kv="1"/>'


def built(tmp_path: Path, drive: str, **parts: Any) -> Scene:
    options = {"kp": KP[drive], "kd": KD[drive], "drives": dict.fromkeys(JOINTS, drive)} | parts.pop("options", {})
    return build_leg(tmp_path, options=options, **parts)


@pytest.mark.parametrize("drive", ["position", "velocity", "torque", "sum"])
@pytest.mark.parametrize("limit", ["", 'actuatorfrcrange="-4 4"'])
def test_the_control_is_what_the_drive_says(drive: str, limit: str, tmp_path: Path) -> None:
    scene = built(tmp_path, drive, hip=limit, **FIXED)
    model, data = scene.model, mujoco.MjData(scene.model)
    kp, kd = np.array(KP[drive]), np.array(KD[drive])
    bound = np.array([4.0 if limit else np.inf, np.inf])
    rng = np.random.default_rng(0)
    for _ in range(100):
        control, position, rate = rng.uniform(-3.0, 3.0, (3, 2))
        data.qpos[:], data.qvel[:] = position, rate
        data.ctrl[list(scene.actuator_ids)] = control
        mujoco.mj_forward(model, data)
        asked = {"position": kp * control, "velocity": kd * control, "torque": control, "sum": control}[drive]
        force = np.clip(asked - kp * position - kd * rate, -bound, bound)
        np.testing.assert_allclose(data.qfrc_actuator, force, rtol=1e-12, atol=1e-12)


def test_drives_are_told(tmp_path: Path) -> None:
    scene = built(tmp_path, "velocity", options={"drives": {"knee": "velocity"}, "kp": (20.0, 0.0)}, **FIXED)
    assert drive_summary(scene, "contract").startswith(
        "1 position, 1 velocity actuators with the contract's gains, in place of any of the scene's: "
        "kp 0…20 N·m/rad, kd 0.25…0.5 N·m·s/rad"
    )


def robot_of(scene: Scene, drive: str, *, own: bool) -> SimRobot:
    contract = parse_contract(
        {
            "schema": 1,
            "control_hz": 50,
            "joints": {"names": list(JOINTS), "default_pos": 0.0, "kp": 1.0, "kd": 0.5},
            "inputs": {"obs": {"terms": ["joint_pos"]}},
            "action": {"output": "actions"},
        },
        "test",
    )
    return SimRobot(scene, contract, gains_from_scene=own)


@pytest.mark.parametrize(("drive", "own"), [(drive, own) for drive in OWN for own in (False, True)] + [("sum", False)])
def test_a_robot_follows_whatever_it_is_asked(drive: str, own: bool, tmp_path: Path) -> None:
    """200 ticks against `mj_step` of the bare body, pushed by the drive law's torque in numbers."""
    actuators = OWN[drive] if own else ""
    scene = built(tmp_path, drive, actuators=actuators, options={"actuators": "scene" if own else "contract"}, **FIXED)
    kp, kd = np.array(KP[drive]), np.array(KD[drive]) * (0.0 if own and drive == "torque" else 1.0)
    bare = built(tmp_path, drive, options={"driven": ()}, **FIXED).model
    data, rng = mujoco.MjData(bare), np.random.default_rng(0)
    with robot_of(scene, drive, own=own) as robot:
        robot.reset(np.array([0.2, -0.3]), np.array([0.5, 0.0]))
        data.qpos[:], data.qvel[:] = [0.2, -0.3], [0.5, 0.0]
        ask = JointCommand(**{name: np.zeros((1, 2)) for name in ("q", "qd", "tau")}, kp=kp[None], kd=kd[None])
        for _ in range(200):
            if drive in ("position", "sum"):
                ask.q[:] = rng.uniform(-0.5, 0.5, (1, 2))
            if drive in ("velocity", "sum"):
                ask.qd[:] = rng.uniform(-2.0, 2.0, (1, 2))
            if drive in ("torque", "sum"):
                ask.tau[:] = rng.uniform(-0.5, 0.5, (1, 2))
            robot.command(ask)
            robot.advance(5)
            for _ in range(5):
                data.qfrc_applied[:] = kp * (ask.q[0] - data.qpos) + kd * (ask.qd[0] - data.qvel) + ask.tau[0]
                mujoco.mj_step(bare, data)
        np.testing.assert_allclose(robot.sim.view("qpos")[0], data.qpos, atol=1e-9)
        assert np.abs(data.qvel).max() > 0.01


@pytest.mark.parametrize("drive", ["position", "velocity", "torque", "sum"])
def test_a_reset_asks_nothing_of_a_body_at_rest(drive: str, tmp_path: Path) -> None:
    with robot_of(built(tmp_path, drive, **FIXED), drive, own=False) as robot:
        robot.reset(np.array([0.4, -0.7]), np.zeros(2))
        np.testing.assert_array_equal(robot.sim.view("qfrc_actuator")[0], 0.0)


@pytest.mark.parametrize(
    ("drive", "actuators", "text"),
    [
        (
            "velocity",
            OWN["position"],
            "actuator 'h' of scene .* does not take joint velocities: expected a velocity actuator, as the policy "
            "commands velocities. Use --actuators contract",
        ),
        ("velocity", OWN["torque"], "actuator 'h' of scene .* does not take joint velocities"),
        ("torque", OWN["velocity"], "actuator 'h' of scene .* does not take joint torques: expected a motor, as"),
        ("torque", OWN["torque"].replace('"hip"', '"hip" gear="2"'), "take joint torques in N·m: found gear 2, expect"),
        ("position", OWN["velocity"], "actuator 'h' of scene .* does not take joint positions"),
        ("velocity", TWO, "several actuators on joint 'hip': found h, again, expected one, a velocity actuator"),
        ("sum", OWN["position"], "the policy gives joint 'hip' several targets, and an actuator of scene .* takes one"),
    ],
)
def test_own_actuators_of_another_kind_are_refused(drive: str, actuators: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=text):
        built(tmp_path, drive, actuators=actuators, options={"actuators": "scene"})
