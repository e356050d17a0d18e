"""Actuators: making those that a policy needs of whatever a scene has on a joint, and judging those it brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from edgert.errors import RobotError, some

Actuators = Literal["contract", "scene"]
Drive = Literal["position", "velocity", "torque", "sum"]
"""What the control of a joint's actuator is: a position q, a velocity qd, a torque tau, or kp q + kd qd + tau.

The force is kp (q - pos) + kd (qd - vel) + tau, where what a joint is not given is 0.
"""
POSITIONS: Final[Mapping[str, Drive]] = MappingProxyType({})
"""Every joint takes positions."""
_OWN: Final[Mapping[Drive, tuple[str, str, str]]] = {
    "position": ("a position actuator", "positions", "rad"),
    "velocity": ("a velocity actuator", "velocities", "rad/s"),
    "torque": ("a motor", "torques", "N·m"),
}
"""The actuator of a scene that serves a drive, and what it takes."""
_ON_JOINT = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)  # the same for hinges and slides


def supply(
    spec: mujoco.MjSpec,
    joints: Sequence[str],
    driven: Sequence[str],
    *,
    kp: Sequence[float],
    kd: Sequence[float],
    delay_samples: int,
    drives: Mapping[str, Drive] = POSITIONS,
) -> None:
    """Turn the actuator of each driven joint into one of its drive, or add one; surplus ones go."""
    before = list(spec.actuators)
    own: dict[str, list[int]] = {name: [] for name in driven}
    for position, actuator in enumerate(before):
        if int(actuator.trntype) in _ON_JOINT and actuator.target in own:
            own[actuator.target].append(position)
    replaced = [position for positions in own.values() for position in positions]
    surplus = [position for positions in own.values() for position in positions[1:]]
    _keep_keyframes(spec, before, replaced, surplus)
    for name in driven:
        first, *others = [before[position] for position in own[name]] or [spec.add_actuator()]
        if not first.name:
            first.name = _free_name(spec, name)
        _redirect_sensors(spec, [other.name for other in others if other.name], first.name)
        gains = joints.index(name)
        _make(first, name, drives.get(name, "position"), kp[gains], kd[gains], autolimits=spec.compiler.autolimits)
        first.nsample = delay_samples
    for position in surplus:
        spec.delete(before[position])


def _make(actuator: Any, joint: str, drive: Drive, kp: float, kd: float, *, autolimits: bool) -> None:
    """Make an actuator of gear 1 of that drive of any other; its torque limit at the joint stays."""
    limit = _force_limit(actuator, autolimits)
    actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
    actuator.target = joint
    actuator.set_to_position(kp=kp, kv=kd)
    if drive != "position":
        actuator.gainprm[0] = kd if drive == "velocity" else 1.0
    actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE if limit is None else mujoco.mjtLimited.mjLIMITED_TRUE
    actuator.forcerange = limit or (0.0, 0.0)
    actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.actlimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.inheritrange = 0.0
    actuator.group = 0
    actuator.delay = 0.0
    actuator.interp = 0


def _force_limit(actuator: Any, autolimits: bool) -> tuple[float, float] | None:
    """Bounds of an actuator's force at its joint, N·m: its force range, and for a motor what its control may ask."""
    bounds: list[tuple[float, float]] = []
    gear = float(actuator.gear[0])
    if is_limited(actuator.forcelimited, actuator.forcerange, autolimits):
        bounds.append(_scaled(actuator.forcerange, gear))
    motor = (
        actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        and actuator.biastype == mujoco.mjtBias.mjBIAS_NONE
        and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE
    )
    if motor and is_limited(actuator.ctrllimited, actuator.ctrlrange, autolimits):
        bounds.append(_scaled(actuator.ctrlrange, gear * float(actuator.gainprm[0])))
    if not bounds:
        return None
    return max(low for low, _ in bounds), min(high for _, high in bounds)


def is_limited(flag: int, bounds: Sequence[float], autolimits: bool) -> bool:
    """Whether a limit of a scene counts: where it does not say, if it has a range and the scene takes that as yes."""
    if flag == mujoco.mjtLimited.mjLIMITED_AUTO:
        return autolimits and bounds[0] < bounds[1]
    return bool(flag == mujoco.mjtLimited.mjLIMITED_TRUE)


def _scaled(bounds: Sequence[float], factor: float) -> tuple[float, float]:
    low, high = factor * float(bounds[0]), factor * float(bounds[1])
    return (low, high) if factor >= 0.0 else (high, low)


def _keep_keyframes(
    spec: mujoco.MjSpec, before: Sequence[Any], replaced: Sequence[int], surplus: Sequence[int]
) -> None:
    """Fit the keyframes' controls to the new actuators: 0 for those replaced, the others keep theirs."""
    stateless = all(before[position].dyntype == mujoco.mjtDyn.mjDYN_NONE for position in replaced)
    for key in spec.keys:
        ctrl = list(key.ctrl)
        fits = 0 < len(ctrl) <= len(before)  # MuJoCo fills shorter ones up
        kept = [0.0 if i in replaced else value for i, value in enumerate(ctrl) if i not in surplus]
        key.ctrl = kept if fits else []
        if not stateless:
            key.act = []


def _redirect_sensors(spec: mujoco.MjSpec, gone: Sequence[str], successor: str) -> None:
    """Point sensors of actuators that will go to the one that stays on the same joint."""
    for sensor in spec.sensors:
        if sensor.objtype == mujoco.mjtObj.mjOBJ_ACTUATOR and sensor.objname in gone:
            sensor.objname = successor


def _free_name(spec: mujoco.MjSpec, name: str) -> str:
    taken = {actuator.name for actuator in spec.actuators}
    while name in taken:
        name += "_position"
    return name


def actuators_on(model: mujoco.MjModel, joint_ids: Sequence[int]) -> list[list[int]]:
    """The actuators that act on each of the joints directly."""
    found: dict[int, list[int]] = {joint: [] for joint in joint_ids}
    for actuator in range(model.nactuator):
        joint = int(model.actuator_trnid[actuator, 0])
        if int(model.actuator_trntype[actuator]) in _ON_JOINT and joint in found:
            found[joint].append(actuator)
    return [found[joint] for joint in joint_ids]


def check_own(
    model: mujoco.MjModel, path: Path, driven: dict[str, list[int]], drives: Mapping[str, Drive] = POSITIONS
) -> None:
    """Refuse a scene whose own actuators are not one of gear 1 and of its drive on each driven joint."""
    hint = "Use --actuators contract to drive the joints with the contract's gains"
    for name, ids in driven.items():
        drive = drives.get(name, "position")
        if drive == "sum":
            raise RobotError(
                f"the policy gives joint '{name}' several targets, and an actuator of scene {path} takes one", hint=hint
            )
        kind, what, unit = _OWN[drive]
        if not ids:
            raise RobotError(f"scene {path} has no actuator on joint '{name}'", hint=hint)
        if len(ids) > 1:
            raise RobotError(
                f"scene {path} has several actuators on joint '{name}'",
                found=some([model.actuator(i).name or f"actuator {i}" for i in ids]),
                expected=f"one, {kind}",
                hint=hint,
            )
        actuator = ids[0]
        if not _takes(model.actuator(actuator), drive):
            raise RobotError(
                f"actuator '{model.actuator(actuator).name}' of scene {path} does not take joint {what}",
                expected=f"{kind}, as the policy commands {what}",
                hint=hint,
            )
        gear = float(model.actuator_gear[actuator, 0])
        if gear != 1.0:
            raise RobotError(
                f"actuator '{model.actuator(actuator).name}' of scene {path} does not take joint {what} in {unit}",
                found=f"gear {gear:g}",
                expected="gear 1",
                hint=hint,
            )


def takes_positions(actuator: Any) -> bool:
    """Whether an actuator of a spec or of a model follows positions, times its gear, without a state of its own."""
    return _takes(actuator, "position")


def _takes(actuator: Any, drive: Drive) -> bool:
    gain, bias = float(actuator.gainprm[0]), actuator.biasprm
    plain = (
        any(actuator.trntype == kind for kind in _ON_JOINT)
        and actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE
    )
    if drive == "torque":
        return bool(plain and gain == 1.0 and actuator.biastype == mujoco.mjtBias.mjBIAS_NONE)
    follows = bias[1] == -gain if drive == "position" else bias[1] == 0.0 and bias[2] == -gain
    return bool(plain and gain > 0.0 and actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE and follows)


def check_enabled(model: mujoco.MjModel, path: Path, used: Sequence[int]) -> None:
    """Refuse a scene whose options switch actuation off, in all or for the group of an actuator that is used."""
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION:
        raise RobotError(f"scene {path} switches actuation off", hint='Remove <flag actuation="disable"/>')
    for actuator in used:
        group = int(model.actuator_group[actuator])
        if 0 <= group < 31 and model.opt.disableactuator & (1 << group):
            raise RobotError(
                f"scene {path} switches actuator '{model.actuator(actuator).name}' off",
                found=f"actuatorgroupdisable contains group {group}",
                hint="Remove the group from <option actuatorgroupdisable>",
            )


def torque_limit(model: mujoco.MjModel, joint: int, actuator: int) -> float:
    """The largest torque at a joint, N·m, by the limits of the joint and of its actuator; inf without any."""
    limits = []
    if model.jnt_actfrclimited[joint]:
        limits.append(float(np.abs(model.jnt_actfrcrange[joint]).min()))
    if actuator >= 0 and model.actuator_forcelimited[actuator]:
        limits.append(float(np.abs(model.actuator_forcerange[actuator]).min()))
    return min(limits, default=float("inf"))


def span(values: Sequence[float] | npt.NDArray[Any], unit: str, digits: int = 6) -> str:
    """From the least to the largest with their unit, for a message; of limits an infinite one is none."""
    low, high = float(np.min(values)), float(np.max(values))
    if not np.isfinite(low):
        return "none"
    if low == high:
        return f"{low:.{digits}g} {unit}"
    upper = f"…{high:.{digits}g} {unit}" if np.isfinite(high) else f" {unit} … none"
    return f"{low:.{digits}g}{upper}"
