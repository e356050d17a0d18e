"""The observation terms: pure functions over the Python Array API.

A term reads `TermInputs` and returns (nworld, dim) in SI units, before the contract's scale, offset and clip. The
same function serves numpy, torch and any other Array API library; the caller passes the namespace `xp`.
Plug-ins add a `Term` under the entry-point group `edgert.terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgert.contract.state import Array, RobotState
from edgert.errors import ContractError, UnsupportedError
from edgert.registry import Registry

if TYPE_CHECKING:
    from edgert.contract.spec import ActionSpec, ObservationTerm, PhaseSpec


@dataclass(slots=True, kw_only=True)
class TermInputs:
    """Everything that a term may read. Arrays are owned by the caller and may be refreshed in place."""

    state: RobotState
    command: Array  # (nworld, ncommand) m/s, m/s, rad/s for a twist; m for a position
    last_action: Array  # (nworld, nact) raw network output of the tick before, 0 after reset
    phase_rad: Array  # (nworld,) gait clock, see PhaseSpec
    gait: PhaseSpec | None
    default_pos: Array  # (njoint,) rad
    phase_offsets_rad: Array  # (nphase,) rad


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSizes:
    """What the length of a term depends on."""

    njoint: int
    nact: int
    ncommand: int
    nphase: int
    ngoal: int = 0
    """3 where the command is a position."""


TermFunction = Callable[["TermInputs", "ObservationTerm", Any], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A named term.

    Attributes:
        function: (inputs, term, xp) -> (nworld, dim).
        dim: length of the raw term, from the sizes and the names of the sensors it reads.
        needs: fields of RobotState that must not be absent.
        sensors: sensors read when the contract names none.
        sensor_dim: how many numbers each of its sensors must have; None for any.
        parameters: keys of the term's table that it understands besides scale, offset, clip and index.
        unit: for people.
    """

    function: TermFunction
    dim: Callable[[TermSizes, tuple[str, ...]], int]
    needs: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    sensor_dim: int | None = None
    parameters: tuple[str, ...] = ()
    unit: str = ""


def rotate_to_body(quat: Array, vector: Array, xp: Any) -> Array:
    """World vectors (nworld, 3) in the body frame of `quat` (nworld, 4) wxyz: R(quat) transposed times vector."""
    w, x, y, z = quat[:, 0], quat[:, 1], quat[:, 2], quat[:, 3]
    a, b, c = vector[:, 0], vector[:, 1], vector[:, 2]
    tx, ty, tz = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
    return xp.stack(
        (a - w * tx + (y * tz - z * ty), b - w * ty + (z * tx - x * tz), c - w * tz + (x * ty - y * tx)), axis=1
    )


def gravity_in_body(quat: Array, xp: Any) -> Array:
    """Unit vector of gravity (nworld, 3) in the body frame of `quat` (nworld, 4) wxyz; (0, 0, -1) when upright."""
    w, x, y, z = quat[:, 0], quat[:, 1], quat[:, 2], quat[:, 3]
    return xp.stack((2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0), axis=1)


def _base_lin_vel(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    state = inputs.state
    velocity = rotate_to_body(state.base_quat, state.base_lin_vel, xp) if term.frame == "body" else state.base_lin_vel
    if term.point == "origin":
        return velocity
    try:
        arm = state.points[term.point]
    except KeyError:
        raise ContractError(
            f"term 'base_lin_vel' refers to a point '{term.point}' that the body does not have",
            expected="one of origin" + "".join(f", {point}" for point in state.points),
        ) from None
    lever = _cross(state.base_ang_vel, arm, xp)
    return velocity + (lever if term.frame == "body" else _rotate_to_world(state.base_quat, lever, xp))


def _cross(rate: Array, arm: Array, xp: Any) -> Array:
    """Velocity (nworld, 3) of a point at `arm`, (3,) or (nworld, 3). In the standard `cross` is an extension."""
    p, q, r = rate[:, 0], rate[:, 1], rate[:, 2]
    x, y, z = arm[..., 0], arm[..., 1], arm[..., 2]
    return xp.stack((q * z - r * y, r * x - p * z, p * y - q * x), axis=1)


def _rotate_to_world(quat: Array, vector: Array, xp: Any) -> Array:
    conjugate = xp.concat((quat[:, :1], -quat[:, 1:]), axis=1)
    return rotate_to_body(conjugate, vector, xp)


def _base_ang_vel(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    state = inputs.state
    return state.base_ang_vel if term.frame == "body" else _rotate_to_world(state.base_quat, state.base_ang_vel, xp)


def _projected_gravity(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return gravity_in_body(inputs.state.base_quat, xp)


def _joint_pos(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.joint_pos - inputs.default_pos


def _joint_vel(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.joint_vel


def _joint_sin(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.sin(inputs.state.joint_pos)


def _joint_cos(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.cos(inputs.state.joint_pos)


def _last_action(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.last_action


def _command(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.command


def _angles(inputs: TermInputs, xp: Any) -> Array:
    """Every phase (nworld, nphase) in rad: clock plus offset, or held where the command is nearly zero."""
    angles = inputs.phase_rad[:, None] + inputs.phase_offsets_rad[None, :]
    gait = inputs.gait
    if gait is None or gait.still_rad is None:
        return angles
    return xp.where(is_still(inputs.command, gait, xp)[:, None], xp.full_like(angles, gait.still_rad), angles)


def _sin_phase(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.sin(_angles(inputs, xp))


def _cos_phase(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.cos(_angles(inputs, xp))


def _phase(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    angles = _angles(inputs, xp)
    return xp.concat((xp.sin(angles), xp.cos(angles)), axis=1)


def _sensor(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    parts = [inputs.state.sensors[name] for name in term.sensors]
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def _foot_contact(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    force = _sensor(inputs, term, xp)
    return xp.astype(force > term.threshold, force.dtype)


def is_still(command: Array, gait: PhaseSpec, xp: Any) -> Array:
    """Where the command is so small that the gait is held, (nworld,) bool."""
    return xp.sqrt(xp.sum(command * command, axis=1)) < gait.still_below


def advance_phase(phase: Array, command: Array, gait: PhaseSpec, dt_s: float, xp: Any) -> Array:
    """The gait clock one control tick later, (nworld,) rad in [0, 2 pi).

    Where the gait is held the clock stays at 0, so that motion always begins from the offsets.
    """
    turn = 2.0 * xp.pi
    moved = xp.remainder(phase + turn * gait.hz * dt_s, turn)
    if gait.still_rad is None:
        return moved
    return xp.where(is_still(command, gait, xp), xp.zeros_like(moved), moved)


def raw_action_target(raw: Array, spec: ActionSpec, scale: Array, offset: Array, xp: Any) -> Array:
    """Joint targets (nworld, nact) in rad from the raw network output: offset + scale * clip(raw).

    For "relative_position" the caller adds the measured joint positions to the offset.
    """
    clipped = raw if spec.clip is None else xp.clip(raw, spec.clip[0], spec.clip[1])
    return offset + scale * clipped


def _joints(sizes: TermSizes, sensors: tuple[str, ...]) -> int:
    return sizes.njoint


def _handed_on(sensor: str, sensor_dim: int, unit: str) -> Term:
    """A term that hands on the numbers of sensors, by default of the one of its own name."""
    return Term(
        function=_sensor,
        dim=lambda sizes, sensors: sensor_dim * len(sensors),
        sensors=(sensor,),
        sensor_dim=sensor_dim,
        parameters=("sensors",),
        unit=unit,
    )


BASE_LIN_VEL = Term(
    function=_base_lin_vel,
    dim=lambda sizes, sensors: 3,
    needs=("base_lin_vel", "base_ang_vel", "base_quat"),
    parameters=("frame", "point"),
    unit="m/s",
)
BASE_ANG_VEL = Term(
    function=_base_ang_vel,
    dim=lambda sizes, sensors: 3,
    needs=("base_ang_vel", "base_quat"),
    parameters=("frame",),
    unit="rad/s",
)
PROJECTED_GRAVITY = Term(function=_projected_gravity, dim=lambda sizes, sensors: 3, needs=("base_quat",), unit="1")
JOINT_POS = Term(function=_joint_pos, dim=_joints, needs=("joint_pos",), unit="rad from the default pose")
JOINT_VEL = Term(function=_joint_vel, dim=_joints, needs=("joint_vel",), unit="rad/s")
JOINT_SIN = Term(function=_joint_sin, dim=_joints, needs=("joint_pos",), unit="1")
JOINT_COS = Term(function=_joint_cos, dim=_joints, needs=("joint_pos",), unit="1")
LAST_ACTION = Term(function=_last_action, dim=lambda sizes, sensors: sizes.nact, unit="raw network output")
COMMAND = Term(function=_command, dim=lambda sizes, sensors: sizes.ncommand, unit="m/s, m/s, rad/s, or m")
GOAL_POS = Term(function=_command, dim=lambda sizes, sensors: sizes.ngoal, unit="m")
SIN_PHASE = Term(function=_sin_phase, dim=lambda sizes, sensors: sizes.nphase, unit="1")
COS_PHASE = Term(function=_cos_phase, dim=lambda sizes, sensors: sizes.nphase, unit="1")
PHASE = Term(function=_phase, dim=lambda sizes, sensors: 2 * sizes.nphase, unit="sin then cos")
IMU_ANG_VEL = _handed_on("imu_ang_vel", 3, "rad/s")
IMU_LIN_ACC = _handed_on("imu_lin_acc", 3, "m/s²")
IMU_QUAT = _handed_on("imu_quat", 4, "wxyz")
EE_POS = _handed_on("ee_pos", 3, "m")
FOOT_CONTACT = Term(
    function=_foot_contact,
    dim=lambda sizes, sensors: len(sensors),
    sensor_dim=1,
    parameters=("sensors", "threshold"),
    unit="1 where the force is above the threshold in N",
)

_NAMES = (
    "base_lin_vel",
    "base_ang_vel",
    "projected_gravity",
    "joint_pos",
    "joint_vel",
    "joint_sin",
    "joint_cos",
    "last_action",
    "command",
    "goal_pos",
    "ee_pos",
    "sin_phase",
    "cos_phase",
    "phase",
    "imu_ang_vel",
    "imu_lin_acc",
    "imu_quat",
    "foot_contact",
)
TERMS = Registry("edgert.terms", "observation term", {name: f"edgert.contract.terms:{name.upper()}" for name in _NAMES})


def load_term(name: str) -> Term:
    """The term of that name.

    Raises:
        UnknownNameError: there is none; the error lists those that exist.
        UnsupportedError: the plug-in that offers it cannot be loaded, or offers something else.
    """
    term = TERMS.load(name)
    if not isinstance(term, Term):
        raise UnsupportedError(
            f"the plug-in for observation term '{name}' is no term",
            found=type(term).__name__,
            expected="an edgert.contract.terms.Term",
        )
    return term
