"""Reward and termination terms: pure functions over the Python Array API, one value a world.

A reward term returns (nworld,) in its own unit; the task multiplies it by a weight and by the control period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import cos
from typing import Any

from edgert.contract.state import Array, RobotState
from edgert.tables import Table


@dataclass(slots=True, kw_only=True)
class RewardInputs:
    """What reward and termination terms may read, after a control step and before the command changes."""

    state: RobotState
    command: Array  # (nworld, 3)
    velocity: Array  # (nworld, 3) base linear velocity at the origin, base frame, m/s
    gravity: Array  # (nworld, 3) unit vector, base frame
    action: Array  # (nworld, nact) raw network output of this step
    last_action: Array  # (nworld, nact) of the step before
    joint_error: Array  # (nworld, njoint) rad from the default pose; joints in the order of the contract
    phase_rad: Array  # (nworld,) gait clock of the observation that led to this step


Parameters = Mapping[str, Any]
RewardFunction = Callable[[RewardInputs, Parameters, Any], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardKind:
    """A reward function and how its parameters are read from its table in `task.toml`."""

    function: RewardFunction
    read: Callable[[Table, tuple[str, ...]], Parameters] = lambda table, joints: {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTerm:
    """One term of a task: weight per second times the function's value."""

    name: str
    weight: float
    function: RewardFunction
    parameters: Parameters


def is_still(command: Array, xp: Any) -> Array:
    """Where the operator asks for nothing, (nworld,) bool."""
    return xp.sum(command * command, axis=1) < 1e-4


def _track_lin_vel(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    error = inputs.command[:, :2] - inputs.velocity[:, :2]
    return xp.exp(-xp.sum(error * error, axis=1) / parameters["std"] ** 2)


def _track_ang_vel(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    error = inputs.command[:, 2] - inputs.state.base_ang_vel[:, 2]  # type: ignore[index]
    return xp.exp(-(error * error) / parameters["std"] ** 2)


def _lin_vel_z(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    return inputs.velocity[:, 2] ** 2


def _ang_vel_xy(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    rate = inputs.state.base_ang_vel[:, :2]  # type: ignore[index]
    return xp.sum(rate * rate, axis=1)


def _tilt(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    lean = inputs.gravity[:, :2]
    return xp.sum(lean * lean, axis=1)


def _torque(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    torque = inputs.state.joint_torque
    return xp.sum(torque * torque, axis=1)  # type: ignore[operator]


def _action_rate(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    change = inputs.action - inputs.last_action
    return xp.sum(change * change, axis=1)


def _pose(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    error = _picked(inputs.joint_error, parameters, xp)
    return xp.sum(error * error, axis=1)


def _still_pose(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    error = xp.sum(xp.abs(inputs.joint_error), axis=1)
    return xp.where(is_still(inputs.command, xp), error, xp.zeros_like(error))


def _base_height(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    return (inputs.state.base_pos[:, 2] - parameters["height_m"]) ** 2  # type: ignore[index]


def _foot_clock(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    phase = inputs.phase_rad
    angles = phase[:, None] + xp.asarray(parameters["offsets_rad"], dtype=phase.dtype, device=phase.device)[None, :]
    wanted = parameters["ground_m"] + parameters["height_m"] * xp.clip(xp.sin(angles), 0.0, None)
    still = is_still(inputs.command, xp)[:, None]
    wanted = xp.where(still, xp.full_like(wanted, parameters["ground_m"]), wanted)
    heights = xp.stack([inputs.state.sensors[name][:, 2] for name in parameters["sensors"]], axis=1)
    return xp.mean(1.0 - xp.abs(heights - wanted) / parameters["height_m"], axis=1)


def _joint_cos(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    return xp.sum(xp.cos(_picked(inputs.state.joint_pos, parameters, xp)), axis=1)


def _joint_vel(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    rate = _picked(inputs.state.joint_vel, parameters, xp)
    return xp.sum(rate * rate, axis=1)


def goal_distance(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    """Distance of the end effector from the commanded position, (nworld,) m."""
    (sensor,) = parameters["sensors"]
    error = inputs.state.sensors[sensor] - inputs.command
    return xp.sqrt(xp.sum(error * error, axis=1))


def _near_goal(inputs: RewardInputs, parameters: Parameters, xp: Any) -> Array:
    distance = goal_distance(inputs, parameters, xp)
    return xp.exp(-(distance * distance) / parameters["std"] ** 2)


def _picked(values: Array, parameters: Parameters, xp: Any) -> Array:
    return xp.take(values, xp.asarray(parameters["joints"], device=values.device), axis=1)


def _read_std(table: Table, joints: tuple[str, ...]) -> Parameters:
    return {"std": table.number("std", above=0.0)}


def _read_joints(table: Table, joints: tuple[str, ...]) -> Parameters:
    import numpy as np

    names = table.names("joints", joints)
    unknown = [name for name in names if name not in joints]
    if unknown:
        table.fail("joints", found=", ".join(unknown), expected="joints of the contract: " + ", ".join(joints))
    return {"joints": np.array([joints.index(name) for name in names])}


def read_end_effector(table: Table, joints: tuple[str, ...]) -> Parameters:
    """The sensor that measures the position of the end effector."""
    return {"sensors": (table.text("sensor", "ee_pos"),)}


def _read_height(table: Table, joints: tuple[str, ...]) -> Parameters:
    return {"height_m": table.number("height_m", above=0.0)}


def _read_foot_clock(table: Table, joints: tuple[str, ...]) -> Parameters:
    import numpy as np

    sensors = table.names("sensors")
    return {
        "height_m": table.number("height_m", lo=1e-6),
        "ground_m": table.number("ground_m", 0.0),
        "sensors": sensors,
        "offsets_rad": np.array(table.numbers("offsets_rad", length=len(sensors))),
    }


REWARDS: dict[str, RewardKind] = {
    "track_lin_vel": RewardKind(function=_track_lin_vel, read=_read_std),
    "track_ang_vel": RewardKind(function=_track_ang_vel, read=_read_std),
    "lin_vel_z": RewardKind(function=_lin_vel_z),
    "ang_vel_xy": RewardKind(function=_ang_vel_xy),
    "tilt": RewardKind(function=_tilt),
    "torque": RewardKind(function=_torque),
    "action_rate": RewardKind(function=_action_rate),
    "pose": RewardKind(function=_pose, read=_read_joints),
    "still_pose": RewardKind(function=_still_pose),
    "base_height": RewardKind(function=_base_height, read=_read_height),
    "foot_clock": RewardKind(function=_foot_clock, read=_read_foot_clock),
    "joint_cos": RewardKind(function=_joint_cos, read=_read_joints),
    "joint_vel": RewardKind(function=_joint_vel, read=_read_joints),
    "goal_distance": RewardKind(function=goal_distance, read=read_end_effector),
    "near_goal": RewardKind(
        function=_near_goal, read=lambda table, joints: {**read_end_effector(table, joints), **_read_std(table, joints)}
    ),
}


def fallen(gravity: Array, height_m: Array, tilt_rad: float, floor_m: float, xp: Any) -> Array:
    """Where the base leans more than `tilt_rad` or is lower than `floor_m`; NaN counts as fallen. (nworld,) bool."""
    upright = (-gravity[:, 2] >= cos(tilt_rad)) & (height_m >= floor_m)
    return ~upright
