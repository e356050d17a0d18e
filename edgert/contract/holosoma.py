"""holosoma (amazon-far): locomotion and whole-body tracking, terms in alphabetical order.

Every file names joints and gains. Newer ones carry `experiment_config`, the trainer's whole configuration, which gives
the pose, the terms, the scales and the rate too; older ones leave those to the user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgert.contract.foreign import TIME_STEP, Draft, one_bound, only_input, twist
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import MAX_HISTORY
from edgert.contract.metadata import Metadata
from edgert.contract.plausible import doubtful_gains, put_terms, unknown_terms
from edgert.contract.terms import TermSizes
from edgert.errors import ContractError
from edgert.tables import Table, is_number

SOURCE: Final = "metadata of holosoma"
CONFIG: Final = "experiment_config"
_CONFIGURED: Final = f"{SOURCE}, {CONFIG}"
_KEYS: Final = ("dof_names", "kp", "kd")
_MORE: Final = ("command_ranges", "robot_urdf", CONFIG)
_TERMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "actions": {"name": "last_action"},
    "base_ang_vel": {"name": "base_ang_vel"},
    "base_lin_vel": {"name": "base_lin_vel"},
    "command_ang_vel": {"name": "command", "index": [2]},
    "command_lin_vel": {"name": "command", "index": [0, 1]},
    "cos_phase": {"name": "cos_phase"},
    "dof_pos": {"name": "joint_pos"},
    "dof_vel": {"name": "joint_vel"},
    "motion_command": {"name": "motion_command"},
    "motion_ref_ori_b": {"name": "motion_anchor_ori_b"},
    "motion_ref_pos_b": {"name": "motion_anchor_pos_b"},
    "projected_gravity": {"name": "projected_gravity"},
    "sin_phase": {"name": "sin_phase"},
}
_RANGES: Final = {"lin_vel_x": "vx_m_s", "lin_vel_y": "vy_m_s", "ang_vel_yaw": "wz_rad_s"}
_OUTPUTS: Final = {
    **{"joint_pos": "joint_pos", "joint_vel": "joint_vel"},
    **{"anchor_pos": "ref_pos_xyz", "anchor_quat": "ref_quat_xyzw"},
}
_CLIP: Final = 100.0
"""Bound of the raw action in both of holosoma's runtimes."""


class Holosoma:
    """The reader; see `edgert.contract.formats`."""

    files = ()
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = [key for key in (*_KEYS, *_MORE) if key in found.metadata]
        clear = keys[: len(_KEYS)] == list(_KEYS) or (_KEYS[0] in keys and CONFIG in keys)
        return f"metadata {', '.join(keys)}" if clear else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        values = Metadata(found.metadata, found.model)
        config = values.table(CONFIG) if values.has(CONFIG) else None
        draft = Draft({"schema": 1})
        names = _joints(values, config, draft)
        nact = _action(found, values, config, draft, names)
        tracks = TIME_STEP in found.inputs or _inner(config, "command", "setup_terms", "motion_command") is not None
        if tracks:
            _motion(found, config, draft)
        else:
            ranges = values.table("command_ranges") if values.has("command_ranges") else None
            draft.document["command"] = twist(ranges, _RANGES)
        _rate(config, draft)
        terms = _terms(found, config, draft)
        phases = _phase(config, draft, terms) if not tracks else 0
        sizes = TermSizes(njoint=len(names), nact=nact, ncommand=3, nphase=phases, nmotion=1 if tracks else 0)
        _inputs(found, draft, terms, sizes)
        return draft.reading(SOURCE)


HOLOSOMA: Final = Holosoma()


def _inner(table: Table | None, *path: str) -> Table | None:
    """A table inside another one; None where it is missing or null."""
    for name in path:
        if table is None or table.raw(name, None) is None:
            return None
        table = table.table(name)
    return table


def _joints(values: Metadata, config: Table | None, draft: Draft) -> list[str]:
    names = values.names("dof_names")
    robot = _inner(config, "robot")
    if robot is not None and robot.has("dof_names") and list(robot.names("dof_names")) != names:
        values.fail("dof_names", found="other joints than experiment_config", expected="the same ones in one order")
    joints: dict[str, Any] = {"names": names}
    kp, kd, source = _gains(values, robot, names, draft)
    why = doubtful_gains(kp, kd, "kp and kd") if kp and kd else "neither in 'kp' and 'kd' nor in the configuration"
    if why:
        draft.reasons |= dict.fromkeys(("joints.kp", "joints.kd"), why)
    else:
        joints |= {"kp": kp, "kd": kd}
        draft.sources |= dict.fromkeys(("joints.kp", "joints.kd"), source)
    angles = _inner(robot, "init_state", "default_joint_angles")
    pose = None if angles is None else _by_part(angles, names)
    if pose is None:
        lacking = "not in files of older versions" if angles is None else f"{CONFIG} does not give it for every joint"
        draft.reasons["joints.default_pos"] = lacking
    else:
        joints["default_pos"] = pose
        draft.sources["joints.default_pos"] = _CONFIGURED
    draft.document["joints"] = joints
    return names


def _gains(
    values: Metadata, robot: Table | None, names: Sequence[str], draft: Draft
) -> tuple[list[float], list[float], str]:
    """kp, kd and their source: the configuration first, which later versions of the metadata are made from."""
    stated = [_per_joint(values, key, names) if values.has(key) else [] for key in ("kp", "kd")]
    tables = [_inner(robot, "control", key) for key in ("stiffness", "damping")]
    known = [None if table is None else _by_part(table, names) for table in tables]
    kp, kd = known
    if kp is None or kd is None or not any(kp):
        return stated[0], stated[1], SOURCE
    for key, gains, said in zip(("kp", "kd"), (kp, kd), stated, strict=True):
        pairs = zip(names, gains, said, strict=False)
        other = [each for each in pairs if not math.isclose(each[1], each[2], rel_tol=1e-3, abs_tol=1e-6)]
        if other:
            name, gain, instead = other[0]
            draft.notes.append(
                f"{key} {gain:g} for {name} is that of {CONFIG}, which counts before {instead:g} in '{key}'"
            )
    return kp, kd, _CONFIGURED


def _per_joint(values: Metadata, key: str, names: Sequence[str]) -> list[float]:
    """Numbers in the order of the joints; a table is by name, or by part of a name."""
    if not isinstance(values.value(key), dict):
        return values.numbers(key, len(names), "joint")
    numbers = _by_part(values.table(key), names)
    if numbers is None:
        values.fail(key, found=", ".join(values.table(key).data), expected=f"a number for each of {', '.join(names)}")
    return numbers


def _by_part(table: Table, names: Sequence[str]) -> list[float] | None:
    """The number of each joint in a table by name or by part of a name; None if one has none, or several."""
    numbers = []
    for name in names:
        parts = [name] if name in table.data else [part for part in table.data if part in name]
        if len(parts) != 1:
            return None
        numbers.append(table.number(parts[0]))
    return numbers


def _action(found: Evidence, values: Metadata, config: Table | None, draft: Draft, names: Sequence[str]) -> int:
    """What the network's numbers do; how many there are."""
    output = next((name for name in ("action", "actions") if name in found.outputs), None)
    shape = found.outputs[output] if output else ()
    nact = shape[-1] if shape and isinstance(shape[-1], int) else len(names)
    if nact != len(names):
        raise ContractError(
            f"policy {found.model} has {nact} actions", expected=f"{len(names)}, one for each joint of dof_names"
        )
    action: dict[str, Any] = {} if output is None else {"output": output}
    control = _inner(config, "robot", "control")
    kp = draft.document["joints"].get("kp", ())
    scale, why = _scale(values, _inner(config, "robot"), control, names, kp)
    if scale is None:
        draft.reasons["action.scale"] = why
    else:
        action["scale"] = scale
        draft.sources["action.scale"] = why
    _check_term(config)
    if control is None:
        action["clip"] = [-_CLIP, _CLIP]
        draft.sources["action.clip"] = "assumed: as in holosoma's own runtime"
    elif control.flag("clip_actions", False):
        limit = control.number("action_clip_value", above=0.0)
        action["clip"] = [-limit, limit]
        draft.sources["action.clip"] = _CONFIGURED
    draft.document["action"] = action
    return nact


def _configured_scale(control: Table, names: Sequence[str]) -> list[float] | float | None:
    """One number for all, a list, or a table by parts of joint names; None where there is none."""
    value = control.raw("action_scale", None)
    if value is None:
        return None
    if isinstance(value, list):
        return list(control.numbers("action_scale", length=len(names)))
    return _by_part(control.table("action_scale"), names) if isinstance(value, dict) else control.number("action_scale")


def _scale(
    values: Metadata, robot: Table | None, control: Table | None, names: Sequence[str], kp: Sequence[float]
) -> tuple[list[float] | float | None, str]:
    """The scale of the actions and its source; None and why there is none."""
    if robot is not None and control is not None:
        if control.text("control_type", "P") != "P":
            control.fail("control_type", found=control.raw("control_type"), expected="P, position targets")
        scale = _configured_scale(control, names)
        if scale is not None and not control.flag("action_scales_by_effort_limit_over_p_gain", False):
            return scale, _CONFIGURED
        if scale is not None and not kp:
            return None, f"{CONFIG} has it as effort / kp, and kp is not known"
        if scale is not None:
            each = scale if isinstance(scale, list) else [scale] * len(names)
            effort = robot.numbers("dof_effort_limit_list", length=len(names))
            rows = zip(each, effort, kp, strict=True)
            return [factor * limit / gain if gain else 0.0 for factor, limit, gain in rows], _CONFIGURED
    if values.has("action_scale"):
        scales = values.numbers("action_scale")
        if len(scales) not in (1, len(names)):
            values.fail("action_scale", found=f"{len(scales)} numbers", expected=f"1 or {len(names)}")
        return (scales if len(scales) > 1 else scales[0]), SOURCE
    return None, "not in files of older versions"


def _check_term(config: Table | None) -> None:
    """Refuse ways to act other than joint positions."""
    terms = _inner(config, "action", "terms")
    for name in terms.data if terms is not None else ():
        term = _inner(terms, name)
        kind = term.text("func", "JointPositionActionTerm").rpartition(":")[2] if term is not None else ""
        if term is not None and kind != "JointPositionActionTerm":
            term.fail("func", found=kind, expected="JointPositionActionTerm")


def _motion(found: Evidence, config: Table | None, draft: Draft) -> None:
    outputs = {ours: theirs for ours, theirs in _OUTPUTS.items() if theirs in found.outputs}
    motion: dict[str, Any] = {"quat_order": "xyzw"}
    if TIME_STEP in found.inputs:
        motion |= {"time_step": TIME_STEP, "outputs": outputs}
    else:
        draft.reasons["motion.file"] = "the network was exported without its reference motion"
    settings = _inner(config, "command", "setup_terms", "motion_command", "params", "motion_config")
    bodies = settings.names("body_name_ref") if settings is not None and settings.has("body_name_ref") else ()
    if len(bodies) == 1:
        motion["anchor"] = bodies[0]
        draft.sources["motion.anchor"] = _CONFIGURED
    else:
        draft.reasons["motion.anchor"] = "the body whose pose the reference gives; torso_link of a G1 in holosoma"
    draft.document["motion"] = motion


def _rate(config: Table | None, draft: Draft) -> None:
    sim = _inner(config, "simulator", "config", "sim")
    if sim is not None and sim.has("fps") and sim.has("control_decimation"):
        draft.document["control_hz"] = sim.number("fps", above=0.0) / sim.integer("control_decimation", lo=1)
        draft.sources["control_hz"] = _CONFIGURED


def _terms(found: Evidence, config: Table | None, draft: Draft) -> list[dict[str, Any]]:
    """The terms in alphabetical order, as holosoma concatenates them; none if the file does not list them."""
    group = _inner(config, "observation", "groups", "actor_obs")
    if group is None:
        return []
    history = group.integer("history_length", 1, lo=1, hi=MAX_HISTORY)
    table = group.table("terms")
    return [_term(table, key, history) for key in sorted(table.data)]


def _term(table: Table, key: str, history: int) -> dict[str, Any]:
    """One term; one that is unknown keeps holosoma's name under "unknown"."""
    entry = table.table(key)
    kind = entry.text("func", key).rpartition(":")[2]
    term = dict(_TERMS.get(kind, {"name": "", "unknown": kind}))
    if entry.raw("history_length", None) is not None:
        history = entry.integer("history_length", lo=1, hi=MAX_HISTORY)
    term["history"] = history
    if entry.raw("scale", None) is not None:
        scale = entry.raw("scale")
        term["scale"] = entry.number("scale") if is_number(scale) else list(entry.numbers("scale"))
    clip = one_bound(entry, "clip")
    if clip is not None:
        term["clip"] = clip
    return term


def _inputs(found: Evidence, draft: Draft, terms: list[dict[str, Any]], sizes: TermSizes) -> None:
    name = only_input(found, SOURCE)
    why = unknown_terms([term["unknown"] for term in terms if "unknown" in term], _TERMS)
    if not terms:
        why = "in alphabetical order of holosoma's names; not in files of older versions"
    if not put_terms(draft, found, name, terms, sizes, why):
        return
    draft.sources[f"inputs.{name}.terms"] = _CONFIGURED
    if any(term["history"] > 1 for term in terms):
        draft.document["inputs"][name]["fill"] = "zero"  # as holosoma's histories begin
    if any(term["name"] == "base_lin_vel" for term in terms):
        draft.notes.append("base_lin_vel is taken at the base's origin; the file does not say at which point it was")


def _phase(config: Table | None, draft: Draft, terms: Sequence[Mapping[str, Any]]) -> int:
    """The gait clock outside the network: two legs, half a turn apart, both at π while the command is zero."""
    if terms and not any(term["name"] in ("sin_phase", "cos_phase") for term in terms):
        return 0
    gait = _inner(config, "command", "setup_terms", "locomotion_gait", "params")
    hz = 1.0 / gait.number("gait_period", lo=1e-3) if gait is not None and gait.has("gait_period") else 1.0
    draft.document["phase"] = {"hz": hz, "offsets_rad": [0.0, math.pi], "still_rad": math.pi}
    known = gait is not None and gait.has("gait_period")
    assumed = "assumed: as in holosoma's own runtime"
    draft.sources |= {"phase.hz": _CONFIGURED if known else assumed}
    draft.sources |= dict.fromkeys(("phase.offsets_rad", "phase.still_rad"), assumed)
    rate = "" if known else f" at {hz:g} Hz"
    draft.notes.append(f"the gait clock runs{rate} with two phases, and stands at π while the command is zero")
    return 2
