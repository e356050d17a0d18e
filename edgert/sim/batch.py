"""MuJoCo C for many worlds: `mujoco.batch.Batch` behind the `Sim` protocol.

Results are bit-identical to a sequential `mj_step` loop for any number of worlds and threads (`sequential` is the
oracle that tests compare with). One MjData serves all worlds of a thread, so memory grows with threads, not worlds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import mujoco
import mujoco.batch
import numpy as np
import numpy.typing as npt

from edgert.closing import Closes
from edgert.errors import RobotError, UnsupportedError
from edgert.sim.protocol import DIVERGED, Floats, Mask, quiet_physics

MAX_WORLDS = 10_000_000
MAX_THREADS = 4_096


def check_count(what: str, value: object, low: int, high: int) -> int:
    """A whole number within bounds, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise UnsupportedError(
            f"the number of {what} is wrong", found=value, expected=f"a whole number, {low} to {high}"
        )
    return int(value)


def check_memory(nworld: int, bytes_of_world: int) -> None:
    """Refuse more worlds than the memory holds: the system would promise it, and kill the program when it is used."""
    needed, memory = nworld * bytes_of_world, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise UnsupportedError(
            f"{nworld} worlds do not fit into the memory of this computer",
            found=f"{needed / 2**30:.1f} GiB at least",
            expected=f"at most {memory / 2**30:.1f} GiB",
        )


def world_bytes(model: mujoco.MjModel, fields: Sequence[str] = ()) -> int:
    """What the state of a world takes and its own values of model fields, each with the copy that a reset makes."""
    state: int = 8 * mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)
    own: int = sum(getattr(model, name).nbytes for name in fields)
    return 2 * (state + own)


class BatchSim(Closes):
    """`nworld` worlds of `model` on `nthread` threads (0: one per CPU, never more than worlds)."""

    def __init__(self, model: mujoco.MjModel, nworld: int = 1, nthread: int = 0) -> None:
        nworld, nthread = check_count("worlds", nworld, 1, MAX_WORLDS), check_count("threads", nthread, 0, MAX_THREADS)
        check_memory(nworld, world_bytes(model))
        quiet_physics()
        self.model = model
        self.nworld = nworld
        self.timestep_s = float(model.opt.timestep)
        # The type stubs of mujoco.batch leave its methods untyped.
        try:
            self._batch: Any = mujoco.batch.Batch(model, nsim=nworld, nthread=min(nthread, nworld) if nthread else 0)
        except (MemoryError, RuntimeError, ValueError) as error:
            raise RobotError(f"MuJoCo cannot run {nworld} worlds of this scene", found=error) from error
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
        try:
            self._batch.set_const(mask)
        except (mujoco.batch.SimulationError, AttributeError) as error:
            raise self._refused(error) from error

    def reset(self, mask: Mask | None = None, keyframe: int = -1) -> None:
        """See `Sim.reset`."""
        try:
            self._batch.reset(mask, keyframe=keyframe, stage=mujoco.mjtStage.mjSTAGE_NONE)
        except (mujoco.batch.SimulationError, AttributeError) as error:
            raise self._refused(error) from error

    def forward(self, mask: Mask | None = None) -> None:
        """See `Sim.forward`."""
        try:
            self._batch.forward(mask)
        except (mujoco.batch.SimulationError, AttributeError) as error:
            raise self._refused(error) from error

    def step(self, nstep: int = 1) -> None:
        """See `Sim.step`."""
        try:
            self._batch.step(nstep=nstep)
        except (mujoco.batch.SimulationError, AttributeError) as error:
            raise self._refused(error) from error

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

    def _refused(self, error: Exception) -> RobotError:
        if self._batch is None:
            return RobotError("the simulation is closed")
        if isinstance(error, AttributeError):
            raise error  # a bug, not a refusal
        return RobotError("MuJoCo cannot simulate this scene", found=error)

    def close(self) -> None:
        """See `Sim.close`."""
        self._batch = None
