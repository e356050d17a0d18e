"""Pictures against MuJoCo's own renderer, and which camera is taken."""

from __future__ import annotations

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from edgert.assets import find
from edgert.sim.gl import Gl
from edgert.view.render import find_camera

SCENE = str(find("sims", "quadruped") / "scene.xml")
ORACLE = """
import sys
import mujoco, numpy as np
from edgert.view.render import open_renderer
scene, gl = sys.argv[1:]
model = mujoco.MjModel.from_xml_path(scene)
data = mujoco.MjData(model)
for step in (0, 300):
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_step(model, data, step)
    mujoco.mj_forward(model, data)
    with mujoco.Renderer(model, 240, 320) as theirs:
        theirs.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        theirs.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        theirs.update_scene(data, camera="side")
        expected = theirs.render()
    with open_renderer(model, gl, width=320, height=240, camera="side") as ours:
        picture = np.full_like(expected, 99)
        picture[:] = ours.draw(data.qpos)
    assert expected.std() > 30
    assert (picture == expected).all(), np.abs(picture.astype(int) - expected).max()
"""


def test_pictures_are_those_of_mujocos_renderer(gl: Gl) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"} | {"MUJOCO_GL": gl}
    done = subprocess.run(
        [sys.executable, "-c", ORACLE, SCENE, gl],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


ARM = "<body><joint name='a'/><geom size='.1'/><body pos='0 0 .3'><joint name='b'/><geom size='.1'/></body></body>"
CUBE = "<body pos='1 0 0'><freejoint/><geom size='.1'/></body>"
WALKER = f"<body pos='0 2 0'><freejoint/><geom size='.2'/>{ARM}</body>"


def camera_of(*bodies: str) -> tuple[mujoco.MjModel, mujoco.MjvCamera]:
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{''.join(bodies)}</worldbody></mujoco>")
    return model, find_camera(model)


@pytest.mark.parametrize(
    ("bodies", "followed"),
    [
        ((CUBE,), 1),
        ((CUBE, WALKER), 2),
        ((WALKER, CUBE), 1),
        ((CUBE, CUBE), 1),
    ],
)
def test_the_floating_robot_is_followed(bodies: tuple[str, ...], followed: int) -> None:
    _, camera = camera_of(*bodies)
    assert (camera.type, camera.trackbodyid) == (mujoco.mjtCamera.mjCAMERA_TRACKING, followed)


@pytest.mark.parametrize("bodies", [(ARM,), (CUBE, ARM), ()])
def test_around_a_fixed_robot_the_camera_stands(bodies: tuple[str, ...]) -> None:
    model, camera = camera_of(*bodies)
    assert camera.type == mujoco.mjtCamera.mjCAMERA_FREE
    assert camera.lookat == pytest.approx(model.stat.center)
    assert camera.distance == pytest.approx(1.5 * model.stat.extent)


def test_the_camera_looks_as_the_model_says_and_holds_the_robot() -> None:
    model = mujoco.MjModel.from_xml_path(SCENE)
    model.vis.global_.azimuth, model.vis.global_.elevation = 77.0, -33.0
    camera = find_camera(model)
    assert (camera.azimuth, camera.elevation) == (77.0, -33.0)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    robot = model.geom_bodyid > 0
    reach = np.linalg.norm(data.geom_xpos[robot] - data.subtree_com[1], axis=1).max()
    half = np.radians(model.vis.global_.fovy) / 2
    assert reach / np.sin(half) < camera.distance < 2 * reach / np.sin(half)
