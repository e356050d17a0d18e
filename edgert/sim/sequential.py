"""The plain way to step many worlds: one MjData each, `mj_step` in a loop. The oracle that `batch` is tested against.

Slow on purpose and simple on purpose; never chosen for real work.
"""

from __future__ import annotations

import copy
from typing import cast

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.sim.protocol import DIVERGED, Floats, Mask

_STATE_FIELDS = frozenset(
    [
        "time",
        "qpos",
        "qvel",
        "act",
        "history",
        "qacc_warmstart",
        "ctrl",
        "qfrc_applied",
        "xfrc_applied",
        "eq_active",
        "mocap_pos",
        "mocap_quat",
        "userdata",
        "plugin_state",
    ]
)


class SequentialSim(Closes):
    """`nworld` worlds, each with a model of its own, in the `Sim` protocol."""

    def __init__(self, model: mujoco.MjModel, nworld: int = 1) -> None:
        self.model = model
        self.nworld = nworld
        self.timestep_s = float(model.opt.timestep)
        self._models = [copy.copy(model) for _ in range(nworld)]
        self._datas = [mujoco.MjData(each) for each in self._models]
        self._views: dict[str, Floats] = {}
        self._fields: dict[str, Floats] = {}

    def view(self, name: str) -> Floats:
        """See `Sim.view`: a copy of the field, written back before and refreshed after each call."""
        if name not in self._views:
            self._views[name] = np.array([getattr(data, name) for data in self._datas])
        return self._views[name]

    def expand(self, name: str) -> Floats:
        """See `Sim.expand`."""
        if name not in self._fields:
            self._fields[name] = np.array([getattr(model, name) for model in self._models])
        return self._fields[name]

    def set_const(self, mask: Mask | None = None) -> None:
        """See `Sim.set_const`."""
        for world in self._worlds(mask):
            self._push(world)
            mujoco.mj_setConst(self._models[world], mujoco.MjData(self._models[world]))
            for name, values in self._fields.items():
                values[world] = getattr(self._models[world], name)

    def reset(self, mask: Mask | None = None, keyframe: int = -1) -> None:
        """See `Sim.reset`."""
        for world in self._worlds(mask):
            model, data = self._models[world], self._datas[world]
            if keyframe < 0:
                mujoco.mj_resetData(model, data)
            else:
                mujoco.mj_resetDataKeyframe(model, data, keyframe)
            self._pull(world)

    def forward(self, mask: Mask | None = None) -> None:
        """See `Sim.forward`."""
        for world in self._worlds(mask):
            self._push(world)
            mujoco.mj_forward(self._models[world], self._datas[world])
            self._pull(world)

    def step(self, nstep: int = 1) -> None:
        """See `Sim.step`."""
        for world in range(self.nworld):
            self._push(world)
            data = self._datas[world]
            for _ in range(nstep):
                mujoco.mj_step(self._models[world], data)
            self._pull(world)

    def state(self) -> Floats:
        """See `Sim.state`."""
        spec = mujoco.mjtState.mjSTATE_INTEGRATION
        rows = np.empty((self.nworld, mujoco.mj_stateSize(self.model, spec)))
        for world in range(self.nworld):
            self._push(world)
            mujoco.mj_getState(self._models[world], self._datas[world], rows[world], spec)
        return rows

    def set_state(self, state: Floats) -> None:
        """See `Sim.set_state`."""
        for world in range(self.nworld):
            mujoco.mj_setState(
                self._models[world], self._datas[world], state[world], mujoco.mjtState.mjSTATE_INTEGRATION
            )
            self._pull(world)

    def warnings(self) -> npt.NDArray[np.int64]:
        """See `Sim.warnings`."""
        return np.array([[warning.number for warning in data.warning] for data in self._datas], np.int64)

    def diverged(self) -> Mask:
        """See `Sim.diverged`."""
        return cast(Mask, np.any(self.warnings()[:, DIVERGED], axis=1))

    def close(self) -> None:
        """See `Sim.close`."""
        self._datas = []

    def _worlds(self, mask: Mask | None) -> list[int]:
        return list(range(self.nworld)) if mask is None else [int(world) for world in np.flatnonzero(mask)]

    def _push(self, world: int) -> None:
        for name, values in self._views.items():
            if name == "time":
                self._datas[world].time = values[world]
            elif name in _STATE_FIELDS:
                getattr(self._datas[world], name)[:] = values[world]
        for name, values in self._fields.items():
            getattr(self._models[world], name)[:] = values[world]

    def _pull(self, world: int) -> None:
        for name, values in self._views.items():
            values[world] = getattr(self._datas[world], name)
