"""From the columns of whoever wrote a motion to a `Motion`: names, order, rate and quaternions, checked and said.

`Track` is what a file or a network gives; `make_motion` turns it into tables at the control rate in the contract's
order of joints, or refuses it. What had to be done (resampling, velocities from differences, joints left out) stands
in `Motion.notes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from edgert.contract.motion import MAX_FRAMES, Motion
from edgert.contract.spec import Contract, MotionSpec
from edgert.errors import ContractError, some
from edgert.tables import MAX_MAGNITUDE

Floats = npt.NDArray[np.float64]
UNIT_TOLERANCE: Final = 0.01
"""How far the norm of a quaternion may be from 1: files have three decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A motion as it was written: a row for each frame, columns in the order of whoever wrote it.

    Attributes:
        source: how messages call it, such as "motion walk.npz".
        hz: frames a second; None where nobody says it.
        joint_pos, joint_vel: (frames, n) rad, rad/s.
        body_pos, body_quat: (frames, bodies, 3) m and (frames, bodies, 4) in the contract's `quat_order`, world.
        joints, bodies: their names where the source tells them; a body "" is the robot's base.
        sha256: of the file; "" for a network's.
        notes: what people should know of how it was read.
    """

    source: str
    hz: float | None = None
    joint_pos: Floats | None = None
    joint_vel: Floats | None = None
    body_pos: Floats | None = None
    body_quat: Floats | None = None
    joints: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()
    sha256: str = ""
    notes: tuple[str, ...] = field(default=())

    def fail(self, what: str, *, found: object, expected: object = "", hint: str = "") -> NoReturn:
        """Refuse it."""
        raise ContractError(f"{self.source} {what}", found=found, expected=expected, hint=hint)


def make_motion(track: Track, spec: MotionSpec, contract: Contract) -> Motion:
    """The motion of a contract out of a track.

    Raises:
        ContractError: sizes or names do not fit, a number is not finite, a quaternion is none, there are too few or
            too many frames, or the rate is unknown.
    """
    notes = list(track.notes)
    frames = _frames(track)
    hz = _rate(track, spec)
    _check_numbers(track)
    joint_pos, joint_vel = _joints(track, spec, contract, notes)
    anchor, anchor_pos, anchor_quat = _anchor(track, spec, notes)
    motion = Motion(
        hz=hz,
        frames=frames,
        joint_pos=joint_pos,
        joint_vel=joint_vel,
        anchor_pos=anchor_pos,
        anchor_quat=anchor_quat,
        anchor=anchor,
        loop=spec.loop,
        source=track.source,
        sha256=track.sha256,
    )
    said = f"{track.source}: {hz:g} Hz, {frames} frames"
    if abs(hz - contract.control_hz) > 1e-6 * contract.control_hz:
        motion = _resampled(motion, contract.control_hz, track)
        said += f", resampled to {contract.control_hz:g} Hz, {motion.frames} frames"
    if motion.joint_vel is None and motion.joint_pos is not None:
        motion = replace(motion, joint_vel=np.gradient(motion.joint_pos, 1.0 / motion.hz, axis=0))
        said += ", joint velocities from differences of its positions"
    return replace(motion, notes=(said, *notes))


def _frames(track: Track) -> int:
    """The number of frames, the same in every table."""
    tables = ("joint_pos", "joint_vel", "body_pos", "body_quat")
    counts = {name: len(getattr(track, name)) for name in tables if getattr(track, name) is not None}
    if not counts:
        track.fail("holds no motion", found="neither positions of joints nor poses of bodies")
    frames = min(counts.values())
    if max(counts.values()) != frames:
        each = ", ".join(f"{name} {count}" for name, count in counts.items())
        track.fail("has tables of different lengths", found=f"frames: {each}", expected="as many in each")
    if not 2 <= frames <= MAX_FRAMES:
        track.fail("has an impossible number of frames", found=frames, expected=f"2 to {MAX_FRAMES}")
    return frames


def _rate(track: Track, spec: MotionSpec) -> float:
    if track.hz is None:
        if spec.hz is None:
            track.fail(
                "does not say its rate", found="no fps", hint="Give its frames a second as [motion] hz in policy.toml"
            )
        return spec.hz
    if spec.hz is not None and abs(spec.hz - track.hz) > 1e-6 * track.hz:
        track.fail(
            "has another rate than the contract says",
            found=f"{track.hz:g} Hz",
            expected=f"{spec.hz:g} Hz",
            hint="Leave [motion] hz out",
        )
    return track.hz


def _check_numbers(track: Track) -> None:
    for name in ("joint_pos", "joint_vel", "body_pos", "body_quat"):
        table = getattr(track, name)
        if table is None:
            continue
        bad = ~(np.abs(table) <= MAX_MAGNITUDE)
        if bad.any():
            frame = int(np.argwhere(bad)[0][0])
            track.fail(
                f"has a number in {name} that is not finite or absurd",
                found=f"{table[bad][0]:g} in frame {frame}",
                expected=f"at most {MAX_MAGNITUDE:g} in magnitude",
            )


def _joints(
    track: Track, spec: MotionSpec, contract: Contract, notes: list[str]
) -> tuple[Floats | None, Floats | None]:
    """Joint positions and velocities in the contract's order."""
    given = track.joint_pos if track.joint_pos is not None else track.joint_vel
    if given is None:
        return None, None
    names = track.joints or spec.joints or contract.joints
    for name in ("joint_pos", "joint_vel"):
        table = getattr(track, name)
        if table is not None and table.shape[1] != len(names):
            track.fail(
                "has another number of joints than it should have",
                found=f"{table.shape[1]} columns in {name}",
                expected=f"{len(names)}: {some(names, 40)}",
                hint="Name the joints of its columns, in their order, as [motion] joints in policy.toml",
            )
    known = [name for name in contract.joints if name in names]
    if not known:
        track.fail("moves no joint of the policy", found=some(names, 40), expected=some(contract.joints, 40))
    if len(known) < len(contract.joints):
        held = [name for name in contract.joints if name not in names]
        notes.append(f"{track.source} does not move {some(held, 40)}: held at the default pose in it")
    if len(known) < len(names):
        out = [name for name in names if name not in contract.joints]
        notes.append(f"{track.source} also moves {some(out, 40)}, which the policy does not have: left out")
    columns = [contract.joints.index(name) for name in known], [names.index(name) for name in known]
    tables: list[Floats | None] = []
    for table, rest in ((track.joint_pos, contract.default_pos), (track.joint_vel, (0.0,) * len(contract.joints))):
        if table is None:
            tables.append(None)
            continue
        rows = np.tile(np.array(rest), (len(table), 1))
        rows[:, columns[0]] = table[:, columns[1]]
        tables.append(rows)
    return tables[0], tables[1]


def _anchor(track: Track, spec: MotionSpec, notes: list[str]) -> tuple[str, Floats | None, Floats | None]:
    """The body whose pose the motion keeps, and that: positions, and quaternions wxyz."""
    given = track.body_pos if track.body_pos is not None else track.body_quat
    if given is None:
        return spec.anchor, None, None
    count, names = given.shape[1], track.bodies or spec.bodies
    if track.body_pos is not None and track.body_quat is not None and track.body_quat.shape[1] != count:
        track.fail(
            "has positions and quaternions of different numbers of bodies",
            found=f"{count} and {track.body_quat.shape[1]}",
        )
    if not names and count == 1:
        names = (spec.anchor,)
    if not names:
        notes.append(
            f"{track.source} has poses of {count} bodies without names, which are left out: name them in "
            "[motion] bodies"
        )
        return spec.anchor, None, None
    if len(names) != count:
        track.fail(
            "has another number of bodies than [motion] bodies names",
            found=f"{count}",
            expected=f"{len(names)}: {some(names, 40)}",
        )
    # The pose of one other body, as of the root in a CSV, leads to the anchor's by the kinematics of the robot.
    anchor = names[0] if len(names) == 1 else spec.anchor
    if anchor not in names:
        track.fail(
            "has no pose of the policy's anchor",
            found=f"'{anchor}'" if anchor else "no [motion] anchor",
            expected="one of its bodies " + some(names, 40),
            hint="Correct [motion] anchor or bodies in policy.toml",
        )
    column = names.index(anchor)
    position = None if track.body_pos is None else track.body_pos[:, column].copy()
    return anchor, position, None if track.body_quat is None else _quaternions(track, spec, track.body_quat[:, column])


def _quaternions(track: Track, spec: MotionSpec, table: Floats) -> Floats:
    """wxyz, of unit length, and without jumps of sign."""
    norms = np.linalg.norm(table, axis=1)
    wrong = np.flatnonzero(np.abs(norms - 1.0) > UNIT_TOLERANCE)
    if len(wrong):
        track.fail(
            "has an orientation that is no unit quaternion",
            found=f"norm {norms[wrong[0]]:g} in frame {wrong[0]}",
            expected="norm 1",
            hint="Four numbers each, of a body's orientation in the world",
        )
    quat: Floats = (table if spec.quat_order == "wxyz" else table[:, [3, 0, 1, 2]]) / norms[:, None]
    turned = np.sum(quat[1:] * quat[:-1], axis=1) < 0.0  # q and -q are one orientation
    quat[1:][np.logical_xor.accumulate(turned)] *= -1.0
    return quat


def _resampled(motion: Motion, hz: float, track: Track) -> Motion:
    """The motion at another rate: linear, and along the arc for orientations."""
    frames = int(np.floor((motion.frames - 1) * hz / motion.hz * (1.0 + 1e-12) + 1e-9)) + 1
    if not 2 <= frames <= MAX_FRAMES:
        track.fail(
            "has an impossible length at the control rate", found=f"{frames} frames", expected=f"2 to {MAX_FRAMES}"
        )
    place = np.minimum(np.arange(frames) * (motion.hz / hz), motion.frames - 1.0)
    low = np.minimum(place.astype(np.int64), motion.frames - 2)
    part = (place - low)[:, None]

    def linear(table: Floats | None) -> Floats | None:
        return None if table is None else table[low] + part * (table[low + 1] - table[low])

    return replace(
        motion,
        hz=hz,
        frames=frames,
        joint_pos=linear(motion.joint_pos),
        joint_vel=linear(motion.joint_vel),
        anchor_pos=linear(motion.anchor_pos),
        anchor_quat=None if motion.anchor_quat is None else _slerp(motion.anchor_quat, low, part),
    )


def _slerp(quat: Floats, low: npt.NDArray[np.int64], part: Floats) -> Floats:
    """Orientations between neighbours, at the same rate all along; `quat` has no jumps of sign."""
    a, b = quat[low], quat[low + 1]
    angle = np.arccos(np.clip(np.sum(a * b, axis=1, keepdims=True), -1.0, 1.0))
    near = angle < 1e-6
    sine = np.where(near, 1.0, np.sin(angle))
    weights = (
        np.where(near, 1.0 - part, np.sin((1.0 - part) * angle) / sine),
        np.where(near, part, np.sin(part * angle) / sine),
    )
    between = weights[0] * a + weights[1] * b
    result: Floats = between / np.linalg.norm(between, axis=1, keepdims=True)
    return result
