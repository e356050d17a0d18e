"""Pictures of a scene's cameras for policies that see: colours, grey or depth, drawn offscreen at the present state.

They are those of MuJoCo's own renderer, pixel by pixel, with what it draws by default. All are drawn one after the
other in one context on a private copy of the model, whatever draws elsewhere in this process.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, Final

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.contract.senses import Picture
from edgert.errors import UnknownNameError, UnsupportedError
from edgert.sim.gl import Gl, choose_gl, open_context
from edgert.sim.protocol import Sim
from edgert.sim.scene import Scene

Pixels = npt.NDArray[np.float32]
_SPARE_GEOMS: Final = 10_000
_GRAY: Final = np.array([0.299, 0.587, 0.114], np.float32)
"""ITU-R BT.601, as OpenCV and Pillow make grey."""
_OF_DEPTH: Final = (mujoco.mjtRndFlag.mjRND_SEGMENT, mujoco.mjtRndFlag.mjRND_IDCOLOR)


class Cameras(Closes):
    """What the cameras of a scene see in many worlds.

    Args:
        sim: the worlds.
        scene: that they are made of.
        pictures: what is to be drawn, at least one.

    Attributes:
        values: of each picture (nworld, dim), of the last `refresh`.
        note: what draws, and how long it took for one world.
        draw_s: that time.

    Raises:
        UnknownNameError: the scene has no camera of that name.
        UnsupportedError: nothing draws here.
    """

    def __init__(self, sim: Sim, scene: Scene, pictures: Sequence[Picture]) -> None:
        views = {picture: _view(scene, picture.camera) for picture in pictures}
        self.values: dict[Picture, Pixels] = {
            picture: np.zeros((sim.nworld, picture.dim), np.float32) for picture in pictures
        }
        self._model = model = copy.copy(scene.model)
        width, height = max(each.width for each in pictures), max(each.height for each in pictures)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        self._data = mujoco.MjData(model)
        names = ("qpos", "mocap_pos", "mocap_quat") if model.nmocap else ("qpos",)
        self._states = [(getattr(self._data, name), sim.view(name)) for name in names]
        gl = _library(pictures[0].camera)
        self._gl = open_context(gl, width, height)
        try:
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
        except mujoco.FatalError as error:
            self._gl.free()
            raise UnsupportedError(f"OpenGL cannot draw {width} × {height} pixels", found=error) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        self._option = mujoco.MjvOption()
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + model.nsite + _SPARE_GEOMS)
        self._frames = [_Frame(picture, views[picture]) for picture in pictures]
        self._closed = False
        one = np.zeros(1, np.intp)
        self.refresh(one)  # makes what is made once
        began = time.perf_counter()
        self.refresh(one)
        self.draw_s = time.perf_counter() - began
        shown = ", ".join(f"'{each.camera}' ({each.image}, {each.width} × {each.height})" for each in pictures)
        each = " for each world" if sim.nworld > 1 else ""
        self.note = f"cameras {shown} are drawn by {gl}: {self.draw_s * 1e3:.1f} ms a tick{each}"

    def refresh(self, worlds: npt.NDArray[np.intp] | None = None) -> None:
        """Draw the present state of some worlds (None: all)."""
        self._gl.make_current()
        for world in range(len(self._states[0][1])) if worlds is None else worlds.tolist():
            for own, state in self._states:
                own[:] = state[world]
            mujoco.mj_fwdKinematics(self._model, self._data)
            for frame in self._frames:
                self._draw(frame, self.values[frame.picture][world])

    def _draw(self, frame: _Frame, out: Pixels) -> None:
        scene, context = self._scene, self._context
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, None, frame.camera, mujoco.mjtCatBit.mjCAT_ALL, scene
        )
        depth = frame.picture.image == "depth"
        for flag in _OF_DEPTH:  # so that far things are as exact as MuJoCo's renderer has them
            scene.flags[flag] = depth
        mujoco.mjr_render(frame.rect, scene, context)
        mujoco.mjr_readPixels(None if depth else frame.colours, frame.depths if depth else None, frame.rect, context)
        picture = out.reshape(frame.picture.shape)
        if depth:
            picture[0] = _metres(frame.depths[::-1], self._model, linear=bool(scene.camera[0].orthographic))
        elif frame.picture.image == "gray":
            np.dot(frame.colours[::-1], _GRAY, out=picture[0])  # OpenGL has the bottom row first
        else:
            picture[:] = frame.colours[::-1].transpose(2, 0, 1)

    def close(self) -> None:
        """Free what lies in the graphics memory."""
        if not self._closed:
            self._closed = True
            self._gl.make_current()
            self._context.free()
            self._gl.free()


class _Frame:
    """Room for one picture."""

    def __init__(self, picture: Picture, camera: mujoco.MjvCamera) -> None:
        self.picture, self.camera = picture, camera
        self.rect = mujoco.MjrRect(0, 0, picture.width, picture.height)
        self.colours = np.zeros((picture.height, picture.width, 3), np.uint8)
        self.depths = np.zeros((picture.height, picture.width), np.float32)


def _view(scene: Scene, name: str) -> mujoco.MjvCamera:
    model = scene.model
    number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    if number < 0:
        names = [model.camera(index).name for index in range(model.ncam)]
        raise UnknownNameError(
            f"scene {scene.path} has no camera '{name}'",
            expected=", ".join(known for known in names if known) or "one; the scene has no named camera",
            hint="Add <camera> to the robot's scene, or correct the term",
        )
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
    return camera


def _library(camera: str) -> Gl:
    try:
        return choose_gl()
    except UnsupportedError as error:
        raise UnsupportedError(
            f"the policy sees through camera '{camera}', and {error.what}", found=error.found, hint=error.hint
        ) from error


def _metres(buffer: npt.NDArray[np.float32], model: mujoco.MjModel, *, linear: bool) -> npt.NDArray[Any]:
    """Distances along the camera's axis from a depth buffer that is 1 at the near plane and 0 at the far one.

    A perspective projection has 1/distance run evenly between the planes, a parallel one the distance itself.
    """
    near, far = (float(plane * model.stat.extent) for plane in (model.vis.map.znear, model.vis.map.zfar))
    nearness = buffer.astype(np.float64)
    if linear:
        return far + nearness * (near - far)
    return 1.0 / (1.0 / far + nearness * (1.0 / near - 1.0 / far))
