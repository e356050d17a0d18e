"""Isaac Lab's IO descriptors: `IO_descriptors.yaml`, written beside a run by `--export_io_descriptors`.

It names the joints of every term and states pose, gains, rate, scales and clips. Isaac Lab clips an observation before
it scales it, and a target after it has scaled and offset it. What the file cannot say: gains of an explicit actuator
model, which it writes as 0, in some versions the order of a quaternion, and the grid of a height scan, which most
versions leave out altogether.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgert.contract.foreign import (
    LOOSE,
    MAX_DECIMATION,
    Run,
    action_document,
    bounds,
    evident,
    given,
    inner,
    numbers,
    observed,
    one_bound,
    only_file,
    size,
    spread,
)
from edgert.contract.formats import Evidence, Reading, Shape
from edgert.contract.input_document import terms_key
from edgert.contract.senses import HeightScan
from edgert.errors import ContractError
from edgert.tables import Table, is_number, show, type_name

_KEYS: Final = ("actions", "articulations", "observations")
_USUAL: Final = ("*IO_descriptors.y*ml", "*io_descriptors.y*ml")
_GROUP: Final = "policy"
_TERMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "base_pos_z": {"name": "base_height"},
    "base_lin_vel": {"name": "base_lin_vel", "point": "com"},
    "base_ang_vel": {"name": "base_ang_vel"},
    "projected_gravity": {"name": "projected_gravity"},
    "root_pos_w": {"name": "base_pos"},
    "root_quat_w": {"name": "base_quat"},
    "root_lin_vel_w": {"name": "base_lin_vel", "point": "com", "frame": "world"},
    "root_ang_vel_w": {"name": "base_ang_vel", "frame": "world"},
    "joint_pos": {"name": "joint_angle"},
    "joint_pos_rel": {"name": "joint_pos"},
    "joint_vel": {"name": "joint_vel"},
    "joint_vel_rel": {"name": "joint_vel"},
    "joint_effort": {"name": "joint_torque"},
    "imu_orientation": {"name": "imu_quat"},
    "imu_ang_vel": {"name": "imu_ang_vel"},
    "imu_lin_acc": {"name": "imu_lin_acc"},
    "last_action": {"name": "last_action"},
    "height_scan": {"name": "height_scan"},
    "generated_commands": {"name": "command"},
    "velocity_commands": {"name": "command"},
    "actions": {"name": "last_action"},
}
"""By function; the last two are usual names of terms, where a file has those."""
_PER_JOINT: Final = (
    "scale", "offset", "default_joint_pos", "default_joint_stiffness", "default_joint_damping",
)  # fmt: skip
_QUATERNIONS: Final = ("base_quat", "imu_quat")
_OF_JOINTS: Final = ("joint_angle", "joint_pos", "joint_vel", "joint_torque")
_UNSUPPORTED: Final = {
    "image": "a camera",
    "image_features": "a camera",
    "body_pose_w": "the poses of bodies",
    "body_projected_gravity_b": "the orientation of bodies",
    "body_incoming_wrench": "forces between bodies",
    "joint_pos_limit_normalized": "the joint limits of the trainer",
    "current_time_s": "the time of the episode",
    "remaining_time_s": "the time of the episode",
}
_ACTIONS: Final = {
    "joint_position_action": "position",
    "relative_joint_position_action": "relative_position",
    "joint_velocity_action": "velocity",
    "joint_effort_action": "torque",
}
_ORDERS: Final = ("wxyz", "xyzw")
_WORDS: Final = {"(w, x, y, z)": "wxyz", "(x, y, z, w)": "xyzw"}
_CLOSE: Final = 1e-6
_SCAN: Final = HeightScan()


class IsaacLab:
    """The reader; see `edgert.contract.formats`."""

    files = ("IO_descriptors.yaml", *LOOSE)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        names = evident(found, _holds, _USUAL)
        return f"{', '.join(names)} with {', '.join(_KEYS)}" if names else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        file = only_file(found, evident(found, _holds, _USUAL), "IO descriptors")
        table = Table(found.sidecars[file], file)
        robot = _one_of_all(_robot(table.table("articulations")))
        joints = list(robot.names("joint_names"))
        count = len(joints)
        pose = list(robot.numbers("default_joint_pos", length=count))
        runs = [_run(entry) for entry in _list(table, "actions")]
        sources: dict[str, str] = {}
        document: dict[str, Any] = {
            "schema": 1,
            "control_hz": _rate(inner(table, "scene")),
            "joints": {"names": joints, "default_pos": pose},
            "inputs": {},
            "action": action_document(runs),
        }
        if document["control_hz"] is None:
            del document["control_hz"]
        reason = _gains(robot, joints, runs, document["joints"])
        reasons = {"joints.kp": reason, "joints.kd": "as joints.kp"} if reason else {}
        used: set[str] = set()
        notes: list[str] = []
        flat = [name for name in observed(found) if len(found.inputs[name]) < 3]  # images are no groups of terms
        for name, entries in _groups(table.table("observations"), flat, file).items():
            unknown = [why for why in map(_unknown, entries) if why]
            if unknown:
                reasons[terms_key(name)] = f"{file}: {'; '.join(unknown)}; known are {', '.join(_TERMS)}"
                used |= {_TERMS[kind]["name"] for kind in map(_kind, entries) if kind in _TERMS}
                continue
            terms = [_term(entry, joints, pose) for entry in entries]
            _flat_sizes(terms, size(found.inputs[name]))
            _check_command(terms, file)
            assumed, why = _scan(terms, found.inputs[name], file)
            if why:
                reasons[terms_key(name)] = why
                continue
            unordered = [term["name"] for term in terms if term.get("order") == ""]
            if unordered:
                reasons[terms_key(name)] = (
                    f"{file} does not tell if {', '.join(unordered)} is wxyz or xyzw, as Isaac Lab 3 has it"
                )
                continue
            document["inputs"][name] = {"terms": terms}
            used |= {term["name"] for term in terms}
            if any(term.get("point") == "com" for term in terms):
                sources[f"inputs.{name}.terms"] = f"{file}; base_lin_vel at the centre of mass, as Isaac Lab takes it"
            if assumed:
                notes.append(f"input '{name}': {assumed}")
                sources[f"inputs.{name}.terms"] = f"{sources.get(f'inputs.{name}.terms', file)}; {assumed}"
        if "command" in used:
            document["command"] = {"kind": "twist"}
            sources["command.kind"] = "assumed: three generated_commands are a twist"
        return Reading(document=document, source=file, sources=sources, reasons=reasons, notes=tuple(notes))


ISAAC_LAB: Final = IsaacLab()


def _holds(document: Mapping[str, Any]) -> bool:
    return all(key in document for key in _KEYS) and isinstance(document["actions"], list)


def _robot(articulations: Table) -> Table:
    names = list(articulations.data)
    if "robot" not in names and len(names) != 1:
        articulations.fail("robot", found=", ".join(map(str, names)) or "none", expected="the articulation that acts")
    return articulations.table("robot" if "robot" in names else names[0])


def _list(table: Table, name: str) -> list[Table]:
    """A list of tables."""
    value = table.raw(name)
    if not isinstance(value, list) or not value or not all(isinstance(entry, Mapping) for entry in value):
        table.fail(name, found=f"{type_name(value)} {show(value)}", expected="a list of terms")
    return [Table(entry, table.where, f"{table.key(name)}[{number}]") for number, entry in enumerate(value)]


def _rate(scene: Table) -> float | None:
    """Control ticks a second, None where the file does not say."""
    physics = scene.number("physics_dt", above=0.0) if given(scene, "physics_dt") else None
    every = scene.integer("decimation", lo=1, hi=MAX_DECIMATION) if given(scene, "decimation") else None
    product = physics * every if physics is not None and every is not None else None
    period = scene.number("dt", above=0.0) if given(scene, "dt") else product
    if period is not None and product is not None and not math.isclose(period, product, rel_tol=1e-4):
        scene.fail("dt", found=f"{period:g} s", expected=f"physics_dt × decimation, {product:g} s")
    return None if period is None else 1.0 / period


def _gains(robot: Table, joints: Sequence[str], runs: Sequence[Run], document: dict[str, Any]) -> str:
    """Adds the gains to the document, or says why they are not in the file."""
    kp, kd = (list(robot.numbers(f"default_joint_{name}", length=len(joints))) for name in ("stiffness", "damping"))
    needed = {"position": kp, "relative_position": kp, "velocity": kd}
    weak = [
        name
        for run in runs
        for name in run.joints
        if run.kind in needed and name in joints and needed[run.kind][joints.index(name)] == 0.0
    ]
    if weak:
        return (
            f"gains of 0 for {', '.join(weak[:3])}{' …' if len(weak) > 3 else ''}: an explicit actuator model, whose "
            "gains are in the trainer's configuration alone"
        )
    document |= {"kp": kp, "kd": kd}
    return ""


def _run(entry: Table) -> Run:
    """One action term."""
    name = entry.text("name")
    if name not in _ACTIONS:  # the name of the term, perhaps, and not that of its kind
        name = _snake(_function(entry))
    if name not in _ACTIONS:
        name = entry.text("name")
        raise ContractError(
            f"{entry.where}: action '{name}' is not supported",
            found=entry.raw("full_path", "") or "",
            expected="one of " + ", ".join(_ACTIONS),
        )
    joints = entry.names("joint_names")
    if given(entry, "shape") and entry.raw("shape") != [len(joints)]:
        entry.fail("shape", found=show(entry.raw("shape")), expected=f"[{len(joints)}], one for each joint")
    count = len(joints)
    flat = _one_of_all(entry)
    return Run(
        joints=joints,
        kind=_ACTIONS[name],
        scale=spread(flat, "scale", count) if given(flat, "scale") else [1.0] * count,
        offset=spread(flat, "offset", count) if given(flat, "offset") else [0.0] * count,
        target_clip=bounds(flat, "clip", count),
    )


def _one_of_all(entry: Table) -> Table:
    """A table without the axis of environments: what was written once for each of them, all alike."""
    result = {}
    for name, value in entry.data.items():
        axes = 2 if name == "clip" else 1 if name in _PER_JOINT else 0
        row: object = value
        for _ in range(axes):
            row = row[0] if isinstance(row, list) and row else None
        if axes and isinstance(row, list):
            if any(each != value[0] for each in value):
                entry.fail(name, found=show(value), expected="the same for every environment")
            result[name] = value[0]
    return Table({**entry.data, **result}, entry.where, entry.path)


def _function(entry: Table) -> str:
    """What computes a term, "" where the file does not say."""
    path = entry.raw("full_path", None)
    return path.replace(":", ".").rpartition(".")[2] if isinstance(path, str) else ""


def _snake(name: str) -> str:
    """A class as Isaac Lab writes its name: "JointPositionAction" as "joint_position_action"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _groups(observations: Table, names: Sequence[str], file: str) -> dict[str, list[Table]]:
    """The observation terms of each input: a group of its name, or the group of the policy for the only one."""
    groups = list(observations.data)
    if len(names) == 1:
        group = names[0] if names[0] in groups else _GROUP if _GROUP in groups else ""
        if not group and len(groups) == 1:
            group = groups[0]
        pairs = {names[0]: group}
    else:
        pairs = {name: name if name in groups else _GROUP if name == "obs" else "" for name in names}
    for name, group in pairs.items():
        if group not in groups:
            raise ContractError(
                f"{file} describes no observations for input '{name}'",
                found=", ".join(map(str, groups)) or "none",
                expected=f"a group '{name}'",
            )
    return {name: _list(observations, group) for name, group in pairs.items()}


def _kind(entry: Table) -> str:
    """Isaac Lab's name for what an observation is, or that of the file.

    It writes the name of the function; a file may have that of the term instead, `joint_pos` for `joint_pos_rel`.
    """
    function, name = _function(entry), entry.text("name")
    if function in _TERMS:
        return function
    for plain, offsets in (("joint_pos", "joint_pos_offsets"), ("joint_vel", "joint_vel_offsets")):
        if name == plain and not function and given(entry, offsets):
            return f"{plain}_rel"  # only these are measured from an offset
    return name


def _unknown(entry: Table) -> str:
    """Why a term is not understood; "" if it is."""
    name = _kind(entry)
    return "" if name in _TERMS else f"{name} needs {_UNSUPPORTED[name]}" if name in _UNSUPPORTED else f"{name} unknown"


def _flat_sizes(terms: list[dict[str, Any]], takes: int | None) -> None:
    """Take the history out of the sizes of terms, where only so they are the numbers of the input."""
    if not all("dim" in term and term["dim"] % term["history"] == 0 for term in terms):
        return
    told = sum(term["dim"] for term in terms)
    if takes == told != sum(term["dim"] * term["history"] for term in terms):
        for term in terms:
            term["dim"] //= term["history"]


def _check_command(terms: Sequence[Mapping[str, Any]], file: str) -> None:
    sizes = [term["dim"] for term in terms if term["name"] == "command" and term.get("dim", 3) != 3]
    if sizes:
        raise ContractError(f"{file}: its command has {sizes[0]} numbers", expected="3, a commanded twist")


def _term(entry: Table, joints: Sequence[str], pose: Sequence[float]) -> dict[str, Any]:
    """One observation term; the order of a quaternion is "" where the file leaves it open."""
    term: dict[str, Any] = dict(_TERMS[_kind(entry)])
    extras, overloads = inner(entry, "extras"), inner(entry, "overloads")
    if given(extras, "modifiers") and extras.raw("modifiers") != []:
        extras.fail("modifiers", found=show(extras.raw("modifiers")), expected="null, as filters are not supported")
    term["history"] = max(1, overloads.integer("history_length", 0, lo=0))
    if term["history"] > 1 and not overloads.flag("flatten_history_dim", True):
        overloads.fail("flatten_history_dim", found="false", expected="true, as one row of numbers goes in")
    if given(overloads, "scale"):
        term["scale"] = numbers(overloads, "scale")
    clip = one_bound(overloads, "clip")
    if clip is not None:
        term |= {"clip": clip, "clip_first": True}
    shape = entry.raw("shape", None)
    if shape is not None:
        if not isinstance(shape, list) or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] < 1:
            entry.fail("shape", found=show(shape), expected="[n], a row of numbers")
        term["dim"] = shape[0]
    if term["name"] in _QUATERNIONS:
        term["order"] = _order(extras)
    if term["name"] in _OF_JOINTS and given(entry, "joint_names"):
        names = list(entry.names("joint_names"))
        _check_offsets(entry, names, joints, pose)
        if names != list(joints):
            term["joints"] = names
    return term


def _scan(terms: list[dict[str, Any]], shape: Shape, file: str) -> tuple[str, str]:
    """What has to be assumed of a height scan, and why none can be; adds the usual one where just that is left out."""
    for term in terms:
        if term["name"] == "height_scan":
            if term.get("dim", _SCAN.dim) == _SCAN.dim:
                return f"assumed: {_SCAN.words()}", ""
            return "", f"{file} has a height_scan of {term['dim']} points, and does not tell their grid"
    takes = size(shape)
    told = sum(term["dim"] * term["history"] for term in terms) if all("dim" in term for term in terms) else None
    if told is not None and takes is not None and takes - told == _SCAN.dim:
        terms.append({"name": "height_scan", "history": 1, "dim": _SCAN.dim, "clip": [-1.0, 1.0], "clip_first": True})
        return (
            f"assumed: the {_SCAN.dim} numbers that {file} leaves out are a {_SCAN.words()}, within ±1 m, at the end",
            "",
        )
    return "", ""


def _order(extras: Table) -> str:
    """The order of a quaternion as its axes and description tell; "" where they do not, or contradict each other."""
    axes = extras.raw("axes", None)
    letters = "".join(map(str, axes)) if isinstance(axes, list) else axes if isinstance(axes, str) else ""
    told = {letters.lower()}.intersection(_ORDERS)
    words = extras.raw("description", None)
    if isinstance(words, str):
        told |= {order for text, order in _WORDS.items() if text in words}
    return told.pop() if len(told) == 1 else ""


def _check_offsets(entry: Table, names: Sequence[str], joints: Sequence[str], pose: Sequence[float]) -> None:
    """Refuse offsets of joint positions or velocities that are not the default pose, or not 0."""
    unknown = [name for name in names if name not in joints]
    if unknown:
        entry.fail("joint_names", found=", ".join(unknown), expected="some of " + ", ".join(joints))
    expected = {
        "joint_pos_offsets": [pose[joints.index(name)] for name in names],
        "joint_vel_offsets": [0.0] * len(names),
    }
    for key, values in expected.items():
        if not given(entry, key):
            continue
        stated = entry.raw(key)
        stated = stated[0] if isinstance(stated, list) and stated and isinstance(stated[0], list) else stated
        fits = isinstance(stated, list) and len(stated) == len(values) and all(map(is_number, stated))
        if not fits or any(abs(a - b) > _CLOSE for a, b in zip(stated, values, strict=True)):
            entry.fail(key, found=show(stated), expected=f"{show(values)}, the default of these joints")
