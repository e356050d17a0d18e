"""Reference motions: what a tracking policy is asked to follow, tick by tick, in one or many worlds.

A `Motion` is a table at the control rate, a `MotionPlayer` walks through it world by world, and `MotionState` is what
observation terms see. Joints stand in the contract's order, quaternions are wxyz, body to world.

At the first tick of an episode the reference is turned about the vertical and moved in x and y so that its anchor in
frame 0 stands where the robot's anchor stands; its height and its lean stay. A motion that loops begins again in the
same way, from where the robot is then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import atan2, cos, sin
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from edgert.contract.spec import Contract
from edgert.contract.state import Array, RobotState
from edgert.errors import ContractError

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_FRAMES: Final = 100_000
"""Most frames of a motion: 33 minutes at 50 Hz."""
NEEDS: Final = {
    "motion_joint_pos": ("joint_pos",),
    "motion_joint_vel": ("joint_vel",),
    "motion_command": ("joint_pos", "joint_vel"),
    "motion_anchor_pos_b": ("anchor_pos", "anchor_quat"),
    "motion_anchor_ori_b": ("anchor_quat",),
    "motion_phase": (),
    "time_step": (),
}
"""The terms that read a motion, with the tables that they need."""
ANCHORED: Final = ("motion_anchor_pos_b", "motion_anchor_ori_b")
"""Those that compare it with a body of the robot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """A reference motion at the control rate; a table that nobody gave is None.

    Attributes:
        hz: frames a second.
        frames: how many there are.
        joint_pos: (frames, njoint) rad, in the contract's order of joints.
        joint_vel: (frames, njoint) rad/s.
        anchor_pos: (frames, 3) m, world.
        anchor_quat: (frames, 4) wxyz, body to world, of unit length.
        anchor: the body whose pose that is; "": the robot's base.
        loop: begin again after the last frame, instead of holding it.
        source: where it came from, for people.
        sha256: of its file; "" for one that is in the network.
        notes: what was done to it, one line each.
    """

    hz: float
    frames: int
    joint_pos: Floats | None = None
    joint_vel: Floats | None = None
    anchor_pos: Floats | None = None
    anchor_quat: Floats | None = None
    anchor: str = ""
    loop: bool = False
    source: str = ""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From the first frame to the last, s."""
        return (self.frames - 1) / self.hz

    def report(self) -> dict[str, Any]:
        """What reports say of it; see docs/json.md."""
        told = {name: getattr(self, name) for name in ("frames", "hz", "seconds", "loop", "source")}
        return told | ({"sha256": self.sha256} if self.sha256 else {})


def looped(motion: Motion | None, loop: bool | None) -> Motion | None:
    """The motion that begins again, or not, as the user says; None: as it says itself.

    Raises:
        ContractError: the user says so of none.
    """
    if motion is None and loop is not None:
        raise ContractError(
            "this policy follows no reference motion, which option 'motion_loop' is for",
            hint="Leave it out, or name the motion as [motion] in policy.toml",
        )
    return motion if motion is None or loop is None else replace(motion, loop=loop)


TABLES: Final = ("joint_pos", "joint_vel", "anchor_pos", "anchor_quat")


def tracked_bodies(contract: Contract) -> tuple[str, ...]:
    """The bodies whose poses the contract's terms read; "" is the base."""
    names = {term.name for spec in contract.inputs.values() for term in spec.terms}
    tracks = not names.isdisjoint(ANCHORED)
    return (contract.motion.anchor,) if contract.motion is not None and tracks else ()


def check_motion(contract: Contract, motion: Motion | None) -> None:
    """Refuse a contract whose terms read what its motion does not have.

    Raises:
        ContractError: there is no motion, or it lacks a table.
    """
    for name, spec in contract.inputs.items():
        for term in spec.terms:
            if term.name not in NEEDS:
                continue
            if motion is None:
                raise ContractError(
                    f"term '{term.name}' of input '{name}' needs a reference motion",
                    found="none",
                    hint="Add [motion] to policy.toml: a file, or the network's time_step input and outputs",
                )
            missing = [table for table in NEEDS[term.name] if getattr(motion, table) is None]
            if missing:
                given = [table for table in TABLES if getattr(motion, table) is not None]
                raise ContractError(
                    f"term '{term.name}' of input '{name}' needs {' and '.join(missing)} of the reference motion, "
                    f"which {motion.source} does not give",
                    found=", ".join(given) or "none",
                    hint="Name it in [motion.outputs], or the bodies of a file in [motion] bodies of policy.toml",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionState:
    """The reference of each world at this tick: arrays that a `MotionPlayer` refreshes in place.

    `frame` is that of the motion, `joint_pos`, `joint_vel`, `anchor_pos` and `anchor_quat` are its rows there, None
    where it has no such table. The anchor stands in the world of the robot.
    """

    frames: int
    anchor: str
    frame: Array  # (nworld,) integer
    joint_pos: Array | None = None  # (nworld, njoint) rad
    joint_vel: Array | None = None  # (nworld, njoint) rad/s
    anchor_pos: Array | None = None  # (nworld, 3) m, world
    anchor_quat: Array | None = None  # (nworld, 4) wxyz, body to world


class MotionPlayer:
    """Where each of `nworld` worlds is in a motion.

    A control tick is `refresh()`, then the observation, then `advance()`.

    Args:
        motion: what is played.
        body: the robots' state; the reference is aligned with its body of the motion's name, or not at all if the
            state does not tell where that is.
        nworld: how many there are.
        loop: instead of the motion's own.

    Attributes:
        state: the rows of this tick, the same arrays for the player's whole life.
    """

    def __init__(self, motion: Motion, body: RobotState, nworld: int = 1, *, loop: bool | None = None) -> None:
        self.motion = motion
        self._loop = motion.loop if loop is None else loop
        tables = {name: getattr(motion, name) for name in TABLES}
        rows = {name: np.zeros((nworld, table.shape[1])) for name, table in tables.items() if table is not None}
        self.state = MotionState(frames=motion.frames, anchor=motion.anchor, frame=np.zeros(nworld, np.int64), **rows)
        self._frame: npt.NDArray[np.int64] = self.state.frame
        self._rows = [(tables[name], row) for name, row in rows.items()]
        self._aligned = "anchor_quat" in rows and motion.anchor in body.body_quat
        if self._aligned:
            self._robot_pos, self._robot_quat = body.body_pos[motion.anchor], body.body_quat[motion.anchor]
        self._half = np.tile((1.0, 0.0), (nworld, 1))  # cosine and sine of half the turn about the vertical
        self._shift = np.zeros((nworld, 2))
        self._fresh = np.ones(nworld, np.bool_)
        self._any_fresh = True

    def reset(self, mask: Mask | None = None) -> None:
        """The next tick of the worlds of the mask (None: all) is the first of an episode."""
        worlds = slice(None) if mask is None else mask
        self._frame[worlds] = 0
        self._begin(worlds)

    def advance(self) -> None:
        """One control tick later in every world; call `refresh` before the arrays are read."""
        frame = self._frame
        frame += 1
        if len(frame) > 1:
            ended = frame >= self.motion.frames
            if ended.any():
                frame[ended] = 0 if self._loop else self.motion.frames - 1
                if self._loop:
                    self._begin(ended)
        elif frame.item() >= self.motion.frames:
            frame[0] = 0 if self._loop else self.motion.frames - 1
            if self._loop:
                self._begin(slice(None))

    def refresh(self) -> None:
        """Write the rows of this tick. Worlds that begin are aligned with where their robots are now."""
        if len(self._frame) == 1:
            frame = self._frame.item()
            for table, row in self._rows:
                row[0] = table[frame]
        else:
            for table, row in self._rows:
                np.take(table, self._frame, axis=0, out=row, mode="clip")  # "raise" would copy twice
        if self._aligned:
            if self._any_fresh:
                self._align()
            self._place_one() if len(self._frame) == 1 else self._place()

    def _begin(self, worlds: Any) -> None:
        self._fresh[worlds] = True
        self._any_fresh = True

    def _align(self) -> None:
        """Find the turn and the shift of the worlds that begin, whose rows are those of frame 0."""
        for world in np.flatnonzero(self._fresh).tolist():
            quat, robot = self.state.anchor_quat[world], self._robot_quat[world]  # type: ignore[index]
            turn = _yaw(*robot.tolist()) - _yaw(*quat.tolist())
            self._half[world] = cos(0.5 * turn), sin(0.5 * turn)
            if self.state.anchor_pos is not None:
                x, y, _ = self.state.anchor_pos[world].tolist()
                px, py, _ = self._robot_pos[world].tolist()
                c, s = cos(turn), sin(turn)
                self._shift[world] = px - (c * x - s * y), py - (s * x + c * y)
        self._fresh[:] = False
        self._any_fresh = False

    def _place_one(self) -> None:
        """`_place` for one world, where every small operation on arrays costs more than its arithmetic."""
        (c, s), quat = self._half[0].tolist(), self.state.anchor_quat
        w, x, y, z = quat[0].tolist()  # type: ignore[index]
        quat[0] = c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w  # type: ignore[index]
        if self.state.anchor_pos is not None:
            (a, b, height), (dx, dy) = self.state.anchor_pos[0].tolist(), self._shift[0].tolist()
            cosine, sine = c * c - s * s, 2.0 * c * s
            self.state.anchor_pos[0] = cosine * a - sine * b + dx, sine * a + cosine * b + dy, height

    def _place(self) -> None:
        """Turn and move the rows of the anchor."""
        quat, c, s = self.state.anchor_quat, self._half[:, 0], self._half[:, 1]
        w, x, y, z = quat.T.copy()  # type: ignore[union-attr]
        quat[:] = np.stack((c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w), axis=1)  # type: ignore[index]
        if self.state.anchor_pos is not None:
            a, b = self.state.anchor_pos[:, 0].copy(), self.state.anchor_pos[:, 1].copy()
            cosine, sine = c * c - s * s, 2.0 * c * s
            self.state.anchor_pos[:, 0] = cosine * a - sine * b + self._shift[:, 0]
            self.state.anchor_pos[:, 1] = sine * a + cosine * b + self._shift[:, 1]


def _yaw(w: float, x: float, y: float, z: float) -> float:
    """Heading of a body, rad: of its x axis in the plane."""
    return atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
