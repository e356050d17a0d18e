"""Exploy: the whole environment step in one graph, from raw measurements to joint targets.

Observations, actions and memory are processed inside, so every input is one quantity as it is measured, and every
output a target as it is sent. The graph counts physics steps in `ctx.step_count` and acts at every `decimation`-th; it
is run once for each action, and the count goes on by `decimation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from edgert.contract.foreign import Draft, size, spread, twist
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import terms_key
from edgert.contract.metadata import Metadata
from edgert.contract.plausible import doubtful_gains
from edgert.contract.recurrent import state_pairs
from edgert.errors import ContractError
from edgert.tables import Table

SOURCE: Final = "metadata of Exploy"
_STEP: Final = "ctx.step_count"
_JOINTS: Final = re.compile(r"(obj\.[^.]+\.joints)\.(pos|vel)")
_BODY: Final = re.compile(r"obj\.([^.]+)\.([^.]+)\.([^.]+)")
_IMU: Final = re.compile(r"sensor\.imu\.([^.]+)\.([^.]+)")
_COMMAND: Final = re.compile(r"cmd\.se2_velocity\.([^.]+)")
_TARGETS: Final = re.compile(r"(output\.joint_targets(?:\.[^.]+){1,2})\.(pos|vel|effort)")
_JOINT_TERMS: Final = {"pos": "joint_angle", "vel": "joint_vel"}
_BASE_TERMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "pos_b_rt_w_in_w": {"name": "base_pos"},
    "w_Q_b": {"name": "base_quat"},
    "lin_vel_b_rt_w_in_b": {"name": "base_lin_vel", "point": "com"},
    "ang_vel_b_rt_w_in_b": {"name": "base_ang_vel"},
}
_IMU_TERMS: Final = {"ang_vel_b_rt_w_in_b": "imu_ang_vel", "w_Q_b": "imu_quat"}
_KINDS: Final = {"pos": "position", "vel": "velocity", "effort": "torque"}
_RANGES: Final = {"lin_vel_x": "vx_m_s", "lin_vel_y": "vy_m_s", "ang_vel_z": "wz_rad_s"}
_SIZES: Final = {
    **{"base_pos": 3, "base_quat": 4, "base_lin_vel": 3, "base_ang_vel": 3},
    **{"imu_ang_vel": 3, "imu_quat": 4, "command": 3, "step_count": 1},
}
_KNOWN: Final = (
    "obj.<robot>.joints.{pos,vel}",
    *(f"obj.<robot>.<base>.{field}" for field in _BASE_TERMS),
    *(f"sensor.imu.<name>.{field}" for field in _IMU_TERMS),
    "cmd.se2_velocity.<name>",
    "memory.<name>.in",
    _STEP,
)


class Exploy:
    """The reader; see `edgert.contract.formats`."""

    files = ()
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        targets = [name for name in found.outputs if _TARGETS.fullmatch(name)]
        if not targets:
            return ""
        keys = [key for key in ("exploy_version", "update_rate", "decimation", "sim_dt") if key in found.metadata]
        raw = [name for name in found.inputs if name.startswith(("obj.", "sensor.", "cmd."))]
        if not keys and not raw:
            return ""
        named = [f"metadata {', '.join(keys)}"] if keys else []
        return ", ".join([*named, f"outputs {', '.join(targets[:3])}"])

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        values = Metadata(found.metadata, found.model)
        draft = Draft({"schema": 1})
        steps = _rate(values, draft)
        groups = _groups(found, values)
        terms = _inputs(found, values, draft, steps)
        joints = [name for term in terms.values() for name in term.get("joints", ())]
        names = list(dict.fromkeys([*joints, *(name for group in groups.values() for name in group["names"])]))
        _gains(groups, names, draft)
        draft.document["joints"]["names"] = names
        draft.reasons["joints.default_pos"] = "Exploy keeps it inside the network; give the pose to start from"
        draft.document["inputs"] = {name: {"terms": [term]} for name, term in terms.items()}
        _action(found, groups, draft)
        return draft.reading(SOURCE)


EXPLOY: Final = Exploy()


def _rate(values: Metadata, draft: Draft) -> int:
    """The rate of the actions; physics steps for each of them."""
    steps = values.integers("decimation", 1, 10_000)[0] if values.has("decimation") else 1
    if steps < 1:
        values.fail("decimation", found=steps, expected="at least 1")
    rates = {key: values.numbers(key, 1)[0] for key in ("update_rate", "sim_dt") if values.has(key)}
    for key, value in rates.items():
        if value <= 0.0:
            values.fail(key, found=f"{value:g}", expected="more than 0")
    physics_hz = 1.0 / rates["sim_dt"] if "sim_dt" in rates else rates.get("update_rate")
    if physics_hz is None:
        return steps
    update_hz = rates.get("update_rate", physics_hz)
    if not any(math.isclose(update_hz, hz, rel_tol=0.01) for hz in (physics_hz, physics_hz / steps)):
        values.fail(
            "update_rate",
            found=f"{update_hz:g} Hz beside a sim_dt of {rates['sim_dt']:g} s",
            expected=f"{physics_hz:g} Hz, that of the physics",
        )
    draft.document["control_hz"] = round(physics_hz / steps, 6)
    if not values.has("decimation"):
        draft.notes.append(f"no decimation is stated: an action every physics step, {physics_hz:g} Hz")
    return steps


def _groups(found: Evidence, values: Metadata) -> dict[str, dict[str, Any]]:
    """Joints and gains of each group of targets."""
    groups: dict[str, dict[str, Any]] = {}
    for name, shape in found.outputs.items():
        target = _TARGETS.fullmatch(name)
        if target is None:
            if name.startswith("output."):
                raise ContractError(
                    f"policy {found.model}: output '{name}' is unknown",
                    expected="output.joint_targets.<robot>.<action>.{pos,vel,effort}",
                )
            continue
        group = groups.setdefault(target[1], {})
        if not group:
            names = _names(values, target[1])
            table = values.table(target[1])
            kp, kd = (spread(table, key, len(names)) for key in ("stiffness", "damping"))
            group |= {"names": names, "kp": kp, "kd": kd}
        many = size(shape)
        if many is not None and many != len(group["names"]):
            raise ContractError(
                f"policy {found.model}: output '{name}' has another number of joints than its metadata name",
                found=many,
                expected=len(group["names"]),
            )
    return groups


def _inputs(found: Evidence, values: Metadata, draft: Draft, steps: int) -> dict[str, dict[str, Any]]:
    """The one term of each input."""
    memory = state_pairs(tuple(found.inputs), tuple(found.outputs))
    bases = _bases(found, values, draft)
    terms: dict[str, dict[str, Any]] = {}
    for name in found.inputs:
        term = {} if name in memory else _input(values, name, bases, steps)
        if term:
            terms[name] = term
        elif name not in memory and _JOINTS.fullmatch(name):
            draft.reasons[terms_key(name)] = f"metadata '{name.rpartition('.')[0]}' is missing"
        elif name not in memory:
            draft.reasons[terms_key(name)] = f"unknown; known are {', '.join(_KNOWN)}"
    for name, term in terms.items():
        many, wanted = size(found.inputs[name]), len(term["joints"]) if "joints" in term else _SIZES[term["name"]]
        if many is not None and many != wanted:
            raise ContractError(
                f"policy {found.model}: input '{name}' has the wrong size for a {term['name']}",
                found=many,
                expected=wanted,
            )
    bodies = sorted({each[1] for each in map(_JOINTS.fullmatch, terms) if each})
    if len(bodies) > 1:
        raise ContractError(f"policy {found.model} moves more than one robot", found=", ".join(bodies), expected="one")
    _drop_several(draft, terms, _COMMAND, "command")
    _drop_several(draft, terms, _IMU, "IMU")
    imus = sorted({each[1] for each in map(_IMU.fullmatch, terms) if each})
    if imus:
        draft.notes.append(f"its IMU '{imus[0]}' is taken for the scene's sensors imu_ang_vel and imu_quat")
    for name in terms:
        if _COMMAND.fullmatch(name):
            draft.document["command"] = _command(values, name)
    if any(term["name"] == "base_lin_vel" for term in terms.values()):
        draft.notes.append(
            "base_lin_vel is that of the base's centre of mass, as Isaac Lab and Exploy's mjlab measure it"
        )
    return terms


def _names(values: Metadata, group: str) -> list[str]:
    """The joints of a group: a list of its own, or one in its table."""
    if not isinstance(values.value(group), dict):
        return values.names(group)
    table = values.table(group)
    return list(table.names("joint_names" if "joint_names" in table.data else "names"))


def _input(values: Metadata, name: str, bases: Mapping[str, str], steps: int) -> dict[str, Any]:
    """The term of an input; empty if it is unknown."""
    if name == _STEP:
        return {"name": "step_count"} | ({"scale": float(steps)} if steps > 1 else {})
    joints = _JOINTS.fullmatch(name)
    if joints is not None:
        known = values.has(joints[1])
        return {"name": _JOINT_TERMS[joints[2]], "joints": _names(values, joints[1])} if known else {}
    body = _BODY.fullmatch(name)
    if body is not None and bases.get(body[1]) == body[2] and body[3] in _BASE_TERMS:
        return dict(_BASE_TERMS[body[3]])
    imu = _IMU.fullmatch(name)
    if imu is not None and imu[2] in _IMU_TERMS:
        return {"name": _IMU_TERMS[imu[2]]}
    if _COMMAND.fullmatch(name):
        return {"name": "command"}
    return {}


def _bases(found: Evidence, values: Metadata, draft: Draft) -> dict[str, str]:
    """The base body of each articulated body. Older files do not say: one body alone is taken for it."""
    stated: list[str] | None = None
    if values.has("base_names"):
        if isinstance(values.value("base_names"), dict):
            table = values.table("base_names")
            return {name: table.text(name) for name in table.data}
        stated = values.names("base_names")
    bodies = {(each[1], each[2]) for each in map(_BODY.fullmatch, found.inputs) if each and each[3] in _BASE_TERMS}
    if stated is not None:
        return dict(body for body in bodies if body[1] in stated)
    if len(bodies) == 1:
        (body,) = bodies
        draft.notes.append(f"no base is named: '{body[1]}' is taken for it, the only body that is measured")
    return dict(bodies) if len(bodies) == 1 else {}


def _drop_several(draft: Draft, terms: dict[str, dict[str, Any]], form: re.Pattern[str], what: str) -> None:
    """Leave it to the user which is which, where there is more than one of a kind."""
    named = {name: match[1] for name in terms if (match := form.fullmatch(name)) is not None}
    if len(set(named.values())) > 1:
        for name in named:
            del terms[name]
            draft.reasons[terms_key(name)] = f"one {what} of {', '.join(sorted(set(named.values())))}"


def _command(values: Metadata, name: str) -> dict[str, Any]:
    ranges: Table | None = None
    if values.has(name):
        table = values.table(name)
        ranges = table.table("ranges") if table.raw("ranges", None) is not None else None
    return twist(ranges, _RANGES)


def _gains(groups: Mapping[str, Mapping[str, Any]], names: list[str], draft: Draft) -> None:
    """Gains by joint: 0 for those that no target moves."""
    kp, kd = (dict.fromkeys(names, 0.0) for _ in range(2))
    for group in groups.values():
        kp |= zip(group["names"], group["kp"], strict=True)
        kd |= zip(group["names"], group["kd"], strict=True)
    draft.document["joints"] = {}
    why = doubtful_gains(list(kp.values()), list(kd.values()), "stiffness and damping")
    if why:
        draft.reasons |= dict.fromkeys(("joints.kp", "joints.kd"), why)
        return
    draft.document["joints"] |= {"kp": list(kp.values()), "kd": list(kd.values())}
    free = [name for name in names if not any(name in group["names"] for group in groups.values())]
    if free:
        draft.notes.append(f"not driven, as no output moves them: {', '.join(free)}")


def _action(found: Evidence, groups: Mapping[str, Mapping[str, Any]], draft: Draft) -> None:
    """Every target as it comes out: position, velocity and torque of each joint."""
    outputs, joints, kinds = [], [], []
    for name in found.outputs:
        target = _TARGETS.fullmatch(name)
        if target is not None:
            names = groups[target[1]]["names"]
            outputs.append(name)
            joints += names
            kinds += [_KINDS[target[2]]] * len(names)
    draft.document["action"] = {"output": outputs, "joints": joints, "kind": kinds, "scale": 1.0, "offset": 0.0}
