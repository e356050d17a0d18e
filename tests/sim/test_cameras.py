"""Pictures for policies, against what stands before the camera and against MuJoCo's own renderer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgert.contract.senses import Picture
from edgert.errors import UnknownNameError, UnsupportedError
from edgert.sim import cameras
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.gl import Gl
from edgert.sim.scene import Scene, build

BOXES = """
<mujoco>
  <visual><map znear=".01" zfar="20"/><headlight ambient=".6 .6 .6" diffuse=".4 .4 .4" specular="0 0 0"/></visual>
  <statistic extent="1" center="0 0 0"/>
  <worldbody>
    <body name="eye" pos="0 0 1">
      <freejoint/>
      <geom type="sphere" size=".01" mass="1"/>
      <camera name="front" xyaxes="0 -1 0 0 0 1" fovy="90"/>
      <body><joint name="neck" axis="0 1 0"/><geom type="sphere" size=".01" pos="0 0 -.1" mass="1"/></body>
    </body>
    <geom name="up left" type="box" size=".1 .5 .5" pos="3.1 1 2" rgba="1 0 0 1"/>
    <geom name="up right" type="box" size=".1 .5 .5" pos="3.1 -1 2" rgba="0 1 0 1"/>
    <geom name="down left" type="box" size=".1 .5 .5" pos="2.1 .7 .3" rgba="0 0 1 1"/>
  </worldbody>
</mujoco>
"""
"""The camera looks along x, with z up and y to the left."""
ROWS, COLUMNS = 24, 32


def scene_of(tmp_path: Path, text: str = BOXES) -> Scene:
    path = tmp_path / "scene.xml"
    path.write_text(text)
    return build(path, ("neck",), ("neck",), kp=[1.0], kd=[0.1])


def picture(image: Any, **changes: Any) -> Picture:
    return Picture(**{"camera": "front", "image": image, "height": ROWS, "width": COLUMNS, **changes})


def seen(scene: Scene, *pictures: Picture, x: tuple[float, ...] = (0.0,)) -> list[np.ndarray]:
    """What worlds see whose eyes stand at those x, (nworld, channels, rows, columns) of each picture."""
    with BatchSim(scene.model, len(x), 1) as sim, SimBody(sim, scene, senses=pictures) as body:
        sim.reset()
        sim.view("qpos")[:, 0] = x
        body.refresh()
        body.look()
        return [body.state.senses[each].reshape(len(x), *each.shape).copy() for each in pictures]


def at(picture: np.ndarray, y: float, z: float, x: float, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    """The pixel in which a point of the world is, seen from (0, 0, 1) with 90° from the lowest to the highest row."""
    half = rows / 2
    row, column = half - (z - 1.0) / x * half, columns / 2 - y / x * half
    return picture[:, int(row), int(column)]


def test_rows_run_down_columns_to_the_right_and_channels_are_red_green_blue(gl: Gl, tmp_path: Path) -> None:
    (colours,) = seen(scene_of(tmp_path), picture("rgb"))
    assert colours.dtype == np.float32
    for y, z, x, channel in ((1.0, 2.0, 3.0, 0), (-1.0, 2.0, 3.0, 1), (0.7, 0.3, 2.0, 2)):
        pixel = at(colours[0], y, z, x)
        assert pixel[channel] > 200.0
        assert np.delete(pixel, channel).max() < 30.0
    assert colours.max() <= 255.0
    assert colours[0, :, -1, -1].max() < 30.0, "nothing is down at the right"


def test_grey_is_the_weighted_sum_of_the_colours(gl: Gl, tmp_path: Path) -> None:
    colours, grey = seen(scene_of(tmp_path), picture("rgb"), picture("gray"))
    expected = 0.299 * colours[0, 0] + 0.587 * colours[0, 1] + 0.114 * colours[0, 2]
    np.testing.assert_allclose(grey[0, 0], expected, rtol=1e-5)


def test_depth_is_the_distance_along_the_camera(gl: Gl, tmp_path: Path) -> None:
    """Not that from the camera: every pixel of a face that stands across has one depth."""
    (depth,) = seen(scene_of(tmp_path), picture("depth"))
    for y, z, x in ((1.0, 2.0, 3.0), (1.3, 2.3, 3.0), (-1.0, 2.0, 3.0), (0.7, 0.3, 2.0)):
        np.testing.assert_allclose(at(depth[0], y, z, x), x, rtol=1e-4)
    np.testing.assert_allclose(depth[0, 0, -1, -1], 20.0, rtol=1e-4)


def test_depth_of_a_parallel_camera(gl: Gl, tmp_path: Path) -> None:
    text = BOXES.replace('fovy="90"', 'projection="orthographic" fovy="6"')
    (depth,) = seen(scene_of(tmp_path, text), picture("depth"))
    np.testing.assert_allclose(depth[0, 0, ROWS // 2 - 4, COLUMNS // 2 - 4], 3.0, rtol=1e-4)
    np.testing.assert_allclose(depth[0, 0, -1, -1], 20.0, rtol=1e-4)


def test_every_world_is_seen_from_where_it_is_and_only_where_somebody_looks(gl: Gl, tmp_path: Path) -> None:
    scene, view = scene_of(tmp_path), picture("depth", height=8, width=8)
    (depth,) = seen(scene, view, x=(0.0, -1.0, -2.0))
    highest = depth.reshape(3, -1).min(axis=1)
    np.testing.assert_allclose(highest, [2.0, 3.0, 4.0], rtol=1e-4)
    with BatchSim(scene.model, 3, 1) as sim, SimBody(sim, scene, senses=[view]) as body:
        sim.reset()
        body.look(np.array([False, True, False]))
        found = body.state.senses[view].max(axis=1)
    assert (found > 0.0).tolist() == [True, True, False], "the first is drawn once to be timed"


def test_pictures_of_several_sizes_and_cameras_are_drawn_side_by_side(gl: Gl, tmp_path: Path) -> None:
    text = BOXES.replace("<joint", '<camera name="back" xyaxes="0 1 0 0 0 1" fovy="90"/><joint')
    scene = scene_of(tmp_path, text)
    wide, small = picture("rgb", height=12, width=48), picture("depth", camera="back", height=6, width=4)
    together = seen(scene, wide, small, picture("rgb"))
    for each, alone in zip((wide, small, picture("rgb")), together, strict=True):
        np.testing.assert_array_equal(seen(scene, each)[0], alone)
    assert together[1].min() > 19.9, "nothing is behind"


def test_a_mocap_body_is_drawn_where_it_is(gl: Gl, tmp_path: Path) -> None:
    text = BOXES.replace(
        '<geom name="up left"',
        '<body mocap="true" pos="0 0 9"><geom type="box" size=".1 9 9"/></body><geom name="up left"',
    )
    scene, view = scene_of(tmp_path, text), picture("depth")
    with BatchSim(scene.model, 1, 1) as sim, SimBody(sim, scene, senses=[view]) as body:
        sim.reset()
        sim.view("mocap_pos")[0, 0] = 1.1, 0.0, 1.0
        body.look()
        np.testing.assert_allclose(body.state.senses[view], 1.0, rtol=1e-4)


def test_the_note_tells_what_draws_and_how_long_it_takes(gl: Gl, tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    with BatchSim(scene.model, 2, 1) as sim, SimBody(sim, scene, senses=[picture("rgb")]) as body:
        (note,) = body.notes()
        assert body.notes(1e-9) == [
            note,
            "warning: drawing takes longer than the control period of 1e-06 ms: commands will be late, "
            "but for --no-real-time",
        ]
        body.close()  # and again at the end
    assert note.startswith(f"cameras 'front' (rgb, {COLUMNS} × {ROWS}) are drawn by {gl}: ")
    assert note.endswith(" ms a tick for each world")


def test_a_camera_that_is_not_there_is_refused(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    with BatchSim(scene.model, 1, 1) as sim, pytest.raises(UnknownNameError) as refusal:
        SimBody(sim, scene, senses=[picture("rgb", camera="rear")])
    assert str(refusal.value) == (
        f"scene {scene.path} has no camera 'rear': expected front. "
        "Add <camera> to the robot's scene, or correct the term"
    )


def test_where_nothing_draws_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Gl:
        raise UnsupportedError("no OpenGL library is installed", hint="Install one")

    monkeypatch.setattr(cameras, "choose_gl", nothing)
    scene = scene_of(tmp_path)
    with BatchSim(scene.model, 1, 1) as sim, pytest.raises(UnsupportedError) as refusal:
        SimBody(sim, scene, senses=[picture("rgb")])
    assert str(refusal.value) == (
        "the policy sees through camera 'front', and no OpenGL library is installed. Install one"
    )


RENDERED = """
import json, sys
import mujoco, numpy as np
scene, out, rows, columns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
model = mujoco.MjModel.from_xml_path(scene)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, rows, columns) as renderer:
    renderer.update_scene(data, "front")
    colours = renderer.render().copy()
    renderer.enable_depth_rendering()
    depth = renderer.render().copy()
np.savez(out, colours=colours, depth=depth)
"""


def test_pictures_are_those_of_mujocos_own_renderer(gl: Gl, tmp_path: Path) -> None:
    text = BOXES.replace(
        "<worldbody>", '<worldbody><light pos="0 0 4" dir=".5 0 -1"/><geom type="plane" size="9 9 .1"/>'
    )
    scene = scene_of(tmp_path, text)
    colours, depth = seen(scene, picture("rgb"), picture("depth"))
    subprocess.run(
        [sys.executable, "-c", RENDERED, str(scene.path), str(tmp_path / "out.npz"), str(ROWS), str(COLUMNS)],
        env={**os.environ, "MUJOCO_GL": gl},
        check=True,
        timeout=120,
    )
    with np.load(tmp_path / "out.npz") as theirs:
        np.testing.assert_array_equal(colours[0], theirs["colours"].transpose(2, 0, 1))
        np.testing.assert_allclose(depth[0, 0], theirs["depth"], rtol=1e-4)  # it reckons in float32
