"""`Sim`: many worlds of one model, stepped together. The seam between tasks or robots and a physics engine.

State layout, names and semantics are MuJoCo's. After `step`, derived fields (sensors, positions of bodies) describe
the state before the last substep, as with `mj_step`; after `reset` and `forward` they describe the state itself.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

import mujoco
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
DIVERGED: Final = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADCTRL) + 1)
"""The warnings after which MuJoCo does other than it was told: it resets a world with bad qpos, qvel or qacc by itself,
and takes no control of a world where one is above 1e10."""


def quiet_physics() -> None:
    """Send MuJoCo's warnings to the log unless somebody listens to them already.

    Otherwise MuJoCo writes MUJOCO_LOG.TXT into the working folder. `Sim.warnings` and `Sim.diverged` count them.
    """
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(logging.getLogger("edgert.sim").debug)


class Sim(Protocol):
    """Batched physics. A `Sim` belongs to one thread at a time; whoever made it closes it."""

    @property
    def model(self) -> mujoco.MjModel:
        """The model of every world, before per-world fields."""
        ...

    @property
    def nworld(self) -> int:
        """Number of worlds."""
        ...

    @property
    def timestep_s(self) -> float:
        """Physics timestep, s."""
        ...

    def view(self, name: str) -> Floats:
        """A live (nworld, ...) array of an MjData field: state fields may be written, derived ones only read."""
        ...

    def expand(self, name: str) -> Floats:
        """A live, writable (nworld, ...) array of per-world values of an MjModel field."""
        ...

    def set_const(self, mask: Mask | None = None) -> None:
        """Recompute what MuJoCo derives from masses and geometry, after writing expanded fields."""
        ...

    def reset(self, mask: Mask | None = None, keyframe: int = -1) -> None:
        """Put the worlds of the mask (None: all) at a keyframe or the defaults; call `forward` after writing state."""
        ...

    def forward(self, mask: Mask | None = None) -> None:
        """Compute the derived fields of the worlds of the mask at their state."""
        ...

    def step(self, nstep: int = 1) -> None:
        """Advance every world by nstep physics steps under the controls written to `view("ctrl")`."""
        ...

    def state(self) -> Floats:
        """A copy of the full integration state, (nworld, nstate), in the layout of mjSTATE_INTEGRATION."""
        ...

    def set_state(self, state: Floats) -> None:
        """Set the full integration state; derived fields follow with `forward`."""
        ...

    def warnings(self) -> npt.NDArray[np.int64]:
        """How often each MuJoCo warning was raised since the world's last reset, (nworld, nwarning), by mjtWarning."""
        ...

    def diverged(self) -> Mask:
        """Where physics diverged since the world's last reset, (nworld,).

        MuJoCo puts a world with bad qpos, qvel or qacc at the model's defaults by itself and goes on, and without
        controls where one is no usable number: its warnings are the only trace.
        """
        ...

    def close(self) -> None:
        """Release the worlds."""
        ...
