"""Scenes: loading an MJCF file, finding its base and joints by name, and giving its joints PD actuators.

Policies command joints by name and carry their own gains. `build` therefore replaces or supplies the scene's
actuators with position actuators of the contract's gains, and tells what else shapes the drive: armature, damping,
friction and torque limits stay those of the scene.
"""

from __future__ import annotations

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
    except OSError as error:
        raise IntegrityError(
            f"cannot read scene {path}", found=error.strerror or error, hint="Check the path and its permissions"
        ) from error
    if size > MAX_SCENE_BYTES:
        raise IntegrityError(f"scene {path} is too large", found=f"{size} bytes", expected=f"at most {MAX_SCENE_BYTES}")
    try:
        return mujoco.MjSpec.from_file(os.fspath(path))
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise IntegrityError(f"scene {path} is not a valid MJCF model", found=error) from error


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
    delay_samples: int = 0,
) -> Scene:
    """Load a scene for a body of `joints` of which `driven` get position actuators.

    Args:
        path: the MJCF file.
        joints: joint names in the policy's order.
        driven: the joints that the policy commands, a subset of `joints`.
        actuators: "contract" replaces or supplies the actuators of driven joints; "scene" keeps the scene's own,
            which must be one position actuator for each driven joint.
        kp, kd: gains in the order of `joints`, N·m/rad and N·m·s/rad.
        base: name of the base body; "": the body of the free joint above the joints.
        delay_samples: room, in physics steps, for an actuator delay that varies between worlds.

    Raises:
        IntegrityError: the file is no valid scene.
        RobotError: a joint is missing or not a hinge or slide, or the scene's actuators do not serve.
    """
    spec = load_spec(path)
    by_name = {joint.name: joint for joint in spec.joints}
    missing = [name for name in joints if name not in by_name]
    if missing:
        scalar = [
            joint.name for joint in spec.joints if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
        ]
        raise RobotError(
            f"scene {path} lacks joints of the policy",
            found=f"no {_some(missing)}",
            expected="joints named as in the contract; the scene has " + (_some(scalar, 40) or "none"),
            hint="Name the scene's joints in [joints] names of policy.toml, or use the policy's own robot",
        )
    for name in joints:
        if by_name[name].type not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            raise RobotError(f"joint '{name}' of scene {path} cannot be driven", expected="a hinge or slide joint")
    if actuators == "contract":
        _supply(spec, joints, driven, kp, kd, delay_samples)
    model = compile_spec(spec, path)
    actuator_ids = _actuator_ids(model, joints)
    if actuators == "scene":
        _check_scene_actuators(model, path, joints, driven, actuator_ids)
    base_name, qpos_adr, dof_adr = _find_base(model, path, joints, base)
    keyframe = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
    joint_ids = [_joint_id(model, name) for name in joints]
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
    body = model.body(scene.base).id
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
    source = "the contract's gains replace the scene's actuators" if actuators == "contract" else "the scene's own actuators"
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
    kp: Sequence[float],
    kd: Sequence[float],
    delay_samples: int,
) -> None:
    """Turn the actuator of each driven joint into a position actuator, or add one; surplus ones go."""
    existing: dict[str, list[Any]] = {name: [] for name in driven}
    for actuator in spec.actuators:
        if actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT and actuator.target in existing:
            existing[actuator.target].append(actuator)
    for name in driven:
        own = existing[name]
        actuator = own[0] if own else spec.add_actuator(name=_free_name(spec, name))
        for surplus in own[1:]:
            spec.delete(surplus)
        gains = joints.index(name)
        actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
        actuator.target = name
        actuator.set_to_position(kp=kp[gains], kv=kd[gains])
        actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
        actuator.actlimited = mujoco.mjtLimited.mjLIMITED_FALSE
        actuator.inheritrange = 0.0
        actuator.delay = 0.0
        actuator.nsample = delay_samples
        actuator.interp = 0
    for key in spec.keys:
        key.ctrl = []


def _free_name(spec: mujoco.MjSpec, name: str) -> str:
    taken = {actuator.name for actuator in spec.actuators}
    while name in taken:
        name += "_position"
    return name


def _actuator_ids(model: mujoco.MjModel, joints: Sequence[str]) -> list[int]:
    ids = [-1] * len(joints)
    for i in range(model.nu):
        if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT:
            name = model.joint(int(model.actuator_trnid[i, 0])).name
            if name in joints:
                ids[list(joints).index(name)] = i
    return ids


def _check_scene_actuators(
    model: mujoco.MjModel, path: Path, joints: Sequence[str], driven: Sequence[str], actuator_ids: Sequence[int]
) -> None:
    hint = "Use --actuators contract to drive the joints with the contract's gains"
    for name in driven:
        actuator = actuator_ids[list(joints).index(name)]
        if actuator < 0:
            raise RobotError(f"scene {path} has no actuator on joint '{name}'", hint=hint)
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


def _find_base(model: mujoco.MjModel, path: Path, joints: Sequence[str], base: str) -> tuple[str | None, int, int]:
    """The free body above the joints: (name, qpos address, dof address), or (None, -1, -1) for a fixed base."""
    if base and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, base) < 0:
        raise RobotError(f"scene {path} has no body '{base}'", expected="the name of the base body")
    body = model.body(base).id if base else int(model.jnt_bodyid[_joint_id(model, joints[0])])
    while body > 0:
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        for joint in range(first, first + count):
            if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
                name = model.body(body).name
                return name, int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        body = int(model.body_parentid[body])
    if base:
        raise RobotError(f"body '{base}' of scene {path} has no free joint", hint="Add <freejoint/> to it")
    return None, -1, -1


def _torque_limit(model: mujoco.MjModel, joint: int, actuator: int) -> float:
    limits = []
    if model.jnt_actfrclimited[joint]:
        limits.append(float(np.abs(model.jnt_actfrcrange[joint]).min()))
    if actuator >= 0 and model.actuator_forcelimited[actuator]:
        limits.append(float(np.abs(model.actuator_forcerange[actuator]).min()))
    return min(limits, default=float("inf"))
