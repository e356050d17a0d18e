"""The observation terms of tracking policies: what the reference motion asks at this tick.

As in `terms`: pure functions over the Python Array API, (nworld, dim) in SI units, before scale, offset and clip. The
anchor terms compare the reference with the robot's own anchor body, in the frame of the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgert.contract.motion import MotionState
from edgert.contract.state import Array
from edgert.contract.terms import Term, TermFunction, TermInputs, rotate_to_body
from edgert.errors import ContractError

if TYPE_CHECKING:
    from edgert.contract.spec import ObservationTerm


def motion_of(inputs: TermInputs, term: ObservationTerm) -> MotionState:
    """The reference motion that a term reads."""
    if inputs.motion is None:
        raise ContractError(f"term '{term.name}' needs a reference motion", found="none")
    return inputs.motion


def _joint_pos(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return motion_of(inputs, term).joint_pos


def _joint_vel(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return motion_of(inputs, term).joint_vel


def _command(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    motion = motion_of(inputs, term)
    return xp.concat((motion.joint_pos, motion.joint_vel), axis=1)


def _anchor_pos_b(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    motion, state = motion_of(inputs, term), inputs.state
    apart = motion.anchor_pos - state.body_pos[motion.anchor]
    return rotate_to_body(state.body_quat[motion.anchor], apart, xp)


def _anchor_ori_b(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    motion = motion_of(inputs, term)
    return two_columns(inputs.state.body_quat[motion.anchor], motion.anchor_quat, xp)


def relative_columns(robot: Sequence[Any], reference: Sequence[Any]) -> tuple[Any, ...]:
    """m00 m01 m10 m11 m20 m21 of the rotation matrix of conj(robot) * reference, each wxyz, of numbers or of arrays."""
    (a, b, c, d), (e, f, g, h) = robot, reference
    w, x = a * e + b * f + c * g + d * h, a * f - b * e - c * h + d * g
    y, z = a * g + b * h - c * e - d * f, a * h - b * g + c * f - d * e
    return (
        1.0 - 2.0 * (y * y + z * z),
        2.0 * (x * y - w * z),
        2.0 * (x * y + w * z),
        1.0 - 2.0 * (x * x + z * z),
        2.0 * (x * z - w * y),
        2.0 * (y * z + w * x),
    )


def two_columns(robot: Array, reference: Array, xp: Any) -> Array:
    """`relative_columns` (nworld, 6) of quaternions (nworld, 4)."""
    return xp.stack(
        relative_columns([robot[:, i] for i in range(4)], [reference[:, i] for i in range(4)]),
        axis=1,
    )


def _time_step(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.astype(motion_of(inputs, term).frame, inputs.last_action.dtype)[:, None]


def _phase(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return _time_step(inputs, term, xp) / (motion_of(inputs, term).frames - 1)


def _term(function: TermFunction, dim: int, unit: str, *, integer: bool = False) -> Term:
    return Term(
        function=function,
        dim=lambda sizes, sensors: dim * sizes.nmotion,
        integer=integer,
        lacks="motion",
        unit=unit,
    )


def _per_joint(function: TermFunction, times: int, unit: str) -> Term:
    return Term(
        function=function,
        dim=lambda sizes, sensors: times * sizes.njoint * sizes.nmotion,
        per_joint=True,
        lacks="motion",
        unit=unit,
    )


MOTION_JOINT_POS = _per_joint(_joint_pos, 1, "rad")
MOTION_JOINT_VEL = _per_joint(_joint_vel, 1, "rad/s")
MOTION_COMMAND = _per_joint(_command, 2, "rad, then rad/s")
MOTION_ANCHOR_POS_B = _term(_anchor_pos_b, 3, "m, frame of the robot's anchor")
MOTION_ANCHOR_ORI_B = _term(_anchor_ori_b, 6, "two columns of a matrix")
TIME_STEP = _term(_time_step, 1, "frame", integer=True)
MOTION_PHASE = _term(_phase, 1, "1, from 0 to 1")
