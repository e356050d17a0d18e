"""Scenes: loading an MJCF file, finding its base and joints by name, and giving its joints PD actuators.

Policies command joints by name and carry their own gains. `build` therefore replaces or supplies the scene's
actuators with position actuators of the contract's gains, and tells what else shapes the drive: armature, damping,
friction and torque limits stay those of the scene, the limits of a replaced motor's control among them.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from edgert.contract.formats import Body
from edgert.errors import ContractError, IntegrityError, RobotError, some
from edgert.files import regular_size
from edgert.sim.actuators import (
    POSITIONS,
    Actuators,
    Drive,
    actuators_on,
    check_enabled,
    check_own,
    span,
    supply,
    torque_limit,
)
from edgert.sim.held import SCALAR_JOINTS, Held, hold, with_gains
from edgert.sim.protocol import Floats, quiet_physics

_NOT_PHYSICS = ("_", "mesh_", "skin_", "tex_", "mat_", "light_", "cam_", "hfield_", "flex")
MAX_SCENE_BYTES = 16 << 20
"""Largest scene file that is read; meshes are files of their own."""
MAX_DECIMATION = 10_000
"""Most physics steps in one control period; real tasks have 1 to 50."""


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
    drives: tuple[Drive, ...]
    """What the control of each joint's actuator is."""
    held: Held = field(default_factory=Held)
    """The joints of the robot beside `joints`."""


def load_spec(path: Path) -> mujoco.MjSpec:
    """Parse an MJCF file.

    Raises:
        IntegrityError: missing, unreadable, too large, or not a scene that MuJoCo accepts.
    """
    size = regular_size(path, "scene")
    if size > MAX_SCENE_BYTES:
        raise IntegrityError(f"scene {path} is too large", found=f"{size} bytes", expected=f"at most {MAX_SCENE_BYTES}")
    quiet_physics()
    try:
        with _warnings() as said:
            spec = mujoco.MjSpec.from_file(os.fspath(path))
    except (TypeError, ValueError, RuntimeError, mujoco.FatalError) as error:  # TypeError: a path that is not UTF-8
        raise IntegrityError(f"scene {path} is not a valid MJCF model", found=error) from error
    nan = [text for text in said if "NaN" in text]
    if nan:
        raise IntegrityError(f"scene {path} has numbers that are not finite", found=nan[0])
    timestep_s = float(spec.option.timestep)
    if not 0.0 < timestep_s < math.inf:  # MuJoCo compiles any number
        raise IntegrityError(
            f"scene {path} has an impossible timestep",
            found=f"{timestep_s:g} s",
            expected="a positive number of seconds",
        )
    return spec


def scene_body(path: Path) -> Body:
    """What a scene tells about its robot.

    A hinge or slide counts if an actuator drives it or its actuators have a force range; where neither is said of any
    joint, all count. Velocity is measured by a velocimeter on the floating base, or else at the one site there that is
    called imu in some way.

    Raises:
        IntegrityError: as `load_spec`.
    """
    spec = load_spec(path)
    joints = [joint for joint in spec.joints if joint.type in SCALAR_JOINTS and joint.name]
    driven = {actuator.target for actuator in spec.actuators if actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT}
    actuated = [joint for joint in joints if joint.name in driven or joint.actfrcrange[0] < joint.actfrcrange[1]]
    return Body(joints=tuple(joint.name for joint in actuated or joints), velocity_site=_velocity_site(spec))


def _velocity_site(spec: mujoco.MjSpec) -> str:
    """See `scene_body`; "" where there is no such site, or more than one."""
    bases = {joint.parent.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE}
    sites = [site.name for site in spec.sites if site.name and site.parent.name in bases]
    measured = {each.objname for each in spec.sensors if each.type == mujoco.mjtSensor.mjSENS_VELOCIMETER}
    found = [site for site in sites if site in measured] or [site for site in sites if "imu" in site.lower()]
    return found[0] if len(found) == 1 else ""


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What MuJoCo warns of while it reads a file."""
    said: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(said.append)
    try:
        yield said
    finally:
        mujoco.set_mju_user_warning(before)


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile a scene; a missing mesh or a model that is no body of this world is an `IntegrityError`."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Inertia matrix")  # not positive definite
            return spec.compile()
    except (ValueError, RuntimeError, UserWarning, mujoco.FatalError) as error:
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
    drives: Mapping[str, Drive] = POSITIONS,
) -> Scene:
    """Load a scene for a body of `joints` of which `driven` get actuators.

    Args:
        path: the MJCF file.
        joints: joint names in the policy's order.
        driven: the joints that the policy commands, a subset of `joints`.
        actuators: "contract" replaces or supplies the actuators of driven joints; "scene" keeps the scene's own,
            which must be one of gear 1 and of its drive for each driven joint.
        kp: position gains in the order of `joints`, N·m/rad.
        kd: velocity gains in the order of `joints`, N·m·s/rad.
        base: name of the base body; "": the body of the free joint above the joints.
        max_delay_s: the longest actuator delay that worlds will be given; the model itself has none.
        drives: what the joints that take no positions take.

    Raises:
        IntegrityError: the file is no valid scene.
        RobotError: a joint is missing, not a hinge or slide, or not on the base; or the scene's actuators do not serve.
    """
    spec = load_spec(path)
    by_name = {joint.name: joint for joint in spec.joints}
    missing = [name for name in joints if name not in by_name]
    if missing:
        scalar = [joint.name for joint in spec.joints if joint.type in SCALAR_JOINTS]
        raise RobotError(
            f"scene {path} lacks joints of the policy",
            found=f"no {some(missing)}",
            expected="joints named as in the contract; the scene has " + (some(scalar, 40) or "none"),
            hint="Name the scene's joints in [joints] names of policy.toml, or the policy's own robot with --sim",
        )
    for name in joints:
        if by_name[name].type not in SCALAR_JOINTS:
            raise RobotError(f"joint '{name}' of scene {path} cannot be driven", expected="a hinge or slide joint")
    if actuators == "contract":
        # MuJoCo keeps one sample per physics step: those within the delay and the newest one.
        samples = math.ceil(max_delay_s / spec.option.timestep) + 1 if max_delay_s > 0.0 else 0
        supply(spec, joints, driven, kp=kp, kd=kd, delay_samples=samples, drives=drives)
    held = hold(spec, joints)
    model = compile_spec(spec, path)
    if model.nu != model.nactuator:
        raise RobotError(
            f"scene {path} has actuators that take several controls each",
            found=f"{model.nu} controls for {model.nactuator} actuators",
            expected="one control for each actuator",
        )
    _check_numbers(model, path)
    joint_ids = [_joint_id(model, name) for name in joints]
    on_joint = actuators_on(model, joint_ids)
    if actuators == "scene":
        check_own(model, path, {name: on_joint[list(joints).index(name)] for name in driven}, drives)
    actuator_ids = [ids[0] if ids else -1 for ids in on_joint]
    check_enabled(model, path, [actuator for actuator in actuator_ids if actuator >= 0])
    base_name, qpos_adr, dof_adr = _find_base(model, path, joints, base)
    keyframe = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
    keyframe = keyframe if keyframe >= 0 or model.nkey == 0 else 0
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
        keyframe=keyframe,
        torque_limit=tuple(
            torque_limit(model, joint, actuator) for joint, actuator in zip(joint_ids, actuator_ids, strict=True)
        ),
        drives=tuple(drives.get(name, "position") for name in joints),
        held=with_gains(held, model, keyframe),
    )


def physics_steps(control_hz: float, scene: Scene) -> int:
    """Physics steps in one control period.

    Raises:
        ContractError: the period is no whole number of timesteps, or of more than `MAX_DECIMATION`.
    """
    timestep_s, period_s = float(scene.model.opt.timestep), 1.0 / control_hz
    ratio = period_s / timestep_s
    if ratio > MAX_DECIMATION:
        raise ContractError(
            f"the control period of {period_s:g} s is too long for scene {scene.path}",
            found=f"{ratio:g} timesteps of {timestep_s * 1e3:g} ms",
            expected=f"at most {MAX_DECIMATION}",
            hint="Check control_hz",
        )
    nstep = round(ratio)
    if nstep < 1 or abs(ratio - nstep) > 1e-6 * ratio:
        raise ContractError(
            f"the control period of {period_s * 1e3:g} ms is no whole number of timesteps of scene {scene.path}",
            found=f"timestep {timestep_s * 1e3:g} ms",
            expected=f"for example {_timestep_ms(period_s, ratio)} ms",
            hint='Set <option timestep="…"/> in the scene, or control_hz in policy.toml',
        )
    return nstep


def _timestep_ms(period_s: float, ratio: float) -> str:
    """The roundest timestep, ms, that goes into a control period: from half of the scene's to the whole."""
    most = max(1, math.ceil(ratio))
    return min((f"{period_s * 1e3 / count:g}" for count in range(most, 2 * most + 1)), key=len)


def _check_numbers(model: mujoco.MjModel, path: Path) -> None:
    """Refuse models with numbers that are not finite: MuJoCo would quietly start from somewhere else."""
    arrays = {
        name: np.asarray(getattr(holder, name))
        for holder in (model, model.opt)
        for name in dir(holder)
        if not name.startswith(_NOT_PHYSICS) and isinstance(getattr(holder, name), (float, np.ndarray))
    }
    bad = [name for name, array in arrays.items() if array.dtype.kind == "f" and not np.isfinite(array).all()]
    if bad:
        raise IntegrityError(f"scene {path} has numbers that are not finite", found=f"in {some(bad)}")


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
    kp, kd = -model.actuator_biasprm[gains, 1] + 0.0, -model.actuator_biasprm[gains, 2] + 0.0  # no "-0"
    limits = np.array(scene.torque_limit)
    own = actuators == "scene"
    source = "of the scene's own" if own else "with the contract's gains, in place of any of the scene's"
    return (
        f"{_counted(scene)} actuators {source}: kp {span(kp, 'N·m/rad')}, kd {span(kd, 'N·m·s/rad')}; from the scene: "
        f"armature {span(model.dof_armature[rows], 'kg·m²')}, damping {span(model.dof_damping[rows], 'N·m·s/rad')}, "
        f"friction {span(model.dof_frictionloss[rows], 'N·m')}, torque limit {span(limits, 'N·m')}"
    )


def _counted(scene: Scene) -> str:
    """How many joints have an actuator of each drive."""
    driven = [drive for drive, actuator in zip(scene.drives, scene.actuator_ids, strict=True) if actuator >= 0]
    names: dict[Drive, str] = {"sum": "summing"}
    return ", ".join(f"{driven.count(drive)} {names.get(drive, drive)}" for drive in dict.fromkeys(driven))


def _joint_id(model: mujoco.MjModel, name: str) -> int:
    return int(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name))


def _find_base(model: mujoco.MjModel, path: Path, joints: Sequence[str], base: str) -> tuple[str | None, int, int]:
    """The free body above the joints: (name, qpos address, dof address), or (None, -1, -1) for a fixed base."""
    if base and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, base) < 0:
        bodies = [model.body(i).name for i in range(1, model.nbody) if model.body(i).name]
        raise RobotError(
            f"scene {path} has no body '{base}'",
            expected="the name of the base body, one of " + (some(bodies, 40) or "none"),
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
