"""`deploy.yaml` of unitree_rl_lab and unitree_rl_mjlab.

Stiffness and damping stand in the order of the motors, everything else in that of the policy, and
`joint_ids_map[policy index]` is the motor's index. The file names no joints: for a robot whose SDK is known a motor's
joint is known too; otherwise a motor's index is taken for the place of its joint among the actuated joints of the
robot's scene, if there are as many of them. Either is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgert.contract.foreign import (
    LOOSE,
    Run,
    action_document,
    bounds,
    evident,
    given,
    indices,
    inner,
    numbers,
    observed,
    one_bound,
    only_file,
    spread,
    twist,
    whole,
)
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import terms_key
from edgert.contract.motors import FROM_SCENE, find_motors
from edgert.contract.plausible import doubtful_gains, unknown_terms
from edgert.errors import ContractError
from edgert.tables import Table, show

FILE: Final = "deploy.yaml"
_TERMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "base_lin_vel": {"name": "base_lin_vel"},
    "base_ang_vel": {"name": "base_ang_vel"},
    "projected_gravity": {"name": "projected_gravity"},
    "velocity_commands": {"name": "command"},
    "keyboard_velocity_commands": {"name": "command"},
    "command_lin_vel": {"name": "command", "index": [0, 1]},
    "command_ang_vel": {"name": "command", "index": [2]},
    "joint_pos": {"name": "joint_angle"},
    "joint_pos_rel": {"name": "joint_pos"},
    "joint_vel": {"name": "joint_vel"},
    "joint_vel_rel": {"name": "joint_vel"},
    "last_action": {"name": "last_action"},
    "gait_phase": {"name": "phase"},
    "motion_command": {"name": "motion_command"},
    "motion_joint_pos": {"name": "motion_joint_pos"},
    "motion_joint_vel": {"name": "motion_joint_vel"},
    "motion_anchor_pos_b": {"name": "motion_anchor_pos_b"},
    "motion_anchor_ori_b": {"name": "motion_anchor_ori_b"},
}
_OF_JOINTS: Final = ("joint_angle", "joint_pos", "joint_vel", "motion_command", "motion_joint_pos", "motion_joint_vel")
_KINDS: Final = {"JointPositionAction": "position", "JointVelocityAction": "velocity", "JointEffortAction": "torque"}
_RANGES: Final = {"lin_vel_x": "vx_m_s", "lin_vel_y": "vy_m_s", "ang_vel_z": "wz_rad_s"}
_KEYS: Final = ("joint_ids_map", "stiffness", "observations", "actions")
_SWITCHES: Final = ("use_gym_history", "scale_first")
_TERM_KEYS: Final = ("params", "clip", "scale", "history_length")
_ANCHOR: Final = "torso_link"
"""The body that Unitree's deploy code of the G1 compares with the reference motion; the file does not name it."""


class Unitree:
    """The reader; see `edgert.contract.formats`."""

    files = (FILE, *LOOSE)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        names = evident(found, _holds, (FILE,))
        keys = [key for key in _KEYS if names and key in found.sidecars[names[0]]]
        return f"{', '.join(names)} with {', '.join(keys)}" if names else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        file = only_file(found, evident(found, _holds, (FILE,)), "Unitree's trainers")
        table = Table(found.sidecars[file], file)
        body = _body(found, table)
        inputs, used, reasons = _inputs(table, observed(found), body)
        joints: dict[str, Any] = {"default_pos": body.default_pos}
        joints |= {} if body.doubt else {"kp": body.kp, "kd": body.kd}
        document: dict[str, Any] = {
            "schema": 1,
            "joints": {"names": list(body.names), **joints} if body.names else joints,
            "inputs": inputs,
            "action": _action(table.table("actions"), body),
        }
        if given(table, "step_dt"):
            document["control_hz"] = 1.0 / table.number("step_dt", above=0.0)
        notes, sources = list(body.notes), dict(body.sources)
        reasons |= dict.fromkeys(("joints.kp", "joints.kd"), body.doubt) if body.doubt else {}
        reasons |= {} if body.names else {"joints.names": FROM_SCENE}
        command = _command(table)
        if command is not None or "command" in used.values():
            document["command"] = command or {"kind": "twist"}
        if "gait_phase" in used:
            document["phase"] = {"hz": 1.0 / _period(table)}
            notes.append("gait_phase runs all the time, as in unitree_rl_lab; the file does not say if it ever stops")
        if "base_lin_vel" in used and inputs:
            sources[f"inputs.{next(iter(inputs))}.terms"] = f"{file}; point of base_lin_vel assumed"
            notes.append(f"{file} does not say at which point base_lin_vel is: the base's origin is assumed")
        if any(name.startswith("motion") for name in used):
            document["motion"] = {"joints": list(body.by_motor), "anchor": _ANCHOR} if body.by_motor else {}
            sources |= dict.fromkeys(("motion.joints", "motion.anchor"), "assumed: as in Unitree's deploy code")
            notes.append(f"a motion's columns are taken in motor order, and {_ANCHOR} for its anchor")
            reasons["motion.file"] = f"{file} names no motion"
        return Reading(document=document, source=file, sources=sources, notes=tuple(notes), reasons=reasons)


UNITREE: Final = Unitree()


def _holds(document: Mapping[str, Any]) -> bool:
    return sum(key in document for key in _KEYS) >= 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """The joints: those of the policy first, in its order, then those that are held."""

    count: int
    """How many the policy knows."""
    names: tuple[str, ...]
    """Empty while no robot is named."""
    by_motor: tuple[str, ...]
    """The policy's in the order of their motors."""
    default_pos: list[float]
    kp: list[float]
    kd: list[float]
    sources: Mapping[str, str]
    notes: tuple[str, ...]
    doubt: str
    """Why these gains cannot be the trained ones, or ""."""

    def chosen(self, table: Table, name: str) -> list[str] | None:
        """The joints that indices in a file mean; None for all of the policy's."""
        ids = indices(table, name, self.count)
        if ids is None or ids == list(range(self.count)):
            return None
        if not self.names:
            table.fail(name, found=show(ids), expected="a robot whose joints they are", hint="Name it with --sim")
        return [self.names[i] for i in ids]


def _body(found: Evidence, table: Table) -> _Body:
    order = table.raw("joint_ids_map")
    if not whole(order) or not order or len(set(order)) < len(order) or min(order) < 0:
        table.fail("joint_ids_map", found=show(order), expected="the motor's index of each joint, each once")
    gains = {name: table.numbers(name) for name in ("stiffness", "damping")}
    motors = find_motors(found, order, len(gains["stiffness"]), table.where, "joint_ids_map")
    listed = _listed(table, gains, order, motors.gaps)
    positions = "JointPositionAction" in inner(table, "actions").data
    held = [
        motor
        for motor in motors.joints
        if motor not in order and motor in listed and gains["stiffness"][listed[motor]] > 0.0
    ]
    driven = [*order, *held]
    sources, notes = {"joints.names": motors.source} if motors.joints else {}, [motors.note]
    if held:
        names = ", ".join(motors.joints[motor] for motor in held)
        sources["joints.default_pos"] = f"{table.where}; assumed 0 rad for {names}"
        notes.append(f"the policy does not drive {names}: held at 0 rad, which is assumed, with their gains")
    return _Body(
        count=len(order),
        names=tuple(motors.joints[motor] for motor in driven) if motors.joints else (),
        by_motor=tuple(motors.joints[motor] for motor in sorted(order)) if motors.joints else (),
        default_pos=[*table.numbers("default_joint_pos", length=len(order)), *(0.0 for _ in held)],
        kp=[gains["stiffness"][listed[motor]] for motor in driven],
        kd=[gains["damping"][listed[motor]] for motor in driven],
        sources=sources,
        notes=tuple(notes),
        doubt=doubtful_gains(gains["stiffness"], gains["damping"], "stiffness and damping") if positions else "",
    )


def _listed(table: Table, gains: Mapping[str, Sequence[float]], order: Sequence[int], gaps: bool) -> Mapping[int, int]:
    """The place of each motor in the lists of gains.

    A robot without some of its kind's motors may have them left out of the lists: then the others keep their order.
    """
    for name, values in gains.items():
        if gaps and len(values) == len(order):
            continue
        if len(values) <= max(order) or (not gaps and len(values) < len(order)):
            table.fail(name, found=f"{len(values)} numbers", expected=f"{max(order) + 1}, one for each motor")
    if len({len(values) for values in gains.values()}) > 1:
        table.fail("damping", found=f"{len(gains['damping'])} numbers", expected=f"{len(gains['stiffness'])}")
    length = len(gains["stiffness"])
    if length <= max(order):
        return {motor: place for place, motor in enumerate(sorted(order))}
    return {motor: motor for motor in range(length)}


def _action(table: Table, body: _Body) -> dict[str, Any]:
    """One run of numbers for each action term, side by side."""
    unknown = [name for name in table.data if name not in _KINDS]
    if unknown or not table.data:
        found = ", ".join(map(str, table.data)) or "none"
        raise ContractError(
            f"{table.where}: the policy's actions are not those of joints alone",
            found=found,
            expected="some of " + ", ".join(_KINDS),
        )
    return action_document([_run(term, table.table(term), body) for term in table.data])


def _run(term: str, entry: Table, body: _Body) -> Run:
    chosen = body.chosen(entry, "joint_ids")
    count = body.count if chosen is None else len(chosen)
    names = list(body.names[: body.count]) if chosen is None else chosen
    _check_names(entry, names)
    kind = _KINDS[term]
    if given(entry, "offset"):
        offset = spread(entry, "offset", count)
    elif kind == "position":
        places = range(count) if chosen is None else [body.names.index(name) for name in chosen]
        offset = [body.default_pos[place] for place in places]
    else:
        offset = [0.0] * count
    return Run(
        joints=names, kind=kind, scale=spread(entry, "scale", count), offset=offset,
        target_clip=bounds(entry, "clip", count),
    )  # fmt: skip


def _check_names(entry: Table, names: Sequence[str]) -> None:
    """Refuse an action whose joints are named, without patterns, and are others."""
    stated = entry.raw("joint_names", None)
    plain = isinstance(stated, list) and bool(stated) and all(_is_plain(name) for name in stated)
    if plain and names and set(stated) != set(names):
        entry.fail(
            "joint_names",
            found=", ".join(map(str, stated)),
            expected=", ".join(names),
            hint="Name the scene of its robot with --sim",
        )


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name.replace("_", "").isalnum()


def _inputs(
    document: Table, names: Sequence[str], body: _Body
) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """The terms of each input; every observation that is used, with the term that it is; and why terms are missing."""
    table = document.table("observations")
    groups = {name: table.table(name) for name in table.data} if _is_grouped(table) else {"": table}
    if groups.keys() == {""}:
        if len(names) != 1:
            raise ContractError(
                f"the policy does not take the one input that {table.where} describes", found=", ".join(names) or "none"
            )
        groups = {names[0]: table}
    elif len(groups) == len(names) == 1:
        groups = dict(zip(names, groups.values(), strict=True))
    elif not set(names).issubset(groups):  # others are the critic's
        raise ContractError(
            f"{table.where} describes other inputs than the policy takes",
            found=", ".join(groups),
            expected=", ".join(names),
        )
    inputs: dict[str, Any] = {}
    used: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name in names:
        group = groups[name]
        switches = {
            key: group.flag(key, table.flag(key, document.flag(key, False))) for key in _SWITCHES
        }  # wherever they are written
        unknown = [key for key in group.data if key not in _TERMS and key not in _SWITCHES]
        if unknown:
            reasons[terms_key(name)] = f"{table.where}: {unknown_terms(unknown, _TERMS)}"
        terms = _terms(group, body, used, scale_first=switches["scale_first"])
        if not terms and not unknown:
            raise ContractError(f"{table.where} lists no observations", found=group.path)
        if unknown:
            continue
        inputs[name] = {"terms": terms, "layout": "frame" if switches["use_gym_history"] else "term"}
    return inputs, used, reasons


def _is_grouped(table: Table) -> bool:
    """Whether observations stand in groups, one for each input, instead of side by side."""
    entries = [value for key, value in table.data.items() if key not in _SWITCHES]
    if not entries or any(not isinstance(value, Mapping) for value in entries) or len(entries) < len(table.data):
        return False
    nested = [isinstance(inside, Mapping) for value in entries for key, inside in value.items() if key not in _SWITCHES]
    return bool(nested) and all(nested) and not any(key in value for value in entries for key in _TERM_KEYS)


def _terms(group: Table, body: _Body, used: dict[str, str], *, scale_first: bool) -> list[dict[str, Any]]:
    terms = []
    for key in group.data:
        if key in _SWITCHES:
            continue
        known = _TERMS.get(key)
        if known is None:
            continue  # said by the caller
        entry = group.table(key)
        term: dict[str, Any] = {**known, "history": max(1, entry.integer("history_length", 1, lo=0))}
        if given(entry, "scale"):
            term["scale"] = numbers(entry, "scale")
        clip = one_bound(entry, "clip")
        if clip is not None:
            term |= {"clip": clip, "clip_first": not entry.flag("scale_first", scale_first)}
        if term["name"] in _OF_JOINTS:
            chosen = body.chosen(inner(inner(entry, "params"), "asset_cfg"), "joint_ids")
            if chosen is None and len(body.names) > body.count:
                chosen = list(body.names[: body.count])
            if chosen is not None:
                term["joints"] = chosen
        used[key] = term["name"]
        terms.append(term)
    return terms


def _period(table: Table) -> float:
    """Seconds of a gait cycle."""
    observations = table.table("observations")
    groups = [observations, *(observations.table(name) for name in observations.data if _is_grouped(observations))]
    found = {
        inner(group.table("gait_phase"), "params").number("period", lo=1e-3, hi=1e3)
        for group in groups
        if "gait_phase" in group.data
    }
    if len(found) != 1:
        raise ContractError(f"{table.where} gives gait_phase several periods", found=", ".join(map(str, sorted(found))))
    return found.pop()


def _command(table: Table) -> dict[str, Any] | None:
    commands = inner(table, "commands")
    if not commands.has("base_velocity"):
        return None
    ranges = inner(inner(commands, "base_velocity"), "ranges")
    return twist(ranges, _RANGES)
