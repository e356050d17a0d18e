"""MuJoCo C for many worlds: `mujoco.batch.Batch` behind the `Sim` protocol.

Results are bit-identical to a sequential `mj_step` loop for any number of worlds and threads (`sequential` is the
oracle that tests compare with). One MjData serves all worlds of a thread, so memory grows with threads, not worlds.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, cast

import mujoco
import mujoco.batch
import numpy as np
import numpy.typing as npt

from edgert.errors import UnsupportedError
from edgert.sim.protocol import DIVERGED, Floats, Mask


class BatchSim:
    """`nworld` worlds of `model` on `nthread` threads (0: one per CPU, never more than worlds)."""

    def __init__(self, model: mujoco.MjModel, nworld: int = 1, nthread: int = 0) -> None:
        if nworld < 1:
            raise UnsupportedError("a simulation needs at least one world", found=nworld)
        self.model = model
        self.nworld = nworld
        self.timestep_s = float(model.opt.timestep)
        # The type stubs of mujoco.batch leave its methods untyped.
        self._batch: Any = mujoco.batch.Batch(model, nsim=nworld, nthread=min(nthread, nworld) if nthread else 0)
        self._state: Floats = self._batch.state
        self._warning: npt.NDArray[np.int32] = self._batch.warning  # live, (nworld, nwarning, [lastinfo, number])

    def view(self, name: str) -> Floats:
        """See `Sim.view`."""
        return cast(Floats, self._batch.bind(name))

    def expand(self, name: str) -> Floats:
        """See `Sim.expand`."""
        return cast(Floats, self._batch.expand(name))

    def set_const(self, mask: Mask | None = None) -> None:
        """See `Sim.set_const`."""
        self._batch.set_const(mask)

    def reset(self, mask: Mask | None = None, keyframe: int = -1) -> None:
        """See `Sim.reset`."""
        self._batch.reset(mask, keyframe=keyframe, stage=mujoco.mjtStage.mjSTAGE_NONE)

    def forward(self, mask: Mask | None = None) -> None:
        """See `Sim.forward`."""
        self._batch.forward(mask)

    def step(self, nstep: int = 1) -> None:
        """See `Sim.step`."""
        self._batch.step(nstep=nstep)

    def state(self) -> Floats:
        """See `Sim.state`."""
        return self._state.copy()

    def set_state(self, state: Floats) -> None:
        """See `Sim.set_state`."""
        self._state[:] = state

    def warnings(self) -> npt.NDArray[np.int64]:
        """See `Sim.warnings`."""
        return self._warning[:, :, 1].astype(np.int64)

    def diverged(self) -> Mask:
        """See `Sim.diverged`."""
        return cast(Mask, np.any(self._warning[:, DIVERGED, 1], axis=1))

    def close(self) -> None:
        """See `Sim.close`."""
        self._batch = None

    def __enter__(self) -> BatchSim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
