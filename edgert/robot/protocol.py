"""`Robot`: one body, real or simulated. The seam between the control loop and whatever has joints."""

from __future__ import annotations

from typing import Protocol

from edgert.contract.command import JointCommand
from edgert.contract.state import RobotState


class Robot(Protocol):
    """A body of one world (nworld = 1). Whoever made it closes it; closing damps first."""

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        ...

    def allocate(self) -> RobotState:
        """A state for `observe` to fill; the arrays stay the same objects for its whole life."""
        ...

    def observe(self, out: RobotState) -> None:
        """Bring `out`, made by `allocate`, up to date."""
        ...

    def command(self, command: JointCommand) -> None:
        """Ask the joints of the contract for a target; every array is (1, njoint)."""
        ...

    def damp(self) -> None:
        """Let go of every target and keep the damping: kp = 0. Safe at any time, also twice."""
        ...

    def close(self) -> None:
        """Damp and release the body."""
        ...


class SimulatedRobot(Robot, Protocol):
    """A body whose time the control loop moves on."""

    @property
    def timestep_s(self) -> float:
        """Physics timestep, s."""
        ...

    def advance(self, nstep: int) -> None:
        """Move the physics on by `nstep` timesteps under the last command."""
        ...

    def diverged(self) -> bool:
        """Whether the physics found its state unusable since the last reset, and reset it by itself."""
        ...
