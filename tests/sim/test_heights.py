"""Scans of the ground, against what is known of the ground."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from edgert.contract.senses import HeightScan
from edgert.errors import RobotError
from edgert.sim.batch import BatchSim
from edgert.sim.body import SimBody
from edgert.sim.scene import Scene, build

ROBOT = """
    <body name="trunk" pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".4 .2 .1" mass="5"/>
      <body name="head" pos=".3 0 .2">
        <joint name="neck" axis="0 1 0"/>
        <geom type="box" size=".1 .1 .1" mass="1"/>
      </body>
    </body>"""
FLOOR = '<geom name="floor" type="plane" size="1 1 .1"/>'
SMALL = HeightScan(size=(0.4, 0.2), resolution=0.2)


def scene_of(tmp_path: Path, ground: str, robot: str = ROBOT, asset: str = "") -> Scene:
    path = tmp_path / "scene.xml"
    path.write_text(f"<mujoco><asset>{asset}</asset><worldbody>{robot}{ground}</worldbody></mujoco>")
    return build(path, ("neck",), ("neck",), kp=[1.0], kd=[0.1])


def scans(scene: Scene, scan: HeightScan, poses: list[tuple[float, ...]]) -> np.ndarray:
    """What worlds at the poses (x, y, z, yaw, pitch) see."""
    with BatchSim(scene.model, len(poses), 1) as sim, SimBody(sim, scene, senses=[scan]) as body:
        sim.reset()
        qpos = sim.view("qpos")
        for row, (x, y, z, yaw, pitch) in zip(qpos, poses, strict=True):
            turn, lean, quat = np.zeros(4), np.zeros(4), np.zeros(4)
            mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), yaw)
            mujoco.mju_axisAngle2Quat(lean, np.array([0.0, 1.0, 0.0]), pitch)
            mujoco.mju_mulQuat(quat, turn, lean)
            row[:7] = x, y, z, *quat
        body.refresh()
        body.look()
        return body.state.senses[scan].copy()


def test_flat_ground_is_as_far_below_as_the_body_is_high(tmp_path: Path) -> None:
    """The plane of 1 m by 1 m counts without end, and the robot itself is not seen."""
    scene = scene_of(tmp_path, FLOOR)
    found = scans(scene, HeightScan(), [(0.0, 0.0, 0.7, 0.0, 0.0), (50.0, -9.0, 1.2, 2.0, 0.3)])
    np.testing.assert_allclose(found, np.repeat([[0.2], [0.7]], 187, axis=1), atol=1e-9)


@pytest.mark.parametrize("ordering", ["xy", "yx"])
def test_the_last_point_is_ahead_and_to_the_left(tmp_path: Path, ordering: Any) -> None:
    scene = scene_of(tmp_path, FLOOR + '<geom type="box" size=".05 .05 .1" pos=".2 .1 .2"/>')
    scan = HeightScan(size=(0.4, 0.2), resolution=0.2, ordering=ordering, height_offset=0.0)
    found = scans(scene, scan, [(0.0, 0.0, 1.0, 0.0, 0.0)])[0]
    np.testing.assert_allclose(found, [1.0] * 5 + [0.7], atol=1e-9)


@pytest.mark.parametrize(("ordering", "places"), [("xy", [2, 5]), ("yx", [4, 5])])
def test_x_runs_fastest_in_xy_and_y_in_yx(tmp_path: Path, ordering: Any, places: list[int]) -> None:
    """A step in front: two points, whatever y."""
    scene = scene_of(tmp_path, FLOOR + '<geom type="box" size=".05 1 .1" pos=".2 0 .1"/>')
    scan = HeightScan(size=(0.4, 0.2), resolution=0.2, ordering=ordering, height_offset=0.0)
    found = scans(scene, scan, [(0.0, 0.0, 1.0, 0.0, 0.0)])[0]
    assert np.flatnonzero(found < 0.9).tolist() == places


def test_the_grid_turns_with_the_yaw_alone(tmp_path: Path) -> None:
    """The step is in front of a body that looks along y, however it leans; in front of the other is none."""
    scene = scene_of(tmp_path, FLOOR + '<geom type="box" size="1 .05 .1" pos="0 .2 .1"/>')
    found = scans(scene, SMALL, [(0.0, 0.0, 1.0, np.pi / 2, 0.4), (0.0, 0.0, 1.0, -np.pi / 2, 0.0)])
    np.testing.assert_allclose(found[0], [0.5, 0.5, 0.3] * 2, atol=1e-9)
    np.testing.assert_allclose(found[1], [0.3, 0.5, 0.5] * 2, atol=1e-9)


def test_heights_between_the_points_of_a_heightfield(tmp_path: Path) -> None:
    hfield = '<hfield name="h" nrow="2" ncol="2" size="2 2 1 .1" elevation="0 1 0 1"/>'
    scene = scene_of(tmp_path, '<geom type="hfield" hfield="h"/>', asset=hfield)
    scan = HeightScan(size=(1.0, 0.0), resolution=0.5, height_offset=0.0)
    found = scans(scene, scan, [(0.0, 0.3, 3.0, 0.0, 0.0)])[0]
    np.testing.assert_allclose(3.0 - found, [(x + 2.0) / 4.0 for x in (-0.5, 0.0, 0.5)], atol=1e-9)


def test_what_cannot_be_hit_or_moves_is_no_ground(tmp_path: Path) -> None:
    ground = (
        FLOOR + '<geom type="box" size="1 1 .1" pos="0 0 .3" contype="0" conaffinity="0"/>'
        '<body pos="0 0 .5" mocap="true"><geom type="box" size="1 1 .1"/></body>'
        '<body pos="0 0 .8"><freejoint/><geom type="box" size="1 1 .01"/></body>'
        '<body pos="0 0 .1"><geom type="box" size="1 1 .1" rgba="0 0 0 0" group="3"/></body>'
    )
    found = scans(scene_of(tmp_path, ground), SMALL, [(0.0, 0.0, 2.0, 0.0, 0.0)])
    np.testing.assert_allclose(found, np.full((1, 6), 1.3), atol=1e-9)


def test_a_hole_gives_the_value_of_a_miss(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, '<geom type="box" size="1 1 .1" pos="-1 0 -.1"/>')
    scan = HeightScan(size=(0.4, 0.0), resolution=0.2, miss=7.0)
    np.testing.assert_allclose(scans(scene, scan, [(0.1, 0.0, 1.0, 0.0, 0.0)]), [[0.5, 7.0, 7.0]], atol=1e-9)


def test_a_roof_is_seen_from_above_alone(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, FLOOR + '<geom type="box" size="9 9 .1" pos="0 0 5"/>')
    pose = [(0.0, 0.0, 1.0, 0.0, 0.0)]
    np.testing.assert_allclose(scans(scene, SMALL, pose), np.full((1, 6), -4.6), atol=1e-9)
    below = HeightScan(size=(0.4, 0.2), resolution=0.2, above=1.0)
    np.testing.assert_allclose(scans(scene, below, pose), np.full((1, 6), 0.5), atol=1e-9)


def test_a_scan_around_another_body_follows_its_joint(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, FLOOR)
    scan = HeightScan(size=(0.0, 0.0), body="head", height_offset=0.0)
    assert scans(scene, scan, [(0.0, 0.0, 1.0, 0.0, 0.0)])[0, 0] == pytest.approx(1.2)


def test_many_worlds_see_what_each_would_see_alone(tmp_path: Path) -> None:
    hfield = '<hfield name="h" nrow="30" ncol="30" size="9 9 1 .1"/>'
    scene = scene_of(tmp_path, '<geom type="hfield" hfield="h"/>', asset=hfield)
    rng = np.random.default_rng(0)
    scene.model.hfield_data[:] = rng.random(scene.model.hfield_data.shape)
    poses = [tuple(row) for row in rng.uniform(-3.0, 3.0, (53, 5))]
    together = scans(scene, SMALL, poses)
    alone = np.concatenate([scans(scene, SMALL, [pose]) for pose in poses])
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together)) > 300


def test_only_the_worlds_of_a_mask_look(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, FLOOR)
    with BatchSim(scene.model, 40, 1) as sim, SimBody(sim, scene, senses=[SMALL]) as body:
        sim.reset()
        sim.view("qpos")[:, 2] = np.arange(40)
        mask = np.zeros(40, np.bool_)
        mask[[3, 17, 39]] = True
        body.look(mask)
        found = body.state.senses[SMALL][:, 0]
        np.testing.assert_allclose(found[mask], [2.5, 16.5, 38.5])
        assert not found[~mask].any()
        body.look(np.zeros(40, np.bool_))
        sim.view("qpos")[17, 0] = np.nan
        body.look()
        np.testing.assert_allclose(found, np.where(np.arange(40) == 17, np.nan, np.arange(40) - 0.5))


def test_the_scene_itself_stays_as_it_is(tmp_path: Path) -> None:
    scene = scene_of(tmp_path, FLOOR)
    before = scene.model.geom_group.copy(), scene.model.geom_size.copy(), scene.model.geom_rgba.copy()
    scans(scene, SMALL, [(0.0, 0.0, 1.0, 0.0, 0.0)])
    for kept, now in zip(before, (scene.model.geom_group, scene.model.geom_size, scene.model.geom_rgba), strict=True):
        np.testing.assert_array_equal(kept, now)


FIXED = ROBOT.replace("<freejoint/>", "")


@pytest.mark.parametrize(
    ("ground", "robot", "scan", "text"),
    [
        (
            "",
            ROBOT,
            SMALL,
            "scene {} has no ground for a height_scan: found no geom of the world that something can collide with, "
            "expected a plane, a heightfield, boxes or meshes that do not move",
        ),
        (
            FLOOR,
            FIXED,
            SMALL,
            "the robot of scene {} has a fixed base, and a height_scan lies around the base. "
            "Name another body in the term: body = …",
        ),
        (
            FLOOR,
            ROBOT,
            HeightScan(body="hand"),
            "scene {} has no body 'hand', around which a height_scan lies: expected one of trunk, head",
        ),
    ],
)
def test_refusals(tmp_path: Path, ground: str, robot: str, scan: HeightScan, text: str) -> None:
    scene = scene_of(tmp_path, ground, robot)
    with pytest.raises(RobotError) as refusal, BatchSim(scene.model, 1, 1) as sim:
        SimBody(sim, scene, senses=[scan])
    assert str(refusal.value) == text.format(scene.path)
