"""The observation terms: pure functions over the Python Array API.

A term reads `TermInputs` and returns (nworld, dim) in SI units, before the contract's scale, offset and clip. The
same function serves numpy, torch and any other Array API library; the caller passes the namespace `xp`.
Plug-ins add a `Term` under the entry-point group `edgert.terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgert.contract.action import ActionMap
from edgert.contract.state import Array, RobotState
from edgert.errors import ContractError, UnsupportedError
from edgert.registry import Registry
from edgert.tables import Table

if TYPE_CHECKING:
    from edgert.contract.motion import MotionState
    from edgert.contract.senses import Sense
    from edgert.contract.spec import ObservationTerm, PhaseSpec


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
    action: ActionMap
    step: Array  # (nworld,) control ticks since the episode began
    motion: MotionState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSizes:
    """What the length of a term depends on."""

    njoint: int
    nact: int
    ncommand: int
    nphase: int
    ngoal: int = 0
    """3 where the command is a position."""
    nmotion: int = 0
    """1 where there is a reference motion."""


TermFunction = Callable[["TermInputs", "ObservationTerm", Any], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A named term.

    Attributes:
        function: (inputs, term, xp) -> (nworld, dim).
        dim: length of the raw term, from the sizes and the names of the sensors it reads; None: its table says.
        needs: fields of RobotState that must not be absent.
        sensors: sensors read when the contract names none.
        sensor_dim: how many numbers each of its sensors must have; None for any.
        parameters: keys of the term's table that it understands besides scale, offset, clip and index.
        per_joint: its numbers are those of the contract's joints, which can be picked by name.
        integer: its numbers are whole, so that an input of integers can take them.
        sense: reads the view of the surroundings that it hands on, and which sets its length, from its table.
        lacks: the table of the contract that gives its numbers, where there may be none.
        unit: for people.
    """

    function: TermFunction
    dim: Callable[[TermSizes, tuple[str, ...]], int] | None
    needs: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    sensor_dim: int | None = None
    parameters: tuple[str, ...] = ()
    per_joint: bool = False
    integer: bool = False
    sense: Callable[[Table], Sense] | None = None
    lacks: str = ""
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


def _joint_angle(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.joint_pos


def _joint_torque(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.joint_torque


def _base_pos(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.base_pos


def _base_height(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return inputs.state.base_pos[:, 2:3]  # type: ignore[index]


def ordered(quat: Array, term: ObservationTerm, xp: Any) -> Array:
    """A quaternion wxyz (nworld, 4) in the order that the term wants."""
    return quat if term.order == "wxyz" else xp.concat((quat[:, 1:], quat[:, :1]), axis=1)


def _base_quat(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return ordered(inputs.state.base_quat, term, xp)


def _base_euler(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    quat: Array = inputs.state.base_quat
    w, x, y, z = quat[:, 0], quat[:, 1], quat[:, 2], quat[:, 3]
    roll = xp.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = xp.asin(xp.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = xp.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return xp.stack((roll, pitch, yaw), axis=1)


def _last_action(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    if term.stage == "raw":
        return inputs.last_action
    if term.stage == "clipped":
        return inputs.action.clipped(inputs.last_action, xp)
    return inputs.action.target(inputs.last_action, xp)


def _constant(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    last = inputs.last_action
    value = xp.asarray(term.value, dtype=last.dtype, device=last.device)
    return xp.zeros((last.shape[0], 1), dtype=last.dtype, device=last.device) + value[None, :]


def _network_output(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    """Room for what the policy puts there when it acts."""
    last = inputs.last_action
    return xp.zeros((last.shape[0], term.dim), dtype=last.dtype, device=last.device)


def _step_count(inputs: TermInputs, term: ObservationTerm, xp: Any) -> Array:
    return xp.astype(inputs.step[:, None], inputs.last_action.dtype)


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


def _joints(sizes: TermSizes, sensors: tuple[str, ...]) -> int:
    return sizes.njoint


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


def _per_joint(function: TermFunction, needs: str, unit: str) -> Term:
    return Term(function=function, dim=_joints, needs=(needs,), per_joint=True, unit=unit)


JOINT_POS = _per_joint(_joint_pos, "joint_pos", "rad from the default pose")
JOINT_ANGLE = _per_joint(_joint_angle, "joint_pos", "rad")
JOINT_VEL = _per_joint(_joint_vel, "joint_vel", "rad/s")
JOINT_TORQUE = _per_joint(_joint_torque, "joint_torque", "N·m")
JOINT_SIN = _per_joint(_joint_sin, "joint_pos", "1")
JOINT_COS = _per_joint(_joint_cos, "joint_pos", "1")
BASE_POS = Term(function=_base_pos, dim=lambda sizes, sensors: 3, needs=("base_pos",), unit="m, world")
BASE_HEIGHT = Term(function=_base_height, dim=lambda sizes, sensors: 1, needs=("base_pos",), unit="m, world")
BASE_QUAT = Term(
    function=_base_quat,
    dim=lambda sizes, sensors: 4,
    needs=("base_quat",),
    parameters=("order",),
    unit="body to world",
)
BASE_EULER = Term(
    function=_base_euler, dim=lambda sizes, sensors: 3, needs=("base_quat",), unit="roll, pitch, yaw in rad"
)
LAST_ACTION = Term(
    function=_last_action, dim=lambda sizes, sensors: sizes.nact, parameters=("stage",), unit="of the tick before"
)
COMMAND = Term(
    function=_command, dim=lambda sizes, sensors: sizes.ncommand, lacks="command", unit="m/s, m/s, rad/s, or m"
)
GOAL_POS = Term(function=_command, dim=lambda sizes, sensors: sizes.ngoal, lacks="command", unit="m")
SIN_PHASE = Term(function=_sin_phase, dim=lambda sizes, sensors: sizes.nphase, lacks="phase", unit="1")
COS_PHASE = Term(function=_cos_phase, dim=lambda sizes, sensors: sizes.nphase, lacks="phase", unit="1")
PHASE = Term(function=_phase, dim=lambda sizes, sensors: 2 * sizes.nphase, lacks="phase", unit="sin then cos")
CONSTANT = Term(function=_constant, dim=None, parameters=("value",))
NETWORK_OUTPUT = Term(function=_network_output, dim=None, parameters=("of", "previous"), unit="of a network")
STEP_COUNT = Term(function=_step_count, dim=lambda sizes, sensors: 1, integer=True, unit="control ticks")
_NAMES = (
    "base_lin_vel",
    "base_ang_vel",
    "projected_gravity",
    "base_pos",
    "base_height",
    "base_quat",
    "base_euler",
    "joint_pos",
    "joint_angle",
    "joint_vel",
    "joint_torque",
    "joint_sin",
    "joint_cos",
    "last_action",
    "command",
    "goal_pos",
    "sin_phase",
    "cos_phase",
    "phase",
    "constant",
    "network_output",
    "step_count",
)
_MOTION_NAMES = (
    "time_step",
    "motion_phase",
    "motion_joint_pos",
    "motion_joint_vel",
    "motion_command",
    "motion_anchor_pos_b",
    "motion_anchor_ori_b",
)
_SENSOR_NAMES = ("ee_pos", "imu_ang_vel", "imu_lin_acc", "imu_quat", "foot_contact")
TERMS = Registry(
    "edgert.terms",
    "observation term",
    {name: f"edgert.contract.terms:{name.upper()}" for name in _NAMES}
    | {name: f"edgert.contract.sensor_terms:{name.upper()}" for name in _SENSOR_NAMES}
    | {name: f"edgert.contract.motion_terms:{name.upper()}" for name in _MOTION_NAMES}
    | {name: f"edgert.contract.sense_terms:{name.upper()}" for name in ("height_scan", "camera")},
)


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
