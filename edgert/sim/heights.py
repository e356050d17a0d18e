"""Scans of the ground around a robot, by rays straight down on a private copy of the scene.

Ground is what does not move: the geoms of the world and of bodies fixed to it that something can collide with, but for
the robot's own. A plane counts without end, as it does in collisions, whatever size is drawn of it.
"""

from __future__ import annotations

import copy
import os
from typing import Any, Final

import mujoco
import mujoco.batch
import numpy as np
import numpy.typing as npt

from edgert.contract.senses import HeightScan
from edgert.errors import RobotError
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene

_DOWN: Final = np.array([0.0, 0.0, -1.0])
_WORLDS_A_THREAD: Final = 16
"""Fewer are not worth the start of a thread."""


class HeightScans:
    """One scan in many worlds.

    Args:
        scene: whose ground is scanned; it may not move.
        scan: the grid.
        pos: (nworld, 3) m of the body, world, refreshed in place by its owner.
        quat: (nworld, 4) wxyz, body to world, likewise.

    Attributes:
        values: (nworld, dim) m, of the last `refresh`.

    Raises:
        RobotError: there is no ground in the scene.
    """

    def __init__(self, scene: Scene, scan: HeightScan, pos: Floats, quat: Floats) -> None:
        nworld = len(pos)
        self.values: Floats = np.zeros((nworld, scan.dim))
        self._scan, self._pos, self._quat = scan, pos, quat
        self._points = scan.points()
        self._threads = max(1, min(len(os.sched_getaffinity(0)), nworld // _WORLDS_A_THREAD))
        self._origins: Floats = np.zeros((nworld + self._threads, scan.dim, 3))
        self._groups = np.zeros(mujoco.mjNGROUP, np.uint8)
        self._groups[0] = 1
        ground = _ground(scene)
        # The rays are the worlds' own, the ground is that of all: one batch world for each thread serves them.
        self._rays: Any = mujoco.batch.Batch(ground, nsim=self._threads, nthread=self._threads)

    def refresh(self, worlds: npt.NDArray[np.intp] | None = None) -> None:
        """Scan around the present poses of some worlds (None: all)."""
        pos, quat = (self._pos, self._quat) if worlds is None else (self._pos[worlds], self._quat[worlds])
        count = len(pos)
        if count == 0:
            return
        each = -(-count // self._threads)
        used = -(-count // each)
        origins = self._origins[:count]
        self._place(pos, quat, origins)
        rays = self._origins[: used * each].reshape(used, -1, 3)
        distance = self._rays.ray(rays, _DOWN, self._groups, ids=None if used == self._threads else np.arange(used))[0]
        distance = distance.reshape(used * each, -1)[:count]
        scan = self._scan
        height = np.where(distance < 0.0, scan.miss, distance - (scan.above + scan.height_offset))
        height[~np.isfinite(pos).all(axis=1)] = np.nan  # of a world that diverged
        self.values[slice(None) if worlds is None else worlds] = height

    def _place(self, pos: Floats, quat: Floats, origins: Floats) -> None:
        """Where each ray starts."""
        w, x, y, z = quat.T
        yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))[:, None]
        cos, sin = np.cos(yaw), np.sin(yaw)
        forward, left = self._points.T
        origins[:, :, 0] = pos[:, 0:1] + cos * forward - sin * left
        origins[:, :, 1] = pos[:, 1:2] + sin * forward + cos * left
        origins[:, :, 2] = pos[:, 2:3] + self._scan.above
        if not np.isfinite(origins.sum()):
            np.nan_to_num(origins, copy=False, posinf=0.0, neginf=0.0)

    def close(self) -> None:
        """Release the copy of the scene."""
        self._rays = None


def _ground(scene: Scene) -> mujoco.MjModel:
    """A copy of the scene in which the ground alone is in group 0, and can be seen."""
    model = copy.copy(scene.model)
    bodies = model.geom_bodyid
    own = model.body_rootid[model.jnt_bodyid[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, scene.joints[0])]]
    solid = (model.geom_contype | model.geom_conaffinity) != 0
    solid[model.pair_geom1] = solid[model.pair_geom2] = True
    ground = solid & (model.body_weldid[bodies] == 0) & (model.body_rootid[bodies] != own)
    if not ground.any():
        raise RobotError(
            f"scene {scene.path} has no ground for a height_scan",
            found="no geom of the world that something can collide with",
            expected="a plane, a heightfield, boxes or meshes that do not move",
        )
    model.geom_group[:] = np.where(ground, 0, 1)
    model.geom_rgba[:, 3] = 1.0
    model.geom_matid[:] = -1
    model.geom_size[ground & (model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)] = 0.0
    return model
