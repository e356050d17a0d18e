"""Pictures of states of a model, drawn offscreen on a private copy of it.

Drawn with the model's own antialiasing, without shadows and reflections: on two cores in software a picture of the
bundled quadruped takes 25 ms that way and 106 ms with them, and shadows fall only near where a light stands.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.errors import UnknownNameError, UnsupportedError
from edgert.sim.gl import Gl, gl_context
from edgert.sim.protocol import Floats, quiet_physics

Picture = npt.NDArray[np.uint8]
"""(height, width, 3), red, green, blue, top row first."""

_TRACK = "track"
_SCALAR_JOINTS = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_MARKER_RGBA = np.array([0.95, 0.1, 0.1, 0.55], np.float32)
_SPARE_GEOMS = 10_000
"""What MuJoCo's own renderer leaves for what is drawn beside geoms: tendons, lights, decoration."""
_ROOM = 1.1
"""How much more than the robot the picture holds: limbs may reach further than in the model's initial state."""


class Renderer:
    """Draws states of one model. Make it with `open_renderer`."""

    def __init__(self, model: mujoco.MjModel, camera: mujoco.MjvCamera, width: int, height: int) -> None:
        self._model = model
        self._camera = camera
        self._data = mujoco.MjData(model)
        self._option = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + model.nsite + _SPARE_GEOMS)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels: Picture = np.zeros((height, width, 3), np.uint8)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def draw(self, qpos: Floats, marker: Floats | None = None, radius_m: float = 0.0) -> Picture:
        """The picture of a state, as a new array.

        Args:
            qpos: (nq,), as MuJoCo lays it out.
            marker: (3,), m in the world: where a translucent red sphere is drawn; None draws none.
            radius_m: of that sphere.
        """
        self._data.qpos[:] = qpos
        mujoco.mj_fwdKinematics(self._model, self._data)
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        if marker is not None:
            self._add_sphere(marker, radius_m)
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return np.ascontiguousarray(self._pixels[::-1])  # OpenGL has the bottom row first

    def _add_sphere(self, centre: Floats, radius_m: float) -> None:
        if self._scene.ngeom < self._scene.maxgeom:
            mujoco.mjv_initGeom(
                self._scene.geoms[self._scene.ngeom],
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, radius_m),
                centre,
                np.eye(3).ravel(),
                _MARKER_RGBA,
            )
            self._scene.ngeom += 1

    def close(self) -> None:
        """Free what lies in the graphics memory; the context must still be current."""
        self._context.free()


@contextmanager
def open_renderer(model: mujoco.MjModel, gl: Gl, *, width: int, height: int, camera: str = "") -> Iterator[Renderer]:
    """A renderer of a model, which stays as it is. Sizes are in pixels; for the camera see `find_camera`.

    Raises:
        UnknownNameError: the model has no camera of that name.
        UnsupportedError: OpenGL makes no context, or no buffer of that size.
    """
    quiet_physics()
    own = copy.copy(model)
    own.vis.global_.offwidth, own.vis.global_.offheight = width, height
    view = find_camera(own, camera)
    with gl_context(gl, width, height):
        try:
            renderer = Renderer(own, view, width, height)
        except mujoco.FatalError as error:
            raise UnsupportedError(f"OpenGL cannot draw {width} × {height} pixels", found=error) from error
        try:
            yield renderer
        finally:
            renderer.close()


def find_camera(model: mujoco.MjModel, name: str = "") -> mujoco.MjvCamera:
    """The model's camera of that name; for "" its camera "track", else one that shows the robot.

    That one follows a floating robot from a distance that shows all of it; around a robot on a fixed base it looks at
    the model's centre, from one and a half times the model's extent. It looks in the direction of the model's <visual>.

    Raises:
        UnknownNameError: the model has no camera of that name; the error lists those that it has.
    """
    camera = mujoco.MjvCamera()
    number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name or _TRACK)
    if number >= 0:
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
        return camera
    if name:
        names = [model.camera(index).name for index in range(model.ncam)]
        known = ", ".join(f"'{known}'" for known in names if known) or "none, as the model has no named camera"
        raise UnknownNameError(f"unknown camera '{name}'", expected=known)
    mujoco.mjv_defaultFreeCamera(model, camera)
    robot = _floating_robot(model)
    if robot is not None:
        camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, robot
        radius_m = _ROOM * _radius(model, robot)
        camera.distance = radius_m / math.sin(math.radians(model.vis.global_.fovy) / 2) or camera.distance
    return camera


def _floating_robot(model: mujoco.MjModel) -> int | None:
    """The floating body that carries the most joints; None where a fixed one does, as objects beside an arm float."""
    roots = model.body_rootid[model.jnt_bodyid]
    floating = roots[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    if not floating.size:
        return None
    scalar = np.isin(model.jnt_type, _SCALAR_JOINTS)
    robot = int(np.bincount(roots[scalar]).argmax() if scalar.any() else floating[0])
    return robot if robot in floating else None


def _radius(model: mujoco.MjModel, body: int) -> float:
    """Radius in m of a sphere around the centre of mass that holds the geoms on a body, 0 where there are none."""
    data = mujoco.MjData(model)
    mujoco.mj_fwdKinematics(model, data)
    geoms = np.flatnonzero(model.body_rootid[model.geom_bodyid] == body)
    away = np.linalg.norm(data.geom_xpos[geoms] - data.subtree_com[body], axis=1) + model.geom_rbound[geoms]
    return float(away.max(initial=0.0))
