"""`deploy.yaml` of unitree_rl_lab and unitree_rl_mjlab.

Stiffness and damping stand in the order of the motors, everything else in that of the policy, and
`joint_ids_map[policy index]` is the motor's index. The file names no joints: a motor's index is taken for the place of
its joint in the robot's scene, if there are as many of them, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from edgert.contract.formats import Evidence, Reading
from edgert.errors import ContractError
from edgert.tables import Table, is_number, show, type_name

FILE: Final = "deploy.yaml"
_TERMS: Final = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "base_ang_vel",
    "projected_gravity": "projected_gravity",
    "velocity_commands": "command",
    "joint_pos_rel": "joint_pos",
    "joint_vel_rel": "joint_vel",
    "joint_vel": "joint_vel",
    "last_action": "last_action",
    "gait_phase": "phase",
}
_ASSUMED_ORDER: Final = "assumed: motors in the order of the scene's joints"
_RANGES: Final = {"lin_vel_x": "vx_m_s", "lin_vel_y": "vy_m_s", "ang_vel_z": "wz_rad_s"}


class Unitree:
    """The reader; see `edgert.contract.formats`."""

    files = (FILE,)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        document = found.sidecars.get(FILE, {})
        keys = [key for key in ("joint_ids_map", "stiffness", "observations", "actions") if key in document]
        return f"{FILE} with {', '.join(keys)}" if len(keys) >= 3 else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        table = Table(found.sidecars[FILE], FILE)
        order = _order(table)
        joints = _joints(found, order)
        kp, kd = (_by_motor(table, name, order) for name in ("stiffness", "damping"))
        if not any(kp):
            table.fail("stiffness", found="0 for every motor", expected="the gains that the policy was trained with")
        action = _action(table.table("actions"), joints)
        terms, phase = _observations(table.table("observations"))
        names = list(found.inputs)
        if len(names) != 1:
            raise ContractError(
                f"policy {found.model} does not take the one input that {FILE} describes", found=", ".join(found.inputs)
            )
        document: dict[str, Any] = {
            "schema": 1,
            "control_hz": 1.0 / table.number("step_dt", above=0.0),
            "joints": {
                "names": list(joints),
                "default_pos": list(table.numbers("default_joint_pos", length=len(order))),
                "kp": kp,
                "kd": kd,
            },
            "inputs": {names[0]: terms},
            "action": action,
        }
        command = _command(table)
        if command is not None:
            document["command"] = command
        if phase is not None:
            document["phase"] = phase
        return Reading(
            document=document,
            source=FILE,
            sources={"joints.names": _ASSUMED_ORDER},
            notes=(f"{FILE} names no joints: its motors are taken for the scene's joints in their order",),
        )


UNITREE: Final = Unitree()


def _order(table: Table) -> list[int]:
    """Motor index of each joint of the policy."""
    values = table.raw("joint_ids_map")
    fits = isinstance(values, list) and all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if not fits or not values or sorted(set(values)) != sorted(values) or min(values) < 0:
        table.fail("joint_ids_map", found=show(values), expected="the motor's index of each joint, each once")
    return list(values)


def _joints(found: Evidence, order: Sequence[int]) -> list[str]:
    if not found.joints:
        raise ContractError(
            f"{FILE} of policy {found.model} names no joints",
            expected="the robot that it runs on, for its joints",
            hint="Name its scene with --sim",
        )
    if len(found.joints) != len(order):
        raise ContractError(
            f"{FILE} of policy {found.model} has another number of joints than the robot",
            found=f"{len(order)} in joint_ids_map",
            expected=f"{len(found.joints)}: {', '.join(found.joints)}",
            hint="Use the scene of its robot, or say which joints they are in [joints] names of policy.toml",
        )
    if max(order) >= len(order):
        raise ContractError(
            f"{FILE}: key 'joint_ids_map' is wrong", found=max(order), expected=f"0 to {len(order) - 1}"
        )
    return [found.joints[motor] for motor in order]


def _by_motor(table: Table, name: str, order: Sequence[int]) -> list[float]:
    """Values in the order of the motors, brought into that of the policy."""
    values = table.numbers(name)
    if len(values) != len(order):
        table.fail(name, found=f"{len(values)} numbers", expected=f"{len(order)}, one for each motor")
    return [values[motor] for motor in order]


def _action(table: Table, joints: Sequence[str]) -> dict[str, Any]:
    if list(table.data) != ["JointPositionAction"]:
        found = ", ".join(map(str, table.data)) or "none"
        raise ContractError(
            f"{FILE}: the policy's actions are not joint positions alone", found=found, expected="JointPositionAction"
        )
    entry = table.table("JointPositionAction")
    if entry.raw("clip", None) is not None:
        entry.fail("clip", found=show(entry.raw("clip")), expected="null, as bounds of targets are not supported yet")
    ids = entry.raw("joint_ids", None)
    chosen = list(joints)
    if isinstance(ids, list):
        if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < len(joints) for i in ids):
            entry.fail("joint_ids", found=show(ids), expected=f"indices from 0 to {len(joints) - 1}")
        chosen = [joints[i] for i in ids]
    elif ids not in (None, "all"):
        entry.fail("joint_ids", found=f"{type_name(ids)} {show(ids)}", expected="null, or a list of indices")
    return {
        "joints": chosen,
        "scale": _numbers(entry, "scale", len(chosen)),
        "offset": _numbers(entry, "offset", len(chosen)),
    }


def _numbers(table: Table, name: str, length: int) -> list[float] | float:
    value = table.raw(name)
    return table.number(name) if is_number(value) else list(table.numbers(name, length=length))


def _observations(table: Table) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The terms of the input, and the gait clock if one of them shows it."""
    frames = table.flag("use_gym_history", False)
    terms, phase = [], None
    for key in table.data:
        if key == "use_gym_history":
            continue
        name = _TERMS.get(key)
        if name is None:
            raise ContractError(f"{FILE}: observation '{key}' is unknown", expected="one of " + ", ".join(_TERMS))
        entry = table.table(key)
        term: dict[str, Any] = {"name": name, "history": entry.integer("history_length", 1, lo=1)}
        if entry.raw("scale", None) is not None:
            term["scale"] = entry.number("scale") if is_number(entry.raw("scale")) else list(entry.numbers("scale"))
        if entry.raw("clip", None) is not None:
            term |= {"clip": list(entry.range("clip")), "clip_first": not entry.flag("scale_first", False)}
        if name == "phase":
            phase = {"hz": 1.0 / _inner(entry, "params").number("period", lo=1e-3)}
        terms.append(term)
    if not terms:
        raise ContractError(f"{FILE} lists no observations")
    return {"terms": terms, "layout": "frame" if frames else "term"}, phase


def _command(table: Table) -> dict[str, Any] | None:
    commands = _inner(table, "commands")
    if not commands.has("base_velocity"):
        return None
    ranges = _inner(_inner(commands, "base_velocity"), "ranges")
    known = {
        ours: list(ranges.range(theirs)) for theirs, ours in _RANGES.items() if ranges.raw(theirs, None) is not None
    }
    return {"kind": "twist", **known}


def _inner(table: Table, name: str) -> Table:
    """A table inside another one, empty where it is missing or null."""
    return table.table(name) if table.raw(name, None) is not None else Table({}, table.where, table.key(name))
