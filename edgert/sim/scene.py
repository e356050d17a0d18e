"""Scenes: loading an MJCF file, finding its base and joints by name, and giving its joints PD actuators.

Policies command joints by name and carry their own gains. `build` therefore replaces or supplies the scene's
actuators with position actuators of the contract's gains, and tells what else shapes the drive: armature, damping,
friction and torque limits stay those of the scene, the limits of a replaced motor's control among them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np

from edgert.errors import IntegrityError, RobotError
from edgert.sim.protocol import Floats

Actuators = Literal["contract", "scene"]
_SCALAR_JOINTS = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_ON_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))  # the same for hinges and slides
MAX_SCENE_BYTES = 16 << 20
"""Largest scene file that is read; meshes are files of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A compiled model with the indices that a body of `joints` needs.

    `actuator_ids[i]`, `qpos_adr[i]` and `dof_adr[i]` belong to `joints[i]`; an actuator id of -1 means that nothing
    drives that joint. `base` is the body that carries the free joint, or None for a fixed base.
    """

    model: mujoco.MjModel
    path: Path
    joints: tuple[str, ...]
    actuator_ids: tuple[int, ...]
    qpos_adr: tuple[int, ...]
    dof_adr: tuple[int, ...]
    base: str | None
    base_qpos_adr: int
    base_dof_adr: int
    keyframe: int
    """The keyframe "home", else the first, else -1."""
    torque_limit: tuple[float, ...]
    """N·m per joint, inf where the scene sets none."""


def load_spec(path: Path) -> mujoco.MjSpec:
    """Parse an MJCF file.

    Raises:
        IntegrityError: missing, unreadable, too large, or not a scene that MuJoCo accepts.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise IntegrityError(f"scene {path} is not a file", expected="an MJCF file (.xml)")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise IntegrityError(
            f"cannot read scene {path}",
            found=getattr(error, "strerror", None) or error,
            hint="Check the path and its permissions",
        ) from error
    if size > MAX_SCENE_BYTES:
        raise IntegrityError(f"scene {path} is too large", found=f"{size} bytes", expected=f"at most {MAX_SCENE_BYTES}")
    try:
        spec = mujoco.MjSpec.from_file(os.fspath(path))
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise IntegrityError(f"scene {path} is not a valid MJCF model", found=error) from error
    timestep_s = float(spec.option.timestep)
    if not 0.0 < timestep_s < math.inf:  # MuJoCo compiles any number
        raise IntegrityError(
            f"scene {path} has an impossible timestep",
            found=f"{timestep_s:g} s",
            expected="a positive number of seconds",
        )
    return spec


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile a scene; a missing mesh or an inconsistent model is an `IntegrityError`."""
    try:
        return spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise IntegrityError(f"scene {path} cannot be compiled", found=error) from error


def build(
    path: Path,
    joints: Sequence[str],
    driven: Sequence[str],
    *,
    actuators: Actuators = "contract",
    kp: Sequence[float],
    kd: Sequence[float],
    base: str = "",
    max_delay_s: float = 0.0,
) -> Scene:
    """Load a scene for a body of `joints` of which `driven` get position actuators.

    Args:
        path: the MJCF file.
        joints: joint names in the policy's order.
        driven: the joints that the policy commands, a subset of `joints`.
        actuators: "contract" replaces or supplies the actuators of driven joints; "scene" keeps the scene's own,
            which must be one position actuator of gear 1 for each driven joint.
        kp: position gains in the order of `joints`, N·m/rad.
        kd: velocity gains in the order of `joints`, N·m·s/rad.
        base: name of the base body; "": the body of the free joint above the joints.
        max_delay_s: the longest actuator delay that worlds will be given; the model itself has none.

    Raises:
        IntegrityError: the file is no valid scene.
        RobotError: a joint is missing, not a hinge or slide, or not on the base; or the scene's actuators do not serve.
    """
    spec = load_spec(path)
    by_name = {joint.name: joint for joint in spec.joints}
    missing = [name for name in joints if name not in by_name]
    if missing:
        scalar = [joint.name for joint in spec.joints if joint.type in _SCALAR_JOINTS]
        raise RobotError(
            f"scene {path} lacks joints of the policy",
            found=f"no {_some(missing)}",
            expected="joints named as in the contract; the scene has " + (_some(scalar, 40) or "none"),
            hint="Name the scene's joints in [joints] names of policy.toml, or use the policy's own robot",
        )
    for name in joints:
        if by_name[name].type not in _SCALAR_JOINTS:
            raise RobotError(f"joint '{name}' of scene {path} cannot be driven", expected="a hinge or slide joint")
    if actuators == "contract":
        # MuJoCo keeps one sample per physics step: those within the delay and the newest one.
        samples = math.ceil(max_delay_s / spec.option.timestep) + 1 if max_delay_s > 0.0 else 0
        _supply(spec, joints, driven, kp=kp, kd=kd, delay_samples=samples)
    model = compile_spec(spec, path)
    if model.nu != model.nactuator:
        raise RobotError(
            f"scene {path} has actuators that take several controls each",
            found=f"{model.nu} controls for {model.nactuator} actuators",
            expected="one control for each actuator",
        )
    joint_ids = [_joint_id(model, name) for name in joints]
    on_joint = _actuators_on(model, joint_ids)
    if actuators == "scene":
        _check_scene_actuators(model, path, {name: on_joint[list(joints).index(name)] for name in driven})
    actuator_ids = [ids[0] if ids else -1 for ids in on_joint]
    base_name, qpos_adr, dof_adr = _find_base(model, path, joints, base)
    keyframe = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
    return Scene(
        model=model,
        path=path,
        joints=tuple(joints),
        actuator_ids=tuple(actuator_ids),
        qpos_adr=tuple(int(model.jnt_qposadr[joint]) for joint in joint_ids),
        dof_adr=tuple(int(model.jnt_dofadr[joint]) for joint in joint_ids),
        base=base_name,
        base_qpos_adr=qpos_adr,
        base_dof_adr=dof_adr,
        keyframe=keyframe if keyframe >= 0 or model.nkey == 0 else 0,
        torque_limit=tuple(
            _torque_limit(model, joint, actuator) for joint, actuator in zip(joint_ids, actuator_ids, strict=True)
        ),
    )


def sensor_slices(model: mujoco.MjModel) -> dict[str, slice]:
    """Where each named sensor lies in `sensordata`."""
    return {
        model.sensor(i).name: slice(int(model.sensor_adr[i]), int(model.sensor_adr[i] + model.sensor_dim[i]))
        for i in range(model.nsensor)
        if model.sensor(i).name
    }


def base_points(scene: Scene) -> dict[str, Floats]:
    """Offsets (3,) in m of named points of the base body from its origin, base frame: "com" and its sites."""
    if scene.base is None:
        return {}
    model = scene.model
    body = int(model.dof_bodyid[scene.base_dof_adr])
    points: dict[str, Any] = {"com": model.body_ipos[body].copy()}
    for i in range(model.nsite):
        if model.site_bodyid[i] == body and model.site(i).name:
            points[f"site:{model.site(i).name}"] = model.site_pos[i].copy()
    return points


def drive_summary(scene: Scene, actuators: Actuators) -> str:
    """One line for people: which gains, armature, damping, friction and torque limits act on the joints."""
    model = scene.model
    rows = list(scene.dof_adr)
    gains = [i for i in scene.actuator_ids if i >= 0]
    kp = model.actuator_gainprm[gains, 0]
    kd = -model.actuator_biasprm[gains, 2]
    limits = np.array(scene.torque_limit)
    replaced = actuators == "contract"
    source = "the contract's gains replace the scene's actuators" if replaced else "the scene's own actuators"
    return (
        f"{source}: {len(gains)} position actuators, kp {_span(kp)} N·m/rad, kd {_span(kd)} N·m·s/rad; "
        f"from the scene: armature {_span(model.dof_armature[rows])} kg·m², damping {_span(model.dof_damping[rows])} "
        f"N·m·s/rad, friction {_span(model.dof_frictionloss[rows])} N·m, torque limit {_span(limits)} N·m"
    )


def _span(values: Any) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    if low == high:
        return f"{low:g}" if np.isfinite(low) else "none"
    return f"{low:g}…{high:g}" if np.isfinite(high) else f"{low:g}…none"


def _some(names: Sequence[str], limit: int = 6) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _joint_id(model: mujoco.MjModel, name: str) -> int:
    return int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name))


def _supply(
    spec: mujoco.MjSpec,
    joints: Sequence[str],
    driven: Sequence[str],
    *,
    kp: Sequence[float],
    kd: Sequence[float],
    delay_samples: int,
) -> None:
    """Turn the actuator of each driven joint into a position actuator, or add one; surplus ones go."""
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
        _make_position(first, name, kp[gains], kd[gains], autolimits=spec.compiler.autolimits)
        first.nsample = delay_samples
    for position in surplus:
        spec.delete(before[position])


def _make_position(actuator: Any, joint: str, kp: float, kd: float, *, autolimits: bool) -> None:
    """Make a position actuator of gear 1 of any other; its torque limit at the joint stays."""
    limit = _force_limit(actuator, autolimits)
    actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
    actuator.target = joint
    actuator.set_to_position(kp=kp, kv=kd)
    actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE if limit is None else mujoco.mjtLimited.mjLIMITED_TRUE
    actuator.forcerange = limit or (0.0, 0.0)
    actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.actlimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.inheritrange = 0.0
    actuator.delay = 0.0
    actuator.interp = 0


def _force_limit(actuator: Any, autolimits: bool) -> tuple[float, float] | None:
    """Bounds of an actuator's force at its joint, N·m: its force range, and for a motor what its control may ask."""
    bounds: list[tuple[float, float]] = []
    gear = float(actuator.gear[0])
    if _is_limited(actuator.forcelimited, actuator.forcerange, autolimits):
        bounds.append(_scaled(actuator.forcerange, gear))
    motor = (
        actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        and actuator.biastype == mujoco.mjtBias.mjBIAS_NONE
        and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE
    )
    if motor and _is_limited(actuator.ctrllimited, actuator.ctrlrange, autolimits):
        bounds.append(_scaled(actuator.ctrlrange, gear * float(actuator.gainprm[0])))
    if not bounds:
        return None
    return max(low for low, _ in bounds), min(high for _, high in bounds)


def _is_limited(flag: int, bounds: Sequence[float], autolimits: bool) -> bool:
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


def _actuators_on(model: mujoco.MjModel, joint_ids: Sequence[int]) -> list[list[int]]:
    """The actuators that act on each of the joints directly."""
    found: dict[int, list[int]] = {joint: [] for joint in joint_ids}
    for actuator in range(model.nactuator):
        joint = int(model.actuator_trnid[actuator, 0])
        if int(model.actuator_trntype[actuator]) in _ON_JOINT and joint in found:
            found[joint].append(actuator)
    return [found[joint] for joint in joint_ids]


def _check_scene_actuators(model: mujoco.MjModel, path: Path, driven: dict[str, list[int]]) -> None:
    hint = "Use --actuators contract to drive the joints with the contract's gains"
    for name, ids in driven.items():
        if not ids:
            raise RobotError(f"scene {path} has no actuator on joint '{name}'", hint=hint)
        if len(ids) > 1:
            raise RobotError(
                f"scene {path} has several actuators on joint '{name}'",
                found=_some([model.actuator(i).name or f"actuator {i}" for i in ids]),
                expected="one position actuator",
                hint=hint,
            )
        actuator = ids[0]
        kp = model.actuator_gainprm[actuator, 0]
        position = (
            model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
            and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
            and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
            and kp > 0.0
            and model.actuator_biasprm[actuator, 1] == -kp
        )
        if not position:
            raise RobotError(
                f"actuator '{model.actuator(actuator).name}' of scene {path} does not take joint positions",
                expected="a position actuator, as the policy commands positions",
                hint=hint,
            )
        gear = float(model.actuator_gear[actuator, 0])
        if gear != 1.0:
            raise RobotError(
                f"actuator '{model.actuator(actuator).name}' of scene {path} does not take joint positions in rad",
                found=f"gear {gear:g}",
                expected="gear 1",
                hint=hint,
            )


def _find_base(model: mujoco.MjModel, path: Path, joints: Sequence[str], base: str) -> tuple[str | None, int, int]:
    """The free body above the joints: (name, qpos address, dof address), or (None, -1, -1) for a fixed base."""
    if base and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, base) < 0:
        bodies = [model.body(i).name for i in range(1, model.nbody) if model.body(i).name]
        raise RobotError(
            f"scene {path} has no body '{base}'",
            expected="the name of the base body, one of " + (_some(bodies, 40) or "none"),
        )
    bodies_of_joints = [int(model.jnt_bodyid[_joint_id(model, name)]) for name in joints]
    free = _free_joint_above(model, model.body(base).id if base else bodies_of_joints[0])
    if base and free < 0:
        raise RobotError(f"body '{base}' of scene {path} has no free joint", hint="Add <freejoint/> to it")
    for name, body in zip(joints, bodies_of_joints, strict=True):
        if _free_joint_above(model, body) != free:
            raise RobotError(
                f"joint '{name}' of scene {path} is not on the same robot as the others",
                expected=f"a joint below {_base_text(model, free)}",
                hint="One policy drives one robot: name its joints and its base",
            )
    if free < 0:
        return None, -1, -1
    return model.body(int(model.jnt_bodyid[free])).name, int(model.jnt_qposadr[free]), int(model.jnt_dofadr[free])


def _free_joint_above(model: mujoco.MjModel, body: int) -> int:
    """The free joint that carries a body, -1 where none does."""
    root = int(model.body_rootid[body])  # free joints are allowed on top-level bodies only
    first = int(model.body_jntadr[root])
    free = body > 0 and model.body_jntnum[root] > 0 and model.jnt_type[first] == mujoco.mjtJoint.mjJNT_FREE
    return first if free else -1


def _base_text(model: mujoco.MjModel, free: int) -> str:
    return "a fixed base" if free < 0 else f"body '{model.body(int(model.jnt_bodyid[free])).name}', which floats"


def _torque_limit(model: mujoco.MjModel, joint: int, actuator: int) -> float:
    limits = []
    if model.jnt_actfrclimited[joint]:
        limits.append(float(np.abs(model.jnt_actfrcrange[joint]).min()))
    if actuator >= 0 and model.actuator_forcelimited[actuator]:
        limits.append(float(np.abs(model.actuator_forcerange[actuator]).min()))
    return min(limits, default=float("inf"))
