"""Poses of bodies that hang on joints, worked out afresh from the positions of the joints.

A simulation's own body poses lag one timestep after a step (docs/decisions/0003), and an observation must not mix
instants. So the bodies that a policy reads are computed from the present state by MuJoCo's own kinematics, in an
`MjData` of their own; the simulation is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from edgert.errors import RobotError, some
from edgert.sim.protocol import Floats
from edgert.sim.scene import Scene


def body_id(scene: Scene, name: str) -> int:
    """The body of that name; "" is the base.

    Raises:
        RobotError: the scene has none.
    """
    if not name and scene.base is None:
        raise RobotError(
            f"the robot of scene {scene.path} has a fixed base, which no motion can move",
            hint="Name the body that is tracked in [motion] anchor of policy.toml",
        )
    body = int(mujoco.mj_name2id(scene.model, mujoco.mjtObj.mjOBJ_BODY, name or scene.base))
    if body <= 0:
        bodies = [scene.model.body(i).name for i in range(1, scene.model.nbody) if scene.model.body(i).name]
        raise RobotError(
            f"scene {scene.path} has no body '{name}'",
            expected="the body that the policy tracks, one of " + (some(bodies, 40) or "none"),
            hint="Correct [motion] anchor of policy.toml",
        )
    return body


class BodyPoses:
    """World poses of some bodies for many states of a scene.

    Args:
        scene: whose bodies.
        qpos: (nworld, nq), refreshed in place by its owner.
        bodies: their names; "" is the base.

    Attributes:
        pos: by name, (nworld, 3) m.
        quat: by name, (nworld, 4) wxyz, body to world.
    """

    def __init__(self, scene: Scene, qpos: Floats, bodies: Sequence[str]) -> None:
        self._model = scene.model
        self._data = mujoco.MjData(scene.model)
        self._qpos = qpos
        self.pos: dict[str, Floats] = {name: np.zeros((len(qpos), 3)) for name in bodies}
        self.quat: dict[str, Floats] = {name: np.tile((1.0, 0.0, 0.0, 0.0), (len(qpos), 1)) for name in bodies}
        ids = [body_id(scene, name) for name in bodies]
        self._bodies = [
            (self._data.xpos[i], self._data.xquat[i], self.pos[name], self.quat[name])
            for i, name in zip(ids, bodies, strict=True)
        ]
        self._own = self._data.qpos

    def refresh(self) -> None:
        """Work the poses out for the present `qpos`."""
        if not self._bodies:
            return
        model, data, own, kinematics = self._model, self._data, self._own, mujoco.mj_kinematics
        for world, row in enumerate(self._qpos):
            own[:] = row
            kinematics(model, data)
            for xpos, xquat, pos, quat in self._bodies:
                pos[world] = xpos
                quat[world] = xquat
