"""The YAML of unitree_rl_gym's deploy scripts, beside a policy that was exported to ONNX.

The file holds gains, pose, scales and rate; which observations there are, and in which order, is in the scripts alone:
angular velocity, gravity, command, joint positions and velocities, the last action, and sine and cosine of a gait
clock of 0.8 s where there is room for them. That is assumed, and only if the sizes add up. Joints stand in the order of
the scene, or for a real robot in that of its motors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edgert.contract.foreign import (
    LOOSE,
    MAX_DECIMATION,
    evident,
    given,
    numbers,
    only_file,
    only_input,
    size,
    spread,
    whole,
)
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import terms_key
from edgert.contract.motors import FROM_SCENE, Motors, find_motors
from edgert.contract.plausible import doubtful_gains
from edgert.tables import Table, show

_KEYS: Final = ("kps", "kds", "default_angles", "action_scale")
_MOTORS: Final = ("leg_joint2motor_idx", "joint2motor_idx")
_PERIOD_S: Final = 0.8
"""Of the gait clock in unitree_rl_gym's deploy scripts."""
_SCRIPTS: Final = "assumed: as in unitree_rl_gym's deploy scripts"


class RlGym:
    """The reader; see `edgert.contract.formats`."""

    files = LOOSE
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        names = evident(found, _holds)
        return f"{', '.join(names)} with {', '.join(_KEYS)}" if names else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        file = only_file(found, evident(found, _holds), "unitree_rl_gym")
        table = Table(found.sidecars[file], file)
        pose = list(table.numbers("default_angles"))
        count = len(pose)
        if given(table, "num_actions") and table.integer("num_actions", lo=1) != count:
            table.fail("num_actions", found=table.raw("num_actions"), expected=f"{count}, as default_angles")
        gains = {ours: spread(table, theirs, count) for ours, theirs in (("kp", "kps"), ("kd", "kds"))}
        motors, order = _motors(found, table, count)
        joints: dict[str, Any] = {"default_pos": pose, **gains}
        action: dict[str, Any] = {"scale": spread(table, "action_scale", count), "offset": list(pose)}
        if motors.joints:
            driven = [motors.joints[motor] for motor in order]
            held = _held(table, motors)
            joints["names"] = driven + list(held)
            for key, place in (("default_pos", 0), ("kp", 1), ("kd", 2)):
                joints[key] = joints[key] + [values[place] for values in held.values()]
            action["joints"] = driven
        why = doubtful_gains(gains["kp"], gains["kd"], "kps and kds")
        if why:  # those that the policy was trained with are asked for
            del joints["kp"], joints["kd"]
        name = only_input(found, file)
        terms, phase, reason = _terms(table, count, size(found.inputs[name]))
        if motors.joints and len(joints["names"]) > count:
            terms = [
                term | {"joints": action["joints"]} if term["name"].startswith("joint") else term for term in terms
            ]
        document: dict[str, Any] = {"schema": 1, "joints": joints, "action": action}
        if terms:
            document |= {"inputs": {name: {"terms": terms}}, "command": _command(table)}
        if phase:
            document["phase"] = {"hz": 1.0 / _PERIOD_S}
        rate = _rate(table)
        if rate is not None:
            document["control_hz"] = rate
        sources = {"joints.names": motors.source} if motors.joints else {}
        if terms:
            sources |= dict.fromkeys((f"inputs.{name}.terms", *(["phase.hz"] if phase else [])), _SCRIPTS)
        shown = [term["name"] for term in terms]
        notes = [motors.note]
        if terms:
            notes.append(
                f"{file} lists no observations: {', '.join(shown)} are assumed, as in unitree_rl_gym's scripts"
            )
        reasons = {terms_key(name): reason} if reason else {}
        reasons |= dict.fromkeys(("joints.kp", "joints.kd"), why) if why else {}
        if not motors.joints:
            reasons["joints.names"] = FROM_SCENE
        return Reading(document=document, source=file, sources=sources, notes=tuple(notes), reasons=reasons)


RL_GYM: Final = RlGym()


def _holds(document: Mapping[str, Any]) -> bool:
    return all(key in document for key in _KEYS)


def _motors(found: Evidence, table: Table, count: int) -> tuple[Motors, list[int]]:
    """The robot's motors, and those of the policy's joints in its order."""
    for key in _MOTORS:
        if given(table, key):
            order = table.raw(key)
            if not whole(order) or len(order) < count or len(set(order)) < len(order) or min(order) < 0:
                table.fail(key, found=show(order), expected=f"{count} motors, each once")
            others = table.raw("arm_waist_joint2motor_idx", None)
            total = count + (len(others) if isinstance(others, list) else 0)
            return find_motors(found, order[:count], total, table.where, key), list(order[:count])
    if not found.joints:
        note = f"{table.where} names no joints: name the robot's scene with --sim"
        return Motors(joints={}, source="", note=note), list(range(count))
    if len(found.joints) != count:
        table.fail(
            "default_angles",
            found=f"{count} joints",
            expected=f"{len(found.joints)}: {', '.join(found.joints)}",
            hint="Name the scene of its robot with --sim",
        )
    motors = Motors(
        joints=dict(enumerate(found.joints)),
        source="assumed: the order of the scene's actuated joints",
        note=f"{table.where} names no joints: they are taken in the order of the scene's actuated joints",
    )
    return motors, list(range(count))


def _held(table: Table, motors: Motors) -> Mapping[str, tuple[float, float, float]]:
    """Pose and gains of joints that the policy does not drive, by name."""
    others = table.raw("arm_waist_joint2motor_idx", None)
    if others is None:
        return {}
    if not whole(others) or not all(motor in motors.joints for motor in others):
        table.fail("arm_waist_joint2motor_idx", found=show(others), expected="motors of the robot")
    columns = [spread(table, f"arm_waist_{name}", len(others)) for name in ("target", "kps", "kds")]
    rows = zip(*columns, strict=True)
    return {motors.joints[motor]: (row[0], row[1], row[2]) for motor, row in zip(others, rows, strict=True)}


def _terms(table: Table, count: int, takes: int | None) -> tuple[list[dict[str, Any]], bool, str]:
    """The terms, whether a gait clock is among them, and why they are not known if they are not."""
    plain = 9 + 3 * count
    stated = table.integer("num_obs", lo=1) if given(table, "num_obs") else takes
    if takes is not None and stated is not None and takes != stated:
        table.fail("num_obs", found=stated, expected=f"{takes}, as the network takes")
    if stated not in (plain, plain + 2):
        return [], False, f"unitree_rl_gym's scripts have {plain} or, with a gait clock, {plain + 2}"
    terms = [
        _scaled(table, "base_ang_vel", "ang_vel_scale"),
        {"name": "projected_gravity"},
        _scaled(table, "command", "cmd_scale"),
        _scaled(table, "joint_pos", "dof_pos_scale"),
        _scaled(table, "joint_vel", "dof_vel_scale"),
        {"name": "last_action"},
    ]
    clock = stated == plain + 2
    return [*terms, {"name": "phase"}] if clock else terms, clock, ""


def _scaled(table: Table, name: str, key: str) -> dict[str, Any]:
    return {"name": name, "scale": numbers(table, key)} if given(table, key) else {"name": name}


def _command(table: Table) -> dict[str, Any]:
    if not given(table, "max_cmd"):
        return {"kind": "twist"}
    limits = table.numbers("max_cmd", length=3)
    keys = ("vx_m_s", "vy_m_s", "wz_rad_s")
    return {"kind": "twist", **{key: [-abs(limit), abs(limit)] for key, limit in zip(keys, limits, strict=True)}}


def _rate(table: Table) -> float | None:
    if given(table, "control_dt"):
        return 1.0 / table.number("control_dt", above=0.0)
    if given(table, "simulation_dt") and given(table, "control_decimation"):
        return 1.0 / (
            table.number("simulation_dt", above=0.0) * table.integer("control_decimation", lo=1, hi=MAX_DECIMATION)
        )
    return None
