"""What a scene holds, as its file has it: sizes, joints, actuators, sensors, keyframes and options."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from edgert.sim.actuators import actuators_on, torque_limit
from edgert.sim.scene import compile_spec, load_spec


def describe_scene(path: Path) -> dict[str, Any]:
    """The facts of a scene as one JSON object; see docs/json.md for keys and units.

    Raises:
        IntegrityError: the file is no scene that MuJoCo accepts.
    """
    model = compile_spec(load_spec(path), path)
    option = model.opt
    return {
        "path": str(path),
        "nq": model.nq,
        "nv": model.nv,
        "nu": model.nu,
        "bodies": model.nbody - 1,
        "geoms": model.ngeom,
        "mass_kg": _finite(model.body_mass.sum()),
        "timestep_s": _finite(option.timestep),
        "integrator": _word(mujoco.mjtIntegrator(option.integrator)),
        "solver": _word(mujoco.mjtSolver(option.solver)),
        "iterations": int(option.iterations),
        "cone": _word(mujoco.mjtCone(option.cone)),
        "gravity_m_s2": [_finite(value) for value in option.gravity],
        "joints": [_joint(model, joint) for joint in range(model.njnt)],
        "actuators": [_actuator(model, actuator) for actuator in range(model.nactuator)],
        "sensors": [
            {
                "name": model.sensor(i).name,
                "type": _word(mujoco.mjtSensor(int(model.sensor_type[i]))),
                "dim": int(model.sensor_dim[i]),
            }
            for i in range(model.nsensor)
        ],
        "keyframes": [model.key(i).name for i in range(model.nkey)],
    }


def _joint(model: mujoco.MjModel, joint: int) -> dict[str, Any]:
    """A joint; its limits and damping in rad and N·m for a hinge, in m and N for a slide, none for the others."""
    kind = mujoco.mjtJoint(int(model.jnt_type[joint]))
    facts: dict[str, Any] = {
        "name": model.joint(joint).name,
        "type": _word(kind),
        "body": model.body(int(model.jnt_bodyid[joint])).name,
        "range": None,
        "armature": None,
        "damping": None,
        "friction": None,
        "torque_limit": None,
    }
    if kind in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
        dof = int(model.jnt_dofadr[joint])
        actuators = actuators_on(model, [joint])[0]
        facts |= {
            "range": [_finite(value) for value in model.jnt_range[joint]] if model.jnt_limited[joint] else None,
            "armature": _finite(model.dof_armature[dof]),
            "damping": _finite(np.ravel(model.dof_damping[dof])[0]),
            "friction": _finite(model.dof_frictionloss[dof]),
            "torque_limit": _finite(torque_limit(model, joint, actuators[0] if actuators else -1)),
        }
    return facts


def _actuator(model: mujoco.MjModel, actuator: int) -> dict[str, Any]:
    """An actuator: what it acts on and how; gains only where the control is a position or a velocity."""
    transmission = mujoco.mjtTrn(int(model.actuator_trntype[actuator]))
    on_joint = transmission in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    kind = _kind(model, actuator)
    servo = kind in ("position", "velocity")
    control = int(model.actuator_ctrladr[actuator])
    limited = control < model.nu and bool(model.actuator_ctrllimited[control])
    return {
        "name": model.actuator(actuator).name,
        "type": kind,
        "transmission": _word(transmission),
        "joint": model.joint(int(model.actuator_trnid[actuator, 0])).name if on_joint else None,
        "gear": _finite(model.actuator_gear[actuator, 0]),
        "kp": _finite(-model.actuator_biasprm[actuator, 1]) if servo else None,
        "kd": _finite(-model.actuator_biasprm[actuator, 2]) if servo else None,
        "ctrl_range": [_finite(value) for value in model.actuator_ctrlrange[control]] if limited else None,
        "force_range": [_finite(value) for value in model.actuator_forcerange[actuator]]
        if model.actuator_forcelimited[actuator]
        else None,
    }


def _kind(model: mujoco.MjModel, actuator: int) -> str:
    """What an actuator takes: "motor" a force, "position" or "velocity" a setpoint; all else is "general"."""
    bias = model.actuator_biastype[actuator]
    if model.actuator_gaintype[actuator] != mujoco.mjtGain.mjGAIN_FIXED or (
        model.actuator_dyntype[actuator] != mujoco.mjtDyn.mjDYN_NONE
    ):
        return "general"
    if bias == mujoco.mjtBias.mjBIAS_NONE:
        return "motor"
    gain, (_, on_position, on_velocity) = model.actuator_gainprm[actuator, 0], model.actuator_biasprm[actuator, :3]
    if bias != mujoco.mjtBias.mjBIAS_AFFINE or gain == 0.0:
        return "general"
    return (
        "position" if on_position == -gain else "velocity" if (on_position, on_velocity) == (0.0, -gain) else "general"
    )


def _word(member: Any) -> str:
    """The name of a member of one of MuJoCo's enumerations, without its prefix."""
    return str(member.name).split("_", 1)[1].lower()


def _finite(value: Any) -> float | None:
    """A number, or None where there is no finite one, as JSON has none."""
    number = float(value)
    return number + 0.0 if math.isfinite(number) else None  # + 0.0: no minus before a zero
