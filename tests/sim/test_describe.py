"""What is said of a scene, as its file has it."""

from __future__ import annotations

import json
from math import pi

import pytest
from scenes import write

from edgert.errors import IntegrityError
from edgert.sim.describe import describe_scene

ONE_OF_EACH = """
<position name="position" joint="knee" kp="3" kv="1" ctrlrange="-1 1" forcerange="-7 7"/>
<velocity name="velocity" joint="hip" kv="2"/>
<motor name="motor" joint="hip" gear="3"/>
<general name="general" joint="hip" biastype="affine"/>
<intvelocity name="integrated" joint="hip" kp="4" actrange="-1 1"/>
<muscle name="muscle" joint="hip" lengthrange="0 1"/>
<motor name="thruster" site="imu"/>
"""


def test_a_leg(tmp_path):
    keys = "<key name='home'/><key/>"
    path = write(tmp_path, head="<option integrator='implicitfast' iterations='7'/>", hip="range='-90 180'", keys=keys)
    scene = describe_scene(path)
    assert json.loads(json.dumps(scene, allow_nan=False)) == scene
    assert (scene["path"], scene["nq"], scene["nv"], scene["nu"], scene["bodies"]) == (str(path), 9, 8, 0, 3)
    assert scene["mass_kg"] == pytest.approx(2.8)
    assert (scene["timestep_s"], scene["integrator"], scene["iterations"]) == (0.002, "implicitfast", 7)
    assert (scene["solver"], scene["cone"], scene["gravity_m_s2"]) == ("newton", "pyramidal", [0.0, 0.0, -9.81])
    root, hip, knee = scene["joints"]
    nothing = dict.fromkeys(("range", "armature", "damping", "friction", "torque_limit"))
    assert root == {"name": "root", "type": "free", "body": "torso", **nothing}
    assert (hip["name"], hip["type"], hip["body"], hip["range"]) == (
        "hip",
        "hinge",
        "thigh",
        pytest.approx([-pi / 2, pi]),
    )
    assert (hip["armature"], hip["damping"], hip["friction"], hip["torque_limit"]) == (0.01, 0.1, 0.0, None)
    assert knee["range"] is None
    assert scene["sensors"] == [{"name": "gyro", "type": "gyro", "dim": 3}]
    assert scene["keyframes"] == ["home", ""]


def test_actuators(tmp_path):
    scene = describe_scene(write(tmp_path, actuators=ONE_OF_EACH))
    kinds = {entry["name"]: entry["type"] for entry in scene["actuators"]}
    assert kinds == {
        "position": "position",
        "velocity": "velocity",
        "motor": "motor",
        "general": "general",
        "integrated": "general",
        "muscle": "general",
        "thruster": "motor",
    }
    position, velocity, motor, *_, thruster = scene["actuators"]
    assert position == {
        "name": "position",
        "type": "position",
        "transmission": "joint",
        "joint": "knee",
        "gear": 1.0,
        "kp": 3.0,
        "kd": 1.0,
        "ctrl_range": [-1.0, 1.0],
        "force_range": [-7.0, 7.0],
    }
    assert (velocity["kp"], velocity["kd"], velocity["ctrl_range"]) == (0.0, 2.0, None)
    assert (motor["gear"], motor["kp"], motor["force_range"]) == (3.0, None, None)
    assert (thruster["transmission"], thruster["joint"]) == ("site", None)
    assert scene["joints"][2]["torque_limit"] == 7.0


def test_a_broken_scene_is_refused(tmp_path):
    with pytest.raises(IntegrityError, match="is not a valid MJCF model"):
        describe_scene(write(tmp_path, "<mujoco"))
